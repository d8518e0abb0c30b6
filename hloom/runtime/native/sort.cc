// How a sort is done: rows are brought together (tiles of columns when the dimension is not the
// last), their keys become unsigned numbers, and (key, place) packed into one number is sorted:
// that is stable for free, and the places are the permutation by which payloads are gathered.
#include "sort.h"

#include <string.h>

#include <algorithm>
#include <atomic>

#include "scratch.h"
#include "sort_keys.h"
#include "sort_lanes.h"
#include "sort_values.h"
#include "steps.h"

namespace hloom {
namespace {

constexpr int64_t kColumns = 16;     // columns that are sorted together when inner > 1
constexpr int64_t kMost = 1024;      // operands of one sort (MOST_OPERANDS in lower/sort.py)
constexpr int64_t kChunk = 1 << 15;  // elements of short rows that a thread takes at a time
// Eighths of a nanosecond that an element takes for each time that its row can be halved.
constexpr int64_t kDigitNs = 2, kCompareNs = 48;
constexpr int64_t kLaneGain = 4;  // how many times faster short sequences are, one in each lane

struct Key {
  int64_t operand;
  KeyType type;
};

struct Sort {
  hl_context* context;
  int64_t outer, n, inner, count;
  const void* const* in;
  void* const* out;
  const int64_t* sizes;
  Key* keys;
  int64_t key_count;
  hl_less less;
  const void* const* iotas;  // for `less`: memory for operands that are not there
  bool single_row;           // threads work inside the one row
  int32_t status;
};

// One row as it is sorted: pointers to n contiguous elements of every operand.
struct Row {
  const void* in[kMost];
  void* out[kMost];
};

// What a thread needs, allocated once per chunk of rows.
struct Room {
  Scratch<uint64_t> packed, spare, combined;
  Scratch<uint32_t> order, other;
  Room(hl_context* c, int64_t n)
      : packed(c, n + 64),
        spare(c, n + 64),
        combined(c, n + 64),
        order(c, n + 64),
        other(c, n + 64) {}
  bool ok() const { return packed && spare && combined && order && other; }
};

// f(begin, end) for parts of [0, n): side by side where `ctx` has threads for one row.
template <class F>
void in_parts(hl_context* ctx, int64_t n, const F& f) {
  constexpr int64_t kPart = 1 << 15;
  if (!ctx || n < 2 * kPart) return f((int64_t)0, n);
  auto call = [](void* args, int64_t begin, int64_t end) { (*(const F*)args)(begin, end); };
  hl_parallel_for(ctx, call, (void*)&f, n, kPart);
}

template <class T>
void gather_as(hl_context* ctx, const void* in, const uint32_t* order, int64_t n, void* out) {
  in_parts(ctx, n, [=](int64_t begin, int64_t end) {
    const T* x = (const T*)in;
    T* y = (T*)out;
    for (int64_t i = begin; i < end; i++) y[i] = x[order[i]];
  });
}

struct Wide {
  uint64_t low, high;
};

void gather(hl_context* ctx, const void* in, const uint32_t* order, int64_t n, int64_t size,
            void* out) {
  switch (size) {
    case 1:
      return gather_as<uint8_t>(ctx, in, order, n, out);
    case 2:
      return gather_as<uint16_t>(ctx, in, order, n, out);
    case 4:
      return gather_as<uint32_t>(ctx, in, order, n, out);
    case 8:
      return gather_as<uint64_t>(ctx, in, order, n, out);
    default:
      return gather_as<Wide>(ctx, in, order, n, out);
  }
}

void iota(void* out, int64_t n, int64_t size) {
  for (int64_t i = 0; i < n; i++) {
    if (size == 1) ((uint8_t*)out)[i] = (uint8_t)i;
    if (size == 2) ((uint16_t*)out)[i] = (uint16_t)i;
    if (size == 4) ((uint32_t*)out)[i] = (uint32_t)i;
    if (size == 8) ((uint64_t*)out)[i] = (uint64_t)i;
  }
}

int bits_for(uint64_t x) { return x ? 64 - __builtin_clzll(x) : 0; }

// -- orders -------------------------------------------------------------------------------------

// Puts the keys of places that agree in all bits that were sorted into order; `at(i)` is the key of
// the place that came to i. False, with some of it done, where that would take long.
template <class At>
bool settle(const uint64_t* packed, int places, int64_t n, uint32_t* sorted, const At& at) {
  constexpr int64_t kMostMoves = 1 << 14;
  int64_t moves = 0;
  for (int64_t i = 1; i < n; i++) {
    if ((packed[i] ^ packed[i - 1]) >> places) continue;
    uint32_t x = sorted[i];
    uint64_t key = at(x);
    int64_t j = i;
    for (; j > 0 && !((packed[i] ^ packed[j - 1]) >> places) && at(sorted[j - 1]) > key; j--) {
      sorted[j] = sorted[j - 1];
      if (++moves > kMostMoves) return false;
    }
    sorted[j] = x;
  }
  return true;
}

// order = order taken by a stable sort of keys[order]; `first` says that order is still 0, 1, ...
void refine(hl_context* ctx, const uint64_t* keys, int64_t n, bool first, Room& room) {
  uint32_t *order = room.order, *other = room.other;
  uint64_t* packed = room.packed;
  uint64_t low = ~(uint64_t)0, high = 0;
  for (int64_t i = 0; i < n; i++) low = std::min(low, keys[i]), high = std::max(high, keys[i]);
  int places = bits_for((uint64_t)(n - 1));
  int key_bits = bits_for(high - low);
  if (key_bits == 0 && !first) return;
  // What does not fit beside the place is left out at first: it rarely decides.
  int left_out = std::max(0, key_bits + places - 64);
  uint64_t mask = ((uint64_t)1 << places) - 1;
  auto at = [=](uint32_t i) { return keys[first ? i : order[i]]; };
  if (key_bits + places <= 32) {
    uint32_t* narrow = (uint32_t*)packed;
    in_parts(ctx, n, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++)
        narrow[i] = (uint32_t)(at(i) - low) << places | (uint32_t)i;
    });
    sort_values(ctx, narrow, (uint32_t*)room.spare.get(), n);
    for (int64_t i = 0; i < n; i++) other[i] = (uint32_t)(narrow[i] & mask);
  } else {
    in_parts(ctx, n, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++)
        packed[i] = (at(i) - low) >> left_out << places | (uint64_t)i;
    });
    sort_values(ctx, packed, room.spare, n);
    in_parts(ctx, n, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) other[i] = (uint32_t)(packed[i] & mask);
    });
  }
  if (left_out && !settle(packed, places, n, other, at)) {  // low halves, then high halves
    for (int64_t i = 0; i < n; i++) packed[i] = (at(i) - low) << 32 | (uint64_t)i;
    sort_values(ctx, packed, room.spare, n);
    for (int64_t i = 0; i < n; i++) {
      uint32_t x = (uint32_t)packed[i];
      other[i] = first ? x : order[x];
    }
    for (int64_t i = 0; i < n; i++) packed[i] = ((keys[other[i]] - low) >> 32) << 32 | (uint64_t)i;
    sort_values(ctx, packed, room.spare, n);
    for (int64_t i = 0; i < n; i++) order[i] = other[(uint32_t)packed[i]];
    return;
  }
  if (first) {
    memcpy(order, other, n * sizeof *order);
  } else {
    for (int64_t i = 0; i < n; i++) packed[i] = order[other[i]];
    for (int64_t i = 0; i < n; i++) order[i] = (uint32_t)packed[i];
  }
}

