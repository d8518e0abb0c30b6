// fft_tile.inc for each vector width, and the choice between them.
#include <stdint.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "fft_plan.h"
#include "instruction_set.h"

namespace hloom {
namespace {

#define HLOOM_NAME baseline
#define HLOOM_BYTES 16
#include "fft_tile.inc"
#undef HLOOM_NAME
#undef HLOOM_BYTES

#if HLOOM_X86_TARGETS
HLOOM_TARGET_BEGIN("avx2,fma")
#define HLOOM_NAME avx2
#define HLOOM_BYTES 32
#include "fft_tile.inc"
#undef HLOOM_NAME
#undef HLOOM_BYTES
HLOOM_TARGET_END

#if defined(__clang__)  // which takes the width of the vectors that are written
HLOOM_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#else
HLOOM_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#endif
#define HLOOM_NAME avx512
#define HLOOM_BYTES 64
#include "fft_tile.inc"
#undef HLOOM_NAME
#undef HLOOM_BYTES
HLOOM_TARGET_END
#endif

}  // namespace

int64_t fft_vector_bytes() {
#if HLOOM_X86_TARGETS
  static const int64_t bytes =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")
          ? 64
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 32
                                                                        : 16;
  return bytes;
#else
  return 16;
#endif
}

template <class T>
void fft_tile(const FftPlan<T>& plan, const Tile<T>& t) {
#if HLOOM_X86_TARGETS
  int64_t bytes = fft_vector_bytes();
  if (bytes == 64) return avx512::tile(plan, t);
  if (bytes == 32) return avx2::tile(plan, t);
#endif
  baseline::tile(plan, t);
}

template void fft_tile<float>(const FftPlan<float>&, const Tile<float>&);
template void fft_tile<double>(const FftPlan<double>&, const Tile<double>&);

}  // namespace hloom
