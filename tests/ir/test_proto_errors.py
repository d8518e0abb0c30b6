"""Broken messages: always a `ProtoError` that says where, never another exception."""

import random
from pathlib import Path

import pytest

from hloom.base.diagnostics import ProtoError
from hloom.ir import schema
from hloom.ir.module import Module
from hloom.ir.proto import (
    module_from_bytes,
    module_from_proto,
    module_from_text_proto,
    module_to_bytes,
    module_to_proto,
    module_to_text_proto,
)
from hloom.ir.proto.kinds import load_binary
from hloom.ir.text import parse_module
from hloom.types.shape import shape, tuple_shape

TEXT = Path(__file__).with_name("proto_training.hlo").read_text()


@pytest.fixture
def message():
    made = module_to_proto(parse_module(TEXT))
    made.DiscardUnknownFields()  # without our note, as XLA writes it
    return made


def main_of(message):
    return message.computations[1]


def instruction(message, name):
    return next(i for c in message.computations for i in c.instructions if i.name == name)


def no_computations(m):
    m.ClearField("computations")


def no_entry(m):
    m.entry_computation_id = 99


def no_root(m):
    main_of(m).root_id = 99


def unnamed_computation(m):
    main_of(m).name = ""


def computation_id_twice(m):
    main_of(m).id = m.computations[0].id


def unnamed_instruction(m):
    instruction(m, "d").name = ""


def name_twice(m):
    instruction(m, "d").name = "w"


def id_twice(m):
    instruction(m, "d").id = instruction(m, "w").id


def no_shape(m):
    instruction(m, "d").ClearField("shape")


def shape_of_nothing(m):
    instruction(m, "d").shape.element_type = 0


def unknown_type(m):
    instruction(m, "d").shape.element_type = 99


def negative_dimension(m):
    instruction(m, "d").shape.dimensions[0] = -1


def too_large_shape(m):
    instruction(m, "d").shape.dimensions[0] = 2**62


def layout_of_other_rank(m):
    instruction(m, "d").shape.layout.minor_to_major.append(2)


def layout_not_a_permutation(m):
    instruction(m, "d").shape.layout.minor_to_major[0] = 0


def dynamic_flags(m):
    instruction(m, "d").shape.is_dynamic_dimension.append(True)


def unknown_opcode(m):
    instruction(m, "d").opcode = "frobnicate"


def dangling_operand(m):
    instruction(m, "d").operand_ids[0] = 12345


def operand_of_other_computation(m):
    instruction(m, "d").operand_ids[0] = m.computations[0].instructions[0].id


def cycle(m):
    instruction(m, "d").operand_ids[0] = instruction(m, "t").id


def itself(m):
    instruction(m, "d").operand_ids[0] = instruction(m, "d").id


def too_few_operands(m):
    del instruction(m, "d").operand_ids[1]


def dangling_callee(m):
    instruction(m, "r").called_computation_ids[0] = 77


def no_callee(m):
    instruction(m, "r").ClearField("called_computation_ids")


def calls_itself(m):
    instruction(m, "r").called_computation_ids[0] = main_of(m).id


def dangling_control(m):
    instruction(m, "all").control_predecessor_ids[0] = 77


def control_cycle(m):
    instruction(m, "d").control_predecessor_ids.append(instruction(m, "all").id)


def no_dot_dimensions(m):
    instruction(m, "d").ClearField("dot_dimension_numbers")


def unknown_precision(m):
    instruction(m, "d").precision_config.operand_precision[0] = 9


def parameters_with_one_number(m):
    instruction(m, "w").parameter_number = 0


def parameter_numbers_with_a_gap(m):
    instruction(m, "w").parameter_number = 5


def constant_too_short(m):
    i = instruction(m, "zero")
    i.literal.shape.dimensions.append(3)
    i.literal.shape.layout.minor_to_major.append(0)


def constant_of_another_shape(m):
    instruction(m, "zero").shape.element_type = 4


def sharding_with_too_few_devices(m):
    instruction(m, "w").sharding.type = 3
    instruction(m, "w").sharding.tile_assignment_dimensions.extend([2, 2])


def unknown_sharding(m):
    instruction(m, "w").sharding.type = 66


def origin_of_no_part(m):
    instruction(m, "t").original_value.elements[0].shape_index.append(7)


def schedule_of_nothing(m):
    m.schedule.sequences[55].instruction_ids.append(1)


def schedule_with_dangling_id(m):
    m.schedule.sequences[main_of(m).id].instruction_ids[0] = 999


def schedule_that_leaves_out_one(m):
    del m.schedule.sequences[main_of(m).id].instruction_ids[0]


def program_shape_of_another_program(m):
    del m.host_program_shape.parameters[0]


def payload_of_nothing(m):
    instruction(m, "d").backend_config_payload.id = 3


