"""Modules through protobuf and back: text, ids, everything a file may hold."""

import subprocess
import sys
from pathlib import Path

import pytest

from hloom.ir import schema
from hloom.ir.op import OPS
from hloom.ir.proto import (
    module_from_bytes,
    module_from_proto,
    module_from_text_proto,
    module_to_bytes,
    module_to_proto,
    module_to_text_proto,
)
from hloom.ir.proto.attributes import ATTRIBUTES, BY_OPCODE, op_codec
from hloom.ir.proto.carried import NewerFieldsWarning
from hloom.ir.text import PrintOptions, parse_module, show_module
from hloom.ir.verify import verify
from tests.processor_time import at_most

TRAINING = Path(__file__).with_name("proto_training.hlo").read_text()


def text_of(module) -> str:
    return show_module(module, PrintOptions(large_constants=True))


@pytest.fixture
def training():
    return parse_module(TRAINING)


def test_text_to_bytes_to_text_is_the_identity(training):
    assert "parameter_replication" in text_of(training)
    assert text_of(module_from_bytes(module_to_bytes(training))) == text_of(training)


def test_text_to_text_proto_to_text_is_the_identity(training):
    written = module_to_text_proto(training)
    assert written.startswith("# hloom: {")
    assert text_of(module_from_text_proto(written)) == text_of(training)


def test_bytes_are_the_same_every_time(training):
    data = module_to_bytes(training)
    assert module_to_bytes(parse_module(TRAINING)) == data
    assert module_to_bytes(module_from_bytes(data)) == data


def test_configuration_that_xla_does_not_serialise_survives(training):
    back = module_from_bytes(module_to_bytes(training))
    assert (back.replica_count, back.num_partitions) == (2, 4)
    assert back.alias_passthrough_parameters
    assert back.allow_spmd_sharding_propagation_to_output == (True, False)
    assert back["main"]["all"].attrs.mode == "cross_replica"


def test_schedule_keeps_its_order(training):
    main = training["main"]
    training.schedule[main] = list(reversed(training.schedule[main]))
    message = module_to_proto(training)
    back = module_from_proto(message)
    names = [i.name for i in back.schedule[back["main"]]]
    assert names == ["t", "all", "r", "zero", "d", "w", "x"]


def test_what_a_reduce_applies_is_scheduled():
    """XLA refuses a schedule that has no order of a computation that is no fusion."""
    text = """
HloModule m, is_scheduled=true
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
ENTRY e {
  p = f32[4] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(p, zero), dimensions={0}, to_apply=add
}"""
    module = parse_module(text)
    module.schedule = {module.entry: list(module.schedule[module.entry])}
    message = module_to_proto(module)
    orders = {c.name: message.schedule.sequences[c.id] for c in message.computations}
    assert {name: len(x.instruction_ids) for name, x in orders.items()} == {"add": 3, "e": 3}


def test_ids_are_kept():
    module = module_from_proto(_small())
    assert [i.id for i in module.instructions()] == [7 << 32, 7 << 32 | 5, 7 << 32 | 9]
    assert module.entry.id == 7
    assert [i.id for i in module_to_proto(module).computations[0].instructions] == [
        i.id for i in _small().computations[0].instructions
    ]
    assert module.new_id() > 7 << 32 | 9


def test_ids_that_two_computations_share_are_given_anew(training):
    message = module_to_proto(training)
    numbers = {}
    for c in message.computations:
        for k, i in enumerate(c.instructions):
            numbers[c.id, i.id] = k
    for c in message.computations:
        for i in c.instructions:
            i.id = numbers[c.id, i.id]
            for name in ("operand_ids", "control_predecessor_ids"):
                changed = [numbers[c.id, x] for x in getattr(i, name)]
                i.ClearField(name)
                getattr(i, name).extend(changed)
        c.root_id = numbers[c.id, c.root_id]
        order = message.schedule.sequences[c.id]
        changed = [numbers[c.id, x] for x in order.instruction_ids]
        order.ClearField("instruction_ids")
        order.instruction_ids.extend(changed)
    message.DiscardUnknownFields()
    back = module_from_proto(message)
    ids = [i.id for i in back.instructions()]
    assert len(set(ids)) == len(ids)
    assert back["main"]["t"].operands[1].name.startswith("all")


def test_ids_whose_low_halves_collide_are_written_anew():
    """XLA looks only at the lower 32 bits inside a computation."""
    module = module_from_proto(_small())
    first, second, _ = module.instructions()
    first.id, second.id = 1 << 32 | 5, 2 << 32 | 5
    written = [i.id & 0xFFFFFFFF for i in module_to_proto(module).computations[0].instructions]
    assert len(set(written)) == 3


