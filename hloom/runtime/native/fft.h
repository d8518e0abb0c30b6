// Fourier transforms of dense arrays over their last dimensions. See ROUTINES.md.
#pragma once
#include "hl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HL_FFT = 0, HL_IFFT = 1, HL_RFFT = 2, HL_IRFFT = 3 };

int32_t hl_fft(hl_context* ctx, int64_t kind, int64_t is_double, int64_t rank,
               const int64_t* lengths, int64_t batch, const void* in, void* out);

#ifdef __cplusplus
}
#endif
