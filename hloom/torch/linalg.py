"""Operations of `torch.linalg` that torchax lacks, or writes with other arguments or results.

PyTorch's give factors and codes besides what is asked of them; those that only gradients read are
left out here, codes say that all is well: what PyTorch refuses (a matrix that is singular, or not
positive definite) gives values that are not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hloom.api import UsageError

Array = Any
FFT_SCALES = ("forward", "ortho", "backward")
"""What JAX calls scales of inverse transforms: none (0), by the root (1) or the number (2)."""


def _all_is_well(a: Array) -> np.ndarray:
    return np.zeros(a.shape[:-2], np.int32)


def cholesky(a: Array, *, upper: bool = False, check_errors: bool = False) -> tuple[Array, ...]:
    from jax import numpy as jnp

    return jnp.linalg.cholesky(a, upper=upper), _all_is_well(a)


def inverse(a: Array, *, check_errors: bool = False) -> tuple[Array, ...]:
    from jax import numpy as jnp

    return jnp.linalg.inv(a), _all_is_well(a)


def solve(
    a: Array, b: Array, *, left: bool = True, check_errors: bool = False
) -> tuple[Array, ...]:
    """The solution, without the factors of the matrix, and the code."""
    from jax import numpy as jnp

    if b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]):
        if not left:
            a = a.swapaxes(-1, -2)
        return jnp.linalg.solve(a, b[..., None])[..., 0], None, None, _all_is_well(a)
    if left:
        return jnp.linalg.solve(a, b), None, None, _all_is_well(a)
    turned = jnp.linalg.solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2))
    return turned.swapaxes(-1, -2), None, None, _all_is_well(a)


def determinant(a: Array) -> tuple[Array, ...]:
    from jax import numpy as jnp

    return jnp.linalg.det(a), None, None


def logarithm_of_determinant(a: Array) -> tuple[Array, ...]:
    from jax import numpy as jnp

    return *jnp.linalg.slogdet(a), None, None


def eigenvalues_of_symmetric(
    a: Array, triangle: str = "L", compute_v: bool = True
) -> tuple[Array, ...]:
    from jax import numpy as jnp

    if compute_v:
        return tuple(jnp.linalg.eigh(a, triangle, symmetrize_input=False))
    return jnp.linalg.eigvalsh(a, triangle, symmetrize_input=False), None


def singular_values(
    a: Array, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Array, ...]:
    from jax import numpy as jnp

    if compute_uv:
        return tuple(jnp.linalg.svd(a, full_matrices))
    return None, jnp.linalg.svd(a, compute_uv=False), None


def lower_and_upper(a: Array, *, pivot: bool = True) -> tuple[Array, ...]:
    """The permutation matrix and the two factors."""
    import jax
    from jax import numpy as jnp

    if not pivot:
        raise UsageError(
            "torch.linalg.lu without pivots is not compiled (nor is it done by PyTorch on a CPU)",
            rule="torch",
            hint="leave out pivot=False",
        )
    rows, columns = a.shape[-2:]
    both, _, order = jax.lax.linalg.lu(a)
    n = min(rows, columns)
    lower = jnp.tril(both[..., :n], -1) + jnp.eye(rows, n, dtype=a.dtype)
    place = jnp.swapaxes(jax.nn.one_hot(order, rows, dtype=a.dtype), -1, -2)
    return place, lower, jnp.triu(both[..., :n, :])


def real_inverse_fft(x: Array, dims: Sequence[int], scale: int, last: int) -> Array:
    from jax import numpy as jnp

    sizes = [x.shape[d] for d in dims[:-1]] + [last]
    return jnp.fft.irfftn(x, sizes, axes=tuple(dims), norm=FFT_SCALES[scale])


LINALG: dict[str, Callable[..., Any]] = {
    "aten::linalg_cholesky_ex": cholesky,
    "aten::linalg_inv_ex": inverse,
    "aten::_linalg_solve_ex": solve,
    "aten::_linalg_det": determinant,
    "aten::_linalg_slogdet": logarithm_of_determinant,
    "aten::_linalg_eigh": eigenvalues_of_symmetric,
    "aten::_linalg_svd": singular_values,
    "aten::linalg_lu": lower_and_upper,
    "aten::_fft_c2r": real_inverse_fft,
}
"""By the name of the operation."""
