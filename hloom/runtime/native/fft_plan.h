// What is known of a length before any data: factors, twiddles, how it is taken apart.
#pragma once
#include <stdint.h>

#if !defined(HLOOM_FFT_CONSTANT)
#include <memory>
#include <vector>
#endif

namespace hloom {

#if defined(HLOOM_FFT_CONSTANT)  // C libraries, whose plans are constants: codegen/llvm/c_fft.py
template <class T>
struct Table {
  const T* first;
  int64_t count;
  const T* data() const { return first; }
  const T* begin() const { return first; }
  const T* end() const { return first + count; }
  bool empty() const { return count == 0; }
  const T& operator[](int64_t at) const { return first[at]; }
};
template <class T>
using PlanPointer = const T*;
#else
template <class T>
using Table = std::vector<T>;
template <class T>
using PlanPointer = std::shared_ptr<const T>;
#endif

// `many` transforms side by side, one per vector lane, with real and imaginary parts apart.
template <class T>
struct Tile {
  const T* in;
  T* out;
  int64_t in_stride, out_stride;  // complex numbers: between elements, or between lanes (rows)
  bool in_rows, out_rows;         // element j of lane l: at l*stride + j, or else at j*stride + l
  bool swap;                      // real and imaginary parts change places going in and coming out
  int64_t many;                   // lanes that hold something
  T scale;
  const T *twiddle_real, *twiddle_imag;  // of element j, lane l: [j * twiddle_stride + l]; or null
  int64_t twiddle_stride;
  T* work;  // 4 * tile_points(plan) * lanes values
};

// `many` rows of an odd number of reals, one per vector lane, and the first half of their transforms.
template <class T>
struct OddTile {
  T* reals;  // [many][n]
  T* half;   // [many][n / 2 + 1], complex
  bool inverse;
  int64_t many;
  T scale;
  T* work;  // 4 * n * lanes values
};

struct Pass {
  int radix;
  int64_t length, twiddles;  // what is left to transform; where its twiddles start
};

// A prime factor above this would be dearer as sums of all its elements than as a convolution.
constexpr int64_t kMostRadix = 127;
// Convolutions of so many points stay in a core's second cache with a row in every lane.
constexpr int64_t kMostTileConvolution = 4096;

// A length whose prime factors are at most 127 is done in passes (Stockham, no reordering); a large
// one in two steps of about its root; any other as a convolution with a chirp (Bluestein). Behind
// the twiddles of a pass of a prime above 13 stand its roots: cos, sin of 2 pi k / radix.
template <class T>
struct FftPlan {
  int64_t n = 0;
  Table<Pass> passes;
  Table<T> twiddles;
  int64_t n1 = 0, n2 = 0;  // n = n1 * n2, if the two steps are worth it
  PlanPointer<FftPlan> first, second;
  Table<T> step_real, step_imag;  // [n1][stride]
  int64_t step_stride = 0;
  PlanPointer<FftPlan> convolution;
  Table<T> chirp, spectrum;  // interleaved
  Table<T> half;             // of real transforms of 2n: exp(-i pi k / n), interleaved
  int64_t bytes() const;
};

// Whether lanes can hold a row each: all passes, or a short convolution, are done in one tile.
template <class T>
bool by_tiles(const FftPlan<T>& p) {
  return !p.passes.empty() || p.n == 1 ||
         (p.convolution && p.convolution->n <= kMostTileConvolution);
}

// What a tile works on, for each lane.
template <class T>
int64_t tile_points(const FftPlan<T>& p) {
  return p.convolution ? p.convolution->n : p.n;
}

// The plan of a length, from a bounded cache that threads share.
template <class T>
PlanPointer<FftPlan<T>> plan_of(int64_t n);

// The widest lanes this machine has: bytes of a vector, and the function that does a tile.
int64_t fft_vector_bytes();
template <class T>
void fft_tile(const FftPlan<T>& plan, const Tile<T>& tile);

// By the plan of an odd n, which has passes, and that of n / radix of the first of them.
template <class T>
void fft_odd_tile(const FftPlan<T>& plan, const FftPlan<T>& sequence, const OddTile<T>& tile);

// A row of 2m reals: from the transform z of its m pairs to y, m + 1 numbers; w: `half` of m.
template <class T>
void fft_unpack(const T* z, T* y, int64_t m, const T* w);
// The other way: x has m + 1 numbers, z gets m, twice as large.
template <class T>
void fft_pack(const T* x, int64_t m, const T* w, T* z);

}  // namespace hloom
