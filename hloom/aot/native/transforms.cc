// Fourier transforms for libraries of hloom.aot: the runtime's own (hloom/runtime/native/fft*.cc), which
// here work in memory that the caller lends, alone, by plans that are constants of the library
// (hloom/codegen/llvm/c_fft.py).
//
// Compiled with HLOOM_NAMESPACE and HLOOM_PREFIX as the library is called, so that two can be linked, and
// with the width of its vectors, HLOOM_FFT_BYTES.
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#define HLOOM_PART(name) WITH_PREFIX(HLOOM_PREFIX, fft_##name)
#define hl_fft WITH_PREFIX(HLOOM_PREFIX, hl_fft)
#define fft_plans WITH_PREFIX(HLOOM_PREFIX, fft_plans)
#define HLOOM_FFT_CONSTANT

#include "lent.inc"
//
#include "fft_plan.h"

namespace {

struct Known {
  int64_t n, is_double;
  const void* plan;
};

}  // namespace

// By length, ended by a length of 0.
extern "C" __attribute__((visibility("hidden"))) const Known fft_plans[];

namespace hloom {

template <class T>
PlanPointer<FftPlan<T>> plan_of(int64_t n) {
  for (const Known* k = fft_plans; k->n != 0; k++)
    if (k->n == n && (k->is_double != 0) == (sizeof(T) == 8))
      return static_cast<const FftPlan<T>*>(k->plan);
  __builtin_unreachable();  // the compiler lists all that fft.cc asks for
}

}  // namespace hloom

#include "fft.cc"
#include "fft_tile.cc"
