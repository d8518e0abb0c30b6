"""Buffers, which are written in place by one writer each."""

import numpy as np
import pytest

import hloom

ALIAS = ", output_to_operand_aliasing={{}: (0, {})}"
TWO = f"""HloModule m
ENTRY e {{
  a = b(u8[8]) custom-call(), custom_call_target="CreateBuffer"
  c = b(u8[8]) custom-call(), custom_call_target="CreateBuffer"
  x = b(u8[8]) custom-call(a), custom_call_target="first"{ALIAS}
  y = b(u8[8]) custom-call(c), custom_call_target="second"{ALIAS}
  u = u8[8] custom-call(x), custom_call_target="Unpin"{ALIAS}
  v = u8[8] custom-call(y), custom_call_target="Unpin"{ALIAS}
  ROOT r = u8[8] or(u, v)
}}
"""
HOOKS = {
    "first": lambda i, b: np.array([1] * 4 + [0] * 4, np.uint8),
    "second": lambda i, b: np.array([0] * 4 + [1] * 4, np.uint8),
}


@pytest.mark.parametrize("name", [None, *sorted(hloom.PASSES)])
def test_two_buffers_stay_two_through_every_pass(name):
    module = hloom.parse(TWO)
    if name is not None:
        hloom.pass_named(name).run(module)
    hloom.verify(module)
    result = hloom.evaluate(module, options=hloom.EvalOptions(custom_calls=HOOKS))
    assert result.array.tolist() == [1] * 8
    assert hloom.difference(module, hloom.parse(hloom.show(module))) is None


def test_two_writers_are_one_too_many():
    text = TWO.replace("custom-call(c)", "custom-call(a)")
    with pytest.raises(hloom.HloError, match="more than one writer"):
        hloom.verify(hloom.parse(text))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"first"' + ALIAS, '"first"'),
        ('"CreateBuffer"', '"Pin"'),
        ('(x), custom_call_target="Unpin"' + ALIAS, '(x), custom_call_target="Unpin"'),
        ("u = u8[8] custom-call(x)", "u = u8[7] custom-call(x)"),
        ("x = b(u8[8])", "x = b(s8[8])"),
        ('"first"' + ALIAS, '"first", output_to_operand_aliasing={{}: (0, {}), {}: (0, {})}'),
    ],
)  # fmt: skip
def test_what_the_verifier_demands(old, new):
    with pytest.raises(hloom.HloError):
        hloom.verify(hloom.parse(TWO.replace(old, new, 1)))
