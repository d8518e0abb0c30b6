// The k first of a row where k is small: no more than kFew are kept, always in order.
//
// Of long rows most keys are passed over, and what is below the k-th so far is put among those kept.
// Where rows are short each key may be, and no branch foresees which: there a lane has a row, and
// every key goes down past all that are kept, whatever comes of it.
#pragma once
#include <stdint.h>

#include <algorithm>
#include <type_traits>

#include "instruction_set.h"

namespace hloom {

constexpr int64_t kGroup = 64;     // keys that are passed over together
constexpr int64_t kFew = 16;       // so many are kept in order
constexpr int64_t kLaneKeys = 64;  // for each that is wanted, rows of so many keys are short

// Whether one of `Many` keys is below the limit.
template <int Many, class U>
inline __attribute__((always_inline)) bool any_below(const U* keys, U limit) {
  U below = 0;
  for (int i = 0; i < Many; i++) below |= (U)(keys[i] < limit);
  return below != 0;
}

// Key and place in one number, so that equal keys are ordered by place.
template <class U>
using Found = std::conditional_t<sizeof(U) == 8, unsigned __int128, uint64_t>;

template <class U>
Found<U> found(U key, int64_t place) {
  return (Found<U>)key << 32 | (Found<U>)place;
}

// The k first of n keys, in order, of which `many` are known; the keys are those of places from
// `base` on. How many are known afterwards is returned. `kept` has room for k.
template <class U>
inline __attribute__((always_inline)) int64_t few_of(const U* keys, int64_t n, int64_t base,
                                                     int64_t k, Found<U>* kept, int64_t many) {
  auto put = [&](int64_t i) __attribute__((always_inline)) {
    Found<U> x = found<U>(keys[i], base + i);
    int64_t at = many < k ? many++ : k - 1;
    for (; at > 0 && x < kept[at - 1]; at--) kept[at] = kept[at - 1];
    kept[at] = x;
  };
  int64_t i = 0;
  for (; i < n && many < k; i++) put(i);
  if (i == n) return many;
  constexpr int64_t kSmall = 16;
  U limit = (U)(kept[k - 1] >> 32);
  while (i < n) {
    if (i + kGroup <= n && !any_below<kGroup>(keys + i, limit)) {
      i += kGroup;
      continue;
    }
    int64_t stop = std::min(n, i + kGroup);
    for (; i < stop;) {
      if (i + kSmall <= stop && !any_below<kSmall>(keys + i, limit)) {
        i += kSmall;
        continue;
      }
      int64_t end = std::min(stop, i + kSmall);
      for (; i < end; i++)
        if (keys[i] < limit) put(i), limit = (U)(kept[k - 1] >> 32);
    }
  }
  return many;
}

HLOOM_CLONES static int64_t few1(const uint8_t* keys, int64_t n, int64_t base, int64_t k,
                                 uint64_t* kept, int64_t many) {
  return few_of<uint8_t>(keys, n, base, k, kept, many);
}
HLOOM_CLONES static int64_t few2(const uint16_t* keys, int64_t n, int64_t base, int64_t k,
                                 uint64_t* kept, int64_t many) {
  return few_of<uint16_t>(keys, n, base, k, kept, many);
}
HLOOM_CLONES static int64_t few4(const uint32_t* keys, int64_t n, int64_t base, int64_t k,
                                 uint64_t* kept, int64_t many) {
  return few_of<uint32_t>(keys, n, base, k, kept, many);
}
HLOOM_CLONES static int64_t few8(const uint64_t* keys, int64_t n, int64_t base, int64_t k,
                                 unsigned __int128* kept, int64_t many) {
  return few_of<uint64_t>(keys, n, base, k, kept, many);
}
template <class U>
inline int64_t few(const U* keys, int64_t n, int64_t base, int64_t k, Found<U>* kept,
                   int64_t many) {
  if constexpr (sizeof(U) == 1) return few1(keys, n, base, k, kept, many);
  else if constexpr (sizeof(U) == 2) return few2(keys, n, base, k, kept, many);
  else if constexpr (sizeof(U) == 4) return few4(keys, n, base, k, kept, many);
  else return few8(keys, n, base, k, kept, many);
}

// Vectors of keys, and of places that are as wide.
template <class U>
struct KeyLanes {
  using Word = std::conditional_t<sizeof(U) == 8, uint64_t, uint32_t>;
  typedef Word Vector __attribute__((vector_size(64)));
  static constexpr int64_t kCount = 64 / sizeof(Word);
};

// The places of the k first keys of as many rows of n keys as there are lanes; k <= n.
template <class U>
inline __attribute__((always_inline)) void lanes_of(const U* keys, int64_t n, int64_t k,
                                                    uint32_t* places) {
  using V = typename KeyLanes<U>::Vector;
  using W = typename KeyLanes<U>::Word;
  constexpr int64_t kLanes = KeyLanes<U>::kCount;
  V best[kFew], at[kFew];
  for (int64_t c = 0; c < n; c++) {
    V key, place = V{} + (W)c;
    for (int64_t i = 0; i < kLanes; i++) key[i] = keys[i * n + c];
    // What the key is below goes one further: from a place on all of it, equal keys in order.
    V carried = key;
    int64_t known = std::min(c, k);
    for (int64_t j = 0; j < known; j++) {
      V below = (V)(key < best[j]), old = best[j], where = at[j];
      best[j] = (carried & below) | (old & ~below);
      at[j] = (place & below) | (where & ~below);
      carried = (old & below) | (carried & ~below);
      place = (where & below) | (place & ~below);
    }
    if (known < k) best[known] = carried, at[known] = place;
  }
  for (int64_t i = 0; i < kLanes; i++)
    for (int64_t j = 0; j < k; j++) places[i * k + j] = (uint32_t)at[j][i];
}

HLOOM_CLONES static void lanes1(const uint8_t* keys, int64_t n, int64_t k, uint32_t* places) {
  lanes_of(keys, n, k, places);
}
HLOOM_CLONES static void lanes2(const uint16_t* keys, int64_t n, int64_t k, uint32_t* places) {
  lanes_of(keys, n, k, places);
}
HLOOM_CLONES static void lanes4(const uint32_t* keys, int64_t n, int64_t k, uint32_t* places) {
  lanes_of(keys, n, k, places);
}
HLOOM_CLONES static void lanes8(const uint64_t* keys, int64_t n, int64_t k, uint32_t* places) {
  lanes_of(keys, n, k, places);
}
template <class U>
inline void few_in_lanes(const U* keys, int64_t n, int64_t k, uint32_t* places) {
  if constexpr (sizeof(U) == 1) lanes1(keys, n, k, places);
  else if constexpr (sizeof(U) == 2) lanes2(keys, n, k, places);
  else if constexpr (sizeof(U) == 4) lanes4(keys, n, k, places);
  else lanes8(keys, n, k, places);
}

}  // namespace hloom
