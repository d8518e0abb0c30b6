# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Dimensions without a size, worked out from the shapes of the arguments.

StableHLO's own passes do it: the arguments get their shapes, sizes flow through the program, and
operations that take a shape as an operand become the ones that do not. It works on a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.base.diagnostics import UsageError
from hloom.frontends.stablehlo.bindings import DYNAMIC, PassManager, ir
from hloom.frontends.stablehlo.refine_calls import inline_calls, settle_calls
from hloom.frontends.stablehlo.types import MLIR_NAMES
from hloom.types.shape import Shape

PASSES = ["stablehlo-refine-shapes", "func.func(stablehlo-canonicalize-dynamism)"]


def refined(mlir_module: Any, shapes: Sequence[Shape]) -> Any:
    """A copy of the module for arguments of these shapes (`()`: as its types say)."""
    copy = ir.Module.parse(str(mlir_module), mlir_module.context)
    entry = _entry(copy)
    types = [argument.type for argument in entry.regions[0].blocks[0].arguments]
    if shapes:
        if len(shapes) != len(types):
            raise UsageError(
                f"{len(shapes)} shapes are given for {len(types)} arguments", rule="dynamic"
            )
        argument_types = [_checked(k, t, s) for k, (t, s) in enumerate(zip(types, shapes))]
        inline_calls(copy)
        _run(copy, f"stablehlo-refine-arguments{{types={','.join(argument_types)}}}", *PASSES)
    else:
        _run(copy, *PASSES)
    while settle_calls(copy):
        _run(copy, *PASSES)
    return copy


def _run(mlir_module: Any, *passes: str) -> None:
    pipeline = f"builtin.module({','.join(passes)})"
    try:
        PassManager.parse(pipeline, mlir_module.context).run(mlir_module.operation)
    except ir.MLIRError as error:
        messages = "; ".join(d.message for d in error.error_diagnostics) or str(error)
        raise UsageError(f"the shapes do not fit the program: {messages}", rule="dynamic") from None


def _entry(mlir_module: Any) -> Any:
    for op in mlir_module.body.operations:
        if op.operation.name == "func.func" and op.attributes["sym_name"].value == "main":
            return op
    raise UsageError("there is no function main to refine", rule="entry")


def _checked(number: int, type_: Any, shape_: Shape) -> str:
    """The given shape in MLIR's words, where it can be that of the argument."""
    text = tensor_text(shape_)
    if isinstance(type_, ir.RankedTensorType):
        same = len(type_.shape) == shape_.rank and all(
            d in (DYNAMIC, size) for d, size in zip(type_.shape, shape_.dims)
        )
        if not same or str(type_.element_type) != MLIR_NAMES[shape_.dtype]:
            raise UsageError(
                f"argument {number} is {type_} and cannot be {shape_.bare}", rule="dynamic"
            )
    return text


def tensor_text(shape: Shape) -> str:
    """`tensor<2x3xf32>`."""
    dims = "".join(f"{size}x" for size in shape.dims)
    return f"tensor<{dims}{MLIR_NAMES[shape.dtype]}>"
