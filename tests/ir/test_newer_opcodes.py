"""Opcodes that XLA 0.12 has: text as it writes them, messages with its numbers of fields."""

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.ir import schema
from tests.ir.text.test_newer_text import both_ways

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
PROGRAMS = {
    "powers": """ENTRY e { x = f32[5] parameter(0)
        a = f32[5] exp2(x), result_accuracy={tolerance={atol=0,rtol=0.5,ulps=3}}
        ROOT b = f32[5] log2(a), result_accuracy={mode=highest} }""",
    "shuffle": """ENTRY e { x = f32[5,3] parameter(0)
        ROOT a = f32[5,3] shuffle(x), dimensions={1,0}, mode=rotate, shifts={-1,7} }""",
    "collective-reduce": ADD
    + """ENTRY e { x = f32[5] parameter(0)
        r = s32[1] parameter(1)
        a = f32[5] collective-reduce(x), channel_id=3, replica_groups={{0,1}},
          use_global_device_ids=true, constrain_layout=true, to_apply=add
        ROOT b = f32[5] collective-reduce(a, r), replica_groups={}, has_dynamic_root=true,
          to_apply=add }""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_and_messages_both_ways(name, tmp_path):
    both_ways(PROGRAMS[name], tmp_path)


def test_a_false_root_is_written_too():
    text = hloom.show(hloom.parse(PROGRAMS["collective-reduce"]))
    assert "constrain_layout=true, use_global_device_ids=true, has_dynamic_root=false" in text


def test_numbers_of_fields():
    """Those of XLA 0.12: shuffle_mode is 103, its rotate 1, whose shifts are 1."""
    message = schema.HloInstructionProto()
    message.shuffle_mode.rotate.shifts.extend([3, -1])
    shifts = bytes([3]) + b"\xff" * 9 + b"\x01"
    rotate = bytes([10, len(shifts)]) + shifts
    mode = bytes([10, len(rotate)]) + rotate
    assert message.SerializeToString() == bytes([0xBA, 0x06, len(mode)]) + mode


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("dimensions={0}, mode=permute, shifts={1}", "unknown shuffle mode 'permute'; known: rot"),
        ("dimensions={0}, shifts={1}", "shuffle needs the attribute mode=rotate"),
        ("dimensions={0}, mode=rotate", "shuffle needs the attribute shifts="),
        ("mode=rotate, shifts={1}", "shuffle needs the attribute dimensions="),
    ],
)
def test_shuffles_that_are_refused(attributes, message):
    with pytest.raises(HloError) as caught:
        hloom.parse(
            f"ENTRY e {{ x = f32[4] parameter(0)\n ROOT a = f32[4] shuffle(x), {attributes} }}"
        )
    assert message in str(caught.value)


def test_a_mode_of_a_message_that_is_not_known(tmp_path):
    from hloom.ir.proto import module_from_proto, module_to_proto

    message = module_to_proto(hloom.parse(PROGRAMS["shuffle"]))
    for i in message.computations[0].instructions:
        i.ClearField("shuffle_mode")
    with pytest.raises(HloError, match="whose mode is not rotate"):
        module_from_proto(message)


@pytest.mark.parametrize("shifts", [(0, 0), (1, 2), (-1, 7), (5, -3), (2**63 - 1, -(2**63))])
@pytest.mark.parametrize("dims", [(5, 3), (1, 4), (0, 2), (33, 70)])
def test_shuffles_are_rotations_evaluated_and_compiled(dims, shifts):
    size = ",".join(map(str, dims))
    text = f"""ENTRY e {{ x = s32[{size}] parameter(0)
        ROOT a = s32[{size}] shuffle(x), dimensions={{0,1}}, mode=rotate,
          shifts={{{shifts[0]},{shifts[1]}}} }}"""
    x = np.arange(dims[0] * dims[1], dtype=np.int32).reshape(dims)
    want = np.empty_like(x)
    for i in range(dims[0]):
        for k in range(dims[1]):
            want[i, k] = x[(i + shifts[0]) % dims[0], (k + shifts[1]) % dims[1]]
    assert np.array_equal(hloom.evaluate(hloom.parse(text), x).array, want)
    assert np.array_equal(np.asarray(hloom.compile(hloom.parse(text))(x)), want)


def test_what_a_rotated_run_time_size_gives_is_not_guessed():
    text = """ENTRY e { x = f32[4] parameter(0)
        n = s32[] parameter(1)
        y = f32[<=4] set-dimension-size(x, n), dimensions={0}
        ROOT a = f32[<=4] shuffle(y), dimensions={0}, mode=rotate, shifts={1} }"""
    given = np.ones(4, np.float32), np.int32(2)
    for run in (lambda m: hloom.evaluate(m, *given), hloom.compile):
        with pytest.raises(HloError, match="run-time size"):
            run(hloom.parse(text))


@pytest.mark.parametrize("opcode", ["exp2", "log2"])
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "f8e4m3fn", "c64"])
def test_compiled_powers_are_the_evaluated_ones(opcode, dtype):
    text = f"""ENTRY e {{ x = f32[1000] parameter(0)
        y = {dtype}[1000] convert(x)
        ROOT a = {dtype}[1000] {opcode}(y) }}"""
    x = np.linspace(0.01, 9, 1000, dtype=np.float32)
    x[:4] = 1, 2, 8, 0.5
    wide = np.complex128 if dtype == "c64" else np.float64
    want = hloom.evaluate(hloom.parse(text), x).array.astype(wide)
    found = np.asarray(hloom.compile(hloom.parse(text))(x)).astype(wide)
    last = {"f64": 3e-16, "f32": 2e-7, "c64": 2e-7, "f16": 1e-3, "bf16": 8e-3, "f8e4m3fn": 0.13}
    assert np.allclose(found, want, rtol=last[dtype], atol=1e-300, equal_nan=True)
    exact = [2, 4, 256, 2**0.5] if opcode == "exp2" else [0, 1, 3, -1]
    assert found[:3].tolist() == exact[:3]
    if opcode == "log2":
        assert found[3] == -1


def test_alone_a_collective_reduce_is_its_operand_and_else_that_of_all():
    x = np.arange(5, dtype=np.float32)
    body = "x = f32[5] parameter(0) ROOT a = f32[5] collective-reduce(x), to_apply=add"
    alone = f"HloModule m {ADD} ENTRY e {{ {body}, replica_groups={{}} }}"
    assert np.array_equal(np.asarray(hloom.compile(hloom.parse(alone))(x)), x)
    several = alone.replace("HloModule m", "HloModule m, replica_count=2")
    several = several.replace("replica_groups={}", "replica_groups={{0,1}}")
    found = hloom.compile(hloom.parse(several)).run_devices([[x], [x + 1]])
    assert np.array_equal(np.asarray(found[0]), 2 * x + 1)
    assert len(found) == 2


def test_the_newer_name_of_a_mesh_of_one_device():
    old, new = (
        hloom.parse(f"ENTRY e {{ ROOT x = f32[4] parameter(0), sharding={{{word}[device_id=3]}} }}")
        for word in ("maximal_mesh", "single_device")
    )
    assert hloom.difference(old, new) is None


@pytest.mark.parametrize(("data", "warned"), [(b"\xaa\x06\x00", 0), (b"\xaa\x06\x02\x0a\x00", 1)])
def test_empty_parts_of_a_newer_xla_are_kept_and_no_reason_to_warn(data, warned, recwarn):
    """Field 101, block_scaling_config, stands in each dot of XLA 0.12, mostly empty."""
    from hloom.ir.proto import module_from_proto, module_to_proto

    message = module_to_proto(hloom.parse("ENTRY e { ROOT x = f32[4] parameter(0) }"))
    message.computations[0].instructions[0].MergeFromString(data)
    again = module_to_proto(module_from_proto(message))
    assert data in again.computations[0].instructions[0].SerializeToString()
    assert len(recwarn) == warned
