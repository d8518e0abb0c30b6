# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""What Shardy, which jaxlib brings, says of a program: how each of its values stands on devices."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

from hloom.plugin.inlining import SHARDING, inline_calls, reshape_before
from hloom.plugin.inspection import name_functions

BROADCAST, WHILE = "stablehlo.broadcast_in_dim", "stablehlo.while"
STANDS_FOR = "hloom.stands_for"
"""The operation of CHLO in whose place another one is, which Shardy passes shardings through."""


@contextmanager
def parsed(code: bytes) -> Iterator[Any]:
    """The module of MLIR in an artifact or bytecode, in its own context."""
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    context = make_ir_context()
    with context, ir.Location.unknown(context):
        try:
            module = stablehlo.deserialize_portable_artifact(context, code)
        except (ValueError, RuntimeError, ir.MLIRError):
            module = ir.Module.parse(code, context)
        yield module


def written(module: Any) -> bytes:
    """A module of MLIR as bytecode."""
    into = io.BytesIO()
    module.operation.write_bytecode(into)
    return into.getvalue()


def propagated(code: bytes) -> bytes:
    """The program with a sharding at every value, as bytecode."""
    from jaxlib.mlir.passmanager import PassManager

    with parsed(code) as module:
        for op in [op for op in walked(module.operation) if op.name == "stablehlo.composite"]:
            _without_composite(op)
        inline_calls(module)
        for op in [op for op in walked(module.operation) if op.name == BROADCAST]:
            _as_reshape(op)
        PassManager.parse("builtin.module(sdy-propagation-pipeline)").run(module.operation)
        for op in [op for op in walked(module.operation) if STANDS_FOR in op.attributes]:
            _as_it_was(op)
        for op in [op for op in walked(module.operation) if op.name == WHILE]:
            # Nobody but Shardy says it of a loop: the partitioner may choose what is less.
            if SHARDING in op.attributes:
                del op.attributes[SHARDING]
        calls = [op for op in walked(module.operation) if op.name == "stablehlo.custom_call"]
        name_functions(calls)
        return written(module)


def _as_reshape(op: Any) -> None:
    """Put a reshape in place of a broadcast that only adds dimensions of 1, as XLA does.

    Shardy passes shardings on through a reshape before it looks at gathers and dots, and through a
    broadcast after them: `x[i]` would not be cut as the indices are, where weights are cut along
    the same axis.
    """
    from jaxlib.mlir import ir

    (operand,), (result,) = op.operands, op.results
    before, after = ir.RankedTensorType(operand.type), ir.RankedTensorType(result.type)
    dims = list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"]))
    is_static = before.has_static_shape and after.has_static_shape
    if not is_static or prod(before.shape) != prod(after.shape) or dims != sorted(dims):
        return
    result.replace_all_uses_with(reshape_before(op, operand, result.type))
    op.erase()


def _without_composite(op: Any) -> None:
    """Put what Shardy knows in place of a composite: its own top_k, an operation on elements for
    one of CHLO's, or a call of the function."""
    from jaxlib.mlir import ir

    fields, attributes = op.attributes, {}
    stands_for = ir.StringAttr(fields["name"]).value
    if _is_elementwise(op, stands_for):
        name = "stablehlo.tanh" if len(op.operands) == 1 else "stablehlo.power"
        attributes[STANDS_FOR] = ir.StringAttr.get(stands_for)
    elif stands_for == "chlo.top_k":
        name = "stablehlo.custom_call"
        attributes["call_target_name"] = ir.StringAttr.get("mhlo.topk")
        attributes["mhlo.attributes"] = ir.DictAttr.get(
            {"largest": ir.BoolAttr.get(True), "k": fields["composite_attributes"]["k"]}
        )
    else:
        name = "func.call"
        attributes["callee"] = fields["decomposition"]
    _put(op, name, attributes)


def _is_elementwise(op: Any, name: str) -> bool:
    """Whether a composite is an operation of CHLO on arrays of one type that are not whole numbers,
    or on two of any."""
    from jaxlib.mlir import ir

    types = [x.type for x in (*op.operands, *op.results)]
    fields = op.attributes
    if not name.startswith("chlo.") or len(types) not in (2, 3) or len({*map(str, types)}) != 1:
        return False
    if "composite_attributes" in fields and len(fields["composite_attributes"]):
        return False
    return len(types) == 3 or not isinstance(types[0].element_type, ir.IntegerType)


def _as_it_was(op: Any) -> None:
    """Put an operation of CHLO back, with the sharding of the one that stands for it."""
    from jaxlib.mlir import ir

    kept = {a: op.attributes[a] for a in (SHARDING,) if a in op.attributes}
    _put(op, ir.StringAttr(op.attributes[STANDS_FOR]).value, kept)


def _put(op: Any, name: str, attributes: dict[str, Any]) -> None:
    """An operation of the same operands and results in place of another."""
    from jaxlib.mlir import ir

    replacement = ir.Operation.create(
        name,
        results=[r.type for r in op.results],
        operands=list(op.operands),
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    for old, new in zip(op.results, replacement.results):
        old.replace_all_uses_with(new)
    op.erase()


def walked(op: Any) -> Iterator[Any]:
    """Every operation inside one of MLIR, outer ones first."""
    for region in op.regions:
        for block in region.blocks:
            for inside in block.operations:
                yield inside.operation
                yield from walked(inside.operation)
