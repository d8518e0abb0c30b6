"""Programs as bytes, both ways: for the compile cache, and to run where no compiler is.

    magic, version, lengths of the four parts, CRC-32 of the constants, SHA-256 of the rest
    labels     JSON: what whoever saved it says about it (what it was made from)
    header     JSON: allocations, thunks, parameters, results; slices, blobs and shapes by number
    blobs      one after another: objects, texts
    constants  each at a multiple of 64 bytes

Labels can be read without the rest. Reading never runs anything and trusts nothing: bytes that are
not exactly a saved program of this version are a `SavedProgramError`. Constants may be most of a
file: they are not copied, and have the sum that is quick to take (3.3 GB a second, SHA-256 1.8).
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from hloom.base.diagnostics import HloError
from hloom.program.program import Parameter, Program, Result
from hloom.program.saved_thunks import Reader, Writer
from hloom.program.slice import ALIGNMENT, Allocation
from hloom.types.shape import Shape
from hloom.types.text import shape_from_text

MAGIC = b"hloomprg"
VERSION = 2
_HEAD = struct.Struct("<8sIIQQQI32s")
LABELS_AT = _HEAD.size


class SavedProgramError(HloError):
    """Bytes that are no saved program."""


def program_to_bytes(program: Program, labels: Mapping[str, str] | None = None) -> bytes:
    """The program, with labels that can be read without it."""
    writer = Writer()
    header = {
        "name": program.name,
        "entry": program.entry,
        "allocations": [_allocation(a) for a in program.allocations],
        "thunks": writer.thunks(program.thunks),
        "parameters": [[p.number, p.index, p.shape.text, p.allocation] for p in program.parameters],
        "results": [
            [r.index, r.shape.text, None if r.slice is None else writer.slice(r.slice)]
            for r in program.results
        ],
        "result_shape": program.result_shape.text,
        "call_sites": [writer.call_site(c) for c in program.call_sites],
        "infeeds": [s.text for s in program.infeeds],
        "outfeeds": [s.text for s in program.outfeeds],
        "arguments": [s.text for s in program.argument_shapes],
        "objects": [writer.blob(o) for o in program.objects],
        "slices": writer.slices,
        "blobs": [len(b) for b in writer.blobs],
    }
    parts = (_json(dict(labels or {})), _json(header), b"".join(writer.blobs))
    constants = _padded([a.data for a in program.allocations if a.data is not None])
    lengths = [len(p) for p in parts]
    size, crc = sum([len(c) for c in constants]), 0
    for c in constants:
        crc = zlib.crc32(c, crc)
    head = _HEAD.pack(MAGIC, VERSION, *lengths, size, crc, _digest(parts))
    gap = bytes(_constants_at(*lengths) - LABELS_AT - sum(lengths))
    return b"".join([head, *parts, gap, *constants])


def program_from_bytes(data: bytes | memoryview) -> Program:
    """The program in these bytes, of which its constants are views."""
    view = memoryview(data)
    head = _head(view)
    header_at = LABELS_AT + head.labels
    blobs_at = header_at + head.header
    constants_at = _constants_at(head.labels, head.header, head.blobs)
    if constants_at + head.constants != len(data):
        raise SavedProgramError(
            f"a saved program of {constants_at + head.constants} bytes has {len(data)}",
            rule="saved-program",
            hint="the file was cut off, or is being written",
        )
    blobs_end = blobs_at + head.blobs
    parts = (view[LABELS_AT:header_at], view[header_at:blobs_at], view[blobs_at:blobs_end])
    constants = view[constants_at:]
    is_whole = _digest(parts) == head.digest and zlib.crc32(constants) == head.crc
    if not is_whole or any(view[blobs_end:constants_at]):
        raise SavedProgramError("the checksum of a saved program is wrong", rule="saved-program")
    try:
        return _program(json.loads(bytes(parts[1])), parts[2], constants)
    except (HloError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise SavedProgramError(
            f"a saved program is malformed: {type(error).__name__}: {error}", rule="saved-program"
        ) from None


def labels_of(data: bytes) -> dict[str, str]:
    """The labels of a saved program, of which only the beginning needs to be given."""
    size = _head(memoryview(data)).labels
    try:
        labels = json.loads(data[LABELS_AT : LABELS_AT + size])
        return {str(k): str(v) for k, v in labels.items()}
    except (ValueError, AttributeError) as error:
        raise SavedProgramError(
            f"the labels of a saved program are malformed: {error}", rule="saved-program"
        ) from None


class Places(NamedTuple):
    """Where what a program runs with stands in its bytes."""

    objects: list[tuple[int, int]]
    """First byte and size of each."""
    constants: list[tuple[int, int, int]]
    """Allocation, first byte, size."""


def places_of(data: bytes) -> Places:
    """The places in bytes that `program_to_bytes` gave."""
    view = memoryview(data)
    head = _head(view)
    header_at = LABELS_AT + head.labels
    at = header_at + head.header
    header = json.loads(bytes(view[header_at:at]))
    blobs: list[tuple[int, int]] = []
    for size in header["blobs"]:
        blobs.append((at, size))
        at += size
    at = _constants_at(head.labels, head.header, head.blobs)
    constants: list[tuple[int, int, int]] = []
    for row in header["allocations"]:
        if (size := row[-1]) is not None:
            constants.append((row[0], at, size))
            at += _aligned(size)
    return Places([blobs[number] for number in header["objects"]], constants)


class _Head(NamedTuple):
    """Lengths of the four parts in bytes, and the sums of what they hold."""

    labels: int
    header: int
    blobs: int
    constants: int
    crc: int
    digest: bytes


def _head(view: memoryview) -> _Head:
    """What stands before the parts."""
    if len(view) < _HEAD.size or bytes(view[:8]) != MAGIC:
        raise SavedProgramError("these bytes are no saved program", rule="saved-program")
    _, version, *rest = _HEAD.unpack_from(view)
    if version != VERSION:
        raise SavedProgramError(
            f"a saved program has version {version}, this hloom reads {VERSION}",
            rule="saved-program",
            hint="compile it again",
        )
    return _Head(*rest)


def _constants_at(labels: int, header: int, blobs: int) -> int:
    """Where the constants begin, in a program whose other parts have these lengths."""
    return _aligned(LABELS_AT + labels + header + blobs)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _padded(constants: list[bytes | memoryview]) -> list[bytes | memoryview]:
    """Constants with what stands between them, so that each is aligned."""
    parts: list[bytes | memoryview] = []
    for data in constants:
        parts += (data, bytes(_aligned(len(data)) - len(data)))
    return parts


def _digest(parts: tuple[bytes | memoryview, ...]) -> bytes:
    digest = sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _allocation(a: Allocation) -> list[Any]:
    return [
        a.index,
        a.size_bytes,
        a.kind,
        a.parameter_number,
        a.shape_index,
        a.output_index,
        a.is_donated,
        None if a.data is None else len(a.data),
    ]


def _program(header: dict[str, Any], blobs: memoryview, constants: memoryview) -> Program:
    cut: list[memoryview] = []
    at = 0
    for size in header["blobs"]:
        cut.append(blobs[at : at + size])
        at += size
    if at != len(blobs):
        raise ValueError(f"{at} bytes of blobs are spoken of, {len(blobs)} are there")
    allocations = []
    at = 0
    for row in header["allocations"]:
        size = row[-1]
        data = None if size is None else constants[at : at + size].toreadonly()
        at += 0 if size is None else _aligned(size)
        allocations.append(_read_allocation(row, data))
    if at != len(constants):
        raise ValueError(f"{at} bytes of constants are spoken of, {len(constants)} are there")
    reader = Reader(allocations, header["slices"], cut)
    return Program(
        header["name"],
        allocations,
        reader.thunks(header["thunks"]),
        [
            Parameter(number, tuple(index), _shape(shape), allocation)
            for number, index, shape, allocation in header["parameters"]
        ],
        [
            Result(tuple(index), _shape(shape), None if s is None else reader.slice(s))
            for index, shape, s in header["results"]
        ],
        _shape(header["result_shape"]),
        [bytes(cut[b]) for b in header["objects"]],
        header["entry"],
        [reader.call_site(c) for c in header["call_sites"]],
        [_shape(s) for s in header["infeeds"]],
        [_shape(s) for s in header["outfeeds"]],
        [_shape(s) for s in header["arguments"]],
    )


def _read_allocation(row: list[Any], data: memoryview | None) -> Allocation:
    index, size, kind, number, shape_index, output_index, is_donated, _ = row
    if kind not in ("parameter", "constant", "output", "temp"):
        raise ValueError(f"no kind of allocation {kind!r}")
    return Allocation(
        index,
        size,
        kind,
        number,
        tuple(shape_index),
        None if output_index is None else tuple(output_index),
        is_donated,
        data,
    )


def _shape(text: str) -> Shape:
    return shape_from_text(text)
