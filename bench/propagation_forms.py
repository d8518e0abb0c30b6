"""Operations that `bench.propagation` cuts along every dimension of operands and results.

`$0` is the first operand, `@0` the same converted to another type: indices, or complex numbers.
"""

from __future__ import annotations

from typing import NamedTuple

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
NOT_LESS = """ge {
  a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=GE
}
"""
LESS = """cmp {
  a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=LT
}
"""


class Form(NamedTuple):
    """One operation: shapes of its operands, its text, what it calls."""

    operands: tuple[str, ...]
    text: str
    called: str = ""


FORMS = {
    "add": Form(
        (
            "f32[8,16]",
            "f32[8,16]",
        ),
        "f32[8,16] add($0,$1)",
    ),
    "transpose": Form(
        ("f32[8,16,4]",),
        "f32[4,8,16] transpose($0), dimensions={2,0,1}",
    ),
    "reshape_merge": Form(
        ("f32[8,16,4]",),
        "f32[128,4] reshape($0)",
    ),
    "reshape_split": Form(
        ("f32[64,4]",),
        "f32[8,8,4] reshape($0)",
    ),
    "reshape_one": Form(
        ("f32[8,16]",),
        "f32[8,1,16] reshape($0)",
    ),
    "reshape_mixed": Form(
        ("f32[8,16,8]",),
        "f32[16,8,8] reshape($0)",
    ),
    "broadcast": Form(
        ("f32[8,16]",),
        "f32[8,4,16] broadcast($0), dimensions={0,2}",
    ),
    "broadcast_row": Form(
        ("f32[16]",),
        "f32[8,16] broadcast($0), dimensions={1}",
    ),
    "dot": Form(
        (
            "f32[8,16]",
            "f32[16,32]",
        ),
        "f32[8,32] dot($0,$1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "dot_batch": Form(
        (
            "f32[4,8,16]",
            "f32[4,16,32]",
        ),
        "f32[4,8,32] dot($0,$1), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    ),
    "dot_t": Form(
        (
            "f32[8,16]",
            "f32[32,16]",
        ),
        "f32[8,32] dot($0,$1), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    "reduce": Form(
        ("f32[8,16,4]",),
        "f32[8,4] reduce($0,zero), dimensions={1}, to_apply=add",
        ADD,
    ),
    "reduce_two": Form(
        ("f32[8,16,4]",),
        "f32[16] reduce($0,zero), dimensions={0,2}, to_apply=add",
        ADD,
    ),
    "reduce_window": Form(
        ("f32[8,16]",),
        "f32[8,16] reduce-window($0,zero), window={size=1x3 pad=0_0x1_1}, to_apply=add",
        ADD,
    ),
    "pool": Form(
        ("f32[8,16,16,4]",),
        "f32[8,8,8,4] reduce-window($0,zero), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=add",
        ADD,
    ),
    "select_scatter": Form(
        (
            "f32[8,16]",
            "f32[8,8]",
        ),
        "f32[8,16] select-and-scatter($0,$1,zero), window={size=1x2 stride=1x2}, select=ge, "
        "scatter=add",
        ADD + NOT_LESS,
    ),
    "conv": Form(
        (
            "f32[8,16,16,4]",
            "f32[3,3,4,8]",
        ),
        "f32[8,16,16,8] convolution($0,$1), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f",
    ),
    "conv_group": Form(
        (
            "f32[8,16,16,8]",
            "f32[3,3,1,8]",
        ),
        "f32[8,16,16,8] convolution($0,$1), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f, feature_group_count=8",
    ),
    "slice": Form(
        ("f32[8,16]",),
        "f32[8,8] slice($0), slice={[0:8],[4:12]}",
    ),
    "slice_batch": Form(
        ("f32[8,16,4]",),
        "f32[8,1,4] slice($0), slice={[0:8],[4:5],[0:4]}",
    ),
    "pad": Form(
        ("f32[8,16]",),
        "f32[8,20] pad($0,zero), padding=0_0x2_2",
    ),
    "concat": Form(
        (
            "f32[8,16]",
            "f32[8,16]",
        ),
        "f32[8,32] concatenate($0,$1), dimensions={1}",
    ),
    "reverse": Form(
        ("f32[8,16]",),
        "f32[8,16] reverse($0), dimensions={1}",
    ),
    "dynamic_slice": Form(
        ("f32[8,16]",),
        "f32[8,4] dynamic-slice($0,i0,i0), dynamic_slice_sizes={8,4}",
    ),
    "dynamic_slice_one": Form(
        ("f32[8,16,4]",),
        "f32[1,16,4] dynamic-slice($0,i0,i0,i0), dynamic_slice_sizes={1,16,4}",
    ),
    "dynamic_update": Form(
        (
            "f32[8,16]",
            "f32[8,4]",
        ),
        "f32[8,16] dynamic-update-slice($0,$1,i0,i0)",
    ),
    "dynamic_update_one": Form(
        (
            "f32[8,16,4]",
            "f32[1,16,4]",
        ),
        "f32[8,16,4] dynamic-update-slice($0,$1,i0,i0,i0)",
    ),
    "sort": Form(
        ("f32[8,16]",),
        "f32[8,16] sort($0), dimensions={1}, to_apply=cmp",
        LESS,
    ),
    "cumsum": Form(
        ("f32[8,16]",),
        "f32[8,16] reduce-window($0,zero), window={size=1x16 pad=0_0x15_0}, to_apply=add",
        ADD,
    ),
    "gather_rows": Form(
        (
            "f32[64,16]",
            "f32[8,4]",
        ),
        "f32[8,4,16] gather($0,@1), offset_dims={2}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=2, slice_sizes={1,16}",
    ),
    "gather_batch": Form(
        (
            "f32[8,64,16]",
            "f32[8,4]",
        ),
        "f32[8,4,16] gather($0,@1), offset_dims={2}, collapsed_slice_dims={1}, "
        "start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
        "index_vector_dim=2, slice_sizes={1,1,16}",
    ),
    "gather_window": Form(
        (
            "f32[64,16]",
            "f32[8]",
        ),
        "f32[8,4,16] gather($0,@1), offset_dims={1,2}, collapsed_slice_dims={}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={4,16}",
    ),
    "scatter_rows": Form(
        (
            "f32[64,16]",
            "f32[8,4]",
            "f32[8,4,16]",
        ),
        "f32[64,16] scatter($0,@1,$2), update_window_dims={2}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=add",
        ADD,
    ),
    "scatter_batch": Form(
        (
            "f32[8,64,16]",
            "f32[8,4]",
            "f32[8,4,16]",
        ),
        "f32[8,64,16] scatter($0,@1,$2), update_window_dims={2}, inserted_window_dims={1}, "
        "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
        "scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=add",
        ADD,
    ),
    "cholesky": Form(
        ("f32[8,4,4]",),
        "f32[8,4,4] cholesky($0), lower=true",
    ),
    "triangular": Form(
        (
            "f32[8,4,4]",
            "f32[8,4,16]",
        ),
        "f32[8,4,16] triangular-solve($0,$1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
    ),
    "fft": Form(
        ("f32[8,16]",),
        "c64[8,16] fft(@0), fft_type=FFT, fft_length={16}",
    ),
    "convert": Form(
        ("f32[8,16]",),
        "bf16[8,16] convert($0)",
    ),
    "barrier": Form(
        ("f32[8,16]",),
        "f32[8,16] opt-barrier($0)",
    ),
    "clamp": Form(
        ("f32[8,16]",),
        "f32[8,16] clamp(zero,$0,zero)",
    ),
}

WHILE = """cond {
  t = (s32[], f32[8,16]) parameter(0)
  k = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(k, n), direction=LT
}
body {
  t = (s32[], f32[8,16]) parameter(0)
  k = s32[] get-tuple-element(t), index=0
  x = f32[8,16] get-tuple-element(t), index=1
  y = f32[8,16] sine(x)INSIDE
  z = f32[8,16] cosine(y)
  one = s32[] constant(1)
  j = s32[] add(k, one)
  ROOT r = (s32[], f32[8,16]) tuple(j, z)
}
ENTRY main {
  p = f32[8,16] parameter(0), sharding={replicated}
  x = f32[8,16] sine(p)BEFORE
  h = f32[8,16] cosine(x)
  zero = s32[] constant(0)
  s = (s32[], f32[8,16]) tuple(zero, h)
  w = (s32[], f32[8,16]) while(s), condition=cond, body=body
  y = f32[8,16] get-tuple-element(w), index=1
  u = f32[8,16] negate(y)
  v = f32[8,16] negate(u)BEHIND
  ROOT o = (f32[8,16]) tuple(v)
}
"""
CONDITIONAL = """one {
  x = f32[8,16] parameter(0)
  y = f32[8,16] sine(x)INSIDE
  ROOT z = f32[8,16] cosine(y)
}
two { x = f32[8,16] parameter(0) y = f32[8,16] negate(x) ROOT z = f32[8,16] cosine(y) }
ENTRY main {
  p = f32[8,16] parameter(0), sharding={replicated}
  q = pred[] parameter(1), sharding={replicated}
  x = f32[8,16] sine(p)BEFORE
  h = f32[8,16] cosine(x)
  w = f32[8,16] conditional(q, h, h), true_computation=one, false_computation=two
  u = f32[8,16] negate(w)
  v = f32[8,16] negate(u)BEHIND
  ROOT o = (f32[8,16]) tuple(v)
}
"""
