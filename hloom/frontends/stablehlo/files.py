"""Files of StableHLO: reading and writing them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hloom.base.diagnostics import UsageError
from hloom.frontends.stablehlo.recognise import BYTECODE, FORMATS, MAGIC, extension_of
from hloom.ir.module import Module
from hloom.ir.proto.compressed import compressed
from hloom.ir.proto.files import Loaded, write_whole
from hloom.types.shape import Shape
from hloom.types.text import shape_from_text

_COMMA = re.compile(r",(?![^\[{]*[\]}])")
"""Between shapes, not inside of one."""


def shapes_of_text(text: str) -> tuple[Shape, ...]:
    """The shapes in `f32[8,3],s32[]`."""
    if not text.strip():
        return ()
    return tuple(shape_from_text(part, default_layouts=True) for part in _COMMA.split(text))


def load_bytes(data: bytes, file: str | None = None, shapes: Sequence[Shape] = ()) -> Loaded:
    """The module in the bytes of a file."""
    from hloom.frontends.stablehlo.read import module_of_bytes, module_of_text

    if data.startswith(MAGIC):
        return Loaded(module_of_bytes(data, file, shapes), "stablehlo-bytecode")
    try:
        text = data.decode("utf-8-sig")  # some editors begin with a mark
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file}: byte {error.start} is not UTF-8 text, nor is it bytecode"
        ) from None
    return Loaded(module_of_text(text, file, shapes), "stablehlo")


def module_of(program: Any) -> Module | None:
    """The graph of a module of jaxlib's bindings or of what `jax.jit(f).lower(...)` gives; None
    for anything else."""
    kind = type(program)
    if kind.__module__.startswith("jax.") and hasattr(program, "compiler_ir"):
        program = program.compiler_ir("stablehlo")
        kind = type(program)
    if not kind.__module__.startswith("jaxlib.mlir") or kind.__name__ != "Module":
        return None
    from hloom.frontends.stablehlo.read import imported

    return imported(program)


def save(module: Module, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write a module as StableHLO; the extension says text or bytecode."""
    name = Path(path)
    is_binary = extension_of(name) in BYTECODE
    if format is None:
        format = "stablehlo-artifact" if is_binary else "stablehlo"
    if format not in FORMATS or (format == "stablehlo") == is_binary:
        raise UsageError(f"{path}: a file with this extension does not hold the format {format}")
    data = file_bytes(module, format)
    write_whole(name, compressed(data, name))


def file_bytes(module: Module, format: str) -> bytes:
    """What a file of this format holds."""
    from hloom.frontends.stablehlo.write import bytes_of_module

    return bytes_of_module(module, format)
