# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Layouts of the entry's arguments and results, as JAX asks for them (`mhlo.layout_mode`).

A mode is a layout as text, `default`, or `auto`: then the compiler chooses. Arguments are chosen
row-major; a result lies as what computes it makes it without moving anything: a transpose is free
where only the names of its dimensions change, and what is computed element by element lies as its
operands do.
"""

from __future__ import annotations

from typing import Any

from hloom.base.diagnostics import HloError, ParseError
from hloom.frontends.stablehlo.attributes import word
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.types.layout import default_layout, layout
from hloom.types.shape import ProgramShape, Shape, tuple_shape
from hloom.types.text import layout_from_text

MODE = "mhlo.layout_mode"
ALL_BUT = frozenset(("broadcast", "constant", "iota"))
"""What may be made in any order: it has no say in how a result lies."""

Order = tuple[int, ...]
"""Dimensions from the one that varies fastest."""


def layout_modes(module: Module, function: Any) -> None:
    """Take over the modes of the entry's arguments and results."""
    old = module.entry_layout
    assert old is not None
    modes = _modes(function, "arg_attrs", len(old.parameters))
    result_modes = _modes(function, "res_attrs", len(_leaves(old.result)))
    if not any(modes) and not any(result_modes):
        return
    parameters = tuple([_laid_out(s, m) for s, m in zip(old.parameters, modes, strict=True)])
    open_ = [k for k, mode in enumerate(result_modes) if mode == "auto"]
    chosen = _chosen(module.entry, parameters, open_) if open_ else {}
    leaves = [
        s.with_layout(layout(chosen[k])) if k in chosen else _laid_out(s, mode)
        for k, (s, mode) in enumerate(zip(_leaves(old.result), result_modes, strict=True))
    ]
    result = tuple_shape(leaves) if old.result.is_tuple else leaves[0]
    module.entry_layout = ProgramShape(parameters, (), result)


def _leaves(result: Shape) -> tuple[Shape, ...]:
    return result.elements if result.is_tuple else (result,)


def _modes(function: Any, name: str, count: int) -> list[str]:
    """The mode of each; nothing where none is said."""
    attributes = function.attributes.get(name, ())
    modes = [word(x[MODE]) if MODE in x else "" for x in attributes]
    return modes if len(modes) == count else [""] * count


def _laid_out(s: Shape, mode: str) -> Shape:
    """The shape in the layout that a mode names."""
    if not s.is_array or mode in ("", "auto"):
        return s
    if mode == "default":
        return s.with_layout(default_layout(s.rank))
    try:
        layout = layout_from_text(mode)
    except HloError as error:
        raise ParseError(f"{MODE} {mode!r} of {s}: {error.message}", rule="layout") from None
    if sorted(layout.minor_to_major) != list(range(s.rank)):
        raise ParseError(
            f"{MODE} {mode!r} is no permutation of the dimensions of {s}", rule="layout"
        )
    return s.with_layout(layout)


# -- results whose layout is open


def _chosen(
    entry: Computation, parameters: tuple[Shape, ...], open_: list[int]
) -> dict[int, Order]:
    """The orders of the results that are open, by number."""
    orders = _orders(entry, [_order_of(s) for s in parameters])
    root = entry.root
    if root.opcode == "tuple":
        chosen = {k: orders[root.operands[k]] for k in open_}
    else:
        chosen = {k: orders[root] for k in open_ if root.shape.is_array}
    return {k: order for k, order in chosen.items() if order}


def _orders(c: Computation, parameters: list[Order]) -> dict[Instruction, Order]:
    """How every value of a computation lies if nothing is moved."""
    orders: dict[Instruction, Order] = {}
    for i in c.instructions:
        if not i.shape.is_array:
            orders[i] = ()
        elif i.opcode == "parameter":
            orders[i] = parameters[i.attrs.number]
        else:
            orders[i] = _result_order(i, orders)
    return orders


def _result_order(i: Instruction, orders: dict[Instruction, Order]) -> Order:
    usual = _order_of(i.shape)
    if i.opcode == "call":
        inner = i.called[0]
        return _orders(inner, [orders[x] for x in i.operands])[inner.root] or usual
    if i.opcode == "copy":
        return orders[i.operands[0]]
    if i.opcode == "transpose":
        to = {d: k for k, d in enumerate(i.attrs.dimensions)}
        return tuple([to[d] for d in orders[i.operands[0]]])
    if i.op.family == "elementwise":
        same = [x for x in i.operands if x.shape.rank == len(usual) and x.opcode not in ALL_BUT]
        known_orders = {orders[x] for x in same}
        return known_orders.pop() if len(known_orders) == 1 else usual
    return usual


def _order_of(s: Shape) -> Order:
    """The order that a shape says; row-major if it says none."""
    if not s.is_array:
        return ()
    return s.layout.minor_to_major if s.layout is not None else tuple(range(s.rank - 1, -1, -1))
