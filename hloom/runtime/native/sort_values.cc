#include "sort_values.h"

#include <string.h>

#include <algorithm>

#include "instruction_set.h"
#include "scratch.h"

#if HLOOM_X86_TARGETS
#include <immintrin.h>
#endif

namespace hloom {
namespace {

// -- without vectors ----------------------------------------------------------------------------

constexpr size_t kInsertion = 24;

template <class T>
void insertion_sort(T* a, size_t n) {
  for (size_t i = 1; i < n; i++) {
    T x = a[i];
    size_t j = i;
    for (; j > 0 && x < a[j - 1]; j--) a[j] = a[j - 1];
    a[j] = x;
  }
}

template <class T>
void radix_digits(T* a, T* b, size_t n) {
  if (n <= kInsertion) return insertion_sort(a, n);
  if (n <= 256 && sizeof(T) > 2) return std::sort(a, a + n);
  constexpr int kDigits = sizeof(T);
  size_t counts[kDigits][256];
  memset(counts, 0, sizeof counts);
  for (size_t i = 0; i < n; i++) {
    T x = a[i];
    for (int d = 0; d < kDigits; d++) counts[d][(x >> (8 * d)) & 255]++;
  }
  T *from = a, *to = b;
  for (int d = 0; d < kDigits; d++) {
    size_t* c = counts[d];
    if (c[(from[0] >> (8 * d)) & 255] == n) continue;  // all the same: nothing would move
    size_t at = 0;
    for (int v = 0; v < 256; v++) {
      size_t many = c[v];
      c[v] = at;
      at += many;
    }
    for (size_t i = 0; i < n; i++) {
      T x = from[i];
      to[c[(x >> (8 * d)) & 255]++] = x;
    }
    std::swap(from, to);
  }
  if (from != a) memcpy(a, from, n * sizeof(T));
}

}  // namespace

void radix_sort(uint32_t* a, uint32_t* b, size_t n) { radix_digits(a, b, n); }
void radix_sort(uint64_t* a, uint64_t* b, size_t n) { radix_digits(a, b, n); }

#if HLOOM_X86_TARGETS
HLOOM_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,popcnt,lzcnt")
namespace {
namespace vector {

// What the algorithm needs to know of a lane width.
struct Lanes32 {
  using T = uint32_t;
  static constexpr int L = 16;
  using Mask = __mmask16;
  static __m512i load(const T* p) { return _mm512_loadu_si512(p); }
  static void store(T* p, __m512i v) { _mm512_storeu_si512(p, v); }
  static __m512i splat(T x) { return _mm512_set1_epi32((int)x); }
  static __m512i load_some(Mask m, const T* p) {
    return _mm512_mask_loadu_epi32(_mm512_set1_epi32(-1), m, p);
  }
  static void store_some(Mask m, T* p, __m512i v) { _mm512_mask_storeu_epi32(p, m, v); }
  static __m512i min(__m512i a, __m512i b) { return _mm512_min_epu32(a, b); }
  static __m512i max(__m512i a, __m512i b) { return _mm512_max_epu32(a, b); }
  static __m512i blend_max(__m512i low, Mask m, __m512i a, __m512i b) {
    return _mm512_mask_max_epu32(low, m, a, b);
  }
  static Mask above(__m512i a, __m512i b) { return _mm512_cmpgt_epu32_mask(a, b); }
  static __m512i compress(Mask m, __m512i v) { return _mm512_maskz_compress_epi32(m, v); }
  // Lane i of the result is lane i ^ X.
  template <int X>
  static __m512i flip(__m512i v) {
    if constexpr (X == 1) return _mm512_shuffle_epi32(v, (_MM_PERM_ENUM)0xB1);
    if constexpr (X == 2) return _mm512_shuffle_epi32(v, (_MM_PERM_ENUM)0x4E);
    if constexpr (X == 3) return _mm512_shuffle_epi32(v, (_MM_PERM_ENUM)0x1B);
    if constexpr (X == 4) return _mm512_shuffle_i32x4(v, v, 0xB1);
    if constexpr (X == 8) return _mm512_shuffle_i32x4(v, v, 0x4E);
    const __m512i at =
        _mm512_xor_si512(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         _mm512_set1_epi32(X));
    return _mm512_permutexvar_epi32(at, v);
  }
};

struct Lanes64 {
  using T = uint64_t;
  static constexpr int L = 8;
  using Mask = __mmask8;
  static __m512i load(const T* p) { return _mm512_loadu_si512(p); }
  static void store(T* p, __m512i v) { _mm512_storeu_si512(p, v); }
  static __m512i splat(T x) { return _mm512_set1_epi64((long long)x); }
  static __m512i load_some(Mask m, const T* p) {
    return _mm512_mask_loadu_epi64(_mm512_set1_epi32(-1), m, p);
  }
  static void store_some(Mask m, T* p, __m512i v) { _mm512_mask_storeu_epi64(p, m, v); }
  static __m512i min(__m512i a, __m512i b) { return _mm512_min_epu64(a, b); }
  static __m512i max(__m512i a, __m512i b) { return _mm512_max_epu64(a, b); }
  static __m512i blend_max(__m512i low, Mask m, __m512i a, __m512i b) {
    return _mm512_mask_max_epu64(low, m, a, b);
  }
  static Mask above(__m512i a, __m512i b) { return _mm512_cmpgt_epu64_mask(a, b); }
  static __m512i compress(Mask m, __m512i v) { return _mm512_maskz_compress_epi64(m, v); }
  template <int X>
  static __m512i flip(__m512i v) {
    if constexpr (X == 1) return _mm512_shuffle_epi32(v, (_MM_PERM_ENUM)0x4E);
    if constexpr (X == 2) return _mm512_permutex_epi64(v, 0x4E);
    if constexpr (X == 3) return _mm512_permutex_epi64(v, 0x1B);
    if constexpr (X == 4) return _mm512_shuffle_i64x2(v, v, 0x4E);
    const __m512i at =
        _mm512_xor_si512(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64(X));
    return _mm512_permutexvar_epi64(at, v);
  }
};

// Lanes whose index has the bit `half`: those that take the larger one.
template <class V>
constexpr typename V::Mask upper(int half) {
  typename V::Mask m = 0;
  for (int i = 0; i < V::L; i++)
    if (i & half) m |= (typename V::Mask)(1u << i);
  return m;
}

// Compare lane i with lane i ^ X; `half` is the highest bit of X.
template <class V, int X, int half>
inline __attribute__((always_inline)) __m512i exchange(__m512i v) {
  __m512i other = V::template flip<X>(v);
  return V::blend_max(V::min(v, other), upper<V>(half), v, other);
}

// A bitonic sequence within one register becomes sorted.
template <class V>
inline __attribute__((always_inline)) __m512i clean(__m512i v) {
  if constexpr (V::L == 16) v = exchange<V, 8, 8>(v);
  v = exchange<V, 4, 4>(v);
  v = exchange<V, 2, 2>(v);
  return exchange<V, 1, 1>(v);
}

template <class V>
inline __attribute__((always_inline)) __m512i sort_register(__m512i v) {
  v = exchange<V, 1, 1>(v);
  v = exchange<V, 3, 2>(v);
  v = exchange<V, 1, 1>(v);
  v = exchange<V, 7, 4>(v);
  v = exchange<V, 2, 2>(v);
  v = exchange<V, 1, 1>(v);
  if constexpr (V::L == 16) {
    v = exchange<V, 15, 8>(v);
    v = exchange<V, 4, 4>(v);
    v = exchange<V, 2, 2>(v);
    v = exchange<V, 1, 1>(v);
  }
  return v;
}

// Two sorted halves of N registers become one sorted sequence. The larger values land in reverse
// order, which is bitonic as well, so only one of the two is turned round.
template <class V, int N>
inline __attribute__((always_inline)) void merge_registers(__m512i* r) {
  __m512i t[N];
#pragma GCC unroll 32
  for (int i = 0; i < N / 2; i++) {
    __m512i other = V::template flip<V::L - 1>(r[N - 1 - i]);
    t[i] = V::min(r[i], other);
    t[N / 2 + i] = V::max(r[i], other);
  }
#pragma GCC unroll 8
  for (int j = N / 4; j >= 1; j /= 2) {
#pragma GCC unroll 32
    for (int i = 0; i < N; i++) {
      if (i & j) continue;
      __m512i low = V::min(t[i], t[i + j]);
      t[i + j] = V::max(t[i], t[i + j]);
      t[i] = low;
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < N; i++) r[i] = clean<V>(t[i]);
}

template <class V, int N>
inline __attribute__((always_inline)) void sort_registers(__m512i* r) {
  if constexpr (N == 1) {
    r[0] = sort_register<V>(r[0]);
  } else {
    sort_registers<V, N / 2>(r);
    sort_registers<V, N / 2>(r + N / 2);
    merge_registers<V, N>(r);
  }
}

template <class V, int N>
__attribute__((noinline)) void sort_leaf(typename V::T* a, size_t n) {
  using Mask = typename V::Mask;
  constexpr int L = V::L;
  __m512i r[N];
#pragma GCC unroll 32
  for (int i = 0; i < N; i++) {
    size_t left = n > (size_t)i * L ? n - i * L : 0;
    Mask m = left >= L ? (Mask)-1 : (Mask)((1u << left) - 1);
    r[i] = V::load_some(m, a + i * L);
  }
  sort_registers<V, N>(r);
#pragma GCC unroll 32
  for (int i = 0; i < N; i++) {
    size_t left = n > (size_t)i * L ? n - i * L : 0;
    Mask m = left >= L ? (Mask)-1 : (Mask)((1u << left) - 1);
    V::store_some(m, a + i * L, r[i]);
  }
}

template <class V>
void sort_small(typename V::T* a, size_t n) {
  constexpr int L = V::L;
  if (n <= L) return sort_leaf<V, 1>(a, n);
  if (n <= 2 * L) return sort_leaf<V, 2>(a, n);
  if (n <= 4 * L) return sort_leaf<V, 4>(a, n);
  if (n <= 8 * L) return sort_leaf<V, 8>(a, n);
  sort_leaf<V, 16>(a, n);
}

// Moves values > pivot (>= pivot if `from_equal`) behind the others; their number is returned.
// What stays is compressed in place: a store never reaches what has not been read yet.
template <class V, bool from_equal>
size_t partition(typename V::T* a, typename V::T* scratch, size_t n, typename V::T pivot) {
  using T = typename V::T;
  using Mask = typename V::Mask;
  constexpr int L = V::L;
  const __m512i p = V::splat(pivot);
  T *low = a, *high = scratch;
  auto step = [&](__m512i v, Mask valid) __attribute__((always_inline)) {
    Mask up = from_equal ? (Mask)(valid & ~V::above(p, v)) : (Mask)(valid & V::above(v, p));
    Mask down = (Mask)(valid & ~up);
    V::store(high, V::compress(up, v));
    high += __builtin_popcount(up);
    return down;
  };
  size_t i = 0;
  for (; i + 4 * L <= n; i += 4 * L) {
    __m512i v[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) v[k] = V::load(a + i + k * L);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
      Mask down = step(v[k], (Mask)-1);
      V::store(low, V::compress(down, v[k]));
      low += __builtin_popcount(down);
    }
  }
  for (; i < n; i += L) {
    size_t left = n - i;
    Mask valid = left >= L ? (Mask)-1 : (Mask)((1u << left) - 1);
    __m512i v = V::load_some(valid, a + i);
    Mask down = step(v, valid);
    int many = __builtin_popcount(down);
    V::store_some((Mask)((1u << many) - 1), low, V::compress(down, v));
    low += many;
  }
  size_t moved = high - scratch;
  memcpy(low, scratch, moved * sizeof(T));
  return moved;
}

// The middle of N registers of values, taken evenly.
template <class V, int N>
typename V::T middle_of_sample(const typename V::T* a, size_t n) {
  constexpr size_t many = N * V::L;
  typename V::T sample[many];
  size_t step = n / many;
  for (size_t i = 0; i < many; i++) sample[i] = a[i * step + step / 2];
  sort_leaf<V, N>(sample, many);
  return sample[many / 2 - 1];
}

template <class V>
void quicksort(typename V::T* a, typename V::T* scratch, size_t n, int fuel) {
  using T = typename V::T;
  constexpr int L = V::L;
  while (n > 16 * L) {
    if (fuel-- == 0) return radix_digits(a, scratch, n);
    T pivot = n < 64 * L ? middle_of_sample<V, 1>(a, n) : middle_of_sample<V, 4>(a, n);
    size_t high = partition<V, false>(a, scratch, n, pivot);
    if (high == 0) {  // the pivot is the largest: its equals are in place once they are last
      n -= partition<V, true>(a, scratch, n, pivot);
      continue;
    }
    quicksort<V>(a + (n - high), scratch, high, fuel);
    n -= high;
  }
  if (n > 1) sort_small<V>(a, n);
}

}  // namespace vector
}  // namespace
HLOOM_TARGET_END
#endif

namespace {

bool has_avx512() {
#if HLOOM_X86_TARGETS
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has;
#else
  return false;
#endif
}

// Numbers are equal to their keys: how often each occurs says all. `b` holds the counts.
void sort_serial(uint16_t* a, uint16_t* b, size_t n) {
  constexpr size_t kValues = 1 << 16;
  if (n < 4 * kValues) return radix_digits(a, b, n);
  uint32_t* counts = (uint32_t*)b;
  memset(counts, 0, kValues * sizeof *counts);
  for (size_t i = 0; i < n; i++) counts[a[i]]++;
  for (size_t v = 0, at = 0; v < kValues; v++)
    for (size_t end = at + counts[v]; at < end; at++) a[at] = (uint16_t)v;
}

void sort_serial(uint32_t* a, uint32_t* b, size_t n) {
#if HLOOM_X86_TARGETS
  if (has_avx512()) return vector::quicksort<vector::Lanes32>(a, b, n, 64);
#endif
  radix_digits(a, b, n);
}

void sort_serial(uint64_t* a, uint64_t* b, size_t n) {
#if HLOOM_X86_TARGETS
  if (has_avx512()) return vector::quicksort<vector::Lanes64>(a, b, n, 64);
#endif
  radix_digits(a, b, n);
}

// -- with threads -------------------------------------------------------------------------------
//
// Pivots from a sample say which values end in which bucket. Blocks are split by them side by
// side, buckets are brought together, and each is sorted where it stands in the end: the splits
// are those that a quicksort would make anyway, and nothing is merged.

constexpr size_t kParallel = 1 << 16;
constexpr size_t kMostPieces = 64;
constexpr size_t kPiecesPerThread = 4;  // so that a thread that comes late takes fewer
constexpr size_t kSamples = 32;         // of a bucket
constexpr size_t kPad = 16;             // sorting writes whole registers behind its scratch

// Moves values > pivot behind the others, in their order; their number is returned.
template <class T>
size_t split_serial(T* a, T* scratch, size_t n, T pivot) {
  size_t low = 0, high = 0;
  for (size_t i = 0; i < n; i++) {
    T x = a[i];
    bool up = x > pivot;
    a[low] = x;
    scratch[high] = x;
    low += !up;
    high += up;
  }
  memcpy(a + low, scratch, high * sizeof(T));
  return high;
}

size_t split(uint32_t* a, uint32_t* b, size_t n, uint32_t pivot) {
#if HLOOM_X86_TARGETS
  if (has_avx512()) return vector::partition<vector::Lanes32, false>(a, b, n, pivot);
#endif
  return split_serial(a, b, n, pivot);
}

size_t split(uint64_t* a, uint64_t* b, size_t n, uint64_t pivot) {
#if HLOOM_X86_TARGETS
  if (has_avx512()) return vector::partition<vector::Lanes64, false>(a, b, n, pivot);
#endif
  return split_serial(a, b, n, pivot);
}

template <class T>
struct Shares {
  T *values, *room;  // room: of n + kPad * (pieces + 1)
  size_t n, pieces;  // as many blocks as buckets
  T pivots[kMostPieces];
  size_t ends[kMostPieces][kMostPieces];  // of a block: where its part of a bucket ends in it
  size_t starts[kMostPieces + 1];         // of a bucket, when all is sorted

