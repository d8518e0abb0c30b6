"""What a saved executable says to the native side, which then needs no Python to run it.

    version, the runtime's ABI, CRC-32 of what follows; all numbers are 64 bits, little endian
    features of the processor it is for; name, fingerprint, entry
    objects and constants: where they stand in the saved program, with their CRC-32
    blocks, arguments, results, where it runs, custom calls, lengths of its regions

native/pjrt/loading.cc reads it. The program itself is not repeated: it stands in the same file.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hloom.program.call_site import CallBuffer, CallSite
from hloom.program.program import Program
from hloom.program.saved import places_of
from hloom.runtime.call_frame import ARRAY, DICTIONARY, SCALAR, STRING, Attribute, Typed
from hloom.runtime.call_sites import attributes_of
from hloom.runtime.library import ABI_VERSION
from hloom.runtime.pjrt import AnyExecutor, Deployment, Spread, described

VERSION = 2


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
    features: Sequence[str],
    region_sizes: Sequence[int] = (),
) -> bytes:
    """The part for the native side; `saved_program` is what `program_to_bytes` gave."""
    program = executor.program
    raw, _alive = described(executor, 0, deployment)
    to = _Writer()
    to.number(len(features))
    for feature in features:
        to.text(feature)
    for text in (program.name, deployment.fingerprint, program.entry):
        to.text(text)
    places = places_of(saved_program)
    view = memoryview(saved_program)
    to.number(len(places.objects))
    for at, size in places.objects:
        to.number(at, size, zlib.crc32(view[at : at + size]))
    to.number(len(program.allocations), len(places.constants))
    for index, at, size in places.constants:
        to.number(index, at, size, zlib.crc32(view[at : at + size]))
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
    rest = to.bytes()
    return struct.pack("<3q", VERSION, ABI_VERSION, zlib.crc32(rest)) + rest


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
