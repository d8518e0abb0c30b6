"""An all-gather of which every device reads another one's shard: a permute.

The half of `all-gather-dynamic-slice-simplifier` that communicates, by itself.
"""

from __future__ import annotations

from hloom.passes.collectives.all_gather_dynamic_slice_simplifier import (
    AllGatherDynamicSliceSimplifier,
)
from hloom.passes.pass_ import register


@register
class AllGatherDynamicSlicePermutedOffsetSimplifier(AllGatherDynamicSliceSimplifier):
    """Replace dynamic-slice(all-gather(x)) of another device's shard by a permute of x."""

    name = "all-gather-dynamic-slice-permuted-offset-simplifier"

    own: bool = False
