// cholesky and triangular-solve. A row-major matrix is the transpose of a column-major one, so both
// come down to the column-major routines with sides and triangles exchanged.
#include "linalg.h"

#include <math.h>

#include "linalg_batch.h"
#include "sort_keys.h"
#include "steps.h"

namespace hloom {
namespace {

template <class T>
int32_t cholesky(hl_context* ctx, int64_t batch, int64_t n, bool lower, const T* in, T* out) {
  using R = Real<T>;
  Fortran f = lapack<T>("potrf", n, 64);
  const Dense<T>& d = dense<T>();
  auto finish = [&](T* a, int64_t info) {  // zeros in the other triangle; NaN where it failed
    for (int64_t r = 0; r < n; r++)
      for (int64_t c = 0; c < n; c++) {
        if (info) a[r * n + c] = T((R)NAN);
        else if (lower ? c > r : c < r) a[r * n + c] = T(0);
      }
    if constexpr (kIsComplex<T>)
      if (info)
        for (int64_t k = 0; k < n * n; k++) a[k].im = (R)0;
  };
  if (fits_lanes<T>(batch, n, n * n))
    return in_lanes<T>(ctx, batch, n * n * n / 8 + n * n, [&](int64_t first, int64_t count) {
      T* a = out + first * n * n;
      if (out != in) memcpy(a, in + first * n * n, count * n * n * sizeof(T));
      int32_t info[kLanes<T>];
      d.potrf_lanes(!lower, n, count, a, info);
      for (int64_t l = 0; l < count; l++) finish(a + l * n * n, info[l]);
    });
  return batched(ctx, batch, n * n * n / 8 + n * n, 64, (bool)f, [&](int64_t i, void*) {
    T* a = out + i * n * n;
    if (out != in) memcpy(a, in + i * n * n, n * n * sizeof(T));
    int64_t info = 0, size = n;
    if (f) f(lower ? "U" : "L", &size, a, &size, &info), info = info_of(info);
    else info = d.potrf(!lower, n, a, n);
    finish(a, info);
  });
}

template <class T>
int32_t triangular_solve(hl_context* ctx, int64_t batch, int64_t m, int64_t n, bool left,
                         bool lower, int trans, bool unit, const T* a, const T* b, T* out) {
  int64_t k = left ? m : n;
  Fortran f = lapack<T>("trsm", k, 64);
  const Dense<T>& d = dense<T>();
  if (fits_lanes<T>(batch, k, m * n) && (left || m < kSides))
    return in_lanes<T>(ctx, batch, k * m * n / 4 + m * n, [&](int64_t first, int64_t count) {
      T* y = out + first * m * n;
      if (out != b) memcpy(y, b + first * m * n, count * m * n * sizeof(T));
      d.trsm_lanes(!left, !lower, trans, unit, n, m, count, a + first * k * k, y);
    });
  return batched(ctx, batch, k * m * n / 4 + m * n, 64, (bool)f, [&](int64_t i, void*) {
    const T* x = a + i * k * k;
    T* y = out + i * m * n;
    if (out != b) memcpy(y, b + i * m * n, m * n * sizeof(T));
    T one(1);
    if (f)
      f(left ? "R" : "L", lower ? "U" : "L",
        trans == 0   ? "N"
        : trans == 1 ? "T"
                     : "C",
        unit ? "U" : "N", &n, &m, &one, x, &k, y, &n);
    else d.trsm(!left, !lower, trans, unit, n, m, x, k, y, n);
  });
}

#ifndef HLOOM_HLO_TYPES  // a C library has those that it needs (hloom/aot/link.py)
#define HLOOM_HLO_TYPES(of) \
  of(kF32, float) of(kF64, double) of(kC64, Complex<float>) of(kC128, Complex<double>)
#endif

int32_t no_type(hl_context* ctx, const char* what, int64_t dtype) {
  return hl_set_error(ctx, HL_UNIMPLEMENTED, "%s: type %lld; f32, f64, c64 and c128 are there",
                      what, (long long)dtype);
}

}  // namespace
}  // namespace hloom

HL_API int32_t hl_cholesky(hl_context* ctx, int64_t dtype, int64_t batch, int64_t n, int64_t lower,
                           const void* in, void* out) {
  hloom::StepSpan step(ctx, nullptr, "cholesky");
  using namespace hloom;
  if (n == 0) return HL_OK;
  switch (dtype) {
#define HLOOM_CASE(number, type) \
  case number:                   \
    return cholesky(ctx, batch, n, lower, (const type*)in, (type*)out);
    HLOOM_HLO_TYPES(HLOOM_CASE)
#undef HLOOM_CASE
    default:
      return no_type(ctx, "cholesky", dtype);
  }
}

HL_API int32_t hl_triangular_solve(hl_context* ctx, int64_t dtype, int64_t batch, int64_t m,
                                   int64_t n, int64_t left, int64_t lower, int64_t trans,
                                   int64_t unit, const void* a, const void* b, void* out) {
  hloom::StepSpan step(ctx, nullptr, "triangular-solve");
  using namespace hloom;
  if (m == 0 || n == 0) return HL_OK;
  int t = (int)trans;
  switch (dtype) {
#define HLOOM_CASE(number, type)                                                    \
  case number:                                                                      \
    return triangular_solve(ctx, batch, m, n, left, lower, t, unit, (const type*)a, \
                            (const type*)b, (type*)out);
    HLOOM_HLO_TYPES(HLOOM_CASE)
#undef HLOOM_CASE
    default:
      return no_type(ctx, "triangular-solve", dtype);
  }
}
