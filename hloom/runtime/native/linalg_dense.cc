// linalg_dense.inc for each instruction set, and the choice between them.
#include "linalg_dense.h"

#include <math.h>
#include <string.h>

#include <algorithm>
#include <cmath>

#include "instruction_set.h"

namespace hloom {
namespace {

using std::hypot;

#define HLOOM_NAME baseline
#define HLOOM_VECTOR_BYTES 16
#include "linalg_dense.inc"
#undef HLOOM_NAME
#undef HLOOM_VECTOR_BYTES

#if HLOOM_X86_TARGETS
HLOOM_TARGET_BEGIN("avx2,fma")
#define HLOOM_NAME avx2
#define HLOOM_VECTOR_BYTES 32
#include "linalg_dense.inc"
#undef HLOOM_NAME
#undef HLOOM_VECTOR_BYTES
HLOOM_TARGET_END
#endif

}  // namespace

template <class T>
const Dense<T>& dense() {
#if HLOOM_X86_TARGETS
  static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (wide) return avx2::table<T>;
#endif
  return baseline::table<T>;
}

#ifndef HLOOM_CALLS  // where the callers are in the same translation unit
template const Dense<float>& dense<float>();
template const Dense<double>& dense<double>();
template const Dense<Complex<float>>& dense<Complex<float>>();
template const Dense<Complex<double>>& dense<Complex<double>>();
#endif

}  // namespace hloom
