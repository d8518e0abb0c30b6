"""The tiles that grouped products are cut into."""

import pytest

import hloom
from hloom.passes.expand.grouped_dot_rewriter import GroupedDotRewriter
from hloom.passes.expand.ragged_dot_expander import RaggedDotExpander


@pytest.mark.parametrize("one", [GroupedDotRewriter, RaggedDotExpander])
@pytest.mark.parametrize("tile", [0, -8])
def test_a_tile_has_rows(one, tile: int):
    with pytest.raises(hloom.HloError, match="1 row at least"):
        one(tile=tile)
