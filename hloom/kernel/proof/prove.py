"""Proof that a kernel touches nothing but its buffers, and writes all of its outputs, once.

`prove(kernel)` is asked of every kernel before it becomes machine code. An access that is not
proved to stay inside its buffer can be given a mask that keeps it there (`masked`); a kernel whose
writes are not proved must not be used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hloom.kernel.kernel import PRED, S64, Block, Kernel, Op, TileType, Value
from hloom.kernel.proof.bounds import MASK_OPERAND, Bounds, NeedsSearch, Unproved
from hloom.kernel.proof.tiling import Box, Digit, covers
from hloom.kernel.proof.writes import part_boxes, unproved_writes


@dataclass(frozen=True)
class Proof:
    """What is known of the memory that a kernel touches.

    `accesses` are those that may leave their buffer, `writes` a sentence for each parameter whose
    writes are not shown to be right, `parts` what is written of those that it shares with others,
    `far` loads whose mask may exclude what is far outside of their buffer.
    """

    accesses: list[Unproved] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    parts: dict[str, list[Box]] = field(default_factory=dict)
    far: list[Op] = field(default_factory=list)


def prove(kernel: Kernel) -> Proof:
    """What can, and cannot, be shown of a verified kernel; it is not changed.

    First without a search for each minimum and maximum: that suffices for nine kernels of ten, and
    of the rows of a convolution takes a third of the time.
    """
    try:
        proof = _proof(kernel, searching=False)
        if not proof.writes:
            return proof
    except NeedsSearch:
        pass
    return _proof(kernel, searching=True)


def _proof(kernel: Kernel, *, searching: bool) -> Proof:
    """What one walk shows."""
    bounds = Bounds(kernel, searching=searching)
    bounds.run()
    parts = {}
    writes = unproved_writes(kernel, bounds)
    for param in kernel.params:
        if param.role == "part":
            boxes = part_boxes(param, bounds)
            if isinstance(boxes, str):
                writes.append(f"{param.name}: {boxes}")
            else:
                parts[param.name] = boxes
    return Proof(bounds.unproved, writes, parts, bounds.far)


def proves_whole(parts: Iterable[list[Box]], size: int) -> bool:
    """Whether what several kernels write of one buffer is all of it."""
    return covers(
        [Box.of(b.start, [Digit(*d[:2]) for d in b.digits]) for p in parts for b in p], size
    )


def masked(kernel: Kernel, accesses: Iterable[Unproved]) -> Kernel:
    """The kernel, changed in place: these accesses leave out what is outside of their buffers."""
    sizes = {p.value: p.size for p in kernel.params}
    sizes |= {o.results[0]: o.attrs["size"] for o in kernel.ops() if o.opcode == "alloc"}
    wrong = {u.op for u in accesses}
    _mask_block(kernel.body, wrong, sizes, {})
    return kernel


def _mask_block(
    block: Block, wrong: set[Op], sizes: dict[Value, int], new: dict[Value, Value]
) -> None:
    ops: list[Op] = []
    for op in block.ops:
        op.operands = tuple([new.get(x, x) for x in op.operands])
        for inner in op.blocks:
            _mask_block(inner, wrong, sizes, new)
        if op in wrong:
            op = _Masking(ops, op, sizes[op.operands[0]]).op(new)
        ops.append(op)
    block.ops[:] = ops


class _Masking:
    """Writes the ops that keep one access inside of its buffer."""

    def __init__(self, ops: list[Op], access: Op, size: int) -> None:
        self.ops = ops
        self.access = access
        self.size = size
        is_read = access.opcode in ("load", "gather")
        self.shape = (access.results[0] if is_read else access.operands[2]).shape

    def add(self, opcode: str, operands: tuple[Value, ...], dtype: Any, **attrs: Any) -> Value:
        op = Op(opcode, operands, (TileType(dtype, self.shape),), attrs)
        self.ops.append(op)
        return op.results[0]

    def op(self, new: dict[Value, Value]) -> Op:
        """The access with a mask: those that have strides become a gather or scatter."""
        access = self.access
        offsets = self.offsets()
        dtype = offsets.dtype
        low = self.add("constant", (), dtype, value=0)
        high = self.add("constant", (), dtype, value=self.size)
        inside = self.add("compare", (offsets, low), PRED, direction="GE", order="")
        below = self.add("compare", (offsets, high), PRED, direction="LT", order="")
        mask = self.add("and", (inside, below), PRED)
        at = MASK_OPERAND[access.opcode]
        if len(access.operands) > at:
            mask = self.add("and", (mask, access.operands[at]), PRED)
        buffer = access.operands[0]
        if access.opcode in ("store", "scatter"):
            return Op("scatter", (buffer, offsets, access.operands[2], mask), (), {})
        other = (
            access.operands[3]
            if len(access.operands) > 3
            else self.add("constant", (), buffer.dtype, value=0)
        )
        gather = Op("gather", (buffer, offsets, mask, other), (access.results[0].type,), {})
        new[access.results[0]] = gather.results[0]
        return gather

    def offsets(self) -> Value:
        """The offset of every lane."""
        access = self.access
        if access.opcode in ("gather", "scatter"):
            return access.operands[1]
        total = self.add("broadcast", (access.operands[1],), S64)
        for axis, stride in enumerate(access.attrs["strides"]):
            if stride:
                lane = self.add("iota", (), S64, axis=axis)
                by = self.add("constant", (), S64, value=stride)
                total = self.add("add", (total, self.add("multiply", (lane, by), S64)), S64)
        return total
