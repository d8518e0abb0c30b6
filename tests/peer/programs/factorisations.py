"""Factorisations and what is built on them: LAPACK's custom calls, in every type and batched.

Signs and phases of vectors are free, so programs return what does not depend on them.
"""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from tests.peer.programs.registry import add, normal

TYPES = ("float32", "float64", "complex64", "complex128")
BATCHES = ((), (3,), (2, 0))


def square(*dims: int, of: str, n: int = 5) -> np.ndarray:
    """Well-conditioned square matrices."""
    return (normal(*dims, n, n, of=of) + 4 * np.eye(n)).astype(of)


def turned(x):
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def positive(x):
    return x @ turned(x)


def hermitian(x):
    return x + turned(x)


def qr(x):
    q, r = jnp.linalg.qr(x)
    return q @ r, positive(turned(q)), jnp.abs(r)


def svd(x):
    u, s, v = jnp.linalg.svd(x, full_matrices=False)
    return (u * s[..., None, :].astype(u.dtype)) @ v, s, positive(v)


def full_svd(x):
    u, s, v = jnp.linalg.svd(x, full_matrices=True)
    return s, positive(u), positive(v)


def eigh(x):
    x = hermitian(x)
    values, vectors = jnp.linalg.eigh(x)
    return values, (vectors * values[..., None, :].astype(vectors.dtype)) @ turned(vectors)


def eig(x):
    values, vectors = jnp.linalg.eig(x)
    return jnp.sum(values, -1), jnp.abs(x @ vectors - vectors * values[..., None, :]) < 1e-3


def schur(x):
    t, z = jsl.schur(x)
    return z @ t @ turned(z), positive(z)


def hessenberg(x):
    h, q = jsl.hessenberg(x, calc_q=True)
    return q @ h @ turned(q), jnp.abs(jnp.tril(h, -2)) < 1e-3


def tridiagonal(x):
    _, d, e, _ = jax.lax.linalg.tridiagonal(hermitian(x))
    return jnp.sum(d), jnp.sum(jnp.abs(e) ** 2)


def determinants(x):
    sign, logarithm = jnp.linalg.slogdet(x)
    return jnp.linalg.det(x), sign, logarithm


FUNCTIONS = {
    "cholesky": lambda x: jnp.linalg.cholesky(positive(x)),
    "cholesky-upper": lambda x: jnp.linalg.cholesky(positive(x), upper=True),
    "qr": qr,
    "svd": svd,
    "svd-full": full_svd,
    "eigh": eigh,
    "eig": eig,
    "hessenberg": hessenberg,
    "inverse": jnp.linalg.inv,
    "determinants": determinants,
    "solve": lambda x: jnp.linalg.solve(x, x[..., :2] + 1),
    "lu": jax.lax.linalg.lu,
    "tridiagonal": tridiagonal,
    "triangular-left": lambda x: jax.lax.linalg.triangular_solve(
        x, x[..., :3] + 1, left_side=True, lower=True
    ),
    "triangular-right": lambda x: jax.lax.linalg.triangular_solve(
        x, x[..., :3, :] + 1, transpose_a=True, conjugate_a=True, unit_diagonal=True
    ),
}
ONCE = {
    "schur": schur,
    "lu": jsl.lu,
    "lu-solve": lambda x: jsl.lu_solve(jsl.lu_factor(x), x[:, :2]),
    "cho-solve": lambda x: jsl.cho_solve(jsl.cho_factor(positive(x)), x[:, 0]),
    "lstsq": lambda x: jnp.linalg.lstsq(x[:, :3], x[:, 3:])[0],
    "pinv": lambda x: jnp.linalg.pinv(x[:, :3]),
    "rank": jnp.linalg.matrix_rank,
    "condition": jnp.linalg.cond,
    "power": lambda x: jnp.linalg.matrix_power(x, -3),
    "norms": lambda x: (jnp.linalg.norm(x, 2), jnp.linalg.norm(x, "nuc")),
    "expm": lambda x: jsl.expm(x / 8),
    "sqrtm": jsl.sqrtm,
    "polar": lambda x: jsl.polar(x)[1],
    "block": lambda x: jsl.block_diag(x, x[:2]),
    "toeplitz": lambda x: jsl.toeplitz(x[0], x[1]),
}
REAL = {
    "roots": lambda x: jnp.sort(jnp.abs(jnp.roots(x[0], strip_zeros=False))),
    "eigh-tridiagonal": lambda x: jsl.eigh_tridiagonal(x[0], x[1, 1:], eigvals_only=True),
    "tridiagonal-solve": lambda x: jax.lax.linalg.tridiagonal_solve(
        x[0].at[0].set(0), x[1] + 9, x[2].at[-1].set(0), x[:, :2]
    ),
    "rsf2csf": lambda x: jnp.sum(jnp.diag(jsl.rsf2csf(*jsl.schur(x))[0])),
    "householder": lambda x: jax.lax.linalg.householder_product(x, x[0] / 9),
    "orthogonal": lambda x: positive(jax.random.orthogonal(jax.random.key(0), 4)) + x[0, 0],
    "multivariate": lambda x: jax.random.multivariate_normal(
        jax.random.key(3), x[0], positive(x), (4,)
    ),
    "gradient-cholesky": jax.grad(lambda x: jnp.sum(jnp.linalg.cholesky(positive(x)) ** 3)),
    "gradient-solve": jax.grad(lambda x: jnp.sum(jnp.linalg.solve(x, x[:, :2] ** 2))),
    "gradient-determinant": jax.grad(lambda x: jnp.linalg.slogdet(x)[1]),
    "gradient-eigh": jax.grad(lambda x: jnp.sum(jnp.linalg.eigvalsh(hermitian(x)) ** 3)),
    "gradient-svd": jax.grad(lambda x: jnp.sum(jnp.linalg.svd(x, compute_uv=False) ** 3)),
    "gradient-qr": jax.grad(lambda x: jnp.sum(jnp.abs(jnp.linalg.qr(x)[1]))),
}


def every() -> None:
    for of in TYPES:
        x = square(of=of)
        for name, function in FUNCTIONS.items():
            for batch in BATCHES if of == "float32" else BATCHES[:2]:
                dims = "x".join(map(str, batch)) or "one"
                add(f"factorisations/{name}-{of}-{dims}", function, square(*batch, of=of), slack=50)
        for name, function in ONCE.items():
            add(f"factorisations/{name}-{of}", function, x, slack=100)
        if of.startswith("float"):
            for name, function in REAL.items():
                add(f"factorisations/{name}-{of}", function, x, slack=100)
    for name in ("cholesky", "qr", "svd", "eigh", "solve", "hessenberg", "determinants"):
        large = square(of="float64", n=70)
        add(f"factorisations/{name}-large", FUNCTIONS[name], large, slack=1000)
    for dims in ((6, 3), (3, 6), (2, 4, 3)):
        shape = "x".join(map(str, dims))
        add(f"factorisations/qr-{shape}", qr, normal(*dims), slack=50)
        add(f"factorisations/svd-{shape}", svd, normal(*dims), slack=50)
        add(f"factorisations/svd-full-{shape}", full_svd, normal(*dims), slack=50)


every()
