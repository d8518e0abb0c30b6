"""What a kernel means: its steps run on numpy arrays, every access checked.

    run_kernel(kernel, [x, y, out])          # flat arrays, changed in place

The judge of code that lowers kernels. Steps do not depend on each other, so a batch of them runs
at once: a value is an array [lanes, *shape of the tile] with a lane for each step of the batch.
Where steps part (an `if`, loops of different length), each way runs with the lanes that take it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError, SourceLocation
from hloom.interp.kernel_memory import Array, BrokenAccess, Memory, parameter_memory
from hloom.interp.kernel_ops import Run, prepared
from hloom.kernel.kernel import Block, Kernel, Op, TileType, Value
from hloom.kernel.text import op_line

MOST_ITERATIONS = 1_000_000
"""Iterations one run of one loop may take."""
BATCH_ELEMENTS = 1 << 18
"""How many elements of the largest tile a batch of steps may have."""


def run_kernel(
    kernel: Kernel,
    buffers: list[Array],
    steps: Iterable[int] | None = None,
    races: bool = False,
) -> None:
    """Run a verified kernel on flat arrays, one for each parameter, which it changes in place.

    `steps` are numbers in the row-major order of the grid, all of them if None. With `races`, it
    is an error if two steps write one element, or one reads what another writes. `EvalError` of
    rule kernel-bounds, kernel-unwritten, kernel-race or kernel-loop-limit names op, line and step.
    """
    memory = parameter_memory(kernel, buffers, races)
    numbers = np.arange(kernel.steps) if steps is None else np.array([*steps], np.int64)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= kernel.steps):
        raise EvalError(f"@{kernel.name} has {kernel.steps} steps, not all of those asked for")
    most = 1
    for op in kernel.ops():
        for result in op.results:
            if isinstance(result.type, TileType):
                most = max(most, prod(result.shape))
        if op.opcode == "alloc":
            most = max(most, op.attrs["size"])
    runner = _Runner(kernel)
    batch = max(1, BATCH_ELEMENTS // most)
    with np.errstate(all="ignore"):
        for start in range(0, numbers.size, batch):
            runner.batch(numbers[start : start + batch], memory)


class _Lanes:
    """Values as a block sees them: for some lanes of the batch, and the blocks around it."""

    __slots__ = ("chosen", "lanes", "outer", "steps", "values")

    def __init__(
        self, lanes: Array, steps: Array, outer: _Lanes | None = None, chosen: Array | None = None
    ) -> None:
        self.values: dict[Value, Any] = {}
        self.lanes, self.steps = lanes, steps
        self.outer, self.chosen = outer, chosen
        """`chosen` says which lanes of the outer block these are; None for all."""

    def get(self, value: Value) -> Any:
        known_value = self.values.get(value)
        if known_value is None:
            assert self.outer is not None
            known_value = self.outer.get(value)
            if self.chosen is not None and not isinstance(known_value, Memory):
                known_value = known_value[self.chosen]
            self.values[value] = known_value
        return known_value

    def inside(self, chosen: Array | None) -> _Lanes:
        """The same lanes, or some of them, in a block inside this one."""
        if chosen is None:
            return _Lanes(self.lanes, self.steps, self)
        return _Lanes(self.lanes[chosen], self.steps[chosen], self, chosen)


class _Runner:
    """One run of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.runs: dict[Op, Run] = {}
        self.patterns: dict[Op, Array] = {}
        self.batch_size = 0

    def batch(self, steps: Array, memory: dict[Any, Memory]) -> None:
        self.batch_size = len(steps)
        at = _Lanes(np.arange(len(steps)), steps)
        at.values.update(memory)
        indices = np.unravel_index(steps, self.kernel.grid) if self.kernel.grid else ()
        for argument, index in zip(self.kernel.body.arguments, indices):
            at.values[argument] = index.astype(np.int64)
        self.block(self.kernel.body, at)

    def block(self, block: Block, at: _Lanes) -> list[Array]:
        """Run a block; what it yields."""
        for op in block.ops:
            opcode = op.opcode
            if opcode == "yield":
                return [at.get(x) for x in op.operands]
            anchored = _ANCHORED.get(opcode)
            try:
                if anchored is not None:
                    anchored(self, op, at)
                else:
                    self.pure(op, at)
            except BrokenAccess as broken:
                raise self.error(broken, op) from None
        return []

    def error(self, broken: BrokenAccess, op: Op) -> EvalError:
        line, source = op_line(self.kernel, op)
        place = SourceLocation(f"@{self.kernel.name}", line, 1, source, len(source))
        index = tuple(map(int, np.unravel_index(broken.step, self.kernel.grid or (1,))))
        step = f"step {broken.step}" + (f" {index}" if len(self.kernel.grid) > 1 else "")
        return EvalError(
            f"{op.opcode} in {step}: {broken.message}", location=place, rule=broken.rule
        )

    def pure(self, op: Op, at: _Lanes) -> None:
        run = self.runs.get(op)
        if run is None:
            run = self.runs[op] = prepared(op)
        if op.operands:
            at.values[op.results[0]] = run(*[at.get(x) for x in op.operands])
        else:
            at.values[op.results[0]] = run(len(at.lanes))

    # -- memory

    def offsets(self, op: Op, at: _Lanes, tile: tuple[int, ...]) -> Array:
        """Where each element of a tile lies: [lanes, elements of the tile]."""
        starts = at.get(op.operands[1])
        if op.opcode in ("gather", "scatter"):
            return starts.astype(np.int64).reshape(len(starts), -1)
        pattern = self.patterns.get(op)
        if pattern is None:
            pattern = np.zeros(tile, np.int64)
            for axis, stride in enumerate(op.attrs["strides"]):
                along = np.arange(tile[axis]) * stride
                pattern += along.reshape([-1 if k == axis else 1 for k in range(len(tile))])
            pattern = self.patterns[op] = pattern.reshape(-1)
        return starts[:, None] + pattern

    def nothing(self, op: Op, at: _Lanes) -> None:
        """A prefetch changes nothing, wherever its line is."""

    def read(self, op: Op, at: _Lanes) -> None:
        tile = op.result.shape
        memory: Memory = at.get(op.operands[0])
        offsets = self.offsets(op, at, tile)
        count = len(at.lanes)
        if len(op.operands) == 2:
            places, steps = memory.places(offsets, None, at.lanes, at.steps)
            at.values[op.result] = memory.read(places, steps).reshape(count, *tile)
            return
        mask = at.get(op.operands[2]).reshape(offsets.shape)
        loaded = np.array(at.get(op.operands[3])).reshape(offsets.shape)
        places, steps = memory.places(offsets, mask, at.lanes, at.steps)
        loaded[mask] = memory.read(places, steps)
        at.values[op.result] = loaded.reshape(count, *tile)

    def write(self, op: Op, at: _Lanes) -> None:
        memory: Memory = at.get(op.operands[0])
        value = op.operands[2]
        offsets = self.offsets(op, at, value.shape)
        stored = at.get(value).reshape(offsets.shape)
        mask = None
        if len(op.operands) == 4:
            mask = at.get(op.operands[3]).reshape(offsets.shape)
        places, steps = memory.places(offsets, mask, at.lanes, at.steps)
        memory.write(places, stored.reshape(-1) if mask is None else stored[mask], steps)

    def alloc(self, op: Op, at: _Lanes) -> None:
        size = op.attrs["size"]
        array = np.zeros(size * self.batch_size, op.result.dtype.numpy)
        at.values[op.result] = Memory("the scratch buffer", array, size, private=True, fresh=True)

    # -- control

    def for_(self, op: Op, at: _Lanes) -> None:
        low, high = at.get(op.operands[0]), at.get(op.operands[1])
        body, step = op.blocks[0], op.attrs["step"]
        carried = [at.get(x) for x in op.operands[2:]]
        index = low
        for _ in range(MOST_ITERATIONS):
            active = index < high
            if not active.any():
                break
            carried = self.iteration(body, at, active, [index, *carried], carried)
            index = index + step
        else:
            raise BrokenAccess(_ENDLESS, int(at.steps[0]), "kernel-loop-limit")
        at.values.update(zip(op.results, carried))

    def while_(self, op: Op, at: _Lanes) -> None:
        carried = [at.get(x) for x in op.operands]
        active = np.ones(len(at.lanes), bool)
        for _ in range(MOST_ITERATIONS):
            goes_on = self.iteration(op.blocks[0], at, active, carried, [active])[0]
            active = active & goes_on
            if not active.any():
                break
            carried = self.iteration(op.blocks[1], at, active, carried, carried)
        else:
            raise BrokenAccess(_ENDLESS, int(at.steps[0]), "kernel-loop-limit")
        at.values.update(zip(op.results, carried))

    def iteration(
        self, block: Block, at: _Lanes, active: Array, arguments: list[Array], old: list[Array]
    ) -> list[Array]:
        """What a block yields in the active lanes, and the old values in the others."""
        chosen = None if active.all() else np.flatnonzero(active)
        inside = at.inside(chosen)
        block_arguments = arguments if chosen is None else [x[chosen] for x in arguments]
        inside.values.update(zip(block.arguments, block_arguments))
        results = self.block(block, inside)
        return results if chosen is None else [_put(x, chosen, y) for x, y in zip(old, results)]

    def if_(self, op: Op, at: _Lanes) -> None:
        pred = at.get(op.operands[0])
        results: list[Any] = [
            np.zeros((len(at.lanes), *r.shape), r.dtype.numpy) for r in op.results
        ]
        for block, active in zip(op.blocks, (pred, ~pred)):
            if active.any():
                results = self.iteration(block, at, active, [], results)
        at.values.update(zip(op.results, results))


def _put(old: Array, chosen: Array, new: Array) -> Array:
    merged = np.array(old)
    merged[chosen] = new
    return merged


_ENDLESS = f"the loop takes more than {MOST_ITERATIONS} iterations"
_ANCHORED = {
    "alloc": _Runner.alloc,
    "for": _Runner.for_,
    "gather": _Runner.read,
    "if": _Runner.if_,
    "load": _Runner.read,
    "prefetch": _Runner.nothing,
    "scatter": _Runner.write,
    "store": _Runner.write,
    "while": _Runner.while_,
}
