"""Programs in the saved form (saved_form.py), both ways: for the compile cache, JAX, C programs.

Labels can be read without the rest. Reading never runs anything and trusts nothing: bytes that are
not exactly a saved program of this version are an `HloError`. Constants may be most of a file: they
are not copied. Whether this processor can run it is asked when the program is loaded
(runtime/processor_identity.py).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hloom.base.diagnostics import HloError
from hloom.program.call_site import CallBuffer, CallSite
from hloom.program.container import (
    Crc32,
    Piece,
    Section,
    malformed,
    opened,
    opened_section,
    sealed_pieces,
)
from hloom.program.program import Parameter, Processor, Program, Result
from hloom.program.saved_form import (
    ALLOCATION,
    ALLOCATION_KINDS,
    ATTRIBUTE,
    CALL_BUFFER,
    CALL_SITE,
    LABEL,
    LABELS,
    NOWHERE,
    OBJECT,
    PARAMETER,
    PROGRAM,
    RESULT,
    Range,
    SectionKind,
    SectionReader,
    SectionWriter,
)
from hloom.program.saved_thunks import thunks_of_section, thunks_section
from hloom.program.slice import ALIGNMENT, Allocation, BufferSlice
from hloom.types.attributes import Attribute, Typed, attributes_of_config
from hloom.types.shape import Shape
from hloom.types.sizes import size_bytes
from hloom.types.text import shape_from_text

RUNTIME_ABI = 3
"""Of what compiled code calls, and of the main function: the runtime's `hl_abi_version`."""
ARRAY, DICTIONARY, SCALAR, STRING = 1, 2, 3, 4
"""Kinds of attributes, as native/custom_call.h has them."""
MALFORMED = (HloError, LookupError, TypeError, ValueError, AttributeError, struct.error)
"""What reading raises where the checksums are right, and what they sum is not."""


def program_to_bytes(program: Program, labels: Mapping[str, str] | None = None) -> bytes:
    """The program, with labels that can be read without it."""
    return b"".join(program_pieces(program, labels))


def program_pieces(
    program: Program, labels: Mapping[str, str] | None = None, crc32: Crc32 = zlib.crc32
) -> list[Piece]:
    """The same in pieces, for a file, of which constants are not copied."""
    return sealed_pieces(program_sections(program, labels), crc32)


def program_sections(program: Program, labels: Mapping[str, str] | None = None) -> list[Section]:
    """The sections of a program; others may be put between them."""
    sections = [
        Section(SectionKind.LABELS, [_labels_section(labels or {})]),
        Section(SectionKind.PROGRAM, [program_section(program)]),
        Section(SectionKind.OBJECTS, program.objects),
        Section(SectionKind.THUNKS, thunks_section(program.thunks)),
    ]
    constants = _padded([a.data for a in program.allocations if a.data is not None])
    return sections + ([Section(SectionKind.CONSTANTS, constants)] if constants else [])


def program_from_bytes(data: Piece, crc32: Crc32 = zlib.crc32) -> Program:
    """The program in these bytes, of which its constants are views; `crc32` as for `opened`."""
    return program_of(dict(opened(data, crc32)))


def program_of(sections: Mapping[int, memoryview]) -> Program:
    """The program in the sections of a file, by kind."""
    try:
        return _read_program(sections)
    except MALFORMED as error:
        raise malformed(f"a saved program is malformed: {type(error).__name__}: {error}") from None


def labels_of(data: Piece) -> dict[str, str]:
    """The labels of a saved program, of which only the beginning needs to be given."""
    section = opened_section(data, SectionKind.LABELS)
    if section is None:
        return {}
    reader = SectionReader(section)
    try:
        rows = reader.records(LABEL, reader.first(LABELS).labels)
        return {reader.text(row.name): reader.text(row.text) for row in rows}
    except MALFORMED as error:
        raise malformed(f"the labels of a saved program are malformed: {error}") from None


# -- writing


def _labels_section(labels: Mapping[str, str]) -> bytes:
    to = SectionWriter(LABELS)
    rows = [{"name": to.text(name), "text": to.text(text)} for name, text in labels.items()]
    return to.finished({"labels": to.records(LABEL, rows)})


