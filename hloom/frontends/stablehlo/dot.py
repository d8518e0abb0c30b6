# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Contractions."""

from __future__ import annotations

from math import prod
from typing import Any

from hloom.frontends.stablehlo.attributes import integer, precisions, text
from hloom.frontends.stablehlo.bindings import stablehlo, viewed
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.frontends.stablehlo.subscripts import einsum_of
from hloom.ir.instruction import Instruction

ALGORITHMS: dict[tuple[str, str, str, int, int, int], str] = {
    ("f16", "f16", "f16", 1, 1, 1): "dot_f16_f16_f16",
    ("f16", "f16", "f32", 1, 1, 1): "dot_f16_f16_f32",
    ("bf16", "bf16", "bf16", 1, 1, 1): "dot_bf16_bf16_bf16",
    ("bf16", "bf16", "f32", 1, 1, 1): "dot_bf16_bf16_f32",
    ("bf16", "bf16", "f32", 1, 1, 3): "dot_bf16_bf16_f32_x3",
    ("bf16", "bf16", "f32", 1, 1, 6): "dot_bf16_bf16_f32_x6",
    ("bf16", "bf16", "f32", 1, 1, 9): "dot_bf16_bf16_f32_x9",
    ("tf32", "tf32", "f32", 1, 1, 1): "dot_tf32_tf32_f32",
    ("tf32", "tf32", "f32", 1, 1, 3): "dot_tf32_tf32_f32_x3",
    ("f32", "f32", "f32", 1, 1, 1): "dot_f32_f32_f32",
    ("f64", "f64", "f64", 1, 1, 1): "dot_f64_f64_f64",
}
"""Types of both sides and of the sum, components of both sides, products: the name in HLO."""
_ANY_F8 = "dot_any_f8_any_f8_f32"


def algorithm(scope: Scope, op: Any) -> str | None:
    """The name in HLO of the algorithm that is asked for."""
    if "algorithm" not in op.attributes:
        return None
    attribute = stablehlo.DotAlgorithm(op.attributes["algorithm"])
    left, right = str(attribute.lhs_precision_type), str(attribute.rhs_precision_type)
    key = (
        left,
        right,
        str(attribute.accumulation_type),
        attribute.lhs_component_count,
        attribute.rhs_component_count,
        attribute.num_primitive_operations,
    )
    if left.startswith("f8") and right.startswith("f8") and key[2:] == ("f32", 1, 1, 1):
        return _ANY_F8 + ("_fast_accum" if attribute.allow_imprecise_accumulation else "")
    if key in ALGORITHMS and not attribute.allow_imprecise_accumulation:
        return ALGORITHMS[key]
    raise scope.error(
        f"HLO has no name for the dot algorithm {attribute}",
        rule="dot-algorithm",
        hint=f"it has {', '.join(ALGORITHMS.values())}, {_ANY_F8}",
    )


def _paired(numbers: Any) -> dict[str, Any]:
    """Which dimensions of both sides go together, and which of them are summed over."""
    return {
        "lhs_batch_dims": tuple(numbers.lhs_batching_dimensions),
        "lhs_contracting_dims": tuple(numbers.lhs_contracting_dimensions),
        "rhs_batch_dims": tuple(numbers.rhs_batching_dimensions),
        "rhs_contracting_dims": tuple(numbers.rhs_contracting_dimensions),
    }


@IMPORT.of("stablehlo.dot_general")
def dot_general(scope: Scope, op: Any) -> Instruction:
    numbers = viewed(op.attributes["dot_dimension_numbers"], "DotDimensionNumbers")
    return scope.emit(
        "dot",
        scope.operands(op),
        scope.result_shape(op),
        **_paired(numbers),
        operand_precision=precisions(op),
        algorithm=algorithm(scope, op),
    )


@IMPORT.of("stablehlo.dot")
def dot(scope: Scope, op: Any) -> Instruction:
    """The last dimension of the one with the first of the other."""
    lhs, rhs = scope.operands(op)
    return scope.emit(
        "dot",
        (lhs, rhs),
        scope.result_shape(op),
        lhs_contracting_dims=(lhs.shape.rank - 1,),
        rhs_contracting_dims=(0,),
        operand_precision=precisions(op),
    )


@IMPORT.of("chlo.ragged_dot")
def ragged_dot(scope: Scope, op: Any) -> Instruction:
    numbers = viewed(op.attributes["ragged_dot_dimension_numbers"], "RaggedDotDimensionNumbers")
    return scope.emit(
        "ragged-dot",
        scope.operands(op),
        scope.result_shape(op),
        **_paired(numbers),
        lhs_ragged_dims=tuple(numbers.lhs_ragged_dimensions),
        rhs_group_dims=tuple(numbers.rhs_group_dimensions),
        operand_precision=precisions(op),
    )


@IMPORT.of("stablehlo.einsum", "stablehlo.unary_einsum")
def einsum(scope: Scope, op: Any) -> Instruction:
    """Subscripts as in `ab,bc->ac`; those of one operand sum and transpose it."""
    operands = scope.operands(op)
    instruction = einsum_of(scope, operands, text(op, "einsum_config"))
    if instruction.shape.bare is not scope.result_shape(op).bare:
        raise scope.error(
            f"the subscripts give {instruction.shape.bare}, not {scope.result_shape(op).bare}",
            rule="einsum",
        )
    return instruction


@IMPORT.of("stablehlo.torch_index_select")
def torch_index_select(scope: Scope, op: Any) -> Instruction:
    """Slices of x along a dimension at each index, below which batch dimensions agree."""
    x, index = scope.operands(op)
    along, batch = integer(op, "dim"), integer(op, "batch_dims")
    result = scope.result_shape(op)
    rank = index.shape.rank
    batching = tuple(range(batch))
    sizes = [1 if k < batch or k == along else d for k, d in enumerate(x.shape.dims)]
    before = tuple(range(batch, along))
    after = tuple(range(along + rank - batch, result.rank))
    if prod(x.shape.dims) == 0 or result.rank != len(before) + len(after) + rank:
        raise scope.error("the shapes do not go together", rule="mlir")
    return scope.emit(
        "gather",
        (x, index),
        result,
        offset_dims=before + after,
        collapsed_slice_dims=(along,),
        start_index_map=(along,),
        operand_batching_dims=batching,
        start_indices_batching_dims=batching,
        index_vector_dim=rank,
        slice_sizes=tuple(sizes),
    )
