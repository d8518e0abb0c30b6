"""Loops, branches, calls and what only orders."""

from __future__ import annotations

from hloom.frontends.stablehlo.export.registry import Declined, export
from hloom.frontends.stablehlo.export.text import quoted
from hloom.frontends.stablehlo.export.writer import Writer, result_shapes
from hloom.ir.instruction import Instruction
from hloom.types.shape import Shape


def flat(shape: Shape) -> bool:
    """Whether a value is arrays and tokens, one or at least two of them."""
    parts = result_shapes(shape)
    return bool(parts) and all(s.is_array or s.is_token for s in parts)


@export("while")
def while_(w: Writer, i: Instruction) -> None:
    (x,) = i.operands
    if not flat(x.shape):
        raise Declined
    shapes = result_shapes(x.shape)
    values = w.elements(x) if x.shape.is_tuple else [w.value(x)]
    regions = [w.state_region(c) for c in i.called]
    w.op(i, "stablehlo.while", values, shapes, None, regions)


@export("conditional")
def conditional(w: Writer, i: Instruction) -> None:
    if not flat(i.shape):
        raise Declined
    selector, *inputs = i.operands
    values = [w.value(x) for x in inputs]
    regions = [w.branch(c, v) for c, v in zip(i.called, values, strict=True)]
    name = "stablehlo.if" if selector.shape.dtype.is_pred else "stablehlo.case"
    w.op(i, name, [w.value(selector)], [selector.shape], None, regions)


@export("call", handles="is_composite")
def call(w: Writer, i: Instruction) -> None:
    callee = w.function(i.called[0])
    name = (i.frontend_attributes or {}).get("composite.name")
    if not i.attrs.is_composite:
        w.simple(i, "func.call", {"callee": callee})
        return
    if name is None:
        raise Declined
    fields = {
        "name": quoted(name),
        "decomposition": callee,
        "version": f"{i.frontend_attributes.get('composite.version', '0')} : i32",
        "composite_attributes": i.frontend_attributes.get("composite.attributes", "{}"),
    }
    w.simple(i, "stablehlo.composite", fields)


@export("opt-barrier")
def opt_barrier(w: Writer, i: Instruction) -> None:
    (x,) = i.operands
    if not flat(x.shape):
        raise Declined
    values = w.elements(x) if x.shape.is_tuple else [w.value(x)]
    w.op(i, "stablehlo.optimization_barrier", values, result_shapes(x.shape))


@export("after-all")
def after_all(w: Writer, i: Instruction) -> None:
    w.simple(i, "stablehlo.after_all" if i.operands else "stablehlo.create_token")
