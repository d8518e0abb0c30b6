"""Types, attributes, constants and locations of MLIR as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.frontends.stablehlo.types import MLIR_NAMES
from hloom.ir.values.metadata import OpMetadata
from hloom.ir.values.stack_frames import StackFrameIndex
from hloom.types.literal import Literal
from hloom.types.shape import UNBOUNDED, Shape


def type_text(shape: Shape) -> str:
    """`tensor<2x?xf32, #stablehlo.bounds<?, 5>>`, `tuple<...>`, `!stablehlo.token`."""
    if shape.is_tuple:
        return f"tuple<{', '.join(map(type_text, shape.elements))}>"
    if shape.is_token:
        return "!stablehlo.token"
    if shape.is_buffer:
        array = shape.elements[0]
        return f"memref<{_sizes(array)}{MLIR_NAMES[array.dtype]}>"
    if not shape.is_array:
        raise UsageError(f"StableHLO has no type for {shape.text}", rule="mlir-type")
    bounds = ""
    if shape.is_dynamic and any(d and n != UNBOUNDED for d, n in zip(shape.dynamic, shape.dims)):
        words = [str(n) if d and n != UNBOUNDED else "?" for d, n in zip(shape.dynamic, shape.dims)]
        bounds = f", #stablehlo.bounds<{', '.join(words)}>"
    return f"tensor<{_sizes(shape)}{MLIR_NAMES[shape.dtype]}{bounds}>"


def _sizes(shape: Shape) -> str:
    return "".join(
        f"{'?' if shape.is_dynamic_dim(k) else size}x" for k, size in enumerate(shape.dims)
    )


def quoted(text: str) -> str:
    """A string of MLIR: quotes, backslashes and what is not printable are escaped."""
    characters = []
    for byte in text.encode("utf-8", "surrogateescape"):
        if byte in (0x22, 0x5C) or not 0x20 <= byte < 0x7F:
            characters.append(f"\\{byte:02X}")
        else:
            characters.append(chr(byte))
    return '"' + "".join(characters) + '"'


def ints(values: Iterable[int]) -> str:
    """`array<i64: 1, 2>`."""
    words = ", ".join(map(str, values))
    return f"array<i64: {words}>" if words else "array<i64>"


def booleans(values: Iterable[bool]) -> str:
    return f"array<i1: {', '.join('true' if v else 'false' for v in values)}>"


def boolean(value: bool) -> str:
    return "true" if value else "false"


def integer(value: int, bits: int = 64) -> str:
    return f"{value} : i{bits}"


def table(rows: Sequence[Sequence[int]]) -> str:
    """A dense constant of two dimensions."""
    width = len(rows[0]) if rows else 0
    if not width:
        return f"dense<> : tensor<{len(rows)}x{width}xi64>"
    body = json.dumps([list(row) for row in rows])
    return f"dense<{body}> : tensor<{len(rows)}x{width}xi64>"


def order(minor_to_major: Sequence[int]) -> str:
    """A layout, as StableHLO writes it."""
    body = json.dumps(list(minor_to_major)) if minor_to_major else ""
    return f"dense<{body}> : tensor<{len(minor_to_major)}xindex>"


def dictionary(fields: Mapping[str, str]) -> str:
    """`{k = "v"}` of texts."""
    return "{" + ", ".join(f"{quoted(k)} = {quoted(v)}" for k, v in fields.items()) + "}"


def attributes(fields: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{k} = {v}" if v else k for k, v in fields.items()) + "}"


def dense(literal: Literal) -> str:
    """`dense<...> : type`: exact bits for floats, one value where all are equal."""
    shape, array = literal.shape, literal.array
    if not array.size:
        return f"dense<> : {type_text(shape)}"
    if literal.is_all_equal:
        return f"dense<{_number(array.reshape(-1)[:1], shape)}> : {type_text(shape)}"
    if shape.dtype.is_pred or shape.dtype.bits < 8:
        words = [_number(x, shape) for x in array.reshape(-1, 1)]
        return f"dense<{_nested(words, shape.dims)}> : {type_text(shape)}"
    data = np.ascontiguousarray(array).tobytes().hex().upper()
    return f'dense<"0x{data}"> : {type_text(shape)}'


def _number(one: np.ndarray, shape: Shape) -> str:
    dtype = shape.dtype
    if dtype.is_pred:
        return boolean(bool(one[0]))
    if dtype.is_integral:
        return str(int(one[0]))
    if dtype.is_complex:
        parts = one.view(dtype.component.numpy)
        bits = parts.view(f"u{parts.dtype.itemsize}")
        return "(" + ", ".join(f"0x{int(b):0{parts.dtype.itemsize * 2}X}" for b in bits) + ")"
    bits = one.view(f"u{one.dtype.itemsize}")
    return f"0x{int(bits[0]):0{max(dtype.bits + 3, 4) // 4}X}"


def _nested(words: list[str], dims: tuple[int, ...]) -> str:
    for size in reversed(dims):
        words = ["[" + ", ".join(words[k : k + size]) + "]" for k in range(0, len(words), size)]
    return words[0]


def location(metadata: OpMetadata | None, frames: StackFrameIndex | None) -> str:
    """`loc("name"("file":1:2))`, with the chain of callers where the module knows it."""
    if metadata is None:
        return " loc(unknown)"
    place = _chain(metadata, frames)
    if metadata.op_type:
        kind = quoted(metadata.op_type + ":")
        place = f"{kind}({place})" if place else kind
    if metadata.op_name:
        name = quoted(metadata.op_name)
        return f" loc({name}({place}))" if place else f" loc({name})"
    return f" loc({place})" if place else " loc(unknown)"


def _chain(metadata: OpMetadata, frames: StackFrameIndex | None) -> str:
    """The places of a frame and of its callers, else the one place of the metadata."""
    if metadata.stack_frame_id and frames is not None:
        chain = ""
        for frame in reversed(frames.frames(metadata.stack_frame_id)):
            here = _place(frame.file, frame.line, frame.column, frame.end_line, frame.end_column)
            if frame.function:
                here = f"{quoted(frame.function)}({here})"
            chain = f"callsite({here} at {chain})" if chain else here
        if chain:
            return chain
    m = metadata
    if not m.source_file:
        return ""
    start, end = (m.source_line, m.source_column), (m.source_end_line, m.source_end_column)
    return _place(m.source_file, *start, *end)


def _place(file: str, line: int, column: int, end_line: int, end_column: int) -> str:
    start = f"{quoted(file)}:{line}:{column}"
    if not end_line and not end_column:
        return start
    if end_line in (0, line):
        return f"{start} to :{end_column}"
    return f"{start} to {end_line}:{end_column}"


def precision(words: Sequence[str], kind: str = "stablehlo") -> dict[str, str]:
    """The attribute of operand precisions; nothing when they are the usual."""
    if not words:
        return {}
    attributes_text = ", ".join(f"#{kind}<precision {w.upper()}>" for w in words)
    return {"precision_config": f"[{attributes_text}]"}
