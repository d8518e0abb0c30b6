"""Drawn dots under drawn transposes: the same results, and nothing left for a second run."""

from __future__ import annotations

import random

import numpy as np
import pytest

import hloom
from hloom.passes.normalize.dot_result_order import DotResultOrder


def listed(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


def operand(draw: random.Random, sizes: dict[str, list[int]]) -> tuple[list[int], dict]:
    """Dimensions in a drawn order, and where those of each kind are ('b', 'f' and 'k')."""
    named = [(kind, number) for kind, found in sizes.items() for number in range(len(found))]
    draw.shuffle(named)
    dims = [sizes[kind][number] for kind, number in named]
    return dims, {k: [named.index((k, n)) for n in range(len(v))] for k, v in sizes.items()}


@pytest.mark.parametrize("seed", range(60))
def test_drawn(seed: int) -> None:
    draw = random.Random(seed)

    def sizes(most: int, least: int = 0) -> list[int]:
        return [draw.choice((1, 2, 3, 5)) for _ in range(draw.randint(least, most))]

    batch, summed = sizes(2), sizes(2, 1)
    x, x_at = operand(draw, {"b": batch, "f": sizes(2, 1), "k": summed})
    y, y_at = operand(draw, {"b": batch, "f": sizes(2), "k": summed})
    of = batch + [x[d] for d in sorted(x_at["f"])] + [y[d] for d in sorted(y_at["f"])]
    order = draw.sample(range(len(of)), len(of))
    numbers = ", ".join(
        f"{side}_{name}_dims={{{listed(at[kind])}}}"
        for side, at in (("lhs", x_at), ("rhs", y_at))
        for name, kind in (("batch", "b"), ("contracting", "k"))
    )
    module = hloom.parse(
        f"""HloModule drawn
ENTRY e {{
  x = f32[{listed(x)}] parameter(0)
  y = f32[{listed(y)}] parameter(1)
  d = f32[{listed(of)}] dot(x, y), {numbers}
  ROOT t = f32[{listed([of[d] for d in order])}] transpose(d), dimensions={{{listed(order)}}}
}}"""
    )
    rng = np.random.default_rng(seed)
    arguments = [rng.integers(-4, 5, dims).astype(np.float32) for dims in (x, y)]
    wanted = np.asarray(hloom.evaluate(module, *arguments).array)
    DotResultOrder().run(module)
    np.testing.assert_array_equal(np.asarray(hloom.evaluate(module, *arguments).array), wanted)
    assert not DotResultOrder().run(module).changed
