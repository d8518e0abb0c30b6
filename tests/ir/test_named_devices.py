"""Programs whose header says nothing of the devices that their groups name."""

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.interp import draw_instance, evaluate, evaluate_lockstep
from hloom.ir.named_devices import check_devices, run_alone
from hloom.ir.op import OPS
from hloom.ir.text import parse_module
from hloom.ir.verify import verify

GLOBAL = "channel_id=1, use_global_device_ids=true"
ROOTS = {
    "replicas": ("all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add", "replica", 4),
    "flattened": (f"all-reduce(x), replica_groups=[1,4]<=[4], to_apply=add, {GLOBAL}", "part", 4),
    "pairs": ("collective-permute(x), source_target_pairs={{0,1},{1,0}}", "replica", 2),
    "partitions": ("collective-permute(x), source_target_pairs={{0,2}}, channel_id=1", "part", 3),
}


def program(name: str, header: str = "") -> hloom.Module:
    module = parse_module(f"""HloModule m{header}
add {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
ENTRY e {{ x = f32[4] parameter(0)
  ROOT r = f32[4] {ROOTS[name][0]} }}""")
    verify(module)
    return module


@pytest.mark.parametrize("name", ROOTS)
def test_it_is_said_what_to_pass(name: str):
    _, kind, count = ROOTS[name]
    option = "--num_replicas" if kind == "replica" else "--num_partitions"
    for run in (check_devices, hloom.compile):
        with pytest.raises(HloError, match=f"names {count} devices") as refused:
            run(program(name))
        assert f"pass {option}={count}" in (refused.value.hint or "")
        assert refused.value.rule == "unsaid-devices"


@pytest.mark.parametrize("name", ROOTS)
def test_with_its_devices_it_runs(name: str):
    _, kind, count = ROOTS[name]
    header = f", {'replica_count' if kind == 'replica' else 'num_partitions'}={count}"
    module = program(name, header)
    check_devices(module)
    x = [[np.full(4, d, np.float32)] for d in range(count)]
    results = [r.array[0] for r in evaluate_lockstep(module, x)]
    wanted = {"replicas": [1, 1, 5, 5], "flattened": [6] * 4, "pairs": [1, 0],
              "partitions": [0, 0, 0]}  # fmt: skip
    assert results == wanted[name]


@pytest.mark.parametrize("name", ROOTS)
def test_one_device_alone_keeps_what_it_has_or_gets_nothing(name: str):
    module = program(name)
    assert run_alone(module) == 1
    verify(module)
    x = np.arange(4, dtype=np.float32) + 1
    want = evaluate(module, x).array
    np.testing.assert_array_equal(np.asarray(hloom.compile(module)(x)), want)
    np.testing.assert_array_equal(want, x * 0 if "permute" in ROOTS[name][0] else x)


def test_drawn_programs_say_their_devices():
    for opcode in OPS:
        for seed in range(3):
            check_devices(draw_instance(opcode, seed))
