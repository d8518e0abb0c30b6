"""Rows of groups by the matrix of their group, on both sides of the sizes of tiles."""

from __future__ import annotations

import numpy as np
import pytest

import hloom


@pytest.mark.parametrize("groups", [1, 2, 8, 9, 40])
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 129, 1000])
def test_ragged_dot_is_numpys(rows: int, groups: int):
    rng = np.random.default_rng(rows * 100 + groups)
    step = hloom.compile(
        hloom.parse(f"""HloModule m
ENTRY e {{ x = f32[{rows},5] parameter(0)  w = f32[{groups},5,7] parameter(1)
  sizes = s32[{groups}] parameter(2)
  ROOT d = f32[{rows},7] ragged-dot(x, w, sizes), lhs_contracting_dims={{1}},
    rhs_contracting_dims={{1}}, lhs_ragged_dims={{0}}, rhs_group_dims={{0}} }}""")
    )
    x = rng.integers(-3, 4, (rows, 5)).astype(np.float32)
    w = rng.integers(-3, 4, (groups, 5, 7)).astype(np.float32)
    for total in (rows, rows // 2, 0):  # some rows belong to none
        sizes = rng.multinomial(total, rng.dirichlet(np.full(groups, 0.3))).astype(np.int32)
        of = np.repeat(np.arange(groups), sizes)
        expected = np.zeros((rows, 7), np.float32)
        expected[: len(of)] = np.einsum("mk,mkn->mn", x[: len(of)], w[of])
        np.testing.assert_array_equal(np.asarray(step(x, w, sizes)), expected)


def test_more_rows_than_tiles_count() -> None:
    """Tiles are counted in 32 bits: of more rows than that each group's dot is written."""
    module = hloom.parse("""HloModule m
ENTRY e {
  x = f32[3000000000,2] parameter(0)
  w = f32[3,2,7] parameter(1)
  sizes = s32[3] parameter(2)
  ROOT d = f32[3000000000,7] ragged-dot(x, w, sizes), lhs_contracting_dims={1},
    rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
}""")
    hloom.pass_named("ragged-dot-expander").run(module)
    hloom.verify(module)
    assert "ragged-dot" not in hloom.show(module)
