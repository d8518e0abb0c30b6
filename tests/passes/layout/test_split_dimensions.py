"""Transposes past reshapes: drawn sizes, both ways, against numpy."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import hloom
from hloom.passes.layout.split_dimensions import move_transposes, split_dimensions


def drawn_split(rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Sizes, and those of the dimensions that they are split into, some of one element."""
    whole, parts = [], []
    for _ in range(rng.integers(2, 5)):
        group = [int(n) for n in rng.choice([1, 2, 3, 4, 5], rng.integers(1, 4))]
        whole.append(int(np.prod(group)))
        parts += group
    return whole, parts


def text(dims: list[int]) -> str:
    return ",".join(str(d) for d in dims)


@pytest.mark.parametrize("seed", range(40))
def test_drawn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole, parts = drawn_split(rng)
    groups = split_dimensions(whole, parts)
    if groups is None:  # none of them is split
        assert [n for n in whole if n > 1] == [n for n in parts if n > 1]
        return
    order = [int(d) for d in rng.permutation(len(whole))]
    source = [whole[order.index(d)] for d in range(len(whole))]
    back = [int(d) for d in rng.permutation(len(whole))]
    result = [whole[d] for d in back]
    module = hloom.parse(f"""HloModule m
ENTRY e {{
  x = s32[{text(source)}] parameter(0)
  t = s32[{text(whole)}] transpose(x), dimensions={{{text(order)}}}
  p = s32[{text(parts)}] reshape(t)
  n = s32[{text(parts)}] negate(p)
  j = s32[{text(whole)}] reshape(n)
  ROOT r = s32[{text(result)}] transpose(j), dimensions={{{text(back)}}}
}}
""")
    fired: Counter[str] = Counter()
    move_transposes(module.entry, fired)
    hloom.verify(module)
    assert fired.total() == 2
    assert module.entry.root.opcode == "reshape"
    turned_first = [
        i for i in module.entry if i.opcode == "reshape" and i.operands[0].opcode == "transpose"
    ]
    assert turned_first in ([], [module.entry.root])
    x = rng.integers(-99, 99, source, dtype=np.int32)
    expected = -x.transpose(order).reshape(parts).reshape(whole).transpose(back)
    got = hloom.evaluate(module, x).array
    assert np.array_equal(got, expected)


def test_joined_neighbours_are_no_split() -> None:
    assert split_dimensions([6, 4], [2, 3, 4]) == [[0, 1], [2]]
    assert split_dimensions([6, 4], [2, 12]) is None
    assert split_dimensions([2, 3, 4], [6, 4]) is None
    assert split_dimensions([6, 1, 4], [6, 4]) is None
