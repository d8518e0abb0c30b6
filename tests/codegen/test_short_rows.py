"""Rows of a few elements side by side: tiles of whole rows, read in any order, of every type and
number of elements, on either side of where tiles stop being whole rows."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import hloom
from hloom.api import host_device
from hloom.codegen.short_rows import MOST_VECTORS

TYPES = {
    "pred": np.bool_,
    "s8": np.int8,
    "u16": np.uint16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "c64": np.complex64,
}


def numbers(of: str, dims: tuple[int, ...]) -> np.ndarray:
    drawn = np.random.default_rng(len(dims)).integers(0, 100, dims)
    return (drawn % 2 if of == "pred" else drawn).astype(TYPES[of])


@pytest.mark.parametrize("of", TYPES)
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 7, 8, 9, 13])
def test_channels_turned_round(of: str, channels: int) -> None:
    for rows in (1, 7, 64, 331):
        dims = (2, rows, channels)
        module = hloom.parse(f"""
ENTRY e {{
  x = {of}[{",".join(map(str, dims))}] parameter(0)
  ROOT r = {of}[{",".join(map(str, dims))}] reverse(x), dimensions={{2}}
}}""")
        x = numbers(of, dims)
        np.testing.assert_array_equal(np.asarray(hloom.compile(module)(x)), x[..., ::-1])


@pytest.mark.parametrize("of", ["u8", "f32"])
@pytest.mark.parametrize("channels", [3, 5, 6, 11])
def test_numbers_of_channels(of: str, channels: int) -> None:
    """What every row reads alike, beside what it reads of its own, edges and all."""
    rows = 517
    module = hloom.parse(f"""
ENTRY e {{
  x = {of}[{rows},{channels}] parameter(0)
  m = f32[{channels}] parameter(1)
  c = f32[{rows},{channels}] convert(x)
  n = f32[{rows},{channels}] broadcast(m), dimensions={{1}}
  d = f32[{rows},{channels}] subtract(c, n)
  z = f32[] constant(7)
  p = f32[{rows},{channels + 2}] pad(d, z), padding=0_0x1_1
  s = f32[{rows},{channels}] slice(p), slice={{[0:{rows}], [0:{channels}]}}
  t = f32[{rows},{channels}] reverse(d), dimensions={{0,1}}
  ROOT r = f32[{rows},{channels}] add(s, t)
}}""")
    x = np.random.default_rng(0).integers(0, 100, (rows, channels))
    x = x.astype(np.uint8 if of == "u8" else np.float32)
    m = np.arange(channels, dtype=np.float32)
    d = x.astype(np.float32) - m
    want = np.pad(d, ((0, 0), (1, 1)), constant_values=7)[:, :channels] + d[::-1, ::-1]
    np.testing.assert_array_equal(np.asarray(hloom.compile(module)(x, m)), want)


def test_whole_rows_are_shuffled() -> None:
    """Three bytes of a pixel in another order: no element by itself."""
    module = hloom.parse("""
ENTRY e {
  x = u8[64,64,3] parameter(0)
  ROOT r = u8[64,64,3] reverse(x), dimensions={2}
}""")
    text = hloom.compile(module).as_text("llvm")
    assert "shufflevector" in text
    assert "load i8," not in text


SOFTMAX = """
most {{
  a = {of}[] parameter(0)
  b = {of}[] parameter(1)
  ROOT m = {of}[] maximum(a, b)
}}

total {{
  a = {of}[] parameter(0)
  b = {of}[] parameter(1)
  ROOT s = {of}[] add(a, b)
}}

