# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Functions put where they are called, as Shardy does not look through a call.

What a function says of the shardings of its arguments and results becomes constraints there.
"""

from __future__ import annotations

from typing import Any

SHARDING = "sdy.sharding"


def inline_calls(module: Any) -> None:
    """Put a copy of its function in place of every call; functions themselves stay."""
    functions = {
        str(op.attributes["sym_name"]).strip('"'): op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }
    done: set[str] = set()
    for name in functions:
        _inline_into(name, functions, done)
    for function in functions.values():
        for group in _operations(function, "sdy.sharding_group"):
            _name_argument(group)


def _name_argument(group: Any) -> None:
    """Let an argument of a region be the result of an operation where a sharding group has it:
    Shardy shares no sharding with the argument itself."""
    from jaxlib.mlir import ir

    value = group.operands[0]
    if not isinstance(value, ir.BlockArgument):
        return
    group.operands[0] = reshape_before(group, value, value.type)


def reshape_before(op: Any, value: Any, result: Any) -> Any:
    """The value reshaped to a type, right before an operation."""
    from jaxlib.mlir import ir

    return ir.Operation.create(
        "stablehlo.reshape",
        results=[result],
        operands=[value],
        loc=op.location,
        ip=ir.InsertionPoint(op),
    ).result


def _inline_into(name: str, functions: dict[str, Any], done: set[str]) -> None:
    """Callees first, so that what is copied has no calls any more."""
    if name in done:
        return
    done.add(name)
    for call in _operations(functions[name], "func.call"):
        callee = _callee(call)
        if callee in functions and functions[callee].regions[0].blocks:
            _inline_into(callee, functions, done)
            _put(call, functions[callee])


def _operations(op: Any, name: str) -> list[Any]:
    operations = []
    for region in op.regions:
        for block in region.blocks:
            for inside in block.operations:
                if inside.operation.name == name:
                    operations.append(inside.operation)
                elif inside.operation.regions:
                    operations.extend(_operations(inside.operation, name))
    return operations


def _callee(call: Any) -> str:
    return str(call.attributes["callee"]).removeprefix("@").strip('"')


def _put(call: Any, function: Any) -> None:
    """A copy of the function's body instead of one call."""
    copy = function.clone()
    try:
        block = copy.regions[0].blocks[0]
        operands = _constrained(call, list(call.operands), copy, "arg_attrs")
        for argument, value in zip(block.arguments, operands, strict=True):
            argument.replace_all_uses_with(value)
        *body, end = list(block.operations)
        places: dict[Any, Any] = {}
        for op in body:
            op.operation.move_before(call)
            _come_from(op.operation, call.location, places)
        results = _constrained(call, list(end.operands), copy, "res_attrs")
        for old, new in zip(call.results, results, strict=True):
            old.replace_all_uses_with(new)
        call.erase()
    finally:
        copy.erase()


def _come_from(op: Any, call: Any, places: dict[Any, Any]) -> None:
    """Put the name and the place of a call before those of an operation, and of all inside of it.

    `places` has what became of each location."""
    own = op.location
    if own.attr not in places:
        places[own.attr] = _location(own, call)
    op.location = places[own.attr]
    for region in op.regions:
        for block in region.blocks:
            for inside in block.operations:
                _come_from(inside.operation, call, places)


def _location(own: Any, call: Any) -> Any:
    from jaxlib.mlir import ir

    if not isinstance(call, ir.NameLoc):
        return own
    name, place = call.name_str, call.child_loc
    if isinstance(own, ir.NameLoc):
        is_within = own.name_str == name or own.name_str.startswith(f"{name}/")
        name = own.name_str if is_within else f"{name.removesuffix('/')}/{own.name_str}"
        place = ir.Location.callsite(own.child_loc, [place])
    return ir.Location.name(name, place)


def _constrained(call: Any, values: list[Any], function: Any, name: str) -> list[Any]:
    """The values with the shardings that the function states."""
    from jaxlib.mlir import ir

    if name not in function.attributes:
        return values
    constrained = []
    for value, attributes in zip(values, function.attributes[name], strict=True):
        if SHARDING in attributes:
            constraint = ir.Operation.create(
                "sdy.sharding_constraint",
                results=[value.type],
                operands=[value],
                attributes={"sharding": attributes[SHARDING]},
                loc=call.location,
                ip=ir.InsertionPoint(call),
            )
            value = constraint.result
        constrained.append(value)
    return constrained
