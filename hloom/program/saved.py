"""Programs as bytes, both ways: for the compile cache, and to run where no compiler is.

    magic, version, lengths of the three parts, SHA-256 of all three
    labels   JSON: what whoever saved it says about it (what it was made from)
    header   JSON: allocations, thunks, parameters, results; slices, blobs and shapes by number
    blobs    one after another: objects, constants, texts

Labels can be read without the rest. Reading never runs anything and trusts nothing: bytes that are
not exactly a saved program of this version are a `SavedProgramError`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from hloom.base.diagnostics import HloError
from hloom.program.program import Parameter, Program, Result
from hloom.program.saved_thunks import Reader, Writer
from hloom.program.slice import Allocation
from hloom.types.shape import Shape
from hloom.types.text import shape_from_text

MAGIC = b"hloomprg"
VERSION = 1
_HEAD = struct.Struct("<8sIIQQ32s")
LABELS_AT = _HEAD.size


class SavedProgramError(HloError):
    """Bytes that are no saved program."""


def program_to_bytes(program: Program, labels: Mapping[str, str] | None = None) -> bytes:
    """The program, with labels that can be read without it."""
    writer = Writer()
    header = {
        "name": program.name,
        "entry": program.entry,
        "allocations": [_allocation(a, writer) for a in program.allocations],
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
        "objects": [writer.blob(o) for o in program.objects],
        "slices": writer.slices,
        "blobs": [len(b) for b in writer.blobs],
    }
    parts = (_json(dict(labels or {})), _json(header), b"".join(writer.blobs))
    lengths = [len(p) for p in parts]
    return b"".join([_HEAD.pack(MAGIC, VERSION, *lengths, _digest(parts)), *parts])


def program_from_bytes(data: bytes) -> Program:
    """The program in these bytes."""
    view = memoryview(data)
    labels_size, header_size, blobs_size, digest = _head(view)
    header_at = LABELS_AT + labels_size
    blobs_at = header_at + header_size
    if blobs_at + blobs_size != len(data):
        raise SavedProgramError(
            f"a saved program of {blobs_at + blobs_size} bytes has {len(data)}",
            rule="saved-program",
            hint="the file was cut off, or is being written",
        )
    parts = (view[LABELS_AT:header_at], view[header_at:blobs_at], view[blobs_at:])
    if _digest(parts) != digest:
        raise SavedProgramError("the checksum of a saved program is wrong", rule="saved-program")
    try:
        return _program(json.loads(bytes(parts[1])), parts[2])
    except (HloError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise SavedProgramError(
            f"a saved program is malformed: {type(error).__name__}: {error}", rule="saved-program"
        ) from None


def labels_of(data: bytes) -> dict[str, str]:
    """The labels of a saved program, of which only the beginning needs to be given."""
    size = _head(memoryview(data))[0]
    try:
        labels = json.loads(data[LABELS_AT : LABELS_AT + size])
        return {str(k): str(v) for k, v in labels.items()}
    except (ValueError, AttributeError) as error:
        raise SavedProgramError(
            f"the labels of a saved program are malformed: {error}", rule="saved-program"
        ) from None


def _head(view: memoryview) -> tuple[int, int, int, bytes]:
    """Lengths of the three parts, and the digest."""
    if len(view) < _HEAD.size or bytes(view[:8]) != MAGIC:
        raise SavedProgramError("these bytes are no saved program", rule="saved-program")
    _, version, labels, header, blobs, digest = _HEAD.unpack_from(view)
    if version != VERSION:
        raise SavedProgramError(
            f"a saved program has version {version}, this hloom reads {VERSION}",
            rule="saved-program",
            hint="compile it again",
        )
    return labels, header, blobs, digest


def _digest(parts: tuple[bytes | memoryview, ...]) -> bytes:
    digest = sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _allocation(a: Allocation, writer: Writer) -> list[Any]:
    return [
        a.index,
        a.size_bytes,
        a.kind,
        a.parameter_number,
        a.shape_index,
        a.output_index,
        a.is_donated,
        None if a.data is None else writer.blob(a.data),
    ]


def _program(header: dict[str, Any], blobs: memoryview) -> Program:
    cut: list[memoryview] = []
    at = 0
    for size in header["blobs"]:
        cut.append(blobs[at : at + size])
        at += size
    if at != len(blobs):
        raise ValueError(f"{at} bytes of blobs are spoken of, {len(blobs)} are there")
    allocations = [_read_allocation(row, cut) for row in header["allocations"]]
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
    )


def _read_allocation(row: list[Any], blobs: list[memoryview]) -> Allocation:
    index, size, kind, number, shape_index, output_index, is_donated, data = row
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
        None if data is None else bytes(blobs[data]),
    )


def _shape(text: str) -> Shape:
    return shape_from_text(text)
