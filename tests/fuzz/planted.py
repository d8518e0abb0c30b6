"""Exceptions planted in the compiler, one at a time: what `plant_faults.py` tries on programs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import hloom.codegen.llvm.compile as llvm
import hloom.passes.fuse.build as fusion_build
import hloom.passes.fuse.fusion as fusion_pass
import hloom.passes.partition.whole_program as whole_program
import hloom.schedule.least_memory as least_memory
import hloom.targets.cpu.function_texts as function_texts
import hloom.targets.cpu.library as libraries
import hloom.targets.cpu.lower.collective_fold as collectives
import hloom.targets.cpu.lower.control as loops_in_kernels
import hloom.targets.cpu.lower.gather as scatters
import hloom.targets.cpu.lower.sort as sorts
import hloom.targets.cpu.lowering as lowering
import hloom.targets.cpu.share as sharing
import hloom.targets.cpu.target as cpu_target
from hloom.base.diagnostics import HloError
from hloom.ir.module import Module
from hloom.passes import PASSES
from hloom.passes.fuse.group import FusionGroup
from hloom.passes.partition.partitioner import FAMILIES as PARTITION_RULES
from hloom.passes.partition.shardy_xla import PREPARED
from hloom.passes.partition.spmd_partitioner import SpmdPartitioner
from hloom.targets.cpu.lower.families import FAMILIES
from hloom.targets.cpu.recovery import pass_names

ERRORS = (AssertionError, StopIteration, KeyError, RecursionError, MemoryError, HloError)
CALLS = (
    *("sort", "fft", "cholesky", "triangular-solve", "topk", "custom-call", "while", "conditional"),
    *("gather", "scatter", "select-and-scatter", "copy", "rng-get-and-update-state"),
    *("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-permute"),
    *("collective-broadcast", "collective-reduce", "partition-id", "replica-id", "send", "recv"),
    *("all-reduce-start", "all-gather-start", "collective-permute-start", "async-start"),
)
"""Operations that are more than kernels."""
KINDS = ("loop", "row", "column", "output", "sequence")


class Planted:
    """Raises, and counts how often; what is raised changes from fault to fault."""

    def __init__(self, number: int) -> None:
        self.error = ERRORS[number % len(ERRORS)]
        self.count = 0

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.count += 1
        raise self.error("planted")


@dataclass(frozen=True)
class Plant:
    """A fault: `name` is kind and name of the culprit; `put` lets it fail while it is in force."""

    name: str
    way: str
    put: Callable[[Planted], Any] = field(repr=False)
    needs: str = ""
    """What a program must meet for it to show; empty: the culprit."""

    def __str__(self) -> str:
        return f"{self.name} ({self.way})"


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute that is another one for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


# -- passes


def _at_once(name: str) -> Callable[[Planted], Any]:
    return lambda fault: replaced(PASSES[name], "run", lambda *a, **k: fault())


def _half_done(name: str) -> Callable[[Planted], Any]:
    """When the pass has changed the module; where it changes nothing, it does not fail."""
    real = PASSES[name].run

    def put(fault: Planted) -> Any:
        def run(self: Any, module: Module, **options: Any) -> Any:
            result = real(self, module, **options)
            if result.changed:
                fault()
            return result

        return replaced(PASSES[name], "run", run)

    return put


def _partitioner(is_late: bool) -> Callable[[Planted], Any]:
    """When a program is cut: at once, or when it has been."""
    real = whole_program.partition_module

    def put(fault: Planted) -> Any:
        def cut(*arguments: Any) -> Any:
            run = real(*arguments) if is_late else None
            fault()
            return run

        return replaced(whole_program, "partition_module", cut)

    return put


def _in_registry(registry: Any, key: str) -> Callable[[Planted], Any]:
    """What a registry has for a key, failing."""

    def put(fault: Planted) -> Any:
        items = {**registry._items, key: fault}
        return replaced(registry, "_items", items)

    return put


def run_by_name_only() -> set[str]:
    """Passes that no pipeline has and nothing else runs: who names one is told of its fault."""
    return set(PASSES) - pass_names() - {p.name for p in (*PREPARED, SpmdPartitioner)}


# -- fusions


def _joining(kind: str) -> Callable[[Planted], Any]:
    """When a producer is asked to join a fusion of this kind."""
    real = FusionGroup._refusal

    def put(fault: Planted) -> Any:
        def refusal(self: FusionGroup, p: Any, limits: Any) -> Any:
            if self.kind_with(p) == kind:
                fault()
            return real(self, p, limits)

        return replaced(FusionGroup, "_refusal", refusal)

    return put


def _building(kind: str) -> Callable[[Planted], Any]:
    """When a fusion of this kind is written; those before it stand already."""
    real = fusion_build._fusion

    def put(fault: Planted) -> Any:
        def made(c: Any, module: Any, g: Any, roots: Any) -> Any:
            if fusion_build.group_kind(g) == kind:
                fault()
            return real(c, module, g, roots)

        return replaced(fusion_build, "_fusion", made)

    return put


# -- kernels


def _family(name: str, part: str, after: int = 0) -> Callable[[Planted], Any]:
    """A family that fails where it is asked (`form`) or writes, from some call on."""

    def put(fault: Planted) -> Any:
        def changed(family: Any) -> Any:
            if family.name != name:
                return family
            real, calls = getattr(family, part), Counter[str]()

            def fails(*arguments: Any) -> Any:
                calls["all"] += 1
                found = real(*arguments)
                if found is not None and calls["all"] > after:
                    fault()
                return found

            return replace(family, **{part: fails})

        return replaced(lowering, "FAMILIES", tuple([changed(f) for f in FAMILIES]))

    return put


def _text(name: str) -> Callable[[Planted], Any]:
    """When LLVM text is made of a kernel of this family."""
    real = function_texts.kernel_function

    def put(fault: Planted) -> Any:
        families: dict[int, str] = {}
        kept = lowering.Lowering.add_kernel

        def noted(self: Any, symbol: str, kernel: Any, family: Any) -> None:
            families[id(kernel)] = family.name
            kept(self, symbol, kernel, family)

        def function(kernel: Any, *rest: Any) -> Any:
            if families.get(id(kernel)) == name:
                fault()
            return real(kernel, *rest)

        @contextmanager
        def both() -> Iterator[None]:
            with (
                replaced(lowering.Lowering, "add_kernel", noted),
                replaced(function_texts, "kernel_function", function),
            ):
                yield

        return both()

    return put


def _called(owner: Any, name: str, after: int = 0) -> Callable[[Planted], Any]:
    """A function that fails, from some call on."""
    real = getattr(owner, name)

    def put(fault: Planted) -> Any:
        calls = Counter[str]()

        def fails(*arguments: Any, **options: Any) -> Any:
            calls["all"] += 1
            return fault() if calls["all"] > after else real(*arguments, **options)

        return replaced(owner, name, fails)

    return put


def _refusing() -> Callable[[Planted], Any]:
    """Admission that refuses every third kernel."""

    def put(fault: Planted) -> Any:
        calls = Counter[str]()

        def admit(kernel: Any) -> None:
            calls["all"] += 1
            if calls["all"] % 3 == 1:
                fault()

        return replaced(lowering, "admit_kernel", admit)

    return put


def _object(text: str, optimised: bool) -> Callable[[Planted], Any]:
    """LLVM failing at what has this text in it; only where it optimises, or always."""
    real = llvm.object_bytes

    def put(fault: Planted) -> Any:
        def made(module: str, machine: Any, opt_level: int = 2, plain: bool = False) -> bytes:
            if re.search(text, module) and (opt_level or not optimised):
                fault()
            return real(module, machine, opt_level, plain)

        return replaced(llvm, "object_bytes", made)

    return put


@cache
def plants() -> tuple[Plant, ...]:
    """All faults."""
    found: list[Plant] = []
    for name in sorted(pass_names() | {p.name for p in PREPARED}):
        found.append(Plant(f"pass {name}", "at once", _at_once(name)))
        found.append(Plant(f"pass {name}", "half done", _half_done(name)))
    found += _of_partitioner()
    for kind in KINDS:
        found.append(Plant(f"fusion {kind}", "joining", _joining(kind)))
        found.append(Plant(f"fusion {kind}", "building", _building(kind)))
    found.append(Plant("fusion merge", "planning", _called(fusion_pass, "merged")))
    for family in FAMILIES:
        found.append(Plant(f"kernel {family.name}", "form", _family(family.name, "form")))
        found.append(Plant(f"kernel {family.name}", "writing", _family(family.name, "write")))
        found.append(
            Plant(f"kernel {family.name}", "writing the third", _family(family.name, "write", 2))
        )
        found.append(Plant(f"kernel {family.name}", "text", _text(family.name)))
    for owner, function, name in (
        (scatters, "scatter_kernel", "scatter"),
        (scatters, "select_and_scatter_kernel", "select-and-scatter"),
        (loops_in_kernels, "whole_loop", "whole-loop"),
        (loops_in_kernels, "interchanged", "whole-loop"),
        (sorts, "loop_kernel", "comparator"),
        (collectives, "loop_kernel", "fold"),
    ):
        found.append(Plant(f"kernel {name}", "writing", _called(owner, function)))
    found.append(Plant("kernel", "refused, every third", _refusing()))
    found += [
        Plant("step lowering", f"of {opcode}", _in_registry(lowering.CPU_LOWERS, opcode), needs)
        for opcode in CALLS
        if (needs := f"lowering {opcode}")
    ]
    found.append(Plant("step schedule", "overlapping", _called(least_memory, "overlapped")))
    found.append(Plant("step runs", "at once", _called(cpu_target, "with_runs")))
    found.append(Plant("step schedule", "at once", _called(cpu_target, "least_memory_order")))
    found.append(Plant("step sharing", "at once", _called(sharing.CpuShare, "_allows")))
    found.append(Plant("step buffers", "copies, once", _once(cpu_target, "insert_copies")))
    found.append(Plant("step buffers", "places, once", _once(cpu_target, "assign_buffers")))
    found.append(Plant("step main function", "once", _once(function_texts, "main_text")))
    found.append(Plant("llvm code generation", "optimising", _object("define", True)))
    found.append(Plant("kernel", "code", _object(r"define [^\n]*@k_", False)))
    where = "library"
    found.append(
        Plant("llvm code generation", "of a library", _once(libraries, "object_for"), where)
    )
    found.append(Plant("step compilation", "of a library", _once(libraries, "library_text"), where))
    return tuple(found)


def _of_partitioner() -> list[Plant]:
    """In the partitioner, and in its rule for each operation."""
    name = f"pass {SpmdPartitioner.name}"
    found = [Plant(name, "at once", _partitioner(False)), Plant(name, "late", _partitioner(True))]
    for opcode in sorted(PARTITION_RULES):
        put = _in_registry(PARTITION_RULES, opcode)
        found.append(Plant(name, f"rule of {opcode}", put, f"rule {opcode}"))
    return found


def _once(owner: Any, name: str) -> Callable[[Planted], Any]:
    """A function that fails when it is called first, by the second way to do it no more."""
    real = getattr(owner, name)

    def put(fault: Planted) -> Any:
        def fails(*arguments: Any, **options: Any) -> Any:
            return real(*arguments, **options) if fault.count else fault()

        return replaced(owner, name, fails)

    return put
