"""Linear algebra, transforms, random numbers, images, statistics and signals."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import lax

from tests.fuzz.jax_programs.sketch import Sketch, step


def _square(d: Sketch, most: int = 100) -> tuple[int, int]:
    n = d.between(1, 9) if d.chance(0.3) else d.size(most)
    lead = d.pick(((), (), (1,), (3,), (2, 5), (40,))) if n < 30 else ()
    of = "float64" if d.x64 and d.chance(0.5) else "float32"
    return d.arg((*lead, n, n), of), n


@step("", 6, fresh=True)
def factorisation(d: Sketch, x: Any) -> Any:
    a, n = _square(d)
    kind = d.pick(("cholesky", "solve", "qr", "svd", "eigh", "inv", "det", "lu", "triangular"))
    b = d.arg((*d.args[a].shape[:-1], d.between(1, 5)), d.args[a].dtype)
    eye = jnp.eye(n)

    def definite(env: Any) -> Any:
        y = env[a] / n**0.5
        return y @ jnp.swapaxes(y, -1, -2) + 2 * eye.astype(y.dtype)

    def near_one(env: Any) -> Any:
        return 0.3 * env[a] / n**0.5 + 2 * eye.astype(env[a].dtype)

    return {
        "cholesky": lambda env, _: jnp.linalg.cholesky(definite(env)),
        "solve": lambda env, _: jnp.linalg.solve(near_one(env), env[b]),
        "qr": lambda env, _: jnp.abs(jnp.linalg.qr(near_one(env))[1]),
        "svd": lambda env, _: jnp.linalg.svd(near_one(env), compute_uv=False),
        "eigh": lambda env, _: jnp.linalg.eigvalsh(definite(env)),
        "inv": lambda env, _: jnp.linalg.inv(near_one(env)),
        "det": lambda env, _: jnp.linalg.slogdet(near_one(env)),
        "lu": lambda env, _: jsp.linalg.lu_factor(near_one(env)),
        "triangular": lambda env, _: jsp.linalg.solve_triangular(
            jnp.tril(near_one(env)), env[b], lower=True
        ),
    }[kind]


@step("", 1.5, fresh=True)
def matrix_function(d: Sketch, x: Any) -> Any:
    a, n = _square(d, 40)
    d.need(d.args[a].ndim == 2)
    kind = d.pick(("expm", "power", "pinv", "lstsq", "polar", "kron", "cho"))
    near = lambda env: 0.3 * env[a] / n**0.5 + jnp.eye(n, dtype=env[a].dtype)  # noqa: E731
    return {
        "expm": lambda env, _: jsp.linalg.expm(near(env)),
        "power": lambda env, _: jnp.linalg.matrix_power(near(env), 5),
        "pinv": lambda env, _: jnp.linalg.pinv(near(env)),
        "lstsq": lambda env, _: jnp.linalg.lstsq(near(env), env[a][:, :1])[0],
        "polar": lambda env, _: jnp.linalg.matrix_power(near(env), -2),
        "kron": lambda env, _: jnp.kron(env[a][:9], env[a][:, :7]),
        "cho": lambda env, _: jsp.linalg.cho_solve(
            jsp.linalg.cho_factor(near(env) @ near(env).T), env[a]
        ),
    }[kind]


@step("f", 3)
def fourier(d: Sketch, x: Any) -> Any:
    d.need(x.ndim and x.size <= 1 << 20)
    axis, kind = d.axis(x), d.pick(("fft", "rfft", "both", "power", "fft2", "ifft", "shift"))
    if kind in ("rfft", "both"):
        d.need(x.shape[axis] > 1)
    wide = jnp.float64 if x.dtype == jnp.float64 else jnp.float32
    fs: dict[str, Any] = {
        "fft": lambda x: jnp.fft.fft(x, axis=axis),
        "ifft": lambda x: jnp.fft.ifft(x, axis=axis),
        "rfft": lambda x: jnp.fft.rfft(x, axis=axis),
        "both": lambda x: jnp.fft.irfft(jnp.fft.rfft(x, axis=axis), x.shape[axis], axis) * 2,
        "power": lambda x: jnp.abs(jnp.fft.fft(x, axis=axis)) ** 2,
        "fft2": lambda x: jnp.fft.fftn(x),
        "shift": lambda x: jnp.fft.fftshift(jnp.fft.fft(x, axis=axis), axes=axis),
    }
    return lambda env, x: fs[kind](x.astype(wide))


@step("c", 3)
def inverse_fourier(d: Sketch, x: Any) -> Any:
    axis, f = d.axis(x), d.pick((jnp.fft.fft, jnp.fft.ifft))
    d.need(x.size <= 1 << 20)
    return lambda env, x: f(x, axis=axis)


DISTRIBUTIONS: dict[str, Any] = {
    "normal": lambda key, s: jax.random.normal(key, s, jnp.float32),
    "uniform": lambda key, s: jax.random.uniform(key, s, jnp.float32, -1, 3),
    "bernoulli": lambda key, s: jax.random.bernoulli(key, 0.3, s),
    "bits": lambda key, s: jax.random.bits(key, s, jnp.uint32),
    "bits8": lambda key, s: jax.random.bits(key, s, jnp.uint8),
    "integers": lambda key, s: jax.random.randint(key, s, -5, 1000, jnp.int32),
    "gumbel": lambda key, s: jax.random.gumbel(key, s, jnp.float32),
    "truncated": lambda key, s: jax.random.truncated_normal(key, -1, 2, s, jnp.float32),
    "exponential": lambda key, s: jax.random.exponential(key, s, jnp.float32),
    "laplace": lambda key, s: jax.random.laplace(key, s, jnp.float32),
    "cauchy": lambda key, s: jnp.tanh(jax.random.cauchy(key, s, jnp.float32)),
    "half": lambda key, s: jax.random.normal(key, s, jnp.bfloat16),
    "split": lambda key, s: jax.random.split(key, 7),
    "fold": lambda key, s: jax.random.uniform(jax.random.fold_in(key, 5), s, jnp.float32),
}
FEW: dict[str, Any] = {
    "permutation": lambda key, n: jax.random.permutation(key, n),
    "choice": lambda key, n: jax.random.choice(key, n, (n // 2 + 1,), replace=False),
    "categorical": lambda key, n: jax.random.categorical(key, jnp.arange(n) * 0.01, shape=(300,)),
    "gamma": lambda key, n: jax.random.gamma(key, 1.7, (min(n, 2000),), jnp.float32),
    "beta": lambda key, n: jax.random.beta(key, 1.7, 2.0, (min(n, 500),), jnp.float32),
    "poisson": lambda key, n: jax.random.poisson(key, 3.0, (min(n, 2000),)),
    "dirichlet": lambda key, n: jax.random.dirichlet(key, jnp.ones(min(n, 50)), (9,)),
    "orthogonal": lambda key, n: jnp.abs(jax.random.orthogonal(key, min(n, 20))),
    "rademacher": lambda key, n: jax.random.rademacher(key, (n,)),
    "ball": lambda key, n: jax.random.ball(key, min(n, 50), 2, (7,), jnp.float32),
}


@step("", 5, fresh=True)
def random_numbers(d: Sketch, x: Any) -> Any:
    d.args.append(d.rng.integers(0, 1 << 32, 2, dtype="uint32"))
    key = len(d.args) - 1
    d.has_bits = True
    if d.chance(0.3):
        f, n = d.pick(list(FEW.values())), d.size(5000)
        return lambda env, _: f(env[key], n)
    f, shape = d.pick(list(DISTRIBUTIONS.values())), d.shape(d.between(0, 3))
    return lambda env, _: f(env[key], shape)


@step("f", 3, fresh=True)
def image(d: Sketch, x: Any) -> Any:
    b, h, w, c = d.pick((1, 1, 2)), d.size(120), d.size(120), d.pick((1, 3, 4))
    a = d.arg((b, h, w, c))
    if d.chance(0.7):
        to = (b, d.size(150), d.size(150), c)
        method = d.pick(("nearest", "linear", "cubic", "lanczos3", "lanczos5"))
        smooth = d.chance(0.7)
        return lambda env, _: jax.image.resize(env[a], to, method, antialias=smooth)
    order, mode = d.pick((0, 1)), d.pick(("constant", "nearest", "wrap", "mirror", "reflect"))
    spots = d.arg((2, d.size(2000)), "float32")
    return lambda env, _: jsp.ndimage.map_coordinates(
        env[a][0, :, :, 0], list(env[spots] * 20 + 10), order, mode
    )


@step("f", 2)
def statistics(d: Sketch, x: Any) -> Any:
    d.need(x.dtype.itemsize >= 4)
    stats = jsp.stats
    f = d.pick(
        (
            lambda x: stats.norm.logpdf(x, 0.3, 1.2),
            lambda x: stats.norm.cdf(x),
            lambda x: stats.t.logpdf(x, 3.0),
            lambda x: stats.gamma.logpdf(jnp.abs(x) + 0.1, 2.0),
            lambda x: stats.beta.logpdf(jax.nn.sigmoid(x), 2.0, 3.0),
            lambda x: stats.cauchy.logpdf(x),
            lambda x: stats.laplace.cdf(x),
            lambda x: stats.expon.logpdf(jnp.abs(x)),
            lambda x: stats.poisson.logpmf(jnp.floor(jnp.abs(x) * 3), 2.0),
            lambda x: stats.logistic.sf(x),
        )
    )
    return lambda env, x: f(x)


@step("f", 1)
def covariance(d: Sketch, x: Any) -> Any:
    d.need(x.ndim == 2 and 1 < x.shape[0] <= 300 and x.shape[1] > 2 and x.size <= 1 << 18)
    f = d.pick((jnp.cov, jnp.corrcoef))
    return lambda env, x: f(x)


@step("f", 1.5, fresh=True)
def signal(d: Sketch, x: Any) -> Any:
    n = d.between(64, 3000)
    a, b = d.arg((n,), "float32"), d.arg((d.size(60),), "float32")
    kind = d.pick(("convolve", "fft", "stft", "detrend", "welch", "trapezoid"))
    return {
        "convolve": lambda env, _: jsp.signal.convolve(env[a], env[b], mode="same"),
        "fft": lambda env, _: jsp.signal.fftconvolve(env[a], env[b], mode="full"),
        "stft": lambda env, _: jsp.signal.stft(env[a], nperseg=32)[2],
        "detrend": lambda env, _: jsp.signal.detrend(env[a]),
        "welch": lambda env, _: jsp.signal.welch(env[a], nperseg=32)[1],
        "trapezoid": lambda env, _: jnp.trapezoid(env[a] * 2),
    }[kind]


@step("f", 2, fresh=True)
def kernel_matrix(d: Sketch, x: Any) -> Any:
    """Distances of points, and what a Gaussian process makes of them."""
    n, m, width = d.size(400), d.size(400), d.pick((1, 2, 3, 10))
    a, b = d.arg((n, width)), d.arg((m, width))
    way = d.chance(0.5)

    def f(env: Any, _: Any) -> Any:
        x, y = env[a], env[b]
        if way:
            far = jnp.sum((x[:, None] - y[None]) ** 2, -1)
        else:
            far = jnp.sum(x * x, 1)[:, None] + jnp.sum(y * y, 1) - 2 * x @ y.T
        return jnp.exp(-0.5 * far)

    return f


@step("", 1.5, fresh=True)
def page_rank(d: Sketch, x: Any) -> Any:
    nodes, edges = d.size(3000), d.size(20000)
    a, b = d.index((edges,), nodes), d.index((edges,), nodes)

    def f(env: Any, _: Any) -> Any:
        source, target = env[a].astype(jnp.int32), env[b].astype(jnp.int32)
        out = jnp.maximum(jax.ops.segment_sum(jnp.ones(edges), source, nodes), 1)

        def body(_: Any, r: Any) -> Any:
            return 0.15 / nodes + 0.85 * jax.ops.segment_sum((r / out)[source], target, nodes)

        return lax.fori_loop(0, 5, body, jnp.full(nodes, 1 / nodes)) * nodes

    return f


@step("", 1, fresh=True)
def bit_tricks(d: Sketch, x: Any) -> Any:
    of = d.pick(("uint32", "int32", "uint16", "uint8", *(("uint64",) if d.x64 else ())))
    a = d.arg(d.shape(d.between(1, 3)), of)

    def f(env: Any, _: Any) -> Any:
        x = env[a]
        for shift in (5, 3, 7):
            x = x ^ (x << shift)
            x = x ^ lax.shift_right_logical(x, jnp.asarray(shift - 1, x.dtype))
        return x, lax.population_count(x), lax.clz(x)

    return f


@step("f", 1, fresh=True)
def boxes(d: Sketch, x: Any) -> Any:
    """Overlaps of boxes, and which of them survive (non-maximum suppression)."""
    n = d.size(150)
    a, scores = d.arg((n, 4), "float32", "unit"), d.arg((n,), "float32", "unit")

    def f(env: Any, _: Any) -> Any:
        order = jnp.argsort(-env[scores])
        low, high = env[a][order, :2], env[a][order, :2] + env[a][order, 2:] + 0.05
        inner = jnp.clip(jnp.minimum(high[:, None], high) - jnp.maximum(low[:, None], low), 0).prod(
            -1
        )
        size = (high - low).prod(-1)
        over = inner / (size[:, None] + size - inner)

        def body(i: Any, keep: Any) -> Any:
            drop = (over[i] > 0.3) & (jnp.arange(n) > i) & keep[i]
            return keep & ~drop

        return lax.fori_loop(0, n, body, jnp.ones(n, bool)), over

    return f
