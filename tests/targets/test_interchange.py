"""Loops whose elements are independent run tile by tile, and compute what they did step by step."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import walk
from hloom.program.thunks.while_ import While
from hloom.targets.cpu.lower import element_loop

LOOP = """HloModule m
body {{
  s = (s32[], {state}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  zero = s32[] constant(0)
  j = s32[] add(i, one)
{body}
}}
test {{
  s = (s32[], {state}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({trips})
  ROOT go = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
{parameters}
  z = s32[] constant(0)
  init = (s32[], {state}) tuple(z, {names})
  ROOT w = (s32[], {state}) while(init), condition=test, body=body
}}"""

STACKED = """  x = f32[{n}] get-tuple-element(s), index=1
  y = f32[{n}] get-tuple-element(s), index=2
  xs = f32[{t},{n}] get-tuple-element(s), index=3
  ys = f32[{t},{n}] get-tuple-element(s), index=4
  ts = f32[{t}] get-tuple-element(s), index=5
  row = f32[1,{n}] dynamic-slice(xs, i, zero), dynamic_slice_sizes={{1,{n}}}
  in = f32[{n}] reshape(row)
  half = f32[] constant(0.5)
  h = f32[{n}] broadcast(half), dimensions={{}}
  hx = f32[{n}] multiply(x, h)
  new = f32[{n}] add(hx, in)
  d = f32[{n}] subtract(new, y)
  out = f32[1,{n}] reshape(d)
  ys2 = f32[{t},{n}] dynamic-update-slice(ys, out, i, zero)
  fi = f32[] convert(i)
  f1 = f32[1] reshape(fi)
  ts2 = f32[{t}] dynamic-update-slice(ts, f1, i)
  ROOT r = (s32[], {state}) tuple(j, new, x, xs, ys2, ts2)"""

ROWS = """  x = s32[{m},{n}] get-tuple-element(s), index=1
  r = s32[{n}] get-tuple-element(s), index=2
  c = s32[{m}] get-tuple-element(s), index=3
  rb = s32[{m},{n}] broadcast(r), dimensions={{1}}
  cb = s32[{m},{n}] broadcast(c), dimensions={{0}}
  xr = s32[{m},{n}] multiply(x, rb)
  jb = s32[{m},{n}] broadcast(j), dimensions={{}}
  a = s32[{m},{n}] add(xr, cb)
  b = s32[{m},{n}] xor(a, jb)
  ROOT t = (s32[], {state}) tuple(j, b, r, c)"""


def loop(body: str, shapes: list[str], trips: int, **sizes: int | str) -> str:
    names = [f"p{k}" for k in range(len(shapes))]
    shapes = [s.format(**sizes) for s in shapes]
    parameters = [f"  {p} = {s} parameter({k})" for k, (p, s) in enumerate(zip(names, shapes))]
    state = ", ".join(shapes)
    return LOOP.format(
        state=state,
        body=body.format(state=state, **sizes),
        trips=trips,
        parameters="\n".join(parameters),
        names=", ".join(names),
    )


def kinds(executable: hloom.Executable) -> tuple[int, int]:
    """How many loops it has left, and how many kernels of several steps."""
    thunks = list(walk(executable.stages.program.thunks))
    loops = sum(isinstance(t, While) for t in thunks)
    return loops, sum(isinstance(t, Kernel) and t.steps > 1 for t in thunks)


def stacked(n: int, trips: int):
    shapes = ["f32[{n}]", "f32[{n}]", "f32[{t},{n}]", "f32[{t},{n}]", "f32[{t}]"]
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n), np.float32)
    xs, ys = rng.standard_normal((2, trips, n), np.float32)
    ts = np.zeros(trips, np.float32)
    text = loop(STACKED, shapes, trips, n=n, t=trips)
    arguments = [x.copy(), y.copy(), xs, ys.copy(), ts.copy()]
    for t in range(trips):
        new = x * np.float32(0.5) + xs[t]
        ys[t], ts[t] = new - y, t
        x, y = new, x
    return text, arguments, [np.int32(trips), x, y, xs, ys, ts]


@pytest.mark.parametrize("n", [257, 384, 1031, 4096, 50_003])
@pytest.mark.parametrize("trips", [3, 7, 40])
def test_a_recurrence_over_time(n, trips):
    text, arguments, expected = stacked(n, trips)
    executable = hloom.compile(hloom.parse(text))
    assert kinds(executable)[0] == 0
    for mine, right in zip(executable(*arguments), expected, strict=True):
        np.testing.assert_array_equal(mine, right)


@pytest.mark.parametrize("trips", [16, 17, 40, 64])
def test_a_long_loop_looks_up_now_and_then(monkeypatch, trips):
    monkeypatch.setattr(element_loop, "LONG_NS", 1.0)
    text, arguments, expected = stacked(1031, trips)
    executable = hloom.compile(hloom.parse(text))
    assert kinds(executable)[0] == (trips > 16)
    for mine, right in zip(executable(*arguments), expected, strict=True):
        np.testing.assert_array_equal(mine, right)


@pytest.mark.parametrize(("m", "n"), [(40, 17), (12, 130), (3, 257), (1, 999), (700, 128)])
def test_rows_and_columns_beside_the_elements(m, n):
    trips = 9
    text = loop(ROWS, ["s32[{m},{n}]", "s32[{n}]", "s32[{m}]"], trips, m=m, n=n)
    rng = np.random.default_rng(m)
    x, r, c = (rng.integers(-9, 9, s).astype(np.int32) for s in ((m, n), n, m))
    results = hloom.compile(hloom.parse(text))(x, r, c)
    for t in range(trips):
        x = (x * r + c[:, None]) ^ (t + 1)
    np.testing.assert_array_equal(results[1], x)
    np.testing.assert_array_equal(results[0], trips)


CONSTANT = """  x = f32[{n}] get-tuple-element(s), index=1
  c = f32[{n}] constant({{{numbers}}})
  m = pred[{n}] constant({{{flags}}})
  a = f32[{n}] add(x, c)
  y = f32[{n}] select(m, a, x)
  ROOT r = (s32[], {state}) tuple(j, y)"""


def test_arrays_of_constants_beside_the_elements():
    n, trips = 2_000, 40
    numbers = ", ".join(str(k % 7) for k in range(n))
    flags = ", ".join("true" if k % 3 else "false" for k in range(n))
    text = loop(CONSTANT, ["f32[{n}]"], trips, n=n, numbers=numbers, flags=flags)
    executable = hloom.compile(hloom.parse(text))
    assert kinds(executable)[0] == 0
    x = np.zeros(n, np.float32)
    k = np.arange(n)
    expected = np.where(k % 3, trips * (k % 7), 0)
    np.testing.assert_array_equal(executable(x)[1], expected)


SHARED = """  x = f32[{m},{n}] get-tuple-element(s), index=1
  f = f32[{n}] get-tuple-element(s), index=2
  t = f32[] convert(i)
  tb = f32[{n}] broadcast(t), dimensions={{}}
  ft = f32[{n}] multiply(f, tb)
  q = f32[{n}] sine(ft)
  qb = f32[{m},{n}] broadcast(q), dimensions={{1}}
  y = f32[{m},{n}] add(x, qb)
  ROOT r = (s32[], {state}) tuple(j, y, f)"""
ONCE = """  x = f32[{m},{n}] get-tuple-element(s), index=1
  f = f32[] get-tuple-element(s), index=2
  t = f32[] convert(i)
  q = f32[] power(f, t)
  q1 = f32[] sine(q)
  qb = f32[{m},{n}] broadcast(q1), dimensions={{}}
  y = f32[{m},{n}] add(x, qb)
  ROOT r = (s32[], {state}) tuple(j, y, f)"""


@pytest.mark.parametrize(
    ("body", "other"), [(SHARED, "f32[{n}]"), (ONCE, "f32[]")], ids=["rows", "scalars"]
)
def test_what_tiles_would_compute_again_and_again_is_left_step_by_step(body, other):
    text = loop(body, ["f32[{m},{n}]", other], 40, m=200, n=128)
    executable = hloom.compile(hloom.parse(text))
    why = executable.stages.lowering.stepwise
    kernels = [t for t in walk(executable.stages.program.thunks) if isinstance(t, Kernel)]
    assert why or all(t.steps == 1 for t in kernels)


NEIGHBOURS = """  x = f32[{n}] get-tuple-element(s), index=1
  a = f32[{k}] slice(x), slice={{[1:{n}]}}
  b = f32[1] slice(x), slice={{[0:1]}}
  y = f32[{n}] concatenate(a, b), dimensions={{0}}
  ROOT r = (s32[], {state}) tuple(j, y)"""
SEVERAL = """  x = f32[{n}] get-tuple-element(s), index=1
  at = s32[{n}] iota(), iota_dimension=0
  is = s32[{n}] add(at, at)
  y = f32[{n}] gather(x, is), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
    index_vector_dim=1, slice_sizes={{1}}
  ROOT r = (s32[], {state}) tuple(j, y)"""
READ_BACK = """  x = f32[{n}] get-tuple-element(s), index=1
  ys = f32[{t},{n}] get-tuple-element(s), index=2
  row = f32[1,{n}] reshape(x)
  ys2 = f32[{t},{n}] dynamic-update-slice(ys, row, i, zero)
  old = f32[1,{n}] dynamic-slice(ys2, j, zero), dynamic_slice_sizes={{1,{n}}}
  o = f32[{n}] reshape(old)
  y = f32[{n}] add(x, o)
  ROOT r = (s32[], {state}) tuple(j, y, ys2)"""


@pytest.mark.parametrize(
    ("body", "shapes", "step"),
    [
        (NEIGHBOURS, ["f32[{n}]"], lambda t, x: (np.roll(x, -1),)),
        (SEVERAL, ["f32[{n}]"], lambda t, x: (x[np.minimum(2 * np.arange(len(x)), len(x) - 1)],)),
    ],
    ids=["neighbours", "places"],
)
def test_what_needs_other_elements_runs_step_by_step(body, shapes, step):
    n, trips = 40_000, 8
    executable = hloom.compile(hloom.parse(loop(body, shapes, trips, n=n, k=n - 1)))
    assert kinds(executable)[0] == 1
    x = np.random.default_rng(0).standard_normal(n, np.float32)
    results = executable(x)
    for t in range(trips):
        (x,) = step(t, x)
    np.testing.assert_array_equal(results[1], x)


def test_what_is_stored_and_read_again():
    n, trips = 5_000, 6
    text = loop(READ_BACK, ["f32[{n}]", "f32[{t},{n}]"], trips, n=n, t=trips)
    x = np.random.default_rng(0).standard_normal(n, np.float32)
    ys = np.random.default_rng(1).standard_normal((trips, n), np.float32)
    results = hloom.compile(hloom.parse(text))(x, ys)
    for t in range(trips):
        ys[t] = x
        x = x + ys[min(t + 1, trips - 1)]
    np.testing.assert_array_equal(results[1], x)
    np.testing.assert_array_equal(results[2], ys)
