"""What one step of a kernel takes, counted from the kernel itself.

Every family of kernels writes masks, index arithmetic, lanes that are picked up one by one and
tails that no formula for the family knows, so what was written is counted. A loop body takes as
long as the busiest of the units that work side by side: arithmetic, loads, stores, shuffles, and
the start of any instruction. It takes that for every trip of its loop, and no less than what the
loop carries waits for itself. A step takes no less than its part of all buffers takes from the
nearest cache that holds them; what else a program uses between two runs is for who knows the
program (`targets/roofline.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2, prod

from hloom.device.device import Device
from hloom.kernel.kernel import Block, BufferType, Kernel, Op, Value
from hloom.types.dtype import DType

EXTREMES = frozenset(["maximum", "minimum"])
FREE = frozenset("constant iota alloc reshape yield broadcast slice bitcast-convert".split())
DEAR = frozenset("dot reduce for while if gather concatenate".split())
"""Their weights are those of whole instructions of a graph, or they have inner blocks."""
WORD_BYTES = 4
"""Narrow elements that one instruction multiplies and adds up."""
LOOP_INSTRUCTIONS = 2
"""Counting a loop, and going back."""
MOST_SPAN = 4
"""Rows whose elements are so far apart are read as whole vectors and shuffled."""
UNKNOWN_TRIPS = 4
"""Of loops whose bounds are data."""
EXACT = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "minimum": min,
    "maximum": max,
    "divide": lambda x, y: int(x / y) if y else 0,
    "remainder": lambda x, y: x - y * int(x / y) if y else 0,
}


@dataclass
class Cycles:
    """What units that work side by side are busy with."""

    arithmetic: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    shuffles: float = 0.0
    instructions: float = 0.0

    def add(self, unit: str, count: float, cycles: float) -> None:
        """So many instructions of so many cycles each."""
        setattr(self, unit, getattr(self, unit) + count * cycles)
        self.instructions += count


def step_ns(kernel: Kernel, device: Device) -> float:
    """A guess of one step of a kernel's grid on one core."""
    counter = _Counter(device, {p.value for p in kernel.params})
    for index, extent in zip(kernel.body.arguments, kernel.grid):
        counter.known[index] = extent // 2
    cycles = counter.block(kernel.body)
    whole = sum([p.size * _width(p.value.dtype) for p in kernel.params])
    moved_ns = min(counter.moved_bytes, whole / max(kernel.steps, 1)) * device.byte_ns(whole)
    guess = device.costs.next_step_ns + max(cycles * device.compute.cycle_ns, moved_ns)
    return float(f"{guess:.4g}")


def _width(of: DType) -> int:
    """Bytes of an element in memory."""
    return max(of.size_bytes, 1)


def _is_known(offsets: Value) -> bool:
    """Whether offsets follow from where a step is, not from data: those are read by vectors."""
    seen, waiting = {offsets}, [offsets]
    while waiting:
        value = waiting.pop()
        if value.op is None:
            if value.shape:
                return False
            continue
        if value.op.opcode in ("load", "gather", "for", "while", "if"):
            return False
        if not value.shape:
            continue
        # Each once: rounds of random bits read what was made before them many times over.
        new = [x for x in dict.fromkeys(value.op.operands) if x not in seen]
        seen.update(new)
        waiting += new
    return True


