"""Kernels of loops against the interpreter: columns, transposes, running folds, small loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloom
from hloom.codegen.column_form import column_form
from hloom.codegen.crosswise import cross_form
from hloom.codegen.cumulative import cumulative_dimension
from hloom.codegen.tile import Body
from hloom.compiler import compile_module
from hloom.program.thunks.thunk import walk
from hloom.program.thunks.while_ import While
from hloom.targets.cpu.device import host_device

FOLD = """
f {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT r = {t}[] {op}(a, b) }}
"""


def arrays(literal: Any) -> list[np.ndarray]:
    return [part.array for part in literal.leaves() if part.shape.is_array]


def flat(result: Any) -> list[np.ndarray]:
    if isinstance(result, tuple | list):
        return [x for part in result for x in flat(part)]
    return [np.asarray(result)]


def agree(text: str) -> None:
    """Native code and interpreter give the same, but for the order of sums."""
    module = hloom.parse("HloModule m\n" + text)
    literals = hloom.random_arguments(module)
    given = [x for literal in literals for x in arrays(literal)]
    found = flat(compile_module(module)(*given))
    wanted = arrays(hloom.evaluate(module, *literals))
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted):
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        if y.dtype.kind in "fVc":
            wide = np.complex128 if y.dtype.kind == "c" else np.float64
            a, b = x.astype(wide), y.astype(wide)
            close = 2e-2 if y.dtype.itemsize == 2 else 2e-5
            scale = np.abs(b).mean() if b.size else 0.0
            np.testing.assert_allclose(a, b, rtol=close, atol=close * scale)
        else:
            np.testing.assert_array_equal(x, y)


COLUMNS = [
    ("37,70", "70", "0"),
    ("20,5001", "5001", "0"),
    ("3,20,100", "3,100", "1"),
    ("5,7,3,33", "7,33", "0,2"),
    ("4,5,6,65", "65", "0,1,2"),
]


@pytest.mark.parametrize("shape,kept,dims", COLUMNS)
@pytest.mark.parametrize("t", ["f32", "bf16", "s32"])
def test_columns(t: str, shape: str, kept: str, dims: str) -> None:
    text = (
        FOLD.format(t=t, op="add")
        + f"""
ENTRY e {{
  x = {t}[{shape}] parameter(0)
  y = {t}[{kept}] parameter(1)
  z = {t}[] constant(3)
  d = {t}[{shape}] add(x, x)
  r = {t}[{kept}] reduce(d, z), dimensions={{{dims}}}, to_apply=f
  ROOT q = {t}[{kept}] subtract(r, y)
}}"""
    )
    agree(text)


def test_columns_are_streamed() -> None:
    text = (
        "HloModule m\n"
        + FOLD
        + """
ENTRY e {{
  x = f32[100,64] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[{0}] reduce(x, z), dimensions={{{1}}}, to_apply=f
}}"""
    )
    streamed = hloom.parse(text.format(64, 0, t="f32", op="add")).entry.root
    assert column_form(Body.of(streamed), host_device()) is not None
    along = hloom.parse(text.format(100, 1, t="f32", op="add")).entry.root
    assert column_form(Body.of(along), host_device()) is None


TRANSPOSES = [
    ("137,70", "70,137", "1,0"),
    ("3,137,20", "3,20,137", "0,2,1"),
    ("5,20,6,133", "133,6,5,20", "3,2,0,1"),
    ("64,1,80", "80,1,64", "2,1,0"),
]


@pytest.mark.parametrize("before,after,order", TRANSPOSES)
@pytest.mark.parametrize("t", ["f32", "bf16", "s8", "f64", "c128"])
def test_transposes(t: str, before: str, after: str, order: str) -> None:
    agree(f"""
ENTRY e {{
  x = {t}[{before}] parameter(0)
  y = {t}[{after}] parameter(1)
  t = {t}[{after}] transpose(x), dimensions={{{order}}}
  ROOT r = {t}[{after}] add(t, y)
}}""")


def test_only_what_crosses_is_turned() -> None:
    text = """HloModule m
ENTRY e {{
  x = f32[64,128,128] parameter(0)
  ROOT t = f32[{0}] transpose(x), dimensions={{{1}}}
}}"""
    turned = hloom.parse(text.format("64,128,128", "0,2,1")).entry.root
    form = cross_form(Body.of(turned), host_device())
    assert form is not None
    assert (form.down, form.across) == (1, 2)
    rows = hloom.parse(text.format("128,64,128", "1,0,2")).entry.root
    assert cross_form(Body.of(rows), host_device()) is None


CUMULATIVE = [
    ("7,37", "1x37", "0_0x36_0"),
    ("7,37", "1x37", "0_0x0_36"),
    ("37,5", "37x1", "36_0x0_0"),
    ("19,70", "19x1", "0_18x0_0"),
    ("3,9,4", "1x12x1", "0_0x11_0x0_0"),
    ("1", "1", "0_0"),
]


@pytest.mark.parametrize("shape,size,pad", CUMULATIVE)
@pytest.mark.parametrize("t,op,start", [("f32", "add", "2"), ("s32", "maximum", "-7")])
def test_running_folds(t: str, op: str, start: str, shape: str, size: str, pad: str) -> None:
    agree(
        FOLD.format(t=t, op=op)
        + f"""
