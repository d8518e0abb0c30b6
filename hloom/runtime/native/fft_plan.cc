#include "fft_plan.h"

#include <math.h>
#include <string.h>

#include <complex>
#include <list>
#include <mutex>
#include <utility>

#include "fft.h"
#include "fork.h"

namespace hloom {
namespace {

constexpr int64_t kCacheBytes = 64 << 20, kCacheMost = 128;

// exp(-2 pi i k / n), from the first octant, where the arguments are small: correct to half an ulp
// of double or so.
void root(int64_t k, int64_t n, double* real, double* imag) {
  k %= n;
  int64_t octant = 8 * k / n;
  double c, s;
  auto at = [&](int64_t num) {  // angle 2 pi num / (8 n)
    double x = (double)(2.0L * 3.14159265358979323846264338327950288L * num / (8.0L * n));
    c = cos(x), s = sin(x);
  };
  int64_t e = 8 * k;  // in units of 1 / (8 n) turns
  switch (octant) {
    case 0:
      at(e);
      break;
    case 1:
      at(2 * n - e);
      {
        double t = c;
        c = s;
        s = t;
      }
      break;
    case 2:
      at(e - 2 * n);
      {
        double t = c;
        c = -s;
        s = t;
      }
      break;
    case 3:
      at(4 * n - e);
      c = -c;
      break;
    case 4:
      at(e - 4 * n);
      c = -c, s = -s;
      break;
    case 5:
      at(6 * n - e);
      {
        double t = c;
        c = -s;
        s = -t;
      }
      break;
    case 6:
      at(e - 6 * n);
      {
        double t = c;
        c = s;
        s = -t;
      }
      break;
    default:
      at(8 * n - e);
      s = -s;
      break;
  }
  *real = c, *imag = -s;
}

bool is_prime(int p) {
  for (int d = 3; d * d <= p; d += 2)
    if (p % d == 0) return false;
  return true;
}

std::vector<int> radices(int64_t n) {
  std::vector<int> found;
  for (int p = kMostRadix; p >= 3; p -= 2)
    while (n % p == 0 && is_prime(p)) found.push_back(p), n /= p;
  int twos = 0;
  while (n % 2 == 0) twos++, n /= 2;
  if (n != 1) return {};  // a prime above them
  while (twos >= 3 && twos != 4) found.push_back(8), twos -= 3;
  while (twos >= 2) found.push_back(4), twos -= 2;
  if (twos) found.push_back(2);
  return found;
}

bool smooth(int64_t n) { return n == 1 || !radices(n).empty(); }

// The divisor of n nearest below its root.
int64_t middle(int64_t n) {
  int64_t best = 1;
  for (int64_t d = 2; d * d <= n; d++)
    if (n % d == 0) best = d;
  return best;
}

template <class T>
void add_passes(FftPlan<T>& plan) {
  int64_t left = plan.n;
  for (int r : radices(plan.n)) {
    plan.passes.push_back({r, left, (int64_t)plan.twiddles.size()});
    for (int64_t p = 0; p < left / r; p++)
      for (int k = 1; k < r; k++) {
        double c, s;
        root(p * k, left, &c, &s);
        plan.twiddles.push_back((T)c), plan.twiddles.push_back((T)s);
      }
    for (int k = 0; r > 13 && k < r; k++) {
      double c, s;
      root(k, r, &c, &s);
      plan.twiddles.push_back((T)c), plan.twiddles.push_back((T)-s);
    }
    left /= r;
  }
}

template <class T>
void add_steps(FftPlan<T>& plan) {
  plan.n1 = middle(plan.n), plan.n2 = plan.n / plan.n1;
  plan.first = plan_of<T>(plan.n1), plan.second = plan_of<T>(plan.n2);
  plan.step_stride = (plan.n2 + 15) / 16 * 16;
  plan.step_real.assign(plan.n1 * plan.step_stride, 0);
  plan.step_imag.assign(plan.n1 * plan.step_stride, 0);
  for (int64_t k = 0; k < plan.n1; k++)
    for (int64_t j = 0; j < plan.n2; j++) {
      double c, s;
      root(k * j, plan.n, &c, &s);
      plan.step_real[k * plan.step_stride + j] = (T)c;
      plan.step_imag[k * plan.step_stride + j] = (T)s;
    }
}

using Complex = std::complex<double>;

// The transform of x[0], x[stride], ..., n of them, to y; for the spectrum of the chirp any
// algorithm will do. w: the roots of N = n * stride.
void transform_rows(const Complex* x, Complex* y, int64_t n, int64_t stride, const Complex* w) {
  if (n == 1) {
    y[0] = x[0];
    return;
  }
  int64_t p = 2;
  while (n % p != 0) p++;
  int64_t m = n / p, all = n * stride;
  for (int64_t r = 0; r < p; r++) transform_rows(x + r * stride, y + r * m, m, stride * p, w);
  Complex part[7];
  for (int64_t k = 0; k < m; k++) {
    for (int64_t r = 0; r < p; r++) part[r] = y[r * m + k] * w[r * k * stride];
    for (int64_t q = 0; q < p; q++) {
      Complex sum = part[0];
      for (int64_t r = 1; r < p; r++) sum += part[r] * w[r * q % p * (all / p)];
      y[q * m + k] = sum;
    }
  }
}

// What a point costs in the passes of a length whose factors are at most 7, and 0 for others.
int64_t point_cost(int64_t n) {
  int64_t cost = 0;
  for (auto [p, of_one] : {std::pair<int64_t, int64_t>{7, 44}, {5, 32}, {3, 22}})
    for (; n % p == 0; n /= p) cost += of_one;
  for (; n % 2 == 0; n /= 2) cost += 12;
  return n == 1 ? cost : 0;
}

// The cheapest length of a cyclic convolution of at least so many points.
int64_t convolution_length(int64_t least) {
  int64_t best = 1;
  while (best < least) best *= 2;
  int64_t most = best;
  for (int64_t seven = 1; seven < most; seven *= 7)
    for (int64_t five = seven; five < most; five *= 5)
      for (int64_t three = five; three < most; three *= 3) {
        int64_t n = three * 8;  // so that lanes are full, mostly
        while (n < least) n *= 2;
        int64_t cost = n * point_cost(n), known = best * point_cost(best);
        if (n < most && (cost < known || (cost == known && n < best))) best = n;
      }
  return best;
}

template <class T>
void add_chirp(FftPlan<T>& plan) {
  int64_t n = plan.n, m = convolution_length(2 * n - 1);
  plan.convolution = plan_of<T>(m);
  std::vector<Complex> turned(m), spectrum(m), roots(m);
  plan.chirp.resize(2 * n), plan.spectrum.resize(2 * m);
  for (int64_t j = 0; j < n; j++) {
    double c, s;  // exp(-pi i j^2 / n); the square is reduced first
    root((int64_t)((__int128)j * j % (2 * n)), 2 * n, &c, &s);
    plan.chirp[2 * j] = (T)c, plan.chirp[2 * j + 1] = (T)s;
    turned[j] = Complex(c, -s);
    if (j) turned[m - j] = Complex(c, -s);
  }
  for (int64_t k = 0; k < m; k++) {
    double c, s;
    root(k, m, &c, &s);
    roots[k] = Complex(c, s);
  }
  transform_rows(turned.data(), spectrum.data(), m, 1, roots.data());
  for (int64_t k = 0; k < m; k++) {
    plan.spectrum[2 * k] = (T)(spectrum[k].real() / m);
    plan.spectrum[2 * k + 1] = (T)(spectrum[k].imag() / m);
  }
}

template <class T>
std::shared_ptr<const FftPlan<T>> made(int64_t n) {
  auto plan = std::make_shared<FftPlan<T>>();
  plan->n = n;
  if (!smooth(n)) add_chirp(*plan);
  else {
    if (n <= 4096 || middle(n) < 4) add_passes(*plan);
    if (n >= 64 && middle(n) >= 4) add_steps(*plan);
  }
  for (int64_t k = 0; k <= n; k++) {
    double c, s;
    root(k, 2 * n, &c, &s);
    plan->half.push_back((T)c), plan->half.push_back((T)s);
  }
  return plan;
}

// The plans used last; the oldest go when they are too many or too large.
template <class T>
struct Cache {
  std::mutex mutex;
  std::list<std::shared_ptr<const FftPlan<T>>> plans;