ENTRY e {{
  x = {of}[{dims}] parameter(0)
  low = {of}[] constant(-inf)
  zero = {of}[] constant(0)
  m = {of}[{rows}] reduce(x, low), dimensions={{{last}}}, to_apply=most
  ms = {of}[{dims}] broadcast(m), dimensions={{{kept}}}
  d = {of}[{dims}] subtract(x, ms)
  y = {of}[{dims}] exponential(d)
  s = {of}[{rows}] reduce(y, zero), dimensions={{{last}}}, to_apply=total
  ss = {of}[{dims}] broadcast(s), dimensions={{{kept}}}
  p = {of}[{dims}] divide(y, ss)
  l = {of}[{rows}] log(s)
  n = {of}[{rows}] add(l, m)
  ROOT r = ({of}[{dims}], {of}[{rows}]) tuple(p, n)
}}"""
"""Probabilities of each row, and the logarithm of what they are divided by."""


@pytest.mark.parametrize("of", ["f32", "f64", "bf16"])
@pytest.mark.parametrize(
    ("columns", "outer"),
    [
        (2, (16,)),
        (3, (331,)),
        (5, (3, 37)),
        (7, (1,)),
        (16, (48,)),
        (17, (3, 37)),
        (31, (65,)),
        (33, (3, 5)),
        (151, (7,)),
        (300, (2, 3)),
    ],
)
def test_softmax_of_rows(of: str, columns: int, outer: tuple[int, ...]) -> None:
    """Lanes over rows and along them, on both sides of each; exponentials kept between passes."""
    dims, rank = (*outer, columns), len(outer)
    text = SOFTMAX.format(
        of=of,
        dims=",".join(map(str, dims)),
        rows=",".join(map(str, outer)),
        last=rank,
        kept=",".join(map(str, range(rank))),
    )
    x = np.random.default_rng(columns).standard_normal(dims).astype(TYPES[of])
    x[0, ..., 0] = np.inf if columns == 7 else 30
    found = hloom.compile(hloom.parse(text))(x)
    want = hloom.evaluate(hloom.parse(text), x)
    bound = 2e-2 if of == "bf16" else 2e-6
    for a, b in zip(found, want.leaves()):
        a, b = np.asarray(a).astype(np.float64), b.array.astype(np.float64)
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound)


def test_exponentials_are_computed_once() -> None:
    """Whatever the length of the rows."""
    for columns in (10, 1000):
        text = SOFTMAX.format(of="f32", dims=f"640,{columns}", rows="640", last=1, kept=0)
        kernels = hloom.compile(hloom.parse(text)).as_text("kernels")
        loops = [part.split("for ")[0] for part in kernels.split("yield")[1:]]
        after = loops[-1] + kernels.rsplit("for ", 1)[1]
        assert "exponential" in kernels
        assert "exponential" not in after


def test_short_rows_go_side_by_side_up_to_a_few_vectors() -> None:
    lanes = host_device().compute.vector_floats
    for columns, is_short in ((MOST_VECTORS * lanes, True), (MOST_VECTORS * lanes + 1, False)):
        text = SOFTMAX.format(of="f32", dims=f"640,{columns}", rows="640", last=1, kept=0)
        kernels = hloom.compile(hloom.parse(text)).as_text("kernels")
        assert (f"grid(%0: {640 // lanes})" in kernels) == is_short


def test_squares_of_a_row_are_turned_in_one_loop() -> None:
    """And written once in what LLVM gets, too."""
    lanes = host_device().compute.vector_floats
    loads, shuffles = [], []
    for columns in (lanes, MOST_VECTORS * lanes):
        text = SOFTMAX.format(of="f32", dims=f"640,{columns}", rows="640", last=1, kept=0)
        program = hloom.compile(hloom.parse(text))
        loads.append(program.as_text("kernels").count(f"strides(1, {columns})"))
        shuffles.append(program.as_text("llvm").count("shufflevector"))
    assert loads[0] == loads[1]
    assert shuffles[1] < 1.2 * shuffles[0]


@pytest.mark.parametrize("of", ["pred", "u8", "f32"])
@pytest.mark.parametrize("columns", [2, 3, 8, 16])
def test_rows_that_a_reshape_makes(of: str, columns: int) -> None:
    """Of arrays whose dimensions do not tell rows from columns, the last rows by themselves."""
    total = {"pred": "or", "u8": "add", "f32": "add"}[of]
    types = {"pred": np.bool_, "u8": np.uint8, "f32": np.float32}
    for dims in ((31, 10 * columns), (3 * columns,), (1, 4099 * columns), (64, 2 * columns, 3)):
        rows = int(np.prod(dims)) // columns
        module = hloom.parse(f"""
total {{
  a = {of}[] parameter(0)
  b = {of}[] parameter(1)
  ROOT s = {of}[] {total}(a, b)
}}

