"""Loops that run as one kernel: they can be stopped, share kernels, and write only what changes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import hloom
from hloom.codegen.llvm.machine import Machine
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.while_ import While
from hloom.runtime import executor
from hloom.runtime.native import ExecutionError
from hloom.targets.cpu import lowering
from hloom.targets.cpu.lower import loop_steps
from hloom.targets.cpu.target import CpuTarget
from tests.processor_time import at_most

# Steps of a generator that meets every number of 32 bits before it meets one again.
GENERATOR = """HloModule m
body { s = (u32[], u32[]) parameter(0)
  x = u32[] get-tuple-element(s), index=0
  n = u32[] get-tuple-element(s), index=1
  a = u32[] constant(1664525)
  b = u32[] constant(1013904223)
  ax = u32[] multiply(a, x)
  y = u32[] add(ax, b)
  one = u32[] constant(1)
  more = u32[] add(n, one)
  ROOT t = (u32[], u32[]) tuple(y, more) }
test { s = (u32[], u32[]) parameter(0)
  x = u32[] get-tuple-element(s), index=0
  last = u32[] constant(LAST)
  ROOT go = pred[] compare(x, last), direction=NE }
ENTRY e { x = u32[] parameter(0)
  zero = u32[] constant(0)
  s = (u32[], u32[]) tuple(x, zero)
  w = (u32[], u32[]) while(s), condition=test, body=body
  ROOT n = u32[] get-tuple-element(w), index=1 }"""


def after(x: int, steps: int) -> int:
    for _ in range(steps):
        x = (1664525 * x + 1013904223) % 2**32
    return x


def test_a_loop_that_runs_for_long_can_be_stopped(monkeypatch):
    exe = hloom.compile(hloom.parse(GENERATOR.replace("LAST", str(0))))
    exe._executor.interruptible = True

    def stopped(call, cancel):
        threading.Timer(0.2, cancel).start()
        return call()

    monkeypatch.setattr(executor, "beside_python", stopped)
    with at_most(2), pytest.raises(ExecutionError, match="cancelled"):
        exe(np.uint32(after(0, 1)))  # all 2**32 steps take seconds


@pytest.mark.parametrize("steps", [0, 1, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_a_loop_that_returns_now_and_then_ends_where_it_should(steps):
    exe = hloom.compile(hloom.parse(GENERATOR.replace("LAST", str(after(7, steps)))))
    [loop] = [t for t in exe.program.thunks if isinstance(t, While)]
    assert [type(t) for t in loop.condition] == [Kernel] and loop.body == ()
    assert int(np.asarray(exe(np.uint32(7)))) == steps


# What runs from a constant, by a constant, while below a constant: x becomes 3 x + i at each step.
RISING = """HloModule m
body { s = (TYPE[], u32[]) parameter(0)
  i = TYPE[] get-tuple-element(s), index=0
  x = u32[] get-tuple-element(s), index=1
  by = TYPE[] constant(BY)
  j = TYPE[] add(i, by)
  three = u32[] constant(3)
  a = u32[] multiply(x, three)
  b = u32[] convert(i)
  y = u32[] add(a, b)
  ROOT t = (TYPE[], u32[]) tuple(j, y) }
test { s = (TYPE[], u32[]) parameter(0)
  i = TYPE[] get-tuple-element(s), index=0
  n = TYPE[] constant(BOUND)
  ROOT go = pred[] compare(i, n), direction=LT }
