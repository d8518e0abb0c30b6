// Sorts of plain unsigned numbers: what every sort by keys comes down to.
//
// With AVX-512 a quicksort whose partition is a compressing store and whose leaves are bitonic
// networks in registers; elsewhere a radix sort that skips digits that are all the same. What rises
// or falls already is only looked at.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "hl.h"

namespace hloom {

// `scratch` has room for n + 16 values; ctx may be null (then no threads are used).
void sort_values(hl_context* ctx, uint16_t* values, uint16_t* scratch, size_t n);
void sort_values(hl_context* ctx, uint32_t* values, uint32_t* scratch, size_t n);
void sort_values(hl_context* ctx, uint64_t* values, uint64_t* scratch, size_t n);
// The k smallest, in order, before the others: parts that hold only others are left as they are.
void sort_first(hl_context* ctx, uint32_t* values, uint32_t* scratch, size_t n, size_t k);
void sort_first(hl_context* ctx, uint64_t* values, uint64_t* scratch, size_t n, size_t k);
// For tests and benchmarks: the same without vectors.
void radix_sort(uint32_t* values, uint32_t* scratch, size_t n);
void radix_sort(uint64_t* values, uint64_t* scratch, size_t n);

}  // namespace hloom
