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
  T* work;  // 4 * n * lanes values
};

struct Pass {
  int radix;
  int64_t length, twiddles;  // what is left to transform; where its twiddles start
};

// A length whose prime factors are at most 13 is done in passes (Stockham, no reordering); a large
// one in two steps of about its root; any other as a convolution with a chirp (Bluestein).
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

// The plan of a length, from a bounded cache that threads share.
template <class T>
PlanPointer<FftPlan<T>> plan_of(int64_t n);

// The widest lanes this machine has: bytes of a vector, and the function that does a tile.
int64_t fft_vector_bytes();
template <class T>
void fft_tile(const FftPlan<T>& plan, const Tile<T>& tile);

}  // namespace hloom
