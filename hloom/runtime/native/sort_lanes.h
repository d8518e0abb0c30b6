// Sorts of many short sequences: one in each lane of vectors.
#pragma once
#include "hl.h"
#include "sort_keys.h"

namespace hloom {

// What is sorted: arrays of outer x n x inner elements, along n, by one key.
struct LaneSort {
  int64_t n, inner, sequences, count;
  const void* const* in;  // null: the places themselves
  void* const* out;       // null: nobody asks
  const int64_t* sizes;
  int64_t key;  // which operand
  const KeyType& type;
};

// Whether sequences are so short, and so many, that lanes are the fastest.
bool goes_by_lanes(const LaneSort& s);

// Sequences that are sorted together.
int64_t lanes_of(const LaneSort& s);

// Sequences [first, first + many) in order, equal ones in that which they had; many is at most
// `lanes_of`. False where there is no memory.
bool sort_lanes(hl_context* ctx, const LaneSort& s, int64_t first, int64_t many);

}  // namespace hloom