// combined = combined << bits of the key | key
void append(const Key& key, const Row& row, int64_t n, bool empty, uint64_t* combined, Room& room) {
  int bits = 8 * key.type.bytes;
  void* keys = room.spare.get();
  switch (key.type.bytes) {
    case 1:
      key.type.keys(row.in[key.operand], 1, n, (uint8_t*)keys);
      break;
    case 2:
      key.type.keys(row.in[key.operand], 1, n, (uint16_t*)keys);
      break;
    case 4:
      key.type.keys(row.in[key.operand], 1, n, (uint32_t*)keys);
      break;
    default:
      key.type.keys(row.in[key.operand], 1, n, empty ? combined : (uint64_t*)keys);
      return;
  }
  for (int64_t i = 0; i < n; i++) {
    uint64_t k = bits == 8    ? ((uint8_t*)keys)[i]
                 : bits == 16 ? ((uint16_t*)keys)[i]
                              : ((uint32_t*)keys)[i];
    combined[i] = empty ? k : combined[i] << bits | k;
  }
}

// The permutation of a row by all keys: groups of keys that fit into 64 bits, last group first.
void order_by_keys(const Sort& s, hl_context* ctx, const Row& row, Room& room) {
  bool first = true;
  int64_t last = s.key_count;
  while (last > 0) {
    int64_t begin = last - 1;
    int bits = 8 * s.keys[begin].type.bytes;
    while (begin > 0 && bits + 8 * s.keys[begin - 1].type.bytes <= 64)
      bits += 8 * s.keys[--begin].type.bytes;
    for (int64_t k = begin; k < last; k++)
      append(s.keys[k], row, s.n, k == begin, room.combined, room);
    refine(ctx, room.combined, s.n, first, room);
    first = false;
    last = begin;
  }
}

