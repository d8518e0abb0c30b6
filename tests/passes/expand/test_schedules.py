"""Expansions of scheduled modules leave valid schedules, also for the loops that they make."""

import pytest

from hloom.ir.text import parse_module, show_module
from hloom.ir.verify import verify
from hloom.passes import pass_named

TEXT = """
HloModule m, is_scheduled=true
step { a = f32[3] parameter(0)
  b = f32[3] parameter(1)
  s = f32[3] subtract(a, b)
  ROOT t = (f32[3], f32[3]) tuple(s, s) }
ENTRY e {
  x = f32[4,3] parameter(0)
  s = f32[3] parameter(1)
  y = f32[2,3,3] parameter(2)
  sizes = s32[2] parameter(3)
  b = (f32[4,3], f32[3], f32[3]) batch-norm-training(x, s, s), epsilon=0.1, feature_index=1
  g = f32[4,3] get-tuple-element(b), index=0
  k = f32[3] get-tuple-element(b), index=1
  n = s32[] constant(2)
  d = f32[<=4,3] set-dimension-size(x, n), dimensions={0}
  q = f32[4] dot(k, g), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  r = f32[4,3] ragged-dot(g, y, sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
  c = (f32[4,3], f32[3]) scan(r, s), dimensions={0}, num_carries=1, to_apply=step
  h = f32[4,3] get-tuple-element(c), index=0
  ROOT t = (f32[4,3], f32[<=4,3], f32[4]) tuple(h, d, q)
}"""  # noqa: E501


@pytest.mark.parametrize(
    "name",
    [
        "batch-norm-expander",
        "dot-decomposer",
        "dynamic-padder",
        "ragged-dot-expander",
        "scan-expander",
    ],
)
def test_the_schedule_stays_valid(name):
    module = parse_module(TEXT)
    assert pass_named(name).run(module).changed
    verify(module)
    verify(parse_module(show_module(module)))
