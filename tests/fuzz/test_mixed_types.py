"""A sample of what `python -m tests.fuzz.mixed_types` tries at length."""

import pytest

from hloom.interp import draw_instance
from hloom.ir.copy import copy_module
from hloom.ir.mixed_precision import is_mixed, unify
from hloom.ir.text import parse_module, show_module
from hloom.ir.verify import verify
from hloom.types.dtype import BF16, F32
from tests.fuzz.mixed_types import drawn, variations, verdict, verdicts
from tests.fuzz.programs_native import single

SAMPLE = """abs add broadcast cholesky compare concatenate dynamic-update-slice gather map pad
reduce reduce-window reshape scatter select select-and-scatter sort topk""".split()


@pytest.mark.parametrize("opcode", SAMPLE)
def test_what_verifies_computes_the_same_as_machine_code(opcode: str):
    found = verdicts(opcode, 1)
    assert [what for what in found if what[-1]] == []
    assert len(found) > 2  # of those drawn, some verify


@pytest.mark.parametrize("opcode", single())
def test_one_precision_is_left_and_is_valid(opcode: str):
    for _, module in drawn(opcode, 0):
        made = copy_module(module)
        mixed = is_mixed(made)
        count = unify(made)
        assert (count > 0) == mixed
        verify(made)
        assert not is_mixed(made)
        assert unify(made) == 0
        assert mixed or show_module(made) == show_module(module)


def test_drawn_programs_are_not_mixed():
    for opcode in single():
        assert not is_mixed(draw_instance(opcode, 3))


def test_a_difference_would_be_noticed():
    text = """
    ENTRY main {
      x = f32[3] parameter(0)
      ROOT y = f32[3] negate(x)
    }"""
    labels = {label for label, _ in variations(parse_module(text), 0)}
    assert any(label.startswith("parameter %x leaf 0: f32") for label in labels)
    assert any(label.startswith("negate %y leaf 0: f32") for label in labels)
    assert verdict(parse_module(text.replace("negate", "bitcast").replace("[3] b", "[4] b"))) == ""
    for t in (BF16, F32):
        assert verdict(parse_module(text.replace("f32[3] neg", f"{t}[3] neg"))) == ""
