"""Dots of whole tiles: sums in tile registers while K goes by, in rows of vectors before and after.

A dot whose right operand has rank 3, `[groups of K, neighbours, columns]`, is one of these. In a
loop that carries nothing but its sums they stay in tile registers from one step to the next: two
by two tiles of sums, two of each operand, eight registers in all. Sums that are only stored go from
there to where they belong.
"""

from __future__ import annotations

from hloom.codegen.llvm.lower_state import KernelLowering, Rows, storage_of
from hloom.codegen.llvm.lower_storage import address
from hloom.codegen.llvm.matrix_tiles import (
    LEFT,
    RIGHT,
    ROW_BYTES,
    ROWS,
    SUMS,
    MatrixTile,
    configuration,
    matrix_tiles,
)
from hloom.codegen.llvm.values import V
from hloom.kernel.kernel import Block, Kernel, Op, Value, ops_of

SUM_BYTES = 4


def has_tiles(kernel: Kernel) -> bool:
    """Whether a kernel multiplies whole tiles."""
    return any(is_tiled(op) for op in ops_of(kernel.body) if op.opcode == "dot")


def is_tiled(op: Op) -> bool:
    """Whether an op is a dot of whole tiles."""
    return op.opcode == "dot" and len(op.operands[2].shape) == 3


def configure(low: KernelLowering, kernel: Kernel) -> None:
    """Tells the processor, once for a call of the kernel, what its tile registers hold: rows of
    whole tiles, or all rows of a product of fewer."""
    e, dots = low.e, [op for op in ops_of(kernel.body) if is_tiled(op)]
    heights = {min(op.result.shape[0], ROWS) for op in dots}
    if len(heights) > 1:
        raise low.refuse(dots[0], f"of tiles of {sorted(heights)} rows in one kernel")
    e.line(f"call void @llvm.x86.ldtilecfg({e.table(configuration(*heights)).typed})")


def release(low: KernelLowering) -> None:
    """Gives the tile registers back, which the system would save at every switch."""
    low.e.line("call void @llvm.x86.tilerelease()")


def loop_of_tiles(block: Block) -> Op | None:
    """The dot of whole tiles whose sums are all that the block of a loop carries, if it is one."""
    if len(block.arguments) != 2:
        return None
    sums = block.arguments[1]
    dots = [op for op in block.ops if is_tiled(op)]
    if len(dots) != 1 or dots[0].operands[0] is not sums:
        return None
    uses = sum([op.operands.count(sums) for op in block.ops])
    results = sum([op.operands.count(dots[0].result) for op in block.ops])
    is_straight = not any(op.blocks for op in block.ops)
    is_carried = block.ops[-1].operands == dots[0].results
    return dots[0] if is_straight and is_carried and uses == results == 1 else None


def find_stored(block: Block, uses: dict[Value, int]) -> set[Value]:
    """The sums of a block that are only stored, row after row, before registers are needed for
    others."""
    stored: set[Value] = set()
    waiting: Value | None = None
    for op in block.ops:
        if op.opcode == "store" and op.operands[2] is waiting and _is_of_rows(op):
            stored.add(op.operands[2])
        if op.blocks or is_tiled(op) or op.opcode in ("store", "yield"):
            waiting = None
        if is_tiled(op) or (op.opcode == "for" and loop_of_tiles(op.blocks[0]) is not None):
            (sums,) = op.results
            waiting = sums if uses.get(sums) == 1 else None
    return stored


def _is_of_rows(op: Op) -> bool:
    """Whether a store writes whole rows as they are, to the caches."""
    buffer, _, value = op.operands[:3]
    is_plain = len(op.operands) == 3 and not op.attrs.get("nontemporal")
    return is_plain and buffer.dtype is value.dtype and op.attrs["strides"][1] == 1


def dot_of_tiles(low: KernelLowering, op: Op) -> Rows:
    """One such dot, by itself or as a step of the loop that holds its sums."""
    if op in low.tiles:
        low.tiles[op].step(op)
        return []
    tiles = Tiles(low, op)
    tiles.begin(low.of(op.operands[0]))
    tiles.step(op)
    return end_of(low, op.result, tiles)


def end_of(low: KernelLowering, sums: Value, tiles: Tiles) -> Rows:
    """The sums as rows; none where they wait in their registers to be stored."""
    if sums in low.stored:
        low.waiting[sums] = tiles
        return []
    return tiles.end()


