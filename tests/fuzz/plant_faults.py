"""Faults planted in the compiler: programs compile in spite of them, and compute the same.

    python -m tests.fuzz.plant_faults --programs 200     # each fault on so many programs; hours
    python -m tests.fuzz.plant_faults --only pass:cse

A fault is an exception in a pass (at once, or when it has changed the module), in a kind of
fusions, a family of kernels (its form, its writer, its admission), a step of compilation, or LLVM.
Each program is compiled with each fault that it meets; what it computes is compared with the
interpreter, and there is exactly one warning, which names the culprit.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import hloom.codegen.llvm.compile as llvm
import hloom.passes.fuse.build as fusion_build
import hloom.passes.fuse.fusion as fusion_pass
import hloom.targets.cpu.lower.control as loops_in_kernels
import hloom.targets.cpu.lower.gather as scatters
import hloom.targets.cpu.lower.sort as sorts
import hloom.targets.cpu.lowering as lowering
import hloom.targets.cpu.share as sharing
import hloom.targets.cpu.target as cpu_target
from hloom.base.diagnostics import HloError
from hloom.base.faults import CompilerFaultWarning
from hloom.base.options import Options
from hloom.compiler import Executable, compile_module
from hloom.ir.module import Module
from hloom.ir.proto.files import load
from hloom.ir.verify import verify
from hloom.passes import PASSES
from hloom.passes.fuse.group import Group
from hloom.targets.cpu.lower.families import FAMILIES
from hloom.targets.cpu.recovery import pass_names
from hloom.types.literal import Literal
from tests.fuzz.check_native import (
    NotJudged,
    Trial,
    arguments_of,
    coarsest_of,
    different,
    judged,
    leaves,
    literal_leaves,
)
from tests.fuzz.run_native import drawn, is_tried

EXAMPLES = Path(__file__).parents[2] / "examples"
MOST_INSTRUCTIONS = 400
"""Of an example that is compiled so often."""
MOST_ELEMENTS = 1 << 16
ERRORS = (AssertionError, StopIteration, KeyError, RecursionError, MemoryError, HloError)
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


# -- fusions


def _joining(kind: str) -> Callable[[Planted], Any]:
    """When a producer is asked to join a fusion of this kind."""
    real = Group._refusal

    def put(fault: Planted) -> Any:
        def refusal(self: Group, p: Any, limits: Any) -> Any:
            if self.kind_with(p) == kind:
                fault()
            return real(self, p, limits)

        return replaced(Group, "_refusal", refusal)

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
    real = cpu_target.kernel_function

    def put(fault: Planted) -> Any:
        families: dict[int, str] = {}
        kept = lowering.Lowering._kept

        def noted(self: Any, i: Any, emitted: Any, family: str, options: Any) -> str:
            families[id(emitted.kernel)] = family
            return kept(self, i, emitted, family, options)

        def function(kernel: Any, *rest: Any) -> Any:
            if families.get(id(kernel)) == name:
                fault()
            return real(kernel, *rest)

        @contextmanager
        def both() -> Iterator[None]:
            with (
                replaced(lowering.Lowering, "_kept", noted),
                replaced(cpu_target, "kernel_function", function),
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
        def made(module: str, machine: Any, opt_level: int = 2) -> bytes:
            if text in module and (opt_level or not optimised):
                fault()
            return real(module, machine, opt_level)

        return replaced(llvm, "object_bytes", made)

    return put


@cache
def plants() -> tuple[Plant, ...]:
    """All faults."""
    found: list[Plant] = []
    for name in sorted(pass_names()):
        found.append(Plant(f"pass {name}", "at once", _at_once(name)))
        found.append(Plant(f"pass {name}", "half done", _half_done(name)))
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
        (sorts, "loop_kernel", "comparator"),
    ):
        found.append(Plant(f"kernel {name}", "writing", _called(owner, function)))
    found.append(Plant("kernel", "refused, every third", _refusing()))
    found.append(Plant("step schedule", "at once", _called(cpu_target, "schedule_module")))
    found.append(Plant("step sharing", "at once", _called(sharing.CpuShare, "_allows")))
    found.append(Plant("step buffers", "copies, once", _once(cpu_target, "insert_copies")))
    found.append(Plant("step buffers", "places, once", _once(cpu_target, "assign_buffers")))
    found.append(Plant("step main function", "once", _once(cpu_target, "main_text")))
    found.append(Plant("llvm code generation", "optimising", _object("define", True)))
    found.append(Plant("kernel", "code", _object("@k_", False)))
    return tuple(found)


def _once(owner: Any, name: str) -> Callable[[Planted], Any]:
    """A function that fails when it is called first, by the second way to do it no more."""
    real = getattr(owner, name)

    def put(fault: Planted) -> Any:
        def fails(*arguments: Any, **options: Any) -> Any:
            return real(*arguments, **options) if fault.count else fault()

        return replaced(owner, name, fails)

    return put


# -- programs


@dataclass(frozen=True)
class Program:
    """A program, how it is tried, and what it computes."""

    name: str
    module: Module
    trial: Trial
    given: list[Any]
    wanted: list[Literal]
    coarsest: float

    def wrong(self, exe: Executable) -> str:
        """What is wrong with what a compiled program computes; '' if nothing is."""
        try:
            made = [np.array(x.numpy()) for x in leaves(exe(*self.given))]
        except Exception as error:
            return f"not run: {type(error).__name__}: {str(error)[:300]}"
        for k, (got, want) in enumerate(zip(made, self.wanted, strict=True)):
            if what := different(got, want, self.trial, self.coarsest):
                return f"result {k}: {what}"
        return ""


def program_of(name: str, module: Module, trial: Trial) -> Program | None:
    """A program whose results are known; None where nobody can say them."""
    if not is_tried(module) or len(list(module.instructions())) > MOST_INSTRUCTIONS:
        return None
    leaves_of = (x for i in module.instructions() for x in i.shape.leaves())
    if any(x.is_array and x.size > MOST_ELEMENTS for x in leaves_of):
        return None
    try:
        verify(module)
        arguments = arguments_of(module, trial)
        with np.errstate(all="ignore"):
            wanted = judged(module, arguments)
        exe = compile_module(module, 1, STRICT, cached=False)
    except (HloError, NotJudged):
        return None
    given = [leaf.array for a in arguments for leaf in literal_leaves(a)]
    made = Program(name, module, trial, given, wanted, coarsest_of(module))
    return None if made.wrong(exe) else made


STRICT = Options().with_(strict_compilation=True, allow_excess_precision=False)
LENIENT = Options().with_(strict_compilation=False, allow_excess_precision=False)


def programs(count: int) -> Iterator[Program]:
    """So many: the examples that are small, then drawn ones."""
    made = 0
    for path in sorted(EXAMPLES.glob("*.hlo")):
        module = load(path).module
        if (p := program_of(path.stem, module, Trial(arguments="normal"))) is not None:
            made += 1
            yield p
    number = 1
    while made < count:
        number += 1
        with suppress(HloError):
            module, trial = drawn(number)
            trial = replace(trial, disabled="", watched=False)
            if (p := program_of(f"drawn {number}", module, trial)) is not None:
                made += 1
                yield p


# -- trying


def outcome(program: Program, plant: Plant, number: int) -> str:
    """What a fault does to a program: `unmet`, `right`, or what is wrong."""
    fault = Planted(number)
    with plant.put(fault), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            exe = compile_module(program.module, program.trial.threads, LENIENT, cached=False)
        except Exception as error:
            return f"not compiled: {type(error).__name__}: {str(error)[:300]}"
    told = [str(w.message) for w in seen if w.category is CompilerFaultWarning]
    if not fault.count:
        return "unmet" if not told else f"a warning without a fault: {told[0]}"
    if len(told) != 1:
        return f"{len(told)} warnings: {told}"
    if plant.name not in told[0]:
        return f"the warning does not name it: {told[0]}"
    if what := program.wrong(exe):
        return what
    return "right, by the interpreter" if "evaluate" in told[0] else "right"


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    words.add_argument("--programs", type=int, default=200)
    words.add_argument("--only", default="", help="faults whose name has this in it")
    words.add_argument("--minutes", type=float, default=600.0)
    given = words.parse_args()
    chosen = [p for p in plants() if given.only in str(p)]
    counts: dict[str, Counter[str]] = {str(p): Counter() for p in chosen}
    end = time.monotonic() + 60 * given.minutes
    wrong = done = 0
    for k, program in enumerate(programs(given.programs)):
        if time.monotonic() > end:
            break
        done += 1
        for n, plant in enumerate(chosen):
            what = outcome(program, plant, k + n)
            kind = what if what.startswith(("right", "unmet")) else "WRONG"
            counts[str(plant)][kind] += 1
            if kind == "WRONG":
                wrong += 1
                print(f"{program.name}, {plant}: {what}", flush=True)
    print(f"{done} programs, {len(chosen)} faults, {wrong} wrong")
    for name, found in counts.items():
        print(f"{name:55} " + ", ".join(f"{v} {k}" for k, v in sorted(found.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
