"""Runs a module in memory as its places say: an interpreter that keeps no values but bytes.

Every instruction reads its operands from their slices, means what `hloom.interp` says, and writes
its result to its slice. What needs no code (tuples, loop state, branches) is not run at all: the
bytes must already be there. So a value that was overwritten too early, a copy that is missing or a
slice that is too small gives a wrong result. Memory starts out as noise, and parameters and
constants that nobody may write to are compared at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.interp.context import DevicePosition, EvalContext, EvalOptions
from hloom.interp.control import chosen_branch
from hloom.interp.machine import SharedEvaluation, evaluate_step
from hloom.interp.values import TOKEN
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.plan.buffer_assignment import BufferAssignment
from hloom.plan.order import Order
from hloom.program.slice import BufferSlice
from hloom.types.literal import Literal
from hloom.types.shape import Shape
from hloom.types.sizes import data_bytes, dynamic_size_offset

NO_CODE = frozenset(
    "tuple get-tuple-element bitcast opt-barrier domain add-dependency after-all parameter "
    "constant async-done async-update copy-done".split()
)


class MemoryMachine:
    """One run of a module in the memory of its places."""

    def __init__(
        self, module: Module, order: Order, assignment: BufferAssignment, seed: int = 0
    ) -> None:
        noise = np.random.default_rng(seed)
        self.module = module
        self.order = order
        self.buffer_assignment = assignment
        self.memory = [
            noise.integers(0, 256, a.size_bytes, dtype=np.uint8)
            if a.data is None
            else np.frombuffer(a.data, np.uint8).copy()
            for a in assignment.allocations
        ]
        options = EvalOptions()
        self.frame = EvalContext(SharedEvaluation(options), options, DevicePosition())
        self.frame.machine.run_once = set()

    def run(self, arguments: list[Literal]) -> Any:
        """The result, as a tree of arrays."""
        for p, literal in zip(self.module.entry.parameters, arguments, strict=True):
            self._store_tree(p, (), p.shape, literal)
        kept = [
            (a, self.memory[a.index].copy())
            for a in self.buffer_assignment.allocations
            if a.is_read_only
        ]
        with np.errstate(all="ignore"):
            self._run(self.module.entry)
        for a, before in kept:
            assert np.array_equal(before, self.memory[a.index]), f"{a} was written to"
        root = self.module.entry.root
        self._check_outputs(root)
        return self._load_tree(root, (), root.shape)

    def _check_outputs(self, root: Instruction) -> None:
        for index, place in self.buffer_assignment.leaves(root):
            a = place.allocation
            assert place.offset == 0 and place.size_bytes == a.size_bytes
            if a.kind == "output":
                assert a.shape_index == index
            else:
                assert a.kind == "parameter" and a.output_index == index and a.is_donated

    def _run(self, c: Computation) -> None:
        for i in self.order.of(c):
            if i.opcode in NO_CODE:
                continue
            if i.opcode == "while":
                condition, body = i.called
                while True:
                    self._run(condition)
                    if not self.load(
                        self.buffer_assignment.slice(condition.root), condition.root.shape
                    ):
                        break
                    self._run(body)
            elif i.opcode == "conditional":
                selector = i.operands[0]
                chosen = self.load(self.buffer_assignment.slice(selector), selector.shape)
                self._run(i.called[chosen_branch(chosen, len(i.called))])
            elif i.opcode in ("call", "async-start"):
                self._run(i.called[0])
            else:
                values = [self._load_tree(x, (), x.shape) for x in i.operands]
                self._write_tree(i, (), i.shape, evaluate_step(i, values, self.frame))

    # -- bytes -------------------------------------------------------------------------------

    def _store_tree(self, i: Instruction, index: tuple[int, ...], shape: Shape, x: Literal) -> None:
        if shape.is_tuple:
            for k, part in enumerate(shape.elements):
                self._store_tree(i, (*index, k), part, x.elements[k])
        elif shape.is_array:
            self.store(self.buffer_assignment.slice(i, index), shape, x.array)

    def _write_tree(self, i: Instruction, index: tuple[int, ...], shape: Shape, x: Any) -> None:
        if shape.is_tuple:
            for k, part in enumerate(shape.elements):
                self._write_tree(i, (*index, k), part, x[k])
        elif shape.is_array:
            self.store(self.buffer_assignment.slice(i, index), shape, np.asarray(x))

    def _load_tree(self, i: Instruction, index: tuple[int, ...], shape: Shape) -> Any:
        if shape.is_tuple:
            return tuple(
                self._load_tree(i, (*index, k), part) for k, part in enumerate(shape.elements)
            )
        return self.load(self.buffer_assignment.slice(i, index), shape) if shape.is_array else TOKEN

    def _bytes(self, place: BufferSlice, shape: Shape) -> np.ndarray:
        block = self.memory[place.allocation.index]
        assert 0 <= place.offset <= place.end <= block.size, f"{place} is out of bounds"
        needed = dynamic_size_offset(shape, shape.rank) if shape.dynamic else data_bytes(shape)
        assert needed <= place.size_bytes, f"{place} is too small for {shape}"
        return block[place.offset : place.end]

    def load(self, place: BufferSlice, shape: Shape) -> np.ndarray:
        """The array in a slice, in logical order."""
        data = self._bytes(place, shape)
        dims = list(shape.dims)
        for k in range(shape.rank if shape.dynamic else 0):
            start = dynamic_size_offset(shape, k)
            dims[k] = int(data[start : start + 4].copy().view(np.int32)[0])
        order = _major_to_minor(shape)
        dtype = np.dtype(shape.dtype.numpy)
        count = int(np.prod(dims, dtype=np.int64))
        flat = data[: count * dtype.itemsize].copy().view(dtype)
        physical = flat.reshape([dims[d] for d in order])
        return np.ascontiguousarray(physical.transpose(np.argsort(order))).reshape(dims)

    def store(self, place: BufferSlice, shape: Shape, array: np.ndarray) -> None:
        """Write an array to a slice in the order of its layout."""
        data = self._bytes(place, shape)
        for k in range(shape.rank if shape.dynamic else 0):
            start = dynamic_size_offset(shape, k)
            data[start : start + 4] = np.array([array.shape[k]], np.int32).view(np.uint8)
        physical = np.ascontiguousarray(array.transpose(_major_to_minor(shape)))
        raw = np.frombuffer(physical.tobytes(), np.uint8)
        data[: raw.size] = raw


def _major_to_minor(shape: Shape) -> list[int]:
    if shape.layout is None:
        return list(range(shape.rank))
    return list(reversed(shape.layout.minor_to_major))


def assert_same_result(expected: Literal, got: Any) -> None:
    """The same bits, NaNs of any kind counting as one."""
    if expected.shape.is_tuple:
        for part, x in zip(expected.elements, got, strict=True):
            assert_same_result(part, x)
    elif expected.shape.is_array:
        assert expected.array.shape == got.shape
        assert expected.array.dtype == got.dtype
        if expected.array.tobytes() != got.tobytes():
            wide, wide_got = (np.asarray(a).astype(np.complex128) for a in (expected.array, got))
            np.testing.assert_array_equal(wide, wide_got)