def program_section(program: Program) -> bytes:
    """What a run needs to know of a program; code and constants stand elsewhere."""
    to = SectionWriter(PROGRAM)
    processor = program.processor or Processor("", "", ())
    return to.finished(
        {
            "runtime": RUNTIME_ABI,
            "replicas": program.replicas,
            "partitions": program.partitions,
            "has_processor": program.processor is not None,
            "triple": to.text(processor.triple),
            "cpu": to.text(processor.cpu),
            "features": to.text(",".join(processor.features)),
            "data_layout": to.text(processor.data_layout),
            "name": to.text(program.name),
            "entry": to.text(program.entry),
            "result_shape": to.text(program.result_shape.text),
            "allocations": to.records(ALLOCATION, _allocations(to, program)),
            "parameters": to.records(PARAMETER, [_parameter(to, p) for p in program.parameters]),
            "results": to.records(RESULT, [_result(to, r) for r in program.results]),
            "objects": to.records(OBJECT, _objects(program)),
            "call_sites": to.records(CALL_SITE, [_call_site(to, c) for c in program.call_sites]),
            "infeeds": to.texts([s.text for s in program.infeeds]),
            "outfeeds": to.texts([s.text for s in program.outfeeds]),
            "argument_shapes": to.texts([s.text for s in program.argument_shapes]),
            "argument_names": to.texts(program.argument_names),
            "result_names": to.texts(program.result_names),
        }
    )


def _allocations(to: SectionWriter, program: Program) -> Iterable[dict[str, Any]]:
    at = 0
    for index, a in enumerate(program.allocations):
        assert a.index == index
        size = -1 if a.data is None else len(a.data)
        yield {
            "size_bytes": a.size_bytes,
            "kind": ALLOCATION_KINDS.index(a.kind),
            "parameter_number": -1 if a.parameter_number is None else a.parameter_number,
            "shape_index": to.numbers(a.shape_index),
            "output_index": NOWHERE if a.output_index is None else to.numbers(a.output_index),
            "is_donated": a.is_donated,
            "space": a.space,
            "constant_at": -1 if size < 0 else at,
            "constant_bytes": max(size, 0),
        }
        at += _aligned(max(size, 0))


def _parameter(to: SectionWriter, p: Parameter) -> dict[str, Any]:
    return {
        "number": p.number,
        "index": to.numbers(p.index),
        "shape": to.text(p.shape.text),
        "allocation": -1 if p.allocation is None else p.allocation,
        "size_bytes": size_bytes(p.shape),
    }


def _result(to: SectionWriter, r: Result) -> dict[str, Any]:
    return {
        "index": to.numbers(r.index),
        "shape": to.text(r.shape.text),
        **_place(r.slice),
    }


def _place(s: BufferSlice | None) -> dict[str, int]:
    if s is None:
        return {"allocation": -1, "offset": 0, "size_bytes": 0}
    return {"allocation": s.allocation.index, "offset": s.offset, "size_bytes": s.size_bytes}


def _objects(program: Program) -> Iterable[dict[str, int]]:
    at = 0
    for code in program.objects:
        yield {"at": at, "size": len(code)}
        at += len(code)


def _call_site(to: SectionWriter, c: CallSite) -> dict[str, Any]:
    return {
        "name": to.text(c.name),
        "target": to.text(c.target),
        "config": to.text(c.config),
        "is_typed": c.is_typed,
        "operands": to.records(CALL_BUFFER, [_call_buffer(to, b) for b in c.operands]),
        "results": to.records(CALL_BUFFER, [_call_buffer(to, b) for b in c.results]),
        "attributes": _attributes(to, attributes_of_config(c.config, c.is_typed)),
    }


def _call_buffer(to: SectionWriter, b: CallBuffer) -> dict[str, Any]:
    return {"dtype": b.dtype, "dims": to.numbers(b.dims), **_place(b.slice)}


def _attributes(to: SectionWriter, attributes: Mapping[str, Attribute]) -> Range:
    return to.records(ATTRIBUTE, [_attribute(to, n, v) for n, v in attributes.items()])


def _attribute(to: SectionWriter, name: str, value: Attribute) -> dict[str, Any]:
    if isinstance(value, str):
        data = to.text(value)
        kind, dtype, count = STRING, 0, data.count
    elif isinstance(value, Typed):
        elements = np.array(value.value, value.dtype.numpy, ndmin=1)
        data = to.text(elements.tobytes())
        kind = SCALAR if np.ndim(value.value) == 0 else ARRAY
        dtype, count = value.dtype.number, elements.size
    else:
        data = _attributes(to, value)
        kind, dtype, count = DICTIONARY, 0, data.count
    return {
        "name": to.text(name),
        "kind": kind,
        "dtype": dtype,
        "count": count,
        "data": data,
    }


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _padded(constants: Sequence[Piece]) -> list[Piece]:
    """Constants with what stands between them, so that each is aligned."""
    parts: list[Piece] = []
    for data in constants:
        parts += (data, bytes(_aligned(len(data)) - len(data)))
    return parts


# -- reading


class _Tables(NamedTuple):
    """What the rest of a program refers to."""

    reader: SectionReader
    allocations: list[Allocation]

    def slice(self, row: Any) -> BufferSlice | None:
        if row.allocation == -1:
            return None
        allocation = self.allocations[_natural(row.allocation)]
        slice_ = BufferSlice(allocation, row.offset, row.size_bytes)
        if not 0 <= slice_.offset <= slice_.end <= allocation.size_bytes:
            raise ValueError(f"the slice {slice_} leaves its allocation")
        return slice_


