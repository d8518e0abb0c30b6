"""Expanders keep the meaning of drawn instances of the operations they expand, and leave none."""

import pytest

from hloom.interp import draw_instance, evaluate
from hloom.ir.text import parse_module, show_module
from hloom.ir.verify import verify
from hloom.passes import pass_named
from tests.pass_case import difference, leaves

DRAWN = 30
# pass, opcode drawn, and whether none of that opcode may be left.
EXPANDED = [
    ("dot-decomposer", "dot", False),
    ("batch-norm-expander", "batch-norm-training", True),
    ("batch-norm-expander", "batch-norm-inference", True),
    ("batch-norm-expander", "batch-norm-grad", True),
    ("map-inliner", "map", True),
    ("scan-expander", "scan", True),
    ("optimization-barrier-expander", "opt-barrier", True),
    ("optimization-barrier-expander", "domain", True),
    ("async-simplifier", "async-start", True),
    ("async-simplifier", "copy-start", True),
    ("sharding-remover", "custom-call", False),
    ("custom-call-expander", "custom-call", False),
    ("zero-sized-hlo-elimination", "reduce", False),
    ("zero-sized-hlo-elimination", "map", False),
    ("scaled-dot-expander", "scaled-dot", True),
    ("ragged-dot-expander", "ragged-dot", True),
    ("stochastic-convert-decomposer", "stochastic-convert", True),
    ("conv-canonicalization", "convolution", False),
    ("rng-bit-generator-expander", "rng-bit-generator", True),
]


def drawn(opcode, seed):
    """An instance and arguments for it."""
    from hloom.interp import random_arguments

    module = draw_instance(opcode, seed)
    return module, random_arguments(module, seed)


def assert_same(before, after, arguments, tolerance):
    want, have = (leaves(evaluate(m, *arguments)) for m in (before, after))
    for old, new in zip(want, have, strict=True):
        assert difference(old, new, tolerance) is None, show_module(after)


@pytest.mark.parametrize(("name", "opcode", "all_go"), EXPANDED)
def test_drawn_instances_mean_the_same(name, opcode, all_go):
    fired, least = 0, 0 if name.startswith("zero") else DRAWN // 6
    for seed in range(DRAWN):
        module, arguments = drawn(opcode, seed)
        before = parse_module(show_module(module))
        result = pass_named(name).run(module)
        verify(module)
        fired += result.changed
        if all_go:
            assert not any(i.opcode == opcode for i in module.instructions())
        assert_same(before, module, arguments, 1e-4)
        assert not pass_named(name).run(module).changed
        text = show_module(module)
        assert show_module(parse_module(text)) == text
    assert fired > least