def test_program_shape_keeps_its_layouts():
    """Layouts of the program shape are not reset to the default."""
    message = _small()
    layout = message.host_program_shape.parameters[0].layout
    del layout.minor_to_major[:]
    layout.minor_to_major.extend([0, 1])
    module = module_from_proto(message)
    assert str(module.program_shape) == "(f32[2,3]{0,1}, f32[2,3]{1,0})->f32[2,3]{1,0}"
    assert module_to_proto(module).host_program_shape.parameters[0].layout == layout


def test_what_the_graph_has_no_place_for_is_carried():
    message = _small()
    message.id = 12
    message.pjrt_id = 0
    message.device_type = "gpu"
    message.payloads.append(b"\0payload")
    message.cross_program_prefetches.add(parameter=1, index=[0], offset=64)
    message.profile_info.add(relative_speedup=1.5, fingerprint="x")
    message.device_assignment.replica_count = 2
    message.device_assignment.computation_devices.add(replica_device_ids=[1, 0])
    message.original_value_recovery_table.entries.add().old_original_array.instruction_name = "o"
    message.is_dynamic = True
    message.use_auto_spmd_partitioning = True
    message.spmd_output_sharding.type = 4
    message.spmd_parameters_shardings.add().type = 1
    message.spmd_parameters_shardings[0].tile_assignment_devices.append(3)
    message.buffer_donor.SetInParent()
    message.input_output_alias.SetInParent()
    i = message.computations[0].instructions[2]
    i.metadata.profile_info.relative_speedup = 2.5
    i.metadata.metadata_payload.id = 0
    i.metadata.profile_type.append(2)
    back = module_to_proto(module_from_proto(message))
    assert back == message


def test_payloads_that_hold_backend_configs_are_read():
    message = _small()
    message.payloads.extend([b"zero", b'{"one":1}'])
    a, b, _ = message.computations[0].instructions
    a.backend_config_payload.id = 1
    b.backend_config_payload.value = b"inline \xff"
    module = module_from_proto(message)
    first, second, _ = module.instructions()
    assert first.backend_config.json == {"one": 1}
    assert module_to_proto(module).computations[0].instructions[1].backend_config == b"inline \xff"
    assert second.backend_config.raw.startswith("inline ")


def test_fields_of_a_newer_xla_survive():
    def field(number, data):
        tag = number << 3 | 2
        return bytes([tag & 127 | 128, tag >> 7 & 127 | 128, tag >> 14, len(data)]) + data

    message = _small()
    message.MergeFromString(field(3001, b"module"))
    message.computations[0].MergeFromString(field(3002, b"computation"))
    message.computations[0].instructions[1].MergeFromString(field(3003, b"instruction"))
    with pytest.warns(NewerFieldsWarning, match=r"has fields of a newer XLA"):
        data = module_to_bytes(module_from_proto(message))
    for word in (b"module", b"computation", b"instruction"):
        assert field(3001 if word == b"module" else 3002 if word[0] == 99 else 3003, word) in data
    with pytest.warns(NewerFieldsWarning):
        assert module_to_bytes(module_from_bytes(data)) == data


def test_names_that_repeat_between_computations_come_back(training):
    message = module_to_proto(training)
    names = [i.name for c in message.computations for i in c.instructions]
    assert len(set(names)) == len(names)
    assert "x.1" in names
    main = module_from_proto(message)["main"]
    assert [i.name for i in main.instructions][:2] == ["x", "w"]
    assert main["x"] is main.parameters[0]


def test_names_that_look_like_given_ones_come_back():
    text = (
        "HloModule m\n\n%f (a: f32[]) -> f32[] {\n  ROOT %a = f32[] parameter(0)\n}\n\n"
        "ENTRY %e (a: f32[], a.1: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n"
        "  %a.1 = f32[] parameter(1)\n  ROOT %a.2 = f32[] call(%a.1), to_apply=%f\n}\n"
    )
    module = parse_module(text)
    assert text_of(module_from_bytes(module_to_bytes(module))) == text_of(module)


def test_elided_constants_stay_elided():
    module = parse_module("ENTRY e {\n  ROOT c = f32[100] constant({...})\n}\n")
    message = module_to_proto(module)
    assert not message.computations[0].instructions[0].HasField("literal")
    assert module_from_proto(message).entry.root.attrs.literal.is_elided


def test_channel_0_is_a_channel_behind_bytes_too():
    """Messages say no channel by 0: it is written as the first number that no other channel has."""
    text = (
        "ENTRY e {\n  p = f32[4] parameter(0)\n"
        "  a = f32[4] collective-permute(p), channel_id=1, source_target_pairs={{0,0}}\n"
        "  b = f32[4] all-gather(a), channel_id=0, replica_groups={{0}}, dimensions={0}, "
        "use_global_device_ids=true\n"
        "  ROOT c = f32[4] all-to-all(b), channel_id=0, replica_groups={{0}}, dimensions={0}\n}\n"
    )
    module = module_from_bytes(module_to_bytes(parse_module(text)))
    verify(module)
    channels = [i.attrs.channel_id for i in module.entry.instructions if i.operands]
    assert channels == [1, 2, 2]


