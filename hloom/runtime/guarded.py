"""Running a program under guard (`HLOOM_GUARD=1`): every array in memory of its own.

The arena puts each block before a protected page (native/guard.cc), and the plan gives each
temporary buffer an allocation of its own. What is left to do here is to bring in what stands
elsewhere: arguments and constants are copied, and may not be written. After each run what alignment
leaves around the arrays is looked at.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from hloom.base.guarding import GUARDING
from hloom.program.program import Program
from hloom.program.slice import Allocation
from hloom.program.thunks.thunk import walk
from hloom.runtime.buffer import Block
from hloom.runtime.communicator.in_process import InProcess
from hloom.runtime.executor import Executor
from hloom.runtime.library import library


def executor_of(program: Program, threads: int | None = None) -> Executor:
    """A program ready to run, under guard if the process asks for that."""
    return (GuardedExecutor if GUARDING else Executor)(program, threads)


class GuardedExecutor(Executor):
    """An executor whose programs see guarded memory only."""

    def __init__(self, program: Program, threads: int | None = None) -> None:
        super().__init__(program, threads)
        self._names = [name.encode() for name in block_names(program)]

    def _constant(self, a: Allocation) -> tuple[int, Any]:
        assert a.data is not None
        address = np.frombuffer(a.data, np.uint8).ctypes.data if a.data else 0
        block = _copied(address, len(a.data), is_read_only=True)
        return block.address, block

    def call(self, buffers: Any, entry: int | None = None) -> None:
        own, copies = self._brought_in(buffers)
        super().call(own, entry)
        self._brought_out(buffers, own, copies)

    def call_devices(self, devices: InProcess, buffers: Sequence[Any]) -> None:
        found = [self._brought_in(each) for each in buffers]
        super().call_devices(devices, [own for own, _ in found])
        for each, (own, copies) in zip(buffers, found):
            self._brought_out(each, own, copies)

    def _brought_in(self, buffers: Any) -> tuple[Any, dict[int, Block]]:
        """Base addresses in guarded memory, and the blocks that stand for others'."""
        native, allocations = library(), self.program.allocations
        own = type(buffers).from_buffer_copy(buffers)
        copies: dict[int, Block] = {}
        for a, name in zip(allocations, self._names):
            address = buffers[a.index]
            is_argument = a.kind == "parameter" and a.is_read_only
            if address and (is_argument or native.hl_guard_size(address) < 0):
                block = copies[a.index] = _copied(address, a.size_bytes, is_argument)
                own[a.index] = block.address
            native.hl_guard_name(own[a.index], name)
        return own, copies

    def _brought_out(self, buffers: Any, own: Any, copies: dict[int, Block]) -> None:
        """Look around the arrays, and copy what was written where it belongs."""
        allocations = self.program.allocations
        library().hl_guard_check(own, len(allocations))
        for index, block in copies.items():
            if not allocations[index].is_read_only:
                ctypes.memmove(buffers[index], block.address, block.size_bytes)


def _copied(address: int, size_bytes: int, is_read_only: bool) -> Block:
    """What stands at an address, in a block."""
    block = Block(size_bytes)
    ctypes.memmove(block.address, address, size_bytes)
    library().hl_guard_read_only(block.address, is_read_only)
    return block


def block_names(program: Program) -> list[str]:
    """What messages call the memory of each allocation."""
    writers: dict[int, str] = {}
    for thunk in walk(program.thunks):
        for use in thunk.uses():
            if use.writes:
                writers.setdefault(use.slice.allocation.index, f"%{thunk.name}")
    found = []
    for a in program.allocations:
        what = {"parameter": f"argument {a.parameter_number}", "temp": "value"}.get(a.kind, a.kind)
        where = f" {list(a.shape_index)}" if a.shape_index else ""
        writer = f" (written by {writers[a.index]})" if a.index in writers else ""
        found.append(f"{what}{where}{writer} of {program.name}")
    return found
