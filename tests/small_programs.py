"""Small programs that tests compile and call: a sum, a step that donates, nested tuples."""

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
X, Y = np.float32([1, 2, 4]), np.float32([10, 20, 30])
