// What the runtime's routines use of <math.h>, for machines without a C library: by instructions, but
// for hypot, which is taken apart so that squares neither overflow nor vanish.
#pragma once

static inline float fabs(float x) { return __builtin_fabsf(x); }
static inline double fabs(double x) { return __builtin_fabs(x); }
static inline float fabsf(float x) { return __builtin_fabsf(x); }
static inline float copysign(float x, float y) { return __builtin_copysignf(x, y); }
static inline double copysign(double x, double y) { return __builtin_copysign(x, y); }
static inline float fmax(float x, float y) { return x > y || y != y ? x : y; }
static inline double fmax(double x, double y) { return x > y || y != y ? x : y; }
static inline float fmin(float x, float y) { return x < y || y != y ? x : y; }
static inline double fmin(double x, double y) { return x < y || y != y ? x : y; }
static inline float sqrt(float x) { return __builtin_sqrtf(x); }
static inline double sqrt(double x) { return __builtin_sqrt(x); }

static inline double hypot(double x, double y) {
  double a = fabs(x), b = fabs(y), large = a > b ? a : b, small = a > b ? b : a;
  if (a == __builtin_inf() || b == __builtin_inf()) return __builtin_inf();
  if (x != x || y != y) return x + y;
  if (large == 0) return 0;
  double ratio = small / large;
  return large * sqrt(1 + ratio * ratio);
}

static inline float hypot(float x, float y) {
  if (fabs(x) == __builtin_inff() || fabs(y) == __builtin_inff()) return __builtin_inff();
  return (float)sqrt((double)x * x + (double)y * y);
}

static inline float hypotf(float x, float y) { return hypot(x, y); }

#ifndef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#endif
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
