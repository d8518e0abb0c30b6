"""Passes that are asked not to run, under XLA's names too, while a program is partitioned."""

import numpy as np
import pytest

import hloom
from hloom.passes.partition.whole_program import partitioned
from hloom.passes.pipeline import PipelineOptions
from hloom.passes.sharding.sharding_propagation import ShardingPropagation

STATED = """HloModule m, num_partitions=4
ENTRY main {
  x = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}
  y = f32[8,16] tanh(x)
  t = f32[16,8] transpose(y), dimensions={1,0}
  ROOT r = f32[16,8] negate(t), sharding={devices=[1,4]<=[4]}
}"""
SHARDY = """HloModule m, num_partitions=4,
  frontend_attributes={xla.sdy.meshes={m = #sdy.mesh<["x"=4]>}}
ENTRY main {
  x = f32[8,16] parameter(0),
    frontend_attributes={xla.sdy.sharding="#sdy.sharding<@m, [{\\"x\\"}, {}]>"}
  y = f32[8,16] tanh(x)
  ROOT r = f32[8,16] custom-call(y), custom_call_target="xla.sdy.FuncResultSharding",
    custom_call_has_side_effect=true,
    frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@m, [{\\"x\\"}, {}]>]>"}
}"""


def cut_without(text: str, *names: str) -> hloom.Module:
    module = hloom.parse(text)
    module.use_spmd_partitioning = True
    return partitioned(module, None, PipelineOptions(frozenset(names)).runs)


def sizes(module: hloom.Module, opcode: str) -> list[tuple[int, ...]]:
    return [i.shape.dims for i in module.instructions() if i.opcode == opcode]


def test_without_propagation_the_partitioner_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShardingPropagation, "run", None)
    with pytest.raises(TypeError):
        cut_without(STATED)
    assert sizes(cut_without(STATED, "sharding-propagation"), "transpose") == [(16, 2)]


def test_without_the_partitioner_every_device_computes_the_whole() -> None:
    assert sizes(cut_without(STATED, "spmd-partitioner"), "tanh") == [(8, 16)]


def test_shardy_by_its_name() -> None:
    assert sizes(cut_without(SHARDY), "tanh") == [(2, 16)]
    module = hloom.parse(SHARDY)
    fired = hloom.pass_named("shardy-xla").run(module).fired
    assert fired["shardings"] == 2 and module.entry["y"].sharding is not None
    assert not hloom.pass_named("shardy-xla").run(hloom.parse(STATED)).changed
    assert sizes(cut_without(SHARDY, "shardy-xla"), "tanh") == [(8, 16)]


@pytest.mark.parametrize("name", ["sharding-propagation", "shardy-xla", "spmd-partitioner"])
def test_options_reach_the_partitioner(name: str) -> None:
    module = hloom.parse(STATED)
    module.use_spmd_partitioning = True
    (x,) = hloom.random_arguments(module)
    exe = hloom.compile(module, options={"xla_disable_hlo_passes": name})
    parts = np.split(np.asarray(x.array), 4)
    results = exe.run_devices([[p] for p in parts])
    found = np.concatenate([np.asarray(r) for r in results], axis=1)
    np.testing.assert_allclose(found, -np.tanh(x.array).T, rtol=1e-5)
