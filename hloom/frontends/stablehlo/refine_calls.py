# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""What StableHLO's own refinement leaves to do: functions that are called with several shapes, and
the custom calls in which JAX hides operations whose parameters are open too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.frontends.stablehlo.bindings import DYNAMIC, inlined_func_call, ir
from hloom.ir.values.window import WindowDimension

REDUCE_WINDOW = "stablehlo.dynamic_reduce_window"
RANDOM_BITS = "stablehlo.dynamic_rng_bit_generator"
DEEPEST = 300
"""Functions that call each other deeper than this are taken for a recursion."""


def inline_calls(mlir_module: Any) -> None:
    """Put the body of each function where it is called: every call has shapes of its own."""
    functions = {
        op.attributes["sym_name"].value: op
        for op in mlir_module.body.operations
        if op.operation.name == "func.func"
    }
    main = functions["main"]
    for _ in range(DEEPEST):
        calls = list(calls_of(main, "func.call"))
        if not calls:
            return
        for call in calls:
            callee = functions[call.attributes["callee"].value].operation
            with ir.InsertionPoint(call), call.location:
                results = inlined_func_call(callee, list(call.operands), call.location)
            for old, new in zip(call.results, results, strict=True):
                old.replace_all_uses_with(new)
            call.erase()
    raise UsageError(f"functions call each other more than {DEEPEST} deep", rule="recursion")


def calls_of(function: Any, kind: str) -> Iterator[Any]:
    """Every operation of one kind in a function, also inside of regions."""
    stack = [function]
    while stack:
        op = stack.pop()
        if op.operation.name == kind:
            yield op.operation
        for region in op.regions:
            for block in region.blocks:
                stack.extend(block.operations)


def settle_calls(mlir_module: Any) -> bool:
    """Give the results of JAX's dynamic custom calls their shapes, where those follow by now;
    whether any did."""
    changed = False
    for function in mlir_module.body.operations:
        settled = [_settled(c) for c in calls_of(function, "stablehlo.custom_call")]
        if any(settled):
            _retype(function)
            changed = True
    return changed


def _settled(call: Any) -> bool:
    """Whether the shape of a custom call's result was open and is known now."""
    target = call.attributes["call_target_name"].value
    dims, results = None, list(call.results)
    if target == REDUCE_WINDOW:
        dims = _window_dims(call)
    elif target == RANDOM_BITS:
        dims, results = constant(call.operands[1]), results[1:]
    if dims is None:
        return False
    sizes = [int(n) for n in dims]
    opened = [r for r in results if DYNAMIC in r.type.shape]
    for result in opened:
        with call.location:
            result.set_type(ir.RankedTensorType.get(sizes, result.type.element_type))
    return bool(opened)


def _retype(function: Any) -> None:
    """Let a function say what it returns by now."""
    *_, last = function.regions[0].blocks[0].operations
    takes = [argument.type for argument in function.regions[0].blocks[0].arguments]
    with function.location:
        kind = ir.FunctionType.get(takes, [x.type for x in last.operands])
        function.attributes["function_type"] = ir.TypeAttr.get(kind)


def constant(value: Any) -> Any:
    """The array that a value is, None when it is no constant."""
    owner = value.owner
    if not hasattr(owner, "operation") or owner.operation.name != "stablehlo.constant":
        return None
    return np.array(owner.attributes["value"])


def window_of(call: Any) -> tuple[WindowDimension, ...] | None:
    """The window that a dynamic reduce-window's last five operands say; None if they do not yet."""
    sizes, strides, base, window, padding = map(constant, list(call.operands)[-5:])
    if any(x is None for x in (sizes, strides, base, window, padding)):
        return None
    return tuple(
        WindowDimension(
            int(size),
            int(strides[k]),
            int(padding[k][0]),
            int(padding[k][1]),
            int(window[k]),
            int(base[k]),
        )
        for k, size in enumerate(sizes)
    )


def _window_dims(call: Any) -> list[int] | None:
    window, dims = window_of(call), call.operands[0].type.shape
    if window is None or DYNAMIC in dims:
        return None
    return [d.output_size(size) for d, size in zip(window, dims, strict=True)]
