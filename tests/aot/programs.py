"""Programs that become libraries: each kind of step, and each way to hand arrays over."""

SUM = "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }"

PROGRAMS = {
    "dot": """HloModule m
ENTRY e {
  x = f32[33,65] parameter(0)
  w = f32[65,130] parameter(1)
  d = f32[33,130] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[33,130] tanh(d)
}""",
    "convolution": """HloModule m
ENTRY e {
  x = f32[2,9,9,8] parameter(0)
  k = f32[3,3,8,16] parameter(1)
  ROOT c = f32[2,5,5,16] convolution(x, k), window={size=3x3 stride=2x2 pad=1_1x1_1},
    dim_labels=b01f_01io->b01f
}""",
    "loop": """HloModule m
cond {
  s = (s32[], f32[16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[16] get-tuple-element(s), index=1
  first = f32[1] slice(v), slice={[0:1]}
  f = f32[] reshape(first)
  most = f32[] constant(100)
  small = pred[] compare(f, most), direction=LT
  n = s32[] constant(50)
  left = pred[] compare(i, n), direction=LT
  ROOT go = pred[] and(small, left)
}
body {
  s = (s32[], f32[16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[16] get-tuple-element(s), index=1
  c = f32[] constant(1.5)
  b = f32[16] broadcast(c), dimensions={}
  w = f32[16] multiply(v, b)
  u = f32[16] add(w, b)
  ROOT t = (s32[], f32[16]) tuple(j, u)
}
ENTRY e {
  v = f32[16] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[16]) tuple(zero, v)
  ROOT w = (s32[], f32[16]) while(s), condition=cond, body=body
}""",
    "counted_loop": """HloModule m
cond {
  s = (s32[], f64[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7)
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f64[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f64[4] get-tuple-element(s), index=1
  u = f64[4] sine(v)
  ROOT t = (s32[], f64[4]) tuple(j, u)
}
ENTRY e {
  v = f64[4] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f64[4]) tuple(zero, v)
  w = (s32[], f64[4]) while(s), condition=cond, body=body
  ROOT r = f64[4] get-tuple-element(w), index=1
}""",
    "conditional": """HloModule m
double { x = f32[300] parameter(0)
  ROOT r = f32[300] add(x, x) }
root { x = f32[300] parameter(0)
  a = f32[300] abs(x)
  ROOT r = f32[300] sqrt(a) }
same { ROOT x = f32[300] parameter(0) }
ENTRY e {
  n = s32[] parameter(0)
  x = f32[300] parameter(1)
  ROOT r = f32[300] conditional(n, x, x, x), branch_computations={double, root, same}
}""",
    "sort": """HloModule m
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT
}
ENTRY e {
  x = f32[3,40,5] parameter(0)
  i = s32[3,40,5] iota(), iota_dimension=1
  s = (f32[3,40,5], s32[3,40,5]) sort(x, i), dimensions={1}, is_stable=true, to_apply=less
  ROOT r = (f32[3,40,5], s32[3,40,5]) copy(s)
}""",
    "comparator": """HloModule m
less {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = bf16[] parameter(2)
  d = bf16[] parameter(3)
  seven = s32[] constant(7)
  x = s32[] and(a, seven)
  y = s32[] and(b, seven)
  ROOT r = pred[] compare(x, y), direction=LT
}
ENTRY e {
  x = s32[4,100] parameter(0)
  y = bf16[4,100] parameter(1)
  ROOT s = (s32[4,100], bf16[4,100]) sort(x, y), dimensions={1}, to_apply=less
}""",
    "topk": """HloModule m
ENTRY e {
  x = f32[6,77] parameter(0)
  ROOT t = (f32[6,9], s32[6,9]) topk(x), k=9, largest=true
}""",
    "random_bits": """HloModule m
ENTRY e {
  key = u64[2] parameter(0)
  r = (u64[2], u32[37]) rng-bit-generator(key), algorithm=rng_three_fry
  next = u64[2] get-tuple-element(r), index=0
  bits = u32[37] get-tuple-element(r), index=1
  ROOT t = (u64[2], u32[37]) tuple(next, bits)
}""",
    "state_in_place": """HloModule m, input_output_alias={ {1}: (1, {}, must-alias) }
ENTRY e {
  x = f32[64] parameter(0)
  state = f32[64] parameter(1)
  i = s32[] parameter(2)
  new = f32[64] add(x, state)
  part = f32[8] slice(new), slice={[0:8]}
  at = s32[] clamp(i, i, i)
  next = f32[64] dynamic-update-slice(state, part, at)
  old = f32[64] negate(x)
  ROOT t = (f32[64], f32[64]) tuple(old, next)
}""",
    "several_outputs": """HloModule m
"""
    + SUM
    + """
ENTRY e {
  p = (f32[5,7], (s32[3], pred[2])) parameter(0)
  x = f32[5,7] get-tuple-element(p), index=0
  q = (s32[3], pred[2]) get-tuple-element(p), index=1
  n = s32[3] get-tuple-element(q), index=0
  z = f32[] constant(0)
  s = f32[5] reduce(x, z), dimensions={1}, to_apply=sum
  c = f32[2] constant({3, 4})
  q2 = (s32[3], f32[5]) tuple(n, s)
  ROOT t = (f32[5], (s32[3], f32[5]), f32[2], f32[5,7]) tuple(s, q2, c, x)
}""",
    "empty_arrays": """HloModule m
ENTRY e {
  x = f32[0,4] parameter(0)
  y = f32[3,4] parameter(1)
  c = f32[3,4] concatenate(x, y), dimensions={0}
  z = f32[0] constant({})
  ROOT t = (f32[3,4], f32[0], f32[0,4]) tuple(c, z, x)
}""",
    "bf16": """HloModule m
ENTRY e {
  x = bf16[20,64] parameter(0)
  w = bf16[64,48] parameter(1)
  d = bf16[20,48] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT l = bf16[20,48] logistic(d)
}""",
    "constants": """HloModule m
ENTRY e {
  x = f32[1,64] parameter(0)
  i = f32[64,256] iota(), iota_dimension=1
  c = f32[4] constant({1, 2, -inf, 3e-45})
  s = f32[64,256] sine(i)
  d = f32[1,256] dot(x, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[1,256], f32[4]) tuple(d, c)
}""",
    "gather_scatter": """HloModule m
"""
    + SUM
    + """
ENTRY e {
  x = f32[50,6] parameter(0)
  i = s32[9,1] parameter(1)
  g = f32[9,6] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,6}
  ROOT s = f32[50,6] scatter(x, i, g), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
}""",
    "complex": """HloModule m
ENTRY e {
  x = c64[11] parameter(0)
  y = f64[11] parameter(1)
  e = c64[11] exponential(x)
  l = f64[11] log-plus-one(y)
  ROOT t = (c64[11], f64[11]) tuple(e, l)
}""",
    "no_inputs": """HloModule m
ENTRY e {
  ROOT i = s64[12] iota(), iota_dimension=0
}""",
    "same_twice": """HloModule m
ENTRY e {
  x = u8[10] parameter(0)
  y = u8[10] add(x, x)
  ROOT t = (u8[10], u8[10], u8[10]) tuple(y, y, x)
}""",
}