ENTRY e {{
  x = {of}[{",".join(map(str, dims))}] parameter(0)
  y = {of}[{rows},{columns}] reshape(x)
  zero = {of}[] constant(0)
  ROOT r = {of}[{rows}] reduce(y, zero), dimensions={{1}}, to_apply=total
}}""")
        x = np.random.default_rng(columns).integers(0, 2, dims).astype(types[of])
        fold = np.logical_or if of == "pred" else np.add
        want = fold.reduce(x.reshape(rows, columns), axis=1, dtype=types[of])
        np.testing.assert_array_equal(np.asarray(hloom.compile(module)(x)), want)


@pytest.mark.parametrize("of", ["pred", "u8"])
def test_rows_of_a_reshape_are_turned_whole(of: str) -> None:
    lanes = host_device().compute.vector_bytes
    kernels = hloom.compile(
        hloom.parse(f"""
total {{
  a = u8[] parameter(0)
  b = u8[] parameter(1)
  ROOT s = u8[] add(a, b)
}}

ENTRY e {{
  x = {of}[100,1024] parameter(0)
  y = {of}[12800,8] reshape(x)
  n = u8[12800,8] convert(y)
  zero = u8[] constant(0)
  ROOT r = u8[12800] reduce(n, zero), dimensions={{1}}, to_apply=total
}}""")
    ).as_text("kernels")
    assert f"strides(1, 8) : {of}[8,{lanes}]" in kernels


def test_what_rows_read_of_one_another() -> None:
    """Of a row reversed, of another row, of one number for each row or column."""
    module = """
total {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[ROWS,COLUMNS] parameter(0)
  w = f32[COLUMNS] parameter(1)
  v = f32[ROWS] parameter(2)
  zero = f32[] constant(0)
  ws = f32[ROWS,COLUMNS] broadcast(w), dimensions={1}
  vs = f32[ROWS,COLUMNS] broadcast(v), dimensions={0}
  t = f32[ROWS,COLUMNS] tanh(x)
  u = f32[ROWS,COLUMNS] reverse(t), dimensions={1}
  k = f32[ROWS,COLUMNS] reverse(x), dimensions={0}
  a = f32[ROWS,COLUMNS] multiply(t, ws)
  s = f32[ROWS] reduce(a, zero), dimensions={1}, to_apply=total
  ss = f32[ROWS,COLUMNS] broadcast(s), dimensions={0}
  b = f32[ROWS,COLUMNS] add(u, ss)
  c = f32[ROWS,COLUMNS] multiply(b, vs)
  d = f32[ROWS,COLUMNS] subtract(c, k)
  ROOT r = f32[ROWS,COLUMNS] add(d, t)
}"""
    rng = np.random.default_rng(0)
    for rows, columns in ((37, 5), (64, 13), (35, 100)):
        text = module.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))
        parts = [rng.standard_normal(s, np.float32) for s in ((rows, columns), columns, rows)]
        want = hloom.evaluate(hloom.parse(text), *parts).array
        np.testing.assert_allclose(hloom.compile(hloom.parse(text))(*parts), want, atol=2e-5)


@pytest.mark.parametrize("sizes", ["0,4,4", "4,0,3", "5,4,0"])
def test_loops_over_nothing(sizes):
    text = f"""HloModule m
body {{ s = (s32[], f32[{sizes}]) parameter(0)
 k = s32[] get-tuple-element(s), index=0
 x = f32[{sizes}] get-tuple-element(s), index=1
 one = s32[] constant(1)
 y = f32[{sizes}] exponential(x)
 q = pred[{sizes}] compare(x, y), direction=LT
 z = f32[{sizes}] select(q, y, x)
 n = s32[] add(k, one)
 ROOT t = (s32[], f32[{sizes}]) tuple(n, z) }}
more {{ s = (s32[], f32[{sizes}]) parameter(0)
 k = s32[] get-tuple-element(s), index=0
 c = s32[] constant(3)
 ROOT q = pred[] compare(k, c), direction=LT }}
ENTRY e {{ k = s32[] parameter(0)
 x = f32[{sizes}] parameter(1)
 i = (s32[], f32[{sizes}]) tuple(k, x)
 ROOT w = (s32[], f32[{sizes}]) while(i), condition=more, body=body }}"""
    exe = hloom.compile(hloom.parse(text))
    dims = [int(n) for n in sizes.split(",")]
    results = exe(np.int32(0), np.zeros(dims, np.float32))
    assert [np.asarray(x).shape for x in results] == [(), tuple(dims)] and not exe.faults


@pytest.mark.parametrize("rows", [17, 33, 129])
@pytest.mark.parametrize("columns", [3, 7, 13])
def test_what_several_passes_need_is_kept_of_a_last_row_by_itself(rows: int, columns: int) -> None:
    text = f"""HloModule softmax