  std::shared_ptr<const FftPlan<T>> find(int64_t n) {
    std::lock_guard<std::mutex> lock(mutex);
    for (auto at = plans.begin(); at != plans.end(); ++at)
      if ((*at)->n == n) {
        plans.splice(plans.begin(), plans, at);
        return *at;
      }
    return nullptr;
  }

  void add(std::shared_ptr<const FftPlan<T>> plan) {
    std::lock_guard<std::mutex> lock(mutex);
    plans.push_front(std::move(plan));
    int64_t bytes = 0, many = 0;
    for (auto at = plans.begin(); at != plans.end();) {
      bytes += (*at)->bytes();
      bool is_newest = many == 0;
      ++many;
      bool is_over = bytes > kCacheBytes || many > kCacheMost;
      at = !is_newest && is_over ? plans.erase(at) : std::next(at);
    }
  }
};

}  // namespace

template <class T>
int64_t FftPlan<T>::bytes() const {
  return (int64_t)sizeof(T) * (int64_t)(twiddles.size() + step_real.size() * 2 + chirp.size() +
                                        spectrum.size() + half.size());
}

template <class T>
std::shared_ptr<const FftPlan<T>> plan_of(int64_t n) {
  // Never destroyed: threads may outlive main.
  static Cache<T>& cache = []() -> Cache<T>& {
    auto* made = new Cache<T>;
    hloom::free_in_forks(made->mutex.native_handle());
    return *made;
  }();
  if (auto plan = cache.find(n)) return plan;
  auto plan = made<T>(n);
  cache.add(plan);
  return plan;
}

template std::shared_ptr<const FftPlan<float>> plan_of<float>(int64_t);
template std::shared_ptr<const FftPlan<double>> plan_of<double>(int64_t);
template struct FftPlan<float>;
template struct FftPlan<double>;

}  // namespace hloom

