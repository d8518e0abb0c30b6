"""Shapes of operations that move data."""

import pytest

from tests.ir.shape_rules import check, lines

RULES = """
copy((f32[2]{0}, token[])) -> (f32[2], token[])
concatenate(f32[2,3], f32[2,4]), dimensions={1} -> f32[2,7]
concatenate(f32[2,<=3], f32[<=2,4]), dimensions={1} -> f32[<=2,<=7]
concatenate(f32[2,?], f32[2,4]), dimensions={1} -> f32[2,?]
concatenate(f32[?,3], f32[<=2,4]), dimensions={1} -> f32[<=2,7]
concatenate(bf16[2], f32[3]), dimensions={0} -> f32[5]
concatenate(f32[2,3], f32[2]), dimensions={0} -> ! one rank
concatenate(), dimensions={0} -> ! at least one
concatenate(f32[2]), dimensions={-1} -> ! must name one
dynamic-slice(f32[<=4,5], s32[], s32[]), dynamic_slice_sizes={4,2} -> f32[<=4,2]
dynamic-slice(f32[<=4,5], s32[], s32[]), dynamic_slice_sizes={3,2} -> f32[3,2]
dynamic-slice(f32[4,5], s64[2]), dynamic_slice_sizes={4,2} -> f32[4,2]
dynamic-slice(f32[4,5], s64[3]), dynamic_slice_sizes={4,2} -> ! 2 integers
dynamic-slice(f32[4], s32[]), dynamic_slice_sizes={-1} -> ! do not fit
dynamic-slice(f32[4], s32[]), dynamic_slice_sizes={1,1} -> ! must have 1 sizes
dynamic-slice((f32[4]), s32[]), dynamic_slice_sizes={1} -> ! must be an array
dynamic-update-slice(f32[4,5], f32[<=4,1], s32[], s32[]) -> f32[<=4,5]
dynamic-update-slice(f32[4,5], f32[<=3,1], s32[], s32[]) -> f32[4,5]
dynamic-update-slice(f32[4,5], f32[4], s32[], s32[]) -> ! differ in rank
pad(f32[<=4,5], f32[]), padding=1_2x0_0_1 -> f32[<=7,9]
pad(f32[4], f32[]), padding=1_2x0_0 -> ! must have 1 entries
pad(f32[0], f32[]), padding=0_0_5 -> f32[0]
pad(bf16[2], f32[]), padding=0_1 -> f32[3]
reverse(f32[<=4,5]), dimensions={} -> f32[<=4,5]
reverse(f32[4]), dimensions={-1} -> ! names dimension -1
slice(f32[<=4,5]), slice={[0:3], [1:5:3]} -> f32[<=3,2]
slice(f32[<=4]), slice={[0:1]} -> f32[1]
slice(f32[4]), slice={[3:2]} -> ! leaves dimension
slice(f32[4]), slice={[0:4:0]} -> ! stride must be positive
slice(f32[4]), slice={[0:4], [0:4]} -> ! must have 1 ranges
slice(f32[?]), slice={[0:4]} -> f32[4]
transpose(f32[2,<=3,4]), dimensions={2,0,1} -> f32[4,2,<=3]
transpose(f32[2,3]), dimensions={0} -> ! not a permutation
get-dimension-size(f32[2,<=3]), dimensions={1} -> s32[]
get-dimension-size(f32[2147483648]), dimensions={0} -> ! does not fit in s32
set-dimension-size(f32[2,3], s32[]), dimensions={1} -> f32[2,<=3]
set-dimension-size(f32[2,3], s32[1]), dimensions={1} -> ! s32 scalar
get-tuple-element((f32[2], (s32[], token[]))), index=1 -> (s32[], token[])
get-tuple-element((f32[2])), index=-1 -> ! no element -1
tuple() -> ()
tuple(f32[2]{0}, (token[])) -> (f32[2], (token[]))
sort(f32[<=4,5]), dimensions={0}, to_apply=lt_f32 -> f32[<=4,5]
sort(f32[4], s32[4]), dimensions={0}, to_apply=lt_pairs -> (f32[4], s32[4])
sort(f32[4], f32[4]), dimensions={0}, to_apply=lt_pairs -> ! parameter 2
sort(bf16[4]), dimensions={0}, to_apply=lt_f32 -> bf16[4]
sort(f32[]), dimensions={0}, to_apply=lt_f32 -> ! must name one
topk(f32[<=3,9]), k=4, largest=false -> (f32[<=3,4], s32[<=3,4])
topk(f32[]), k=1, largest=true -> ! at least one dimension
topk(f32[3]), k=-1, largest=true -> ! cannot take
reshape(f32[4]) -> ! must be given
broadcast(f32[4]), dimensions={0} -> ! must be given
"""


@pytest.mark.parametrize("rule", lines(RULES))
def test_shape(rule):
    check(rule)