def _read_program(sections: Mapping[int, memoryview]) -> Program:
    reader = SectionReader(sections[SectionKind.PROGRAM])
    row = reader.first(PROGRAM)
    if row.runtime != RUNTIME_ABI:
        raise malformed(
            f"a saved program is for version {row.runtime} of the runtime, this is {RUNTIME_ABI}",
            "compile it again",
        )
    constants = sections.get(SectionKind.CONSTANTS, memoryview(b""))
    tables = _Tables(reader, _read_allocations(reader, row.allocations, constants))
    program = Program(
        reader.text(row.name),
        tables.allocations,
        thunks_of_section(sections[SectionKind.THUNKS], tables.allocations),
        [_read_parameter(tables, p) for p in reader.records(PARAMETER, row.parameters)],
        [
            Result(reader.numbers(r.index), _shape(reader, r.shape), tables.slice(r))
            for r in reader.records(RESULT, row.results)
        ],
        _shape(reader, row.result_shape),
        _read_objects(reader, row.objects, sections[SectionKind.OBJECTS]),
        reader.text(row.entry),
        [_read_call_site(tables, c) for c in reader.records(CALL_SITE, row.call_sites)],
        [shape_from_text(text) for text in reader.texts(row.infeeds)],
        [shape_from_text(text) for text in reader.texts(row.outfeeds)],
        [shape_from_text(text) for text in reader.texts(row.argument_shapes)],
        reader.texts(row.argument_names),
        reader.texts(row.result_names),
        _read_processor(reader, row),
        _natural(row.replicas),
        _natural(row.partitions),
    )
    program.record = bytes(sections[SectionKind.PROGRAM])
    return program


def _read_processor(reader: SectionReader, row: Any) -> Processor | None:
    if not row.has_processor:
        return None
    features = reader.text(row.features)
    names = tuple(features.split(",")) if features else ()
    return Processor(
        reader.text(row.triple), reader.text(row.cpu), names, reader.text(row.data_layout)
    )


def _read_allocations(
    reader: SectionReader, place: Range, constants: memoryview
) -> list[Allocation]:
    allocations: list[Allocation] = []
    for index, a in enumerate(reader.records(ALLOCATION, place)):
        data = None
        if a.constant_at >= 0:
            data = constants[a.constant_at : a.constant_at + _natural(a.constant_bytes)]
            if len(data) != a.constant_bytes or len(data) != a.size_bytes:
                raise ValueError(f"the constant {index} is not all there")
        allocations.append(
            Allocation(
                index,
                _natural(a.size_bytes),
                ALLOCATION_KINDS[_natural(a.kind)],
                None if a.parameter_number == -1 else _natural(a.parameter_number),
                reader.numbers(a.shape_index),
                None if a.output_index == NOWHERE else reader.numbers(a.output_index),
                bool(a.is_donated),
                None if data is None else data.toreadonly(),
                _natural(a.space),
            )
        )
    return allocations


def _read_parameter(tables: _Tables, p: Any) -> Parameter:
    reader = tables.reader
    allocation = None if p.allocation == -1 else tables.allocations[_natural(p.allocation)].index
    shape = _shape(reader, p.shape)
    if p.size_bytes != size_bytes(shape):
        raise ValueError(f"a parameter of {p.size_bytes} bytes is {shape.text}")
    return Parameter(p.number, reader.numbers(p.index), shape, allocation)


def _read_objects(reader: SectionReader, place: Range, code: memoryview) -> list[bytes]:
    objects: list[bytes] = []
    for at, size in reader.records(OBJECT, place):
        objects.append(bytes(code[_natural(at) : at + _natural(size)]))
        if len(objects[-1]) != size:
            raise ValueError("the objects are not all there")
    return objects


def _read_call_site(tables: _Tables, c: Any) -> CallSite:
    reader = tables.reader

    def buffers(place: Range) -> tuple[CallBuffer, ...]:
        rows = reader.records(CALL_BUFFER, place)
        return tuple([CallBuffer(b.dtype, reader.numbers(b.dims), tables.slice(b)) for b in rows])

    return CallSite(
        reader.text(c.name),
        reader.text(c.target),
        bool(c.is_typed),
        reader.text(c.config),
        buffers(c.operands),
        buffers(c.results),
    )


def _natural(number: int) -> int:
    if number < 0:
        raise ValueError(f"{number} is no number or size of anything")
    return number


def _shape(reader: SectionReader, place: Range) -> Shape:
    return shape_from_text(reader.text(place))
