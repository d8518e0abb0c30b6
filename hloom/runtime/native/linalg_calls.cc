// Handlers of the lapack_*_ffi custom calls: column-major batches, operands and results in the
// order in which JAX 0.10 emits them. Large matrices go to a LAPACK if one was found.
#include "linalg_calls.h"

#include <math.h>

#include "free_signs.h"
#include "linalg_batch.h"

namespace hloom {
namespace {

// A frame read as matrices: sizes of the last two dimensions of an operand, what is before is batch.
struct Call {
  hl_context* ctx;
  const hl_call_frame* frame;
  int64_t batch = 1, rows = 0, columns = 0;
  const char* wrong = nullptr;

  Call(hl_context* c, const hl_call_frame* f, int64_t operands, int64_t results, int64_t shaped = 0)
      : ctx(c), frame(f) {
    if (f->operand_count != operands || f->result_count != results) {
      wrong = "a wrong number of operands or results";
      return;
    }
    const hl_buffer& b = f->operands[shaped];
    if (b.rank < 2) {
      wrong = "an operand that is no matrix";
      return;
    }
    rows = b.dims[b.rank - 2], columns = b.dims[b.rank - 1];
    for (int64_t d = 0; d < b.rank - 2; d++) batch *= b.dims[d];
  }
  template <class T>
  T* in(int64_t k) const {
    return (T*)frame->operands[k].data;
  }
  template <class T>
  T* out(int64_t k) const {
    return (T*)frame->results[k].data;
  }
  int64_t last(const hl_buffer& b) const { return b.rank ? b.dims[b.rank - 1] : 1; }
  const hl_attribute* find(const char* name) const {
    int64_t size = (int64_t)strlen(name);
    for (int64_t i = 0; i < frame->attribute_count; i++) {
      const hl_attribute& a = frame->attributes[i];
      if (a.kind == HL_ATTRIBUTE_SCALAR && a.name_size == size && !memcmp(a.name, name, size))
        return &a;
    }
    return nullptr;
  }
  int64_t attribute(const char* name) {
    const hl_attribute* a = find(name);
    if (!a) {
      wrong = name;
      return 0;
    }
    switch (a->dtype) {
      case 1:
      case 2:
      case 6:
        return *(const uint8_t*)a->data;
      case 4:
      case 8:
        return *(const int32_t*)a->data;
      default:
        return *(const int64_t*)a->data;
    }
  }
  // Operand k becomes result r, unless they share memory.
  void copy(int64_t k, int64_t r, int64_t bytes) const {
    if (in<void>(k) != out<void>(r)) memcpy(out<void>(r), in<void>(k), bytes);
  }
  int32_t refuse() const {
    return hl_set_error(ctx, HL_INVALID_ARGUMENT,
                        "linear algebra custom call: %s (missing attribute, if a name)", wrong);
  }
};

int64_t at_least_one(int64_t n) { return n > 0 ? n : 1; }

// -- factors ------------------------------------------------------------------------------------

template <class T>
int32_t potrf(hl_context* ctx, const hl_call_frame* frame) {
  Call c(ctx, frame, 1, 2);
  int64_t uplo = c.attribute("uplo"), n = c.rows;
  if (c.wrong) return c.refuse();
  c.copy(0, 0, c.batch * n * n * sizeof(T));
  Fortran f = lapack<T>("potrf", n, 64);
  if (fits_lanes<T>(c.batch, n, n * n))
    return in_lanes<T>(ctx, c.batch, n * n * n / 8 + n, [&](int64_t first, int64_t count) {
      T* a = c.out<T>(0) + first * n * n;
      dense<T>().potrf_lanes(uplo == 'L', n, count, a, c.out<int32_t>(1) + first);
    });
  return batched(ctx, c.batch, n * n * n / 8, 64, (bool)f, [&](int64_t i, void*) {
    T* a = c.out<T>(0) + i * n * n;
    int64_t info = 0;
    char u = (char)uplo;
    if (f) f(&u, &n, a, &n, &info), info = info_of(info);
    else info = dense<T>().potrf(uplo == 'L', n, a, at_least_one(n));
    c.out<int32_t>(1)[i] = (int32_t)info;
  });
}

template <class T>
int32_t getrf(hl_context* ctx, const hl_call_frame* frame) {
  Call c(ctx, frame, 1, 3);
  if (c.wrong) return c.refuse();
  int64_t m = c.rows, n = c.columns, k = std::min(m, n);
  c.copy(0, 0, c.batch * m * n * sizeof(T));
  Fortran f = lapack<T>("getrf", k);
  if (fits_lanes<T>(c.batch, std::max(m, n), m * n))
    return in_lanes<T>(ctx, c.batch, m * n * k / 8 + n, [&](int64_t first, int64_t count) {
      dense<T>().getrf_lanes(m, n, count, c.out<T>(0) + first * m * n,
                             c.out<int32_t>(1) + first * k, c.out<int32_t>(2) + first);
    });
  return batched(ctx, c.batch, m * n * k / 8, 8 * k, (bool)f, [&](int64_t i, void* work) {
    T* a = c.out<T>(0) + i * m * n;
    int32_t* pivots = c.out<int32_t>(1) + i * k;
    int64_t info = 0;
    if (f) {
      f(&m, &n, a, &m, work, &info);
      narrow(work, f.integer_bytes, k, pivots);
      info = info_of(info);
    } else {
      info = dense<T>().getrf(m, n, a, at_least_one(m), pivots);
    }
    c.out<int32_t>(2)[i] = (int32_t)info;
  });
}

template <class T>
int32_t geqrf(hl_context* ctx, const hl_call_frame* frame) {
  Call c(ctx, frame, 1, 2);
  if (c.wrong) return c.refuse();
  int64_t m = c.rows, n = c.columns, k = std::min(m, n), room = 64 * n + 64;
  c.copy(0, 0, c.batch * m * n * sizeof(T));
  Fortran f = lapack<T>("geqrf", k);
  return batched(ctx, c.batch, m * n * k / 8, room * sizeof(T), (bool)f,
                 [&](int64_t i, void* work) {
                   T *a = c.out<T>(0) + i * m * n, *tau = c.out<T>(1) + i * k;
                   int64_t info = 0;
                   if (f) f(&m, &n, a, &m, tau, work, &room, &info);
                   else dense<T>().geqrf(m, n, a, at_least_one(m), tau, (T*)work);
                 });
}

template <class T>
int32_t geqp3(hl_context* ctx, const hl_call_frame* frame) {
  Call c(ctx, frame, 2, 3);
  if (c.wrong) return c.refuse();
  int64_t m = c.rows, n = c.columns, k = std::min(m, n), room = 64 * (n + 2);
  for (int64_t i = 0; i < c.batch * n; i++)
    if (c.in<int32_t>(1)[i])
      return hl_set_error(ctx, HL_UNIMPLEMENTED,
                          "geqp3: columns that are fixed beforehand (jpvt[%lld] is not 0)",
                          (long long)i);
  c.copy(0, 0, c.batch * m * n * sizeof(T));
  Fortran f = lapack<T>("geqp3", k);
  return batched(ctx, c.batch, m * n * k / 8, (room + 8 * n) * sizeof(T) + 8 * n, (bool)f,
                 [&](int64_t i, void* work) {
                   T *a = c.out<T>(0) + i * m * n, *tau = c.out<T>(2) + i * k, *w = (T*)work;
                   int32_t* order = c.out<int32_t>(1) + i * n;
                   Real<T>* norms = (Real<T>*)(w + room);
                   if (!f) return dense<T>().geqp3(m, n, a, at_least_one(m), order, tau, w, norms);
                   int64_t info = 0;
                   auto* places = (int64_t*)(norms + 4 * n);
                   memset(places, 0, 8 * n);
                   if constexpr (kIsComplex<T>)
                     f(&m, &n, a, &m, places, tau, w, &room, norms, &info);
                   else f(&m, &n, a, &m, places, tau, w, &room, &info);
                   narrow(places, f.integer_bytes, n, order);
                 });
}

template <class T>
int32_t orgqr(hl_context* ctx, const hl_call_frame* frame) {
  Call c(ctx, frame, 2, 1);
  if (c.wrong) return c.refuse();
  int64_t m = c.rows, n = c.columns, k = c.last(frame->operands[1]), room = 64 * n + 64;
  c.copy(0, 0, c.batch * m * n * sizeof(T));
  Fortran f = lapack<T>(kIsComplex<T> ? "ungqr" : "orgqr", k);
  return batched(ctx, c.batch, m * n * k / 4, room * sizeof(T), (bool)f,
                 [&](int64_t i, void* work) {
                   T *a = c.out<T>(0) + i * m * n, *tau = c.in<T>(1) + i * k;
                   int64_t info = 0;
                   if (f) f(&m, &n, &k, a, &m, tau, work, &room, &info);
                   else dense<T>().orgqr(m, n, k, a, at_least_one(m), tau, (T*)work);
                 });
}

template <class T>
int32_t ormqr(hl_context* ctx, const hl_call_frame* frame) {
  Call c(ctx, frame, 3, 1, 2);
  bool left = c.attribute("left"), transpose = c.attribute("transpose");
  if (c.wrong) return c.refuse();
  int64_t m = c.rows, n = c.columns, order = left ? m : n, room = 64 * (m + n) + 8192;
  const hl_buffer& h = frame->operands[0];
  int64_t lda = h.dims[h.rank - 2], width = h.dims[h.rank - 1], k = c.last(frame->operands[1]);
  c.copy(2, 0, c.batch * m * n * sizeof(T));
  Fortran f = lapack<T>(kIsComplex<T> ? "unmqr" : "ormqr", k);
  return batched(ctx, c.batch, m * n * k / 4 + order, room * sizeof(T), (bool)f,
                 [&](int64_t i, void* work) {
                   T *a = c.in<T>(0) + i * lda * width, *tau = c.in<T>(1) + i * k,
                     *x = c.out<T>(0) + i * m * n;
                   int64_t info = 0;
                   if (f)
                     f(left ? "L" : "R",
                       !transpose      ? "N"
                       : kIsComplex<T> ? "C"
                                       : "T",
                       &m, &n, &k, a, &lda, tau, x, &m, work, &room, &info);
                   else
                     dense<T>().ormqr(left, transpose, m, n, k, a, at_least_one(lda), tau, x,
                                      at_least_one(m), (T*)work);
                 });
}

template <class T>
int32_t trsm(hl_context* ctx, const hl_call_frame* frame) {
  Call c(ctx, frame, 2, 1, 1);
  int64_t side = c.attribute("side"), uplo = c.attribute("uplo"), trans = c.attribute("trans_x"),
          diag = c.attribute("diag");
  if (c.wrong) return c.refuse();
  int64_t m = c.rows, n = c.columns, k = side == 'L' ? m : n;
  c.copy(1, 0, c.batch * m * n * sizeof(T));
  Fortran f = lapack<T>("trsm", k, 64);
  int kind = trans == 'N' ? 0 : trans == 'T' ? 1 : 2;
  if (fits_lanes<T>(c.batch, k, m * n) && (side != 'L' || n < kSides))
    return in_lanes<T>(ctx, c.batch, m * n * k / 4 + m, [&](int64_t first, int64_t count) {
      dense<T>().trsm_lanes(side == 'L', uplo == 'L', kind, diag == 'U', m, n, count,
                            c.in<T>(0) + first * k * k, c.out<T>(0) + first * m * n);
    });
  return batched(ctx, c.batch, m * n * k / 4, 64, (bool)f, [&](int64_t i, void*) {
    T *a = c.in<T>(0) + i * k * k, *b = c.out<T>(0) + i * m * n, one(1);
    char s = (char)side, u = (char)uplo, t = (char)trans, d = (char)diag;
    if (f) f(&s, &u, &t, &d, &m, &n, &one, a, &k, b, &m);
    else
      dense<T>().trsm(side == 'L', uplo == 'L', kind, diag == 'U', m, n, a, at_least_one(k), b,
                      at_least_one(m));
  });
}

template <class T>
int32_t gtsv(hl_context* ctx, const hl_call_frame* frame) {
  Call c(ctx, frame, 4, 5, 3);
  if (c.wrong) return c.refuse();
  int64_t n = c.rows, rhs = c.columns;
  for (int64_t k = 0; k < 3; k++) c.copy(k, k, c.batch * n * sizeof(T));
  c.copy(3, 3, c.batch * n * rhs * sizeof(T));
  return batched(ctx, c.batch, n * rhs, 64, false, [&](int64_t i, void*) {
    // The first element of the lower diagonal and the last of the upper one are not used.
    c.out<int32_t>(4)[i] =
        (int32_t)dense<T>().gtsv(n, rhs, c.out<T>(0) + i * n + 1, c.out<T>(1) + i * n,
                                 c.out<T>(2) + i * n, c.out<T>(3) + i * n * rhs, at_least_one(n));
  });
}

template <class T>
int32_t gehrd(hl_context* ctx, const hl_call_frame* frame) {
  Call c(ctx, frame, 1, 3);
  int64_t low = c.attribute("low"), high = c.attribute("high");
  if (c.wrong) return c.refuse();
  int64_t n = c.rows, k = std::max<int64_t>(0, n - 1), room = 64 * n + 8192;
  c.copy(0, 0, c.batch * n * n * sizeof(T));
  Fortran f = lapack<T>("gehrd", n);
  return batched(ctx, c.batch, n * n * n / 4, room * sizeof(T), (bool)f,
                 [&](int64_t i, void* work) {
                   T *a = c.out<T>(0) + i * n * n, *tau = c.out<T>(1) + i * k;
                   int64_t info = 0;
                   if (f) f(&n, &low, &high, a, &n, tau, work, &room, &info);
                   else if (n) dense<T>().gehrd(n, low, high, a, n, tau, (T*)work);
                   c.out<int32_t>(2)[i] = (int32_t)info_of(info);
                 });
}

template <class T>
int32_t hetrd(hl_context* ctx, const hl_call_frame* frame) {
  using R = Real<T>;
  Call c(ctx, frame, 1, 5);
  int64_t uplo = c.attribute("uplo");
  if (c.wrong) return c.refuse();
  int64_t n = c.rows, k = std::max<int64_t>(0, n - 1), room = 64 * n + 64;
  c.copy(0, 0, c.batch * n * n * sizeof(T));
  Fortran f = lapack<T>(kIsComplex<T> ? "hetrd" : "sytrd", n);
  return batched(ctx, c.batch, n * n * n / 4, room * sizeof(T), (bool)f,
                 [&](int64_t i, void* work) {
                   T *a = c.out<T>(0) + i * n * n, *tau = c.out<T>(3) + i * k;
                   R *d = c.out<R>(1) + i * n, *e = c.out<R>(2) + i * k;
                   int64_t info = 0;
                   char u = (char)uplo;
                   if (f) f(&u, &n, a, &n, d, e, tau, work, &room, &info);
                   else dense<T>().hetrd(uplo == 'L', n, a, at_least_one(n), d, e, tau, (T*)work);
                   c.out<int32_t>(4)[i] = (int32_t)info_of(info);
                 });
}

// -- eigenvalues and singular values ------------------------------------------------------------
// Signs and orders are free here. A LAPACK that was found is asked at all sizes: then they are those
// of everybody else who asks it. From kThreads on it might use threads of its own.
constexpr int64_t kThreads = 16;

template <class T>
int32_t heevd(hl_context* ctx, const hl_call_frame* frame) {
  using R = Real<T>;
  Call c(ctx, frame, 1, 3);
  int64_t mode = c.attribute("mode"), uplo = c.attribute("uplo");
  if (c.wrong) return c.refuse();
  int64_t n = c.rows;
  c.copy(0, 0, c.batch * n * n * sizeof(T));
  Fortran f = lapack<T>(kIsComplex<T> ? "heevd" : "syevd", n, 1);
  bool settled = mode == 'V' && c.find("settled") != nullptr;
  int64_t room = f ? 2 * n * n + 6 * n + 64 * n + 64 : n * n + 2 * n,
          reals = 2 * n * n + 5 * n + 64, places = 5 * n + 64;
  int64_t bytes = room * sizeof(T) + reals * sizeof(R) + places * 8;
  return batched(
      ctx, c.batch, n * n * n, bytes, n >= kLarge && f,
      [&](int64_t i, void* work) {
        T* a = c.out<T>(0) + i * n * n;
        R *w = c.out<R>(1) + i * n, *r = (R*)((T*)work + room);
        int64_t info = 0;
        char j = (char)mode, u = (char)uplo;
        auto* whole = (int64_t*)(((uintptr_t)(r + reals) + 7) / 8 * 8);
        int64_t many = places - 8;
        if (!f)
          info = dense<T>().heevd(mode == 'V', uplo == 'L', n, a, at_least_one(n), w, (T*)work, r);
        else if constexpr (kIsComplex<T>)
          f(&j, &u, &n, a, &n, w, work, &room, r, &reals, whole, &many, &info);
        else f(&j, &u, &n, a, &n, w, work, &room, whole, &many, &info);
        if (settled) settle_columns(n, n, a);
        c.out<int32_t>(2)[i] = (int32_t)info_of(info);
      },
      n >= kThreads && f);
}

// Our own singular value decomposition of one matrix, which is transposed first if it is wide.
template <class T>
int64_t own_svd(char mode, int64_t m, int64_t n, const T* a, Real<T>* s, T* u, T* vt, T* work) {
  int64_t large = std::max(m, n), k = std::min(m, n);
  bool wide = n > m, vectors = mode != 'N', full = mode == 'A';
  auto conj = [](T x) {
    if constexpr (kIsComplex<T>) return T(x.re, -x.im);
    else return x;
  };
  T *copy = work, *left = copy + m * n, *right = left + large * large, *room = right + k * k;
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < m; i++) {
      if (wide) copy[j + i * n] = conj(a[i + j * m]);
      else copy[i + j * m] = a[i + j * m];
    }
  int64_t info = dense<T>().jacobi(vectors, full, large, k, copy, s, left, right, room);
  if (!vectors) return info;
  int64_t width = full ? large : k;  // columns of the long side's vectors
  if (!wide) {
    memcpy(u, left, m * width * sizeof(T));
    for (int64_t j = 0; j < k; j++)
      for (int64_t i = 0; i < k; i++) vt[j + i * k] = conj(right[i + j * k]);
    return info;
  }
  memcpy(u, right, k * k * sizeof(T));  // a = (left s right*)* = right s left*
  for (int64_t j = 0; j < width; j++)
    for (int64_t i = 0; i < n; i++) vt[j + i * width] = conj(left[i + j * n]);
  return info;
}

template <class T, bool QR>
int32_t gesdd(hl_context* ctx, const hl_call_frame* frame) {
  using R = Real<T>;
  Call c(ctx, frame, 1, 5);
  int64_t mode = c.attribute("mode");
  if (c.wrong) return c.refuse();
  int64_t m = c.rows, n = c.columns, k = std::min(m, n), large = std::max(m, n);
  c.copy(0, 0, c.batch * m * n * sizeof(T));
  Fortran f = lapack<T>(QR ? "gesvd" : "gesdd", k, 1);
  bool settled = mode != 'N' && c.find("settled") != nullptr;
  const hl_buffer &ub = frame->results[2], &vb = frame->results[3];
  int64_t us = ub.dims[ub.rank - 2] * ub.dims[ub.rank - 1],
          vs = vb.dims[vb.rank - 2] * vb.dims[vb.rank - 1];
  int64_t ldu = at_least_one(ub.dims[ub.rank - 2]), ldv = at_least_one(vb.dims[vb.rank - 2]);
  int64_t room = f ? 5 * k * k + 10 * k + 80 * large + 4 * k * large + 64
                   : m * n + large * large + k * k + (k * k + large * large + 2 * k + large + 64);
  int64_t reals = 5 * k * k + 7 * k + 2 * large * k + 64,
          bytes = room * sizeof(T) + reals * sizeof(R) + 8 * (8 * k + 8);
  return batched(
      ctx, c.batch, m * n * k * 4, bytes, k >= kThreads && f,
      [&](int64_t i, void* work) {
        T *a = c.out<T>(0) + i * m * n, *u = c.out<T>(2) + i * us, *v = c.out<T>(3) + i * vs;
        R *s = c.out<R>(1) + i * k, *r = (R*)((T*)work + room);
        int64_t info = 0;
        char j = (char)mode;
        auto* whole = (int64_t*)(((uintptr_t)(r + reals) + 7) / 8 * 8);
        if (!f) info = own_svd<T>(j, m, n, a, s, u, v, (T*)work);
        else if constexpr (QR && kIsComplex<T>)
          f(&j, &j, &m, &n, a, &m, s, u, &ldu, v, &ldv, work, &room, r, &info);
        else if constexpr (QR) f(&j, &j, &m, &n, a, &m, s, u, &ldu, v, &ldv, work, &room, &info);
        else if constexpr (kIsComplex<T>)
          f(&j, &m, &n, a, &m, s, u, &ldu, v, &ldv, work, &room, r, whole, &info);
        else f(&j, &m, &n, a, &m, s, u, &ldu, v, &ldv, work, &room, whole, &info);
        if (settled) settle_singular(k, m, u, n, v, ldv);
        c.out<int32_t>(4)[i] = (int32_t)info_of(info);
      },
      k >= kThreads && f);
}

// Columns of LAPACK's real eigenvectors, a pair for two conjugate values, to complex ones.
template <class R>
void unfold(int64_t n, const R* v, const R* wi, Complex<R>* out) {
  for (int64_t j = 0; j < n; j++) {
    bool pair = wi[j] != 0 && j + 1 < n;
    for (int64_t i = 0; i < n; i++) {
      R re = v[i + j * n], im = pair ? v[i + (j + 1) * n] : 0;
      out[i + j * n] = {re, im};
      if (pair) out[i + (j + 1) * n] = {re, -im};
    }
    j += pair;
  }
}

template <class T>
int32_t geev(hl_context* ctx, const hl_call_frame* frame) {
  using R = Real<T>;
  using C = Complex<R>;
  constexpr int64_t first = kIsComplex<T> ? 1 : 2;  // results before the vectors
  Call c(ctx, frame, 1, first + 3);
  bool left = c.attribute("compute_left") == 'V', right = c.attribute("compute_right") == 'V';
  if (c.wrong) return c.refuse();
  int64_t n = c.rows;
  Fortran f = lapack<T>("geev", n, 1);
  bool settled = c.find("settled") != nullptr;
  int64_t room = 8 * n + 64 * n + 64, size = n * n;
  int64_t bytes = (3 * size + room) * sizeof(T) + 4 * n * sizeof(C) + 2 * n * sizeof(R);
  return batched(
      ctx, c.batch, n * n * n * 8, bytes, n >= kLarge && f,
      [&](int64_t i, void* work) {
        T *a = (T*)work, *z = a + size, *y = z + size, *w = y + size;
        C *values = (C*)(w + room), *spare = values + n;
        R* r = (R*)(spare + n);
        memcpy(a, c.in<T>(0) + i * size, size * sizeof(T));
        C *vl = c.out<C>(first) + i * size, *vr = c.out<C>(first + 1) + i * size;
        R *wr = c.out<R>(0) + i * n, *wi = kIsComplex<T> ? nullptr : c.out<R>(1) + i * n;
        int64_t info = 0, one = at_least_one(n);
        char l = left ? 'V' : 'N', k = right ? 'V' : 'N';
        if (n == 0) {
        } else if (!f) {
          info = dense<T>().schur(n, a, z, values, w);
          for (int64_t j = 0; j < n; j++) {
            if constexpr (kIsComplex<T>) c.out<C>(0)[i * n + j] = values[j];
            else wr[j] = values[j].re, wi[j] = values[j].im;
          }
          if (left && !info) dense<T>().eigenvectors(true, n, a, z, values, vl, spare);
          if (right && !info) dense<T>().eigenvectors(false, n, a, z, values, vr, spare);
        } else if constexpr (kIsComplex<T>) {
          f(&l, &k, &n, a, &one, c.out<C>(0) + i * n, vl, &one, vr, &one, w, &room, r, &info);
        } else {
          f(&l, &k, &n, a, &one, wr, wi, z, &one, y, &one, w, &room, &info);
          if (left) unfold(n, z, wi, vl);
          if (right) unfold(n, y, wi, vr);
        }
        if (left && settled) settle_columns(n, n, vl);
        if (right && settled) settle_columns(n, n, vr);
        if (!left) memset((void*)vl, 0, size * sizeof(C));
        if (!right) memset((void*)vr, 0, size * sizeof(C));
        c.out<int32_t>(first + 2)[i] = (int32_t)info_of(info);
      },
      n >= kThreads && f);
}

template <class T>
int32_t gees(hl_context* ctx, const hl_call_frame* frame) {
  using R = Real<T>;
  using C = Complex<R>;
  constexpr int64_t last = kIsComplex<T> ? 3 : 4;
  Call c(ctx, frame, 1, last + 2);
  int64_t mode = c.attribute("mode"), sort = c.attribute("sort");
  if (!c.wrong && sort != 'N')
    return hl_set_error(ctx, HL_UNIMPLEMENTED, "gees: eigenvalues cannot be sorted");
  if (c.wrong) return c.refuse();
  int64_t n = c.rows, size = n * n, room = 70 * n + 64;
  c.copy(0, 0, c.batch * size * sizeof(T));
  Fortran f = lapack<T>("gees", n, 1);
  bool settled = c.find("settled") != nullptr;
  return batched(
      ctx, c.batch, n * n * n * 8, room * sizeof(T) + n * (sizeof(C) + sizeof(R)), n >= kLarge && f,
      [&](int64_t i, void* work) {
        T *a = c.out<T>(0) + i * size, *z = c.out<T>(1) + i * size, *w = (T*)work;
        C* values = (C*)(w + room);
        R *wr = c.out<R>(2) + i * n, *wi = kIsComplex<T> ? nullptr : c.out<R>(3) + i * n;
        int64_t info = 0, chosen = 0, none = 0;
        char j = settled ? 'V' : (char)mode;  // vectors say which of the forms it is
        if (!f) {
          info = dense<T>().schur(n, a, j == 'V' ? z : nullptr, values, w);
          for (int64_t k = 0; k < n; k++) {
            if constexpr (kIsComplex<T>) c.out<C>(2)[i * n + k] = values[k];
            else wr[k] = values[k].re, wi[k] = values[k].im;
          }
        } else if constexpr (kIsComplex<T>) {
          f(&j, "N", nullptr, &n, a, &n, &chosen, c.out<C>(2) + i * n, z, &n, w, &room, (R*)values,
            &none, &info);
        } else {
          f(&j, "N", nullptr, &n, a, &n, &chosen, wr, wi, z, &n, w, &room, &none, &info);
        }
        if (settled) settle_schur(n, a, z);
        if (mode != 'V') memset((void*)z, 0, size * sizeof(T));
        c.out<int32_t>(last)[i] = 0;
        c.out<int32_t>(last + 1)[i] = (int32_t)info_of(info);
      },
      n >= kThreads && f);
}

using C64 = Complex<float>;
using C128 = Complex<double>;

#define HLOOM_FOUR(name)                                                           \
  {"lapack_s" #name "_ffi", name<float>}, {"lapack_d" #name "_ffi", name<double>}, \
      {"lapack_c" #name "_ffi", name<C64>}, {                                      \
    "lapack_z" #name "_ffi", name<C128>                                            \
  }
#define HLOOM_TWO(real_name, complex_name, handler)                                              \
  {"lapack_s" real_name "_ffi", handler<float>}, {"lapack_d" real_name "_ffi", handler<double>}, \
      {"lapack_c" complex_name "_ffi", handler<C64>}, {                                          \
    "lapack_z" complex_name "_ffi", handler<C128>                                                \
  }
#define HLOOM_SVD(name, qr)                                                                \
  {"lapack_s" name "_ffi", gesdd<float, qr>}, {"lapack_d" name "_ffi", gesdd<double, qr>}, \
      {"lapack_c" name "_ffi", gesdd<C64, qr>}, {                                          \
    "lapack_z" name "_ffi", gesdd<C128, qr>                                                \
  }

const BuiltIn kCalls[] = {
#ifdef HLOOM_CALLS  // those that a C library makes (hloom/aot/link.py)
    HLOOM_CALLS
#else
    HLOOM_FOUR(potrf),
    HLOOM_FOUR(getrf),
    HLOOM_FOUR(geqrf),
    HLOOM_FOUR(geqp3),
    HLOOM_FOUR(trsm),
    HLOOM_FOUR(gtsv),
    HLOOM_FOUR(gehrd),
    HLOOM_FOUR(geev),
    HLOOM_FOUR(gees),
    HLOOM_TWO("orgqr", "ungqr", orgqr),
    HLOOM_TWO("ormqr", "unmqr", ormqr),
    HLOOM_TWO("syevd", "heevd", heevd),
    HLOOM_TWO("sytrd", "hetrd", hetrd),
    HLOOM_SVD("gesdd", false),
    HLOOM_SVD("gesvd", true),
#endif
    {nullptr, nullptr},
};

}  // namespace

const BuiltIn* linalg_calls() { return kCalls; }

}  // namespace hloom
