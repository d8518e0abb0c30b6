"""Running a program: arguments' addresses in, one native call, buffers out.

What is used where it stands, copied, fresh or returned in place is decided by the native runtime
(native/execution.h). Here arguments are checked, and become addresses. No Python runs between the
first thunk and the last.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from ctypes import c_void_p
from typing import Any

from numpy import ndarray

from hloom.base.diagnostics import UsageError
from hloom.device.assignment import DeviceAssignment
from hloom.program.program import Parameter, Program
from hloom.program.renderer import published
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import walk
from hloom.runtime.arguments import check_alignment, checked_array, ordered_back, wrong_argument
from hloom.runtime.beside_python import beside_python
from hloom.runtime.buffer import ArenaMemory, Buffer, OutOfMemoryError, copied, in_layout
from hloom.runtime.call_sites import have_lapack
from hloom.runtime.communicator.in_process import InProcess
from hloom.runtime.execute_options import Launch
from hloom.runtime.feeds import Feeds
from hloom.runtime.library import allocated
from hloom.runtime.loaded_program import (
    RAW_WORDS,
    LoadedProgram,
    RawProblem,
    largest_value,
    raise_last_problem,
    raise_problem,
)
from hloom.runtime.native import Pool, library
from hloom.runtime.processor_identity import check_processor
from hloom.types.shape import Shape
from hloom.types.sizes import data_bytes, packed_bits

# Routines that a LAPACK runs where there is one.
FACTORISATIONS = (b"hl_cholesky", b"hl_triangular_solve")


# Held while buffers change hands: two threads may donate the same one.
_HANDOVER = threading.Lock()


class Executor:
    """A program ready to run, from any number of Python threads at once."""

    def __init__(self, program: Program, threads: int | None = None) -> None:
        self.program = program
        check_processor(program, is_lenient=True)
        if any(name in code for name in FACTORISATIONS for code in program.objects):
            have_lapack()
        pool = Pool.shared(threads)
        self.threads = pool.threads
        """How many may work on a run, the caller's counted."""
        self.loaded = LoadedProgram(program, pool)
        count = program.device_count
        self.feeds = Feeds(program.infeeds, program.outfeeds, self.loaded.handle, count)
        self.assignment = DeviceAssignment.natural(program.replicas, program.partitions)
        """Which devices run it; all of this process are alike."""
        is_joint = any(t.is_interpreted and t.meets_others for t in walk(program.thunks))
        self._turn = threading.Lock() if is_joint else nullcontext()
        """Who runs on several devices, where the interpreter takes one such run after another."""
        self.interruptible = False
        """Whether Ctrl-C ends a run, which then takes 50 us more."""
        # The native arrays, each element an address and memory (hl_argument, hl_result).
        self._arguments_type = c_void_p * max(RAW_WORDS * len(program.parameters), 1)
        self._results_type = c_void_p * max(RAW_WORDS * len(program.results), 1)
        self._run = library().hl_program_run
        written = {
            a.index
            for a in program.allocations
            if a.kind == "parameter" and (a.is_donated or a.output_index is not None)
        }
        self._is_written = [p.allocation in written for p in program.parameters]
        self._plain = [
            None if is_written else _as_plain(p)
            for p, is_written in zip(program.parameters, self._is_written)
        ]
        self._results = [
            None if r.slice is None else (r.shape, r.slice.allocation.size_bytes)
            for r in program.results
        ]
        self.graph_place = published(program)
        """Where the registered renderer has put the picture of the execution graph."""

    # -- arguments

    def run(self, leaves: Sequence[Any], entry: int | None = None) -> list[Buffer | None]:
        """The results' leaves (None for tokens) for arguments given leaf by leaf.

        `entry` is the address of another main function that does the program's work.
        """
        self._check_count(leaves)
        arguments, results = self._arguments_type(), self._results_type()
        alive, donated = self._placed(leaves, arguments)
        if donated:
            self._call_with_donated(donated, alive, arguments, results, entry)
        else:
            self._call(arguments, results, entry)
        return self._buffers(results)

    def run_launch(self, leaves: Sequence[Any], launch: Launch) -> list[Buffer | None]:
        """The same of one run as a caller wants it; no buffer is donated."""
        self._check_count(leaves)
        arguments, results = self._arguments_type(), self._results_type()
        alive, donated = self._placed(leaves, arguments)
        alive += self._lent(donated, arguments)
        if library().hl_program_run_launch(
            self.loaded.handle, None, arguments, results, *launch[:7]
        ):
            raise_last_problem()
        return self._buffers(results)

    def run_devices(
        self, devices: InProcess, leaves: Sequence[Sequence[Any]], entry: int | None = None
    ) -> list[list[Buffer | None]]:
        """The results' leaves of each device, for the arguments' leaves of each; all run at once.

        An argument that several devices are given is read by all of them, never donated by one.
        """
        for each in leaves:
            self._check_count(each)
        arguments = [self._arguments_type() for _ in leaves]
        results = [self._results_type() for _ in leaves]
        alive: list[Any] = []
        for each, raw in zip(leaves, arguments):
            placed, donated = self._placed(each, raw)
            alive += placed + self._lent(donated, raw)
        try:
            handle, can_end = self.loaded.handle, self.interruptible
            with self._turn:
                devices.run(handle, arguments, results, entry, interruptible=can_end)
        except BaseException:
            for raw in results:
                _free_results(raw)
            raise
        return [self._buffers(raw) for raw in results]

    def _lent(self, donated: Sequence[tuple[int, Buffer]], arguments: Any) -> list[Any]:
        """The memory of buffers that are to be copied; where it stands is said."""
        for k, buffer in donated:
            arguments[RAW_WORDS * k] = buffer._alive().address
        return [buffer._alive() for _, buffer in donated]

    def _check_count(self, leaves: Sequence[Any]) -> None:
        program = self.program
        if len(leaves) != len(program.parameters):
            raise UsageError(
                f"{program.name} takes {len(program.parameters)} arrays, {len(leaves)} were given",
                rule="argument-count",
            )

    def _placed(
        self, leaves: Sequence[Any], arguments: Any
    ) -> tuple[list[Any], list[tuple[int, Buffer]]]:
        """Fill the native array of arguments; what must live while it is used, and the buffers
        that the program is to have for good, with their numbers."""
        alive: list[Any] = []
        donated: list[tuple[int, Buffer]] = []
        at = 0
        for k, (plain, leaf) in enumerate(zip(self._plain, leaves)):
            # What needs no second look, first: all this is time that small programs have not.
            if plain is not None:
                dtype, dims, shape = plain
                if type(leaf) is Buffer:
                    memory = leaf._memory
                    if leaf.shape is shape and memory is not None:
                        arguments[at] = memory.address + leaf._offset
                        alive.append(memory)
                        at += RAW_WORDS
                        continue
                elif type(leaf) is ndarray and leaf.dtype == dtype and leaf.shape == dims:
                    if leaf.flags.c_contiguous:
                        arguments[at] = leaf.ctypes.data
                        at += RAW_WORDS
                        continue
            self._place(k, leaf, arguments, alive, donated)
            at += RAW_WORDS
        return alive, donated

    def _call_with_donated(
        self,
        donated: Sequence[tuple[int, Buffer]],
        alive: Sequence[Any],
        arguments: Any,
        results: Any,
        entry: int | None,
    ) -> None:
        """Run it on buffers that are deleted, unless there is no memory to begin with."""
        memories = _take_memory([buffer for _, buffer in donated], alive)
        # Memory that somebody else can still see, an array that shows it or a program that runs, is
        # only lent, and what they see does not change.
        alone = [count == _ALONE for count in _references(memories)]
        for (k, _), memory, is_alone in zip(donated, memories, alone):
            arguments[RAW_WORDS * k] = memory.address
            if is_alone:
                arguments[RAW_WORDS * k + 1] = memory.address
        try:
            self._call(arguments, results, entry)
        except OutOfMemoryError:
            for (_, buffer), memory in zip(donated, memories):
                buffer.restore(memory)
            raise
        finally:
            for (k, _), memory, is_alone in zip(donated, memories, alone):
                if is_alone and not arguments[RAW_WORDS * k + 1]:
                    memory.passed_on()  # a result has it

    def _buffers(self, results: Any) -> list[Buffer | None]:
        """What the program returned, which has its memory from here on."""
        buffers: list[Buffer | None] = []
        at = 0
        for known in self._results:
            if known is None:
                buffers.append(None)
            else:
                shape, size = known
                address = results[at + 1]
                buffers.append(
                    Buffer(shape, ArenaMemory.owned(address, size), results[at] - address)
                )
            at += RAW_WORDS
        return buffers

    def run_at(self, arguments: Sequence[int], results: Sequence[int]) -> None:
        """Run on memory at these addresses: of each parameter's leaf, of each result's leaf."""
        program = self.program
        for what, addresses, declared in (
            ("arguments", arguments, program.parameters),
            ("results", results, program.results),
        ):
            if len(addresses) != len(declared):
                raise UsageError(
                    f"{program.name} has {len(declared)} arrays as {what}, "
                    f"{len(addresses)} addresses were given",
                    rule="argument-count",
                )
        raw_arguments, raw_results = self._arguments_type(), self._results_type()
        for k, (p, address) in enumerate(zip(program.parameters, arguments)):
            check_alignment(address, data_bytes(p.shape), f"argument {k}")
            raw_arguments[RAW_WORDS * k] = address
            if self._is_written[k]:
                raw_arguments[RAW_WORDS * k + 1] = address
        # An array without elements may stand nowhere; the runtime wants to know that it is given.
        somewhere = ArenaMemory(0)
        for k, (r, address) in enumerate(zip(program.results, results)):
            if r.slice is None:
                continue
            check_alignment(address, data_bytes(r.shape), f"result {k}")
            raw_results[RAW_WORDS * k] = address or somewhere.address
        self._call(raw_arguments, raw_results, None)

    def _place(
        self, k: int, leaf: Any, arguments: Any, alive: list[Any], donated: list[tuple[int, Buffer]]
    ) -> None:
        """Say where an argument stands, and hold it; or that it is donated."""
        p = self.program.parameters[k]
        shape = p.shape
        if isinstance(leaf, Buffer) and leaf.shape is not shape:
            if leaf.shape.is_dynamic or shape.is_dynamic:
                leaf = leaf.numpy()  # its bounds, and so the place of its sizes, may differ
        if isinstance(leaf, Buffer):
            if not leaf.shape.compatible(shape):
                raise wrong_argument(p, f"has shape {leaf.shape.text}")
            memory = leaf._alive()
            if p.allocation is None:
                return
            if leaf.shape.layout is shape.layout or _lie_alike(leaf.shape, shape):
                if self._is_written[k] and leaf._offset == 0:
                    donated.append((k, leaf))
                    return
                alive.append(memory)
                arguments[RAW_WORDS * k] = memory.address + leaf._offset
                return
            leaf = leaf.numpy()
        array = checked_array(p, leaf)
        if p.allocation is None:
            return
        ordered = in_layout(array, shape)
        if shape.is_dynamic:
            memory = copied(ordered_back(ordered, shape), shape)
            alive.append(memory)
            arguments[RAW_WORDS * k] = memory.address
            return
        alive.append(ordered)
        arguments[RAW_WORDS * k] = ordered.ctypes.data

    # -- the native call

    def _call(self, arguments: Any, results: Any, entry: int | None) -> None:
        """Run the program; raises what it fails with."""
        handle = self.loaded.handle
        try:
            if self.interruptible:
                _in_thread(handle, entry, arguments, results)
            elif self._run(handle, None, entry, arguments, results):
                raise_last_problem()
        except OutOfMemoryError as error:
            error.message += largest_value(self.program)
            raise

    def kernels(self) -> dict[int, list[str]]:
        """By a kernel's address, the names of the instructions that run it."""
        names_of: dict[str, list[str]] = {}
        for thunk in walk(self.program.thunks):
            if isinstance(thunk, Kernel):
                names_of.setdefault(thunk.symbol, []).append(thunk.name)
        return {self.loaded.symbol(symbol): names for symbol, names in names_of.items()}


