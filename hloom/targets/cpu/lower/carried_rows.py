"""Rows that a loop reads and writes whole are carried in registers, not through memory.

A step that stores a row which the next step loads waits for both each time, longer than most
recurrences compute (filters, running means, integrators of a few numbers).
"""

from __future__ import annotations

from collections.abc import Iterable

from hloom.kernel.kernel import S64, Block, Kernel, Op, Param, TileType, Value, ops_of
from hloom.program.slice import BufferSlice

ROW_VECTORS = 4
"""Longer rows take registers that a step needs."""
LEAST_BITS = 32
"""Narrower elements are rounded as they are stored, and so for every step."""


def carry_rows(kernel: Kernel, places: dict[Value, BufferSlice], vector_bytes: int) -> None:
    """Change the loops of a kernel: rows of a few vectors that are alone in their memory are loaded
    before a loop, carried, and stored behind it. `places`: where each parameter is."""
    for row in kernel.params:
        if row.role != "inout" or not _is_row(row, ROW_VECTORS * vector_bytes):
            continue
        others = [place for value, place in places.items() if value is not row.value]
        if not any(places[row.value].overlaps(place) for place in others):
            _in_block(kernel.body, row)


def _is_row(p: Param, most_bytes: int) -> bool:
    dtype = p.value.dtype
    is_number = dtype.is_integral or dtype.is_floating
    return is_number and dtype.bits >= LEAST_BITS and p.size <= most_bytes // dtype.size_bytes


def _in_block(block: Block, row: Param) -> None:
    """The loops directly in a block, those inside them first."""
    for op in list(block.ops):
        for inner in op.blocks:
            _in_block(inner, row)
        if op.opcode == "while":
            _forward(op.blocks[1], row)
            _carry(block, op, row)


def _accesses(ops: Iterable[Op], row: Param) -> list[Op]:
    return [op for op in ops if row.value in op.operands]


def _is_whole(op: Op, row: Param) -> bool:
    """Whether an op loads or stores all of a row, as it lies."""
    if op.opcode not in ("load", "store") or len(op.operands) != (2 if op.opcode == "load" else 3):
        return False
    start = op.operands[1].op
    if start is None or start.opcode != "constant" or start.attrs["value"] != 0:
        return False
    tile = op.result if op.opcode == "load" else op.operands[2]
    return tile.shape == (row.size,) and tuple(op.attrs.get("strides", ())) == (1,)


def _forward(block: Block, row: Param) -> None:
    """Loads of a row behind a store of it in the same block are what was stored."""
    known: Value | None = None
    replaced: dict[Value, Value] = {}
    for op in list(block.ops):
        touches = _accesses((op, *[x for b in op.blocks for x in ops_of(b)]), row)
        if not touches:
            continue
        if op.opcode == "load" and known is not None and _is_whole(op, row):
            replaced[op.result] = known
            block.ops.remove(op)
        elif op.opcode == "store":
            known = op.operands[2] if _is_whole(op, row) else None
            known = replaced.get(known, known) if known is not None else None
        elif any(x.opcode != "load" for x in touches):
            known = None
    _replace(block, replaced)


def _replace(block: Block, values: dict[Value, Value]) -> None:
    if values:
        for op in ops_of(block):
            op.operands = tuple([values.get(x, x) for x in op.operands])


def _carry(parent: Block, loop: Op, row: Param) -> None:
    """The row as one more value that the loop carries, where each step stores it once."""
    condition, body = loop.blocks
    accesses = _accesses([*ops_of(condition), *ops_of(body)], row)
    stores = [op for op in accesses if op.opcode == "store"]
    if len(stores) != 1 or len(accesses) < 2 or not all(_is_whole(op, row) for op in accesses):
        return
    [store] = stores
    if store not in body.ops:
        return
    behind = [x for op in body.ops[body.ops.index(store) :] for b in op.blocks for x in ops_of(b)]
    tile = TileType(row.value.dtype, (row.size,))
    at = parent.ops.index(loop)
    zero = Op("constant", (), (TileType(S64),), {"value": 0})
    first = Op("load", (row.value, zero.result), (tile,), {"strides": (1,)})
    last = Op("store", (row.value, zero.result), (), {"strides": (1,)})
    for block in (condition, body):
        before = Value(tile)
        loads = [op for op in _accesses(ops_of(block), row) if op is not store]
        values = {op.result: before for op in loads if op not in behind}
        after = values.get(store.operands[2], store.operands[2])
        values |= {op.result: after for op in loads if op in behind}
        _drop(block, loads)
        _replace(block, values)
        block.arguments = (*block.arguments, before)
    body.ops.remove(store)
    end = body.ops[-1]
    end.operands = (*end.operands, store.operands[2])
    loop.operands = (*loop.operands, first.result)
    loop.results = (*loop.results, Value(tile, loop))
    last.operands = (*last.operands, loop.results[-1])
    parent.ops[at : at + 1] = [zero, first, loop, last]


def _drop(block: Block, gone: list[Op]) -> None:
    block.ops = [op for op in block.ops if op not in gone]
    for op in block.ops:
        for inner in op.blocks:
            _drop(inner, gone)
