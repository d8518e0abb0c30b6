// Fourier transforms of dense arrays over their last dimensions. See ROUTINES.md.
#pragma once
#include "hl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HL_FFT = 0, HL_IFFT = 1, HL_RFFT = 2, HL_IRFFT = 3 };

int32_t hl_fft(hl_context* ctx, int64_t kind, int64_t is_double, int64_t rank,
               const int64_t* lengths, int64_t batch, const void* in, void* out);

// A part of what is known of a length, for C libraries; its bytes, which are copied unless `out` is
// null. 0: n1, n2, stride of the steps, length of the convolution (64 bits each); 1: radix, length
// and twiddles of each pass (64 bits each); then twiddles, step_real, step_imag, chirp, spectrum,
// half (fft_plan.h). -1: there is no such part.
int64_t hl_fft_plan(int64_t n, int64_t is_double, int64_t part, void* out);

#ifdef __cplusplus
}
#endif
