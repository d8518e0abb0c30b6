"""`hloom.export_c(program, "libmodel.so")`: a program as a C library, and its header.

The object is whole without a compiler; the system's is called for a shared library, and where a
program needs a routine, for which there is C and C++. Files are written whole or not at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hloom.aot.buckets import CBuckets, bucket_programs, checked_sizes, library_buckets
from hloom.aot.buckets_header import buckets_lines
from hloom.aot.entries import CEntry, LibraryPlan, compiled_entry, named_programs
from hloom.aot.header import header
from hloom.aot.kinds import KINDS, check_ending, kind_of
from hloom.aot.names import c_name, check_function
from hloom.aot.parts import library_bytes
from hloom.aot.tensors import NamedWeights, header_lines, written_tensors
from hloom.aot.weights import gap_bytes, weights_file
from hloom.api import CInterface, UsageError, Weights, written_whole

MOST_THREADS = 1024


@dataclass(frozen=True)
class CLibrary:
    """What was written."""

    name: str
    """Before every symbol and constant; of the function, where there is one."""
    path: Path
    header: Path | None
    entries: tuple[CEntry, ...]
    """Its functions, in the order of the programs."""
    weights: Path | None = None
    """The file that holds the constants, where they are mapped."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """Bytes of each object that it is made of, by name."""
    buckets: CBuckets | None = None
    """The function that takes any size, where the others are for some."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Of the first function, by name."""
        return self.entries[0].inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Of the first function, by name."""
        return self.entries[0].outputs

    @property
    def interface(self) -> CInterface:
        """Of the first function."""
        return self.entries[0].interface

    @property
    def workspace_bytes(self) -> int:
        """Memory that a call of any of its functions works in, which the caller lends."""
        of_buckets = [] if self.buckets is None else [self.buckets.workspace_bytes]
        return max([e.interface.workspace_bytes for e in self.entries] + of_buckets)


def export_c(
    program: Any,
    path: str | Path,
    header_path: str | Path | None = None,
    *,
    name: str | None = None,
    argument_names: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    result_names: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    options: Mapping[str, Any] | Iterable[str] | None = None,
    target: str = "cpu",
    weights: str | Path | None = None,
    pool: bool = False,
    threads: int = 1,
    versions: Sequence[str] = (),
    buckets: Mapping[str, Sequence[int]] | None = None,
    named_weights: NamedWeights | None = None,
) -> CLibrary:
    """Write a C library of what `hloom.compile` takes: `.so`, `.a` or `.o` says what it is.

    `name` is that of the function; without it, that of the file (`libmodel.so`: `model`). A dict of
    programs, or a list, becomes one function each, `model_key`; equal constants are there once.
    Arguments are called as the parameters are, results as the operands of the root tuple, unless
    names are given (for several functions by key). `weights`: a file for the constants, which the
    library maps. `pool`: functions that take threads of the caller's; `threads`: its own.
    `versions`: processors (`x86-64-v2`, `x86-64-v4`) whose code is in the library side by side.
    `buckets`: sizes by name, `{"batch": (1, 8, 32)}`; `program` is then a function that gives the
    program for its sizes, and the library's takes any size up to the largest.
    `named_weights`: inputs that no caller brings, tensors of a safetensors file by their names;
    their values, if there are any, are written to the file `weights`.
    `HloError` names the instruction that needs a runtime, the missing compiler.
    """
    path = Path(path)
    kind = _kind(path)
    name = c_name(name if name is not None else path.name.split(".")[0].removeprefix("lib"))
    check_function(name)
    _check_threads(pool, threads)
    sizes = None if buckets is None else checked_sizes(buckets)
    programs = bucket_programs(program, name, sizes) if sizes else named_programs(program, name)
    plan = LibraryPlan(
        name,
        _weights(weights, named_weights, len(programs) > 1 or len(versions) > 1, kind),
        "own" if threads > 1 else "caller" if pool else "",
        threads,
        tuple(versions),
        options,
        target,
        named_weights or NamedWeights({}),
    )
    entries = [compiled_entry(plan, n, p, argument_names, result_names) for n, p in programs]
    if named_weights is not None and not plan.tensors.items:
        raise UsageError(f"{name} takes no weights from a file", rule="weights-by-name")
    any_size = None if sizes is None else library_buckets(name, entries, sizes, program)
    processor = entries[0].code.processor
    check_ending(path, processor.system, processor.triple)
    return _written(plan, entries, any_size, path, kind, weights, header_path)


def _written(
    plan: LibraryPlan,
    entries: Sequence[CEntry],
    any_size: CBuckets | None,
    path: Path,
    kind: str,
    weights: str | Path | None,
    header_path: str | Path | None,
) -> CLibrary:
    """Make the objects, link them, and write what was asked for."""
    if plan.tensors.items:
        mapped, by_name = None, list(plan.tensors.items.values())
        written = written_tensors(plan.named.values, by_name) if plan.named.values else None
    else:
        mapped = None if weights is None else weights_file(Path(weights), plan.name, plan.weights)
        written = None if mapped is None else mapped.data
    with tempfile.TemporaryDirectory() as folder:
        data, parts = library_bytes(plan, entries, any_size, mapped, kind, path.name, Path(folder))
    _write(plan, entries, any_size, path, data, kind, written, weights, header_path)
    return CLibrary(
        plan.name,
        path,
        None if header_path is None else Path(header_path),
        tuple(entries),
        None if weights is None else Path(weights),
        parts,
        any_size,
    )


def _write(
    plan: LibraryPlan,
    entries: Sequence[CEntry],
    any_size: CBuckets | None,
    path: Path,
    data: bytes,
    kind: str,
    of_weights: bytes | None,
    weights: str | Path | None,
    header_path: str | Path | None,
) -> None:
    """The files, each whole."""
    if of_weights is not None and weights is not None:
        with written_whole(Path(weights)) as file:
            file.write(of_weights)
    with written_whole(path) as file:
        file.write(data)
    if kind == "shared":
        path.chmod(0o755)
    if header_path is not None:
        maps = entries[0].code.processor.system in ("linux", "macos")
        by_name = list(plan.tensors.items.values())
        where = "file" if maps else "memory"
        where = where if by_name or plan.weights.place == "file" else ""
        kind_of_weights = f"{where}, by name" if by_name else where
        before = header_lines(plan.name, by_name) if by_name else []
        more: list[str] = []
        if any_size is not None:
            more = buckets_lines(plan.name, any_size, plan.pool, kind_of_weights)
        text = header(plan.name, entries, plan.pool, kind_of_weights, before, more)
        with written_whole(Path(header_path)) as file:
            file.write(text.encode())


def _weights(
    file: str | Path | None, named: NamedWeights | None, is_shared: bool, kind: str
) -> Weights:
    """An empty table of constants. An object of one function takes no linker; a file of weights by
    name has no others."""
    if named is not None:
        _check_tensors_file(file, bool(named.values))
    elif file is not None:
        return Weights("file", gap_bytes(Path(file)))
    if is_shared:
        return Weights("section")
    return Weights("inside" if kind == "object" else "either")


def _check_tensors_file(file: str | Path | None, has_values: bool) -> None:
    """The file for weights by name, where there is one to write."""
    if file is None and has_values:
        raise UsageError("weights by name need a file", rule="weights-file", hint="weights=...")
    if file is not None and Path(file).suffix.lower() != ".safetensors":
        raise UsageError(
            f"weights by name are kept in .safetensors, and {Path(file).name} is none",
            rule="weights-file",
        )


def _kind(path: Path) -> str:
    if not (kind := kind_of(path)):
        raise UsageError(
            f"{path.name} is no kind of library", rule="library-file", hint=f"{', '.join(KINDS)}"
        )
    return kind


def _check_threads(pool: bool, threads: int) -> None:
    if pool and threads > 1:
        raise UsageError(
            "a library has threads of its own or takes the caller's, not both",
            rule="library-threads",
            hint="--pool, or --threads n",
        )
    if not 1 <= threads <= MOST_THREADS:
        raise UsageError(
            f"a library cannot have {threads} threads; from 1 to {MOST_THREADS}",
            rule="library-threads",
        )
