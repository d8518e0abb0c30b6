"""Programs for several devices: on one where no instruction has to do with the others, on all."""

import numpy as np
import pytest

from hloom.base.diagnostics import HloError
from hloom.compiler import compile_module
from hloom.interp import evaluate_lockstep, random_arguments
from hloom.ir.text import parse_module
from hloom.types.literal import Literal

HEAD = """
HloModule part, num_partitions=2, replica_count=3
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[4,2]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}
"""
ALONE = """
  y = f32[4,2]{1,0} exponential(x)
  r = f32[4,2]{1,0} all-reduce(y), channel_id=1, replica_groups={{0},{1},{2},{3},{4},{5}},
    use_global_device_ids=true, to_apply=add
  ROOT t = f32[4,2]{1,0} add(r, x)
}
"""
NEEDING = {
    "all-reduce": "ROOT r = f32[4,2] all-reduce(x), replica_groups={}, to_apply=add }",
    "partition-id": "ROOT p = u32[] partition-id() }",
    "replica-id": "ROOT p = u32[] replica-id() }",
    "collective-permute": "ROOT p = f32[4,2] collective-permute(x), source_target_pairs={{0,1}} }",
    "send": """
      o = token[] after-all()
      s = (f32[4,2], u32[], token[]) send(x, o), channel_id=1
      d = token[] send-done(s), channel_id=1
      ROOT t = (f32[4,2], token[]) tuple(x, d) }""",
}


def test_a_part_that_needs_no_other():
    module = parse_module(HEAD + ALONE)
    inputs = [np.random.default_rng(n).random((4, 2), np.float32) for n in range(6)]
    each = evaluate_lockstep(module, [[Literal.of(x)] for x in inputs])
    exe = compile_module(module, threads=1)
    for x, wanted in zip(inputs, each, strict=True):
        np.testing.assert_allclose(np.asarray(exe(x)), wanted.array, 1e-6)


@pytest.mark.parametrize("opcode", NEEDING)
def test_one_device_cannot_run_what_has_to_do_with_others(opcode):
    exe = compile_module(parse_module(HEAD + NEEDING[opcode]))
    x = np.ones((4, 2), np.float32)
    for call, instead in (
        (exe, "run_devices"),
        (exe.debug, "debug_devices"),
        (exe.profile, "profile_devices"),
    ):
        with pytest.raises(HloError, match="program for 6 devices") as caught:
            call(x)
        assert caught.value.rule == "device-count" and instead in str(caught.value.hint)
    assert len(exe.run_devices([[x]] * 6)) == 6
    with pytest.raises(HloError, match="runs on 6 devices, arguments for 2 were given"):
        exe.run_devices([[x]] * 2)


def test_the_only_partition_has_a_number():
    text = (HEAD + NEEDING["partition-id"]).replace("num_partitions=2, ", "")
    module = parse_module(text.replace("[2,1]<=[2]", "[3,1]<=[3]"))
    assert np.asarray(compile_module(module, threads=1)(np.ones((4, 2), np.float32))) == 0


LONELY = {
    "send": """
      o = token[] after-all()
      s = (f32[4], u32[], token[]) send(x, o), channel_id=3
      d = token[] send-done(s), channel_id=3
      r = (f32[4], u32[], token[]) recv(d), channel_id=3
      f = (f32[4], token[]) recv-done(r), channel_id=3
      ROOT g = f32[4] get-tuple-element(f), index=0 }""",
    "ragged": """
      a = s32[1] constant({1})
      b = s32[1] constant({2})
      ROOT g = f32[6] ragged-all-to-all(x, y, a, b, a, b), replica_groups={} }""",
    "in place": """
      i = s32[] constant(1)
      a = (s32[]) tuple(i)
      ROOT g = f32[6] collective-permute(x, y, a, a), source_target_pairs={{0,0}},
        slice_sizes={{2}} }""",
    "in place, from nobody": """
      i = s32[] constant(1)
      a = (s32[]) tuple(i)
      ROOT g = f32[6] collective-permute(x, y, a, a), source_target_pairs={},
        slice_sizes={{2}} }""",
}


@pytest.mark.parametrize("name", LONELY)
def test_a_device_alone_talks_to_itself(name):
    head = "HloModule m\nENTRY e { x = f32[4] parameter(0)\n y = f32[6] parameter(1)"
    module = parse_module(f"{head}\n{LONELY[name]}")
    given = [np.arange(4, dtype=np.float32), np.arange(10, 16, dtype=np.float32)]
    (wanted,) = evaluate_lockstep(module, [[Literal.of(x) for x in given]])
    exe = compile_module(module)
    for found in (exe(*given), exe.run_devices([given])[0]):
        np.testing.assert_array_equal(np.asarray(found), wanted.array)


@pytest.mark.parametrize("dtype", ["f8e8m0fnu", "f4e2m1fn", "pred", "c64", "s2", "bf16"])
@pytest.mark.parametrize("is_whole", [True, False])
def test_whom_nobody_sends_to_has_bytes_of_zeros(dtype, is_whole):
    """One of these types has no zero: the number 0 is not that which is meant."""
    many = "" if is_whole else ", num_partitions=2"
    text = f"""HloModule m{many}
ENTRY e {{ x = {dtype}[6] parameter(0)
  ROOT g = {dtype}[6] collective-permute(x), source_target_pairs={{}}, channel_id=1 }}"""
    module = parse_module(text)
    (x,) = random_arguments(module, seed=0)
    devices = 1 if is_whole else 2
    results = compile_module(module).run_devices([[x]] * devices)
    for found, wanted in zip(results, evaluate_lockstep(module, [[x]] * devices), strict=True):
        assert np.asarray(found).tobytes() == wanted.array.tobytes() == bytes(wanted.array.nbytes)
