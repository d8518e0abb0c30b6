"""Shapes of dot, convolution, FFT, linear algebra, gather and scatter."""

import pytest

from tests.ir.shape_rules import check, lines

RULES = """
dot(f32[<=2,3], f32[3,<=5]), lhs_contracting_dims={1}, rhs_contracting_dims={0} -> f32[<=2,<=5]
dot(bf16[3], f32[3]), lhs_contracting_dims={0}, rhs_contracting_dims={0} -> f32[]
dot(f32[2,3], f32[?,5]), lhs_contracting_dims={1}, rhs_contracting_dims={0} -> f32[2,5]
dot(f32[2,3], f32[3,5]), lhs_contracting_dims={1}, rhs_contracting_dims={} -> ! contracting
dot(f32[2,3], f32[3,5]), lhs_contracting_dims={2}, rhs_contracting_dims={0} -> ! names dimension 2
dot(f32[2,3], (f32[3])), lhs_contracting_dims={1}, rhs_contracting_dims={0} -> ! must be an array
dot(f32[], f32[]) -> f32[]
ragged-dot(f32[9,5], f32[5,7], s32[<=3]), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1} -> f32[<=3,9,7]
ragged-dot(f32[9,5], f32[5,7], s32[3,1]), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1} -> ! one dimension
ragged-dot(f32[9,5], f32[3,5,7], s32[3]), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={1}, rhs_group_dims={0} -> ! no group dimension
ragged-dot(f32[9,5], f32[3,5,7], s32[3]), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={1} -> ! batch or contracting
ragged-dot(f32[9,5], f32[3,5,7], s32[3]), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={2}, rhs_group_dims={0} -> ! not one of
scaled-dot(f8e4m3fn[4,64], f8e5m2[64,8], f8e8m0fnu[4,2], f8e8m0fnu[]), lhs_contracting_dims={1}, rhs_contracting_dims={0} -> f8e5m2[4,8]
scaled-dot(f8e4m3fn[4,64], f8e5m2[64,8], f8e8m0fnu[2], f8e8m0fnu[]), lhs_contracting_dims={1}, rhs_contracting_dims={0} -> ! must have the rank
scaled-dot(f8e4m3fn[4,64], f8e5m2[64,4], f8e8m0fnu[4,2], f8e8m0fnu[2,4]), lhs_contracting_dims={1,0}, rhs_contracting_dims={0,1} -> ! exactly one
convolution(f32[<=2,9,3], f32[3,3,8]), window={size=3}, dim_labels=b0f_0io->b0f -> f32[<=2,7,8]
convolution(f32[2,<=9,3], f32[3,3,8]), window={size=3}, dim_labels=b0f_0io->0fb -> f32[<=7,8,2]
convolution(f32[2,9,3], f32[3,3,<=8]), window={size=3}, dim_labels=b0f_0io->b0f -> ! unknown number
convolution(f32[2,9,3], f32[3,3,8]), window={size=3 lhs_dilate=2 rhs_dilate=3 pad=1_1 stride=2}, dim_labels=b0f_0io->b0f -> f32[2,7,8]
convolution(f32[2,9,3], f32[3,3,8]), window={size=3x3}, dim_labels=b0f_0io->b0f -> ! must have 1 dimensions
convolution(f32[2,9,3,1], f32[3,3,8]), window={size=3}, dim_labels=b0f_0io->b0f -> ! of rank 3
convolution(f32[2,9,3], f32[3,3,8]), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=0 -> ! must be positive
convolution(f32[2,9,4], f32[3,2,7]), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=2 -> ! output features
convolution(f32[3,9,3], f32[3,3,8]), window={size=3}, dim_labels=b0f_0io->b0f, batch_group_count=2 -> ! the batch
convolution(f32[2,1,3], f32[3,3,8]), window={size=3}, dim_labels=b0f_0io->b0f -> f32[2,0,8]
fft(f64[<=2,8]), fft_type=RFFT, fft_length={8} -> c128[<=2,5]
fft(c64[2,0]), fft_type=IRFFT, fft_length={0} -> f32[2,0]
fft(f32[2,0]), fft_type=RFFT, fft_length={0} -> c64[2,0]
fft(c64[8]), fft_type=FFT, fft_length={8,8} -> ! needs 2 dimensions
fft(c64[8]), fft_type=FFT, fft_length={} -> ! 1 to 3
fft(c64[2,2,2,2]), fft_type=FFT, fft_length={2,2,2,2} -> ! 1 to 3
fft(f16[8]), fft_type=RFFT, fft_length={8} -> ! f32 or f64
cholesky(f32[<=2,3,3]) -> f32[<=2,3,3]
cholesky(f32[3]) -> ! square
triangular-solve(f32[3,3], f32[4,3]), transpose_a=TRANSPOSE -> f32[4,3]
triangular-solve(f32[3,3], f64[3,3]), transpose_a=TRANSPOSE -> ! one type
triangular-solve(f32[2,3,3], f32[4,3,3]), transpose_a=TRANSPOSE -> ! batch dimensions
gather(f32[<=5,6], s32[<=7]), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6} -> f32[<=7,6]
gather(f32[5,<=6], s32[7]), offset_dims={0}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6} -> f32[<=6,7]
gather(f32[5], s32[]), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=0, slice_sizes={1} -> f32[]
gather(f32[5], s32[7]), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1} -> ! index_vector_dim
gather(f32[5], s32[7]), offset_dims={}, collapsed_slice_dims={0}, start_index_map={1}, index_vector_dim=1, slice_sizes={1} -> ! names dimension 1
gather(f32[5], s32[7,2]), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1} -> ! must name 2
gather(f32[5], s32[7]), offset_dims={}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={1} -> ! must be an offset
gather(f32[5,6], s32[5,7,1]), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1} -> f32[5,7]
gather(f32[5,6], s32[5,7,1]), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={}, index_vector_dim=2, slice_sizes={1,1} -> ! as many
scatter(f32[<=5,6], s32[7], f32[7,6]), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_f32 -> f32[<=5,6]
scatter(f32[5,6], s32[7], f32[7,8]), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_f32 -> ! exceeds
scatter(f32[5,6], s32[7], f32[7,6]), update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_f32 -> ! must be a window
scatter(f32[5], f32[7], f32[7]), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_f32 -> ! integers
scatter(f32[5], s32[7]), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_f32 -> ! n operands
"""  # noqa: E501


@pytest.mark.parametrize("rule", lines(RULES))
def test_shape(rule):
    check(rule)