// Keys of one operand of a row; whether different values were made equal is returned.
template <class U>
bool row_keys(hl_context* ctx, const Key& key, const Row& row, int64_t n, U* keys) {
  std::atomic<bool> equal{false};
  const char* in = (const char*)row.in[key.operand];
  in_parts(ctx, n, [&](int64_t begin, int64_t end) {
    if (key.type.keys(in + begin * sizeof(U), 1, end - begin, keys + begin))
      equal.store(true, std::memory_order_relaxed);
  });
  return equal.load(std::memory_order_relaxed);
}

// What keys of a row say, where no values were made equal.
template <class U>
void row_values(hl_context* ctx, const Key& key, const U* keys, int64_t n, void* out) {
  in_parts(ctx, n, [=, &key](int64_t begin, int64_t end) {
    key.type.values(keys + begin, end - begin, (char*)out + begin * sizeof(U));
  });
}

template <class U>
bool sort_alone_as(hl_context* ctx, const Key& key, const Row& row, int64_t n, U* keys, U* spare) {
  if (row_keys(ctx, key, row, n, keys)) return false;
  sort_values(ctx, keys, spare, n);
  row_values(ctx, key, keys, n, row.out[0]);
  return true;
}

// A row whose only result is its own key: values are sorted, no places. False: it takes an order.
bool sort_alone(const Sort& s, hl_context* ctx, const Row& row, Room& room) {
  if (s.count != 1 || s.key_count != 1) return false;
  void *keys = room.packed.get(), *spare = room.spare.get();
  switch (s.keys[0].type.bytes) {
    case 2:
      return sort_alone_as(ctx, s.keys[0], row, s.n, (uint16_t*)keys, (uint16_t*)spare);
    case 4:
      return sort_alone_as(ctx, s.keys[0], row, s.n, (uint32_t*)keys, (uint32_t*)spare);
    case 8:
      return sort_alone_as(ctx, s.keys[0], row, s.n, (uint64_t*)keys, (uint64_t*)spare);
    default:
      return false;
  }
}

// Stable counting sort of one-byte keys into room.order.
void order_by_byte(const Key& key, const Row& row, int64_t n, Room& room) {
  uint8_t* keys = (uint8_t*)room.spare.get();
  key.type.keys(row.in[key.operand], 1, n, keys);
  uint32_t counts[256] = {}, at = 0;
  for (int64_t i = 0; i < n; i++) counts[keys[i]]++;
  for (uint32_t& c : counts) {
    uint32_t many = c;
    c = at;
    at += many;
  }
  uint32_t* order = room.order;
  for (int64_t i = 0; i < n; i++) order[counts[keys[i]]++] = (uint32_t)i;
}

