"""Calls out of the program."""

from __future__ import annotations

from hloom.frontends.stablehlo.call import API_VERSIONS, IN_PLACE, PINS, SCHEDULES
from hloom.frontends.stablehlo.export.reduce import plain
from hloom.frontends.stablehlo.export.registry import Declined, export
from hloom.frontends.stablehlo.export.text import order, quoted
from hloom.frontends.stablehlo.export.writer import Writer, result_shapes
from hloom.ir.instruction import Instruction
from hloom.types.shape import Shape

HANDLES = (
    "custom_call_target operand_layout_constraints custom_call_has_side_effect "
    "output_to_operand_aliasing schedule api_version"
)


@export("custom-call", handles=HANDLES)
def custom_call(w: Writer, i: Instruction) -> None:
    a = i.attrs
    results = result_shapes(i.shape)
    if i.attrs.custom_call_target.startswith("hlo."):
        raise Declined
    plain(i)
    fields = {
        "call_target_name": quoted(a.custom_call_target),
        "api_version": f"{API_VERSIONS.index(a.api_version)} : i32",
        **_layouts(i, results),
    }
    if i.backend_config:
        raw = i.backend_config.raw
        is_typed = a.api_version == "API_VERSION_TYPED_FFI" and raw.startswith("{")
        fields["backend_config"] = raw if is_typed else quoted(raw)
    if a.custom_call_has_side_effect:
        fields["has_side_effect"] = "true"
    if a.schedule != SCHEDULES[0]:
        fields["custom_call_schedule"] = f"{SCHEDULES.index(a.schedule)} : i32"
    if i.called:
        fields["called_computations"] = f"[{', '.join(w.function(c) for c in i.called)}]"
    is_implied = a.custom_call_target in PINS and a.output_to_operand_aliasing == IN_PLACE
    if a.output_to_operand_aliasing and not is_implied:
        words = [
            f"#stablehlo.output_operand_alias<output_tuple_indices = "
            f"{list(e.output_shape_index)}, operand_index = {e.operand_index}, "
            f"operand_tuple_indices = {list(e.operand_shape_index)}>"
            for e in a.output_to_operand_aliasing.entries
        ]
        fields["output_operand_aliases"] = f"[{', '.join(words)}]"
    w.simple(i, "stablehlo.custom_call", fields)


def _layouts(i: Instruction, results: list[Shape]) -> dict[str, str]:
    """The layouts of operands and results, where the call demands them."""
    constraints = i.attrs.operand_layout_constraints
    fields: dict[str, str] = {}
    if constraints is None and all(
        s.layout is None or s.layout.is_default for s in i.shape.leaves()
    ):
        return fields
    if any(s.is_tuple for s in results) or any(x.shape.is_tuple for x in i.operands):
        raise Declined
    operand_shapes = constraints if constraints is not None else tuple(x.shape for x in i.operands)
    for name, shapes in (("operand_layouts", operand_shapes), ("result_layouts", results)):
        orders = [order(s.layout.minor_to_major if s.layout else ()) for s in shapes]
        fields[name] = f"[{', '.join(orders)}]"
    return fields
