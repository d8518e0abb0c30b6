"""Tokens handed through loops and branches: what is fed comes in the same order as before."""

import numpy as np

import hloom

NESTED = """HloModule nested
cond { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3) ROOT less = pred[] compare(i, n), direction=LT }
feeding { x = f32[4] parameter(0) tok = token[] after-all()
  first = token[] outfeed(x, tok), outfeed_shape=f32[4] y = f32[4] add(x, x)
  second = token[] outfeed(y, tok), outfeed_shape=f32[4] ROOT z = f32[4] negate(y) }
other { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  odd = pred[] compare(i, one), direction=NE
  y = f32[4] conditional(odd, x, x), true_computation=feeding, false_computation=other
  ROOT r = (s32[], f32[4]) tuple(next, y)
}
ENTRY nested {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(init), condition=cond, body=body
  y = f32[4] get-tuple-element(w), index=1
  tok = token[] after-all()
  fed = token[] outfeed(y, tok), outfeed_shape=f32[4]
  ROOT r = f32[4] add(y, y)
}"""


def fed(module: hloom.Module) -> list[np.ndarray]:
    """The result, and what came out."""
    exe = hloom.compile(module)
    result = np.asarray(exe(np.array([1, 2, 3, 4], np.float32)))
    return [result, *(np.asarray(exe.outfeed()) for _ in range(5))]


def test_what_is_fed_comes_in_its_order() -> None:
    before, after = hloom.parse(NESTED), hloom.parse(NESTED)
    result = hloom.pass_named("infeed-token-propagation").run(after)
    assert result.changed
    hloom.verify(after)
    assert not hloom.pass_named("infeed-token-propagation").run(after).changed
    hloom.pass_named("call-inliner").run(after)
    np.testing.assert_array_equal(fed(before), fed(after))


def test_feeds_of_a_computation_wait_for_one_another() -> None:
    module = hloom.parse(NESTED)
    hloom.pass_named("infeed-token-propagation").run(module)
    feeding = next(c for c in module.computations if c.name == "feeding")
    first, second = [i for i in feeding.in_order() if i.opcode == "outfeed"]
    assert second.operands[1] is first