namespace {

template <class V>
int64_t copied(const V& values, void* out) {
  int64_t bytes = (int64_t)(values.size() * sizeof(values[0]));
  if (out != nullptr && bytes > 0) memcpy(out, values.data(), bytes);
  return bytes;
}

template <class T>
int64_t part_of(int64_t n, int64_t part, void* out) {
  auto plan = hloom::plan_of<T>(n);
  switch (part) {
    case 0:
      return copied(std::vector<int64_t>{plan->n1, plan->n2, plan->step_stride,
                                         plan->convolution ? plan->convolution->n : 0},
                    out);
    case 1: {
      std::vector<int64_t> passes;
      for (const hloom::Pass& p : plan->passes)
        passes.insert(passes.end(), {(int64_t)p.radix, p.length, p.twiddles});
      return copied(passes, out);
    }
    case 2:
      return copied(plan->twiddles, out);
    case 3:
      return copied(plan->step_real, out);
    case 4:
      return copied(plan->step_imag, out);
    case 5:
      return copied(plan->chirp, out);
    case 6:
      return copied(plan->spectrum, out);
    case 7:
      return copied(plan->half, out);
    default:
      return -1;
  }
}

}  // namespace

HL_API int64_t hl_fft_plan(int64_t n, int64_t is_double, int64_t part, void* out) {
  return is_double ? part_of<double>(n, part, out) : part_of<float>(n, part, out);
}
