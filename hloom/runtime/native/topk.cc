// How the k first are found: elements become unsigned keys (sort_keys.h) block by block, and whole
// groups of 64 keys are passed over in a few vector compares unless one is below the k-th key so
// far. What gets through is kept as (key, place) and cut back to k when there are twice as many.
// Where k is small the k first so far are kept in order, and each that gets through is put among
// them, or in short rows among those of a lane (topk_few.h).
#include "topk.h"

#include <string.h>

#include <algorithm>

#include "instruction_set.h"
#include "scratch.h"
#include "sort_keys.h"
#include "sort_values.h"
#include "steps.h"
#include "topk_few.h"

namespace hloom {
namespace {

constexpr int64_t kBlock = 4096;     // keys that are made at once: they stay in the L1 cache
constexpr int64_t kPiece = 1 << 17;  // a long row is cut from this on

// The first group at or after `start` that holds a key below the limit; n if there is none.
template <class U>
inline __attribute__((always_inline)) int64_t next_group(const U* keys, int64_t n, int64_t start,
                                                         U limit) {
  int64_t g = start;
  for (; g + 8 * kGroup <= n && !any_below<8 * kGroup>(keys + g, limit);) g += 8 * kGroup;
  for (; g + kGroup <= n; g += kGroup)
    if (any_below<kGroup>(keys + g, limit)) return g;
  return g < n ? g : n;
}

HLOOM_CLONES int64_t next1(const uint8_t* k, int64_t n, int64_t s, uint8_t l) {
  return next_group(k, n, s, l);
}
HLOOM_CLONES int64_t next2(const uint16_t* k, int64_t n, int64_t s, uint16_t l) {
  return next_group(k, n, s, l);
}
HLOOM_CLONES int64_t next4(const uint32_t* k, int64_t n, int64_t s, uint32_t l) {
  return next_group(k, n, s, l);
}
HLOOM_CLONES int64_t next8(const uint64_t* k, int64_t n, int64_t s, uint64_t l) {
  return next_group(k, n, s, l);
}
inline int64_t next(const uint8_t* k, int64_t n, int64_t s, uint8_t l) { return next1(k, n, s, l); }
inline int64_t next(const uint16_t* k, int64_t n, int64_t s, uint16_t l) {
  return next2(k, n, s, l);
}
inline int64_t next(const uint32_t* k, int64_t n, int64_t s, uint32_t l) {
  return next4(k, n, s, l);
}
inline int64_t next(const uint64_t* k, int64_t n, int64_t s, uint64_t l) {
  return next8(k, n, s, l);
}

struct Topk {
  hl_context* context;
  int64_t rows, n, k;
  const KeyType* type;
  const char* in;
  char* values;
  int32_t* indices;
  int64_t pieces;  // into which the one row is cut
  void* kept;      // what the pieces found
  int64_t* many;
  int32_t status;
};

int64_t room_for(int64_t k) { return 2 * k + kGroup + 64; }

// Of elements [begin, end) of a row the k first, in any order; how many is returned.
template <class U>
int64_t select(const Topk& t, const char* row, int64_t begin, int64_t end, U* keys,
               Found<U>* kept) {
  int64_t many = 0, cut = 2 * t.k + 32;
  bool full = false;
  U limit = (U) ~(U)0;
  for (int64_t base = begin; base < end; base += kBlock) {
    int64_t n = std::min(kBlock, end - base), i = 0;
    t.type->keys(row + base * (int64_t)sizeof(U), 1, n, keys);
    while (i < n) {
      if (full && (i = next(keys, n, i, limit)) == n) break;
      int64_t stop = std::min(n, i + kGroup);
      for (; i < stop; i++)
        if (!full || keys[i] < limit) kept[many++] = found<U>(keys[i], base + i);
      if (many > cut) {
        std::nth_element(kept, kept + t.k - 1, kept + many);
        many = t.k, full = true;
        limit = (U)(kept[t.k - 1] >> 32);
      }
    }
  }
  if (many > t.k) {
    std::nth_element(kept, kept + t.k - 1, kept + many);
    many = t.k;
  }
  return many;
}

// The k first, which are in order.
template <class U>
void write_sorted(const Topk& t, int64_t row, const Found<U>* kept) {
  const U* x = (const U*)t.in + row * t.n;
  for (int64_t i = 0; i < t.k; i++) {
    uint32_t place = (uint32_t)kept[i];
    if (t.indices) t.indices[row * t.k + i] = (int32_t)place;
    if (t.values) ((U*)t.values)[row * t.k + i] = x[place];
  }
}

// The values of the k first of a row, where nobody asks for places: one sort of numbers without
// them. False where different values were made equal.
template <class U>
bool write_values(const Topk& t, int64_t row, hl_context* ctx, U* keys, U* spare) {
  if (t.type->keys(t.in + row * t.n * (int64_t)sizeof(U), 1, t.n, keys)) return false;
  sort_first(ctx, keys, spare, t.n, t.k);
  t.type->values(keys, t.k, t.values + row * t.k * (int64_t)sizeof(U));
  return true;
}

template <class U>
void write(const Topk& t, int64_t row, Found<U>* kept, uint64_t* spare) {
  if constexpr (sizeof(U) == 8) std::sort(kept, kept + t.k);
  else sort_values(nullptr, kept, spare, t.k);
  write_sorted<U>(t, row, kept);
}

// When much of the row is wanted, it is sorted but for parts that are not.
template <class U>
bool take_all(const Topk& t) {
  return (sizeof(U) < 8 || !t.indices) && t.n <= 16 * t.k;
}

// The k first of a row, at these places.
template <class U>
void write_places(const Topk& t, int64_t row, const uint32_t* places) {
  const U* x = (const U*)t.in + row * t.n;
  for (int64_t i = 0; i < t.k; i++) {
    if (t.indices) t.indices[row * t.k + i] = (int32_t)places[i];
    if (t.values) ((U*)t.values)[row * t.k + i] = x[places[i]];
  }
}

// Short rows, as many at a time as there are lanes; the first row that is left is returned.
template <class U>
int64_t rows_in_lanes(const Topk& t, int64_t begin, int64_t end, U* keys) {
  constexpr int64_t kLanes = KeyLanes<U>::kCount;
  uint32_t places[kLanes * kFew];
  for (; begin + kLanes <= end; begin += kLanes) {
    t.type->keys(t.in + begin * t.n * (int64_t)sizeof(U), 1, kLanes * t.n, keys);
    few_in_lanes<U>(keys, t.n, t.k, places);
    for (int64_t i = 0; i < kLanes; i++) write_places<U>(t, begin + i, places + i * t.k);
  }
  return begin;
}

// Rows of which few are wanted.
template <class U>
void few_of_rows(Topk& t, int64_t begin, int64_t end) {
  bool lanes = t.n <= kLaneKeys * t.k;
  Scratch<U> keys(t.context, std::max(kBlock, lanes ? KeyLanes<U>::kCount * t.n : 0));
  if (!keys) {
    t.status = HL_RESOURCE_EXHAUSTED;
    return;
  }
  if (lanes) begin = rows_in_lanes<U>(t, begin, end, keys.get());
  Found<U> kept[kFew];
  int64_t together = std::max<int64_t>(1, kBlock / t.n);
  for (int64_t r = begin; r < end; r += together) {
    int64_t rows = std::min(together, end - r);
    const char* row = t.in + r * t.n * (int64_t)sizeof(U);
    if (t.n <= kBlock) {
      t.type->keys(row, 1, rows * t.n, keys.get());
      for (int64_t i = 0; i < rows; i++) {
        few<U>(keys + i * t.n, t.n, 0, t.k, kept, 0);
        write_sorted<U>(t, r + i, kept);
      }
      continue;
    }
    int64_t many = 0;
    for (int64_t base = 0; base < t.n; base += kBlock) {
      int64_t n = std::min(kBlock, t.n - base);
      t.type->keys(row + base * (int64_t)sizeof(U), 1, n, keys.get());
      many = few<U>(keys.get(), n, base, t.k, kept, many);
    }
    write_sorted<U>(t, r, kept);
  }
}

template <class U>
void rows_of(void* args, int64_t begin, int64_t end) {
  auto& t = *(Topk*)args;
  if (t.k <= kFew) return few_of_rows<U>(t, begin, end);
  bool all = take_all<U>(t);
  hl_context* inside = t.rows == 1 ? t.context : nullptr;  // threads work inside the one row
  int64_t room = std::max(room_for(t.k), all ? t.n + 64 : 0);
  Scratch<U> keys(t.context, std::max<int64_t>(kBlock, all ? t.n : 0));
  Scratch<Found<U>> kept(t.context, room);
  Scratch<uint64_t> spare(t.context, room);
  if (!keys || !kept || !spare) {
    t.status = HL_RESOURCE_EXHAUSTED;
    return;
  }
  for (int64_t r = begin; r < end; r++) {
    const char* row = t.in + r * t.n * (int64_t)sizeof(U);
    if constexpr (sizeof(U) >= 4)
      if (all && !t.indices && write_values<U>(t, r, inside, keys.get(), (U*)spare.get())) continue;
    if constexpr (sizeof(U) < 8)
      if (all) {
        t.type->keys(row, 1, t.n, keys.get());
        for (int64_t i = 0; i < t.n; i++) kept[i] = found<U>(keys[i], i);
        sort_first(inside, kept.get(), spare.get(), t.n, t.k);
        write_sorted<U>(t, r, kept.get());
        continue;
      }
    select<U>(t, row, 0, t.n, keys.get(), kept.get());
    write<U>(t, r, kept.get(), spare.get());
  }
}

template <class U>
void pieces_of(void* args, int64_t begin, int64_t end) {
  auto& t = *(Topk*)args;
  Scratch<U> keys(t.context, kBlock);
  if (!keys) {
    t.status = HL_RESOURCE_EXHAUSTED;
    return;
  }
  for (int64_t p = begin; p < end; p++)
    t.many[p] = select<U>(t, t.in, t.n * p / t.pieces, t.n * (p + 1) / t.pieces, keys.get(),
                          (Found<U>*)t.kept + p * room_for(t.k));
}

template <class U>
int32_t one_row(Topk& t) {
  Scratch<Found<U>> kept(t.context, t.pieces * room_for(t.k));
  Scratch<uint64_t> spare(t.context, t.k + 64);
  Scratch<int64_t> many(t.context, t.pieces);
  if (!kept || !spare || !many) return HL_RESOURCE_EXHAUSTED;
  t.kept = kept.get(), t.many = many.get();
  hl_parallel_for(t.context, pieces_of<U>, &t, t.pieces, 1);
  int64_t total = 0;
  for (int64_t p = 0; p < t.pieces; p++)
    for (int64_t i = 0; i < many[p]; i++) kept[total++] = kept[p * room_for(t.k) + i];
  if (total > t.k) std::nth_element(kept.get(), kept + t.k - 1, kept + total);
  write<U>(t, 0, kept.get(), spare.get());
  return HL_OK;
}

template <class U>
int32_t run(Topk& t) {
  t.pieces = std::min<int64_t>(t.context->threads, t.n / (kPiece / 2));
  if (t.rows == 1 && t.n >= kPiece && t.pieces > 1 && !take_all<U>(t) && t.k * 8 < t.n / t.pieces)
    return one_row<U>(t);
  int64_t grain = std::max<int64_t>(1, 8192 / t.n);
  if (t.rows == 1) rows_of<U>(&t, 0, 1);
  else hl_parallel_for(t.context, rows_of<U>, &t, t.rows, grain);
  return t.status
             ? hl_set_error(t.context, t.status, "topk: no memory for rows of %lld", (long long)t.n)
             : HL_OK;
}

}  // namespace
}  // namespace hloom

HL_API int32_t hl_topk(hl_context* ctx, int64_t rows, int64_t n, int64_t k, int64_t dtype,
                       int64_t flags, const void* in, void* values, int32_t* indices) {
  hloom::StepSpan step(ctx, nullptr, "topk");
  using namespace hloom;
  if (k < 0 || k > n || n >= (int64_t)1 << 31)
    return hl_set_error(ctx, HL_INVALID_ARGUMENT, "topk: cannot take %lld elements of rows of %lld",
                        (long long)k, (long long)n);
  KeyType type(dtype, flags);
  if (type.bytes == 0)
    return hl_set_error(ctx, HL_INVALID_ARGUMENT, "topk: no order for type %lld", (long long)dtype);
  if (rows == 0 || k == 0) return HL_OK;
  Topk t{ctx,           rows,    n, k,       &type,   (const char*)in,
         (char*)values, indices, 0, nullptr, nullptr, HL_OK};
  switch (type.bytes) {
    case 1:
      return run<uint8_t>(t);
    case 2:
      return run<uint16_t>(t);
    case 4:
      return run<uint32_t>(t);
    default:
      return run<uint64_t>(t);
  }
}
