// How a transform of an array is done: one dimension after the other, tiles of vector lanes at a
// time (fft_tile.inc). Lanes are neighbouring columns, or rows that are transposed on the way in
// and out; a long row is taken apart into two steps whose lanes are its own columns.
#include "fft.h"

#include <string.h>

#include <algorithm>

#include "fft_plan.h"
#include "scratch.h"
#include "steps.h"

namespace hloom {
namespace {

template <class T>
struct Job {
  hl_context* context;
  const FftPlan<T>* plan;
  const T* in;
  T* out;
  int64_t outer, inner;           // the array is [outer][n][inner]
  int64_t in_length, out_length;  // numbers per row where rows of reals are meant
  bool inverse;
  T scale;
  T* between;  // of the two steps of one long row
  int status;
};

template <class T>
int64_t lanes() {
  return fft_vector_bytes() / (int64_t)sizeof(T);
}

// -- one row ------------------------------------------------------------------------------------

// Step one of a long row, columns [begin, end) in units of lanes: to [j2][k1].
template <class T>
void step_one(const Job<T>& j, const FftPlan<T>& p, const T* in, T* between, int64_t begin,
              int64_t end, T* work) {
  int64_t L = lanes<T>();
  for (int64_t c = begin; c < end; c++) {
    int64_t at = c * L;
    fft_tile(*p.first, Tile<T>{in + 2 * at, between + 2 * at * p.n1, p.n2, p.n1, false, true,
                               j.inverse, std::min(L, p.n2 - at), 1, p.step_real.data() + at,
                               p.step_imag.data() + at, p.step_stride, work});
  }
}

template <class T>
void step_two(const Job<T>& j, const FftPlan<T>& p, const T* between, T* out, int64_t begin,
              int64_t end, T* work) {
  int64_t L = lanes<T>();
  for (int64_t c = begin; c < end; c++) {
    int64_t at = c * L;
    fft_tile(*p.second, Tile<T>{between + 2 * at, out + 2 * at, p.n1, p.n1, false, false, j.inverse,
                                std::min(L, p.n1 - at), j.scale, nullptr, nullptr, 0, work});
  }
}

template <class T>
int64_t steps_room(const FftPlan<T>& p) {
  return 4 * p.n2 * lanes<T>();
}

template <class T>
bool row(const Job<T>& j, const FftPlan<T>& p, const T* in, T* out);

// A row as a convolution: chirp, transform, product, inverse transform, chirp.
template <class T>
bool chirped(const Job<T>& j, const FftPlan<T>& p, const T* in, T* out) {
  const FftPlan<T>& c = *p.convolution;
  Scratch<T> a(j.context, 2 * c.n), b(j.context, 2 * c.n);
  if (!a || !b) return false;
  T sign = j.inverse ? (T)-1 : (T)1;  // conjugates in and out make the inverse
  for (int64_t i = 0; i < p.n; i++) {
    T x = in[2 * i], y = sign * in[2 * i + 1], u = p.chirp[2 * i], v = p.chirp[2 * i + 1];
    a[2 * i] = x * u - y * v, a[2 * i + 1] = x * v + y * u;
  }
  memset(a + 2 * p.n, 0, 2 * (c.n - p.n) * sizeof(T));
  Job<T> inside = j;
  inside.inverse = false, inside.scale = 1;
  if (!row<T>(inside, c, a, b)) return false;
  for (int64_t i = 0; i < c.n; i++) {
    T x = b[2 * i], y = b[2 * i + 1], u = p.spectrum[2 * i], v = p.spectrum[2 * i + 1];
    b[2 * i] = x * u - y * v, b[2 * i + 1] = x * v + y * u;
  }
  inside.inverse = true;
  if (!row<T>(inside, c, b, a)) return false;
  for (int64_t i = 0; i < p.n; i++) {
    T x = a[2 * i] * j.scale, y = a[2 * i + 1] * j.scale, u = p.chirp[2 * i],
      v = p.chirp[2 * i + 1];
    out[2 * i] = x * u - y * v, out[2 * i + 1] = sign * (x * v + y * u);
  }
  return true;
}

template <class T>
bool row(const Job<T>& j, const FftPlan<T>& p, const T* in, T* out) {
  if (p.convolution) return chirped(j, p, in, out);
  int64_t L = lanes<T>();
  if (p.first && by_tiles(*p.first) && by_tiles(*p.second)) {
    Scratch<T> between(j.context, 2 * p.n), work(j.context, steps_room(p));
    if (!between || !work) return false;
    step_one(j, p, in, between.get(), 0, (p.n2 + L - 1) / L, work.get());
    step_two(j, p, between.get(), out, 0, (p.n1 + L - 1) / L, work.get());
    return true;
  }
  if (p.first) {  // so long that its steps are taken apart as well: rows of step results
    Scratch<T> columns(j.context, 2 * p.n), between(j.context, 2 * p.n);
    if (!columns || !between) return false;
    Job<T> inside = j;
    inside.scale = 1;
    for (int64_t c = 0; c < p.n2; c++) {
      T* x = columns + 2 * c * p.n1;
      for (int64_t i = 0; i < p.n1; i++)
        x[2 * i] = in[2 * (i * p.n2 + c)], x[2 * i + 1] = in[2 * (i * p.n2 + c) + 1];
      if (!row<T>(inside, *p.first, x, between + 2 * c * p.n1)) return false;
    }
    T sign = j.inverse ? (T)-1 : (T)1;
    for (int64_t k = 0; k < p.n1; k++) {
      T* x = columns + 2 * k * p.n2;
      for (int64_t c = 0; c < p.n2; c++) {
        T a = between[2 * (c * p.n1 + k)], b = between[2 * (c * p.n1 + k) + 1];
        T u = p.step_real[k * p.step_stride + c], v = sign * p.step_imag[k * p.step_stride + c];
        x[2 * c] = a * u - b * v, x[2 * c + 1] = a * v + b * u;
      }
    }
    inside.scale = j.scale;
    for (int64_t k = 0; k < p.n1; k++) {
      if (!row<T>(inside, *p.second, columns + 2 * k * p.n2, between.get())) return false;
      for (int64_t c = 0; c < p.n2; c++)
        out[2 * (c * p.n1 + k)] = between[2 * c], out[2 * (c * p.n1 + k) + 1] = between[2 * c + 1];
    }
    return true;
  }
  Scratch<T> work(j.context, 4 * p.n * L);
  if (!work) return false;
  fft_tile(
      p, Tile<T>{in, out, p.n, p.n, true, true, j.inverse, 1, j.scale, nullptr, nullptr, 0, work});
  return true;
}

// -- parallel pieces ----------------------------------------------------------------------------

template <class T>
void rows_in_lanes(void* args, int64_t begin, int64_t end) {
  auto& j = *(Job<T>*)args;
  int64_t L = lanes<T>(), n = j.plan->n;
  Scratch<T> work(j.context, 4 * tile_points(*j.plan) * L);
  if (!work) j.status = 1;
  else
    for (int64_t c = begin; c < end; c++) {
      int64_t at = c * L;
      fft_tile(*j.plan, Tile<T>{j.in + 2 * at * n, j.out + 2 * at * n, n, n, true, true, j.inverse,
                                std::min(L, j.outer - at), j.scale, nullptr, nullptr, 0, work});
    }
}

template <class T>
void single_rows(void* args, int64_t begin, int64_t end) {
  auto& j = *(Job<T>*)args;
  for (int64_t r = begin; r < end; r++)
    if (!row<T>(j, *j.plan, j.in + 2 * r * j.plan->n, j.out + 2 * r * j.plan->n)) j.status = 1;
}

template <class T>
void columns_in_lanes(void* args, int64_t begin, int64_t end) {
  auto& j = *(Job<T>*)args;
  int64_t L = lanes<T>(), n = j.plan->n, tiles = (j.inner + L - 1) / L;
  Scratch<T> work(j.context, 4 * tile_points(*j.plan) * L);
  if (!work) j.status = 1;
  else
    for (int64_t c = begin; c < end; c++) {
      int64_t at = c / tiles * n * j.inner + c % tiles * L;
      fft_tile(*j.plan,
               Tile<T>{j.in + 2 * at, j.out + 2 * at, j.inner, j.inner, false, false, j.inverse,
                       std::min(L, j.inner - c % tiles * L), j.scale, nullptr, nullptr, 0, work});
    }
}

// Columns of a length that has no passes: each becomes a row and comes back.
template <class T>
void single_columns(void* args, int64_t begin, int64_t end) {
  auto& j = *(Job<T>*)args;
  int64_t n = j.plan->n;
  Scratch<T> a(j.context, 2 * n), b(j.context, 2 * n);
  if (!a || !b) j.status = 1;
  else
    for (int64_t c = begin; c < end; c++) {
      int64_t at = c / j.inner * n * j.inner + c % j.inner;
      for (int64_t i = 0; i < n; i++)
        memcpy(a + 2 * i, j.in + 2 * (at + i * j.inner), 2 * sizeof(T));
      if (!row<T>(j, *j.plan, a, b)) j.status = 1;
      for (int64_t i = 0; i < n; i++)
        memcpy(j.out + 2 * (at + i * j.inner), b + 2 * i, 2 * sizeof(T));
    }
}

template <class T>
void step_one_share(void* args, int64_t begin, int64_t end) {
  auto& j = *(Job<T>*)args;
  Scratch<T> work(j.context, steps_room(*j.plan));
  if (!work) j.status = 1;
  else step_one(j, *j.plan, j.in, j.between, begin, end, work.get());
}

template <class T>
void step_two_share(void* args, int64_t begin, int64_t end) {
  auto& j = *(Job<T>*)args;
  Scratch<T> work(j.context, steps_room(*j.plan));
  if (!work) j.status = 1;
  else step_two(j, *j.plan, j.between, j.out, begin, end, work.get());
}

// Up to so many points rows share a tile. Up to so many more where two steps would leave lanes
// empty, or there are none: 256 rows of 1331, 1521 and 2401 points 0.3, 0.5 and 0.4 of the time of
// one after the other, of 1536 and 2048 1.2.
constexpr int64_t kTileRow = 1024, kMostTileRow = 4096;

template <class T>
bool rows_share_tiles(const FftPlan<T>& p, int64_t rows) {
  int64_t L = lanes<T>();
  if (!by_tiles(p)) return false;
  if (!p.first && !p.convolution) return true;
  if (rows < L || p.n > kMostTileRow) return false;
  return p.n <= kTileRow || p.convolution || p.n1 % L != 0 || p.n2 % L != 0;
}

// Along the middle of [outer][n][inner]; `in` may be `out`.
template <class T>
bool along(hl_context* ctx, const T* in, T* out, int64_t outer, int64_t n, int64_t inner,
           bool inverse, T scale) {
  auto plan = plan_of<T>(n);
  Job<T> j{ctx, &*plan, in, out, outer, inner, n, n, inverse, scale, nullptr, 0};
  const FftPlan<T>& p = *plan;
  int64_t L = lanes<T>(), threads = ctx->threads;
  auto grain = [&](int64_t pieces, int64_t points) {
    return std::max<int64_t>(1, std::min(pieces / (2 * threads), 16384 / points));
  };
  if (inner > 1) {
    bool direct = by_tiles(p);
    int64_t pieces = outer * (direct ? (inner + L - 1) / L : inner);
    hl_parallel_for(ctx, direct ? columns_in_lanes<T> : single_columns<T>, &j, pieces,
                    grain(pieces, direct ? n * L : n));
  } else if (rows_share_tiles(p, outer)) {
    int64_t pieces = (outer + L - 1) / L;
    hl_parallel_for(ctx, rows_in_lanes<T>, &j, pieces, grain(pieces, n * L));
  } else if (outer < threads && n >= 32768 && p.first && by_tiles(*p.first) &&
             by_tiles(*p.second)) {
    Scratch<T> between(ctx, 2 * n);
    if (!between) return false;
    j.between = between;
    for (int64_t r = 0; r < outer; r++) {
      j.in = in + 2 * r * n, j.out = out + 2 * r * n;
      hl_parallel_for(ctx, step_one_share<T>, &j, (p.n2 + L - 1) / L,
                      std::max<int64_t>(1, p.n2 / L / (4 * threads)));
      hl_parallel_for(ctx, step_two_share<T>, &j, (p.n1 + L - 1) / L,
                      std::max<int64_t>(1, p.n1 / L / (4 * threads)));
    }
  } else {
    hl_parallel_for(ctx, single_rows<T>, &j, outer, grain(outer, n));
  }
  return j.status == 0;
}

#include "fft_real.inc"

template <class T>
bool transform(hl_context* ctx, int64_t kind, int64_t rank, const int64_t* lengths, int64_t batch,
               const T* in, T* out) {
  int64_t points = 1, last = lengths[rank - 1], shown = kind >= HL_RFFT ? last / 2 + 1 : last;
  for (int64_t d = 0; d < rank; d++) points *= lengths[d];
  bool inverse = kind == HL_IFFT || kind == HL_IRFFT;
  T scale = inverse ? (T)(1.0 / (double)points) : (T)1;
  int64_t rows = batch * points / last;
  const T* from = in;
  Scratch<T> copy(ctx, kind == HL_IRFFT && rank > 1 ? 2 * rows * shown : 1);
  if (!copy) return false;
  T* to = kind == HL_IRFFT ? copy.get() : out;
  if (kind == HL_RFFT) {
    if (!real_forward(ctx, in, out, rows, last)) return false;
    from = out;
  }
  int64_t inner = shown;
  bool many = kind == HL_FFT || kind == HL_IFFT;
  if (many) {
    if (!along<T>(ctx, in, out, rows, last, 1, inverse, rank == 1 ? scale : 1)) return false;
    from = out;
  }
  int64_t outer = rows;
  for (int64_t d = rank - 2; d >= 0; d--) {
    outer /= lengths[d];
    if (!along<T>(ctx, from, to, outer, lengths[d], inner, inverse, many && d == 0 ? scale : 1))
      return false;
    from = to;
    inner *= lengths[d];
  }
  return kind != HL_IRFFT || real_inverse(ctx, from, out, rows, last, scale);
}

}  // namespace
}  // namespace hloom

HL_API int32_t hl_fft(hl_context* ctx, int64_t kind, int64_t is_double, int64_t rank,
                      const int64_t* lengths, int64_t batch, const void* in, void* out) {
  hloom::StepSpan step(ctx, nullptr, "fft");
  if (rank < 1 || rank > 3 || kind < 0 || kind > 3)
    return hl_set_error(ctx, HL_INVALID_ARGUMENT,
                        "fft: kind %lld over %lld dimensions; kinds 0 to 3 over 1 to 3",
                        (long long)kind, (long long)rank);
  int64_t points = batch;
  for (int64_t d = 0; d < rank; d++) points *= lengths[d];
  if (points == 0) return HL_OK;
  bool done = is_double ? hloom::transform<double>(ctx, kind, rank, lengths, batch,
                                                   (const double*)in, (double*)out)
                        : hloom::transform<float>(ctx, kind, rank, lengths, batch, (const float*)in,
                                                  (float*)out);
  return done ? HL_OK
              : hl_set_error(ctx, HL_RESOURCE_EXHAUSTED, "fft: no memory for %lld points",
                             (long long)points);
}
