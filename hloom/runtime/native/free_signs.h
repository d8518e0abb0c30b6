// One of the many forms that vectors may have: what rounding would choose is chosen by size.
//
// Eigenvectors, singular vectors and the columns of a Schur form's z may have any sign or phase, and
// a block of two rows in such a form may be turned by 90 degrees. LAPACK leaves them as its last
// steps did; for complex matrices that is the phase of a number that is almost zero. A call with the
// attribute `settled` gets the form in which the largest element of each vector is real and
// positive, and in blocks the number above the diagonal is the larger one: so that results can be
// compared with those of another implementation (`hloom run --check`).
#pragma once
#include "linalg_dense.h"

namespace hloom {

// What counts as smaller: elements of equal size must not be told apart by rounding.
constexpr double kClearlySmaller = 1 - 1.0 / 64;

template <class R>
inline R size_of(R x) {
  return fabs(x);
}
template <class R>
inline R size_of(Complex<R> x) {
  return hypot(x.re, x.im);
}
template <class R>
inline R conjugate(R x) {
  return x;
}
template <class R>
inline Complex<R> conjugate(Complex<R> x) {
  return {x.re, -x.im};
}

// Blocks of two rows of a real Schur form, turned by 90 degrees where that is needed.
template <class R>
void turn_blocks(int64_t n, R* t, R* z) {
  for (int64_t k = 0; k + 1 < n; k++) {
    R below = t[k + 1 + k * n], above = t[k + (k + 1) * n];
    if (below == 0 || fabs(above) >= (R)kClearlySmaller * fabs(below)) continue;
    auto columns = [&](R* m, int64_t rows) {
      for (int64_t i = 0; i < rows; i++) {
        R x = m[i + k * n];
        m[i + k * n] = m[i + (k + 1) * n], m[i + (k + 1) * n] = -x;
      }
    };
    columns(t, k + 2), columns(z, n);
    for (int64_t j = k; j < n; j++) {
      R x = t[k + j * n];
      t[k + j * n] = t[k + 1 + j * n], t[k + 1 + j * n] = -x;
    }
  }
}
template <class R>
void turn_blocks(int64_t, Complex<R>*, Complex<R>*) {}

// The phase of the largest of n elements, the first of those of about that size; 1 for zeros.
template <class T>
T phase_of(int64_t n, const T* x, int64_t stride = 1) {
  using R = Real<T>;
  R most = 0;
  for (int64_t i = 0; i < n; i++) {
    R size = size_of(x[i * stride]);
    most = size > most ? size : most;
  }
  for (int64_t i = 0; i < n && most > 0; i++) {
    R size = size_of(x[i * stride]);
    if (size >= (R)kClearlySmaller * most) return x[i * stride] / T(size);
  }
  return T(1);
}

template <class T>
void scale(int64_t n, T* x, int64_t stride, T by) {
  for (int64_t i = 0; i < n; i++) x[i * stride] *= by;
}

// The columns of v, n x m.
template <class T>
void settle_columns(int64_t n, int64_t m, T* v) {
  for (int64_t k = 0; k < m; k++) scale(n, v + k * n, 1, conjugate(phase_of(n, v + k * n)));
}

// The first k columns of u, and with them the rows of v, so that u s v stays what it is.
template <class T>
void settle_singular(int64_t k, int64_t rows, T* u, int64_t columns, T* v, int64_t ldv) {
  for (int64_t j = 0; j < k; j++) {
    T phase = phase_of(rows, u + j * rows);
    scale(rows, u + j * rows, 1, conjugate(phase)), scale(columns, v + j, ldv, phase);
  }
}

// A Schur form: t and z are n x n, column-major, with a = z t z*.
template <class T>
void settle_schur(int64_t n, T* t, T* z) {
  turn_blocks(n, t, z);
  for (int64_t k = 0; k < n; k++) {
    T phase = phase_of(n, z + k * n), back = conjugate(phase), own = t[k + k * n];
    scale(n, z + k * n, 1, back), scale(n, t + k * n, 1, back), scale(n, t + k, n, phase);
    t[k + k * n] = own;
  }
}

}  // namespace hloom
