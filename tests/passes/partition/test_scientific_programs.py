"""Bytes of what scientists write: stencils, sums over pairs, counts of clusters, microbatches."""

from hloom.analysis.communication import communications
from tests.passes.partition.test_partitioner import cut_and_compared, traffic

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"


def test_neighbours_of_a_padded_array_are_handed_on() -> None:
    """Of 34 rows no even parts; of the 32 that each slice has one row comes from the next part."""
    cut = cut_and_compared("""ENTRY main {
      x = f32[32,16] parameter(0), sharding={devices=[4,2]<=[8]}
      zero = f32[] constant(0)
      p = f32[34,18] pad(x, zero), padding=1_1x1_1
      n = f32[32,16] slice(p), slice={[0:32], [1:17]}
      s = f32[32,16] slice(p), slice={[2:34], [1:17]}
      w = f32[32,16] slice(p), slice={[1:33], [0:16]}
      a = f32[32,16] add(n, s)
      ROOT b = f32[32,16] add(a, w), sharding={devices=[4,2]<=[8]}
    }""", 8)  # fmt: skip
    assert traffic(cut) == {"collective-permute": 2 * 8 + 8}


def test_sums_over_pairs_keep_the_points_of_the_result() -> None:
    """Of rows and columns that have the same claim those are cut that the result has."""
    cut = cut_and_compared(ADD + """ENTRY main {
      x = f32[16,3] parameter(0), sharding={devices=[8,1]<=[8]}
      v = f32[16,3] parameter(1), sharding={devices=[8,1]<=[8]}
      zero = f32[] constant(0)
      j = f32[1,16,3] broadcast(x), dimensions={1,2}
      i = f32[16,1,3] broadcast(x), dimensions={0,2}
      k = f32[16,3] reshape(j)
      l = f32[16,16,3] broadcast(k), dimensions={1,2}
      m = f32[16,3] reshape(i)
      n = f32[16,16,3] broadcast(m), dimensions={0,2}
      d = f32[16,16,3] subtract(l, n)
      q = f32[16,16,3] multiply(d, d)
      e = f32[16,16] reduce(q, zero), dimensions={2}, to_apply=add
      t = f32[16,16] tanh(e)
      f = f32[16,16,3] broadcast(t), dimensions={0,1}
      g = f32[16,16,3] multiply(d, f)
      s = f32[16,3] reduce(g, zero), dimensions={1}, to_apply=add
      ROOT r = f32[16,3] add(s, v), sharding={devices=[8,1]<=[8]}
    }""", 8)  # fmt: skip
    assert traffic(cut) == {"all-gather": 16 * 3}


def test_counts_are_summed_and_what_is_counted_stays() -> None:
    cut = cut_and_compared(ADD + """ENTRY main {
      x = f32[64] parameter(0), sharding={devices=[8]<=[8]}
      a = f32[64] abs(x)
      k = s32[64] convert(a)
      i = s32[64,1] broadcast(k), dimensions={0}
      zero = f32[] constant(0)
      one = f32[] constant(1)
      z = f32[4] broadcast(zero), dimensions={}
      u = f32[64] broadcast(one), dimensions={}
      ROOT c = f32[4] scatter(z, i, u), update_window_dims={}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add, sharding={replicated}
    }""", 8)  # fmt: skip
    assert traffic(cut) == {"all-reduce": 4}


MICROBATCHES = (
    ADD
    + """test {
  t = (s32[], f32[4,8,16], f32[16,8]) parameter(0)
  k = s32[] get-tuple-element(t), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(k, n), direction=LT
}
body {
  t = (s32[], f32[4,8,16], f32[16,8]) parameter(0)
  k = s32[] get-tuple-element(t), index=0
  xs = f32[4,8,16] get-tuple-element(t), index=1
  w = f32[16,8] get-tuple-element(t), index=2
  zero = s32[] constant(0)
  x = f32[1,8,16] dynamic-slice(xs, k, zero, zero), dynamic_slice_sizes={1,8,16}
  y = f32[8,16] reshape(x)
  g = f32[8,8] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h = f32[8,8] tanh(g)
  u = f32[16,8] dot(y, h), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  v = f32[16,8] add(w, u)
  one = s32[] constant(1)
  j = s32[] add(k, one)
  ROOT r = (s32[], f32[4,8,16], f32[16,8]) tuple(j, xs, v)
}
ENTRY main {
  x = f32[32,16] parameter(0), sharding={devices=[2,1]<=[2]}
  w = f32[16,8] parameter(1), sharding={devices=[2,1]<=[2]}
  xs = f32[4,8,16] reshape(x)
  z = s32[] constant(0)
  s = (s32[], f32[4,8,16], f32[16,8]) tuple(z, xs, w)
  l = (s32[], f32[4,8,16], f32[16,8]) while(s), condition=test, body=body
  ROOT v = f32[16,8] get-tuple-element(l), index=2, sharding={devices=[2,1]<=[2]}
}"""
)


def test_what_steps_slice_is_exchanged_once_before_the_loop() -> None:
    cut = cut_and_compared(MICROBATCHES, 2)
    assert [r.runs for r in communications(cut) if r.kind == "all-to-all"] == [1]
    assert {r.kind for r in communications(cut)} == {"all-to-all", "all-reduce"}
