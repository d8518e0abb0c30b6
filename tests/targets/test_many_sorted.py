"""Sorts of many arrays together."""

import numpy as np
import pytest

import hloom


def sort_of(count: int) -> str:
    """A sort of `count` rows of 5 by the first of them."""
    pairs = [
        f"a{k}_ = f32[] parameter({2 * k})\n b{k}_ = f32[] parameter({2 * k + 1})"
        for k in range(count)
    ]
    rows = [f"x{k} = f32[5] parameter({k})" for k in range(count)]
    of = ", ".join(["f32[5]"] * count)
    names = ", ".join([f"x{k}" for k in range(count)])
    return f"""HloModule many
    less {{ {" ".join(pairs)}
      ROOT c = pred[] compare(a0_, b0_), direction=LT }}
    ENTRY e {{ {" ".join(rows)}
      ROOT s = ({of}) sort({names}), dimensions={{0}}, is_stable=true, to_apply=less }}"""


@pytest.mark.parametrize("count", [64, 65, 200, 1024])
def test_many_arrays_go_along(count: int) -> None:
    rows = np.random.default_rng(count).permuted(
        np.arange(5 * count, dtype=np.float32).reshape(count, 5), axis=1
    )
    results = hloom.compile(sort_of(count))(*rows)
    order = np.argsort(rows[0])
    np.testing.assert_array_equal(np.stack([np.asarray(r) for r in results]), rows[:, order])


def test_more_than_can_be_sorted_are_refused_when_compiling() -> None:
    with pytest.raises(hloom.HloError, match=r"%s: sort has 1025 operands; 1024 can"):
        hloom.compile(sort_of(1025))
