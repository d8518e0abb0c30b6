"""Running a program: buffers in, one native call, buffers out.

All memory of a run is one array of base addresses, one per allocation: the caller's buffers,
constants where they stand since the program was loaded, fresh blocks for results and for the
temporaries. No Python runs between the first thunk and the last.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from hloom.base.diagnostics import UsageError
from hloom.program.picture import published
from hloom.program.program import Parameter, Program
from hloom.program.slice import ALIGNMENT, STREAMED_BYTES, Allocation
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import walk
from hloom.runtime.arguments import (
    ARGUMENT_ALIGNMENT,
    check_alignment,
    checked_array,
    ordered_back,
    wrong_argument,
)
from hloom.runtime.buffer import Block, Buffer, copied, in_layout
from hloom.runtime.call_sites import CallSites, have_lapack
from hloom.runtime.communicator.in_process import InProcess
from hloom.runtime.feeds import Feeds
from hloom.runtime.native import Context, ExecutionError, LoadedObjects, Pool, RandomState
from hloom.runtime.processor_identity import check_processor
from hloom.types.shape import Shape
from hloom.types.sizes import data_bytes

# Routines that a LAPACK runs where there is one.
FACTORISATIONS = frozenset(["hl_cholesky", "hl_triangular_solve"])


# Held while buffers change hands: two threads may donate the same one.
_HANDOVER = threading.Lock()


@dataclass(frozen=True, slots=True)
class Parts:
    """Addresses of what a loaded program is run with."""

    entry: int
    pool: int
    random: int
    infeed: int
    outfeed: int
    sites: int
    site_count: int
    fixed: Any
    """An array of addresses by allocation: those of constants, else null."""


class Executor:
    """A program ready to run, from any number of Python threads at once."""

    def __init__(self, program: Program, threads: int | None = None) -> None:
        self.program = program
        check_processor(program)
        self.loaded = LoadedObjects(program.objects)
        self._entry = self.loaded.symbol(program.entry)
        self._pool = Pool.shared(threads)
        self._constants = {
            a.index: self._constant(a) for a in program.allocations if a.data is not None
        }
        self._random = RandomState()
        self.feeds = Feeds(program.infeeds, program.outfeeds)
        if any(isinstance(t, Routine) and t.symbol in FACTORISATIONS for t in walk(program.thunks)):
            have_lapack()
        self._sites = CallSites(program.call_sites, Context(self._pool))
        self.interruptible = False
        """Whether Ctrl-C ends a run, which then takes 50 us more."""
        # Those that run nothing now. Lists lend and take back without a lock, which a fork could
        # leave locked.
        self._contexts: list[Context] = []
        self._of_devices: dict[int, list[Context]] = {}
        self._randoms: dict[int, RandomState] = {}
        """Of each device of a program for several."""
        count = max(len(program.allocations), 1)
        self._buffers_type = ctypes.c_void_p * count
        self._fixed = self._buffers_type()
        for index, (address, _) in self._constants.items():
            self._fixed[index] = address
        self._fresh = [
            (a.index, a.size_bytes) for a in program.allocations if a.kind in ("temp", "output")
        ]
        self._donated = {
            a.index
            for a in program.allocations
            if a.kind == "parameter" and (a.is_donated or a.output_index is not None)
        }

        self._plain = [self._as_plain(p) for p in program.parameters]
        self.graph_place = published(program)
        """Where the registered renderer has put the picture of the execution graph."""

    def _constant(self, a: Allocation) -> tuple[int, Any]:
        """Where a constant stands, and what keeps it."""
        assert a.data is not None
        return _in_place(a.data)

    def _as_plain(self, p: Parameter) -> tuple[int, Any, tuple[int, ...], Shape] | None:
        """Allocation, type, sizes and shape of what is used as it stands, if it is row-major."""
        shape = p.shape
        if p.allocation is None or p.allocation in self._donated or shape.is_dynamic:
            return None
        if shape.layout is not None and not shape.layout.is_default and shape.rank > 1:
            return None
        return p.allocation, shape.dtype.numpy, shape.dims, shape

    # -- arguments

    def run(self, leaves: Sequence[Any], entry: int | None = None) -> list[Buffer | None]:
        """The results' leaves (None for tokens) for arguments given leaf by leaf.

        `entry` is the address of another main function that does the program's work.
        """
        program = self.program
        if len(leaves) != len(program.parameters):
            raise UsageError(
                f"{program.name} takes {len(program.parameters)} arrays, {len(leaves)} were given",
                rule="argument-count",
            )
        buffers, blocks, _held = self._prepared(leaves)
        self.call(buffers, entry)
        return self._results(blocks)

    def run_devices(
        self, devices: InProcess, leaves: Sequence[Sequence[Any]]
    ) -> list[list[Buffer | None]]:
        """The results' leaves of each device, for the arguments' leaves of each; all run at once.

        An argument that several devices are given is read by all of them, never donated by one.
        """
        prepared = [self._prepared(each) for each in leaves]
        self.call_devices(devices, [buffers for buffers, _, _ in prepared])
        return [self._results(blocks) for _, blocks, _ in prepared]

    def _prepared(self, leaves: Sequence[Any]) -> tuple[Any, dict[int, Block], list[Any]]:
        """Base addresses of the allocations for a run, fresh blocks by allocation, and what the
        addresses are of."""
        program = self.program
        buffers = self._buffers_type.from_buffer_copy(self._fixed)
        held: list[Any] = []
        blocks: dict[int, Block] = {}
        taken: list[tuple[int, Buffer]] = []
        for p, plain, given in zip(program.parameters, self._plain, leaves):
            # What needs no second look, first: all this is time that small programs have not.
            if plain is not None:
                index, dtype, dims, shape = plain
                if type(given) is Buffer:
                    block = given._block
                    if given.shape is shape and block is not None:
                        buffers[index] = block.address + given._offset
                        held.append(block)
                        continue
                elif type(given) is ndarray and given.dtype == dtype and given.shape == dims:
                    address = given.ctypes.data
                    if given.flags.c_contiguous and not address % ARGUMENT_ALIGNMENT:
                        buffers[index] = address
                        continue
            self._place(p, given, buffers, blocks, held, taken)
        if taken:
            for index, block in zip([index for index, _ in taken], _taken(taken, held)):
                blocks[index] = block
                buffers[index] = block.address
        for index, size in self._fresh:
            block = blocks[index] = Block(size)
            buffers[index] = block.address
        return buffers, blocks, held

    def _results(self, blocks: dict[int, Block]) -> list[Buffer | None]:
        """The results' leaves, which stand in these blocks."""
        results: list[Buffer | None] = []
        for r in self.program.results:
            if r.slice is None:
                results.append(None)
                continue
            block = blocks[r.slice.allocation.index]
            results.append(Buffer(r.shape, block, r.slice.offset))
        return results

    def run_at(self, arguments: Sequence[int], results: Sequence[int]) -> None:
        """Run on memory at these addresses: of each parameter's leaf, of each result's leaf."""
        program = self.program
        for what, given, wanted in (
            ("arguments", arguments, program.parameters),
            ("results", results, program.results),
        ):
            if len(given) != len(wanted):
                raise UsageError(
                    f"{program.name} has {len(wanted)} arrays as {what}, "
                    f"{len(given)} addresses were given",
                    rule="argument-count",
                )
        buffers = self._buffers_type.from_buffer_copy(self._fixed)
        for k, (p, address) in enumerate(zip(program.parameters, arguments)):
            check_alignment(address, data_bytes(p.shape), f"argument {k}")
            if p.allocation is not None:
                buffers[p.allocation] = address
        held = []
        for k, (r, address) in enumerate(zip(program.results, results)):
            if r.slice is None:
                continue
            check_alignment(address, data_bytes(r.shape), f"result {k}")
            a = r.slice.allocation
            if a.kind == "output":
                buffers[a.index] = address
            elif buffers[a.index] != address:
                raise UsageError(
                    f"result {k} is returned in the buffer of argument {a.parameter_number}, "
                    "and has its address",
                    rule="alias",
                )
        for index, size in self._fresh:
            if not buffers[index]:
                held.append(Block(size))
                buffers[index] = held[-1].address
        outside = self._aligned(buffers)
        self.call(buffers)
        for address, block in outside:
            ctypes.memmove(address, block.address, block.size_bytes)

    def _aligned(self, buffers: Any) -> list[tuple[int, Block]]:
        """What stands in for the caller's memory where that is not aligned for what is written
        past the caches; the addresses it is copied to afterwards."""
        found = []
        for a in self.program.allocations:
            address = buffers[a.index] or 0
            if address % ALIGNMENT and a.size_bytes >= STREAMED_BYTES and not a.is_read_only:
                block = Block(a.size_bytes)
                if a.kind == "parameter":
                    ctypes.memmove(block.address, address, a.size_bytes)
                buffers[a.index] = block.address
                found.append((address, block))
        return found

    def _place(
        self,
        p: Parameter,
        given: Any,
        buffers: Any,
        blocks: dict[int, Block],
        held: list[Any],
        taken: list[tuple[int, Buffer]],
    ) -> None:
        """Put one argument where the program looks for it."""
        shape = p.shape
        if isinstance(given, Buffer) and given.shape is not shape:
            if given.shape.is_dynamic or shape.is_dynamic:
                given = given.numpy()  # its bounds, and so the place of its sizes, may differ
        if isinstance(given, Buffer):
            if not given.shape.compatible(shape):
                raise wrong_argument(p, f"has shape {given.shape.text}")
            block = given._alive()
            if p.allocation is None:
                return
            same = given.shape.layout is shape.layout or shape.rank < 2
            if same and p.allocation in self._donated and given._offset == 0:
                taken.append((p.allocation, given))
                return
            if same and p.allocation not in self._donated:
                held.append(block)
                buffers[p.allocation] = block.address + given._offset
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

    def call(self, buffers: Any, entry: int | None = None) -> None:
        """Run the program on base addresses of its allocations; raises what it fails with."""
        try:
            context = self._contexts.pop()
        except IndexError:
            context = self._context()
        main = self._entry if entry is None else entry
        try:
            context.execute(main, buffers, interruptible=self.interruptible)
        except ExecutionError:
            self._contexts.append(context)
            raise
        # One that was interrupted goes: it may have ended by itself, and keep the cancellation.
        self._contexts.append(context)

    def call_devices(self, devices: InProcess, buffers: Sequence[Any]) -> None:
        """Run the program on all devices at once; raises what the first to fail fails with."""
        contexts = []
        for number in range(len(buffers)):
            idle = self._of_devices.setdefault(number, [])
            random = self._randoms.setdefault(number, RandomState())
            contexts.append(idle.pop() if idle else self._context(random))
        devices.run(contexts, self._entry, buffers, interruptible=self.interruptible)
        for number, context in enumerate(contexts):
            self._of_devices[number].append(context)

    def parts(self) -> Parts:
        """What a native caller runs the program with; all of it lives as long as the executor."""
        sites = self._sites
        return Parts(
            self._entry,
            self._pool.handle,
            self._random.handle,
            self.feeds.infeed.handle,
            self.feeds.outfeed.handle,
            ctypes.addressof(sites.raw) if sites.count else 0,
            sites.count,
            self._fixed,
        )

    def kernels(self) -> dict[int, list[str]]:
        """By a kernel's address, the names of the instructions that run it."""
        found: dict[str, list[str]] = {}
        for thunk in walk(self.program.thunks):
            if isinstance(thunk, Kernel):
                found.setdefault(thunk.symbol, []).append(thunk.name)
        return {self.loaded.symbol(symbol): names for symbol, names in found.items()}

    def _context(self, random: RandomState | None = None) -> Context:
        """A new context for runs of this program."""
        context = Context(
            self._pool,
            random=random or self._random,
            infeed=self.feeds.infeed,
            outfeed=self.feeds.outfeed,
        )
        self._sites.attach(context)
        return context


