"""Rows of more elements than s32 counts."""

import pytest

from hloom.ir.text import parse_module
from hloom.passes import pass_named

FIRST_FOUR = """
HloModule m

greater {
  a = s8[] parameter(0)
  b = s8[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GT
}

ENTRY e {
  x = s8[SIZE] parameter(0)
  y = s8[SIZE] sort(x), dimensions={0}, to_apply=greater
  ROOT r = s8[4] slice(y), slice={[0:4]}
}
"""


@pytest.mark.parametrize("size, opcode", [(2**31 - 1, "topk"), (2**31, "sort")])
def test_topk_says_places_as_s32(size, opcode):
    module = parse_module(FIRST_FOUR.replace("SIZE", str(size)))
    pass_named("topk-rewriter").run(module)
    opcodes = {i.opcode for i in module.entry.instructions}
    assert opcodes & {"topk", "sort"} == {opcode}
