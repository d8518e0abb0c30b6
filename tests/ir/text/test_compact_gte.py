"""Compact get-tuple-elements, both ways."""

import pytest

from hloom.base.diagnostics import ParseError
from hloom.ir.text import PrintOptions, parse_module, show_module

HEAD = "HloModule m\n\nENTRY e {\n  p0 = (f32[10], (f32[20], f32[30])) parameter(0)\n"
COMPACT = PrintOptions(compact_gte=True)


def module_of(*lines: str):
    return parse_module(HEAD + "".join(f"  {line}\n" for line in lines) + "}\n")


def test_elements_are_made_once_and_printed_as_written():
    module = module_of("ROOT r = f32[20] add(%p0#1#0, %p0#1#0)")
    made = [i for i in module.entry if i.opcode == "get-tuple-element"]
    assert [(i.name, i.attrs.index) for i in made] == [("p0_1", 1), ("p0_1_0", 0)]
    text = show_module(module, COMPACT)
    assert "add(%p0#1#0, %p0#1#0)" in text
    assert "get-tuple-element" not in text


def test_an_element_that_exists_is_used_again():
    module = module_of("x = f32[10] get-tuple-element(p0), index=0", "ROOT r = negate(p0#0)")
    assert module.entry.root.operands[0].name == "x"
    assert len(module.entry) == 3


def test_a_taken_name_gets_a_number():
    module = module_of("p0_0 = f32[] constant(1)", "ROOT r = f32[10] negate(p0#0)")
    assert module.entry.root.operands[0].name == "p0_0.1"


def test_elements_with_annotations_or_as_root_stay():
    module = module_of(
        "a = f32[10] get-tuple-element(p0), index=0, sharding={replicated}",
        "n = f32[10] negate(a)",
        "ROOT b = (f32[20], f32[30]) get-tuple-element(p0), index=1",
    )
    text = show_module(module, COMPACT)
    assert text.count("get-tuple-element(") == 2
    assert "negate(%a)" in text


@pytest.mark.parametrize(
    ("operand", "message"),
    [
        ("%p0#2", "GTE index 2 out of bounds"),
        ("%p0#-1", "GTE index -1 out of bounds"),
        ("%p0#a", "expects integer"),
        ("%p0#", "expects integer"),
        ("%p0#0#0", "GTE operand must be tuple"),
        ("%p0#99999999999999999999999", "out of bounds"),
    ],
)
def test_errors(operand: str, message: str):
    with pytest.raises(ParseError, match=message):
        module_of(f"ROOT r = f32[10] negate({operand})")
