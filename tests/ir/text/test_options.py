"""Every switch of the printer acts, and the presets are what they are said to be."""

from dataclasses import fields, replace
from functools import cache

import pytest

from hloom.ir.copy import difference
from hloom.ir.module import Module
from hloom.ir.text import (
    PRESETS,
    PrintOptions,
    fingerprint,
    parse_module,
    show_computation,
    show_instruction,
    show_module,
)
from tests.ir.text.cases import HERE


@cache
def module() -> Module:
    return parse_module((HERE / "everything.hlo").read_text())


SWITCHES = {
    # switch: value, what is gained by it, what is lost
    "large_constants": (True, "constant({1, 2, 3, 4, 5, 6, 7,", "constant({...})"),
    "only_essential_constants": (True, None, None),
    "metadata": (False, None, 'op_name="jit(f)/sum"'),
    "metadata_only_op_name": (True, 'metadata={op_name="jit(f)/sum"}', 'op_type="sum"'),
    "original_value": (False, None, 'origin={{"old" {1}}}'),
    "inline_stack_frames": (True, 'source_file="model.py" source_line=42', "FileNames"),
    "backend_config": (False, None, "backend_config="),
    "sort_backend_config": (True, 'backend_config={"a":[2],"b":1}', '{"b":1,"a":[2]}'),
    "infeed_outfeed_config": (False, None, "infeed_config"),
    "frontend_attributes": (False, None, "frontend_attributes"),
    "extra_attributes": (False, None, "index=0"),
    "result_shape": (False, "%r.1 = all-reduce(", "%r.1 = f32[4,4]{0,1} all-reduce("),
    "operand_shape": (True, "all-reduce(f32[4,4]{0,1} %e.1)", "all-reduce(%e.1)"),
    "operand_names": (False, None, None),
    "layout_in_shapes": (False, "%r.1 = f32[4,4] all-reduce", "{0,1}"),
    "program_shape": (False, "%both {", "%both (a: f32[4,4])"),
    "parameter_number": (False, "parameter()", "parameter(0)"),
    "percent": (False, "\n  r.1 = f32", "%"),
    "ids": (False, "%r = f32", "%r.1"),
    "channel_id": (False, None, "channel_id=1"),
    "control_dependencies": (False, None, "control-predecessors={%s.1}"),
    "operand_index_comments": (False, "%end.1, %i.1)", "/*index=5*/%i.1"),
    "compact_operands": (
        True,
        "tuple(%f.1, %r.1, %few.1, %weights.1, ...(+2))",
        "%weights.1, %end",
    ),
    "compact_gte": (True, "%in.1#0", "get-tuple-element(%in.1)"),
    "async_sugar": (False, "async-start(%s.1), calls=%async_wrapped", "negate-start"),
    "replica_groups_full": (True, "replica_groups={{0,1,2,3},{4,5,6,7}}", "[2,4]<=[8], use"),
    "replica_groups_subaxes": (False, "replica_groups={{0,4},", "mesh['x'=4,'y'=2]"),
    "subcomputation_mode": ("off", None, "to_apply="),
    "computations": (False, None, "%zz_add.7 (x.1"),
    "canonical_names": (True, "%tmp_0 = ", "%p.1 ="),
    "canonical_order": (True, None, None),
    "indent": (2, "    ENTRY %main.9", "\nENTRY %main.9"),
    "nested": (True, "\nENTRY (p.1: f32", "%both (a:"),
    "name_after_closing_brace": (True, "} // main.9", "}\n\nENTRY"),
}


def test_the_table_has_every_switch():
    assert set(SWITCHES) == {f.name for f in fields(PrintOptions)}
    assert len(SWITCHES) >= 33


@pytest.mark.parametrize("switch", SWITCHES)
def test_switch_changes_the_text(switch: str):
    value, gained, lost = SWITCHES[switch]
    changed = PrintOptions()
    if switch == "only_essential_constants":
        changed = replace(changed, large_constants=True)
    before = show_module(module(), changed)
    if switch == "operand_names":
        changed, gained = replace(changed, operand_shape=True), "all-reduce(f32[4,4]{0,1})"
    after = show_module(module(), replace(changed, **{switch: value}))
    assert after != before
    assert gained is None or (gained in after and gained not in before)
    assert lost is None or (lost in before and lost not in after)


