"""Programs as bytes, both ways: for the compile cache, and to run where no compiler is.

A sealed container (container.py) of four sections:

    labels     JSON: what whoever saved it says about it (what it was made from)
    header     JSON: processor, allocations, thunks, parameters, results; slices and blobs by number
    blobs      one after another: objects, texts
    constants  each at a multiple of 64 bytes

Labels can be read without the rest. Reading never runs anything and trusts nothing: bytes that are
not exactly a saved program of this version are an `HloError`. Constants may be most of a file: they
are not copied. Whether this processor can run it is asked when the program is loaded
(runtime/processor_identity.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hloom.base.diagnostics import HloError
from hloom.program.container import (
    ContainerKind,
    container_places,
    container_section,
    container_sections,
    sealed_container,
)
from hloom.program.program import Parameter, Processor, Program, Result
from hloom.program.saved_thunks import Reader, Writer
from hloom.program.slice import ALIGNMENT, Allocation
from hloom.types.shape import Shape
from hloom.types.text import shape_from_text

KIND: Final = ContainerKind(b"hloomprg", 4, 4, "saved program", "saved-program")
_LABELS, _HEADER, _BLOBS, _CONSTANTS = range(KIND.sections)
LABELS_AT = KIND.head_bytes


def program_to_bytes(program: Program, labels: Mapping[str, str] | None = None) -> bytes:
    """The program, with labels that can be read without it."""
    writer = Writer()
    processor = program.processor
    header = {
        "name": program.name,
        "processor": None if processor is None else list(processor),
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
        "devices": [program.replicas, program.partitions],
        "objects": [writer.blob(o) for o in program.objects],
        "slices": writer.slices,
        "blobs": [len(b) for b in writer.blobs],
    }
    constants = _padded([a.data for a in program.allocations if a.data is not None])
    return sealed_container(
        KIND, [[_json(dict(labels or {}))], [_json(header)], writer.blobs, constants]
    )


def program_from_bytes(data: bytes | memoryview) -> Program:
    """The program in these bytes, of which its constants are views."""
    sections = container_sections(KIND, data)
    try:
        header = json.loads(bytes(sections[_HEADER]))
        return _program(header, sections[_BLOBS], sections[_CONSTANTS])
    except (HloError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise KIND.error(f"a saved program is malformed: {type(error).__name__}: {error}") from None


def labels_of(data: bytes) -> dict[str, str]:
    """The labels of a saved program, of which only the beginning needs to be given."""
    try:
        labels = json.loads(bytes(container_section(KIND, data, _LABELS)))
        return {str(k): str(v) for k, v in labels.items()}
    except (ValueError, AttributeError) as error:
        raise KIND.error(f"the labels of a saved program are malformed: {error}") from None


class Places(NamedTuple):
    """Where what a program runs with stands in its bytes."""

    objects: list[tuple[int, int]]
    """First byte and size of each."""
    constants: list[tuple[int, int, int]]
    """Allocation, first byte, size."""


def places_of(data: bytes) -> Places:
    """The places in bytes that `program_to_bytes` gave."""
    found = container_places(KIND, data)
    header = json.loads(bytes(container_section(KIND, data, _HEADER)))
    blobs: list[tuple[int, int]] = []
    at = found[_BLOBS].at
    for size in header["blobs"]:
        blobs.append((at, size))
        at += size
    at = found[_CONSTANTS].at
    constants: list[tuple[int, int, int]] = []
    for row in header["allocations"]:
        if (size := row[-1]) is not None:
            constants.append((row[0], at, size))
            at += _aligned(size)
    return Places([blobs[number] for number in header["objects"]], constants)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _padded(constants: list[bytes | memoryview]) -> list[bytes | memoryview]:
    """Constants with what stands between them, so that each is aligned."""
    parts: list[bytes | memoryview] = []
    for data in constants:
        parts += (data, bytes(_aligned(len(data)) - len(data)))
    return parts


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
        a.space,
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
        _processor(header["processor"]),
        *[int(n) for n in header["devices"]],
    )


def _processor(row: list[Any] | None) -> Processor | None:
    if row is None:
        return None
    triple, cpu, features = row
    return Processor(str(triple), str(cpu), tuple([str(f) for f in features]))


def _read_allocation(row: list[Any], data: memoryview | None) -> Allocation:
    index, size, kind, number, shape_index, output_index, is_donated, space, _ = row
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
        space,
    )


def _shape(text: str) -> Shape:
    return shape_from_text(text)
