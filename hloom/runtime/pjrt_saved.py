"""Saved executables: a program with all that JAX, and the native side without Python, ask of it.

A sealed container (hloom/program/container.py) of six sections:

    facts     what JAX was told about it, and what it was made with (hloom/plugin/saved.py)
    options   JAX's compile options, as they were given
    program   the saved program: machine code, memory, constants (hloom/program/saved.py)
    module    the HLO it was compiled from, for those who ask for text or cost
    regions   code of one device that it calls: saved executables, one after another
    native    what the native side needs to run it where there is no Python:

    version, the runtime's ABI; all numbers are 64 bits, little endian
    architecture and features of the processor it is for; name, fingerprint, entry
    objects and constants: where they stand in the saved program
    blocks, arguments, results, where it runs, custom calls, lengths of its regions

native/pjrt/loading.cc reads it. The program itself is not repeated: it stands in the same file.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from hloom.program.call_site import CallBuffer, CallSite
from hloom.program.container import ContainerKind, container_sections, sealed_container
from hloom.program.program import Processor, Program
from hloom.program.saved import places_of, program_to_bytes
from hloom.runtime.call_frame import ARRAY, DICTIONARY, SCALAR, STRING
from hloom.runtime.call_sites import attributes_of
from hloom.runtime.library import ABI_VERSION
from hloom.runtime.pjrt import AnyExecutor, Deployment, Spread, described
from hloom.types.attributes import Attribute, Typed

KIND: Final = ContainerKind(b"hloomjax", 2, 6, "saved executable", "saved-executable")
NATIVE_VERSION = 3


class Sections(NamedTuple):
    """The sections of a saved executable."""

    facts: memoryview
    options: memoryview
    program: memoryview
    module: memoryview
    regions: memoryview
    native: memoryview


def sealed_executable(
    executor: AnyExecutor,
    deployment: Deployment,
    facts: bytes,
    options: bytes,
    module: bytes,
    regions: Sequence[bytes],
) -> bytes:
    """The bytes of an executable; those of its regions were made so, too."""
    program = program_to_bytes(executor.program, {"name": executor.program.name})
    native = native_part(executor, deployment, program, [len(r) for r in regions])
    nested = (Sections._fields.index("program"), Sections._fields.index("regions"))
    sections = ([facts], [options], [program], [module], regions, [native])
    return sealed_container(KIND, sections, nested)


def executable_sections(data: bytes | memoryview) -> Sections:
    """The sections of these bytes; `HloError` where they are no saved executable, or damaged.

    Program and regions are checked when they are read: they are sealed themselves.
    """
    return Sections(*container_sections(KIND, data))


class _Writer:
    """Collects numbers and texts."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def number(self, *values: int) -> None:
        self.parts.append(struct.pack(f"<{len(values)}q", *values))

    def numbers(self, values: Sequence[int]) -> None:
        self.number(len(values), *values)

    def text(self, data: bytes | str) -> None:
        data = data.encode(errors="surrogateescape") if isinstance(data, str) else data
        self.number(len(data))
        self.parts.append(data)

    def bytes(self) -> bytes:
        return b"".join(self.parts)


def native_part(
    executor: AnyExecutor,
    deployment: Deployment,
    saved_program: bytes,
    region_sizes: Sequence[int] = (),
) -> bytes:
    """The part for the native side; `saved_program` is what `program_to_bytes` gave."""
    program = executor.program
    raw, _alive = described(executor, 0, deployment)
    to = _Writer()
    to.number(NATIVE_VERSION, ABI_VERSION)
    processor = program.processor or Processor(platform.machine(), "", ())
    to.text(processor.architecture)
    to.text(",".join(processor.features))
    for text in (program.name, deployment.fingerprint, program.entry):
        to.text(text)
    places = places_of(saved_program)
    to.number(len(places.objects))
    for at, size in places.objects:
        to.number(at, size)
    to.number(len(program.allocations), len(places.constants))
    for index, at, size in places.constants:
        to.number(index, at, size)
    to.number(raw.block_count)
    for block in raw.blocks[: raw.block_count]:
        to.number(block.allocation, block.size_bytes, block.is_temporary)
    _write_arrays(to, raw.arguments[: raw.argument_count], deployment.arguments)
    _write_arrays(to, raw.results[: raw.result_count], deployment.results)
    to.number(deployment.replicas, deployment.partitions)
    to.numbers(deployment.devices)
    to.number(raw.calls_host, raw.is_portable)
    to.number(raw.code_bytes, raw.temporary_bytes, raw.alias_bytes)
    _write_sites(to, program)
    to.numbers(region_sizes)
    return to.bytes()


def _write_arrays(to: _Writer, arrays: Sequence[Any], spreads: Sequence[Spread]) -> None:
    to.number(len(arrays))
    for array, spread in zip(arrays, spreads or [Spread()] * len(arrays)):
        to.number(array.allocation, array.flags_or_offset, array.type)
        to.numbers(array.dims[: array.rank])
        to.number(array.memory_kind)
        to.text(spread.sharding)
        to.numbers(array.whole[: array.rank] if spread.offsets else ())
        to.numbers([x for place in spread.offsets for x in place])
        to.text(array.layout or b"")


def _write_sites(to: _Writer, program: Program) -> None:
    to.number(len(program.call_sites))
    for site in program.call_sites:
        _write_site(to, site)


def _write_site(to: _Writer, site: CallSite) -> None:
    to.text(site.target)
    to.text(f"%{site.name} ({site.target})"[:300])
    for buffers in (site.operands, site.results):
        to.number(len(buffers))
        for buffer in buffers:
            _write_buffer(to, buffer)
    _write_attributes(to, attributes_of(site))


def _write_buffer(to: _Writer, buffer: CallBuffer) -> None:
    to.number(buffer.dtype)
    to.numbers(buffer.dims)
    place = buffer.slice
    to.number(*((-1, 0) if place is None else (place.allocation.index, place.offset)))


def _write_attributes(to: _Writer, attributes: Mapping[str, Attribute]) -> None:
    to.number(len(attributes))
    for name, value in attributes.items():
        to.text(name)
        if isinstance(value, str):
            data = value.encode(errors="surrogateescape")
            to.number(STRING, 0, len(data))
            to.text(data)
        elif isinstance(value, Typed):
            elements = np.array(value.value, value.dtype.numpy, ndmin=1)
            kind = SCALAR if np.ndim(value.value) == 0 else ARRAY
            to.number(kind, value.dtype.number, elements.size)
            to.text(elements.tobytes())
        else:
            to.number(DICTIONARY, 0, len(value))
            _write_attributes(to, value)
