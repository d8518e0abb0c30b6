"""What the groups around some cells say is what all groups say."""

import random

import hloom
from hloom.passes.layout.order_moves import Moves
from hloom.passes.layout.order_rules import graph_of

TEXT = """HloModule m
ENTRY e {
  x = f32[4,8,6,5] parameter(0)
  w = f32[3,3,5,7] parameter(1)
  b = f32[7] parameter(2)
  k = f32[6,9] parameter(3)
  t = f32[4,6,8,5] transpose(x), dimensions={0,2,1,3}
  e1 = f32[4,6,8,5] exponential(t)
  c = f32[4,6,8,7] convolution(e1, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  bb = f32[4,6,8,7] broadcast(b), dimensions={3}
  s = f32[4,6,8,7] add(c, bb)
  u = f32[4,7,8,6] transpose(s), dimensions={0,3,2,1}
  n = f32[4,7,8,6] negate(u)
  d = f32[4,7,8,9] dot(n, k), lhs_contracting_dims={3}, rhs_contracting_dims={0}
  v = f32[9,8,7,4] transpose(d), dimensions={3,2,1,0}
  p = f32[9,8,7,4] tanh(v)
  q = f32[4,7,8,9] transpose(p), dimensions={3,2,1,0}
  h = f32[4,7,8,9] multiply(q, d)
  ROOT r = (f32[4,7,8,9], f32[9,8,7,4], f32[4,7,8,6]) tuple(h, p, n)
}
"""


def test_groups_around_cells_change_by_what_all_groups_do():
    g = graph_of(hloom.parse(TEXT))
    moves, rng = Moves(g), random.Random(1)
    assert len(g.cells) > 4 and moves.bytes_moved(moves.groups) > 0
    smaller, changes = 0, set()
    for _ in range(200):
        cells = rng.sample(sorted(g.cells), rng.randint(1, 2))
        around = moves.around(cells)
        before = moves.bytes_moved(moves.groups), moves.bytes_moved(around)
        for cell in cells:
            g.cells[cell].order = tuple(rng.sample(g.cells[cell].order, len(g.cells[cell].order)))
        after = moves.bytes_moved(moves.groups), moves.bytes_moved(around)
        assert after[0] - before[0] == after[1] - before[1]
        smaller += len(around) < len(moves.groups)
        changes.add(after[0] - before[0])
    assert smaller == 200 and len(changes) > 20