// Numbers of the key and, in their low bits, the place: one sort, and the key needs no gather.
template <class U, class P>
void order_by_number_as(const Sort& s, hl_context* ctx, const Row& row, Room& room,
                        bool* key_done) {
  constexpr int kShift = 4 * sizeof(P);
  const Key& key = s.keys[0];
  uint32_t* order = room.order;
  U* keys = (U*)room.other.get();
  P* packed = (P*)room.packed.get();
  void* out = row.out[key.operand];
  bool back = !row_keys(ctx, key, row, s.n, keys) && out;
  in_parts(ctx, s.n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) packed[i] = (P)keys[i] << kShift | (P)i;
  });
  sort_values(ctx, packed, (P*)room.spare.get(), s.n);
  in_parts(ctx, s.n, [=, &key](int64_t begin, int64_t end) {
    constexpr P low = ((P)1 << kShift) - 1;
    for (int64_t i = begin; i < end; i++) order[i] = (uint32_t)(packed[i] & low);
    if (!back) return;
    for (int64_t i = begin; i < end; i++) keys[i] = (U)(packed[i] >> kShift);
    key.type.values(keys + begin, end - begin, (char*)out + begin * sizeof(U));
  });
  *key_done = back;
}

// The same for keys of 2 or 4 bytes.
void order_by_number(const Sort& s, hl_context* ctx, const Row& row, Room& room, bool* key_done) {
  if (s.keys[0].type.bytes == 4)
    order_by_number_as<uint32_t, uint64_t>(s, ctx, row, room, key_done);
  else if (s.n <= 65536) order_by_number_as<uint16_t, uint32_t>(s, ctx, row, room, key_done);
  else order_by_number_as<uint16_t, uint64_t>(s, ctx, row, room, key_done);
}

// -- comparators --------------------------------------------------------------------------------

struct Comparator {
  const Sort& s;
  const Row& row;
  const void* elements[2 * kMost];
  bool operator()(uint32_t x, uint32_t y) {
    for (int64_t k = 0; k < s.count; k++) {
      elements[2 * k] = (const char*)row.in[k] + x * s.sizes[k];
      elements[2 * k + 1] = (const char*)row.in[k] + y * s.sizes[k];
    }
    return s.less(elements) != 0;
  }
};

// A merge sort whose every step is bounded, whatever the comparator answers.
void order_by_comparator(const Sort& s, const Row& row, Room& room) {
  constexpr int64_t kRun = 8;
  Comparator less{s, row, {}};
  uint32_t *a = room.order, *b = room.other;
  int64_t n = s.n;
  for (int64_t i = 0; i < n; i++) a[i] = (uint32_t)i;
  for (int64_t begin = 0; begin < n; begin += kRun)
    for (int64_t i = begin + 1; i < std::min(n, begin + kRun); i++) {
      uint32_t x = a[i];
      int64_t j = i;
      for (; j > begin && less(x, a[j - 1]); j--) a[j] = a[j - 1];
      a[j] = x;
    }
  for (int64_t run = kRun; run < n; run *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * run) {
      int64_t middle = std::min(n, begin + run), end = std::min(n, begin + 2 * run);
      if (middle == end || !less(a[middle], a[middle - 1])) {  // already in order
        memcpy(b + begin, a + begin, (end - begin) * sizeof *a);
        continue;
      }
      int64_t i = begin, j = middle;
      for (int64_t k = begin; k < end; k++) {
        bool right = i == middle || (j < end && less(a[j], a[i]));
        b[k] = right ? a[j++] : a[i++];
      }
    }
    std::swap(a, b);
  }
  if (a != room.order.get()) memcpy(room.order, a, n * sizeof *a);
}

// -- rows ---------------------------------------------------------------------------------------

