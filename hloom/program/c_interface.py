"""A program as a C function: `int f(inputs, outputs, workspace)`, two tables of pointers, memory.

Which array is which pointer, where every allocation stands during a call, what is copied before and
after. Nothing here knows of code: `codegen/llvm/c_entry.py` writes the function, `aot/` the header.

The trick: an allocation stands in what the caller gave wherever that has its very bytes, so that a
state that is returned where it came in is changed in place, and a call copies nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from hloom.base.diagnostics import UnsupportedError
from hloom.base.faults import Fault
from hloom.program.c_fft import plan_lengths
from hloom.program.c_scratch import is_known_call, scratch_bytes
from hloom.program.program import Processor, Program
from hloom.program.slice import ALIGNMENT, STREAMED_BYTES, Allocation, BufferSlice
from hloom.program.thunks.async_copy import CopyDone
from hloom.program.thunks.call import Call
from hloom.program.thunks.conditional import Conditional
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.custom_call import PYTHON, CustomCall, Interpreter
from hloom.program.thunks.fft import FFT
from hloom.program.thunks.host_transfer import HostRecv, HostSend
from hloom.program.thunks.infeed import Infeed
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.linalg import Cholesky, TriangularSolve
from hloom.program.thunks.outfeed import Outfeed
from hloom.program.thunks.routine import Function
from hloom.program.thunks.sort import Sort, TopK
from hloom.program.thunks.thunk import Thunk, walk
from hloom.program.thunks.while_ import While
from hloom.types.shape import Shape
from hloom.types.sizes import size_bytes

ORDERS = (Sort, TopK)
MATRICES = (Cholesky, TriangularSolve, CustomCall)
"""Of custom calls, those of LAPACK."""
STEPS = (Kernel, Copy, CopyDone, While, Conditional, Call, *ORDERS, *MATRICES, FFT)
"""The kinds of thunks that need nothing but memory."""
MOST_OPERANDS, MOST_KEYS = 64, 16
"""Of one sort, as the runtime has it."""
MOST_ROW = 1 << 31
"""Elements of a row that is sorted are below this, so that places have 32 bits."""


class Base(NamedTuple):
    """Where an allocation begins: at an input, an output, a constant, a tensor of a file (by
    number), or a byte of the workspace."""

    what: Literal["input", "output", "constant", "tensor", "workspace"]
    at: int


class CopyIn(NamedTuple):
    """An input that the program changes, brought before the call to where it may."""

    source: int
    target: Base
    size_bytes: int


class CopyOut(NamedTuple):
    """A part of an allocation that is a result, brought after the call to its output."""

    allocation: int
    offset: int
    output: int
    size_bytes: int


@dataclass(frozen=True)
class CArray:
    """An input or an output."""

    shape: Shape
    size_bytes: int
    alignment: int
    """Bytes: that of an element. What is written past the caches has that of allocations."""
    alias: int | None = None
    """The output, or input, whose memory may be the same; then the array is changed in place."""


@dataclass(frozen=True)
class CInterface:
    """What a caller hands over, and what becomes of it."""

    inputs: tuple[CArray, ...]
    outputs: tuple[CArray, ...]
    bases: tuple[Base | None, ...]
    """By allocation; None: nothing reads or writes it."""
    copies_in: tuple[CopyIn, ...]
    copies_out: tuple[CopyOut, ...]
    constants: tuple[Allocation, ...]
    scratch: Base
    """Where routines have working memory, to the end of the workspace."""
    workspace_bytes: int


class LibraryStep(NamedTuple):
    """A step of a function, for those who want to know."""

    depth: int
    """How many loops, choices and calls it stands in."""
    name: str
    kind: str
    what: str
    """Which operations it computes, and to what shape."""
    estimate_ns: float
    """By the costs of the device that it was compiled for, on one thread; a loop's with all its
    trips, as far as they are known."""


@dataclass(frozen=True)
class LibraryCode:
    """What a C library is made of."""

    program: Program
    interface: CInterface
    object: bytes
    """It defines the function, and calls those routines that it needs."""
    steps: tuple[LibraryStep, ...] = ()
    faults: tuple[Fault, ...] = ()
    """Of the compiler, and what was done instead."""

    @property
    def processor(self) -> Processor:
        """What it runs on."""
        assert self.program.processor is not None
        return self.program.processor

    @property
    def orders(self) -> list[str]:
        """The steps that sort, by name."""
        return [t.name for t in walk(self.program.thunks) if isinstance(t, ORDERS)]

    @property
    def matrix_calls(self) -> tuple[list[str], list[int]]:
        """As `matrix_calls` has them."""
        return matrix_calls(self.program)

    @property
    def matrices(self) -> list[str]:
        """The steps that are linear algebra, by name."""
        return [t.name for t in walk(self.program.thunks) if isinstance(t, MATRICES)]

    @property
    def transforms(self) -> list[str]:
        """The steps that are Fourier transforms, by name."""
        return [t.name for t in walk(self.program.thunks) if isinstance(t, FFT)]

    @property
    def transform_lengths(self) -> set[tuple[int, bool]]:
        """Of the plans that they ask for, and whether of f64."""
        thunks = [t for t in walk(self.program.thunks) if isinstance(t, FFT)]
        return {key for t in thunks for key in plan_lengths(t)}


def matrix_calls(program: Program) -> tuple[list[str], list[int]]:
    """What linear algebra a program has: targets of custom calls, and numbers of the types of
    HLO's own operations."""
    thunks = [t for t in walk(program.thunks) if isinstance(t, MATRICES)]
    sites = {program.call_sites[t.site].target for t in thunks if isinstance(t, CustomCall)}
    types = {_int(t.arguments[0]) for t in thunks if not isinstance(t, CustomCall)}
    return sorted(sites), sorted(types)


