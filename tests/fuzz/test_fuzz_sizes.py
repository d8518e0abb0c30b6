"""Programs at the sizes people use: the fuzzer's drawer, judge and book of what was reached."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

import hloom
from hloom.base.guarding import GUARDING
from hloom.ir.text import show_module
from hloom.ir.verify import verify
from tests.fuzz import run_sizes
from tests.fuzz.check_native import NotJudged, Trial
from tests.fuzz.reached import FAMILIES
from tests.fuzz.run_native import in_child
from tests.fuzz.run_sizes import attempt, difference, differs, drawn
from tests.fuzz.sketch_models import drawn_model
from tests.fuzz.sketch_sizes import drawn_sizes
from tests.fuzz.wide import is_as_near, wide_results

SUM = """HloModule sum
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[DIMS] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(x, z), dimensions={ALL}, to_apply=add
}
"""


@pytest.mark.parametrize("dims", ["1,1024,768", "1024,1,768", "1024,768,1", "1,1,786432", "786433"])
def test_sums_of_everything(dims: str) -> None:
    every = ",".join(str(k) for k in range(dims.count(",") + 1))
    module = hloom.parse(SUM.replace("DIMS", dims).replace("ALL", every))
    assert difference(module, Trial("integral")) == ""


def test_programs_are_valid_and_the_same_every_time() -> None:
    ones = largest = 0
    for number in range(25):
        module = drawn_sizes(number)
        verify(module)
        assert show_module(module) == show_module(drawn_sizes(number))
        shapes = [p.shape for p in module.entry.parameters if p.shape.is_array]
        ones += any(1 in s.dims for s in shapes)
        largest = max([largest, *[s.size for s in shapes]])
    assert ones > 5
    assert largest > 1 << 18


GROWING = """HloModule m
body {
  s = (s32[], f32[8,8]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  x = f32[8,8] get-tuple-element(s), index=1
  y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[8,8] add(y, y)
  c = f32[8,8] sine(z)
  one = s32[] constant(1)
  n = s32[] add(k, one)
  ROOT t = (s32[], f32[8,8]) tuple(n, c)
}
more {
  s = (s32[], f32[8,8]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(TIMES)
  ROOT l = pred[] compare(k, n), direction=LT
}
ENTRY e {
  x = f32[8,8] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[8,8]) tuple(zero, x)
  w = (s32[], f32[8,8]) while(t), condition=more, body=body
  ROOT r = f32[8,8] get-tuple-element(w), index=1
}
"""


@pytest.mark.parametrize(("times", "is_near"), [(1, False), (30, True)])
def test_f64_judges_what_roundings_have_grown_in(times: int, is_near: bool) -> None:
    """An error of 1e-3 is one after one product, and what roundings do after thirty."""
    module = hloom.parse(GROWING.replace("TIMES", str(times)))
    x = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    want = hloom.evaluate(module, x).array
    wide = wide_results(module, [x], run_sizes.OPTIONS)
    assert wide is not None
    assert is_as_near(want + np.float32(1e-3), want, wide[0]) == is_near


def test_parts_of_models_are_valid_and_the_same_every_time() -> None:
    opcodes = set()
    for number in range(60):
        module = drawn_model(number)
        verify(module)
        if number < 20:
            assert show_module(module) == show_module(drawn_model(number))
        opcodes |= {i.opcode for i in module.instructions()}
    wanted = "convolution select-and-scatter reduce-window sort gather scatter while"
    assert opcodes >= set(wanted.split())


def test_one_is_tried_in_a_child() -> None:
    number = next(n for n in range(100) if _elements(n) < 1 << 14)
    made = json.loads(in_child(attempt, number, seconds=100))
    assert made["verdict"] == "ok"
    assert sum(Counter(made["reached"]).values()) > 0
    assert ("floor_s" in made) is not GUARDING  # pages of its own take each run's time
    assert made.get("floor_s", 1.0) > 0


def _elements(number: int) -> int:
    return sum(i.shape.size for i in drawn(number)[0].instructions() if i.shape.is_array)


def test_a_wrong_result_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = hloom.parse(SUM.replace("DIMS", "3,5").replace("ALL", "0,1"))
    real = run_sizes.judged

    def judged(*arguments: Any) -> list[Any]:
        return [np.asarray(x.array + 1) for x in real(*arguments)]

    monkeypatch.setattr(run_sizes, "judged", judged)
    assert "differ" in difference(module, Trial("integral"))


def test_results_of_another_compiler() -> None:
    x = np.array([1.0, 100.0], np.float32)
    assert differs(x, x + np.float32(0.01)) == ""
    assert "1 of 2" in differs(x, x + np.array([1, 0], np.float32))
    assert differs(x * 1j, x * 1j) == ""
    assert "1 of 2" in differs(x * 1j, np.array([2j, 100j], np.complex64))
    assert differs(np.arange(3), np.arange(3)) == ""
    assert differs(np.arange(3), np.arange(3) + 1)


def test_families_have_names_of_their_own() -> None:
    assert len(set(FAMILIES)) == len(FAMILIES)


def test_what_is_larger_than_memory_is_not_judged() -> None:
    module = hloom.parse("""HloModule m
ENTRY e { x = f32[1024] parameter(0) ROOT r = f32[1024,1048576] broadcast(x), dimensions={0} }""")
    with pytest.raises(NotJudged, match="its results are 4294967296 bytes"):
        difference(module, Trial())
    module = hloom.parse("""HloModule m
ENTRY e {
  x = f32[1024] parameter(0)
  y = f32[1024,1048576] broadcast(x), dimensions={0}
  ROOT r = f32[1024,1] slice(y), slice={[0:1024], [7:8]}
}""")
    with pytest.raises(NotJudged, match="a value takes 4294967296 bytes"):
        difference(module, Trial())


@pytest.mark.parametrize("guarding", [False, True])
def test_times_are_compared_without_guards_only(
    monkeypatch: pytest.MonkeyPatch, guarding: bool
) -> None:
    monkeypatch.setattr(run_sizes, "GUARDING", guarding)
    report: dict[str, Any] = {}
    module = hloom.parse(SUM.replace("DIMS", "1000").replace("ALL", "0"))
    assert difference(module, Trial("integral"), report) == ""
    assert ("run_s" in report) is not guarding
