// LAPACK routines that were found at run time, by name; see hloom/runtime/lapack.py.
#pragma once
#include "hl.h"

#ifdef __cplusplus
extern "C" {
#endif

// Name without prefix or suffix ("spotrf"); integer_bytes is 4 or 8. A null function removes it.
int32_t hl_lapack_register(const char* name, void* function, int64_t integer_bytes);
void* hl_lapack_find(const char* name, int64_t* integer_bytes);

#ifdef __cplusplus
}
#endif
