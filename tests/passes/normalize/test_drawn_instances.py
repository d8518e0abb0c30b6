"""Normalizing passes keep the meaning of drawn instances of the operations they rewrite."""

import pytest

from hloom.interp import draw_instance, evaluate, random_arguments
from hloom.ir.text import parse_module, show_module
from hloom.ir.verify import verify
from hloom.passes import pass_named
from tests.pass_case import difference, leaves

DRAWN = 40
REWRITTEN = [
    ("gather-simplifier", "gather"),
    ("scatter-simplifier", "scatter"),
    ("conditional-to-select", "conditional"),
    ("while-loop-simplifier", "while"),
    ("sort-simplifier", "sort"),
]


@pytest.mark.parametrize(("name", "opcode"), REWRITTEN)
def test_drawn_instances_mean_the_same(name, opcode):
    fired = 0
    for seed in range(DRAWN):
        module = draw_instance(opcode, seed)
        arguments = random_arguments(module, seed)
        before = parse_module(show_module(module))
        fired += pass_named(name).run(module).changed
        verify(module)
        want, have = (leaves(evaluate(m, *arguments)) for m in (before, module))
        for old, new in zip(want, have, strict=True):
            assert difference(old, new, 1e-5) is None, show_module(module)
        assert not pass_named(name).run(module).changed
    assert fired