class _Counter:
    """Counts the cycles of blocks; `known` are the values of scalars in a step in the middle."""

    def __init__(self, device: Device, buffers: set[Value]) -> None:
        self.device, self.costs, self.buffers = device, device.costs, buffers
        self.moved_bytes = 0.0
        """Of the buffers that the kernel was handed, however often."""
        self.times = 1.0
        """How often the block runs that is being counted."""
        self.known: dict[Value, int | None] = {}
        self._vectors: dict[tuple[tuple[int, ...], DType], float] = {}
        self.vector = device.compute.vector_bytes
        # A cheap operation on a whole vector.
        lanes = device.compute.vector_floats
        self.cheap = self.costs.operation_ns * lanes / device.compute.cycle_ns

    def block(self, block: Block, carried: Sequence[Value] = ()) -> float:
        """One run of a block, whose arguments `carried` wait for those of the run before."""
        own, inner = Cycles(instructions=LOOP_INSTRUCTIONS), 0.0
        for op in block.ops:
            if op.opcode == "for":
                inner += self._loop(op)
            elif op.opcode == "while":
                inner += UNKNOWN_TRIPS * sum([self.block(b) for b in op.blocks])
            elif op.opcode == "if":
                inner += max([self.block(b) for b in op.blocks])
            else:
                self._op(op, own)
        busiest = max(
            own.arithmetic,
            own.loads,
            own.stores,
            own.shuffles,
            own.instructions * self.costs.instruction_cycles,
        )
        return max(busiest, self._chain(block, carried) * self.costs.sum_cycles) + inner

    def _loop(self, op: Op) -> float:
        low, high = (self.value(x) for x in op.operands[:2])
        step = op.attrs["step"]
        trips = UNKNOWN_TRIPS if low is None or high is None else max(0, -(-(high - low) // step))
        [block] = op.blocks
        index, *carried = block.arguments
        if low is not None:
            self.known[index] = low + trips // 2 * step
        for x, first in zip(carried, op.operands[2:]):
            self.known[x] = self.value(first)
        before, self.times = self.times, self.times * trips
        once = self.block(block, carried)
        self.times = before
        return trips * once

    def _chain(self, block: Block, carried: Sequence[Value]) -> float:
        """How many operations in a row lead from a carried tile to the next one, dear ones by their
        weight."""
        depths: dict[Value, float] = {x: 0.0 for x in carried if x.shape}
        if not depths:
            return 0.0
        for op in block.ops:
            before = [depths[x] for x in op.operands if x in depths]
            if not before or op.opcode == "yield":
                continue
            weight = 0.0 if op.opcode in FREE else 1.0 if op.opcode in DEAR else self._weight(op)
            for x in op.results:
                depths[x] = max(before) + weight
        return max([depths.get(x, 0.0) for x in block.ops[-1].operands], default=0.0)

    def _weight(self, op: Op) -> float:
        """How many cheap operations an operation on vectors is worth."""
        if not op.results or not op.result.dtype.is_floating:
            return 1.0
        if op.attrs.get("kind", op.opcode) in EXTREMES and not any(
            x.op is not None and x.op.opcode == "constant" for x in op.operands
        ):
            return self.costs.extreme_weight
        return 1.0 if op.opcode in ("reduce", "scan") else max(self.costs.weight(op.opcode), 1.0)

    # -- scalars

    def value(self, x: Value) -> int | None:
        """An index in a step in the middle, where nothing that it depends on is data."""
        if x not in self.known:
            self.known[x] = self._computed(x)
        return self.known[x]

    def _computed(self, x: Value) -> int | None:
        op = x.op
        if op is None or x.shape or isinstance(x.type, BufferType):
            return None
        if op.opcode == "constant":
            number = op.attrs["value"]
            return int(number) if isinstance(number, int) else None
        if op.opcode == "convert":
            return self.value(op.operands[0])
        if op.opcode == "compare":
            return self._compared(op)
        if op.opcode == "select":
            which = self.value(op.operands[0])
            return None if which is None else self.value(op.operands[1 if which else 2])
        if op.opcode not in EXACT:
            return None
        left, right = (self.value(y) for y in op.operands)
        return None if left is None or right is None else EXACT[op.opcode](left, right)

    def _compared(self, op: Op) -> int | None:
        left, right = (self.value(y) for y in op.operands)
        if left is None or right is None:
            return None
        sign = (left > right) - (left < right)
        holds = {"EQ": (0,), "NE": (-1, 1), "LT": (-1,), "LE": (-1, 0), "GT": (1,), "GE": (0, 1)}
        return int(sign in holds[op.attrs["direction"]])

    # -- tiles

    def vectors(self, shape: tuple[int, ...], dtype: DType) -> float:
        """How many vectors hold a tile, each row by itself."""
        known = self._vectors.get((shape, dtype))
        if known is None:
            *rows, lanes = shape or (1,)
            size = _width(dtype)
            if dtype.is_floating and dtype.bits < 32:
                size = 4  # as it is computed
            known = self._vectors[shape, dtype] = prod(rows) * ceil(lanes * size / self.vector)
        return known

    def _op(self, op: Op, own: Cycles) -> None:
        opcode = op.opcode
        if opcode in FREE:
            return
        if opcode in ("load", "store", "gather", "scatter") and op.operands[0] in self.buffers:
            tile = op.operands[2] if opcode in ("store", "scatter") else op.result
            self.moved_bytes += self.times * prod(tile.shape) * _width(tile.dtype)
        if opcode == "prefetch":
            own.add("loads", len(op.attrs["ahead"]), self.costs.load_cycles)
            return
        if opcode in ("load", "store"):
            self._moved(op, own)
            return
        if opcode == "gather" and _is_known(op.operands[1]):
            count = self.vectors(op.result.shape, op.result.dtype)
            own.add("loads", count, 2 * self.costs.load_cycles)
            own.add("shuffles", count, 2 * self.costs.shuffle_cycles)
            return
        if opcode in ("gather", "scatter"):
            own.add("loads", prod(op.operands[1].shape), self.costs.lane_cycles)
            return
        shape, dtype = op.result.shape, op.result.dtype
        if opcode == "dot":
            self._dot(op, own)
        elif opcode in ("transpose", "concatenate"):
            rows = log2(max(2, min(shape))) if opcode == "transpose" and len(shape) > 1 else 1
            own.add("shuffles", self.vectors(shape, dtype) * rows, self.costs.shuffle_cycles)
        elif opcode in ("reduce", "scan"):
            self._folded(op, own)
        elif not shape:
            slow = opcode in ("divide", "remainder") and not dtype.is_floating
            weight = self.costs.weight(opcode) if dtype.is_floating else 4.0 if slow else 1.0
            own.add("arithmetic", weight, self.costs.instruction_cycles)
        else:
            weight = self._weight(op)
            wide = dtype
            for x in op.operands:
                if x.dtype is not wide and x.dtype.size_bytes > max(wide.size_bytes, 1):
                    wide = x.dtype
            count = self.vectors(shape, wide) * (2 if dtype.is_complex else 1)
            own.arithmetic += count * weight * self.cheap
            own.instructions += count

    def _dot(self, op: Op, own: Cycles) -> None:
        total, left, right = op.operands
        rows, depth = left.shape
        if len(right.shape) == 3:  # by whole tiles
            rates = dict(self.device.compute.matrix_operations_per_cycle)
            own.add("arithmetic", 2.0 * rows * depth * total.shape[1] / rates[left.dtype.name], 1.0)
            return
        count = rows * depth * self.vectors(right.shape[1:], total.dtype)
        each = self.device.compute.operations_each_cycle(left.dtype.name) / 2
        lanes = self.vector / max(total.dtype.size_bytes, 1)
        if left.dtype is not total.dtype:  # several neighbours for each lane of the sums
            lanes *= max(1, total.dtype.size_bytes // max(left.dtype.size_bytes, 1))
            count /= max(1, total.dtype.size_bytes // max(left.dtype.size_bytes, 1))
        own.add("arithmetic", count * (4 if total.dtype.is_complex else 1), lanes / each)

    def _folded(self, op: Op, own: Cycles) -> None:
        [x] = op.operands
        axis, last, each = op.attrs["axis"], len(x.shape) - 1, self.cheap * self._weight(op)
        if axis == last:
            halvings = ceil(log2(max(2, x.shape[-1])))
            rows = prod(x.shape[:-1])
            whole = self.vectors(x.shape, x.dtype)
            if op.opcode == "scan":
                rows = whole
            own.add("arithmetic", whole + rows * halvings, each)
            own.add("shuffles", rows * halvings, self.costs.shuffle_cycles)
            return
        own.add("arithmetic", self.vectors(x.shape, x.dtype), each)

    def _moved(self, op: Op, own: Cycles) -> None:
        """A load or a store of a tile."""
        is_load = op.opcode == "load"
        tile = op.result if is_load else op.operands[2]
        shape, dtype, strides = tile.shape, tile.dtype, op.attrs["strides"]
        is_masked = len(op.operands) == 4
        unit = "loads" if is_load else "stores"
        cycles = self.costs.load_cycles if is_load else self.costs.store_cycles
        lanes = shape[-1] if shape else 1
        rows = prod(shape[:-1])
        if is_load:  # rows that stand at one place are read once
            rows = prod([n for n, stride in zip(shape[:-1], strides) if stride])
        size = _width(dtype)
        whole = rows * ceil(lanes * size / self.vector)
        stride = abs(strides[-1]) if strides and lanes > 1 else 1
        far = [n for n, apart in zip(shape, strides) if abs(apart) * size >= self.costs.page_bytes]
        if far and lanes > 1:
            own.add(unit, prod(far), self.costs.page_cycles)
        if len(shape) == 2 and strides == (1, shape[0]) and shape[0] * size <= WORD_BYTES:
            own.add(unit, ceil(prod(shape) * size / self.vector), cycles)  # for a product of groups
        elif stride == 0:
            own.add(unit, rows, cycles)
        elif stride == 1:
            own.add(unit, whole, cycles * (self.costs.masked_factor if is_masked else 1.0))
            if strides and strides[-1] < 0:
                own.add("shuffles", whole, self.costs.shuffle_cycles)
        elif is_load and stride <= MOST_SPAN and lanes >= 2 * stride and not is_masked:
            own.add(unit, whole * stride, cycles)
            own.add("shuffles", whole * stride, self.costs.shuffle_cycles)
        elif len(shape) > 1 and 1 in strides and not is_masked:
            own.add(unit, whole, cycles)
            turns = log2(max(2, lanes))
            own.add("shuffles", whole * turns, self.costs.shuffle_cycles)
        else:
            own.add(unit, rows * lanes, self.costs.lane_cycles)
        if dtype.is_floating and dtype.bits < 32:
            own.add("arithmetic", self.vectors(shape, dtype), self.cheap)
