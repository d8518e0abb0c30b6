"""Operands of conditionals, states that nobody reads, tiles of tables: what is not received."""

import pytest

from hloom.analysis.communication import communications
from hloom.ir.module import Module
from tests.passes.partition.test_partitioner import cut_and_compared, traffic

BRANCHES = """tanh { p = f32[8,16] parameter(0) ROOT t = f32[8,16] tanh(p) }
negate { p = f32[8,16] parameter(0) ROOT n = f32[8,16] negate(p) }
both { p = (f32[8,16], f32[16,8]) parameter(0) a = f32[8,16] get-tuple-element(p), index=0
  b = f32[16,8] get-tuple-element(p), index=1 t = f32[8,16] transpose(b), dimensions={1,0}
  ROOT s = f32[8,16] add(a, t) }
ENTRY main {
  which = s32[] parameter(0)
  """


def received(cut: Module) -> float:
    """Bytes before the branches of conditionals and in all of them."""
    return sum([r.total_bytes for r in communications(cut)])


def test_branches_read_what_was_exchanged_before_them() -> None:
    cut = cut_and_compared(BRANCHES + """x = f32[8,16] parameter(1), sharding={devices=[4,1]<=[4]}
      y = f32[8,16] sine(x), sharding={devices=[1,4]<=[4]}
      c = f32[8,16] conditional(which, x, x), branch_computations={tanh, negate},
        sharding={devices=[1,4]<=[4]}
      ROOT r = (f32[8,16], f32[8,16]) tuple(y, c),
        sharding={{devices=[1,4]<=[4]}, {devices=[1,4]<=[4]}}
    }""")  # fmt: skip
    assert traffic(cut) == {"all-to-all": 8 * 16 // 4}


def test_branches_cut_by_themselves_what_every_device_has() -> None:
    cut = cut_and_compared(BRANCHES + """x = f32[8,16] parameter(1), sharding={replicated}
      y = f32[8,16] sine(x), sharding={devices=[4,1]<=[4]}
      c = f32[8,16] conditional(which, y, y), branch_computations={tanh, negate},
        sharding={devices=[1,4]<=[4]}
      ROOT r = (f32[8,16], f32[8,16]) tuple(y, c),
        sharding={{devices=[4,1]<=[4]}, {devices=[1,4]<=[4]}}
    }""")  # fmt: skip
    assert traffic(cut) == {}


def test_what_one_branch_reads_is_received_there_alone() -> None:
    cut = cut_and_compared(BRANCHES + """x = f32[8,16] parameter(1), sharding={devices=[1,4]<=[4]}
      z = f32[8,16] parameter(2), sharding={devices=[4,1]<=[4]}
      w = f32[16,8] parameter(3), sharding={devices=[1,4]<=[4]}
      t = (f32[8,16], f32[16,8]) tuple(z, w)
      c = f32[8,16] conditional(which, x, t), branch_computations={tanh, both},
        sharding={devices=[4,1]<=[4]}
      ROOT r = f32[8,16] copy(c), sharding={devices=[4,1]<=[4]}
    }""")  # fmt: skip
    (exchange,) = communications(cut)
    assert exchange.kind == "all-to-all"
    assert exchange.instruction.parent is not cut.entry


def test_a_state_of_a_loop_that_nobody_reads_is_not_computed() -> None:
    cut = cut_and_compared("""test { p = (s32[], f32[8,16], f32[8]) parameter(0)
      k = s32[] get-tuple-element(p), index=0  n = s32[] constant(3)
      ROOT c = pred[] compare(k, n), direction=LT }
    body { p = (s32[], f32[8,16], f32[8]) parameter(0)
      k = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)
      a = f32[8,16] get-tuple-element(p), index=1  b = f32[8] get-tuple-element(p), index=2
      ta = f32[8,16] tanh(a)  tb = f32[8] sine(b)  next = s32[] add(k, one)
      ROOT t = (s32[], f32[8,16], f32[8]) tuple(next, ta, tb) }
    ENTRY main {
      x = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}
      w = f32[16] parameter(1), sharding={devices=[4]<=[4]}
      y = f32[8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      zero = s32[] constant(0)
      s = (s32[], f32[8,16], f32[8]) tuple(zero, x, y)
      l = (s32[], f32[8,16], f32[8]) while(s), condition=test, body=body
      ROOT r = f32[8,16] get-tuple-element(l), index=1, sharding={devices=[4,1]<=[4]}
    }""")  # fmt: skip
    assert traffic(cut) == {}


@pytest.mark.parametrize("table", ["1,0,2,3", "0,1,3,2", "2,0,1,3", "0,2,1,3"])
def test_tiles_of_a_table_are_handed_on_once(table: str) -> None:
    cut = cut_and_compared(f"""ENTRY main {{
      x = f32[4,4] parameter(0), sharding={{devices=[4,1]0,2,1,3}}
      y = f32[4,4] multiply(x, x)
      ROOT r = f32[4,4] copy(y), sharding={{devices=[2,2]{table}}}
    }}""")
    assert received(cut) <= 8 + 16


def test_what_only_the_result_holds_is_not_cut_to_be_gathered() -> None:
    cut = cut_and_compared("""
    ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=GE }
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    ENTRY main {
      x = f32[8,8] parameter(0), sharding={replicated}
      s = f32[8,4] parameter(1), sharding={devices=[4,1]<=[4]}
      zero = f32[] constant(0)
      y = f32[8,8] select-and-scatter(x, s, zero), window={size=1x2 stride=1x2}, select=ge,
        scatter=add
      ROOT r = (f32[8,8]) tuple(y), sharding={{replicated}}
    }""")
    assert traffic(cut) == {"all-gather": 8 * 4}


def test_what_nobody_reads_behind_a_barrier_is_not_computed() -> None:
    cut = cut_and_compared("""ENTRY main {
      x = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}
      w = f32[16] parameter(1), sharding={devices=[4]<=[4]}
      y = f32[8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      t = (f32[8,16], f32[8]) tuple(x, y)
      b = (f32[8,16], f32[8]) opt-barrier(t)
      ROOT r = f32[8,16] get-tuple-element(b), index=0, sharding={devices=[4,1]<=[4]}
    }""")
    assert traffic(cut) == {}
