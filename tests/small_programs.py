"""Small programs that tests compile: a sum, a step that donates, nested tuples, sorts in a loop."""

import numpy as np

ADD = """HloModule adds
ENTRY main {
  x = f32[3] parameter(0)
  y = f32[3] parameter(1)
  ROOT sum = f32[3] add(x, y)
}
"""
STEP = """HloModule step, input_output_alias={ {1}: (0, {}, may-alias) }
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  state = f32[4] parameter(0)
  more = f32[4] parameter(1)
  next = f32[4] add(state, more)
  zero = f32[] constant(0)
  loss = f32[] reduce(more, zero), dimensions={0}, to_apply=sum
  ROOT both = (f32[], f32[4]) tuple(loss, next)
}
"""
NESTED = """HloModule nested
ENTRY main {
  p = (f32[2], (s32[], f32[3])) parameter(0)
  q = f32[2] parameter(1)
  a = f32[2] get-tuple-element(p), index=0
  inner = (s32[], f32[3]) get-tuple-element(p), index=1
  n = s32[] get-tuple-element(inner), index=0
  b = f32[3] get-tuple-element(inner), index=1
  sum = f32[2] add(a, q)
  pair = (f32[2], s32[]) tuple(sum, n)
  ROOT r = ((f32[2], s32[]), f32[3]) tuple(pair, b)
}
"""
LOOPS = """HloModule loops
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
body {
  s = (s32[], f32[40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  v = f32[40] get-tuple-element(s), index=1
  w = f32[40] sort(v), dimensions={0}, to_apply=less
  ROOT t = (s32[], f32[40]) tuple(next, w)
}
condition {
  c = (s32[], f32[40]) parameter(0)
  j = s32[] get-tuple-element(c), index=0
  n = s32[] constant(24)
  ROOT less.1 = pred[] compare(j, n), direction=LT
}
ENTRY main {
  k = s32[] parameter(0)
  x = f32[40] parameter(1)
  start = (s32[], f32[40]) tuple(k, x)
  ROOT loop = (s32[], f32[40]) while(start), condition=condition, body=body
}
"""
X, Y = np.float32([1, 2, 4]), np.float32([10, 20, 30])
