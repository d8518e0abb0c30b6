"""Every rule of every pass is tried on random instances of its own left side."""

import numpy as np
import pytest

from hloom.interp import evaluate, random_arguments
from hloom.ir.copy import copy_module
from hloom.ir.text import show_module
from hloom.passes import PASSES, RewritePass
from hloom.passes.simplify.algebra import fills, products
from hloom.rewrite import apply_rules
from tests.rewrite.draw_pattern import CannotDraw, drawn

WANTED = 50
RULES = [
    pytest.param(rule, id=f"{name}/{rule.name}")
    for name, cls in PASSES.items()
    if issubclass(cls, RewritePass)
    for rule in cls.rules
]


def arrays(literal) -> list[np.ndarray]:
    if literal.is_tuple:
        return [a for part in literal.elements for a in arrays(part)]
    return [np.asarray(literal.array)]


def assert_same(before, after, message: str) -> None:
    for x, y in zip(arrays(before), arrays(after), strict=True):
        assert x.shape == y.shape, message
        if x.dtype.kind in "biu":
            assert np.array_equal(x, y), message
            continue
        rtol = 1e-2 if x.dtype.itemsize < 4 else 1e-5
        wide = [np.asarray(a).astype(np.complex128) for a in (x, y)]
        np.testing.assert_allclose(wide[1], wide[0], rtol=rtol, atol=1e-30, err_msg=message)


@pytest.fixture(autouse=True)
def small_is_enormous(monkeypatch):
    """Laws for arrays that nobody could evaluate, or that are worth it, hold for small ones."""
    monkeypatch.setattr(fills, "ENORMOUS", 1)
    for name in ("LEAST_OWN", "LEAST_RESULTS", "LEAST_TERMS", "LEAST_WORK"):
        monkeypatch.setattr(products, name, 1)


@pytest.mark.parametrize("rule", RULES)
def test_law_holds(rule):
    tried = fired = 0
    for seed in range(40 * WANTED):
        try:
            module = drawn(rule.pattern, seed)
        except CannotDraw:
            continue
        before = copy_module(module)
        shape = module.entry.root.shape
        tried += 1
        fired += apply_rules(module.entry, [rule]).total()
        message = f"{rule.law}\n{show_module(before)}\n{show_module(module)}"
        assert module.entry.root.shape is shape, message
        arguments = random_arguments(before, seed)
        assert_same(evaluate(before, *arguments), evaluate(module, *arguments), message)
        if tried >= WANTED and fired >= WANTED // 5:
            break
    assert fired, f"{rule.name} was drawn {tried} times and never fired"


def test_a_wrong_law_is_caught():
    from hloom.rewrite import m, rule, var

    @rule(m.transpose(m.transpose(var("x"), name="inner"), name="outer"))
    def merge_in_the_wrong_order(b, x, inner, outer):
        """transpose(transpose(x, p), q)  =>  transpose(x, q[p])    wrong"""
        first, second = inner.attrs.dimensions, outer.attrs.dimensions
        return b.transpose(x, dimensions=tuple(second[d] for d in first))

    with pytest.raises(AssertionError):
        test_law_holds(merge_in_the_wrong_order)