def c_interface(program: Program, address_bits: int = 64) -> CInterface:
    """The interface of a program; `UnsupportedError` for one that cannot run without a runtime, or
    whose arrays take more memory than there are addresses."""
    _check(program, address_bits)
    places = {(p.number, p.index): k for k, p in enumerate(program.parameters)}
    results = [r for r in program.results if r.slice is not None]
    at: dict[tuple[int, ...], int] = {r.index: k for k, r in enumerate(results)}
    room = _Workspace()
    bases: list[Base | None] = []
    copies_in: list[CopyIn] = []
    aliases: dict[int, int] = {}
    constants: list[Allocation] = []
    for a in program.allocations:
        output = at.get(a.output_index if a.output_index is not None else a.shape_index)
        whole = output is not None and _is_whole(results[output].slice, a)
        if a.kind == "constant":
            bases.append(Base("constant", len(constants)))
            constants.append(a)
        elif a.kind == "parameter":
            source = places.get((a.parameter_number or 0, a.shape_index))
            if source is None:
                bases.append(None)
            elif not a.is_donated:
                bases.append(Base("input", source))
            else:
                base = Base("output", output) if whole and output is not None else room.take(a)
                if base.what == "output":
                    aliases[source] = base.at
                copies_in.append(CopyIn(source, base, a.size_bytes))
                bases.append(base)
        elif a.kind == "output" and whole and output is not None:
            bases.append(Base("output", output))
        else:
            bases.append(room.take(a))
    copies_out = []
    for k, r in enumerate(results):
        assert r.slice is not None
        if bases[r.slice.allocation.index] != Base("output", k):
            where = r.slice
            copies_out.append(CopyOut(where.allocation.index, where.offset, k, where.size_bytes))
    scratch = room.end()
    inputs = [_array(p.shape, aliases.get(k), False) for k, p in enumerate(program.parameters)]
    back = {output: source for source, output in aliases.items()}
    outputs = [_array(r.shape, back.get(k), True) for k, r in enumerate(results)]
    return CInterface(
        tuple(inputs),
        tuple(outputs),
        tuple(bases),
        tuple(copies_in),
        tuple(copies_out),
        tuple(constants),
        scratch,
        scratch.at + scratch_bytes(program),
    )


