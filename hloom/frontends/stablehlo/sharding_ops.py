# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""What Shardy adds to a program: constraints, barriers, groups, and regions written per device.

A value keeps its global shape; where it must be placed in a certain way stands a custom call
`Sharding`, which is the value itself. A manual computation is the code of one device between
`SPMDFullToShardShape` and `SPMDShardToFullShape`, which cut a value into shards and join them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.frontends.stablehlo.attributes import integer
from hloom.frontends.stablehlo.bindings import sdy
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.frontends.stablehlo.shardings import keep_priorities
from hloom.ir.instruction import Instruction
from hloom.ir.values.frontend import FrontendAttributes
from hloom.ir.values.sharding import Sharding
from hloom.ir.values.sharding_named import NamedSharding
from hloom.ir.values.sharding_sdy import (
    BARRIER,
    DIRECTION,
    SdySharding,
    in_region,
    outside_region,
)
from hloom.types.shape import Shape


def constrained(
    scope: Scope,
    x: Instruction,
    sharding: Sharding,
    target: str = "Sharding",
    shape: Shape | None = None,
) -> Instruction:
    """x, placed as the sharding says."""
    annotated = scope.emit("custom-call", (x,), shape or x.shape, custom_call_target=target)
    annotated.sharding = sharding
    return annotated


@IMPORT.of("sdy.sharding_constraint", "sdy.reshard")
def sharding_constraint(scope: Scope, op: Any) -> Instruction:
    return _placed(scope, op)


def _placed(scope: Scope, op: Any) -> Instruction:
    """The operand, placed as `sharding` says."""
    sharding = scope.program.shardings.of_tensor(op.attributes["sharding"])
    placed = constrained(scope, scope.operands(op)[0], sharding)
    keep_priorities(placed, op.attributes["sharding"])
    return placed


@IMPORT.of("sdy.data_flow_edge", "sdy.func_data_flow_edge")
def data_flow_edge(scope: Scope, op: Any) -> Instruction:
    """What a loop, a region or a function hands on, in programs that were written down between
    Shardy's passes: the same value, placed as it says there, if it says anything."""
    if "sharding" in op.attributes:
        return _placed(scope, op)
    return scope.operands(op)[0]


@IMPORT.of(
    "sdy.all_gather",
    "sdy.all_slice",
    "sdy.all_to_all",
    "sdy.collective_permute",
    "sdy.all_reduce",
    "sdy.reduce_scatter",
    "sdy.replicated_to_unreduced",
    "sdy.sharded_to_unreduced",
)
def resharding(scope: Scope, op: Any) -> Instruction:
    """The same global value, spread in another way."""
    sharding = scope.program.shardings.of_tensor(op.attributes["out_sharding"])
    return constrained(scope, scope.operands(op)[0], sharding)


@IMPORT.of("sdy.propagation_barrier")
def propagation_barrier(scope: Scope, op: Any) -> Instruction:
    """Shardings do not spread across it, but where it says so; the value is the same."""
    (x,) = scope.operands(op)
    barrier = scope.emit("custom-call", (x,), x.shape, custom_call_target=BARRIER)
    barrier.frontend_attributes = FrontendAttributes.of(
        {DIRECTION: str(op.attributes["allowed_direction"])}
    )
    return barrier


@IMPORT.of("sdy.sharding_group")
def sharding_group(scope: Scope, op: Any) -> None:
    """Values of one group are spread in the same way."""
    (x,) = scope.operands(op)
    group = integer(op, "group_id")
    grouped = scope.emit(
        "custom-call",
        (x,),
        x.shape,
        custom_call_target="Sharding",
        custom_call_has_side_effect=True,
    )
    grouped.sharding = Sharding("unknown", shard_group=("as", group))


@IMPORT.of("sdy.named_computation")
def named_computation(scope: Scope, op: Any) -> list[Instruction]:
    """A region with a name, inlined; its arguments and results as it says that they are cut."""
    block = op.regions[0].blocks[0]
    into = _stated(scope, op, "in_shardings", scope.operands(op))
    for argument, x in zip(block.arguments, into, strict=True):
        scope.values[argument] = x
    scope.inside(op, block)
    return _stated(scope, op, "out_shardings", scope.returned)


def _stated(scope: Scope, op: Any, name: str, values: Sequence[Instruction]) -> list[Instruction]:
    """Values placed as an attribute says, if there is one."""
    if name not in op.attributes:
        return list(values)
    around = _manual_around(op)
    placed = []
    for x, named in zip(values, scope.program.shardings.each(op.attributes[name]), strict=True):
        sharding = in_region(named, around) if around else SdySharding(named).sharding
        placed.append(constrained(scope, x, sharding))
    return placed


def named_axes(op: Any) -> tuple[str, ...]:
    """The axes along which a manual computation is by hand."""
    axes = sdy.ManualAxesAttr(op.attributes["manual_axes"])
    return tuple(axes[k] for k in range(len(axes)))


@IMPORT.of("sdy.manual_computation")
def manual_computation(scope: Scope, op: Any) -> list[Instruction]:
    shardings = scope.program.shardings
    block = op.regions[0].blocks[0]
    around = _manual_around(op)
    manual = (*around, *named_axes(op))
    into, out = (shardings.each(op.attributes[n]) for n in ("in_shardings", "out_shardings"))
    for argument, x, named in zip(block.arguments, scope.operands(op), into, strict=True):
        placed = constrained(scope, x, _outside(named, manual, around))
        scope.values[argument] = constrained(
            scope, placed, in_region(named, manual), "SPMDFullToShardShape", scope.shape(argument)
        )
    scope.inside(op, block)
    parts = []
    for x, named, result in zip(scope.returned, out, op.results, strict=True):
        local = constrained(scope, x, in_region(named, manual))
        whole = _outside(named, manual, around)
        parts.append(constrained(scope, local, whole, "SPMDShardToFullShape", scope.shape(result)))
    return parts


def _outside(named: NamedSharding, manual: tuple[str, ...], around: tuple[str, ...]) -> Sharding:
    """How a value is cut before it comes into a region, or behind it."""
    outer = outside_region(named, manual)
    return in_region(outer, around) if around else SdySharding(outer).sharding


def _manual_around(op: Any) -> tuple[str, ...]:
    """The axes that are by hand already in the manual computations around this one."""
    axes: tuple[str, ...] = ()
    parent = op.operation.parent
    while parent is not None:
        if parent.name == "sdy.manual_computation":
            axes = (*named_axes(parent), *axes)
        parent = parent.operation.parent
    return axes
