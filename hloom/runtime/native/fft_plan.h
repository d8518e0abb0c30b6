// What is known of a length before any data: factors, twiddles, how it is taken apart.
#pragma once
#include <stdint.h>

#include <memory>
#include <vector>

namespace hloom {

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
  std::vector<Pass> passes;
  std::vector<T> twiddles;
  int64_t n1 = 0, n2 = 0;  // n = n1 * n2, if the two steps are worth it
  std::shared_ptr<const FftPlan> first, second;
  std::vector<T> step_real, step_imag;  // [n1][stride]
  int64_t step_stride = 0;
  std::shared_ptr<const FftPlan> convolution;
  std::vector<T> chirp, spectrum;  // interleaved
  std::vector<T> half;             // of real transforms of 2n: exp(-i pi k / n), interleaved
  int64_t bytes() const;
};

// The plan of a length, from a bounded cache that threads share.
template <class T>
std::shared_ptr<const FftPlan<T>> plan_of(int64_t n);

// The widest lanes this machine has: bytes of a vector, and the function that does a tile.
int64_t fft_vector_bytes();
template <class T>
void fft_tile(const FftPlan<T>& plan, const Tile<T>& tile);

}  // namespace hloom
