"""Batches of small matrices, which are done side by side: the bits that each has alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.runtime.native_call import NativeCall, native
from tests.runtime.test_linalg import Matrices, adjoint, drawn, letter


@pytest.fixture(scope="module", params=[1, 2])
def call(request: pytest.FixtureRequest) -> Any:
    with native(request.param) as opened:
        yield opened


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9])
def test_small_matrices_side_by_side_are_as_alone(call: NativeCall, kind: str, n: int):
    """Batches of few, of whole vectors, and of some more; singular and failing ones among them."""
    with np.errstate(all="ignore"):
        for batch in (2, 7, 8, 9, 16, 17, 33):
            a = drawn(kind, batch, n, n, seed=batch)
            a[1] = 0
            a[batch // 2, :, 0] = a[batch // 2, :, -1]
            a[-1, -1, 0] = np.nan if batch == 9 else a[-1, -1, 0]
            definite = a @ adjoint(a) + np.eye(n, dtype=kind)
            definite[0, -1, -1] = -1
            definite[batch // 2, 0, 0] = np.inf
            _compare_alone(call, kind, a, definite.astype(kind))


def _compare_alone(call: NativeCall, kind: str, a: np.ndarray, definite: np.ndarray) -> None:
    n = a.shape[-1]
    rows, info = (a.shape[:2], "i4"), (a.shape[:1], "i4")
    getrf = Matrices(call, "getrf", kind)
    _same_alone(lambda x: getrf([x], [(x.shape, kind), *_batch(x, rows, info)]), a)
    for wide in (a[:, :, : n - 1], a[:, : n - 1]):
        if n > 1:
            few = (wide.shape[:1] + (min(wide.shape[1:]),), "i4")
            _same_alone(
                lambda x, few=few: getrf([x], [(x.shape, kind), *_batch(x, few, info)]), wide
            )
    for side in "LU":
        potrf = Matrices(call, "potrf", kind, uplo=letter(side))
        _same_alone(lambda x, f=potrf: f([x], [(x.shape, kind), *_batch(x, info)]), definite)
        for left, trans, diag, sides in (("L", "N", "U", 1), ("R", "T", "N", 3), ("L", "C", "N", 5),
                                         ("R", "N", "U", 8), ("L", "N", "N", 19)):  # fmt: skip
            shape = (len(a), n, sides) if left == "L" else (len(a), sides, n)
            trsm = Matrices(call, "trsm", kind, side=letter(left), uplo=letter(side),
                            trans_x=letter(trans), diag=letter(diag))  # fmt: skip
            b = drawn(kind, *shape)
            _same_alone(lambda x, y, f=trsm: f([x, y], [(y.shape, kind)]), definite, b)


def _batch(x: np.ndarray, *results: tuple[Any, str]) -> list[tuple[Any, str]]:
    """The shapes of results for as many matrices."""
    return [((len(x), *dims[1:]), kind) for dims, kind in results]


def _same_alone(function: Any, *operands: np.ndarray) -> None:
    together = function(*operands)
    for k in range(len(operands[0])):
        alone = function(*[x[k : k + 1] for x in operands])
        for whole, each in zip(together, alone):
            np.testing.assert_array_equal(whole[k], each[0])