def test_only_essential_constants():
    options = PrintOptions(large_constants=True, only_essential_constants=True)
    text = show_module(module(), options)
    assert "%few.1 = s32[6]{0} constant({1, 2, 3, 4, 5, 6})" in text
    assert "%weights.1 = f32[12]{0} constant({...})" in text


def test_canonical_order_does_not_depend_on_names():
    text = (HERE / "everything.hlo").read_text()
    renamed = text.replace("%zz_add.7", "%aa")
    sorted_, unsorted = (
        replace(PrintOptions.canonical(), canonical_order=o, ids=False) for o in (True, False)
    )
    heads = [show_module(parse_module(t), sorted_) for t in (text, renamed)]
    assert heads[0] == heads[1]
    assert show_module(module(), sorted_) != show_module(module(), unsorted)


def test_modes_of_called_computations():
    names, off, full = (
        show_module(module(), PrintOptions(subcomputation_mode=mode))
        for mode in ("names", "off", "full")
    )
    assert "calls=%both" in names and "calls=" not in off
    assert "calls=\n  {\n    %a = f32[4,4]{0,1} parameter(0)" in full


@pytest.mark.parametrize("preset", ["default", "short-parsable"])
def test_presets_that_read_back(preset: str):
    options = replace(PRESETS[preset](), large_constants=True)
    again = parse_module(show_module(module(), options))
    if preset == "default":
        assert difference(module(), again) is None
    assert [i.opcode for i in again.entry] == [i.opcode for i in module().entry]
    backend_configs = [i.backend_config for i in again.entry]
    assert backend_configs == [i.backend_config for i in module().entry]


def test_presets():
    text = {name: show_module(module(), make()) for name, make in PRESETS.items()}
    assert set(text) == {
        "default", "short-parsable", "canonical", "fingerprint", "module-fingerprint",
    }  # fmt: skip
    assert "constant({...})" in text["default"] and "/*index=5*/" in text["default"]
    short = text["short-parsable"]
    assert 'backend_config={"b":1,"a":[2]}' in short and "%" not in short
    assert "metadata" not in short and "11, 12})" in short and "control-pred" not in short
    canonical = text["canonical"]
    assert "backend_config" not in canonical and "metadata" not in canonical
    assert "add(f32[] tmp_0, f32[] tmp_1)" in canonical and "to_apply=\n" in canonical
    assert "channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}" in text["fingerprint"]
    assert "infeed_config" not in text["fingerprint"]
    assert "add(tmp_0, tmp_1)" in text["module-fingerprint"]


def test_fingerprint_forgets_names_and_float_weights_only():
    text = (HERE / "everything.hlo").read_text()
    base = fingerprint(module())
    renamed = text.replace("%r.1", "%other.5").replace("zz_add.7", "plus").replace("main.9", "e")
    assert fingerprint(parse_module(renamed.replace("x.1", "left"))) == base
    assert (
        fingerprint(parse_module(text.replace("{1, 2, 3, 4, 5, 6, 7", "{9, 2, 3, 4, 5, 6, 7")))
        == base
    )
    assert fingerprint(parse_module(text.replace("jit(f)/sum", "jit(g)"))) == base
    assert fingerprint(parse_module(text.replace('{"b":1', '{"b":2'))) == base
    assert (
        fingerprint(parse_module(text.replace("({1, 2, 3, 4, 5, 6})", "({1, 2, 3, 4, 5, 7})")))
        != base
    )
    assert fingerprint(parse_module(text.replace("negate-", "cosine-"))) != base
    assert fingerprint(parse_module(text.replace("add(%x.1, %y.1)", "add(%x.1, %x.1)"))) != base


def test_backend_config_that_is_no_json_is_not_sorted():
    text = 'HloModule m\nENTRY e { ROOT p = f32[] parameter(0), backend_config="b a" }'
    shown = show_module(parse_module(text), PrintOptions(sort_backend_config=True))
    assert 'backend_config="b a"' in shown


def test_pieces_print_alone():
    entry = module().entry
    assert show_instruction(entry["e.1"]) == (
        "%e.1 = f32[4,4]{0,1} get-tuple-element(%q.1), index=0"
    )
    assert str(entry["e.1"]) == show_instruction(entry["e.1"])
    text = show_computation(module()["both"])
    assert text.startswith("%both (a: f32[4,4]) -> f32[4,4] {\n  %a") and text.endswith("\n}")
