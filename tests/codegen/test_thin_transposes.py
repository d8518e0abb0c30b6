"""Transposes to rows of few elements, and of wide ones: turned in tiles, as numpy has it."""

import numpy as np
import pytest

import hloom
from hloom.codegen.crosswise import cross_form
from hloom.codegen.tile import Body
from hloom.targets.cpu.device import host_device
from tests.covering import covering

KINDS = {"u8": np.uint8, "f16": np.float16, "f32": np.float32, "f64": np.float64}


def program(kind: str, shape: str, turned: str, order: str) -> hloom.Module:
    return hloom.parse(f"""HloModule m
ENTRY e {{
  x = {kind}[{shape}] parameter(0)
  ROOT t = {kind}[{turned}] transpose(x), dimensions={{{order}}}
}}""")


@pytest.mark.parametrize(
    ("rows", "kind", "isa"), covering([2, 3, 4, 5, 8, 9], list(KINDS), ["", "AVX2"])
)
def test_planes_become_pixels(rows: int, kind: str, isa: str) -> None:
    options = {"xla_cpu_max_isa": isa} if isa else {}
    rng = np.random.default_rng(rows)
    for length in (15, 16, 17, 63, 64, 65, 4095, 65537, 200_000):
        x = rng.integers(0, 200, (rows, length)).astype(KINDS[kind])
        module = program(kind, f"{rows},{length}", f"{length},{rows}", "1,0")
        turned = hloom.compile(module, options=options)(x)
        assert np.array_equal(np.asarray(turned), x.T), length


@pytest.mark.parametrize("rows", [2, 3, 4, 7, 8, 9])
def test_short_rows_are_computed_a_vector_of_them_at_a_time(rows: int) -> None:
    rng = np.random.default_rng(rows)
    for length in (65, 20_001):
        module = hloom.parse(f"""HloModule m
ENTRY e {{
  x = u8[{rows},{length}] parameter(0)
  shift = f32[{rows}] parameter(1)
  rest = f32[{length},{rows}] parameter(2)
  place = f32[{length}] parameter(3)
  turned = u8[{length},{rows}] transpose(x), dimensions={{1,0}}
  wide = f32[{length},{rows}] convert(turned)
  shifts = f32[{length},{rows}] broadcast(shift), dimensions={{1}}
  places = f32[{length},{rows}] broadcast(place), dimensions={{0}}
  less = f32[{length},{rows}] subtract(wide, shifts)
  more = f32[{length},{rows}] multiply(less, places)
  ROOT r = f32[{length},{rows}] add(more, rest)
}}""")
        x = rng.integers(0, 200, (rows, length)).astype(np.uint8)
        shift, rest, place = (
            rng.standard_normal(shape, np.float32) for shape in (rows, (length, rows), length)
        )
        computed = np.asarray(hloom.compile(module)(x, shift, rest, place))
        expected = (x.T - shift) * place[:, None] + rest
        assert np.allclose(computed, expected, rtol=1e-5, atol=1e-4), length


def test_tiles_of_short_rows_are_as_wide_as_vectors() -> None:
    module = program("f32", "3,200000", "200000,3", "1,0")
    lanes = host_device().compute.vector_bytes // 4
    assert f"f32[3,{lanes}]" in hloom.compile(module).as_text("kernels")
    assert "transpose" not in hloom.compile(module).as_text("kernels").split("{", 1)[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_pictures(kind: str) -> None:
    x = np.random.default_rng(0).integers(0, 200, (3, 3, 129, 131)).astype(KINDS[kind])
    module = program(kind, "3,3,129,131", "3,129,131,3", "0,2,3,1")
    assert np.array_equal(np.asarray(hloom.compile(module)(x)), x.transpose(0, 2, 3, 1))


def test_only_long_rows_beside_them_are_turned() -> None:
    def form(shape: str, turned: str, order: str) -> object:
        return cross_form(Body.of(program("f32", shape, turned, order).entry.root), host_device())

    assert form("3,200000", "200000,3", "1,0") is not None
    assert form("20000,3,7", "20000,7,3", "0,2,1") is None
    assert form("5,3,40000", "40000,5,3", "2,0,1") is None


def test_tiles_of_two_words_are_smaller() -> None:
    """Two planes of 16 x 16 numbers of f64 are four times what registers hold."""
    module = program("c128", "300,200", "200,300", "1,0")
    tile = host_device().compute.vector_floats // 2
    assert f": c128[{tile},{tile}]" in hloom.compile(module).as_text("kernels")
    x = np.arange(60_000).reshape(300, 200) * (1 - 2j)
    assert np.array_equal(np.asarray(hloom.compile(module)(x)), x.T)
