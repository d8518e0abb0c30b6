"""What is measured: runs after the first, of candidates that compute what the default does."""

from __future__ import annotations

import ctypes
import time

import numpy as np

import hloom
from hloom.ir.text.parse import parse_module
from hloom.targets.cpu.tuning.profiler import GUARD_BYTES, differs, profiled

TEXT = """HloModule m
ENTRY e {
  p = f32[100] parameter(0)
  ROOT r = f32[100] negate(p)
}
"""


class Candidate:
    """Negates, in a way that can be told to be wrong, slow, or out of bounds."""

    def __init__(self, do=lambda x: -x, slow_s=(), past=0, fails=""):
        self.program = hloom.compile(TEXT).program
        self.do, self.slow_s, self.past, self.fails, self.runs = do, list(slow_s), past, fails, 0

    def run_at(self, arguments, results):
        if self.fails:
            raise RuntimeError(self.fails)
        self.runs += 1
        if self.slow_s:
            time.sleep(self.slow_s.pop(0))
        given = np.ctypeslib.as_array((ctypes.c_float * 100).from_address(arguments[0]))
        made = np.ctypeslib.as_array((ctypes.c_float * 100).from_address(results[0]))
        made[:] = self.do(given)
        if self.past:
            ctypes.c_uint8.from_address(results[0] + self.past).value = 7


def measured(*candidates, rounds=3):
    rows = [(f"{k}", lambda c=c: c, 0) for k, c in enumerate(candidates)]
    return profiled(rows, parse_module(TEXT), rounds, 1.0)


def test_a_slow_first_run_is_not_in_the_time():
    [default, slow_once] = measured(Candidate(), Candidate(slow_s=[2.0]))
    assert 0 < default.seconds < 1 and 0 < slow_once.seconds < 1


def test_what_differs_fails_and_says_so_however_fast():
    wrong, tiny = Candidate(do=lambda x: -x * 1.01), Candidate(do=lambda x: -x * (1 + 1e-6))
    [_, wrong, tiny] = measured(Candidate(slow_s=[0.001] * 9), wrong, tiny)
    assert "differs" in wrong.failure and not tiny.failure


def test_what_writes_past_its_buffer_fails():
    for past in (400, 400 + GUARD_BYTES - 1, -1):
        [_, out] = measured(Candidate(), Candidate(past=past))
        assert "writes outside of buffer" in out.failure


def test_an_error_is_the_failure_of_its_candidate_alone():
    [good, bad] = measured(Candidate(), Candidate(fails="no memory"))
    assert not good.failure and bad.failure == "RuntimeError: no memory"
    [bad, good] = measured(Candidate(fails="no memory"), Candidate())
    assert bad.failure and not good.failure and good.seconds > 0


def test_where_the_default_does_not_work_most_are_right():
    wrong = [Candidate(do=lambda x: x), Candidate(do=lambda x: 2 * x)]
    found = measured(Candidate(fails="no memory"), wrong[0], Candidate(), Candidate(), wrong[1])
    assert [m.is_wrong for m in found] == [False, True, False, False, True]
    assert "differs from most others'" in found[1].failure and not found[2].failure
    found = measured(Candidate(), wrong[0], Candidate(do=lambda x: x))
    assert [m.is_wrong for m in found] == [False, True, True]  # the default is trusted
    assert "differs from the default's" in found[1].failure


def test_a_failure_to_compile_is_told_from_one_to_run():
    def no_code():
        raise RuntimeError("no code")

    rows = [("a", no_code, 0), ("b", lambda: Candidate(fails="no memory"), 0)]
    found = profiled(rows, parse_module(TEXT), 3, 1.0)
    assert [m.is_compiled for m in found] == [False, True] and all(m.failure for m in found)


def test_what_is_far_slower_is_run_no_more():
    slow = Candidate(slow_s=[0.02] * 50)
    measured(Candidate(), slow, rounds=10)
    assert slow.runs == 2


def test_numbers_that_are_not_finite_agree_with_themselves():
    x = np.array([np.nan, np.inf, 1.0], np.float32)
    assert differs([x], [x]) == ""
    assert differs([np.array([np.nan, -np.inf, 1.0], np.float32)], [x])
    assert differs([np.array([1, 2])], [np.array([1, 3])])