def _as_plain(p: Parameter) -> tuple[Any, tuple[int, ...], Shape] | None:
    """Type, sizes and shape of what is used as it stands, if it is row-major."""
    shape = p.shape
    if p.allocation is None or shape.is_dynamic or packed_bits(shape):
        return None
    if shape.layout is not None and not shape.layout.is_default and shape.rank > 1:
        return None
    return shape.dtype.numpy, shape.dims, shape


def _lie_alike(one: Shape, other: Shape) -> bool:
    """Whether arrays without an order of dimensions have the same bytes."""
    return one.rank < 2 and packed_bits(one) == packed_bits(other)


def _in_thread(handle: int, entry: int | None, arguments: Any, results: Any) -> None:
    """A run beside this thread, which meanwhile can be interrupted; raises what it fails with."""
    native, problem = library(), RawProblem()
    context = allocated(native.hl_program_context(handle), "a context")

    def run() -> int:
        status = native.hl_program_run(handle, context, entry, arguments, results)
        if status:
            native.hl_last_problem(ctypes.byref(problem))
        return status

    try:
        status = beside_python(run, lambda: native.hl_cancel(context))
    except BaseException:
        # It may have ended by itself, and keep the cancellation.
        native.hl_context_free(context)
        _free_results(results)
        raise
    native.hl_program_put_back(handle, context)
    if status:
        raise_problem(problem)


def _free_results(results: Any) -> None:
    """Give back what a run returned that nobody will take."""
    for memory in results[1::RAW_WORDS]:
        if memory:
            library().hl_arena_free(None, memory)


def _take_memory(donated: Sequence[Buffer], alive: Sequence[Any]) -> list[ArenaMemory]:
    """The memory of buffers, which are deleted; raises if the program reads one elsewhere."""
    with _HANDOVER:
        _check_donated(donated, alive)
        return [buffer.take() for buffer in donated]


def _check_donated(donated: Sequence[Buffer], alive: Sequence[Any]) -> None:
    """Raise if a buffer is gone already, or is given twice."""
    seen = {id(x) for x in alive if isinstance(x, ArenaMemory)}
    for buffer in donated:
        memory = buffer._alive()
        if id(memory) in seen:
            raise UsageError(
                f"a {buffer.shape.text_without_layout} buffer is donated, and given as another "
                "argument too",
                rule="donation",
                hint="pass a copy for one of them: np.array(buffer)",
            )
        seen.add(id(memory))


def _references(objects: Sequence[object]) -> list[int]:
    """How many hold each of these things, this list and this function counted."""
    return [sys.getrefcount(object_) for object_ in objects]


_ALONE = _references([object()])[0]