def test_old_files_are_read():
    """Replica groups and all-reduce ids in the fields they had before 2024; called `calls`."""
    text = (
        "%f (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n"
        "  %b = f32[] parameter(1)\n  ROOT %c = f32[] add(%a, %b)\n}\n\n"
        "ENTRY %e (p: f32[]) -> f32[] {\n  %p = f32[] parameter(0)\n"
        "  ROOT %r = f32[] all-reduce(%p), replica_groups={{0,1}}, to_apply=%f\n}\n"
    )
    message = module_to_proto(parse_module("HloModule m\n\n" + text))
    i = message.computations[1].instructions[1]
    i.ClearField("collective_device_list")
    i.replica_groups.add(replica_ids=[1, 0])
    i.all_reduce_id = 9
    read = module_from_proto(message).entry.root.attrs
    assert read.replica_groups.groups == ((1, 0),)
    assert read.channel_id == 9


def test_every_attribute_of_every_operation_has_a_codec():
    used = set()
    for name, op in OPS.items():
        found = op_codec(name)
        assert [field for field, _ in found.codecs] == [f.name for f in op.fields]
        used |= {(name, f.name) for f in op.fields} | {f.name for f in op.fields}
    assert not set(ATTRIBUTES) - used
    assert not set(BY_OPCODE) - used


def test_a_large_module_takes_seconds():
    message = schema.HloModuleProto(name="big")
    c = message.computations.add(name="e", id=1)
    shape = _small().computations[0].instructions[0].shape
    p = c.instructions.add(name="p", opcode="parameter", id=0)
    p.shape.CopyFrom(shape)
    for k in range(1, 30_000):
        i = c.instructions.add(name=f"add.{k}", opcode="add", id=k, operand_ids=[k - 1, 0])
        i.shape.CopyFrom(shape)
        i.metadata.op_name = f"f/{k % 100}"
    c.root_id = 29_999
    message.entry_computation_id = 1
    with at_most(10):
        module = module_from_proto(message)
        assert module_to_proto(module).computations[0].instructions[-1].name == "add.29999"


def test_schema_is_private_and_lazy():
    code = (
        "import sys, hloom.ir.schema as s; assert 'google.protobuf' not in sys.modules;"
        "m = s.HloModuleProto(name='x');"
        "from google.protobuf import descriptor_pool as d;"
        "import pytest\n"
        "with pytest.raises(KeyError): d.Default().FindMessageTypeByName('xla.HloModuleProto')\n"
        "with pytest.raises(AttributeError): s.NoSuchMessage\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def _small():
    """p + q over f32[2,3], with ids as XLA gives them."""
    message = schema.HloModuleProto(name="small", entry_computation_name="e")
    c = message.computations.add(name="e", id=7, root_id=7 << 32 | 9)
    for id, name, opcode in ((0, "p", "parameter"), (5, "q", "parameter"), (9, "s", "add")):
        i = c.instructions.add(name=name, opcode=opcode, id=7 << 32 | id)
        i.shape.element_type = 11
        i.shape.dimensions.extend([2, 3])
        i.shape.is_dynamic_dimension.extend([False, False])
        i.shape.layout.minor_to_major.extend([1, 0])
        i.shape.layout.tail_padding_alignment_in_elements = 1
    c.instructions[1].parameter_number = 1
    c.instructions[2].operand_ids.extend([7 << 32, 7 << 32 | 5])
    shape = c.instructions[0].shape
    for program, names in ((c.program_shape, "pq"), (message.host_program_shape, ("p0", "p1"))):
        program.parameters.add().CopyFrom(shape)
        program.parameters.add().CopyFrom(shape)
        program.result.CopyFrom(shape)
        program.parameter_names.extend(names)
    message.entry_computation_id = 7
    return message


def test_the_compiled_schema_is_that_of_the_proto_files(tmp_path):
    """`make proto` was run after the last change."""
    pytest.importorskip("grpc_tools.protoc")
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    folder = Path(schema.__file__).parent
    made = tmp_path / "hlo.binpb"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports"]
    files = map(str, sorted(folder.glob("*.proto")))
    subprocess.run([*command, f"--descriptor_set_out={made}", *files], check=True)
    fresh, shipped = FileDescriptorSet(), FileDescriptorSet()
    fresh.ParseFromString(made.read_bytes())
    shipped.ParseFromString((folder / "hlo.binpb").read_bytes())
    assert {f.name: f for f in fresh.file if f.package == "xla"} == {
        f.name: f for f in shipped.file if f.package == "xla"
    }
