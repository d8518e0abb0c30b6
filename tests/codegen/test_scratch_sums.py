"""Sums of which data says where they are added: right, and no less exact for being many."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

import hloom
from hloom.codegen.scratch_sums import BLOCK_TERMS, LEAST_TERMS
from hloom.kernel.kernel import SCRATCH_BYTES
from tests.covering import covering

NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "c64": np.complex64,
}


def segments(dtype: str, count: Sequence[int], places: int, row: Sequence[int], more: str = ""):
    """Rows added to places, with index vectors of these sizes."""
    out = ",".join(map(str, [places, *row]))
    update = ",".join(map(str, [*count, *row]))
    window = ",".join(str(len(count) + d) for d in range(len(row)))
    return f"""HloModule m
add {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT r = {dtype}[] add(a, b) }}
ENTRY e {{
  x = {dtype}[{out}] parameter(0)
  at = s32[{",".join(map(str, count))},1] parameter(1)
  u = {dtype}[{update}] parameter(2)
  ROOT r = {dtype}[{out}] scatter(x, at, u), to_apply=add, update_window_dims={{{window}}},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}},
    index_vector_dim={len(count)}{more}
}}
"""


def drawn(dtype: str, count: Sequence[int], places: int, row: Sequence[int]):
    """Arguments with sums that are exact, and indices beyond both ends."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (places, *row)).astype(NUMPY[dtype])
    at = rng.integers(-1, places + 1, (*count, 1)).astype(np.int32)
    u = rng.integers(-1, 2, (*count, *row)).astype(NUMPY[dtype])
    return x, at, u


def sums(x: np.ndarray, at: np.ndarray, u: np.ndarray, wide: type) -> np.ndarray:
    """The result, in a wide type."""
    found = x.astype(wide)
    numbers, rows = at.reshape(-1), u.reshape(-1, *x.shape[1:]).astype(wide)
    inside = (numbers >= 0) & (numbers < len(x))
    np.add.at(found, numbers[inside], rows[inside])
    return found


ROWS = [(), (1,), (3,), (8,), (17,), (70,), (2, 5), (3, 1, 9)]


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("dtype", list(NUMPY))
def test_every_update_counts(dtype: str, row: tuple[int, ...]):
    for places, count in [(1, (40,)), (7, (LEAST_TERMS * 7,)), (7, (9, 103)), (33, (2000,))]:
        x, at, u = drawn(dtype, count, places, row)
        run = hloom.compile(hloom.parse(segments(dtype, count, places, row)), threads=3)
        wide = np.complex128 if dtype == "c64" else np.float64
        assert np.array_equal(np.asarray(run(x, at, u)), sums(x, at, u, wide).astype(x.dtype))