def _array(shape: Shape, alias: int | None, is_written: bool) -> CArray:
    size, element = size_bytes(shape), max(shape.dtype.size_bytes, 1)
    alignment = element // 2 if shape.dtype.is_complex else element
    if is_written and size >= STREAMED_BYTES:
        alignment = ALIGNMENT
    return CArray(shape, size, alignment, alias)


def _is_whole(s: BufferSlice | None, a: Allocation) -> bool:
    """Whether a result is all of an allocation."""
    if s is None or s.allocation.index != a.index:
        return False
    return s.offset == 0 and s.size_bytes == a.size_bytes


class _Workspace:
    """Memory that the caller lends."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def take(self, a: Allocation) -> Base:
        base = self.end()
        self.size_bytes += a.size_bytes
        return base

    def end(self) -> Base:
        self.size_bytes = -(-self.size_bytes // ALIGNMENT) * ALIGNMENT
        return Base("workspace", self.size_bytes)


# -- what cannot be


def _error(message: str, hint: str | None = None) -> UnsupportedError:
    return UnsupportedError(message, rule="ahead-of-time", hint=hint)


def _check(program: Program, address_bits: int) -> None:
    size = sum([a.size_bytes for a in program.allocations])
    if size >= 1 << (address_bits - 1):
        raise _error(
            f"{program.name} works on {size} bytes, and the processor has {address_bits} bits for "
            "an address"
        )
    if program.device_count > 1:
        raise _error(
            f"{program.name} is for {program.device_count} devices, and a C library has one"
        )
    for shape in [p.shape for p in program.parameters] + [r.shape for r in program.results]:
        if shape.is_dynamic:
            raise _error(
                f"{program.name} has an array of run-time size, {shape.text}: arrays of a C "
                "library have the size that its header says"
            )
    for t in walk(program.thunks):
        is_foreign = isinstance(t, CustomCall) and not is_known_call(program, t)
        if is_foreign or not isinstance(t, STEPS):
            raise _error(
                f"%{t.name} needs a runtime ({t.kind}{t.particulars()}), and a C library has none",
                _way_out(program, t),
            )
        if isinstance(t, (Sort, TopK)):
            _check_row(t)


def _way_out(program: Program, t: Thunk) -> str:
    """Where a step can be that no library has."""
    keeps = "hloom compile -o program.hloom keeps it, for hloom run and hloom.load_compiled"
    if isinstance(t, CustomCall):
        target = program.call_sites[t.site].target
        if target in PYTHON:
            return (
                "no C program can call functions of Python: take pure_callback, io_callback and "
                "jax.debug out of what is exported, or run it with jax.jit and JAX_PLATFORMS=hloom"
            )
        return (
            "hloom compile -o program.hloom keeps it for C programs with the runtime, which give "
            f'it a handler: hloom_rt_register("{target}", handler, user)'
        )
    if isinstance(t, (Infeed, Outfeed, HostSend, HostRecv, Interpreter)):
        return keeps
    return f"{keeps}, and for C programs with the runtime"


def _check_row(t: Sort | TopK) -> None:
    n = _int(t.arguments[1])
    if n >= MOST_ROW:
        raise _error(f"%{t.name} orders rows of {n} elements; below {MOST_ROW} can be")
    if isinstance(t, Sort):
        count = _int(t.arguments[3])
        if count > MOST_OPERANDS:
            raise _error(f"%{t.name} sorts {count} arrays together; {MOST_OPERANDS} can be")
        if not isinstance(t.arguments[7], Function) and _int(t.arguments[7]) > MOST_KEYS:
            raise _error(f"%{t.name} sorts by {t.arguments[7]} keys; {MOST_KEYS} can be")


def _int(x: object) -> int:
    assert isinstance(x, int)
    return x
