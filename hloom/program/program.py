"""A compiled program: memory to have, steps to take, machine code to take them with.

It holds no graph and needs no compiler: `objects` are relocatable object files, `entry` the name
of the function in them that runs all thunks (`int32 entry(hl_context*, void** buffers)`, one
pointer per allocation). The thunks are kept for those who look, time or step through them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from hloom.program.call_site import CallSite
from hloom.program.slice import Allocation, BufferSlice
from hloom.program.thunks.thunk import Thunk, walk
from hloom.types.shape import Shape

Index = tuple[int, ...]


@dataclass(frozen=True)
class Parameter:
    """An array that the caller hands in: a leaf of a parameter of the entry computation."""

    number: int
    index: Index
    shape: Shape
    allocation: int | None
    """None where nothing reads it, or it has no bytes."""


@dataclass(frozen=True)
class Result:
    """A leaf of the result, and where it stands after a run."""

    index: Index
    shape: Shape
    slice: BufferSlice | None
    """None for tokens."""


_SYSTEMS = (
    ("linux", "linux"),
    ("macos", "macos"),
    ("darwin", "macos"),
    ("windows", "windows"),
    ("mingw", "windows"),
)


def system_of(triple: str) -> str:
    """What a triple says of the system: linux, macos, windows, wasm; empty: there is none."""
    architecture, *words = triple.split("-")
    for name, system in _SYSTEMS:
        if any(w.startswith(name) for w in words):
            return system
    return "wasm" if architecture == "wasm32" else ""


class Processor(NamedTuple):
    """What the machine code of a program was made for."""

    triple: str
    cpu: str
    """LLVM's name of it; empty for any of the architecture."""
    features: tuple[str, ...]
    """What it must have, by LLVM's names: a processor that lacks one may die of the code."""
    data_layout: str = ""
    """How it lays out memory, as LLVM writes it; empty where nobody said."""

    @property
    def architecture(self) -> str:
        """The first word of the triple: `x86_64`, `aarch64`."""
        return self.triple.split("-")[0]

    @property
    def system(self) -> str:
        """As `system_of` has it."""
        return system_of(self.triple)


@dataclass
class Program:
    """What a machine executes."""

    name: str
    allocations: list[Allocation]
    thunks: tuple[Thunk, ...]
    parameters: list[Parameter]
    results: list[Result]
    result_shape: Shape
    objects: list[bytes]
    entry: str = "hloom_main"
    call_sites: list[CallSite] = field(default_factory=list)
    """The custom calls, by the number that their thunks give."""
    infeeds: list[Shape] = field(default_factory=list)
    """What each infeed reads."""
    outfeeds: list[Shape] = field(default_factory=list)
    """What each outfeed writes, by the number that its items begin with."""
    argument_shapes: list[Shape] = field(default_factory=list)
    """Of each parameter of the entry computation; `parameters` has the leaves of these."""
    argument_names: list[str] = field(default_factory=list)
    """Of each parameter, in a file; none in a program whose module is at hand."""
    result_names: list[str] = field(default_factory=list)
    """Of each element of the result, or of the one that it is."""
    processor: Processor | None = None
    """Whom the objects are for; None where there is nothing to know (no objects)."""
    replicas: int = 1
    partitions: int = 1
    """It is for replicas x partitions devices."""
    record: bytes | None = field(default=None, init=False, repr=False, compare=False)
    """The section PROGRAM that it was read from, as it stood; a copy with changes has none."""

    @property
    def device_count(self) -> int:
        """How many devices it is for; device d is replica d // partitions, partition d % that."""
        return self.replicas * self.partitions

    @cached_property
    def meets_others(self) -> bool:
        """Whether what it does has to do with the other devices; else one can run alone."""
        return any(t.meets_others for t in walk(self.thunks))

    @property
    def temp_bytes(self) -> int:
        """Memory that a run needs beside parameters, constants and results."""
        return sum([a.size_bytes for a in self.allocations if a.kind == "temp"])
