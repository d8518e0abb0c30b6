// fft_tile.inc for each vector width, and the choice between them.
#include <stdint.h>

#include <type_traits>
#include <utility>

#include "fft_plan.h"
#include "instruction_set.h"

namespace hloom {
namespace {

// C libraries have one width, HLOOM_FFT_BYTES; the runtime all, and the choice at run time.
#if !defined(HLOOM_FFT_BYTES)
#define HLOOM_FFT_WIDTH(bytes) (bytes == 16 || HLOOM_X86_TARGETS)
#else
#define HLOOM_FFT_WIDTH(bytes) (bytes == HLOOM_FFT_BYTES)
#endif

#if HLOOM_FFT_WIDTH(16)
#define HLOOM_NAME baseline
#define HLOOM_BYTES 16
#include "fft_tile.inc"
#undef HLOOM_NAME
#undef HLOOM_BYTES
#endif

#if HLOOM_FFT_WIDTH(32)
HLOOM_TARGET_BEGIN("avx2,fma")
#define HLOOM_NAME avx2
#define HLOOM_BYTES 32
#include "fft_tile.inc"
#undef HLOOM_NAME
#undef HLOOM_BYTES
HLOOM_TARGET_END
#endif

#if HLOOM_FFT_WIDTH(64)
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
#if defined(HLOOM_FFT_BYTES)
  return HLOOM_FFT_BYTES;
#elif HLOOM_X86_TARGETS
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

#if HLOOM_FFT_WIDTH(64)
#define HLOOM_FFT_64(call) \
  if (bytes == 64) return avx512::call;
#else
#define HLOOM_FFT_64(call)
#endif
#if HLOOM_FFT_WIDTH(32)
#define HLOOM_FFT_32(call) \
  if (bytes == 32) return avx2::call;
#else
#define HLOOM_FFT_32(call)
#endif
#if HLOOM_FFT_WIDTH(16)
#define HLOOM_FFT_16(call) baseline::call;
#else
#define HLOOM_FFT_16(call)
#endif
#define HLOOM_FFT_CHOSEN(call)                         \
  [[maybe_unused]] int64_t bytes = fft_vector_bytes(); \
  HLOOM_FFT_64(call) HLOOM_FFT_32(call) HLOOM_FFT_16(call)

template <class T>
void fft_tile(const FftPlan<T>& plan, const Tile<T>& t) {
  HLOOM_FFT_CHOSEN(tile(plan, t))
}

template <class T>
void fft_odd_tile(const FftPlan<T>& plan, const FftPlan<T>& sequence, const OddTile<T>& t) {
  HLOOM_FFT_CHOSEN(odd_tile(plan, sequence, t))
}

template <class T>
void fft_unpack(const T* z, T* y, int64_t m, const T* w) {
  HLOOM_FFT_CHOSEN(unpack(z, y, m, w))
}

template <class T>
void fft_pack(const T* x, int64_t m, const T* w, T* z) {
  HLOOM_FFT_CHOSEN(pack(x, m, w, z))
}

template void fft_tile<float>(const FftPlan<float>&, const Tile<float>&);
template void fft_tile<double>(const FftPlan<double>&, const Tile<double>&);
template void fft_odd_tile<float>(const FftPlan<float>&, const FftPlan<float>&,
                                  const OddTile<float>&);
template void fft_odd_tile<double>(const FftPlan<double>&, const FftPlan<double>&,
                                   const OddTile<double>&);
template void fft_unpack<float>(const float*, float*, int64_t, const float*);
template void fft_unpack<double>(const double*, double*, int64_t, const double*);
template void fft_pack<float>(const float*, int64_t, const float*, float*);
template void fft_pack<double>(const double*, int64_t, const double*, double*);

}  // namespace hloom