BREAKS = {
    f.__name__: f
    for f in list(globals().values())
    if callable(f) and getattr(f, "__code__", None) and f.__code__.co_varnames[:1] == ("m",)
}
PLACED = {
    "unknown_opcode": "main/%d",
    "dangling_operand": "main/%d",
    "cycle": "main/%d",
    "no_shape": "main/%d",
    "constant_too_short": "main/%zero",
    "no_callee": "main/%r",
    "unnamed_instruction": "main/%instruction 2",
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_broken_is_said(message, name):
    module_from_proto(message)
    BREAKS[name](message)
    with pytest.raises(ProtoError) as caught:
        module_from_bytes(message.SerializeToString())
    assert caught.value.message
    if name in PLACED:
        assert caught.value.instruction == PLACED[name]


def test_there_are_enough_breaks():
    assert len(BREAKS) > 40


def test_bytes_cut_off_anywhere(message):
    data = message.SerializeToString()
    for end in range(0, len(data) - 1, 7):
        with pytest.raises(ProtoError):
            module_from_bytes(data[:end])
        with pytest.raises(ProtoError):
            load_binary(data[:end])


def test_random_and_flipped_bytes_never_crash(message):
    data = message.SerializeToString()
    draw = random.Random(7)
    read = 0
    for k in range(600):
        if k % 3 == 0:
            broken = draw.randbytes(draw.randrange(300))
        else:
            flipped = bytearray(data)
            for _ in range(draw.randrange(1, 4)):
                flipped[draw.randrange(len(data))] = draw.randrange(256)
            broken = bytes(flipped)
        try:
            module = load_binary(broken).module
        except ProtoError:
            continue
        read += 1
        again = module_to_bytes(module)
        assert module_to_bytes(module_from_bytes(again)) == again
    assert read


@pytest.mark.parametrize("data", [b"", b"\x0a", b"\xff" * 20, b"\x0a\x02\xff\xfe", b"HloModule m"])
def test_what_is_no_message(data):
    with pytest.raises(ProtoError):
        module_from_bytes(data)


def test_wrong_wire_types():
    """A number where a message is wanted goes to the unknown fields: nothing is left to read."""
    with pytest.raises(ProtoError):
        module_from_bytes(b"\x18\x05\x30\x01")


def test_text_proto_errors_have_a_place(message):
    text = module_to_text_proto(module_from_proto(message))
    lines = text.split("\n")
    lines[3] = "  nonsense: 3"
    with pytest.raises(ProtoError) as caught:
        module_from_text_proto("\n".join(lines), "x.pbtxt")
    assert caught.value.location.line == 4
    assert "x.pbtxt:4" in str(caught.value)
    for broken in ("", "name: ", "{", "name: 3", "computations { id: 99999999999999999999 }"):
        with pytest.raises(ProtoError):
            module_from_text_proto(broken)


def test_deep_shapes():
    deep = shape("f32", [2])
    for _ in range(10_000):
        deep = tuple_shape([deep])
    module = Module("deep")
    entry = module.add_computation("e", entry=True)
    entry.root = entry.add("parameter", number=0, shape=deep)
    with pytest.raises(ProtoError, match="deep"):
        module_to_bytes(module)
    wire = schema.ShapeProto(element_type=13).SerializeToString()
    for _ in range(10_000):
        size = len(wire)
        length = bytearray()
        while size > 127:
            length.append(size & 127 | 128)
            size >>= 7
        wire = b"\x10\x0d\x22" + bytes([*length, size]) + wire
    i = schema.HloInstructionProto(name="p", opcode="parameter").SerializeToString()
    i += b"\x1a" + _length(wire) + wire
    c = schema.HloComputationProto(name="e").SerializeToString() + b"\x12" + _length(i) + i
    with pytest.raises(ProtoError, match="deep"):
        module_from_bytes(b"\x1a" + _length(c) + c)
    with pytest.raises(ProtoError):
        module_from_text_proto(
            "computations { instructions { shape { "
            + "tuple_shapes { " * 5000
            + "}" * 5000
            + "} } }"
        )


def _length(data: bytes) -> bytes:
    size, parts = len(data), bytearray()
    while size > 127:
        parts.append(size & 127 | 128)
        size >>= 7
    return bytes([*parts, size])


def test_a_module_without_entry_cannot_be_written():
    with pytest.raises(ProtoError, match="entry"):
        module_to_bytes(Module("empty"))
    module = Module("no root")
    module.add_computation("e", entry=True)
    with pytest.raises(ProtoError, match="root"):
        module_to_bytes(module)


def test_a_broken_note_is_refused(message):
    from hloom.ir.proto.literal import varint
    from hloom.ir.proto.note import FIELD

    for note in (
        b"{",
        b"[]",
        b'{"replica_count":0}',
        b'{"x":1}',
        b'{"names":{"1":2}}',
        b"[" * 9999,
    ):
        broken = schema.HloModuleProto()
        broken.CopyFrom(message)
        broken.MergeFromString(varint(FIELD << 3 | 2) + varint(len(note)) + note)
        with pytest.raises(ProtoError, match="note"):
            module_from_proto(broken)