most {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] maximum(a, b) }}
sum {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }}
ENTRY e {{ x = f32[{rows},{columns}] parameter(0)
 i = f32[] constant(-inf)
 z = f32[] constant(0)
 m = f32[{rows}] reduce(x, i), dimensions={{1}}, to_apply=most
 n = f32[{rows},{columns}] broadcast(m), dimensions={{0}}
 d = f32[{rows},{columns}] subtract(x, n)
 e = f32[{rows},{columns}] exponential(d)
 s = f32[{rows}] reduce(e, z), dimensions={{1}}, to_apply=sum
 t = f32[{rows},{columns}] broadcast(s), dimensions={{0}}
 ROOT o = f32[{rows},{columns}] divide(e, t) }}"""
    x = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(hloom.compile(text)(x), e / e.sum(1, keepdims=True), rtol=1e-5)


PAIRS = """HloModule pairs
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[ROWS,SIZE] parameter(0) y = f32[COLUMNS,SIZE] parameter(1) z = f32[] constant(0)
  p = f32[ROWS,COLUMNS,SIZE] broadcast(x), dimensions={0,2}
  q = f32[ROWS,COLUMNS,SIZE] broadcast(y), dimensions={1,2}
  d = f32[ROWS,COLUMNS,SIZE] subtract(p, q)
  s = f32[ROWS,COLUMNS,SIZE] multiply(d, d)
  n = f32[ROWS,COLUMNS] reduce(s, z), dimensions={2}, to_apply=add
  ROOT r = f32[ROWS,COLUMNS] LAST(n) }
"""


@pytest.mark.parametrize("last", ["negate", "exponential", "sine"])
@pytest.mark.parametrize("size", [1, 2, 3, 15, 16, 17, 32, 33])
def test_differences_of_all_pairs_are_folded_where_they_lie(size, last):
    """Each element is read from where it stands, but behind what is costly for each result."""
    text = PAIRS.replace("ROWS", "37").replace("COLUMNS", "29").replace("SIZE", str(size))
    module = hloom.parse(text.replace("LAST", last))
    rng = np.random.default_rng(0)
    x, y = [rng.normal(size=(n, size)).astype(np.float32) for n in (37, 29)]
    exe = hloom.compile(module, threads=2)
    np.testing.assert_allclose(
        np.asarray(exe(x, y)), hloom.evaluate(module, x, y).array, rtol=3e-4, atol=1e-5
    )
    gathers = exe.as_text("kernels").count("gather ")
    assert gathers == 0 or size < 16 or last == "sine"


TWO_RESULTS = """HloModule distances
add {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }}
ENTRY distances {{
 x = f32[{n},{c}] parameter(0)
 y = f32[{m},{c}] parameter(1)
 p = f32[{n},{m},{c}] broadcast(x), dimensions={{0,2}}
 q = f32[{n},{m},{c}] broadcast(y), dimensions={{1,2}}
 d = f32[{n},{m},{c}] subtract(p, q)
 e = f32[{n},{m},{c}] multiply(d, d)
 z = f32[] constant(0)
 s = f32[{n},{m}] reduce(e, z), dimensions={{2}}, to_apply=add
 r = f32[{n},{m}] sqrt(s)
 l = pred[{n},{m}] compare(r, s), direction=LT
 ROOT o = (f32[{n},{m}], pred[{n},{m}]) tuple(r, l) }}
"""


@pytest.mark.parametrize("n, m, c", [(4, 4, 3), (9, 8, 32), (33, 17, 20)])
def test_several_results_of_all_pairs(n: int, m: int, c: int) -> None:
    exe = hloom.compile(TWO_RESULTS.format(n=n, m=m, c=c))
    x, y = numbers("f32", (n, c)), numbers("f32", (m, c))
    squares = ((x[:, None] - y[None]) ** 2).sum(-1)
    distance, is_less = exe(x, y)
    np.testing.assert_allclose(np.asarray(distance), np.sqrt(squares), rtol=1e-5, atol=1e-6)
    clear = np.abs(np.sqrt(squares) - squares) > 1e-4
    assert (np.asarray(is_less) == (np.sqrt(squares) < squares))[clear].all()
