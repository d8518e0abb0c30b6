// Loops over batches of matrices, and calls of Fortran routines.
#pragma once
#include <string.h>

#include <algorithm>

#include "context.h"
#include "custom_call.h"
#include "lapack.h"
#include "linalg_dense.h"
#include "scratch.h"

namespace hloom {

// From this size on a LAPACK that was found is asked; below, our own code is faster.
constexpr int64_t kLarge = 64;

template <class T>
constexpr char kPrefix = 0;
template <>
inline constexpr char kPrefix<float> = 's';
template <>
inline constexpr char kPrefix<double> = 'd';
template <>
inline constexpr char kPrefix<Complex<float>> = 'c';
template <>
inline constexpr char kPrefix<Complex<double>> = 'z';
template <class T>
constexpr bool kIsComplex = sizeof(T) != sizeof(Real<T>);

// A routine of LAPACK for a type, if the matrices are large enough and there is one. Its integers
// are kept in int64: little-endian machines read the low half where it wants 4 bytes.
struct Fortran {
  void* function = nullptr;
  int64_t integer_bytes = 8;
  explicit operator bool() const { return function != nullptr; }
  template <class... A>
  void operator()(A... a) const {  // lengths of up to four strings follow the arguments
    ((void (*)(A..., size_t, size_t, size_t, size_t))function)(a..., 1, 1, 1, 1);
  }
};

template <class T>
Fortran lapack(const char* name, int64_t size, int64_t least = kLarge) {
  Fortran f;
  if (size < least) return f;
  char full[16] = {kPrefix<T>};
  strncpy(full + 1, name, 14);
  f.function = hl_lapack_find(full, &f.integer_bytes);
  return f;
}

// What a routine of LAPACK said in `info`, whatever the size of its integers.
inline int64_t info_of(int64_t x) { return (int32_t)x; }

// Integers of LAPACK to the s32 of JAX.
inline void narrow(const void* from, int64_t bytes, int64_t n, int32_t* to) {
  for (int64_t i = 0; i < n; i++)
    to[i] = bytes == 8 ? (int32_t)((const int64_t*)from)[i] : ((const int32_t*)from)[i];
}

template <class F>
struct Batch {
  hl_context* context;
  const F* body;
  int64_t bytes;
  bool failed;
};

// From this much work on one matrix (about n * n * n / 8) LAPACK may use threads of its own. Below,
// they gain little, and lose a lot where the processors are busy: they spin at every step.
constexpr int64_t kOwnThreads = 1 << 30;

// body(i, work) for each matrix of a batch, `bytes` of work for each thread; HL_OK or no memory.
// `alone`: the routine called is LAPACK's and has much to do; it, and what else `has_threads`, may bring its own.
template <class F>
int32_t batched(hl_context* ctx, int64_t batch, int64_t points, int64_t bytes, bool alone,
                const F& body, bool has_threads = false) {
  Batch<F> b{ctx, &body, bytes, false};
  auto run = [](void* args, int64_t begin, int64_t end) {
    auto& b = *(Batch<F>*)args;
    Scratch<char> work(b.context, b.bytes);
    if (!work) {
      b.failed = true;
      return;
    }
    for (int64_t i = begin; i < end; i++) (*b.body)(i, (void*)work.get());
  };
  LapackThreads threads(
      (alone || has_threads) &&
      (ctx->threads == 1 || batch > 1 || points < kOwnThreads || of(ctx)->beside.load() != 0));
  if (alone && batch == 1) run(&b, 0, batch);
  else if (alone) hl_parallel_for(ctx, run, &b, batch, 1);
  else
    hl_parallel_for(ctx, run, &b, batch, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, points)));
  return b.failed ? hl_set_error(ctx, HL_RESOURCE_EXHAUSTED,
                                 "linear algebra: no memory for a matrix of %lld elements",
                                 (long long)points)
                  : HL_OK;
}

// Whether matrices of this order, with so many elements or elements of right-hand sides, are done
// side by side.
template <class T>
bool fits_lanes(int64_t batch, int64_t order, int64_t elements) {
  return !kIsComplex<T> && batch > 1 && order > 0 && order <= kLanesMost && elements > 0 &&
         elements <= kLanesElements;
}

// body(first, count) for each kLanes matrices of a batch, of so much work each.
template <class T, class F>
int32_t in_lanes(hl_context* ctx, int64_t batch, int64_t points, const F& body) {
  constexpr int64_t many = kLanes<T>;
  return batched(ctx, (batch + many - 1) / many, points * many, 64, false,
                 [&](int64_t i, void*) { body(i * many, std::min(many, batch - i * many)); });
}

}  // namespace hloom