def _in_place(data: bytes | memoryview) -> tuple[int, Any]:
    """Where a constant stands, and what keeps it: the program's own bytes, if aligned."""
    if data:
        array = np.frombuffer(data, np.uint8)
        if array.ctypes.data % ARGUMENT_ALIGNMENT == 0:
            return array.ctypes.data, array
    block = Block(len(data))
    if data:
        np.asarray(block)[:] = array
    return block.address, block


def _taken(donated: Sequence[tuple[int, Buffer]], held: Sequence[Any]) -> list[Block]:
    """The memory of donated buffers, which are deleted; raises if the program reads one elsewhere.

    Memory that somebody else can still see, an array that shows it or a program that runs, is
    copied: what they see does not change.
    """
    with _HANDOVER:
        _check_donated([b for _, b in donated], held)
        found = [buffer.take() for _, buffer in donated]
    alone = [count == _ALONE for count in _references(found)]
    return [block if a else block.copy() for block, a in zip(found, alone)]


def _check_donated(donated: Sequence[Buffer], held: Sequence[Any]) -> None:
    """Raise if a buffer is gone already, or is given twice."""
    seen = {id(x) for x in held if isinstance(x, Block)}
    for buffer in donated:
        block = buffer._alive()
        if id(block) in seen:
            raise UsageError(
                f"a {buffer.shape.text_without_layout} buffer is donated, and given as another "
                "argument too",
                rule="donation",
                hint="pass a copy for one of them: np.array(buffer)",
            )
        seen.add(id(block))


def _references(things: Sequence[object]) -> list[int]:
    """How many hold each of these things, this list and this function counted."""
    return [sys.getrefcount(thing) for thing in things]


_ALONE = _references([object()])[0]
