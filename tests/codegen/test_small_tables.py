"""Gathers from tables and rows that fit into registers: right at each size, from nothing else."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import hloom
from hloom.api import host_device
from tests.covering import covering

TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "s8": np.int8,
    "u16": np.uint16,
    "pred": np.bool_,
    "c64": np.complex64,
}
ISAS = ["", "AVX2", "SSE4_2"]

TABLE = """HloModule table
ENTRY e { x = TYPE[COUNT] parameter(0) i = INDEX[SIZE,1] parameter(1)
  ROOT r = TYPE[SIZE] gather(x, i), offset_dims={}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1} }"""
COLUMNS = """HloModule columns
ENTRY e { x = TYPE[ROWS,COUNT] parameter(0) i = s32[SIZE,1] parameter(1)
  ROOT r = TYPE[ROWS,SIZE] gather(x, i), offset_dims={0}, collapsed_slice_dims={1},
    start_index_map={1}, index_vector_dim=1, slice_sizes={ROWS,1} }"""
# The pad holds zeros where the table has ended: the gather is masked.
PADDED = """HloModule padded
ENTRY e { x = TYPE[COUNT] parameter(0) i = s32[SIZE,1] parameter(1) z = TYPE[] constant(ZERO)
  p = TYPE[WIDER] pad(x, z), padding=3_7
  ROOT r = TYPE[SIZE] gather(p, i), offset_dims={}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1} }"""


def check(text: str, isa: str, *arguments: np.ndarray) -> None:
    module = hloom.parse(text)
    result = hloom.compile(module, threads=2, options={"xla_cpu_max_isa": isa})(*arguments)
    expected = hloom.evaluate(module, *arguments).array
    assert expected is not None and np.asarray(result).tobytes() == expected.tobytes()


def numbers(dtype: str, *dims: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 100, dims).astype(TYPES[dtype])


@pytest.mark.parametrize(
    ("count", "dtype", "isa"), covering([1, 9, 16, 33, 129, 300], list(TYPES), ISAS)
)
def test_a_table_of_any_size(count, dtype, isa):
    size = 77
    at = np.random.default_rng(1).integers(-3, count + 3, (size, 1)).astype(np.int32)
    text = TABLE.replace("TYPE", dtype).replace("COUNT", str(count)).replace("SIZE", str(size))
    check(text.replace("INDEX", "s32"), isa, numbers(dtype, count), at)
    check(text.replace("INDEX", "u8"), isa, numbers(dtype, count), at.astype(np.uint8))
    check(text.replace("INDEX", "u32"), isa, numbers(dtype, count), at.astype(np.uint32))
    text = PADDED.replace("TYPE", dtype).replace("COUNT", str(count)).replace("SIZE", str(size))
    text = text.replace("ZERO", "(0, 0)" if dtype == "c64" else "0")
    check(text.replace("WIDER", str(count + 10)), isa, numbers(dtype, count), at)


@pytest.mark.parametrize(
    ("dims", "dtype", "isa"),
    covering(
        [(3, 7, 30), (5, 17, 16), (4, 100, 50), (2, 129, 67), (1, 500, 9)],
        ["f32", "f64", "bf16", "s8"],
        ISAS,
    ),
)
def test_columns_of_short_rows(dims, dtype, isa):
    rows, count, size = dims
    at = np.random.default_rng(1).integers(-3, count + 3, (size, 1)).astype(np.int32)
    text = COLUMNS.replace("TYPE", dtype).replace("ROWS", str(rows)).replace("COUNT", str(count))
    check(text.replace("SIZE", str(size)), isa, numbers(dtype, rows, count), at)


@pytest.mark.parametrize(
    ("dims", "dtype", "isa"),
    covering(
        [(2, 2), (3, 2), (4, 3), (7, 7), (10, 5), (13, 12), (20, 4), (30, 3)], list(TYPES), ISAS
    ),
)
def test_columns_of_many_rows(dims, dtype, isa):
    count, size = dims
    random = np.random.default_rng(count)
    text = COLUMNS.replace("TYPE", dtype).replace("COUNT", str(count)).replace("SIZE", str(size))
    for rows in (17, 64, 1001):
        at = random.integers(-3, count + 3, (size, 1)).astype(np.int32)
        check(text.replace("ROWS", str(rows)), isa, numbers(dtype, rows, count), at)


def test_lanes_pick_from_rows_of_their_own():
    if not host_device().compute.vector_bytes >= 64:
        pytest.skip("asks for permutations of AVX-512")
    text = COLUMNS.replace("TYPE", "f32").replace("ROWS", "1000").replace("SIZE", "5")
    near = hloom.compile(hloom.parse(text.replace("COUNT", "10"))).as_text("llvm")
    assert "vpermi2var.d.512" in near
    far = hloom.compile(hloom.parse(text.replace("COUNT", "60"))).as_text("llvm")
    assert "vpermi2var.d.512" not in far