ENTRY e {{
  x = {t}[{shape}] parameter(0)
  z = {t}[] constant({start})
  ROOT r = {t}[{shape}] reduce-window(x, z), window={{size={size} pad={pad}}}, to_apply=f
}}"""
    )


def test_which_windows_run() -> None:
    text = (
        "HloModule m\n"
        + FOLD
        + """
ENTRY e {{
  x = f32[7,37] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[7,37] reduce-window(x, z), window={{size=1x{0} pad=0_0x{1}}}, to_apply=f
}}"""
    )
    cases = {"37", "36_0"}, {"37", "0_36"}, {"3", "1_1"}, {"5", "4_0"}
    found = []
    for case in cases:
        size, pad = sorted(case, key=lambda x: "_" in x)
        found.append(
            cumulative_dimension(hloom.parse(text.format(size, pad, t="f32", op="add")).entry.root)
        )
    assert found == [(1, False), (1, True), None, None]


LOOP = """
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
inner_body {{
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  h = f32[] constant(0.5)
  y = f32[] multiply(x, h)
  z = f32[] add(y, h)
  ROOT r = (s32[], f32[]) tuple(n, z)
}}
inner_cond {{
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  k = s32[] constant(3)
  ROOT r = pred[] compare(i, k), direction=LT
}}
body {{
  p = (s32[], f32[{n},{n}], f32[40,{n}], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  m = f32[{n},{n}] get-tuple-element(p), index=1
  o = f32[40,{n}] get-tuple-element(p), index=2
  s = f32[] get-tuple-element(p), index=3
  one = s32[] constant(1)
  next = s32[] add(i, one)
  t = f32[{n},{n}] transpose(m), dimensions={{1,0}}
  a = f32[{n},{n}] subtract(m, t)
  c = f32[{n},{n}] cosine(a)
  zero = f32[] constant(0)
  row = f32[{n}] reduce(c, zero), dimensions={{1}}, to_apply=add
  row2 = f32[1,{n}] reshape(row)
  k = s32[] constant(0)
  u = f32[40,{n}] dynamic-update-slice(o, row2, i, k)
  w0 = (s32[], f32[]) tuple(k, s)
  w = (s32[], f32[]) while(w0), condition=inner_cond, body=inner_body
  ws = f32[] get-tuple-element(w), index=1
  ROOT r = (s32[], f32[{n},{n}], f32[40,{n}], f32[]) tuple(next, c, u, ws)
}}
cond {{
  p = (s32[], f32[{n},{n}], f32[40,{n}], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  k = s32[] constant(37)
  ROOT r = pred[] compare(i, k), direction=LT
}}
ENTRY e {{
  m = f32[{n},{n}] parameter(0)
  o = f32[40,{n}] parameter(1)
  s = f32[] parameter(2)
  i = s32[] constant(0)
  t = (s32[], f32[{n},{n}], f32[40,{n}], f32[]) tuple(i, m, o, s)
  ROOT w = (s32[], f32[{n},{n}], f32[40,{n}], f32[]) while(t), condition=cond, body=body
}}"""


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_small_loops(n: int) -> None:
    agree(LOOP.format(n=n))


def test_small_loops_are_one_kernel() -> None:
    def loops(n: int) -> int:
        program = compile_module(hloom.parse("HloModule m\n" + LOOP.format(n=n))).program
        return sum(isinstance(t, While) for t in walk(program.thunks))

    assert loops(3) == 0
    assert loops(400) == 1


def test_rows_that_are_results_themselves() -> None:
    """A fold that is a result, and that elements of another one read, is made once per row."""
    text = (
        FOLD.format(t="f32", op="maximum")
        + """
ENTRY e {
  x = f32[50,3000] parameter(0)
  low = f32[] constant(-inf)
  top = f32[50] reduce(x, low), dimensions={1}, to_apply=f
  lows = f32[50] broadcast(low), dimensions={}
  most = f32[50] maximum(top, lows)
  rows = f32[50,3000] broadcast(most), dimensions={0}
  away = f32[50,3000] subtract(x, rows)
  ROOT r = (f32[50], f32[50,3000]) tuple(top, away)
}"""
    )
    agree(text)
    executable = hloom.compile(hloom.parse("HloModule m\n" + text))
    assert "grid(%0: 50)" in executable.as_text("kernels")


@pytest.mark.parametrize("t", ["f32", "bf16", "u8", "c64"])
@pytest.mark.parametrize("by,length", [(4, 1024), (3, 100), (2, 33), (7, 65)])
def test_repeated_elements(t: str, by: int, length: int) -> None:
    agree(
        f"""
ENTRY e {{
  x = {t}[5,{length}] parameter(0)
  b = {t}[5,{length},{by}] broadcast(x), dimensions={{0,1}}
  ROOT r = {t}[5,{length * by}] reshape(b)
}}"""
    )


@pytest.mark.parametrize("t", ["f32", "bf16", "s32", "c64"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_many_tiny_matrices_times_vectors(t: str, size: int) -> None:
    agree(
        f"""
ENTRY e {{
  a = {t}[2001,{size},{size}] parameter(0)
  b = {t}[2001,{size}] parameter(1)
  ROOT r = {t}[2001,{size}] dot(a, b), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
}}"""
    )


@pytest.mark.parametrize("t", ["s8", "u16", "s32", "u32", "s64", "u64"])
def test_indices_of_every_type(t: str) -> None:
    agree(
        f"""
ENTRY e {{
  x = f32[1000] parameter(0)
  i = {t}[333] parameter(1)
  ROOT r = f32[333] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{0}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}
}}"""
    )


BESIDE = """HloModule beside
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[ROWS,COLUMNS] parameter(0)
  y = f32[SIZE] parameter(1)
  bx = f32[ROWS,SIZE,COLUMNS] broadcast(x), dimensions={0,2}
  by = f32[ROWS,SIZE,COLUMNS] broadcast(y), dimensions={1}
  s = f32[ROWS,SIZE,COLUMNS] add(bx, by)
  z = f32[] constant(0)
  all = f32[] reduce(s, z), dimensions={0,1,2}, to_apply=add
  rows = f32[ROWS] reduce(s, z), dimensions={1,2}, to_apply=add
  ROOT t = (f32[ROWS,SIZE,COLUMNS], f32[], f32[ROWS]) tuple(s, KEPT)
}
"""


@pytest.mark.parametrize("kept", ["all, rows", "all", "rows"])
@pytest.mark.parametrize(
    "sizes", [(1024, 2, 5), (1, 1500, 7), (3, 2, 4097), (4, 1, 10_000), (20, 3, 17)]
)
def test_folds_that_are_results_beside_what_they_fold(
    sizes: tuple[int, int, int], kept: str
) -> None:
    """A long row is cut in blocks, of which none holds all that is folded."""
    text = BESIDE.replace("KEPT", kept)
    if kept != "all, rows":
        part = "f32[]" if kept == "all" else "f32[ROWS]"
        text = text.replace("f32[], f32[ROWS])", f"{part})")
    for name, n in zip(("ROWS", "SIZE", "COLUMNS"), sizes, strict=True):
        text = text.replace(name, str(n))
    x = np.arange(sizes[0] * sizes[2], dtype=np.float32).reshape(sizes[0], sizes[2]) % 7
    y = np.arange(sizes[1], dtype=np.float32) % 3
    found = [np.asarray(r) for r in hloom.compile(hloom.parse(text))(x, y)]
    s = x[:, None, :] + y[None, :, None]
    wanted = {"all": s.sum(), "rows": s.sum((1, 2))}
    for got, want in zip(found, [s, *[wanted[k] for k in kept.split(", ")]], strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("depth", [1, 3, 7, 15, 16, 17])
@pytest.mark.parametrize("rows", [1, 5, 67])
def test_what_follows_the_sums_of_short_rows(rows: int, depth: int) -> None:
    """Distances: rows of a few elements, and much to do with each sum."""
    agree(
        FOLD.format(t="f32", op="add")
        + f"""
