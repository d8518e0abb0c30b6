// The k first elements of rows. See ROUTINES.md.
#pragma once
#include "hl.h"

#ifdef __cplusplus
extern "C" {
#endif

int32_t hl_topk(hl_context* ctx, int64_t rows, int64_t n, int64_t k, int64_t dtype, int64_t flags,
                const void* in, void* values, int32_t* indices);

#ifdef __cplusplus
}
#endif
