"""Shapes of folds, calls, communication, transfers and random numbers."""

import pytest

from tests.ir.shape_rules import check, lines

RULES = """
map(f32[<=4], f32[4]), dimensions={0}, to_apply=add_f32 -> f32[<=4]
map(), dimensions={}, to_apply=add_f32 -> ! at least one operand
map(f32[4], s32[4]), dimensions={0}, to_apply=add_f32 -> ! but gets s32
reduce(f32[4,<=3], f32[]), dimensions={0}, to_apply=add_f32 -> f32[<=3]
reduce(bf16[4], f32[]), dimensions={0}, to_apply=add_f32 -> f32[]
reduce(f32[4], f32[]), dimensions={0}, to_apply=add_bf16 -> bf16[]
reduce(f32[4], s32[4], f32[], s32[]), dimensions={0}, to_apply=argmax -> (f32[], s32[])
reduce(f32[4], s32[5], f32[], s32[]), dimensions={0}, to_apply=argmax -> ! the same sizes
reduce(f32[4], f32[], f32[]), dimensions={0}, to_apply=add_f32 -> ! as many arrays
reduce(f32[4], f32[]), dimensions={0}, to_apply=argmax -> ! must take 2 parameters
reduce(f32[4], f32[1]), dimensions={0}, to_apply=add_f32 -> ! initial value
reduce(f32[4], f32[]), dimensions={-1}, to_apply=add_f32 -> ! names dimension -1
reduce-window(f32[<=8,4], f32[]), window={size=3x1 stride=2x1}, to_apply=add_f32 -> f32[<=3,4]
reduce-window(f32[8], f32[]), window={size=3 lhs_dilate=2 rhs_dilate=2}, to_apply=add_f32 -> f32[11]
reduce-window(f32[2], f32[]), window={size=3}, to_apply=add_f32 -> f32[0]
reduce-window(f32[8], f32[]), window={size=0}, to_apply=add_f32 -> ! must be positive
reduce-window(f32[8], f32[]), window={size=3 stride=0}, to_apply=add_f32 -> ! must be positive
select-and-scatter(f32[4], f32[2], f32[]), window={size=2 stride=2}, select=ge_f32, scatter=add_f32 -> f32[4]
select-and-scatter(f32[4], f32[3], f32[]), window={size=2 stride=2}, select=ge_f32, scatter=add_f32 -> ! the window makes f32[2]
select-and-scatter(f32[4], f32[2], f32[]), window={size=2 stride=2}, select=one_f32, scatter=add_f32 -> ! 2 parameters
batch-norm-training(f32[2,<=3], f32[3], f32[3]), epsilon=1, feature_index=1 -> (f32[2,<=3], f32[<=3], f32[<=3])
batch-norm-training(f32[2,3], f32[3], s32[3]), epsilon=1, feature_index=1 -> ! offset must be a vector
batch-norm-inference(f32[2,3], f32[3], f32[3], f32[3], f32[2]), epsilon=1, feature_index=1 -> ! variance
batch-norm-grad(f32[2,3], f32[3], f32[3], f32[3], f32[3,2]), epsilon=1, feature_index=1 -> ! differ
call(f32[2]), to_apply=neg_f32_2 -> f32[2]
call(), to_apply=neg_f32_2 -> ! takes 1 arguments, got 0
while((s32[], f32[2])), condition=cond_pair, body=body_pair -> (s32[], f32[2])
while(f32[2]), condition=exp_f32_2, body=neg_f32_2 -> ! must return pred[]
conditional(pred[], f32[2], f32[2]), true_computation=neg_f32_2, false_computation=exp_f32_2 -> f32[2]
conditional(s32[], f32[2]), branch_computations={neg_f32_2} -> f32[2]
conditional(s32[], f32[2]), branch_computations={neg_f32_2, exp_f32_2} -> ! as many arguments
conditional(pred[1], f32[2], f32[2]), true_computation=neg_f32_2, false_computation=exp_f32_2 -> ! selector
fusion(f32[2], f32[2]), kind=kLoop, calls=neg_f32_2 -> f32[2]
opt-barrier((f32[2], token[])) -> (f32[2], token[])
add-dependency(f32[2], token[]) -> f32[2]
after-all() -> token[]
copy-start(f32[2]) -> (f32[2], f32[2], u32[])
copy-done((f32[2], f32[3], u32[])) -> ! differ
async-start(f32[2]), calls=neg_f32_2 -> ! needs a shape ((operands), result, contexts...)
async-done((f32[2])) -> ! takes one async operation
all-gather(f32[2,3]), replica_groups={{0,1,2}}, dimensions={1} -> f32[2,9]
all-gather(f32[2,3]), replica_groups={}, dimensions={1} -> ! give its shape
all-gather-start(f32[2], f32[4]), replica_groups={{0,1}}, dimensions={0} -> ((f32[2], f32[4]), (f32[4], f32[8]))
all-reduce(f32[2], s32[]), replica_groups={}, to_apply=add_f32 -> (f32[2], s32[])
all-reduce((f32[2])), replica_groups={}, to_apply=add_f32 -> ! must be an array
all-reduce-start(f32[<=2]), replica_groups={}, to_apply=add_f32 -> f32[<=2]
all-to-all(f32[4]), replica_groups={{0,1}}, dimensions={0} -> f32[4]
all-to-all(f32[4], f32[4]), replica_groups={{0,1}}, dimensions={0} -> ! one operand
all-to-all(f32[<=4]), replica_groups={{0,1}}, dimensions={0} -> ! bounded dynamic
all-to-all(f32[4], f32[4]), replica_groups={{0,1}} -> (f32[4], f32[4])
collective-broadcast(f32[4]), replica_groups={{0,1}} -> f32[4]
collective-permute(f32[4], s32[]), source_target_pairs={{0,1}} -> (f32[4], s32[])
collective-permute-start(f32[4]), source_target_pairs={{0,1}} -> (f32[4], f32[4])
ragged-all-to-all(f32[8], f32[9], s32[2], s32[2], s32[2], s32[2]), replica_groups={{0,1}} -> f32[9]
reduce-scatter(f32[8,3]), replica_groups={{0,1}}, dimensions={0}, to_apply=add_f32 -> f32[4,3]
reduce-scatter(f32[7,3]), replica_groups={{0,1}}, dimensions={0}, to_apply=add_f32 -> ! cannot be cut
partition-id() -> u32[]
outfeed(f32[2], token[]) -> token[]
outfeed(f32[2], f32[2]) -> ! must be a token
send((f32[2], s32[]), token[]), channel_id=1 -> ((f32[2], s32[]), u32[], token[])
recv-done((f32[2], u32[], token[])), channel_id=1 -> (f32[2], token[])
rng-get-and-update-state(), delta=1 -> u64[2]
rng(f32[], f32[]), distribution=rng_uniform -> ! must be given
"""  # noqa: E501


@pytest.mark.parametrize("rule", lines(RULES))
def test_shape(rule):
    check(rule)
