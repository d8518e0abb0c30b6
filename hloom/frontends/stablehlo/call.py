# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Calls out of the program, and composites: named operations with a function that says them.

A composite whose name is that of an operation of CHLO is read as that operation; any other is a
call of its function, marked as a composite.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hloom.frontends.stablehlo.attributes import boolean, integer, plain_ints, text
from hloom.frontends.stablehlo.bindings import ir, viewed
from hloom.frontends.stablehlo.collective import channel, groups
from hloom.frontends.stablehlo.dynamic import (
    constant_of,
    dynamic_reduce_window,
    dynamic_rng_bit_generator,
    is_constant,
)
from hloom.frontends.stablehlo.refine_calls import RANDOM_BITS, REDUCE_WINDOW
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.computation import Computation
from hloom.ir.copy import copy_computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.ir.text.cursor import Cursor
from hloom.ir.values.aliasing import OutputOperandAlias, OutputOperandAliasing
from hloom.ir.values.backend_config import BackendConfig
from hloom.ir.values.frontend import FrontendAttributes
from hloom.ir.values.slices import Slices
from hloom.types.layout import layout
from hloom.types.shape import Shape, tuple_shape

PINS = ("Pin", "Unpin")
"""A value as a buffer and back; StableHLO does not say that they are in place, HLO does."""
IN_PLACE = OutputOperandAliasing((OutputOperandAlias((), 0, ()),))
OPAQUE = "hlo."
"""Before the name of an operation of HLO that StableHLO has no name for."""
API_VERSIONS = (
    "API_VERSION_UNSPECIFIED",
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
)
SCHEDULES = ("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST")


