"""The debug executor: the same results, times of all steps, and what it finds."""

import ctypes

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.runtime.debug import BoundsError, DebugExecutor, Watch, not_finite
from tests.docs.pages import ROOT
from tests.small_programs import LOOPS

BAD = """HloModule bad
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  a = f32[8] subtract(x, y)
  l = f32[8] log(a)
  ROOT r = f32[8] multiply(l, y)
}
"""
SORTS = """HloModule sorts
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  x = f32[] multiply(a, a)
  y = f32[] multiply(b, b)
  ROOT c = pred[] compare(x, y), direction=LT
}
ENTRY main {
  x = f32[5,7] parameter(0)
  ROOT s = f32[5,7] sort(x), dimensions={1}, to_apply=less
}
"""
CHOOSES = """HloModule chooses
twice {
  a = f32[3] parameter(0)
  ROOT r = f32[3] add(a, a)
}
none {
  b = f32[3] parameter(0)
  ROOT n = f32[3] negate(b)
}
ENTRY main {
  k = s32[] parameter(0)
  x = f32[3] parameter(1)
  ROOT c = f32[3] conditional(k, x, x), branch_computations={twice, none}
}
"""


def leaves(value):
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [np.asarray(value)]


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("softmax", False),
        ("collatz", False),
        ("resnet_step", False),
        ("softmax", True),
        ("collatz", True),
        ("transformer_block", True),
    ],
)
def test_results_are_the_same(name, kernels):
    module = hloom.load(ROOT / "examples" / f"{name}.hlo")
    exe = hloom.compile(module)
    arguments = hloom.random_arguments(module, seed=1)
    run = exe.debug(*arguments, kernels=kernels)
    for found, expected in zip(leaves(run.result), leaves(exe(*arguments)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-4)
    assert run.finding is None and "nothing found" in str(run)
    assert all(s.runs > 0 and s.seconds >= 0 for s in run.steps)


def test_routines_and_their_functions():
    x = np.random.default_rng(0).permutation(35).reshape(5, 7).astype(np.float32) - 17.5
    run = hloom.compile(SORTS).debug(x)
    order = np.argsort(x * x, axis=1, kind="stable")
    assert (leaves(run.result)[0] == np.take_along_axis(x, order, 1)).all()
    assert [s.thunk.kind for s in run.steps] == ["Sort"]


@pytest.mark.parametrize(("k", "sign"), [(0, 2), (1, -1), (5, -1), (-3, -1)])
def test_choices(k, sign):
    x = np.float32([1, 2, 3])
    run = hloom.compile(CHOOSES).debug(np.int32(k), x)
    assert leaves(run.result)[0].tolist() == (sign * x).tolist()


@pytest.mark.parametrize(("k", "turns"), [(0, 24), (20, 4), (24, 0), (99, 0)])
def test_loops_are_counted(k, turns):
    exe = hloom.compile(LOOPS)
    x = np.random.default_rng(k).permutation(40).astype(np.float32)
    steps = {s.thunk.kind: s.runs for s in exe.profile(np.int32(k), x)}
    assert steps.get("Sort", 0) == turns
    run = exe.debug(np.int32(k), x)
    assert leaves(run.result)[1].tolist() == (sorted(x) if turns else x.tolist())


def test_the_first_nan_is_named():
    x, y = np.arange(8, dtype=np.float32), np.full(8, 3, np.float32)
    run = hloom.compile(BAD).debug(x, y)
    assert run.finding is not None and (run.finding.nan, run.finding.inf) == (3, 1)
    assert run.instruction is not None and run.instruction.opcode == "log"
    assert "3 NaN and 1 infinite elements" in str(run) and "(log)" in str(run)


def test_nan_that_was_given_is_not_blamed():
    x = np.full(8, np.nan, np.float32)
    assert hloom.compile(BAD).debug(x, x).finding is None


def test_numbers_are_only_searched_when_asked():
    x, y = np.arange(8, dtype=np.float32), np.full(8, 3, np.float32)
    assert hloom.compile(BAD).debug(x, y, nan=False).finding is None


def writes(offset):
    """Instead of a kernel: one that writes a byte somewhere around its last argument."""

    def run(thunk, arrays):
        target = arrays[-1]
        target[:] = 0
        ctypes.memset(target.ctypes.data + offset, 1, 1)
        return True

    return run


@pytest.mark.parametrize(
    ("offset", "message"),
    [(-1, "1 bytes before allocation"), (32, "1 bytes behind"), (40, "9 bytes behind")],
)
def test_writes_out_of_bounds_are_found(offset, message):
    exe = hloom.compile(BAD)
    debug = DebugExecutor(
        exe._executor, exe.target.device, Watch(guards=True, replace=writes(offset))
    )
    x = np.ones(8, np.float32)
    with pytest.raises(BoundsError, match=message) as caught:
        debug.run([x, x])
    assert str(caught.value.instruction).startswith("%r")
    assert np.isfinite(exe(x + 4, x).numpy()).all()


def test_writes_to_what_is_only_read_are_found():
    def run(thunk, arrays):
        arrays[0][3] ^= 1
        return True

    exe = hloom.compile(BAD)
    with pytest.raises(BoundsError, match="only reads"):
        x = np.ones(8, np.float32)
        DebugExecutor(exe._executor, exe.target.device, Watch(guards=True, replace=run)).run([x, x])


def test_errors_of_steps_come_out():
    def run(thunk, arrays):
        raise HloError("stop here")

    exe = hloom.compile(BAD)
    x = np.ones(8, np.float32)
    with pytest.raises(HloError, match="stop here"):
        DebugExecutor(exe._executor, exe.target.device, Watch(replace=run)).run([x, x])
    assert exe(x + 1, x).numpy().tolist() == [0] * 8


def test_what_is_not_finite():
    raw = np.float32([1, np.nan, np.inf, -np.inf]).view(np.uint8)
    assert not_finite(raw, np.dtype(np.float32)) == (1, 2)
    assert not_finite(raw, np.dtype(np.int32)) == (0, 0) == not_finite(raw, None)
    assert not_finite(np.float16([np.nan, 1]).view(np.uint8), np.dtype(np.float16)) == (1, 0)
