"""The functions of a C library: programs by name, their code, what callers see of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hloom.aot.names import c_name, check_function, checked_names, distinct
from hloom.aot.tensors import NamedWeights
from hloom.api import (
    CInterface,
    Instruction,
    LibraryCode,
    LibraryRequest,
    Module,
    Tensors,
    UsageError,
    Version,
    Weights,
    library_code,
)


@dataclass(frozen=True)
class LibraryPlan:
    """What all functions of a library have in common."""

    name: str
    weights: Weights
    pool: Literal["", "caller", "own"]
    threads: int
    versions: tuple[str, ...]
    options: Mapping[str, Any] | Iterable[str] | None
    target: str
    named: NamedWeights = field(default_factory=lambda: NamedWeights({}))
    """Inputs that are weights, which a file has by name."""
    tensors: Tensors = field(default_factory=Tensors)
    """They, as they come."""


@dataclass(frozen=True)
class CEntry:
    """A function of a library."""

    name: str
    program: str
    """What it was, for people."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    interface: CInterface
    module: Module
    codes: tuple[tuple[str, LibraryCode], ...]
    """The symbol and the code for each processor; one, where no versions are asked for."""
    input_numbers: tuple[int, ...]
    """Of each input among the arrays that the program takes, weights by name among them."""

    @property
    def code(self) -> LibraryCode:
        """For the processor that needs least."""
        return min([c for _, c in self.codes], key=lambda c: len(c.processor.features))

    @property
    def versions(self) -> list[Version]:
        """Symbols and processors, where there are several."""
        return [Version(symbol, c.processor) for symbol, c in self.codes]


def named_programs(program: Any, library: str) -> list[tuple[str, Any]]:
    """Names of functions, and what each is made from."""
    if isinstance(program, Mapping):
        keys, programs = [str(k) for k in program], list(program.values())
    elif isinstance(program, list | tuple):
        programs = list(program)
        keys = distinct([_program_name(p, k) for k, p in enumerate(programs)])
    else:
        return [(library, program)]
    if not programs:
        raise UsageError("a library needs a program", rule="library-entries")
    names = [f"{library}_{c_name(k).strip('_')}" for k in keys]
    for name in names:
        check_function(name)
    if len({n.upper() for n in names}) < len(names):
        raise UsageError(
            f"functions of a library need names of their own: {', '.join(names)}",
            rule="library-names",
        )
    return list(zip(names, programs))


def _program_name(program: Any, number: int) -> str:
    name = getattr(program, "name", None)
    return name if isinstance(name, str) and name else f"f{number}"


def compiled_entry(
    plan: LibraryPlan,
    name: str,
    program: Any,
    argument_names: Sequence[str] | Mapping[str, Sequence[str]] | None,
    result_names: Sequence[str] | Mapping[str, Sequence[str]] | None,
) -> CEntry:
    """A program as a function of the library; its constants go to the table of the plan."""
    codes: list[tuple[str, LibraryCode]] = []
    module: Module | None = None
    many = len(plan.versions) > 1
    key = name.removeprefix(f"{plan.name}_")
    named = plan.named.of(key)
    for version in plan.versions or ("",):
        symbol = f"{name}_{re.sub(r'[^A-Za-z0-9]', '_', version)}" if many else name
        asked = LibraryRequest(
            symbol, plan.name, plan.weights, plan.pool, many, named, plan.tensors
        )
        module, code = library_code(program, asked, _options(plan, version), plan.target)
        codes.append((symbol, code))
    assert module is not None
    if many and codes[0][1].processor.architecture not in ("x86_64", "amd64"):
        raise UsageError(
            f"versions are for x86-64, and {codes[0][1].processor.triple} is none",
            rule="target-versions",
        )
    first = codes[0][1]
    inputs = _input_names(module, first, _of(argument_names, key), named)
    outputs = _output_names(module, first, _of(result_names, key))
    interface = merged([c.interface for _, c in codes])
    numbers = [k for k in range(len(first.program.parameters)) if k not in named]
    return CEntry(
        name,
        module.name,
        tuple(inputs),
        tuple(outputs),
        interface,
        module,
        tuple(codes),
        tuple(numbers),
    )


def merged(interfaces: Sequence[CInterface]) -> CInterface:
    """What callers of any of several versions must give: the most memory, the widest alignment;
    in place only where all versions allow it."""
    first = interfaces[0]
    arrays = {}
    for what in ("inputs", "outputs"):
        columns = zip(*[getattr(i, what) for i in interfaces])
        arrays[what] = tuple(
            [
                replace(
                    column[0],
                    alignment=max([a.alignment for a in column]),
                    alias=column[0].alias if len({a.alias for a in column}) == 1 else None,
                )
                for column in columns
            ]
        )
    most = max([i.workspace_bytes for i in interfaces])
    return replace(first, **arrays, workspace_bytes=most)


def _options(plan: LibraryPlan, version: str) -> Any:
    """The options for one version."""
    if not version:
        return plan.options
    if isinstance(plan.options, Mapping):
        return {**plan.options, "target_cpu": version}
    return [*(plan.options or ()), f"--target_cpu={version}"]


def _of(
    names: Sequence[str] | Mapping[str, Sequence[str]] | None, key: str
) -> Sequence[str] | None:
    return names.get(key) if isinstance(names, Mapping) else names


def _input_names(
    module: Module, code: LibraryCode, chosen: Sequence[str] | None, named: Mapping[int, str]
) -> list[str]:
    leaves = [p for k, p in enumerate(code.program.parameters) if k not in named]
    names = {p.attrs.number: p.name for p in module.entry.parameters}
    own = distinct([_leaf(names[p.number], p.index) for p in leaves])
    return own if chosen is None else checked_names(chosen, own, "Argument")


def _output_names(module: Module, code: LibraryCode, chosen: Sequence[str] | None) -> list[str]:
    leaves = [r.index for r in code.program.results if r.slice is not None]
    root = module.entry.root
    own = distinct([_leaf(*_producer(root, index)) for index in leaves])
    return own if chosen is None else checked_names(chosen, own, "Result")


def _producer(i: Instruction, index: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """The name of what made a leaf of a value, as far as tuples tell."""
    while index and i.opcode == "tuple":
        i, index = i.operands[index[0]], index[1:]
    return i.name, index


def _leaf(name: str, index: tuple[int, ...]) -> str:
    return "_".join([name, *map(str, index)])