void sort_row(const Sort& s, hl_context* ctx, const Row& row, Room& room) {
  bool key_done = false;
  if (s.less) {
    order_by_comparator(s, row, room);
  } else {
    if (sort_alone(s, ctx, row, room)) return;
    const Key& key = s.keys[0];
    if (s.key_count == 1 && key.type.bytes == 1) order_by_byte(key, row, s.n, room);
    else if (s.key_count == 1 && key.type.bytes < 8) order_by_number(s, ctx, row, room, &key_done);
    else order_by_keys(s, ctx, row, room);
  }
  const uint32_t* order = room.order;
  for (int64_t k = 0; k < s.count; k++) {
    if (!row.out[k] || (key_done && k == s.keys[0].operand)) continue;
    int64_t size = s.sizes[k];
    if (!s.in[k]) {
      if (size == 4) memcpy(row.out[k], order, s.n * 4);
      else if (size == 8)
        for (int64_t i = 0; i < s.n; i++) ((uint64_t*)row.out[k])[i] = order[i];
      else if (size == 2)
        for (int64_t i = 0; i < s.n; i++) ((uint16_t*)row.out[k])[i] = (uint16_t)order[i];
      else
        for (int64_t i = 0; i < s.n; i++) ((uint8_t*)row.out[k])[i] = (uint8_t)order[i];
    } else if (row.in[k] != row.out[k]) {
      gather(ctx, row.in[k], order, s.n, size, row.out[k]);
    } else {
      void* copy = size == 16 ? nullptr : room.packed.get();
      if (copy) {
        gather(ctx, row.in[k], order, s.n, size, copy);
        memcpy(row.out[k], copy, s.n * size);
      } else {  // 16 bytes: halves, so that the scratch is large enough
        uint64_t *x = (uint64_t*)row.out[k], *y = room.packed;
        for (int half = 0; half < 2; half++) {
          for (int64_t i = 0; i < s.n; i++) y[i] = x[2 * (int64_t)order[i] + half];
          uint64_t* keep = half ? room.combined.get() : room.spare.get();
          memcpy(keep, y, s.n * 8);
        }
        for (int64_t i = 0; i < s.n; i++) x[2 * i] = room.spare[i], x[2 * i + 1] = room.combined[i];
      }
    }
  }
}

// Columns to contiguous rows, and back.
template <class T>
void columns_as(const void* in, int64_t n, int64_t inner, int64_t many, void* out, bool back) {
  const T* x = (const T*)in;
  T* y = (T*)out;
  for (int64_t i = 0; i < n; i++)
    for (int64_t c = 0; c < many; c++)
      if (back) y[i * inner + c] = x[c * n + i];
      else y[c * n + i] = x[i * inner + c];
}

void columns(const void* in, int64_t n, int64_t inner, int64_t many, int64_t size, void* out,
             bool back) {
  switch (size) {
    case 1:
      return columns_as<uint8_t>(in, n, inner, many, out, back);
    case 2:
      return columns_as<uint16_t>(in, n, inner, many, out, back);
    case 4:
      return columns_as<uint32_t>(in, n, inner, many, out, back);
    case 8:
      return columns_as<uint64_t>(in, n, inner, many, out, back);
    default:
      return columns_as<Wide>(in, n, inner, many, out, back);
  }
}

void sort_rows(void* args, int64_t begin, int64_t end) {
  auto& s = *(Sort*)args;
  hl_context* inside = s.single_row ? s.context : nullptr;
  Room room(s.context, s.n);
  if (!room.ok()) {
    s.status = HL_RESOURCE_EXHAUSTED;
    return;
  }
  Row row = {};
  for (int64_t r = begin; r < end; r++) {
    for (int64_t k = 0; k < s.count; k++) {
      int64_t at = r * s.n * s.sizes[k];
      row.in[k] = s.in[k] ? (const char*)s.in[k] + at : s.iotas[k];
      row.out[k] = s.out[k] ? (char*)s.out[k] + at : nullptr;
    }
    sort_row(s, inside, row, room);
  }
}

