"""Contractions."""

from __future__ import annotations

from hloom.frontends.stablehlo.dot import ALGORITHMS
from hloom.frontends.stablehlo.export.registry import Declined, export
from hloom.frontends.stablehlo.export.text import precision
from hloom.frontends.stablehlo.export.writer import Writer
from hloom.ir.instruction import Instruction

NUMBERS = "lhs_batch_dims lhs_contracting_dims rhs_batch_dims rhs_contracting_dims"


@export("dot", handles=f"{NUMBERS} operand_precision algorithm")
def dot(w: Writer, i: Instruction) -> None:
    a = i.attrs
    numbers = (
        f"#stablehlo.dot<lhs_batching_dimensions = {list(a.lhs_batch_dims)}, "
        f"rhs_batching_dimensions = {list(a.rhs_batch_dims)}, "
        f"lhs_contracting_dimensions = {list(a.lhs_contracting_dims)}, "
        f"rhs_contracting_dimensions = {list(a.rhs_contracting_dims)}>"
    )
    fields = {"dot_dimension_numbers": numbers, **precision(a.operand_precision)}
    if a.algorithm is not None:
        fields["algorithm"] = algorithm(a.algorithm, i)
    w.simple(i, "stablehlo.dot_general", fields)


def algorithm(name: str, i: Instruction) -> str:
    """What a name of HLO means."""
    words = {n: key for key, n in ALGORITHMS.items()}
    if name.startswith("dot_any_f8"):
        sides = [str(x.shape.dtype) for x in i.operands]
        if not all(s.startswith("f8") for s in sides):
            raise Declined
        left, right = ("f8" + s[2:].upper() for s in sides)
        key = (left, right, "f32", 1, 1, 1)
    elif name not in words:
        raise Declined
    else:
        key = words[name]
    fast = "true" if name.endswith("fast_accum") else "false"
    return (
        f"#stablehlo.dot_algorithm<lhs_precision_type = {key[0]}, rhs_precision_type = {key[1]}, "
        f"accumulation_type = {key[2]}, lhs_component_count = {key[3]}, "
        f"rhs_component_count = {key[4]}, num_primitive_operations = {key[5]}, "
        f"allow_imprecise_accumulation = {fast}>"
    )


@export("ragged-dot", handles=f"{NUMBERS} lhs_ragged_dims rhs_group_dims operand_precision")
def ragged_dot(w: Writer, i: Instruction) -> None:
    a = i.attrs
    numbers = (
        f"#chlo.ragged_dot<lhs_batching_dimensions = {list(a.lhs_batch_dims)}, "
        f"rhs_batching_dimensions = {list(a.rhs_batch_dims)}, "
        f"lhs_contracting_dimensions = {list(a.lhs_contracting_dims)}, "
        f"rhs_contracting_dimensions = {list(a.rhs_contracting_dims)}, "
        f"lhs_ragged_dimensions = {list(a.lhs_ragged_dims)}, "
        f"rhs_group_dimensions = {list(a.rhs_group_dims)}>"
    )
    fields = {"ragged_dot_dimension_numbers": numbers, **precision(a.operand_precision, "chlo")}
    w.simple(i, "chlo.ragged_dot", fields)