ENTRY e {{
  x = f32[{rows},{depth}] parameter(0)
  y = f32[{rows},{depth}] parameter(1)
  p = f32[{rows},{rows},{depth}] broadcast(x), dimensions={{0,2}}
  q = f32[{rows},{rows},{depth}] broadcast(y), dimensions={{1,2}}
  d = f32[{rows},{rows},{depth}] subtract(p, q)
  s = f32[{rows},{rows},{depth}] multiply(d, d)
  z = f32[] constant(0)
  f = f32[{rows},{rows}] reduce(s, z), dimensions={{2}}, to_apply=f
  c = f32[] constant(1.5)
  w = f32[{rows},{rows}] broadcast(c), dimensions={{}}
  ROOT r = f32[{rows},{rows}] power(f, w)
}}"""
    )


def test_rows_of_a_few_elements_go_side_by_side() -> None:
    device = host_device()
    for depth, is_short in ((3, True), (device.compute.vector_bytes, False)):
        module = hloom.parse(
            "HloModule m\n"
            + FOLD.format(t="f32", op="add")
            + f"""
ENTRY e {{
  x = f32[640,{depth}] parameter(0)
  z = f32[] constant(0)
  s = f32[640] reduce(x, z), dimensions={{1}}, to_apply=f
  ROOT r = f32[640] sqrt(s)
}}"""
        )
        [line] = [
            line
            for line in compile_module(module).as_text("kernels").splitlines()
            if line.startswith("kernel")
        ]
        assert ("grid(%0: 640)" in line) != is_short
