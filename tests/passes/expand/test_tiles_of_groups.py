"""The tiles that grouped products are cut into."""

import pytest

import hloom
from hloom.ir.text import parse_module
from hloom.ir.verify import verify
from hloom.passes import pass_named
from hloom.passes.expand.grouped_dot_rewriter import GroupedDotRewriter
from hloom.passes.expand.ragged_dot_expander import RaggedDotExpander


@pytest.mark.parametrize("one", [GroupedDotRewriter, RaggedDotExpander])
@pytest.mark.parametrize("tile", [0, -8])
def test_a_tile_has_rows(one, tile: int):
    with pytest.raises(hloom.HloError, match="1 row at least"):
        one(tile=tile)


ROWS = """ENTRY e {
  x = s8[SIZE,2] parameter(0)
  y = s8[3,2,1] parameter(1)
  n = s64[3] parameter(2)
  ROOT d = s8[SIZE,1] ragged-dot(x, y, n), lhs_contracting_dims={1}, rhs_contracting_dims={1},
    lhs_ragged_dims={0}, rhs_group_dims={0}
}
"""


@pytest.mark.parametrize(("rows", "counted"), [(1 << 30, "s32"), (1 << 32, "s64")])
def test_rows_are_numbered_in_a_type_that_holds_them(rows: int, counted: str) -> None:
    module = parse_module(ROWS.replace("SIZE", str(rows)))
    assert pass_named("ragged-dot-expander").run(module).changed
    verify(module)
    loops = [i for i in module.instructions() if i.opcode == "while"]
    assert bool(loops) == (counted == "s32")
    numbers = [i for i in module.instructions() if i.opcode == "iota" and i.shape.size > 9]
    assert all(i.shape.dtype.name == counted for i in numbers)
    assert numbers


def test_dots_of_more_rows_than_tiles_number_stay() -> None:
    masked = MASKED.replace("SIZE", str(1 << 32))
    assert not pass_named("grouped-dot-rewriter").run(parse_module(masked)).changed
    assert (
        pass_named("grouped-dot-rewriter").run(parse_module(MASKED.replace("SIZE", "64"))).changed
    )


MASKED = """ENTRY rows {
  x = f32[SIZE,5] parameter(0)
  w = f32[8,5,7] parameter(1)
  starts = s32[8] parameter(2)
  ends = s32[8] parameter(3)
  row = s32[SIZE] iota(), iota_dimension=0
  rows = s32[8,SIZE,5] broadcast(row), dimensions={1}
  first = s32[8,SIZE,5] broadcast(starts), dimensions={0}
  last = s32[8,SIZE,5] broadcast(ends), dimensions={0}
  behind = pred[8,SIZE,5] compare(first, rows), direction=LE
  before = pred[8,SIZE,5] compare(rows, last), direction=LT
  own = pred[8,SIZE,5] and(behind, before)
  copies = f32[8,SIZE,5] broadcast(x), dimensions={1,2}
  zero = f32[] constant(0)
  zeros = f32[8,SIZE,5] broadcast(zero), dimensions={}
  masked = f32[8,SIZE,5] select(own, copies, zeros)
  ROOT d = f32[SIZE,7] dot(masked, w), lhs_contracting_dims={2,0}, rhs_contracting_dims={1,0}
}
"""