@IMPORT.of("stablehlo.custom_call", "mhlo.custom_call")
def custom_call(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    target = text(op, "call_target_name")
    special = SPECIAL.get(target)
    if special is not None:
        return special(scope, op)
    if target.startswith(OPAQUE):
        return opaque(scope, op, target.removeprefix(OPAQUE))
    operands = scope.operands(op)
    shape, constraints = _layouts(scope, op, [x.shape for x in operands])
    called = (
        tuple(scope.program.function(c.value, scope) for c in op.attributes["called_computations"])
        if "called_computations" in op.attributes
        else ()
    )
    instruction = scope.emit(
        "custom-call",
        operands,
        shape,
        called,
        custom_call_target=target,
        operand_layout_constraints=constraints,
        custom_call_has_side_effect=boolean(op, "has_side_effect"),
        output_to_operand_aliasing=_aliases(op),
        schedule=SCHEDULES[integer(op, "custom_call_schedule")],
        api_version=_api_version(op),
    )
    config = _config(op)
    if config:
        instruction.backend_config = BackendConfig(config)
    if len(op.results) == 0:
        if "sdy.sharding" in op.attributes:  # where it is called: nobody annotates no results
            shardings = scope.program.shardings
            instruction.sharding = shardings.of_values(op.attributes["sdy.sharding"], 0)
        return []
    results = scope.elements(instruction, len(op.results))
    if isinstance(results, Instruction):
        return _laid_out(scope, results, op.results[0])
    return [_laid_out(scope, x, r) for x, r in zip(results, op.results, strict=True)]


def _laid_out(scope: Scope, x: Instruction, result: Any) -> Instruction:
    """A result in the layout that all values but those of custom calls have."""
    layout = x.shape.layout if x.shape.is_array else None
    if layout is None or layout.is_default:
        return x
    copy = scope.emit("copy", (x,), scope.shape(result))
    scope.tuple_elements.append(copy)
    return copy


def opaque(scope: Scope, op: Any, opcode: str) -> Instruction:
    """An operation of HLO that StableHLO lacks, its attributes in HLO text."""
    if opcode not in OPS:
        raise scope.error(f"HLO has no operation {opcode}", rule="opcode")
    declared = OPS[opcode]
    fields: dict[str, Any] = {}
    for x in op.attributes.get("mhlo.attributes", ()):
        field = declared.field_by_name.get(x.name)
        if field is None:
            raise scope.error(f"{opcode} has no attribute {x.name}", rule="mlir-attribute")
        fields[x.name] = field.kind.parse(Cursor(x.attr.value))
    called = tuple(
        scope.program.function(c.value, scope) for c in op.attributes.get("called_computations", ())
    )
    return scope.emit(opcode, scope.operands(op), scope.result_shape(op), called, **fields)


def _api_version(op: Any) -> str:
    """A dictionary that is set beside an empty config is one for typed handlers."""
    if "mhlo.backend_config" in op.attributes:
        return "API_VERSION_TYPED_FFI"
    return API_VERSIONS[integer(op, "api_version", 1)]


def _config(op: Any) -> str:
    """The backend config: text, or a dictionary in MLIR's own text."""
    for name in ("mhlo.backend_config", "backend_config"):
        if name in op.attributes:
            attribute = op.attributes[name]
            return attribute.value if isinstance(attribute, ir.StringAttr) else str(attribute)
    return ""


def _layouts(
    scope: Scope, op: Any, operands: list[Shape]
) -> tuple[Shape, tuple[Shape, ...] | None]:
    """The shape of the result and those of the operands, in the layouts that are asked for."""
    results = [scope.shape(r) for r in op.results]
    constraints = None
    if "result_layouts" in op.attributes:
        layouts = op.attributes["result_layouts"]
        if len(results) == 1 and results[0].is_tuple:
            results = [tuple_shape(map(_placed, results[0].elements, layouts))]
        else:
            results = [_placed(s, order) for s, order in zip(results, layouts, strict=True)]
    if "operand_layouts" in op.attributes:
        layouts = op.attributes["operand_layouts"]
        constraints = tuple(_placed(s, order) for s, order in zip(operands, layouts, strict=True))
    return (results[0] if len(results) == 1 else tuple_shape(results)), constraints


def _placed(shape: Shape, order: Any) -> Shape:
    return shape.with_layout(layout(plain_ints(order))) if shape.is_array else shape


def _aliases(op: Any) -> OutputOperandAliasing | None:
    if "output_operand_aliases" not in op.attributes:
        return IN_PLACE if text(op, "call_target_name") in PINS and len(op.operands) else None
    entries = [
        OutputOperandAlias(
            tuple(a.output_tuple_indices), a.operand_index, tuple(a.operand_tuple_indices)
        )
        for a in (viewed(x, "OutputOperandAlias") for x in op.attributes["output_operand_aliases"])
    ]
    return OutputOperandAliasing(tuple(entries)) if entries else None


# -- targets that stand for operations


def _as_chlo(name: str) -> Any:
    """Read a custom call on the operands of an operation of CHLO as that operation."""

    def read(scope: Scope, op: Any) -> Instruction | list[Instruction]:
        return IMPORT[name](scope, op)  # type: ignore[return-value]

    return read


def ragged_all_to_all(scope: Scope, op: Any) -> Instruction:
    operands = scope.operands(op)
    config = op.attributes.get("backend_config", {})
    replica_groups = groups(scope, _Attributes(config))
    number = int(config["channel_id"].value) if "channel_id" in config else None
    return scope.emit(
        "ragged-all-to-all",
        operands,
        operands[1].shape,
        replica_groups=replica_groups,
        channel_id=number if number is not None else channel(op),
    )


class _Attributes:
    """A dictionary in the place of an operation that has attributes."""

    def __init__(self, attributes: Any) -> None:
        self.attributes = attributes


def topk(scope: Scope, op: Any) -> list[Instruction]:
    """`mhlo.topk`: its attributes stand in a dictionary."""
    attributes = op.attributes.get("mhlo.attributes", {})
    largest = bool(attributes["largest"].value) if "largest" in attributes else True
    instruction = scope.emit(
        "topk",
        scope.operands(op),
        scope.tuple_or_one(op),
        k=int(attributes["k"].value) if "k" in attributes else scope.shape(op.results[0]).dims[-1],
        largest=largest,
    )
    return [scope.element(instruction, k) for k in range(2)]


def shape_assertion(scope: Scope, op: Any) -> list[Instruction]:
    """What a program with open sizes demands of them; they are known here, so it is checked."""
    condition = op.operands[0]
    if not is_constant(condition):
        raise scope.error("a demand on sizes is not decided", rule="dynamic")
    if not constant_of(scope, condition).all():
        message = text(op, "error_message", "the shapes are not those that the program demands")
        raise scope.error(message, rule="dynamic")
    return []


def needed(scope: Scope, attributes: Any, name: str) -> int:
    """An integer that must be in a dictionary of attributes."""
    if isinstance(attributes, ir.StringAttr) or name not in attributes:
        raise scope.error(f"the attribute {name} is missing", rule="mlir-attribute")
    return int(attributes[name].value)


def total(scope: Scope, order: Computation) -> Computation:
    """A comparator of floats in total order, which `topk` has too: an approximate one leaves open
    where NaN come, and which zero comes first."""
    test = order.root
    floats = test.opcode == "compare" and test.operands[0].shape.dtype.is_floating
    if not floats or test.attrs.type == "TOTALORDER":
        return order
    own, _ = copy_computation(order, scope.program.module)
    own.root.attrs = replace(own.root.attrs, type="TOTALORDER")
    return scope.program.shared(own)


def approx_top_k(scope: Scope, op: Any) -> list[Instruction]:
    """The exact answer: sorted by the comparator, as many as are asked for."""
    x, places = scope.operands(op)[:2]
    order = scope.program.function(op.attributes["called_computations"][0].value, scope)
    config = op.attributes.get("mhlo.backend_config", op.attributes.get("backend_config", {}))
    along = needed(scope, config, "reduction_dim") % x.shape.rank
    both = tuple_shape([x.shape, places.shape])
    order = total(scope, order)
    ordered = scope.emit("sort", (x, places), both, (order,), dimensions=(along,))
    slices = []
    for k, result in enumerate(op.results):
        shape = scope.shape(result)
        ranges = [(0, size) for size in shape.dims]
        part = scope.element(ordered, k)
        slices.append(scope.emit("slice", (part,), shape, slice=Slices.of(*ranges)))
    return slices


SPECIAL: dict[str, Any] = {
    "ApproxTopK": approx_top_k,
    "shape_assertion": shape_assertion,
    REDUCE_WINDOW: dynamic_reduce_window,
    RANDOM_BITS: dynamic_rng_bit_generator,
    "mhlo.topk": topk,
    "ragged_all_to_all": ragged_all_to_all,
    **{
        f"mhlo.{name}": _as_chlo(f"chlo.{name}")
        for name in "acos acosh asin asinh atanh cosh erf sinh tan mulhi".split()
    },
}


# -- composites


@IMPORT.of("stablehlo.composite", "mhlo.composite")
def composite(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    name = text(op, "name")
    known = COMPOSITES.get(name)
    if known is not None:
        return known(scope, op, op.attributes.get("composite_attributes", {}))
    if name in IMPORT and name.startswith("chlo.") and not len(_composite_attributes(op)):
        return IMPORT[name](scope, op)  # type: ignore[return-value]
    callee = scope.program.function(op.attributes["decomposition"].value, scope)
    instruction = scope.emit(
        "call", scope.operands(op), callee.root.shape, (callee,), is_composite=True
    )
    pairs = {"composite.name": name, "composite.version": str(integer(op, "version"))}
    pairs["composite.attributes"] = (
        str(op.attributes["composite_attributes"]) if _composite_attributes(op) else "{}"
    )
    instruction.frontend_attributes = FrontendAttributes.of(pairs)
    return scope.elements(instruction, len(op.results))


def _composite_attributes(op: Any) -> Any:
    return op.attributes.get("composite_attributes", ())


def composite_top_k(scope: Scope, op: Any, attributes: Any) -> list[Instruction]:
    """`chlo.top_k` with its attributes beside it."""
    (x,) = scope.operands(op)
    instruction = scope.emit(
        "topk",
        (x,),
        scope.tuple_or_one(op),
        k=needed(scope, attributes, "k"),
        largest=bool(attributes["largest"].value) if "largest" in attributes else True,
    )
    return [scope.element(instruction, k) for k in range(2)]


COMPOSITES: dict[str, Any] = {"chlo.top_k": composite_top_k}
