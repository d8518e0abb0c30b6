"""Our schema against the descriptors inside jaxlib's binary: every field, number and type."""

import mmap
from pathlib import Path

import pytest

from hloom.ir import schema

jaxlib = pytest.importorskip("jaxlib")
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")

FILES = ("xla/xla_data.proto", "xla/service/hlo.proto", "xla/service/metrics.proto")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("varint too long")


def extent(data, start):
    """Where the FileDescriptorProto that begins at `start` ends: the fields that it can have."""
    at = start
    while at < len(data):
        tag, after = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not 1 <= number <= 14 or (number == 1 and at != start) or wire not in (0, 2):
            break
        length, after = varint(data, after)
        at = after + (length if wire == 2 else 0)
    return at


def carve(data, name):
    """The largest descriptor of this file in the binary."""
    encoded = name.encode()
    needle = bytes([0x0A, len(encoded)]) + encoded
    found, at = [], data.find(needle)
    while at >= 0:
        file = descriptor_pb2.FileDescriptorProto()
        try:
            file.ParseFromString(data[at : extent(data, at)])
            found.append(file)
        except Exception:  # a chance match of the name in another section
            pass
        at = data.find(needle, at + 1)
    found = [file for file in found if file.message_type]
    if not found:
        pytest.skip(f"this jaxlib does not embed {name}")
    return max(found, key=lambda file: file.ByteSize())


@pytest.fixture(scope="module")
def theirs():
    binary = next(Path(jaxlib.__file__).parent.glob("libjax_common*"), None)
    if binary is None:
        pytest.skip("this jaxlib has no libjax_common")
    messages, enums = {}, {}

    def index(message, prefix):
        messages[prefix + message.name] = message
        for enum in message.enum_type:
            enums[f"{prefix}{message.name}.{enum.name}"] = enum
        for nested in message.nested_type:
            index(nested, f"{prefix}{message.name}.")

    with binary.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for name in FILES:
            file_descriptor = carve(data, name)
            enums |= {e.name: e for e in file_descriptor.enum_type}
            for message in file_descriptor.message_type:
                index(message, "")
    return messages, enums


def ours():
    names = ["HloProto", "HloSnapshot", "HloUnoptimizedSnapshot", "HloModuleMetadataProto"]
    waiting = [schema.message(name).DESCRIPTOR for name in names]
    seen = {}
    while waiting:
        message = waiting.pop()
        if message.full_name in seen or not message.full_name.startswith("xla."):
            continue
        seen[message.full_name] = message
        waiting += [f.message_type for f in message.fields if f.message_type]
    return {name.removeprefix("xla."): message for name, message in seen.items()}


NEWER = {
    ("HloComputationProto", "backend_config"),
    ("HloInstructionProto", "comparison_order"),
    ("HloInstructionProto", "has_dynamic_root"),
    ("HloInstructionProto", "shuffle_mode"),
    ("HloModuleProto", "backend_config"),
    ("NamedShardingProto", "reduction_op"),
    ("OriginalValueProto", "call_hierarchy"),
}
"""Fields of a newer XLA than the one in the oldest jaxlib that is tested with."""
NEWER_VALUES = {"ALG_DOT_BF16_BF16_FP8X3", "ALG_DOT_BF16_BF16_FP8X4"}
"""The same of enumerations."""
NEWER_MESSAGES = {"ShuffleMode", "ShuffleMode.Rotate"}
NEWER_ENUMS = {"NamedShardingProto.ReductionOpProto"}


def test_every_message_has_the_same_fields(theirs):
    messages, _ = theirs
    mine = ours()
    assert len(mine) > 80
    for name in mine.keys() - (NEWER_MESSAGES - messages.keys()):
        message = mine[name]
        wanted = {
            (f.name, f.number, f.type, f.label == f.LABEL_REPEATED, f.type_name.lstrip("."))
            for f in messages[name].field
        }
        have = set()
        for f in message.fields:
            target = f.message_type or f.enum_type
            repeated = (
                f.label == f.LABEL_REPEATED if not hasattr(f, "is_repeated") else f.is_repeated
            )
            have.add((f.name, f.number, f.type, repeated, target.full_name if target else ""))
        known = {field[0] for field in wanted}
        have = {f for f in have if f[0] in known or (name, f[0]) not in NEWER}
        assert have == wanted, name


def test_every_message_has_the_same_oneofs(theirs):
    messages, _ = theirs
    mine = ours()
    for name in mine.keys() - (NEWER_MESSAGES - messages.keys()):
        message = mine[name]
        wanted = {
            messages[name].oneof_decl[f.oneof_index].name: set()
            for f in messages[name].field
            if f.HasField("oneof_index")
        }
        for f in messages[name].field:
            if f.HasField("oneof_index"):
                wanted[messages[name].oneof_decl[f.oneof_index].name].add(f.name)
        assert {o.name: {f.name for f in o.fields} for o in message.oneofs} == wanted, name


def test_every_enum_has_the_same_values(theirs):
    _, enums = theirs
    seen = set()
    for message in ours().values():
        for field in message.fields:
            if field.enum_type:
                name = field.enum_type.full_name.removeprefix("xla.")
                seen.add(name)
                if name not in enums and name in NEWER_ENUMS:
                    continue
                wanted = {value.name: value.number for value in enums[name].value}
                mine = schema.enum_numbers(name)
                mine = {k: v for k, v in mine.items() if k in wanted or k not in NEWER_VALUES}
                assert mine == wanted, name
    assert len(seen) > 20