  size_t block(size_t p) const { return n * p / pieces; }
};

// Splits n values of a block by pivots [first, last) and keeps where their parts end.
template <class T>
void split_block(Shares<T>& s, size_t block, T* a, T* scratch, size_t n, size_t first,
                 size_t last) {
  size_t begin = s.block(block);
  if (first == last) {
    s.ends[block][first] = (size_t)(a - s.values) - begin + n;
    return;
  }
  size_t middle = (first + last) / 2, high = n ? split(a, scratch, n, s.pivots[middle]) : 0;
  split_block(s, block, a, scratch, n - high, first, middle);
  split_block(s, block, a + (n - high), scratch, high, middle + 1, last);
}

template <class T>
void split_blocks(void* args, int64_t begin, int64_t end) {
  auto& s = *(Shares<T>*)args;
  for (int64_t p = begin; p < end; p++) {
    size_t from = s.block(p), n = s.block(p + 1) - from;
    split_block(s, p, s.values + from, s.room + from + kPad * p, n, 0, s.pieces - 1);
  }
}

template <class T>
void gather_buckets(void* args, int64_t begin, int64_t end) {
  auto& s = *(Shares<T>*)args;
  for (int64_t k = begin; k < end; k++) {
    T* to = s.room + s.starts[k] + kPad * k;
    for (size_t p = 0; p < s.pieces; p++) {
      size_t from = k ? s.ends[p][k - 1] : 0, n = s.ends[p][k] - from;
      memcpy(to, s.values + s.block(p) + from, n * sizeof(T));
      to += n;
    }
  }
}

template <class T>
void sort_buckets(void* args, int64_t begin, int64_t end) {
  auto& s = *(Shares<T>*)args;
  for (int64_t k = begin; k < end; k++) {
    T *to = s.values + s.starts[k], *from = s.room + s.starts[k] + kPad * k;
    size_t n = s.starts[k + 1] - s.starts[k];
    memcpy(to, from, n * sizeof(T));
    sort_serial(to, from, n);
  }
}

template <class T>
void choose_pivots(Shares<T>& s) {
  T sample[kSamples * kMostPieces];
  size_t many = kSamples * s.pieces, step = s.n / many;
  for (size_t i = 0; i < many; i++) sample[i] = s.values[i * step + step / 2];
  std::sort(sample, sample + many);
  for (size_t k = 0; k + 1 < s.pieces; k++) s.pivots[k] = sample[(k + 1) * kSamples - 1];
}

// Whether no value is below (above if `falling`) the one before it.
template <class T>
inline __attribute__((always_inline)) bool in_order(const T* a, size_t n, bool falling) {
  constexpr size_t kBlock = 256;
  for (size_t i = 1; i < n; i += kBlock) {
    size_t end = std::min(n, i + kBlock);
    bool other = false;
    for (size_t j = i; j < end; j++) other |= falling ? a[j] > a[j - 1] : a[j] < a[j - 1];
    if (other) return false;
  }
  return true;
}

HLOOM_CLONES bool ordered(const uint32_t* a, size_t n, bool falling) {
  return in_order(a, n, falling);
}
HLOOM_CLONES bool ordered(const uint64_t* a, size_t n, bool falling) {
  return in_order(a, n, falling);
}

template <class T>
void sort_any(hl_context* ctx, T* a, T* b, size_t n) {
  constexpr size_t kLooked = 1 << 10;  // fewer are sorted as fast as they are looked at
  if (n >= kLooked && ordered(a, n, false)) return;
  if (n >= kLooked && ordered(a, n, true)) return std::reverse(a, a + n);
  size_t threads = ctx && n >= kParallel ? (size_t)ctx->threads : 1;
  if (threads < 2) return sort_serial(a, b, n);
  size_t pieces = std::min(kMostPieces, threads * kPiecesPerThread);
  Scratch<T> room(ctx, (int64_t)(n + kPad * (pieces + 1)));
  Scratch<Shares<T>> shares(ctx, 1);
  if (!room || !shares) return sort_serial(a, b, n);
  Shares<T>& s = *shares.get();
  s.values = a, s.room = room.get(), s.n = n, s.pieces = pieces;
  choose_pivots(s);
  if (s.pivots[0] == s.pivots[pieces - 2]) return sort_serial(a, b, n);  // few buckets would fill
  hl_parallel_for(ctx, split_blocks<T>, &s, (int64_t)pieces, 1);
  s.starts[0] = 0;
  for (size_t k = 0; k < pieces; k++) {
    size_t many = 0;
    for (size_t p = 0; p < pieces; p++) many += s.ends[p][k] - (k ? s.ends[p][k - 1] : 0);
    s.starts[k + 1] = s.starts[k] + many;
  }
  hl_parallel_for(ctx, gather_buckets<T>, &s, (int64_t)pieces, 1);
  hl_parallel_for(ctx, sort_buckets<T>, &s, (int64_t)pieces, 1);
}

// Parts are split until the k first are apart. Where a pivot is the largest of its part nothing is
// split, and what is left is sorted whole: right however pivots fall.
template <class T>
void first_any(hl_context* ctx, T* a, T* b, size_t n, size_t k) {
  constexpr size_t kFewest = 1 << 10, kSample = 64;
  size_t begin = 0, end = n;
  for (int fuel = 32; fuel > 0 && end > k && end - begin > kFewest; fuel--) {
    T sample[kSample];
    size_t step = (end - begin) / kSample;
    for (size_t i = 0; i < kSample; i++) sample[i] = a[begin + i * step + step / 2];
    // Near where the k-th is thought to be, rather behind it.
    size_t at = std::min(kSample - 1, (k - begin) * kSample / (end - begin) + 1);
    std::nth_element(sample, sample + at, sample + kSample);
    size_t high = split(a + begin, b, end - begin, sample[at]);
    if (high == 0) break;
    if (end - high >= k) end -= high;
    else begin = end - high;
  }
  sort_any(ctx, a, b, end);
}

}  // namespace

void sort_first(hl_context* ctx, uint32_t* a, uint32_t* b, size_t n, size_t k) {
  first_any(ctx, a, b, n, k);
}
void sort_first(hl_context* ctx, uint64_t* a, uint64_t* b, size_t n, size_t k) {
  first_any(ctx, a, b, n, k);
}
void sort_values(hl_context*, uint16_t* a, uint16_t* b, size_t n) { sort_serial(a, b, n); }
void sort_values(hl_context* ctx, uint32_t* a, uint32_t* b, size_t n) { sort_any(ctx, a, b, n); }
void sort_values(hl_context* ctx, uint64_t* a, uint64_t* b, size_t n) { sort_any(ctx, a, b, n); }

}  // namespace hloom
