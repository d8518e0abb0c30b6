"""Feeds of native programs, arrays of run-time size, random state, and what is refused."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import UsageError
from hloom.compiler import compile_module
from hloom.executable import Executable
from hloom.runtime.native import ExecutionError

SUM = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"


def built(body: str) -> Executable:
    """The program whose entry has these lines."""
    return compile_module(
        hloom.parse(f"HloModule m\n{SUM}ENTRY e {{\n{body}\n}}"), threads=1, cached=False
    )


FEEDS = """t = token[] after-all()
  i = ((f32[3], s32[2]), token[]) infeed(t)
  i0 = (f32[3], s32[2]) get-tuple-element(i), index=0
  i1 = token[] get-tuple-element(i), index=1
  j = (f64[2,3]{0,1}, token[]) infeed(i1)
  a = f32[3] get-tuple-element(i0), index=0
  b = s32[2] get-tuple-element(i0), index=1
  c = f64[2,3]{0,1} get-tuple-element(j), index=0
  j1 = token[] get-tuple-element(j), index=1
  n = f32[3] negate(a)
  o = token[] outfeed(n, j1), outfeed_shape=f32[3]
  u = (s32[2], f64[2,3]{0,1}) tuple(b, c)
  ROOT p = token[] outfeed(u, o), outfeed_shape=(s32[2]{0}, f64[2,3]{0,1})"""
FIRST = np.array([1.5, 2, 3], np.float32), np.array([7, -8], np.int32)
SECOND = np.arange(6, dtype=np.float64).reshape(2, 3)


def test_feeds_carry_data_in_the_order_of_the_tokens():
    run = built(FEEDS)
    for _ in range(3):
        run.infeed(FIRST)
        run.infeed(SECOND)
        run()
    for _ in range(3):
        np.testing.assert_array_equal(run.outfeed(1), -FIRST[0])
        whole, real = run.outfeed(1)
        np.testing.assert_array_equal(whole, FIRST[1])
        np.testing.assert_array_equal(real, SECOND)


def test_a_program_waits_for_its_infeed():
    run = built(FEEDS)
    thread = threading.Thread(target=run)
    thread.start()
    run.infeed(FIRST)
    run.infeed(SECOND)
    np.testing.assert_array_equal(run.outfeed(10), -FIRST[0])
    thread.join(10)
    assert not thread.is_alive()


CONDITION = """HloModule m
again {
  c = (s32[], token[]) parameter(0)
  k = s32[] get-tuple-element(c), index=0
  t = token[] get-tuple-element(c), index=1
  told = token[] outfeed(k, t), outfeed_shape=s32[]
  most = s32[] constant(3)
  ROOT go = pred[] compare(k, most), direction=LT
}
body {
  s = (s32[], token[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  t = token[] get-tuple-element(s), index=1
  ROOT both = (s32[], token[]) tuple(next, t)
}
ENTRY e {
  none = s32[] constant(0)
  t = token[] after-all()
  start = (s32[], token[]) tuple(none, t)
  loop = (s32[], token[]) while(start), condition=again, body=body
  ROOT k = s32[] get-tuple-element(loop), index=0
}
"""


def test_a_condition_that_tells_the_host_is_run_although_its_answers_are_known():
    run = compile_module(hloom.parse(CONDITION), threads=1, cached=False)
    assert int(run().numpy()) == 3
    assert [int(run.outfeed(1)) for _ in range(4)] == [0, 1, 2, 3]


def test_feeds_refuse_what_does_not_fit():
    fed = built(FEEDS)
    with pytest.raises(UsageError, match=r"which reads \(f32\[3\], s32\[2\]\)"):
        fed.infeed(np.zeros(4, np.float32))
    with pytest.raises(ExecutionError, match="time is up"):
        fed.outfeed(0.01)
    plain = built("ROOT c = f32[] constant(1)")
    with pytest.raises(UsageError, match="has no infeed"):
        plain.infeed(1)
    with pytest.raises(UsageError, match="has no outfeed"):
        plain.outfeed()


# -- arrays of run-time size


@pytest.mark.parametrize("count", [0, 1, 5, 8])
def test_arrays_of_run_time_size_come_and_go(count: int):
    text = """p = f32[<=8,3] parameter(0)
  q = f32[<=8,3] negate(p)
  z = f32[] constant(0)
  s = f32[3] reduce(p, z), dimensions={0}, to_apply=add
  n = s32[] get-dimension-size(p), dimensions={0}
  ROOT r = (f32[<=8,3], f32[3], s32[]) tuple(q, s, n)"""
    run = built(text)
    x = np.arange(count * 3, dtype=np.float32).reshape(count, 3) + 1
    negated, total, size = run(x)
    np.testing.assert_array_equal(np.asarray(negated), -x)
    np.testing.assert_array_equal(total, x.sum(0))
    assert int(np.asarray(size)) == count
    again, _, _ = run(negated)  # a buffer of run-time size, handed on as it is
    np.testing.assert_array_equal(np.asarray(again), x)


def test_several_dimensions_and_narrow_types_change_size():
    run = built("p = s8[5,<=7,<=4] parameter(0)\nROOT q = s8[5,<=7,<=4] add(p, p)")
    x = np.arange(90, dtype=np.int8).reshape(5, 6, 3)
    np.testing.assert_array_equal(np.asarray(run(x)), x + x)
    with pytest.raises(UsageError, match="has sizes"):
        run(np.zeros((5, 8, 3), np.int8))


def test_a_size_out_of_bounds_is_an_error_of_the_run():
    run = built(
        """p = s32[9] parameter(0)
  n = s32[] parameter(1)
  d = s32[<=9] set-dimension-size(p, n), dimensions={0}
  ROOT q = s32[<=9] add(d, d)"""
    )
    x = np.arange(9, dtype=np.int32)
    np.testing.assert_array_equal(np.asarray(run(x, np.int32(4))), 2 * x[:4])
    with pytest.raises(ExecutionError, match="size 12 of dimension 0 is not within its bound 9"):
        run(x, np.int32(12))


SIZED = {
    "loop": """b { s = (s32[], f32[<=6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[<=6] get-tuple-element(s), index=1
  o = s32[] constant(1)
  j = s32[] add(i, o)
  y = f32[<=6] add(x, x)
  ROOT r = (s32[], f32[<=6]) tuple(j, y) }
c { s = (s32[], f32[<=6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[<=6] parameter(0)
  y = f32[<=6] parameter(1)
  z = s32[] constant(0)
  s = (s32[], f32[<=6]) tuple(z, x)
  w = (s32[], f32[<=6]) while(s), condition=c, body=b
  ROOT r = f32[<=6] get-tuple-element(w), index=1 }""",
    "identity": "ENTRY e { x = f32[<=6] parameter(0)\n  ROOT y = f32[<=6] parameter(1) }",
    "two": """ENTRY e { x = f32[<=6] parameter(0)
  y = f32[<=6] parameter(1)
  ROOT c = f32[<=12] concatenate(y, x), dimensions={0} }""",
    "reverse": """ENTRY e { x = f32[<=6] parameter(0)
  y = f32[<=6] parameter(1)
  ROOT c = f32[<=6] reverse(x), dimensions={0} }""",
}


@pytest.mark.parametrize("name", SIZED)
def test_programs_on_run_time_sizes_agree_with_the_evaluator(name: str):
    module = hloom.parse(f"HloModule m\n{SIZED[name]}")
    x = np.arange(4, dtype=np.float32) + 1
    for pair in ((x, -x[:2]), (x[:0], x)):
        mine = np.asarray(compile_module(module, threads=1, cached=False)(*pair))
        np.testing.assert_array_equal(mine, hloom.evaluate(module, *pair).array, strict=True)


# -- random state and rng


def test_the_random_state_is_that_of_a_fresh_executable():
    text = "ROOT s = u64[2] rng-get-and-update-state(), delta=2"
    run = built(text)
    first = [tuple(map(int, np.asarray(run()))) for _ in range(3)]
    assert first == [(0x7012395, 0), (0x7012397, 0), (0x7012399, 0)]
    assert tuple(map(int, np.asarray(built(text)()))) == (0x7012395, 0)
    back = built("ROOT s = u64[2] rng-get-and-update-state(), delta=-117515158")  # -0x7012396
    back()
    assert tuple(map(int, np.asarray(back()))) == (2**64 - 1, 2**64 - 1)


@pytest.mark.parametrize("of", ["f32", "f64", "bf16"])
def test_uniform_numbers_fill_their_interval_evenly(of: str):
    run = built(
        f"""a = {of}[] constant(-1)
  b = {of}[] constant(3)
  ROOT r = {of}[20000] rng(a, b), distribution=rng_uniform"""
    )
    x = np.asarray(run()).astype(np.float64)
    assert x.min() >= -1
    assert x.max() < 3
    counts, _ = np.histogram(x, 8, (-1, 3))
    # Each of 8 boxes expects 2500 of 20000, with a deviation of 47.
    assert np.abs(counts - 2500).max() < 300
    assert not np.array_equal(x, np.asarray(run()).astype(np.float64))


def test_normal_numbers_have_their_mean_and_deviation():
    run = built(
        """a = f32[] constant(2)
  b = f32[] constant(0.5)
  ROOT r = f32[19999] rng(a, b), distribution=rng_normal"""
    )
    x = (np.asarray(run()).astype(np.float64) - 2) / 0.5
    assert abs(x.mean()) < 0.03
    assert abs(x.std() - 1) < 0.03
    assert abs((x**3).mean()) < 0.1
    assert abs((x**4).mean() - 3) < 0.25


def test_whole_numbers_come_from_their_range():
    run = built(
        """a = s32[] constant(-3)
  b = s32[] constant(4)
  ROOT r = s32[7000] rng(a, b), distribution=rng_uniform"""
    )
    values, counts = np.unique(np.asarray(run()), return_counts=True)
    assert values.tolist() == list(range(-3, 4))
    assert np.abs(counts - 1000).max() < 150
