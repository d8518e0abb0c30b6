"""Protos against XLA: what it writes we read as its text says, what we write it reads."""

import re
from pathlib import Path

import pytest

from hloom.ir import schema
from hloom.ir.proto import (
    module_from_bytes,
    module_from_text_proto,
    module_to_bytes,
    module_to_text_proto,
)
from hloom.ir.text import PrintOptions, parse_module, show_module

_hlo = pytest.importorskip("jaxlib._hlo")

HEAD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

add2 {
  a2 = f32[] parameter(0)
  b2 = f32[] parameter(1)
  c2 = s32[] parameter(2)
  d2 = s32[] parameter(3)
  ROOT pair = (f32[], s32[]) tuple(a2, c2)
}

id {
  x = f32[4,8] parameter(0)
  ROOT y = f32[4,8] copy(x)
}

neg {
  x2 = f32[4,8] parameter(0)
  ROOT y2 = f32[4,8] negate(x2)
}

yes {
  x1 = f32[4,8] parameter(0)
  ROOT z = pred[] constant(true)
}

less {
  l = f32[] parameter(0)
  r = f32[] parameter(1)
  ROOT lt = pred[] compare(l, r), direction=LT
}

step {
  v = f32[8] parameter(0)
  w = f32[8] parameter(1)
  n = f32[8] add(v, w)
  ROOT vw = (f32[8], f32[8]) tuple(n, n)
}
"""
PARAMETERS = """  p = f32[4,8] parameter(0)
  s = s32[] parameter(1)
  f = f32[] parameter(2)
  i2 = s32[4,2] parameter(3)
  t = token[] after-all()
