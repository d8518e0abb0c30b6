"""Running a program: buffers in, one native call, buffers out.

All memory of a run is one array of base addresses, one per allocation: the caller's buffers,
constants where they stand since the program was loaded, fresh blocks for results and for the
temporaries. No Python runs between the first thunk and the last.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.program.program import Parameter, Program
from hloom.runtime.buffer import Block, Buffer, copied, in_layout
from hloom.runtime.native import Context, LoadedObjects, Pool, RandomState

# What a caller's memory must be aligned to: the widest type of an element (CPU-14).
ARGUMENT_ALIGNMENT = 16


@cache
def shared_pool(threads: int | None) -> Pool:
    """The process's pool of so many threads; programs share it."""
    return Pool(threads)


class Executor:
    """A program ready to run, from any number of Python threads at once."""

    def __init__(self, program: Program, threads: int | None = None) -> None:
        self.program = program
        self.loaded = LoadedObjects(program.objects)
        self._entry = self.loaded.symbol(program.entry)
        self._pool = shared_pool(threads)
        self._constants: dict[int, Block] = {}
        for a in program.allocations:
            if a.kind == "constant" and a.data is not None:
                block = Block(len(a.data))
                ctypes.memmove(block.address, a.data, len(a.data))
                self._constants[a.index] = block
        self._random = RandomState()
        self._contexts: list[Context] = []
        self._lock = threading.Lock()
        count = max(len(program.allocations), 1)
        self._buffers_type = ctypes.c_void_p * count
        self._fixed = self._buffers_type()
        for index, block in self._constants.items():
            self._fixed[index] = block.address
        self._fresh = [
            (a.index, a.size_bytes) for a in program.allocations if a.kind in ("temp", "output")
        ]
        self._donated = {
            a.index
            for a in program.allocations
            if a.kind == "parameter" and (a.is_donated or a.output_index is not None)
        }

    # -- arguments

    def run(self, leaves: Sequence[Any]) -> list[Buffer | None]:
        """The results' leaves (None for tokens) for arguments given leaf by leaf."""
        program = self.program
        if len(leaves) != len(program.parameters):
            raise UsageError(
                f"{program.name} takes {len(program.parameters)} arrays, {len(leaves)} were given",
                rule="argument-count",
            )
        buffers = self._buffers_type.from_buffer_copy(self._fixed)
        held: list[Any] = []
        blocks: dict[int, Block] = {}
        for p, given in zip(program.parameters, leaves):
            self._place(p, given, buffers, blocks, held)
        for index, size in self._fresh:
            block = blocks[index] = Block(size)
            buffers[index] = block.address
        self.call(buffers)
        results: list[Buffer | None] = []
        for r in program.results:
            if r.slice is None:
                results.append(None)
                continue
            block = blocks[r.slice.allocation.index]
            results.append(Buffer(r.shape, block, r.slice.offset))
        return results

    def _place(
        self, p: Parameter, given: Any, buffers: Any, blocks: dict[int, Block], held: list[Any]
    ) -> None:
        """Put one argument where the program looks for it."""
        shape = p.shape
        if isinstance(given, Buffer):
            if not given.shape.compatible(shape):
                raise _wrong_argument(p, f"has shape {given.shape.text}")
            address = given.address
            if p.allocation is None:
                return
            same = given.shape.layout is shape.layout or shape.rank < 2
            if same and p.allocation in self._donated and given._offset == 0:
                blocks[p.allocation] = given.take()
                buffers[p.allocation] = address
                return
            if same and p.allocation not in self._donated:
                held.append(given._block)
                buffers[p.allocation] = address
                return
            given = given.numpy()
        array = checked_array(p, given)
        if p.allocation is None:
            return
        ordered = in_layout(array, shape)
        address = ordered.ctypes.data
        aligned = address % ARGUMENT_ALIGNMENT == 0 or ordered.nbytes == 0
        if p.allocation in self._donated or shape.is_dynamic or not aligned:
            block = blocks[p.allocation] = copied(ordered_back(ordered, shape), shape)
            buffers[p.allocation] = block.address
            return
        held.append(ordered)
        buffers[p.allocation] = address

    # -- the native call

    def call(self, buffers: Any) -> None:
        """Run the program on base addresses of its allocations; raises what it fails with."""
        with self._lock:
            context = self._contexts.pop() if self._contexts else None
        if context is None:
            context = Context(self._pool, random=self._random)
        try:
            context.execute(self._entry, buffers)
        finally:
            with self._lock:
                self._contexts.append(context)


def ordered_back(array: np.ndarray[Any, Any], shape: Any) -> np.ndarray[Any, Any]:
    """The logical array of one whose memory is in the layout of the shape."""
    layout = shape.layout
    if layout is not None and not layout.is_default and shape.rank > 1:
        order = layout.minor_to_major[::-1]
        return array.transpose([order.index(d) for d in range(shape.rank)])
    return array


def checked_array(p: Parameter, given: Any) -> np.ndarray[Any, Any]:
    """The argument as an array of the parameter's type and sizes; raises `UsageError`."""
    if hasattr(given, "__array__") or not hasattr(given, "__dlpack__"):
        array = np.asarray(given)
    else:
        array = np.from_dlpack(given)
    wanted = p.shape.dtype.numpy
    if array.dtype != wanted:
        if isinstance(given, int | float | complex | bool):
            array = np.asarray(given, wanted)
        else:
            raise _wrong_argument(p, f"has elements of type {array.dtype.name}")
    if array.shape != p.shape.dims and not (
        p.shape.is_dynamic
        and array.ndim == p.shape.rank
        and all(
            n == b or (p.shape.is_dynamic_dim(d) and n <= b)
            for d, (n, b) in enumerate(zip(array.shape, p.shape.dims))
        )
    ):
        raise _wrong_argument(p, f"has sizes {list(array.shape)}")
    return array


def _wrong_argument(p: Parameter, what: str) -> UsageError:
    place = f"argument {p.number}" + (f" at {p.index}" if p.index else "")
    return UsageError(
        f"{place} {what}, the program wants {p.shape.text_without_layout}", rule="argument-type"
    )


def check_alignment(address: int, size_bytes: int, what: str) -> None:
    """Raise `UsageError` for memory that is not aligned as programs need it (CPU-14)."""
    if size_bytes and address % ARGUMENT_ALIGNMENT:
        raise UsageError(
            f"{what} stands at address {address:#x}, which is no multiple of {ARGUMENT_ALIGNMENT}",
            rule="alignment",
            hint="pass memory aligned to 64 bytes, or an array that owns its data",
        )