@pytest.mark.parametrize(
    ("row", "more", "apart"),
    covering(
        [(), (3,), (40,)],
        ["", ", indices_are_sorted=true", ", unique_indices=true"],
        [-1, 0, 1],
    ),
)
def test_lengths_beside_thresholds(row: tuple[int, ...], more: str, apart: int):
    places = 3
    for terms in (LEAST_TERMS, BLOCK_TERMS, BLOCK_TERMS * 3 // 2, BLOCK_TERMS * BLOCK_TERMS):
        count = (terms * places + apart,)
        x, at, u = drawn("f32", count, places, row)
        at.sort(axis=0)
        if "unique" in more:
            at[:] = places  # none is inside but one of each
            at[:places, 0] = range(places)
        run = hloom.compile(hloom.parse(segments("f32", count, places, row, more)), threads=2)
        assert np.array_equal(np.asarray(run(x, at, u)), sums(x, at, u, np.float64))


# What one row of 16 lanes of four bytes leaves room for, what one of 64 does, and the most.
FULL = SCRATCH_BYTES // (16 * 4)


@pytest.mark.parametrize(
    ("places", "dtype", "row"),
    covering(
        [0, 1, FULL // 4, FULL // 4 + 1, FULL, FULL + 1, 32_000],
        ["bf16", "f16", "f32"],
        [(4,), (70,)],
    ),
)
def test_many_places_with_long_rows_fit_a_kernel(dtype: str, places: int, row: tuple[int, ...]):
    """The gradient of an embedding: a row for every word that there is."""
    times, more = (LEAST_TERMS, ", indices_are_sorted=true") if dtype == "f32" else (1, "")
    count = (places * times + 1,)
    x, at, u = drawn(dtype, count, places, row)
    at.sort(axis=0)
    text = segments(dtype, count, places, row, more)
    run = hloom.compile(hloom.parse(text), options={"strict_compilation": True})
    assert np.array_equal(np.asarray(run(x, at, u)), sums(x, at, u, np.float64).astype(x.dtype))


def test_batches_have_places_of_their_own():
    text = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[3,5,ROW] parameter(0)
  at = s32[3,400,1] parameter(1)
  u = f32[3,400,ROW] parameter(2)
  ROOT r = f32[3,5,ROW] scatter(x, at, u), to_apply=add, update_window_dims={2},
    inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=2,
    input_batching_dims={0}, scatter_indices_batching_dims={0}
}
"""
    rng = np.random.default_rng(1)
    for row in (1, 4, 33):
        x, u = np.zeros((3, 5, row), np.float32), np.ones((3, 400, row), np.float32)
        at = rng.integers(0, 5, (3, 400, 1)).astype(np.int32)
        found = np.asarray(hloom.compile(hloom.parse(text.replace("ROW", str(row))))(x, at, u))
        wanted = np.stack([np.bincount(a[:, 0], minlength=5) for a in at])
        assert np.array_equal(found, np.broadcast_to(wanted[:, :, None], found.shape))


@pytest.mark.parametrize("dtype", ["f32", "c64"])
@pytest.mark.parametrize("row", [(), (4,), (20,)], ids=str)
@pytest.mark.parametrize("more", ["", ", indices_are_sorted=true"])
def test_errors_do_not_grow(dtype: str, row: tuple[int, ...], more: str):
    count, places = 60_000, 3
    rng = np.random.default_rng(2)
    at = np.sort(rng.integers(0, places, (count, 1)), axis=0).astype(np.int32)
    x, u = np.zeros((places, *row), NUMPY[dtype]), np.full((count, *row), 0.1, NUMPY[dtype])
    run = hloom.compile(hloom.parse(segments(dtype, (count,), places, row, more)))
    exact = sums(x, at, u, np.complex128 if dtype == "c64" else np.float64)
    error = np.max(np.abs(np.asarray(run(x, at, u)) - exact) / np.abs(exact)) / 2**-23
    is_wide = dtype == "f32" and (len(row) == 0 or row[0] <= 4 or bool(more))
    # In order it is off by 500.
    assert error < (0.51 if is_wide else 2 * BLOCK_TERMS)


def test_windows_that_all_select_one_place():
    size = 40
    text = f"""HloModule m
ge {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }}
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
ENTRY e {{
  x = f32[{2 * size},{size},CH] parameter(0)
  s = f32[{size + 1},{size},CH] parameter(1)
  z = f32[] constant(0.5)
  ROOT r = f32[{2 * size},{size},CH] select-and-scatter(x, s, z), select=ge, scatter=add,
    window={{size={size}x{size // 2}x1 pad=0_0x{size // 4}_{size // 4 - 1}x0_0}}
}}
"""
    for channels in (1, 3, 19):
        x = np.zeros((2 * size, size, channels), np.float32)
        x[size, size // 2] = 1  # in the middle, where all windows of the rows see it
        s = np.full((size + 1, size, channels), 0.1, np.float32)
        module = hloom.parse(text.replace("CH", str(channels)))
        found = np.asarray(hloom.compile(module, threads=2)(x, s))
        exact = hloom.evaluate(module, x.astype(np.float32), s).array.astype(np.float64)
        assert (
            abs(
                found.sum(dtype=np.float64) / (0.5 * x.size + float(s.astype(np.float64).sum())) - 1
            )
            < 1e-6
        )
        assert np.max(np.abs(found - exact) / exact) < 1e-5


KINDS = ["add", "maximum", "minimum", "and", "or", "xor", "multiply"]
WHOLE = {"s32": np.int32, "u8": np.uint8, "s64": np.int64, "pred": np.bool_}


@pytest.mark.parametrize("order", ["sorted", "drawn"])
@pytest.mark.parametrize("dtype", [*NUMPY, *WHOLE])
@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_that_meet_are_as_if_one_came_after_the_other(kind, dtype, order):
    kinds = {"c64": ["add", "multiply"], "pred": ["and", "or", "xor", "maximum", "minimum", "add"]}
    if (dtype in NUMPY and kind in ("and", "or", "xor")) or kind not in kinds.get(dtype, KINDS):
        pytest.skip("not defined")
    rng = np.random.default_rng(1)
    text = segments(dtype, (1003,), 7, (), ", indices_are_sorted=true" * (order == "sorted"))
    module = hloom.parse(text.replace("add(a, b)", f"{kind}(a, b)"))
    at = rng.integers(-1, 8, (1003, 1)).astype(np.int32)
    if order == "sorted":
        at.sort(axis=0)
    of = (NUMPY | WHOLE)[dtype]
    x, u = [rng.integers(0, 2 if kind == "multiply" else 90, n).astype(of) for n in (7, 1003)]
    if kind == "add" and dtype in ("bf16", "f16"):
        u = (u % 2).astype(of)  # sums that are exact
    if kind in ("maximum", "minimum") and dtype in ("f32", "f64", "bf16", "f16"):
        u[:20] = -u[:20]
        x[:] = of("-inf") if kind == "maximum" else of("inf")
        u[3], u[100], x[6] = of("nan"), of("-inf"), of("nan")
        u[at[:, 0] == 2] = rng.choice([of(0.0), of(-0.0)], int((at == 2).sum()))
    result = np.asarray(hloom.compile(module, threads=2)(x, at, u))
    expected = hloom.evaluate(module, x, at, u).array
    assert expected is not None
    if dtype in WHOLE or kind != "add":
        assert result.tobytes() == expected.tobytes() or np.isnan(expected).any()
    np.testing.assert_array_equal(result.astype(np.complex128), expected.astype(np.complex128))