ENTRY e { x = u32[] parameter(0)
  first = TYPE[] constant(FIRST)
  s = (TYPE[], u32[]) tuple(first, x)
  w = (TYPE[], u32[]) while(s), condition=test, body=body
  i = TYPE[] get-tuple-element(w), index=0
  x.1 = u32[] get-tuple-element(w), index=1
  ROOT r = (TYPE[], u32[]) tuple(i, x.1) }"""


@pytest.mark.parametrize(
    ("dtype", "first", "bound", "by"),
    [
        ("s32", 0, 300, 1),
        ("s32", -7, 301, 3),  # does not end at the bound
        ("s32", 0, 112, 7),  # ends with a call
        ("s32", -(2**31), 2**31 - 2**23, 2**22),  # the way is longer than the type holds
        ("s32", 2**31 - 200, 2**31 - 1, 1),
        ("s32", 5, 5, 1),
        ("s32", 2**31 - 9, -(2**31) + 9, 1),  # not once
        ("s64", -(2**40), 2**40, 2**33),
        ("u32", 2**31 - 100, 2**31 + 100, 1),
        ("s8", -100, 100, 1),
    ],
)
def test_a_counter_says_when_a_call_ends(monkeypatch, dtype, first, bound, by):
    monkeypatch.setattr(loop_steps, "LONG_NS", 1.0)  # a call for every 16 steps
    text = RISING.replace("TYPE", dtype).replace("FIRST", str(first)).replace("BY", str(by))
    module = hloom.parse(text.replace("BOUND", str(bound)))
    exe = hloom.compile(module)
    loops = [t for t in exe.program.thunks if isinstance(t, While)]
    assert len(loops) == (first < bound and bound - first > by)
    expected = hloom.evaluate(module, np.uint32(11)).leaves()
    values = exe(np.uint32(11))
    assert [np.asarray(v).item() for v in values] == [np.asarray(x.array).item() for x in expected]


COUNTED = """body.N { s = (s32[], f32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[] get-tuple-element(s), index=1
  k = f32[] get-tuple-element(s), index=2
  y = f32[] multiply(x, k)
  z = f32[] cosine(y)
  ROOT t = (s32[], f32[], f32[]) tuple(j, z, k) }
test.N { s = (s32[], f32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(50)
  ROOT go = pred[] compare(i, n), direction=LT }
"""
TWO = (
    "HloModule m\n"
    + COUNTED.replace("N", "1")
    + COUNTED.replace("N", "2")
    + """ENTRY e { x = f32[] parameter(0)
  k = f32[] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], f32[], f32[]) tuple(zero, x, k)
  w = (s32[], f32[], f32[]) while(s), condition=test.1, body=body.1
  y = f32[] get-tuple-element(w), index=1
  t = (s32[], f32[], f32[]) tuple(zero, y, k)
  v = (s32[], f32[], f32[]) while(t), condition=test.2, body=body.2
  ROOT z = f32[] get-tuple-element(v), index=1 }"""
)


@pytest.mark.parametrize("precision", (True, False))
def test_equal_loops_share_a_kernel(precision):
    module = hloom.parse(TWO)
    exe = hloom.compile(module, options={"allow_excess_precision": precision})
    loops = [t for t in exe.program.thunks if isinstance(t, Kernel)]
    assert len(loops) == 2 and loops[0].symbol == loops[1].symbol
    x, k = np.float32(0.3), np.float32(0.9)
    expected = hloom.evaluate(module, x, k).array
    assert np.allclose(np.asarray(exe(x, k)), expected, rtol=1e-5)


@pytest.mark.parametrize("count", (1, 2, 12))
def test_each_of_many_loops_is_written_out_once(monkeypatch, count):
    """To compare each with all before it took most of the time of compiling 300."""
    shown = []

    def show(kernel, real=lowering.show_kernel):
        shown.append(kernel)
        return real(kernel)

    monkeypatch.setattr(lowering, "show_kernel", show)
    bodies = [COUNTED.replace("N", str(n)).replace("(50)", f"({n + 50})") for n in range(count)]
    steps = "".join(
        f"""  w{n} = (s32[], f32[], f32[]) while(state.{n}), condition=test.{n}, body=body.{n}
  y{n} = f32[] get-tuple-element(w{n}), index=1
  state.{n + 1} = (s32[], f32[], f32[]) tuple(zero, y{n}, k)\n"""
        for n in range(count)
    )
    text = f"""HloModule m
{"".join(bodies)}ENTRY e {{ x = f32[] parameter(0)
  k = f32[] parameter(1)
  zero = s32[] constant(0)
  state.0 = (s32[], f32[], f32[]) tuple(zero, x, k)
{steps}  ROOT z = f32[] negate(y{count - 1}) }}"""
    stages = CpuTarget(Machine.host()).written(hloom.parse(text))
    assert len(stages.lowering.kernels) >= count
    assert len(shown) == len(set(map(id, shown))) == (count if count > 1 else 0)


def test_what_a_loop_hands_on_unchanged_is_not_written():
    exe = hloom.compile(hloom.parse(TWO))
    x, k = np.full((), 0.3, np.float32), np.full((), 0.9, np.float32)
    text = exe.as_text("kernels")
    assert text.count("store ") == 2  # the counter and x, not k
    exe(x, k)
    assert (x, k) == (np.float32(0.3), np.float32(0.9))


NESTED_STATE = """HloModule nested
body { s = (s32[], (s32[2], s32[])) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  t = (s32[2], s32[]) get-tuple-element(s), index=1
  x = s32[2] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = s32[2] negate(x)
  u = (s32[2], s32[]) tuple(y, n)
  ROOT r = (s32[], (s32[2], s32[])) tuple(j, u) }
less { s = (s32[], (s32[2], s32[])) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT }
ENTRY e { x = s32[2] parameter(0)  n = s32[] parameter(1)
  z = s32[] constant(0)
  t = (s32[2], s32[]) tuple(x, n)
  s = (s32[], (s32[2], s32[])) tuple(z, t)
  w = (s32[], (s32[2], s32[])) while(s), condition=less, body=body
  v = (s32[2], s32[]) get-tuple-element(w), index=1
  ROOT r = s32[2] get-tuple-element(v), index=0 }
