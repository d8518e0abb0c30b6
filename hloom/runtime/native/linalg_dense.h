// Dense linear algebra on one matrix, column by column: the routines and their arguments are those
// of LAPACK (column-major, leading dimension, info), written anew and without blocks.
#pragma once
#include <math.h>
#include <stdint.h>

namespace hloom {

// A complex number whose product is the plain formula (no repair of infinities).
template <class R>
struct Complex {
  R re, im;
  Complex() = default;
  constexpr Complex(R x, R y = 0) : re(x), im(y) {}
  friend Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  friend Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  friend Complex operator/(Complex a, Complex b) {  // Smith: no overflow in between
    if (fabs(b.re) >= fabs(b.im)) {
      R t = b.im / b.re, d = b.re + b.im * t;
      return {(a.re + a.im * t) / d, (a.im - a.re * t) / d};
    }
    R t = b.re / b.im, d = b.re * t + b.im;
    return {(a.re * t + a.im) / d, (a.im * t - a.re) / d};
  }
  Complex operator-() const { return {-re, -im}; }
  Complex& operator+=(Complex b) { return *this = *this + b; }
  Complex& operator-=(Complex b) { return *this = *this - b; }
  Complex& operator*=(Complex b) { return *this = *this * b; }
  bool operator==(Complex b) const { return re == b.re && im == b.im; }
};

template <class T>
struct RealOf {
  using type = T;
};
template <class R>
struct RealOf<Complex<R>> {
  using type = R;
};
template <class T>
using Real = typename RealOf<T>::type;

// Right-hand sides that are solved side by side, and the largest triangle for which they are: its
// rows stay in the nearest cache.
constexpr int64_t kSides = 16, kSidesMost = 128;

// Matrices that are done side by side, one in each lane; up to which order they are, and up to how
// many elements of right-hand sides. All of that lies on the stack.
template <class T>
constexpr int64_t kLanes = 64 / sizeof(T);
constexpr int64_t kLanesMost = 8, kLanesElements = 64;

// The routines for one type, compiled for the widest vectors of the machine.
template <class T>
struct Dense {
  using R = Real<T>;
  int64_t (*potrf)(bool lower, int64_t n, T* a, int64_t lda);
  void (*trsm)(bool left, bool lower, int trans, bool unit, int64_t m, int64_t n, const T* a,
               int64_t lda, T* b, int64_t ldb);
  int64_t (*getrf)(int64_t m, int64_t n, T* a, int64_t lda, int32_t* pivots);
  void (*geqrf)(int64_t m, int64_t n, T* a, int64_t lda, T* tau, T* work /* n */);
  void (*geqp3)(int64_t m, int64_t n, T* a, int64_t lda, int32_t* order, T* tau, T* work /* n */,
                R* norms /* 2n */);
  void (*orgqr)(int64_t m, int64_t n, int64_t k, T* a, int64_t lda, const T* tau, T* work /* n */);
  void (*ormqr)(bool left, bool adjoint, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
                const T* tau, T* c, int64_t ldc, T* work /* m + n */);
  void (*gehrd)(int64_t n, int64_t low, int64_t high, T* a, int64_t lda, T* tau, T* work /* 2n */);
  void (*hetrd)(bool lower, int64_t n, T* a, int64_t lda, R* d, R* e, T* tau, T* work /* n */);
  int64_t (*heevd)(bool vectors, bool lower, int64_t n, T* a, int64_t lda, R* w,
                   T* work /* n * n + 2n */, R* e /* n */);
  // Singular values of an m x n matrix, m >= n, that is overwritten; u: m x (full ? m : n), v: n x n.
  int64_t (*jacobi)(bool vectors, bool full, int64_t m, int64_t n, T* a, R* s, T* u, T* v,
                    T* work /* n*n + m*m + 2n + m */);
  int64_t (*gtsv)(int64_t n, int64_t rhs, T* dl, T* d, T* du, T* b, int64_t ldb);
  int64_t (*schur)(int64_t n, T* a, T* z /* or null */, Complex<R>* w, T* work /* 4n */);
  // Eigenvectors of a (quasi-)triangular matrix times z: right ones, or left ones.
  void (*eigenvectors)(bool left, int64_t n, const T* t, const T* z, const Complex<R>* w,
                       Complex<R>* out, Complex<R>* work /* n */);
  // Of up to kLanes small matrices behind one another at a time; null for complex numbers.
  void (*potrf_lanes)(bool lower, int64_t n, int64_t count, T* a, int32_t* info) = nullptr;
  void (*getrf_lanes)(int64_t m, int64_t n, int64_t count, T* a, int32_t* pivots,
                      int32_t* info) = nullptr;
  void (*trsm_lanes)(bool left, bool lower, int trans, bool unit, int64_t m, int64_t n,
                     int64_t count, const T* a, T* b) = nullptr;
};

template <class T>
const Dense<T>& dense();

}  // namespace hloom
