"""Compiled programs compute what the interpreter does: replayed finds, and new random programs."""

import os
import signal
from pathlib import Path

import pytest

from hloom.interp import draw_instance
from hloom.ir.module import Module
from hloom.ir.text import parse_module, show_module
from hloom.ir.verify import verify
from tests.fuzz.check_native import Trial, as_text, difference, from_text
from tests.fuzz.programs_native import drawn_program
from tests.fuzz.run_native import FINE, batch, drawn, in_child, kind_of, tried
from tests.fuzz.shrink_native import shrunk

FOUND = sorted((Path(__file__).parent / "found_native").glob("*.hlo"))


@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.stem)
def test_what_was_found_once_is_no_longer_so(path: Path):
    module, trial = from_text(path.read_text())
    assert in_child(difference, module, trial, seconds=60) == ""


@pytest.mark.parametrize("start", [0, 100_000])
def test_random_programs(start: int):
    lines = in_child(batch, range(start, start + 15)).split("\n")
    assert [line for line in lines if line.split("\t")[-1] not in FINE] == []
    assert sum(line.endswith("\tok") for line in lines) > 9


SMALL = """
HloModule small

ENTRY main {
  x = f32[3,2] parameter(0)
  y = f32[3,2] add(x, x)
  ROOT z = f32[2,3] transpose(y), dimensions={1,0}
}
"""


@pytest.mark.parametrize("machine", ["host", "sse"])
def test_a_wrong_result_would_be_noticed(machine: str, monkeypatch: pytest.MonkeyPatch):
    import tests.fuzz.check_native as check

    module, trial = parse_module(SMALL), Trial(machine=machine)
    assert difference(module, trial) == ""
    other = parse_module(SMALL.replace("add", "multiply"))
    real = check.judged
    monkeypatch.setattr(check, "judged", lambda m, a: real(other, a))
    assert "result 0 f32[2,3]: 6 of 6 differ" in difference(module, trial)
    monkeypatch.setattr(check, "judged", lambda m, a: real(parse_module(PLACED), a))
    assert "differ" in difference(module, trial)


PLACED = SMALL.replace("transpose(y), dimensions={1,0}", "reshape(y)")


def test_crashes_have_a_name():
    assert in_child(lambda: os.kill(os.getpid(), signal.SIGKILL) or "") == "crash: SIGKILL"
    assert in_child(lambda: os._exit(3)) == "crash: exit 3"
    assert in_child(lambda: "text") == "text"


def test_finds_survive_the_disk():
    trial = Trial("integral", 3, "avx2", 4, True)
    module, again = from_text(as_text(parse_module(SMALL), trial, "what was wrong"))
    assert again == trial
    assert show_module(module) == show_module(parse_module(SMALL))


def test_the_same_number_is_the_same_program():
    for number in range(20):
        try:
            one, how = drawn(number)
        except Exception:
            continue
        two, again = drawn(number)
        assert show_module(one) == show_module(two)
        assert how == again


def test_shrinking_keeps_what_matters():
    drawn_ones = (drawn_program(number, True) for number in range(100))
    module = next(m for m in drawn_ones if sum(1 for _ in m.instructions()) > 40)
    verify(module)
    opcode = next(i.opcode for i in module.entry.instructions if i.opcode != "parameter")

    def still(candidate: Module) -> bool:
        return any(i.opcode == opcode for i in candidate.instructions())

    small = shrunk(module, still, 2000)
    assert still(small)
    assert sum(1 for _ in small.instructions()) < 12


def test_kinds_of_finds():
    assert kind_of("result 0 f32[2,3]: 4 of 6 differ: [1]") == "differs f32"
    assert kind_of("crash: SIGSEGV") == "crash: SIGSEGV"
    assert tried(draw_instance("add", 1), Trial()) == ""