void sort_columns(void* args, int64_t begin, int64_t end) {
  auto& s = *(Sort*)args;
  hl_context* inside = s.single_row ? s.context : nullptr;
  int64_t total = 0, starts[kMost + 1];
  for (int64_t k = 0; k < s.count; k++) {
    starts[k] = total;
    total += (s.n * kColumns * s.sizes[k] + 63) / 64 * 64;
  }
  Room room(s.context, s.n);
  Scratch<char> before(s.context, total), after(s.context, total);
  if (!room.ok() || !before || !after) {
    s.status = HL_RESOURCE_EXHAUSTED;
    return;
  }
  int64_t tiles = (s.inner + kColumns - 1) / kColumns;
  for (int64_t t = begin; t < end; t++) {
    int64_t column = t % tiles * kColumns, many = std::min(kColumns, s.inner - column);
    int64_t at = t / tiles * s.n * s.inner + column;
    for (int64_t k = 0; k < s.count; k++)
      if (s.in[k])
        columns((const char*)s.in[k] + at * s.sizes[k], s.n, s.inner, many, s.sizes[k],
                before + starts[k], false);
    Row row = {};
    for (int64_t c = 0; c < many; c++) {
      for (int64_t k = 0; k < s.count; k++) {
        row.in[k] = s.in[k] ? before + starts[k] + c * s.n * s.sizes[k] : s.iotas[k];
        row.out[k] = s.out[k] ? after + starts[k] + c * s.n * s.sizes[k] : nullptr;
      }
      sort_row(s, inside, row, room);
    }
    for (int64_t k = 0; k < s.count; k++)
      if (s.out[k])
        columns(after + starts[k], s.n, s.inner, many, s.sizes[k],
                (char*)s.out[k] + at * s.sizes[k], true);
  }
}

LaneSort by_lanes(const Sort& s) {
  const Key& key = s.keys[0];
  return {s.n, s.inner, s.outer * s.inner, s.count, s.in, s.out, s.sizes, key.operand, key.type};
}

void sort_blocks(void* args, int64_t begin, int64_t end) {
  auto& s = *(Sort*)args;
  LaneSort lanes = by_lanes(s);
  int64_t together = lanes_of(lanes);
  for (int64_t b = begin; b < end; b++) {
    int64_t first = b * together, many = std::min(together, lanes.sequences - first);
    if (!sort_lanes(s.context, lanes, first, many)) s.status = HL_RESOURCE_EXHAUSTED;
  }
}

int32_t finished(const Sort& s) {
  return s.status
             ? hl_set_error(s.context, s.status, "sort: no memory for rows of %lld", (long long)s.n)
             : HL_OK;
}

