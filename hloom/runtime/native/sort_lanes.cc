// Comparisons of a sorting network do not depend on what is sorted, so that lanes of vectors can
// sort a sequence each: a comparison is a minimum and a maximum, for dozens of them. Places
// (payloads, stable orders) go along, and decide between equals.
#include "sort_lanes.h"

#include <string.h>

#include <algorithm>

#include "instruction_set.h"
#include "scratch.h"

namespace hloom {
namespace {

constexpr int64_t kFewest = 16;  // sequences, below which most lanes would be idle
// Longer sequences take more comparisons than a quicksort does: without places, and with them.
constexpr int64_t kLongestAlone = 100, kLongest = 64;

template <class U>
constexpr int64_t kLanes = sizeof(U) == 8 ? 32 : 64;

// compare(i, j) for all comparisons of Batcher's odd-even merge sort of n (Knuth 5.2.2 M).
template <class F>
inline __attribute__((always_inline)) void network(int64_t n, const F& compare) {
  for (int64_t p = 1; p < n; p *= 2)
    for (int64_t k = p; k >= 1; k /= 2)
      for (int64_t j = k % p; j + k < n; j += 2 * k)
        for (int64_t i = j; i < std::min(j + k, n - k); i++)
          if (((i ^ (i + k)) & -(2 * p)) == 0) compare(i, i + k);
}

template <class U>
inline __attribute__((always_inline)) void sort_alone(U* keys, int64_t n) {
  network(n, [=](int64_t i, int64_t j) __attribute__((always_inline)) {
    U *a = keys + i * kLanes<U>, *b = keys + j * kLanes<U>;
    for (int64_t c = 0; c < kLanes<U>; c++) {
      U x = a[c], y = b[c];
      a[c] = x < y ? x : y;
      b[c] = x < y ? y : x;
    }
  });
}

template <class U>
inline __attribute__((always_inline)) void sort_with_places(U* keys, U* places, int64_t n) {
  network(n, [=](int64_t i, int64_t j) __attribute__((always_inline)) {
    U *a = keys + i * kLanes<U>, *b = keys + j * kLanes<U>;
    U *p = places + i * kLanes<U>, *q = places + j * kLanes<U>;
    for (int64_t c = 0; c < kLanes<U>; c++) {
      U x = a[c], y = b[c], s = p[c], t = q[c];
      bool later = (x > y) | ((x == y) & (s > t));
      a[c] = later ? y : x;
      b[c] = later ? x : y;
      p[c] = later ? t : s;
      q[c] = later ? s : t;
    }
  });
}

#define HLOOM_LANES(U, NAME)                                                     \
  HLOOM_CLONES void NAME##_alone(U* keys, int64_t n) { sort_alone<U>(keys, n); } \
  HLOOM_CLONES void NAME##_places(U* keys, U* places, int64_t n) {               \
    sort_with_places<U>(keys, places, n);                                        \
  }                                                                              \
  inline void alone(U* keys, int64_t n) { NAME##_alone(keys, n); }               \
  inline void with_places(U* keys, U* places, int64_t n) { NAME##_places(keys, places, n); }

HLOOM_LANES(uint8_t, one)
HLOOM_LANES(uint16_t, two)
HLOOM_LANES(uint32_t, four)
HLOOM_LANES(uint64_t, eight)

// Sequences that are sorted together, and where they lie.
struct Block {
  const LaneSort& s;
  int64_t first, many;

  // The first element of one, counted in elements.
  int64_t start(int64_t r) const {
    int64_t q = first + r;
    return s.inner == 1 ? q * s.n : q / s.inner * s.n * s.inner + q % s.inner;
  }
  // Whether elements at one place of all of them lie side by side.
  bool is_across() const { return s.inner > 1 && first % s.inner + many <= s.inner; }
};

// Four rows of four to their columns, in registers.
template <class T, class U>
inline __attribute__((always_inline)) void turn_square(const T* in, int64_t across, U* out,
                                                       int64_t out_across) {
  U t[4][4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) t[j][i] = (U)in[i * across + j];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) memcpy(out + i * out_across, t[i], sizeof t[i]);
}

// A row for each sequence to a row for each place, and back.
template <class U>
void turn(const U* in, int64_t n, int64_t many, U* out) {
  int64_t whole = n & ~(int64_t)3, full = many & ~(int64_t)3;
  for (int64_t i = 0; i < whole; i += 4)
    for (int64_t r = 0; r < full; r += 4)
      turn_square(in + r * n + i, n, out + i * kLanes<U> + r, kLanes<U>);
  for (int64_t i = 0; i < n; i++)
    for (int64_t r = i < whole ? full : 0; r < many; r++) out[i * kLanes<U> + r] = in[r * n + i];
}

template <class T, class U>
void turn_back(const U* in, int64_t n, int64_t many, T* out) {
  int64_t whole = n & ~(int64_t)3, full = many & ~(int64_t)3;
  for (int64_t i = 0; i < whole; i += 4)
    for (int64_t r = 0; r < full; r += 4)
      turn_square(in + i * kLanes<U> + r, kLanes<U>, out + r * n + i, n);
  for (int64_t i = 0; i < n; i++)
    for (int64_t r = i < whole ? full : 0; r < many; r++) out[r * n + i] = (T)in[i * kLanes<U> + r];
}

// Writes what `rows` holds for each sequence.
template <class T>
void put(const Block& b, const T* rows, T* out) {
  const LaneSort& s = b.s;
  if (s.inner == 1) {
    memcpy(out + b.first * s.n, rows, b.many * s.n * sizeof(T));
    return;
  }
  for (int64_t r = 0; r < b.many; r++) {
    T* to = out + b.start(r);
    for (int64_t i = 0; i < s.n; i++) to[i * s.inner] = rows[r * s.n + i];
  }
}

// Keys, a row for each place; whether different values were made equal is returned.
template <class U>
bool read_keys(const Block& b, U* rows, U* keys) {
  const LaneSort& s = b.s;
  const U* in = (const U*)s.in[s.key];
  bool equal = false;
  if (b.is_across()) {
    const U* from = in + b.start(0);
    for (int64_t i = 0; i < s.n; i++)
      equal |= s.type.keys(from + i * s.inner, 1, b.many, keys + i * kLanes<U>);
    return equal;
  }
  if (s.inner == 1) {
    equal = s.type.keys(in + b.start(0), 1, b.many * s.n, rows);
  } else {
    for (int64_t r = 0; r < b.many; r++)
      equal |= s.type.keys(in + b.start(r), s.inner, s.n, rows + r * s.n);
  }
  turn(rows, s.n, b.many, keys);
  return equal;
}

// What keys say, where no values were made equal.
template <class U>
void write_keys(const Block& b, U* keys, U* rows) {
  if constexpr (sizeof(U) > 1) {
    const LaneSort& s = b.s;
    U* out = (U*)s.out[s.key];
    if (b.is_across()) {
      U* to = out + b.start(0);
      for (int64_t i = 0; i < s.n; i++)
        s.type.values(keys + i * kLanes<U>, b.many, to + i * s.inner);
      return;
    }
    turn_back(keys, s.n, b.many, rows);
    s.type.values(rows, b.many * s.n, rows);
    put(b, rows, out);
  }
}

template <class T, class U>
void write_places(const Block& b, const U* places, T* rows, void* out) {
  if (b.is_across()) {
    T* to = (T*)out + b.start(0);
    for (int64_t i = 0; i < b.s.n; i++)
      for (int64_t r = 0; r < b.many; r++) to[i * b.s.inner + r] = (T)places[i * kLanes<U> + r];
    return;
  }
  turn_back(places, b.s.n, b.many, rows);
  put(b, rows, (T*)out);
}

// One payload: all of it is read before any is written, which may be in the same place.
template <class T, class U>
void write_payload(const Block& b, const U* places, const void* in, T* rows, void* out) {
  const T* x = (const T*)in;
  int64_t n = b.s.n, inner = b.s.inner;
  for (int64_t r = 0; r < b.many; r++) {
    const T* from = x + b.start(r);
    for (int64_t i = 0; i < n; i++)
      rows[r * n + i] = from[(int64_t)places[i * kLanes<U> + r] * inner];
  }
  put(b, rows, (T*)out);
}

struct Wide {
  uint64_t low, high;
};

template <class T, class U>
void write_operand(const Block& b, const U* places, int64_t k, void* rows) {
  const void* in = b.s.in[k];
  if (in) return write_payload(b, places, in, (T*)rows, b.s.out[k]);
  if constexpr (sizeof(T) <= 8) write_places(b, places, (T*)rows, b.s.out[k]);
}

template <class U>
bool sort_as(hl_context* ctx, const Block& b) {
  const LaneSort& s = b.s;
  int64_t size = s.n * kLanes<U>;
  Scratch<U> keys(ctx, size), places(ctx, size);
  Scratch<Wide> rows(ctx, size);
  if (!keys || !places || !rows) return false;
  if (b.many < kLanes<U>) memset(keys, 0, size * sizeof(U));
  bool by_keys = !read_keys(b, (U*)rows.get(), keys.get());
  if (by_keys && s.count == 1) {
    alone(keys, s.n);
    write_keys(b, keys.get(), (U*)rows.get());
    return true;
  }
  for (int64_t i = 0; i < s.n; i++)
    for (int64_t r = 0; r < kLanes<U>; r++) places[i * kLanes<U> + r] = (U)i;
  with_places(keys, places, s.n);
  for (int64_t k = 0; k < s.count; k++) {
    if (!s.out[k]) continue;
    if (by_keys && k == s.key) {
      write_keys(b, keys.get(), (U*)rows.get());
      continue;
    }
    const U* at = places;
    switch (s.sizes[k]) {
      case 1:
        write_operand<uint8_t>(b, at, k, rows.get());
        break;
      case 2:
        write_operand<uint16_t>(b, at, k, rows.get());
        break;
      case 4:
        write_operand<uint32_t>(b, at, k, rows.get());
        break;
      case 8:
        write_operand<uint64_t>(b, at, k, rows.get());
        break;
      default:
        write_operand<Wide>(b, at, k, rows.get());
    }
  }
  return true;
}

}  // namespace

bool goes_by_lanes(const LaneSort& s) {
  int64_t longest = s.count == 1 ? kLongestAlone : kLongest;
  return s.n > 1 && s.n <= longest && s.sequences >= kFewest && s.in[s.key];
}

int64_t lanes_of(const LaneSort& s) { return s.type.bytes == 8 ? 32 : 64; }

bool sort_lanes(hl_context* ctx, const LaneSort& s, int64_t first, int64_t many) {
  Block b{s, first, many};
  switch (s.type.bytes) {
    case 1:
      return sort_as<uint8_t>(ctx, b);
    case 2:
      return sort_as<uint16_t>(ctx, b);
    case 4:
      return sort_as<uint32_t>(ctx, b);
    default:
      return sort_as<uint64_t>(ctx, b);
  }
}

}  // namespace hloom