class Tiles:
    """The sums of one dot, in tile registers between `begin` and `end`."""

    def __init__(self, low: KernelLowering, op: Op) -> None:
        self.low, self.e, self.op = low, low.e, op
        self.height, self.width = op.operands[0].shape
        self.instruction = self._instruction()
        self.across = self.width // ROWS
        self.down = max(self.height // ROWS, 1)

    def _instruction(self) -> MatrixTile:
        acc, a, b = self.op.operands
        types = (a.dtype.name, b.dtype.name, acc.dtype.name)
        for t in matrix_tiles(self.low.machine):
            groups, group, columns = b.shape
            if (t.a, t.b, t.sums) == types and (groups * group, a.shape[1]) == (t.depth, t.depth):
                is_high = self.height in (*range(1, ROWS + 1), 2 * ROWS)
                if is_high and columns in (ROWS, 2 * ROWS):
                    return t
        raise self.low.refuse(self.op, f"of tiles of {types} is no instruction of this machine")

    def _call(self, name: str, *operands: V | int) -> None:
        """An intrinsic; numbers are tile registers, or bytes behind an address."""
        texts = [x.typed if isinstance(x, V) else f"i8 {x}" for x in operands]
        self.e.line(f"call void @llvm.{name}({', '.join(texts)})")

    def _sums(self) -> list[tuple[int, int, int]]:
        """Register, row and column of each tile of sums."""
        return [
            (SUMS[i * self.across + j], i, j) for i in range(self.down) for j in range(self.across)
        ]

    @property
    def place(self) -> V:
        """Memory for the sums as rows."""
        return self.e.lent(self.height * self.width * SUM_BYTES)

    def begin(self, rows: Rows) -> None:
        """The sums begin as these rows are."""
        if all(row.value == 0 for row in rows):
            for register, _, _ in self._sums():
                self._call("x86.tilezero", register)
            return
        e = self.e
        for m, row in enumerate(rows):
            at = m * self.width * SUM_BYTES
            for part in self.low.parts(row):
                e.store(part, e.gep(self.place, at), align=SUM_BYTES)
                at += part.lanes * SUM_BYTES
        stride = e.const("i64", self.width * SUM_BYTES)
        for register, i, j in self._sums():
            place = e.gep(self.place, (i * self.width + j) * ROWS * SUM_BYTES)
            self._call("x86.tileloadd64", register, place, stride)

    def step(self, op: Op) -> None:
        """Add one dot's products."""
        low, e, (_, a, b) = self.low, self.e, op.operands
        left, right = low.deferred[a], low.deferred[b]
        size = a.dtype.size_bytes
        above, height = address(low, *left.operands), left.attrs["strides"][0] * size
        beside, apart = address(low, *right.operands), right.attrs["strides"][0] * size
        for j in range(self.across):
            place = e.gep(beside, j * ROW_BYTES)
            self._call("x86.tileloadd64", RIGHT[j], place, e.const("i64", apart))
            for i in range(self.down):
                if j == 0:  # each is read just before it is multiplied: 1.07 times as fast
                    place = e.gep(above, i * ROWS * height)
                    self._call("x86.tileloadd64", LEFT[i], place, e.const("i64", height))
                sums = SUMS[i * self.across + j]
                self._call(self.instruction.intrinsic, sums, LEFT[i], RIGHT[j])

    def store(self, base: V, elements: int) -> None:
        """The sums to memory, so many elements from one row to the next."""
        e, stride = self.e, self.e.const("i64", elements * SUM_BYTES)
        for register, i, j in self._sums():
            place = e.gep(base, (i * elements + j) * ROWS * SUM_BYTES)
            self._call("x86.tilestored64", register, place, stride)

    def end(self) -> Rows:
        """The sums, as rows."""
        low, e, dtype = self.low, self.e, self.op.operands[0].dtype
        self.store(self.place, self.width)
        rows: Rows = []
        widths = low.widths(self.width) or (self.width,)
        for m in range(self.height):
            at, parts = m * self.width * SUM_BYTES, []
            for lanes in widths:
                place = e.gep(self.place, at)
                parts.append(e.load(place, storage_of(dtype), lanes, align=SUM_BYTES))
                at += lanes * SUM_BYTES
            rows.append(low.joined(parts))
        return rows


def can_defer(op: Op) -> bool:
    """Whether a dot emits this load itself as an operand of rank 3."""
    shape, strides = op.result.shape, op.attrs["strides"]
    return len(shape) == 3 and strides[1:] == (1, shape[1])