int32_t run(Sort& s) {
  if (s.outer == 0 || s.n == 0 || s.inner == 0 || s.count == 0) return HL_OK;
  if (s.count > kMost)
    return hl_set_error(s.context, HL_UNIMPLEMENTED, "sort: %lld operands; at most %lld",
                        (long long)s.count, (long long)kMost);
  if (s.n >= (int64_t)1 << 32)
    return hl_set_error(s.context, HL_UNIMPLEMENTED,
                        "sort: %lld elements along the dimension; at most 2^32 - 1",
                        (long long)s.n);
  // Operands that are not there: compared or read as keys they need memory.
  int64_t total = 0, starts[kMost];
  for (int64_t k = 0; k < s.count; k++) {
    bool needed = s.less != nullptr;
    for (int64_t j = 0; j < s.key_count; j++) needed |= s.keys[j].operand == k;
    starts[k] = total;
    total += !s.in[k] && needed ? (s.n * s.sizes[k] + 63) / 64 * 64 : 0;
  }
  Scratch<char> memory(s.context, total);
  if (!memory) return HL_RESOURCE_EXHAUSTED;
  const void* iotas[kMost];
  for (int64_t k = 0; k < s.count; k++) {
    int64_t next = k + 1 < s.count ? starts[k + 1] : total;
    iotas[k] = memory + starts[k];
    if (!s.in[k] && next > starts[k]) iota(memory + starts[k], s.n, s.sizes[k]);
  }
  s.iotas = iotas;
  int64_t rows = s.outer * s.inner;
  s.single_row = rows < s.context->threads && s.n >= 65536 && !s.less;
  int64_t each_ns = s.less ? kCompareNs : kDigitNs;
  int64_t serial_ns = rows * s.n * bits_for((uint64_t)s.n) * each_ns / 8;
  if (!s.less && s.key_count == 1 && goes_by_lanes(by_lanes(s))) {
    int64_t together = lanes_of(by_lanes(s)), blocks = (rows + together - 1) / together;
    int64_t grain = std::max<int64_t>(1, kChunk / (s.n * together));
    hl_parallel_for_ns(s.context, sort_blocks, &s, blocks, grain, serial_ns / kLaneGain);
    return finished(s);
  }
  int64_t tiles = s.inner == 1 ? s.outer : s.outer * ((s.inner + kColumns - 1) / kColumns);
  auto* function = s.inner == 1 ? sort_rows : sort_columns;
  if (s.single_row) {
    function(&s, 0, tiles);
  } else {  // what a chunk allocates should not show beside what it sorts
    int64_t share = std::max<int64_t>(1, tiles / (4 * s.context->threads));
    int64_t grain = s.inner == 1 ? std::min(share, std::max<int64_t>(1, kChunk / s.n)) : 1;
    hl_parallel_for_ns(s.context, function, &s, tiles, grain, serial_ns);
  }
  return finished(s);
}

}  // namespace
}  // namespace hloom

HL_API int32_t hl_sort_keys(hl_context* ctx, int64_t outer, int64_t n, int64_t inner, int64_t count,
                            const void* const* in, void* const* out, const int64_t* sizes,
                            int64_t key_count, const int64_t* keys, int64_t is_stable) {
  hloom::StepSpan step(ctx, nullptr, "sort");
  using namespace hloom;
  if (key_count < 1 || key_count > 16)
    return hl_set_error(ctx, HL_UNIMPLEMENTED, "sort: %lld keys; 1 to 16", (long long)key_count);
  alignas(Key) char memory[16 * sizeof(Key)];
  Key* types = (Key*)memory;
  for (int64_t k = 0; k < key_count; k++) {
    int64_t operand = keys[3 * k];
    if (operand < 0 || operand >= count)
      return hl_set_error(ctx, HL_INVALID_ARGUMENT, "sort: key %lld is of operand %lld of %lld",
                          (long long)k, (long long)operand, (long long)count);
    new (types + k) Key{operand, KeyType(keys[3 * k + 1], keys[3 * k + 2])};
    if (types[k].type.bytes != sizes[operand])
      return hl_set_error(ctx, HL_INVALID_ARGUMENT, "sort: no order for type %lld of %lld bytes",
                          (long long)keys[3 * k + 1], (long long)sizes[operand]);
  }
  // Places decide between equals anyway: a last key that is the ascending iota says nothing new.
  if (key_count > 1 && !in[types[key_count - 1].operand] && !types[key_count - 1].type.descending)
    key_count--;
  Sort s{ctx,   outer, n,         inner,   count,   in,    out,
         sizes, types, key_count, nullptr, nullptr, false, HL_OK};
  return run(s);
}

HL_API int32_t hl_sort_compare(hl_context* ctx, int64_t outer, int64_t n, int64_t inner,
                               int64_t count, const void* const* in, void* const* out,
                               const int64_t* sizes, hl_less less, int64_t is_stable) {
  hloom::StepSpan step(ctx, nullptr, "sort");
  using namespace hloom;
  Sort s{ctx, outer, n, inner, count, in, out, sizes, nullptr, 0, less, nullptr, false, HL_OK};
  return run(s);
}