"""

HEADERS = {
    "alias": "input_output_alias={ {}: (0, {}, may-alias) }",
    "must-alias": "input_output_alias={ {}: (0, {}, must-alias) }",
    "donor": "buffer_donor={ (0, {}) }",
    "scheduled": "is_scheduled=true",
    "layout": "entry_computation_layout={(f32[4,8]{0,1})->f32[4,8]{0,1}}",
    "attributes": 'frontend_attributes={a="b",c={"d":1}}',
}
CONFIGURED = "replica_count=2, num_partitions=3, alias_passthrough_params=true"

CASES = {
    name: body.replace("; ", "\n  ")
    for name, body in (
        line.split("|", 1)
        for line in Path(__file__).with_name("proto_instructions.txt").read_text().splitlines()
    )
}
"""The instructions of an entry, by name; its last one is the root."""


def program(body: str) -> str:
    """A module with this entry body and those computations of HEAD that it names."""
    called = [c for c in HEAD.strip().split("\n\n") if re.search(rf"\b{c.split()[0]}\b", body)]
    more = "  f8 = f32[8] parameter(4)\n" if "f8)" in body else ""
    return f"HloModule m\n\n{chr(10).join(called)}\n\nENTRY e {{\n{PARAMETERS}{more}  {body}\n}}\n"


def theirs(text: str):
    return _hlo.hlo_module_from_text(text)


def their_text(module) -> str:
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    return module.to_string(options).strip()


def in_any_order(text: str) -> list[str]:
    """The computations; XLA prints them in another order than it serialises them."""
    return sorted(part.strip() for part in text.split("\n\n"))


def ours(module) -> str:
    return show_module(module, PrintOptions(large_constants=True))


def message(data: bytes):
    made = schema.HloModuleProto()
    made.ParseFromString(data)
    return made


@pytest.mark.parametrize("name", CASES)
def test_instruction_both_ways(name):
    wanted = theirs(program(CASES[name]))
    # XLA's own round trip is the yardstick: a few things do not survive its protos.
    data = wanted.as_serialized_hlo_module_proto()
    wanted_text = their_text(_hlo.HloModule.from_serialized_hlo_module_proto(data))

    read = module_from_bytes(data)
    elided = "{...}" in CASES[name]
    if not elided:  # XLA makes zeros of values that a text leaves out
        assert in_any_order(ours(read)) == in_any_order(ours(parse_module(wanted_text)))

    written = module_to_bytes(parse_module(program(CASES[name]) if elided else wanted_text))
    back = their_text(_hlo.HloModule.from_serialized_hlo_module_proto(written))
    assert not elided or "{...}" in back
    if not elided:
        assert in_any_order(back) == in_any_order(wanted_text)

    again = module_to_bytes(read)
    back = their_text(_hlo.HloModule.from_serialized_hlo_module_proto(again))
    assert in_any_order(back) == in_any_order(wanted_text)
    assert module_to_bytes(module_from_bytes(again)) == again
    assert module_to_bytes(module_from_text_proto(module_to_text_proto(read))) == again


@pytest.mark.parametrize("name", CASES)
def test_fields_that_xla_writes_are_written(name):
    """Field by field: what XLA says of an instruction we say too, but for empty messages."""
    data = theirs(program(CASES[name])).as_serialized_hlo_module_proto()
    wanted, got = message(data), message(module_to_bytes(module_from_bytes(data)))
    pairs = [(a, b) for a, b in zip(wanted.computations, got.computations)]
    assert len(pairs) == len(wanted.computations) == len(got.computations)
    for a, b in pairs:
        assert [i.id for i in a.instructions] == [i.id for i in b.instructions]
        for x, y in zip(a.instructions, b.instructions):
            for one in (x, y):
                for field, value in one.ListFields():
                    if field.message_type and not isinstance(value, list) and _is_empty(value):
                        one.ClearField(field.name)
            assert x == y
        assert a.program_shape == b.program_shape
        assert (a.id, a.root_id, a.name) == (b.id, b.root_id, b.name)


def _is_empty(value) -> bool:
    return hasattr(value, "ByteSize") and value.ByteSize() == 0


@pytest.mark.parametrize("name", HEADERS)
def test_header_both_ways(name):
    body = "p = f32[4,8]{0,1} parameter(0)\n  ROOT o = f32[4,8]{0,1} copy(p)"
    text = f"HloModule m, {HEADERS[name]}\n\nENTRY e {{\n  {body}\n}}\n"
    wanted = theirs(text)
    read = module_from_bytes(wanted.as_serialized_hlo_module_proto())
    assert ours(read) == ours(parse_module(text))
    back = _hlo.HloModule.from_serialized_hlo_module_proto(module_to_bytes(parse_module(text)))
    assert their_text(back) == their_text(wanted)


def test_program_shape_keeps_its_layouts():
    """Parameters in column-major order stay so, here and in XLA."""
    text = (
        "HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{0,1}}\n\n"
        "ENTRY e {\n  p = f32[2,3]{0,1} parameter(0)\n  ROOT o = f32[2,3]{0,1} copy(p)\n}\n"
    )
    data = theirs(text).as_serialized_hlo_module_proto()
    read = module_from_bytes(data)
    assert str(read.program_shape) == "(f32[2,3]{0,1})->f32[2,3]{0,1}"
    assert message(module_to_bytes(read)).host_program_shape == message(data).host_program_shape


def test_xla_skips_our_note():
    text = f"HloModule m, {CONFIGURED}\n\nENTRY e {{\n  ROOT p = f32[4] parameter(0)\n}}\n"
    module = parse_module(text)
    data = module_to_bytes(module)
    assert "ROOT %p" in their_text(_hlo.HloModule.from_serialized_hlo_module_proto(data))
    assert ours(module_from_bytes(data)) == ours(module)


def test_repeated_names_are_made_unique_for_xla():
    text = (
        "HloModule m\n\n"
        "%f (a: f32[]) -> f32[] {\n  ROOT %a = f32[] parameter(0)\n}\n\n"
        "ENTRY %e (a: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n"
        "  ROOT %b = f32[] call(%a), to_apply=%f\n}\n"
    )
    module = parse_module(text)
    data = module_to_bytes(module)
    assert "%a.1" in their_text(_hlo.HloModule.from_serialized_hlo_module_proto(data))
    assert ours(module_from_bytes(data)) == ours(module)
