"""for, while and if: basic blocks, with the carried tiles as phis of vectors, never in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloom.codegen.llvm.lower_crosswise import is_crosswise
from hloom.codegen.llvm.lower_state import Handler, Joined, KernelLowering, Rows
from hloom.codegen.llvm.lower_tiles import Tiles, end_of, loop_of_tiles
from hloom.codegen.llvm.values import V
from hloom.kernel.kernel import Block, Op, Value

UNROLLED_STEPS = 4
UNROLLED_OPS = 64
"""Loops of no more steps, and of no more ops when written out, are written out."""

LowerBlock = Callable[[KernelLowering, Block], tuple[Value, ...]]


def _flat(low: KernelLowering, values: tuple[Value, ...]) -> Rows:
    """The registers of several tiles, one after another; rows that have parts as their parts.

    They are made here, in the block that ends with a branch to the phis that take them.
    """
    rows = [part for value in values for row in low.of(value) for part in low.parts(row)]
    return [low.e.concat(row.parts) if isinstance(row, Joined) else row for row in rows]


def _bind(
    low: KernelLowering, values: tuple[Value, ...], like: tuple[Value, ...], flat: Rows
) -> None:
    """Gives tiles the registers of a list; each takes as many as its namesake in `like`."""
    at = 0
    for value, model in zip(values, like):
        rows: Rows = []
        for row in low.of(model):
            count = len(low.widths(row.lanes)) or 1
            rows.append(low.joined(flat[at : at + count]))
            at += count
        low.rows[value] = rows


def for_(lower_block: LowerBlock) -> Handler:
    """The handler of counted loops."""

    def apply(low: KernelLowering, op: Op) -> None:
        e, (block,) = low.e, op.blocks
        lower, upper, *init = op.operands
        (begin,), (end,), step = low.of(lower), low.of(upper), op.attrs["step"]
        carried = tuple(init)
        trips = _trips(begin, end, step)
        is_written_out = trips is not None and _is_written_out(low, block, trips)
        tiled = loop_of_tiles(block)
        if tiled is not None and step > 0:
            _for_tiles(lower_block, low, op, tiled, trips if is_written_out else None)
            return
        if is_written_out:
            assert trips is not None
            now = _flat(low, carried)
            for number in range(trips):
                at = e.const("i64", int(begin.value or 0) + number * step)
                low.rows[block.arguments[0]] = [at]
                _bind(low, block.arguments[1:], carried, now)
                now = _flat(low, lower_block(low, block))
            _bind(low, op.results, carried, now)
            return
        if step <= 0:
            raise low.refuse(op, f"has the step {step}", "count upwards")
        initial = _flat(low, carried)
        with e.loop(begin, end, e.const("i64", step), initial, trips is not None) as loop:
            low.rows[block.arguments[0]] = [loop.index]
            _bind(low, block.arguments[1:], carried, loop.carried)
            loop.next(_flat(low, lower_block(low, block)))
        _bind(low, op.results, carried, loop.results)

    return apply


def _for_tiles(
    lower_block: LowerBlock, low: KernelLowering, op: Op, dot: Op, steps: int | None
) -> None:
    """A loop around one dot whose sums stay in tile registers; so many steps written out."""
    e, (block,) = low.e, op.blocks
    lower, upper, carried = op.operands
    (begin,), (end,), step = low.of(lower), low.of(upper), op.attrs["step"]
    tiles = low.tiles[dot] = Tiles(low, dot)
    tiles.begin(low.of(carried))
    if steps is None:
        is_known = _trips(begin, end, step) is not None
        with e.loop(begin, end, e.const("i64", step), (), is_known) as loop:
            low.rows[block.arguments[0]] = [loop.index]
            lower_block(low, block)
            loop.next([])
    for number in range(steps or 0):
        low.rows[block.arguments[0]] = [e.const("i64", int(begin.value or 0) + number * step)]
        lower_block(low, block)
    low.rows[op.results[0]] = end_of(low, op.results[0], tiles)


def _is_written_out(low: KernelLowering, block: Block, trips: int) -> bool:
    """Whether a loop of known steps is cheaper without the loop."""
    if trips <= 1:
        return True
    size = trips * sum(_size(op) for op in block.ops)
    straight = not any(op.blocks for op in block.ops)
    return low.freedom.unroll and straight and trips <= UNROLLED_STEPS and size <= UNROLLED_OPS


def _size(op: Op) -> int:
    """About how many instructions an operation is: one, but for squares that are turned."""
    if op.opcode not in ("load", "store"):
        return 1
    buffer, tile = op.operands[0], op.results[0] if op.results else op.operands[2]
    if not is_crosswise(tile.shape, op.attrs["strides"], buffer.dtype):
        return 1
    high, wide = tile.shape[-2:]
    return high * (wide - 1).bit_length()


def _trips(begin: V, end: V, step: int) -> int | None:
    """How many steps a loop of constant limits takes; None if they are not known."""
    if begin.value is None or end.value is None or step <= 0:
        return None
    return max(0, -(-(int(end.value) - int(begin.value)) // step))


def while_(lower_block: LowerBlock) -> Handler:
    """The handler of loops with a condition."""

    def apply(low: KernelLowering, op: Op) -> None:
        e, (condition, body) = low.e, op.blocks
        carried = op.operands
        initial = _flat(low, carried)
        head, inside, exit_ = e.fresh("while"), e.fresh("do"), e.fresh("done")
        before, outer = e.label, e.depth
        hoisted: list[Any] = []
        phis: list[Any] = []
        e.lines.append(hoisted)
        e.br(head)
        e.block(head, dominated=True)
        e.lines.append(phis)
        e.open_scope(hoisted)
        now = [V("%" + e.fresh("w"), v.kind, v.lanes, outer + 1, None, v.type) for v in initial]
        _bind(low, condition.arguments, carried, now)
        (more,) = _flat(low, lower_block(low, condition))
        e.cond_br(more, inside, exit_)
        e.block(inside, dominated=True)
        _bind(low, body.arguments, carried, now)
        following = _flat(low, lower_block(low, body))
        e.br(head)
        for new, first, again in zip(now, initial, following):
            phis.append(
                f"  {new.name} = phi {new.type} "
                f"[ {first.name}, %{before} ], [ {again.name}, %{e.label} ]"
            )
        e.close_scope()
        e.block(exit_, dominated=True)
        final = [V(v.name, v.kind, v.lanes, outer, None, v.type) for v in now]
        _bind(low, op.results, carried, final)

    return apply


def if_(lower_block: LowerBlock) -> Handler:
    """The handler of a choice between two blocks."""

    def apply(low: KernelLowering, op: Op) -> None:
        e, (then, otherwise) = low.e, op.blocks
        (pred,) = low.of(op.operands[0])
        if pred.value is not None:
            values = lower_block(low, then if pred.value else otherwise)
            _bind(low, op.results, values, _flat(low, values))
            return
        names = [e.fresh(stem) for stem in ("then", "else", "join")]
        e.cond_br(pred, names[0], names[1])
        arms: list[tuple[Rows, str]] = []
        values: tuple[Value, ...] = ()
        for name, block in zip(names, (then, otherwise)):
            e.block(name, dominated=True)
            e.open_scope()
            values = lower_block(low, block)
            arms.append((_flat(low, values), e.label))
            e.close_scope()
            e.br(names[2])
        e.block(names[2], dominated=True)
        merged = [
            a if a.name == b.name else e.phi([(a, arms[0][1]), (b, arms[1][1])])
            for a, b in zip(arms[0][0], arms[1][0])
        ]
        _bind(low, op.results, values, merged)

    return apply
