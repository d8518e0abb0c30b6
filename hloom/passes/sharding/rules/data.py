"""Factors of what moves, names and makes data."""

from __future__ import annotations

from math import gcd, prod

from hloom.ir.instruction import Instruction
from hloom.passes.sharding.factors import RULES, FactorTable, Kind, elementwise
from hloom.types.layout import default_layout
from hloom.types.shape import Shape


@RULES.of("copy", "opt-barrier", "domain", "add-dependency")
def same(table: FactorTable, i: Instruction) -> None:
    """An array goes through as it is (a tuple does so under other names)."""
    if i.shape.is_array:
        elementwise(table, i)


@RULES.of("constant", "iota")
def created(table: FactorTable, i: Instruction) -> None:
    """A device makes its part: of `iota` from where the part starts."""
    if i.shape.is_array:
        table.same([], [0], range(i.shape.rank))


@RULES.of("broadcast")
def broadcast(table: FactorTable, i: Instruction) -> None:
    from_operand = {d: k for k, d in enumerate(i.attrs.dimensions)}
    for d, size in enumerate(i.shape.dims):
        k = from_operand.get(d)
        table.add(size, {} if k is None else {0: k}, {0: d})


@RULES.of("transpose")
def transpose(table: FactorTable, i: Instruction) -> None:
    for d, k in enumerate(i.attrs.dimensions):
        table.add(i.shape.dims[d], {0: k}, {0: d})


@RULES.of("reshape", "bitcast", "dynamic-reshape")
def reshape(table: FactorTable, i: Instruction) -> None:
    """Runs of dimensions with the same product, cut where both sides can be."""
    x = i.operands[0].shape
    if not (x.is_array and i.shape.is_array) or x.dtype.bits != i.shape.dtype.bits:
        return
    if i.opcode == "bitcast" and not (_is_row_major(x) and _is_row_major(i.shape)):
        return
    if prod(x.dims) != prod(i.shape.dims) or 0 in x.dims:
        return  # a bitcast may leave elements out
    _walk(table, list(x.dims), list(i.shape.dims))


def _is_row_major(shape: Shape) -> bool:
    return shape.layout is None or shape.layout == default_layout(shape.rank)


def _walk(table: FactorTable, source: list[int], target: list[int]) -> None:
    """Take factors off the major ends of both lists, which have one product."""
    s = t = 0
    while s < len(source) or t < len(target):
        if s < len(source) and source[s] == 1:
            s += 1
        elif t < len(target) and target[t] == 1:
            t += 1
        else:
            common = gcd(source[s], target[t])
            if common > 1:
                table.add(common, {0: s}, {0: t})
            source[s] //= common
            target[t] //= common
            if source[s] > 1 and target[t] > 1:
                # What is left of both dimensions, and of those behind, lies crosswise: go on
                # behind the next place where both end.
                s, t = _meeting(source, s, target, t)


def _meeting(source: list[int], s: int, target: list[int], t: int) -> tuple[int, int]:
    """The first dimensions behind s and t before which equally many elements lie."""
    a, b = source[s], target[t]
    while a != b:
        if a < b:
            s += 1
            a *= source[s]
        else:
            t += 1
            b *= target[t]
    return s + 1, t + 1


@RULES.of("bitcast-convert")
def bitcast_convert(table: FactorTable, i: Instruction) -> None:
    """Where widths differ the last dimension of the wider list is parts of one element."""
    shared = min(i.shape.rank, i.operands[0].shape.rank)
    table.same([0], [0], range(shared))


@RULES.of("reverse")
def reverse(table: FactorTable, i: Instruction) -> None:
    for d in range(i.shape.rank):
        table.same([0], [0], [d], Kind.PERMUTE if d in i.attrs.dimensions else Kind.PASS)


@RULES.of("shuffle")
def shuffle(table: FactorTable, i: Instruction) -> None:
    reverse(table, i)


@RULES.of("slice")
def slice_(table: FactorTable, i: Instruction) -> None:
    x = i.operands[0].shape
    for d, size in enumerate(i.shape.dims):
        kind = Kind.PASS if size == x.dims[d] else Kind.PERMUTE
        table.add(size, {0: d}, {0: d}, kind)


@RULES.of("pad")
def pad(table: FactorTable, i: Instruction) -> None:
    for d, p in enumerate(i.attrs.padding.dimensions):
        moves = p.edge_padding_low or p.edge_padding_high or p.interior_padding
        size = i.operands[0].shape.dims[d]
        table.add(size, {0: d}, {0: d}, Kind.PERMUTE if moves else Kind.PASS)


@RULES.of("concatenate")
def concatenate(table: FactorTable, i: Instruction) -> None:
    (joined,) = i.attrs.dimensions
    everybody = range(len(i.operands))
    for d, size in enumerate(i.shape.dims):
        kind = Kind.PERMUTE if d == joined and len(i.operands) > 1 else Kind.PASS
        table.add(size, dict.fromkeys(everybody, d), {0: d}, kind)


@RULES.of("dynamic-slice")
def dynamic_slice(table: FactorTable, i: Instruction) -> None:
    """What is taken whole goes through; of what is cut a device gives what it has: the others add
    zeros."""
    x = i.operands[0].shape
    for d, size in enumerate(i.shape.dims):
        if size == x.dims[d]:
            table.add(size, {0: d}, {0: d})
        else:
            table.add(x.dims[d], {0: d}, {}, Kind.REDUCE)


@RULES.of("dynamic-update-slice")
def dynamic_update_slice(table: FactorTable, i: Instruction) -> None:
    """A device that has a part of a dimension which is written in part needs the whole update."""
    update = i.operands[1].shape
    for d, size in enumerate(i.shape.dims):
        written = update.dims[d] == size
        table.add(size, {0: d, 1: d} if written else {0: d}, {0: d})


@RULES.of("set-dimension-size")
def set_dimension_size(table: FactorTable, i: Instruction) -> None:
    table.same([0], [0], [d for d in range(i.shape.rank) if d not in i.attrs.dimensions])


@RULES.of("get-dimension-size", "parameter", "partition-id", "replica-id")
def nothing(table: FactorTable, i: Instruction) -> None:
    """No dimension of these is cut: sizes and ids are scalars, parameters say it themselves."""
    if i.opcode == "parameter" and i.shape.is_array:
        table.same([], [0], range(i.shape.rank))
