"""Where the partitioner has a fault, every device computes the whole program."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import UnsupportedError
from hloom.base.faults import CompilerFaultError, CompilerFaultWarning, Fault
from hloom.interp.lockstep import evaluate_lockstep
from hloom.ir.module import Module
from hloom.ir.values.sharding_data import join_array
from hloom.passes import PASSES
from hloom.passes.partition import whole_program
from hloom.passes.partition.whole_program import partitioned, split_arguments
from tests.fuzz import partition_sketch_calls, partition_sketch_ops  # noqa: F401  kinds of steps
from tests.fuzz.partition_sketch import Sketch

REGION = """HloModule m, num_partitions=4
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[8,5] parameter(0), sharding={devices=[1,4]<=[4]}
  s = f32[8,5] custom-call(x), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
  l = f32[2,5] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={manual}
  r = f32[2,5] all-reduce(l), channel_id=1, replica_groups={{0,1,2,3}},
    use_global_device_ids=true, to_apply=add, sharding={manual}
  p = u32[] partition-id(), sharding={manual}
  f = f32[] convert(p), sharding={manual}
  b = f32[2,5] broadcast(f), dimensions={}, sharding={manual}
  y = f32[2,5] add(r, b), sharding={manual}
  ROOT w = f32[8,5] custom-call(y), custom_call_target="SPMDShardToFullShape",
    sharding={devices=[4,1]<=[4]}
}"""


def raising(*_: object, **__: object) -> None:
    raise KeyError("planted")


def joined(cut: Module, results: list, wanted: list) -> list[np.ndarray]:
    of = cut.spmd_output_sharding
    shardings = of.elements if of.is_tuple else (of,)
    return [
        join_array([np.asarray(r[k]) for r in results], s, w.shape)
        for k, (s, w) in enumerate(zip(shardings, wanted, strict=True))
    ]


def wanted_of(module: Module, seed: int = 0) -> tuple[list, list]:
    arguments = hloom.random_arguments(module, seed)
    return arguments, [np.asarray(x.array) for x in hloom.evaluate(module, *arguments).leaves()]


@pytest.mark.parametrize("seed", range(12))
def test_drawn_programs_compute_the_same(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    module = Sketch(seed).module()
    arguments, wanted = wanted_of(module, seed)
    monkeypatch.setattr(whole_program, "partition_module", raising)
    faults: list[Fault] = []
    cut = partitioned(module, faults)
    results = evaluate_lockstep(cut, split_arguments(cut, arguments))
    leaves = [[x.array for x in r.leaves()] for r in results]
    for got, want in zip(joined(cut, leaves, wanted), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    if cut is not module:
        [fault] = faults
        assert fault.culprit.name == "spmd-partitioner"
        assert fault.remedy == "every device computes the whole program"


def test_regions_stay_cut_and_the_user_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOOM_STRICT", "0")
    module = hloom.parse(REGION)
    module.use_spmd_partitioning = True
    x = np.arange(40, dtype=np.float32).reshape(8, 5)
    wanted = np.concatenate([x.reshape(4, 2, 5).sum(0) + k for k in range(4)])
    monkeypatch.setattr(whole_program, "partition_module", raising)
    cut = partitioned(module, [])
    parts = [[p.array for p in each] for each in split_arguments(cut, [hloom.Literal.of(x)])]
    with pytest.warns(CompilerFaultWarning, match="pass spmd-partitioner.*whole program") as seen:
        results = hloom.compile(module).run_devices(parts)
    assert len(seen) == 1
    [got] = joined(cut, [[r] for r in results], [wanted])
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", ["sharding-propagation", "call-inliner", "dce"])
def test_a_pass_beside_the_partitioner_is_left_out(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    module = Sketch(3).module()
    arguments, wanted = wanted_of(module, 3)
    monkeypatch.setattr(PASSES[name], "run", raising)
    faults: list[Fault] = []
    cut = partitioned(module, faults)
    assert [(f.culprit.name, f.remedy) for f in faults] == [(name, "that pass was left out")]
    results = evaluate_lockstep(cut, split_arguments(cut, arguments))
    leaves = [[x.array for x in r.leaves()] for r in results]
    for got, want in zip(joined(cut, leaves, wanted), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_what_is_refused_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    module = hloom.parse(REGION.replace("SPMDShardToFullShape", "other"))
    module.use_spmd_partitioning = True
    faults: list[Fault] = []
    with warnings.catch_warnings(), pytest.raises(UnsupportedError):
        partitioned(module, faults)
    assert faults == []


SUMMED = """HloModule m, num_partitions=4
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[8,5] parameter(0), sharding={devices=[4,1]<=[4]}
  l = f32[2,5] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  r = f32[2,5] all-reduce(l), channel_id=1, replica_groups={{0,1,2,3}},
    use_global_device_ids=true, to_apply=add, sharding={manual}
  ROOT w = f32[2,5] custom-call(r), custom_call_target="SPMDShardToFullShape",
    sharding={replicated}
}"""


def test_what_leaves_a_region_may_be_alike_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    module = hloom.parse(SUMMED)
    module.use_spmd_partitioning = True
    monkeypatch.setattr(whole_program, "partition_module", raising)
    cut = partitioned(module, [])
    x = np.arange(40, dtype=np.float32).reshape(8, 5)
    for r in evaluate_lockstep(cut, split_arguments(cut, [hloom.Literal.of(x)])):
        np.testing.assert_array_equal(np.asarray(r.array), x.reshape(4, 2, 5).sum(0))


SENT = """HloModule m, num_partitions=2
ENTRY main { x = f32[8] parameter(0), sharding={devices=[2]<=[2]}
  k = token[] after-all()
  s = (f32[8], u32[], token[]) send(x, k), channel_id=1, is_host_transfer=true
  d = token[] send-done(s), channel_id=1, is_host_transfer=true
  ROOT y = f32[8] negate(x), sharding={devices=[2]<=[2]} }"""


def test_what_cannot_be_computed_whole_says_whose_fault_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = hloom.parse(SENT)
    module.use_spmd_partitioning = True
    monkeypatch.setattr(whole_program, "partition_module", raising)
    with pytest.raises(CompilerFaultError, match=r"hloom has a fault.*planted.*every device"):
        partitioned(module, [])
    monkeypatch.setattr(whole_program, "computed_whole", raising)
    with pytest.raises(CompilerFaultError, match=r"hloom has a fault.*planted.*; KeyError: 'pla"):
        partitioned(module, [])
