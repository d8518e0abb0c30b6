// Sorting of arrays along one dimension, by keys or by a compiled comparator. See ROUTINES.md.
#pragma once
#include <stdint.h>

#include "hl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HL_KEY_DESCENDING = 1, HL_KEY_EQUAL_ZEROS = 2, HL_KEY_EQUAL_NANS = 4 };

typedef int8_t (*hl_less)(const void* const* elements);

int32_t hl_sort_keys(hl_context* ctx, int64_t outer, int64_t n, int64_t inner, int64_t count,
                     const void* const* in, void* const* out, const int64_t* sizes,
                     int64_t key_count, const int64_t* keys, int64_t is_stable);
int32_t hl_sort_compare(hl_context* ctx, int64_t outer, int64_t n, int64_t inner, int64_t count,
                        const void* const* in, void* const* out, const int64_t* sizes, hl_less less,
                        int64_t is_stable);

#ifdef __cplusplus
}
#endif
