"""`Computation.in_order` is asked for by every pass; what it found is remembered until an edit."""

from __future__ import annotations

import random

from hloom.ir.computation import Computation
from hloom.ir.text import parse_module as parse

TEXT = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  a = f32[4] negate(p)
  b = f32[4] add(a, p)
  c = f32[4] multiply(b, a)
  ROOT d = (f32[4], f32[4], f32[4]) tuple(c, b, a)
}
"""


def found_anew(c: Computation) -> list[str]:
    """The order without what is remembered."""
    c.forget_order()
    return [i.name for i in c.in_order()]


def edit(c: Computation, draw: random.Random) -> None:
    """One edit of those that may change what must run before what."""
    instructions = list(c.instructions)
    i = draw.choice(instructions)
    kind = draw.randrange(6)
    if kind == 0:
        x = draw.choice([x for x in c.in_order() if x.opcode != "tuple"])
        c.add("negate", x)
    elif kind == 1 and not i.users and not i.is_root and i.opcode != "parameter":
        c.erase(i)
    elif kind == 2 and i.opcode == "negate":
        new = c.add("negate", i.operands[0])
        c.replace(i, new)
    elif kind == 3:
        order = c.in_order()
        first, second = sorted(draw.sample(range(len(order)), 2))
        order[second].add_control_predecessor(order[first])
    elif kind == 4 and i.control_predecessors:
        i.remove_control_predecessor(i.control_predecessors[0])
    elif kind == 5 and len(i.operands) == 2:
        i.set_operands(i.operands[::-1])


def test_what_is_remembered_is_what_would_be_found() -> None:
    unsorted = 0
    for seed in range(60):
        draw = random.Random(seed)
        c = parse(TEXT).entry
        for _ in range(25):
            edit(c, draw)
            remembered = [i.name for i in c.in_order()]
            unsorted += not c.is_sorted
            assert remembered == [i.name for i in c.in_order()]
            assert remembered == found_anew(c)
            c.in_order()
    assert unsorted > 50


def test_sorting_makes_the_order_that_of_the_program() -> None:
    c = parse(TEXT).entry
    c.replace(c["a"], c.add("negate", c["p"]))
    order = c.in_order()
    assert not c.is_sorted
    assert order != list(c.instructions)
    c.sort()
    assert c.is_sorted
    assert list(c.instructions) == order
