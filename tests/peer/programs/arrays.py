"""numpy's and scipy's functions in combinations that programs have, and images."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.peer.programs.registry import add, normal, special, uniform, whole


def numpy_functions() -> None:
    x = normal(4, 5)
    one = """ravel nan_to_num unwrap sign fabs positive reciprocal rint trunc signbit isnan isinf
     isposinf isneginf angle real_if_close exp2 log2 log10 cbrt degrees spacing tri_ flatnonzero_
     atleast_3d argwhere_ count_nonzero fix round std var matrix_transpose
     """.split()
    for name in one:
        if hasattr(jnp, name):
            add(f"arrays/{name}", getattr(jnp, name), x, slack=2)
    add("arrays/rounded", lambda x: (jnp.round(x, 2), jnp.around(x, -1)), x * 40)
    add(
        "arrays/isclose",
        lambda x, y: (jnp.isclose(x, y), jnp.allclose(x, x), jnp.array_equal(x, y)),
        special(),
        special()[::-1].copy(),
    )
    add(
        "arrays/polynomials",
        lambda x, y: (
            jnp.polyval(x, y),
            jnp.polyadd(x, x),
            jnp.polymul(x, x),
            jnp.polyder(x),
            jnp.polyint(x),
            jnp.vander(x, 3),
        ),
        normal(4),
        normal(5),
    )
    add(
        "arrays/apply",
        lambda x: (
            jnp.apply_along_axis(lambda r: r * r[0], 1, x),
            jnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(x, x),
        ),
        x,
    )
    add(
        "arrays/packbits",
        lambda x: (jnp.packbits(x), jnp.unpackbits(jnp.packbits(x))),
        whole(3, 9, of="bool", high=1),
    )
    add(
        "arrays/windows",
        lambda: (jnp.hanning(8), jnp.hamming(7), jnp.bartlett(6), jnp.blackman(9)),
        slack=4,
    )
    add("arrays/kaiser", lambda: jnp.kaiser(6, 8.6), slack=10)
    add("arrays/masks", lambda x: (jnp.triu_indices(4), jnp.tril_indices_from(x)), normal(4, 4))
    add(
        "arrays/compress",
        lambda x: (
            jnp.compress(np.array([True, False, True, True]), x, axis=0, size=3),
            jnp.extract(x > 0, x, size=7, fill_value=0),
        ),
        x,
    )
    add(
        "arrays/insert-delete",
        lambda x: (
            jnp.insert(x, 2, 9, axis=1),
            jnp.delete(x, 1, axis=0),
            jnp.append(x, x, 0),
            jnp.resize(x, (3, 9)),
        ),
        x,
    )
    add(
        "arrays/arange",
        lambda: (
            jnp.arange(2, 20, 3),
            jnp.logspace(0, 2, 5),
            jnp.geomspace(1, 100, 4),
            jnp.indices((2, 3)),
        ),
        slack=10,
    )
    add(
        "arrays/mixed-types",
        lambda a, b, c, d: (a + b, b * c, c / d, a // d, d - c),
        whole(3),
        normal(3),
        normal(3, of="float16"),
        whole(3, of="uint8", low=1),
    )
    add(
        "arrays/complex",
        lambda x: (
            x.real,
            x.imag,
            jnp.angle(x),
            jnp.abs(x),
            x.conj(),
            jnp.sum(x * x),
            jnp.mean(x, 0),
            jnp.prod(x),
        ),
        normal(3, 4, of="complex64"),
        slack=8,
    )
    for dims, axes in (((0, 3), 1), ((3, 0), 0)):
        add(
            f"arrays/empty-{axes}",
            lambda x, a=axes: (
                jnp.sort(x, a),
                jnp.cumsum(x, a),
                x.T @ x,
                jnp.concatenate([x, x], a),
                x[:, ::-1],
                jnp.sum(x, a),
            ),
            normal(*dims),
        )


def special_functions() -> None:
    x = uniform(9, low=0.2, high=0.9)
    one = """entr erf erfc erfinv expit logit ndtr ndtri log_ndtr gammaln gamma digamma i0 i0e i1
     i1e expi_ spence factorial sinc_""".split()
    for name in one:
        if hasattr(jax.scipy.special, name):
            add(f"arrays/special-{name}", getattr(jax.scipy.special, name), x, slack=12)
    special_ = jax.scipy.special
    add(
        "arrays/special-two",
        lambda x: (
            special_.xlogy(x, x),
            special_.xlog1py(x, x),
            special_.beta(x, x + 1),
            special_.betaln(x, x),
            special_.rel_entr(x, x / 2),
            special_.kl_div(x, x * 2),
        ),
        x,
        slack=12,
    )
    add("arrays/special-gammainc", lambda x: special_.gammainc(x + 1, x), x, slack=12)
    add(
        "arrays/logsumexp",
        lambda x: (special_.logsumexp(x, axis=0), special_.softmax(x, axis=1)),
        normal(3, 4),
    )
    stats = jax.scipy.stats
    add(
        "arrays/stats",
        lambda x: (
            stats.norm.logpdf(x),
            stats.norm.cdf(x),
            stats.gamma.logpdf(x, 2.0),
            stats.beta.logpdf(x, 2.0, 3.0),
            stats.t.logpdf(x, 3.0),
            stats.laplace.cdf(x),
            stats.poisson.logpmf(jnp.floor(x * 5), 2.0),
        ),
        x,
        slack=20,
    )
    add("arrays/rank", lambda x: jax.scipy.stats.rankdata(x), whole(9))
    add(
        "arrays/map-coordinates",
        lambda x, c: jax.scipy.ndimage.map_coordinates(x, [c[0], c[1]], order=1),
        normal(5, 6),
        uniform(2, 4, low=0, high=4),
    )
    add(
        "arrays/interpolate",
        lambda x, p: jax.scipy.interpolate.RegularGridInterpolator(
            (jnp.arange(5.0), jnp.arange(6.0)), x
        )(p),
        normal(5, 6),
        uniform(4, 2, low=0, high=4),
    )


def images() -> None:
    x = normal(1, 6, 5, 2)
    for method in "nearest linear cubic lanczos3 lanczos5".split():
        for dims in ((1, 9, 11, 2), (1, 3, 2, 2)):
            for smooth in (True, False):
                label = f"arrays/resize-{method}-{dims[1]}-{smooth}"
                add(
                    label,
                    lambda x, m=method, d=dims, s=smooth: jax.image.resize(x, d, m, antialias=s),
                    x,
                    slack=4,
                )
    add(
        "arrays/scale-translate",
        lambda x, s, t: jax.image.scale_and_translate(x, (1, 8, 8, 2), (1, 2), s, t, "linear"),
        x,
        np.float32([1.3, 0.8]),
        np.float32([1, -1]),
        slack=4,
    )
    add(
        "arrays/pool-average",
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME") / 4,
        x,
    )


def segments() -> None:
    x, at = normal(12, 3), whole(12, low=0, high=4)
    for name in "sum prod max min".split():
        add(
            f"arrays/segment-{name}",
            lambda x, k, n=name: getattr(jax.ops, f"segment_{n}")(x, k, num_segments=6),
            x,
            at,
        )
    add(
        "arrays/segment-sorted",
        lambda x, k: jax.ops.segment_sum(x, jnp.sort(k), num_segments=5, indices_are_sorted=True),
        x,
        at,
    )
    add("arrays/segment-out", lambda x, k: jax.ops.segment_sum(x, k - 2, num_segments=3), x, at)


numpy_functions()
special_functions()
images()
segments()
