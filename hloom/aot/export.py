"""`hloom.export_c(program, "libmodel.so")`: a program as a C library, and its header.

The object is whole without a compiler; the system's is called for a shared library, and where a
program sorts, for which there is C code. Files are written whole or not at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloom.aot.archive import ArchiveMember, archive
from hloom.aot.header import c_name, checked_names, distinct, header
from hloom.aot.kinds import KINDS, check_ending, kind_of
from hloom.aot.link import MATRICES, ORDERS, TRANSFORMS, toolchain
from hloom.api import (
    CInterface,
    Instruction,
    LibraryCode,
    Module,
    UsageError,
    fft_plans_object,
    library_code,
    written_whole,
)

RESERVED = frozenset(("main", "memcpy", "memmove", "memset", "memcmp"))
"""What C programs, and the library itself, know by these names."""


@dataclass(frozen=True)
class CLibrary:
    """What was written."""

    name: str
    """Of the function, and before every other symbol and constant."""
    path: Path
    header: Path | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    interface: CInterface

    @property
    def workspace_bytes(self) -> int:
        """Memory that a call works in, which the caller lends."""
        return self.interface.workspace_bytes


def export_c(
    program: Any,
    path: str | Path,
    header_path: str | Path | None = None,
    *,
    name: str | None = None,
    argument_names: Sequence[str] | None = None,
    result_names: Sequence[str] | None = None,
    options: Mapping[str, Any] | Iterable[str] | None = None,
    target: str = "cpu",
) -> CLibrary:
    """Write a C library of what `hloom.compile` takes: `.so`, `.a` or `.o` says what it is.

    `name` is that of the function; without it, that of the file (`libmodel.so`: `model`). Arguments
    are called as the parameters are, results as the operands of the root tuple, unless names are
    given. `HloError` names the instruction that needs a runtime, the missing compiler.
    """
    path = Path(path)
    kind = kind_of(path)
    if not kind:
        raise UsageError(
            f"{path.name} is no kind of library", rule="library-file", hint=f"{', '.join(KINDS)}"
        )
    name = c_name(name if name is not None else path.name.split(".")[0].removeprefix("lib"))
    if name in RESERVED:
        raise UsageError(
            f"a library's function cannot be called {name}", rule="library-name", hint="--name"
        )
    module, code = library_code(program, name, options, target)
    check_ending(path, code.processor.system, code.processor.triple)
    inputs = _input_names(module, code, argument_names)
    outputs = _output_names(module, code, result_names)
    with tempfile.TemporaryDirectory() as folder:
        data = _library(code, name, kind, path.name, Path(folder))
    with written_whole(path) as file:
        file.write(data)
    if kind == "shared":
        path.chmod(0o755)
    if header_path is not None:
        text = header(name, module.name, code.interface, inputs, outputs)
        with written_whole(Path(header_path)) as file:
            file.write(text.encode())
    return CLibrary(
        name,
        path,
        None if header_path is None else Path(header_path),
        tuple(inputs),
        tuple(outputs),
        code.interface,
    )


def _library(code: LibraryCode, name: str, kind: str, file: str, folder: Path) -> bytes:
    """The bytes of the library."""
    objects = [folder / f"{name}.o"]
    objects[0].write_bytes(code.object)
    symbols = [[name]]
    if code.orders:
        what_for = _callers(code.orders)
        tools = toolchain(code.processor, what_for)
        objects.append(tools.orders_object(name, folder, what_for))
        symbols.append([f"{name}_{r}" for r in ORDERS])
    if code.matrices:
        what_for = _callers(code.matrices)
        tools = toolchain(code.processor, what_for)
        objects.append(tools.matrices_object(name, folder, code.matrix_calls, what_for))
        symbols.append([f"{name}_{r}" for r in MATRICES])
    if code.transforms:
        what_for = _callers(code.transforms)
        tools = toolchain(code.processor, what_for)
        objects.append(tools.transforms_object(name, folder, what_for))
        symbols.append([f"{name}_{r}" for r in TRANSFORMS])
        objects.append(folder / f"{name}_plans.o")
        objects[-1].write_bytes(fft_plans_object(name, code.transform_lengths, code.processor))
        symbols.append([f"{name}_fft_plans"])
    if kind == "archive":
        if code.processor.system == "macos":
            symbols = [[f"_{s}" for s in each] for each in symbols]
        members = [ArchiveMember(o.name, o.read_bytes(), s) for o, s in zip(objects, symbols)]
        return archive(members)
    if kind == "object" and len(objects) == 1:
        return code.object
    out = folder / file
    tools = toolchain(code.processor, f"linking {file}")
    if kind == "object":
        tools.joined_object(objects, out)
    else:
        tools.shared_library(objects, out)
    return out.read_bytes()


def _callers(steps: Sequence[str]) -> str:
    return f"the routines that {', '.join([f'%{t}' for t in steps])} call"


def _input_names(module: Module, code: LibraryCode, chosen: Sequence[str] | None) -> list[str]:
    leaves = code.program.parameters
    if chosen is not None:
        return checked_names(chosen, len(leaves), "Argument")
    names = {p.attrs.number: p.name for p in module.entry.parameters}
    return distinct([_leaf(names[p.number], p.index) for p in leaves])


def _output_names(module: Module, code: LibraryCode, chosen: Sequence[str] | None) -> list[str]:
    leaves = [r.index for r in code.program.results if r.slice is not None]
    if chosen is not None:
        return checked_names(chosen, len(leaves), "Result")
    root = module.entry.root
    return distinct([_leaf(*_producer(root, index)) for index in leaves])


def _producer(i: Instruction, index: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """The name of what made a leaf of a value, as far as tuples tell."""
    while index and i.opcode == "tuple":
        i, index = i.operands[index[0]], index[1:]
    return i.name, index


def _leaf(name: str, index: tuple[int, ...]) -> str:
    return "_".join([name, *map(str, index)])
