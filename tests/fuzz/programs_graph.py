"""Small valid modules to break: the verifier's cases, and programs with several features."""

from tests.ir.verify_cases import cases

LOOP = """
HloModule loop, entry_computation_layout={(f32[4]{0}, s32[])->f32[4]{0}}

add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }

body {
  s = (s32[], f32[4]{0}, s32[]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  x = f32[4]{0} get-tuple-element(s), index=1
  n = s32[] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(k, one)
  zero = f32[] constant(0)
  total = f32[] reduce(x, zero), dimensions={0}, to_apply=add
  spread = f32[4]{0} broadcast(total), dimensions={}
  y = f32[4]{0} multiply(x, spread)
  ROOT out = (s32[], f32[4]{0}, s32[]) tuple(next, y, n)
}

cond {
  s = (s32[], f32[4]{0}, s32[]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=2
  ROOT less = pred[] compare(k, n), direction=LT
}

ENTRY main {
  x = f32[4]{0} parameter(0)
  n = s32[] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[4]{0}, s32[]) tuple(zero, x, n)
  end = (s32[], f32[4]{0}, s32[]) while(start), condition=cond, body=body
  ROOT out = f32[4]{0} get-tuple-element(end), index=1
}
"""

FUSED = """
HloModule fused, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }

inner { a = f32[2,3]{1,0} parameter(0)  ROOT b = f32[2,3]{1,0} negate(a) }

fused {
  a = f32[2,3]{1,0} parameter(0)
  b = f32[3]{0} parameter(1)
  c = f32[2,3]{1,0} broadcast(b), dimensions={1}
  d = f32[2,3]{1,0} add(a, c)
  e = f32[3,2]{1,0} transpose(d), dimensions={1,0}
  ROOT t = (f32[2,3]{1,0}, f32[3,2]{1,0}) tuple(d, e)
}

ENTRY main {
  x = f32[2,3]{1,0} parameter(0)
  y = f32[3]{0} parameter(1)
  f = (f32[2,3]{1,0}, f32[3,2]{1,0}) fusion(x, y), kind=kLoop, calls=fused
  d = f32[2,3]{1,0} get-tuple-element(f), index=0
  e = f32[3,2]{1,0} get-tuple-element(f), index=1
  g = f32[2,3]{1,0} call(d), to_apply=inner
  h = f32[2,3]{1,0} call(g), to_apply=inner
  m = f32[2,2]{1,0} dot(h, e), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[2,3]{1,0}, f32[2,2]{1,0}) tuple(h, m)
}
"""

INDEXED = """
HloModule indexed

assign { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] subtract(a, b) }

less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT e = pred[] compare(a, b), direction=LT
}

ENTRY main {
  x = f32[8,4]{1,0} parameter(0)
  at = s32[3,1]{1,0} parameter(1)
  u = f32[3,4]{1,0} gather(x, at), offset_dims={1}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
  y = f32[8,4]{1,0} scatter(x, at, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=assign
  k = s32[8,4]{1,0} iota(), iota_dimension=0
  s = (f32[8,4]{1,0}, s32[8,4]{1,0}) sort(y, k), dimensions={0}, is_stable=true, to_apply=less
  v = f32[8,4]{1,0} get-tuple-element(s), index=0
  w = f32[4,4]{1,0} slice(v), slice={[0:8:2], [0:4]}
  i = s32[] constant(1)
  z = f32[2,2]{1,0} dynamic-slice(w, i, i), dynamic_slice_sizes={2,2}
  ROOT p = f32[4,4]{1,0} pad(z, f32[] constant(0)), padding=1_1x0_1_1
}
"""

CHOICE = """
HloModule choice

double { a = f32[3]{0} parameter(0)  ROOT b = f32[3]{0} add(a, a) }
square { a = f32[3]{0} parameter(0)  ROOT b = f32[3]{0} multiply(a, a) }
never { a = () parameter(0)  ROOT b = f32[3]{0} constant({1, 2, 3}) }

ENTRY main {
  k = s32[] parameter(0)
  x = f32[3]{0} parameter(1)
  e = () tuple()
  c = f32[3]{0} conditional(k, x, x, e), branch_computations={double, square, never}
  order = token[] after-all()
  out = token[] outfeed(c, order)
  n = s32[] constant(2)
  d = f32[<=3]{0} set-dimension-size(c, n), dimensions={0}
  m = s32[] get-dimension-size(d), dimensions={0}
  ROOT t = (f32[3]{0}, s32[]) tuple(c, m), control-predecessors={out}
}
"""

SHARED = """
HloModule shared, num_partitions=2

add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }

ENTRY main {
  x = f32[4,2]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}
  r = f32[4,2]{1,0} all-reduce(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true,
    to_apply=add
  g = f32[8,2]{1,0} all-gather(r), dimensions={0}, channel_id=2, replica_groups=[1,2]<=[2],
    use_global_device_ids=true
  p = f32[8,2]{1,0} collective-permute(g), channel_id=3, source_target_pairs={{0,1},{1,0}}
  c = (f32[8,2]{1,0}, s32[]) custom-call(p), custom_call_target="mine",
    output_to_operand_aliasing={{0}: (0, {})}, backend_config={"a":1}
  ROOT d = f32[8,2]{1,0} get-tuple-element(c), index=0, metadata={op_name="here"}
}
"""

HAND_MADE = {
    **{case.name: case.text for case in cases("valid")},
    "a loop": LOOP,
    "a fusion": FUSED,
    "indexed": INDEXED,
    "a choice": CHOICE,
    "shared": SHARED,
}
