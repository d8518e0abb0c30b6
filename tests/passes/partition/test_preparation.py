"""What prepares a program for the partitioner changes no result, and less is sent."""

import numpy as np
import pytest

import hloom
from hloom.analysis.communication import communications
from hloom.base.diagnostics import UsageError
from hloom.ir.copy import copy_module
from hloom.ir.values.sharding_data import join_array
from hloom.passes.partition.whole_program import partition_in_place, split_arguments
from hloom.passes.sharding.propagate import Propagation
from tests.pass_case import leaves

SHARED = "devices=[4,1]<=[4]"


def joined(first: int, second: int, width: int) -> hloom.Module:
    """Products, sums and scatters of two arrays that are joined along the dimension of devices."""
    n = first + second
    return hloom.parse(f"""HloModule m, num_partitions=4
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
most {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }}
ENTRY e {{
  a = f32[{first},{width}] parameter(0), sharding={{{SHARED}}}
  b = f32[{second},{width}] parameter(1), sharding={{{SHARED}}}
  ia = s32[{first},1] parameter(2), sharding={{{SHARED}}}
  ib = s32[{second},1] parameter(3), sharding={{{SHARED}}}
  out = f32[10,{width}] parameter(4), sharding={{replicated}}
  one = f32[] constant(1)
  x = f32[{n},{width}] concatenate(a, b), dimensions={{0}}
  r = f32[{width}] reduce(x, one), dimensions={{0}}, to_apply=most
  y = f32[{n},{width}] concatenate(a, b), dimensions={{0}}
  ea = f32[{first},{width}] exponential(a)
  eb = f32[{second},{width}] exponential(b)
  z = f32[{n},{width}] concatenate(ea, eb), dimensions={{0}}
  d = f32[{width},{width}] dot(y, z), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  i = s32[{n},1] concatenate(ia, ib), dimensions={{0}}
  u = f32[{n},{width}] concatenate(ea, b), dimensions={{0}}
  s = f32[10,{width}] scatter(out, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=sum
  ROOT t = (f32[{width}], f32[{width},{width}], f32[10,{width}]) tuple(r, d, s),
    sharding={{{{replicated}},{{replicated}},{{replicated}}}}
}}""")


@pytest.mark.parametrize(("first", "second", "width"), [(64, 64, 8), (9, 4, 3), (1, 70, 5)])
def test_sums_of_joined_arrays(first: int, second: int, width: int) -> None:
    whole = joined(first, second, width)
    arguments = hloom.random_arguments(whole, seed=1)
    wanted = [np.asarray(x.array) for x in hloom.evaluate(whole, *arguments).elements]
    sent = {}
    for is_prepared in (False, True):
        module = copy_module(whole)
        hloom.pass_named("sharding-propagation").run(module)
        if is_prepared:
            result = hloom.pass_named("spmd-prepare").run(module)
            assert result.fired == {"reduce": 1, "dot": 1, "scatter": 1}
        partition_in_place(module)
        hloom.verify(module)
        for device in hloom.compile(module).run_devices(split_arguments(module, arguments)):
            for x, y in zip(wanted, leaves(device), strict=True):
                np.testing.assert_allclose(x, np.asarray(y), rtol=1e-5, atol=1e-5)
        sent[is_prepared] = sum([r.total_bytes for r in communications(module)])
    assert sent[True] < sent[False]


def test_what_is_assigned_partitions() -> None:
    module = hloom.parse("""HloModule m, num_partitions=8
ENTRY e {
  x = f32[64,128] parameter(0)
  w = f32[128,512] parameter(1)
  v = f32[512,128] parameter(2)
  h = f32[64,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[64,512] tanh(h)
  ROOT y = f32[64,128] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""")
    arguments = hloom.random_arguments(module, seed=1)
    wanted = hloom.evaluate(module, *arguments).array
    assert hloom.pass_named("partition-assignment").run(module).changed
    assert any(p.sharding.kind != "replicated" for p in module.entry.parameters if p.sharding)
    partition_in_place(module)
    results = hloom.compile(module).run_devices(split_arguments(module, arguments))
    parts = [np.asarray(leaves(r)[0]) for r in results]
    assert module.spmd_output_sharding is not None
    joined_again = join_array(parts, module.spmd_output_sharding, (64, 128))
    np.testing.assert_allclose(joined_again, wanted, rtol=1e-4, atol=1e-4)


def test_a_mesh_that_is_none_is_refused() -> None:
    module = hloom.parse("ENTRY e { ROOT x = f32[4] parameter(0) }")
    with pytest.raises(UsageError, match="is no mesh"):
        hloom.pass_named("partition-assignment", mesh="4,2").run(module)


def test_propagation_runs_once_where_refinement_changes_nothing(monkeypatch):
    runs, run = list[Propagation](), Propagation.run
    monkeypatch.setattr(Propagation, "run", lambda self: (runs.append(self), run(self))[1])
    module = hloom.parse(f"""HloModule m, num_partitions=4
ENTRY e {{
  x = f32[8,4] parameter(0), sharding={{{SHARED}}}
  y = f32[8,4] tanh(x)
  ROOT z = f32[8,4] negate(y)
}}""")
    partition_in_place(module)
    assert len(runs) == 1
    assert module.entry.root.shape.dims == (2, 4)
