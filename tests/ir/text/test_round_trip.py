"""Text -> module -> text: an equal module, and the second print equals the first."""

import pytest

from hloom.interp import draw_instance
from hloom.ir.copy import difference
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.text import PrintOptions, parse_module, show_module
from tests.ir.text.cases import last_line, valid_lines

FORMS = {
    "full": PrintOptions(large_constants=True),
    "shapes": PrintOptions(large_constants=True, operand_shape=True, percent=False),
    "bare": PrintOptions(large_constants=True, program_shape=False, operand_index_comments=False),
    "unfolded": PrintOptions(large_constants=True, async_sugar=False),
    "compact": PrintOptions(large_constants=True, compact_gte=True),
}


def check(module: Module, form: str = "full") -> None:
    text = show_module(module, FORMS[form])
    again = parse_module(text)
    if form != "compact":
        assert difference(module, again) is None
    assert show_module(again, FORMS[form]) == text


@pytest.mark.parametrize("text", valid_lines(), ids=last_line)
def test_every_attribute_form(text: str):
    module = parse_module(text)
    check(module)
    check(module, "shapes")


@pytest.mark.parametrize("opcode", sorted(OPS))
@pytest.mark.parametrize("form", FORMS)
def test_every_opcode(opcode: str, form: str):
    for seed in range(2):
        check(draw_instance(opcode, seed), form)


@pytest.mark.parametrize("opcode", sorted(OPS))
def test_short_form_means_the_same(opcode: str):
    for seed in range(2):
        module = draw_instance(opcode, seed)
        short = parse_module(show_module(module, PrintOptions.short_parsable()))
        assert difference(module, short) is None


def test_example_of_the_specification():
    text = """HloModule m, num_partitions=8

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] /*c*/ parameter(1)
  ROOT %sum = f32[] add(%x, /*d*/ %y)
}

ENTRY %main (p: f32[16,128]) -> f32[16,128] {
  %p = f32[16,128]{1,0:T(8,128)} parameter(0)
  %s = f32[16,128]{1,0:T(8,128)} all-reduce-start(%p), channel_id=1, replica_groups=[2,4]<=[8], \
use_global_device_ids=true, to_apply=%add
  ROOT %d = f32[16,128]{1,0:T(8,128)} all-reduce-done(%s)
}
"""
    first = show_module(parse_module(text))
    assert show_module(parse_module(first)) == first
    assert "[2,4]<=[8]" in first and "T(8,128)" in first and "/*c*/" not in first


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_and_tabs(end: str):
    lines = ["HloModule m", "", "ENTRY e {", "\tp = f32[2]\tparameter(0)", "ROOT n=f32[2]"]
    lines[-1] = "\tROOT n = f32[2] negate(p)"
    module = parse_module(end.join([*lines, "}"]))
    assert module.entry.root.opcode == "negate"


def test_text_in_strings_survives():
    text = 'HloModule m\nENTRY e { ROOT p = f32[] parameter(0), metadata={op_name="é\\t\\"//x"} }'
    module = parse_module(text)
    assert module.entry.root.metadata.op_name == 'é\t"//x'
    check(module)


def test_names_of_the_language_keep_their_percent_sign():
    text = """HloModule m

%true (a: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  ROOT %ENTRY = f32[] negate(%a)
}

ENTRY %f32 (replicated: f32[]) -> f32[] {
  %replicated = f32[] parameter(0)
  %manual = f32[] call(%replicated), to_apply=%true
  ROOT %add-start.tuple = f32[] add(%manual, %replicated), control-predecessors={%manual}
}
"""
    module = parse_module(text)
    check(module)
    short = show_module(module, PrintOptions(percent=False))
    assert "%replicated" in short and "%add-start" not in short
    assert difference(module, parse_module(short)) is None


def test_a_single_instruction_is_a_module():
    module = parse_module("foo = f32[10] add(f32[10] p, f32[10])")
    assert [p.name for p in module.entry.parameters] == ["p", "_1"]
    assert module.entry.root.name == "foo"
    assert parse_module("f32[2] negate(f32[2] x)").entry.root.opcode == "negate"
    several = parse_module("a = f32[2] parameter(0)\nROOT b = f32[2] negate(a)")
    assert several.entry.root.name == "b"
    for made in (module, several):
        assert made.name == "_"
        check(made)


def test_a_computation_is_a_module():
    module = parse_module("f { a = f32[] parameter(0)\n ROOT b = f32[] negate(a) }")
    assert module.name == "module_f"
    assert module.entry.name == "f"


def test_nested_operands():
    module = parse_module(
        "HloModule m\nENTRY e { p = f32[] parameter(0)\n"
        " ROOT r = f32[] add(negate(p), f32[] multiply(f32[] constant(2), negate(p))) }"
    )
    names = [i.name for i in module.entry]
    assert names == [
        "p", "negate.anon", "constant.anon", "negate.anon.1", "multiply.anon", "r",
    ]  # fmt: skip
    check(module)


def test_shapes_that_follow_from_operands_can_be_left_out():
    text = "HloModule m\nENTRY e { p = f32[2,3] parameter(0)\n ROOT r = tuple(add(p, p), p) }"
    root = parse_module(text).entry.root
    assert str(root.shape) == "(f32[2,3]{1,0}, f32[2,3]{1,0})"