"""


def test_what_a_nested_state_hands_on_is_not_written():
    executable = hloom.compile(hloom.parse(NESTED_STATE))
    [kernel] = executable.stages.lowering.kernels.values()
    written = {op.operands[0] for op in kernel.ops() if op.opcode == "store"}
    assert len(kernel.params) - len(written) == 1  # n stands in the argument's memory
    assert np.asarray(executable(np.int32([1, 2]), np.int32(7))).tolist() == [-1, -2]


# Rows of two arrays, of which one is made of the other's row before, beside two scalars.
TRACES = """HloModule m
body { s = (s32[], f32[], f32[40,WIDE], f32[40,WIDE]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
  a = f32[40,WIDE] get-tuple-element(s), index=2
  c = f32[40,WIDE] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  half = f32[] constant(0.5)
  y = f32[] multiply(x, half)
  spread = f32[1,WIDE] broadcast(x), dimensions={}
  before = f32[1,WIDE] dynamic-slice(a, i, zero), dynamic_slice_sizes={1,WIDE}
  old = f32[1,WIDE] dynamic-slice(c, j, zero), dynamic_slice_sizes={1,WIDE}
  row = f32[1,WIDE] add(before, spread)
  sum = f32[1,WIDE] add(old, before)
  a.1 = f32[40,WIDE] dynamic-update-slice(a, row, j, zero)
  c.1 = f32[40,WIDE] dynamic-update-slice(c, sum, j, zero)
  ROOT t = (s32[], f32[], f32[40,WIDE], f32[40,WIDE]) tuple(j, y, a.1, c.1) }
test { s = (s32[], f32[], f32[40,WIDE], f32[40,WIDE]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(39)
  ROOT go = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[] parameter(0)
  a = f32[40,WIDE] parameter(1)
  c = f32[40,WIDE] parameter(2)
  zero = s32[] constant(0)
  s = (s32[], f32[], f32[40,WIDE], f32[40,WIDE]) tuple(zero, x, a, c)
  ROOT w = (s32[], f32[], f32[40,WIDE], f32[40,WIDE]) while(s), condition=test, body=body }"""


@pytest.mark.parametrize("wide", [1, 3, 16, 17, 64, 100])
def test_scalars_stay_in_registers_beside_several_rows(wide):
    module = hloom.parse(TRACES.replace("WIDE", str(wide)))
    exe = hloom.compile(module)
    assert not [t for t in exe.program.thunks if isinstance(t, While)]
    arguments = hloom.random_arguments(module, seed=wide)
    expected = hloom.evaluate(module, *arguments).leaves()
    for value, right in zip(exe(*arguments), expected, strict=True):
        np.testing.assert_allclose(np.asarray(value), right.array, rtol=1e-5)


CONSTANT_CONDITION = """HloModule m
go { s = s32[4] parameter(0)  ROOT c = pred[] constant(ANSWER) }
body { s = s32[4] parameter(0)  ROOT n = s32[4] negate(s) }
ENTRY e { x = s32[4] parameter(0)
  w = s32[4] while(x), condition=go, body=body
  yes = pred[] constant(ANSWER)
  ROOT t = (s32[4], pred[]) tuple(w, yes) }"""


def test_a_condition_that_is_a_constant_is_not_written():
    module = hloom.parse(CONSTANT_CONDITION.replace("ANSWER", "false"))
    exe = hloom.compile(module)
    for thunk in exe.program.thunks:
        if isinstance(thunk, Kernel):
            written = zip(thunk.arguments, thunk.writes, strict=True)
            assert all(place.allocation.kind != "constant" for place, writes in written if writes)
        assert not isinstance(thunk, While) or not any(
            isinstance(step, Kernel) and thunk.pred in step.arguments for step in thunk.condition
        )
    for _ in range(2):
        values, said = exe(np.int32([1, 2, 3, 4]))
        assert np.asarray(values).tolist() == [1, 2, 3, 4]
        assert not np.asarray(said)


def test_a_loop_without_end_can_be_stopped(monkeypatch):
    exe = hloom.compile(hloom.parse(CONSTANT_CONDITION.replace("ANSWER", "true")))
    exe._executor.interruptible = True

    def stopped(call, cancel):
        threading.Timer(0.2, cancel).start()
        return call()

    monkeypatch.setattr(executor, "beside_python", stopped)
    with at_most(5), pytest.raises(ExecutionError, match="cancelled"):
        exe(np.int32([1, 2, 3, 4]))
