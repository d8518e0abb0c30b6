"""Wrong texts: one error, at the right place, that shows the line and says what was expected."""

import pytest

from hloom.base.diagnostics import HloError, ParseError
from hloom.ir.text import parse_module
from tests.ir.text.cases import Malformed, malformed_lines, malformed_modules
from tests.processor_time import at_most

CASES = malformed_modules() + malformed_lines()
HEAD = "HloModule m\nENTRY e {\n p = f32[4] parameter(0)\n "
DEEP = 10_000


def refusal(text: str) -> ParseError:
    with pytest.raises(HloError) as failure:
        parse_module(text, "case.hlo")
    assert isinstance(failure.value, ParseError)
    return failure.value


def test_there_are_enough_cases():
    assert len(CASES) >= 200


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.line}:{c.column} {c.message[:40]}")
def test_error_has_place_and_message(case: Malformed):
    error = refusal(case.text)
    shown = str(error)
    assert shown.startswith(f"case.hlo:{case.line}:{case.column}: ")
    assert case.message in shown.split("\n")[0]
    lines = case.text.split("\n")
    assert error.location is not None and error.location.source == lines[case.line - 1]
    assert "^" in shown


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "ROOT t = " + "(" * DEEP + "f32[]" + ")" * DEEP + " parameter(1)\n}",
        HEAD + "ROOT t = " + "(" * DEEP,
        HEAD + "ROOT t = f32[2] constant(" + "{" * DEEP + "})\n}",
        HEAD + "ROOT t = f32[4] " + "negate(" * DEEP + "p" + ")" * DEEP + "\n}",
        HEAD + "ROOT t = " + "f32[4] negate(" * DEEP + "p" + ")" * DEEP + "\n}",
        HEAD + "ROOT t = f32[4] " + "call(p), to_apply={ p = f32[4] parameter(0)\n r = " * DEEP,
        HEAD + "ROOT t = f32[4] negate(p), sharding=" + "{" * DEEP + "}" * DEEP + "\n}",
        HEAD + "ROOT t = f32[4] negate(p), origin={" + "(" * DEEP + ")" * DEEP + "}\n}",
        HEAD + "ROOT t = f32[4] negate(p), metadata=" + "{" * DEEP + "}" * DEEP + "\n}",
        HEAD + "ROOT t = f32[4]{0:T" + "(" * DEEP + "} negate(p)\n}",
        HEAD + "t = (f32[4]) tuple(p)\n ROOT r = f32[4] negate(t" + "#0" * DEEP + ")\n}",
        "HloModule m, entry_computation_layout={(" + "(" * DEEP,
        "HloModule m, input_output_alias=" + "{" * DEEP,
        "HloModule m\nENTRY e (p: " + "(" * DEEP,
        HEAD + "/*" + "*" * 1_000_000,
        HEAD + 'ROOT t = f32[4] negate(p), metadata={op_name="' + '\\"' * 100_000,
    ],
    ids=lambda text: text[-60:].replace("\n", " ")[:30],
)
def test_deep_nesting_and_open_ends_are_refused(text: str):
    with at_most(5):
        error = refusal(text)
        assert error.location is not None and error.location.line is not None
        assert len(str(error)) < 1000


@pytest.mark.parametrize(
    "value",
    [
        "f32[4] negate(p), backend_config=" + '{"a":' * DEEP + "1" + "}" * DEEP,
        "f32[4] negate(p), frontend_attributes={a=" + "{" * DEEP + "}" * DEEP + "}",
    ],
    ids=["backend_config", "frontend_attributes"],
)
def test_deep_nesting_that_is_legal_is_read(value: str):
    from hloom.ir.copy import difference
    from hloom.ir.text import show_module

    module = parse_module(HEAD + "ROOT t = " + value + "\n}")
    assert difference(module, parse_module(show_module(module))) is None


@pytest.mark.parametrize(
    ("dims", "literal"),
    [
        ("268435456", "{1, 2}"),
        ("1000000,1000000", "{{1}, {2}}"),
        ("9223372036854775807,9223372036854775807", "{1}"),
    ],
)
def test_large_shape_with_a_short_literal_fails_before_memory_is_taken(dims: str, literal: str):
    with at_most(1):
        assert "more than the text can hold" in str(
            refusal(HEAD + f"ROOT t = f32[{dims}] constant({literal})\n}}")
        )


def test_gigabyte_constant_with_elided_value_costs_nothing():
    with at_most(1):
        module = parse_module(HEAD + "ROOT t = f32[268435456] constant({...})\n}")
        assert module.entry.root.attrs.literal.is_elided


def test_every_truncation_is_answered():
    from tests.ir.text.cases import HERE

    text = (HERE.parent / "proto_training.hlo").read_text()
    for end in range(len(text)):
        try:
            parse_module(text[:end])
        except HloError as error:
            assert error.location is not None and error.location.line is not None


def test_place_is_true_after_comments_and_tabs():
    error = refusal("HloModule m /* a\nb */ \n// c\nENTRY e {\n\tp = f32[] negate(/*x*/q)\n}")
    assert error.location is not None
    assert (error.location.line, error.location.column) == (5, 24)
    assert "/*x*/q" in str(error)
