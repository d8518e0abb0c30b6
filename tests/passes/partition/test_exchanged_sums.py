"""Operands of a sum over what is cut are exchanged where they are less than the sum."""

import pytest

from hloom.base.diagnostics import UnsupportedError
from hloom.passes.partition import spmd_partitioner
from hloom.passes.partition.exchanged_sums import SumExchange
from hloom.passes.partition.whole_program import partitioned
from tests.passes.partition.test_partitioner import cut_and_compared, parsed, traffic

FEATURES = """ENTRY main {
  x = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}
  w = f32[16,1024] parameter(1), sharding={replicated}
  ROOT y = f32[8,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
GRADIENT = """ENTRY main {
  x = f32[8,64] parameter(0), sharding={devices=[4,1]<=[4]}
  d = f32[8,64] parameter(1), sharding={devices=[4,1]<=[4]}
  a = f32[64,64] parameter(2), sharding={replicated}
  g = f32[64,64] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
"""
RETURNED = GRADIENT + "  ROOT y = f32[64,64] add(g, a), sharding={replicated}\n}"
THREE = (
    GRADIENT
    + """  p = f32[64,64] add(g, a)
  q = f32[64,64] multiply(g, a)
  r = f32[64,64] subtract(g, a)
  u = f32[64,64] tanh(p)
  v = f32[64,64] tanh(q)
  w = f32[64,64] tanh(r)
  ROOT t = (f32[64,64], f32[64,64], f32[64,64]) tuple(u, v, w),
    sharding={{replicated}, {replicated}, {replicated}}
}"""
)


def test_features_are_exchanged_for_rows_where_the_result_may_stand_anyhow() -> None:
    module = parsed(FEATURES, 4)
    module.allow_spmd_sharding_propagation_to_output = (True,)
    cut = partitioned(module)
    assert traffic(cut) == {"all-to-all": 2 * 16} and cut.spmd_output_sharding.tile_dims[0] == 4


def test_few_rows_are_exchanged_where_a_gradient_of_large_weights_is_made_of_them() -> None:
    exchanged = traffic(cut_and_compared(RETURNED))
    assert "all-reduce" not in exchanged and sum(exchanged.values()) < 2 * 64 * 64


def test_what_three_results_are_made_of_is_summed_once() -> None:
    """Each of the three would be gathered."""
    assert traffic(cut_and_compared(THREE)) == {"all-reduce": 64 * 64}


@pytest.mark.parametrize("refused", [*SumExchange])
def test_a_program_that_is_refused_with_exchanges_is_partitioned_without(refused, monkeypatch):
    plain = spmd_partitioner.partition_once

    def partition_once(*arguments, exchange):
        if exchange is refused:
            raise UnsupportedError("no such exchange")
        return plain(*arguments, exchange=exchange)

    monkeypatch.setattr(spmd_partitioner, "partition_once", partition_once)
    if refused is SumExchange.NEVER:
        with pytest.raises(UnsupportedError, match="no such exchange"):
            cut_and_compared(THREE)
    else:
        assert traffic(cut_and_compared(THREE)) == {"all-reduce": 64 * 64}


def test_steps_of_over_five_hundred_instructions_are_partitioned_in_several_ways() -> None:
    """Few rows are exchanged in them, too."""
    lines = [f"  n{k} = f32[] negate({f'n{k - 1}' if k else 'c'})" for k in range(600)]
    end = """  b = f32[64,64] broadcast(n599), dimensions={}
  s = f32[64,64] add(g, b)
  ROOT y = f32[64,64] add(s, a), sharding={replicated}
}"""
    text = "\n".join([GRADIENT, "  c = f32[] parameter(3)", *lines, end])
    exchanged = traffic(partitioned(parsed(text, 4)))
    assert "all-reduce" not in exchanged and sum(exchanged.values()) < 2 * 64 * 64
