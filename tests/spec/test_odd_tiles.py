"""Kernels of tiles that do not divide the shape equal numpy, elements all distinct."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import Value
from hloom.kernel.text import parse_kernel, show_kernel
from hloom.kernel.verify import verify_kernel
from hloom.types.dtype import F32
from tests.fuzz.check_kernel import NUMERIC, run_native

Array = np.ndarray[Any, Any]
ROWS, COLUMNS, TILE = 13, 37, 8
Body = Callable[[KernelBuilder, Value], Value]


def masked_tiles(body: Body, transposed: bool = False) -> tuple[Any, Array, Array]:
    """A kernel over [13, 37] in tiles of 8 x 8 with masks at the edges, its input and output."""
    b = KernelBuilder("tiles", (-(-ROWS // TILE), -(-COLUMNS // TILE)))
    x, y = b.param("x", F32, ROWS * COLUMNS, "in"), b.param("y", F32, ROWS * COLUMNS, "out")
    i, j = (b.binary("multiply", k, b.index(TILE)) for k in b.grid_indices)
    tile = (TILE, TILE)
    inside = []
    for axis, (start, size) in enumerate(((i, ROWS), (j, COLUMNS))):
        at = b.binary("add", b.broadcast(start, tile), b.iota(start.dtype, tile, axis))
        inside.append(b.compare("LT", at, b.constant(start.dtype, size, tile)))
    mask = b.binary("and", *inside)
    at = b.binary("add", b.binary("multiply", i, b.index(COLUMNS)), j)
    other = b.constant(F32, 0.0, tile)
    made = body(b, b.load(x, at, tile, (COLUMNS, 1), mask, other))
    if transposed:
        mask = b.transpose(mask, (1, 0))
        at = b.binary("add", b.binary("multiply", j, b.index(ROWS)), i)
        b.store(y, at, made, (ROWS, 1), mask)
    else:
        b.store(y, at, made, (COLUMNS, 1), mask)
    data = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) * 0.5 - 100
    return b.finish(), data, np.zeros(ROWS * COLUMNS, np.float32)


def native(kernel: Any, arrays: list[Array], where: str) -> None:
    """Run the kernel as it reads back from its text."""
    verify_kernel(kernel)
    assert run_native(parse_kernel(show_kernel(kernel)), arrays, where) == ""


@pytest.mark.parametrize("where", NUMERIC)
def test_elementwise(where: str):
    kernel, x, y = masked_tiles(lambda b, t: b.binary("multiply", t, b.unary("abs", t)))
    native(kernel, [x.reshape(-1), y], where)
    np.testing.assert_array_equal(y.reshape(x.shape), x * np.abs(x))


@pytest.mark.parametrize("where", NUMERIC)
def test_transpose(where: str):
    kernel, x, y = masked_tiles(lambda b, t: b.transpose(t, (1, 0)), transposed=True)
    native(kernel, [x.reshape(-1), y], where)
    np.testing.assert_array_equal(y.reshape(COLUMNS, ROWS), x.T)


def rows_kernel(body: Body, width: int) -> Any:
    """A kernel whose step takes a row in tiles of 8 and a last one of 5; `body` joins them."""
    b = KernelBuilder("rows", (ROWS,))
    x, y = b.param("x", F32, ROWS * COLUMNS, "in"), b.param("y", F32, ROWS * width, "out")
    (i,) = b.grid_indices
    start = b.binary("multiply", i, b.index(COLUMNS))
    parts = [
        b.load(x, b.binary("add", start, b.index(k)), (min(TILE, COLUMNS - k),), (1,))
        for k in range(0, COLUMNS, TILE)
    ]
    made = body(b, b.concatenate(parts, 0))
    b.store(y, b.binary("multiply", i, b.index(width)), made, (1,) if width > 1 else ())
    return b.finish()


@pytest.mark.parametrize("where", NUMERIC)
def test_reduce_and_scan(where: str):
    x = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) - 200
    y = np.zeros(ROWS, np.float32)
    native(rows_kernel(lambda b, t: b.reduce(t, 0, "add"), 1), [x.reshape(-1), y], where)
    np.testing.assert_array_equal(y, x.sum(1))
    y = np.zeros(ROWS * COLUMNS, np.float32)
    scan = rows_kernel(lambda b, t: b.scan(t, 0, "add"), COLUMNS)
    native(scan, [x.reshape(-1), y], where)
    np.testing.assert_array_equal(y.reshape(x.shape), np.cumsum(x, 1))


@pytest.mark.parametrize("where", NUMERIC)
def test_dot(where: str):
    """[7, 11] times [11, 19] in one tile, over k in steps of 4 with a rest of 3."""
    m, k, n = 7, 11, 19
    b = KernelBuilder("product", ())
    x, y = b.param("x", F32, m * k, "in"), b.param("y", F32, k * n, "in")
    out = b.param("out", F32, m * n, "out")

    def step(at: Value, acc: Value, size: int) -> Value:
        left = b.load(x, at, (m, size), (k, 1))
        below = b.binary("multiply", at, b.index(n))
        return b.dot(acc, left, b.load(y, below, (size, n), (n, 1)))

    (acc,) = b.for_(0, 8, 4, [b.constant(F32, 0.0, (m, n))], lambda at, acc: [step(at, acc, 4)])
    b.store(out, b.index(0), step(b.index(8), acc, 3), (n, 1))
    p = np.arange(m * k, dtype=np.float32).reshape(m, k) - 30
    q = np.arange(k * n, dtype=np.float32).reshape(k, n) - 90
    made = np.zeros(m * n, np.float32)
    native(b.finish(), [p.reshape(-1), q.reshape(-1), made], where)
    np.testing.assert_array_equal(made.reshape(m, n), p @ q)
