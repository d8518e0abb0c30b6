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
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hloom.base.diagnostics import HloError
from hloom.base.faults import CompilerFaultWarning
from hloom.base.options import Options
from hloom.compiler import compile_module
from hloom.executable import Executable
from hloom.ir.module import Module
from hloom.ir.proto.files import load
from hloom.ir.verify import verify
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
from tests.fuzz.planted import Plant, Planted, plants
from tests.fuzz.run_native import drawn, is_tried

EXAMPLES = Path(__file__).parents[2] / "examples"
MOST_INSTRUCTIONS = 150
"""Of an example that is compiled so often."""
MOST_ELEMENTS = 1 << 16
EVERY = 8

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
    met: frozenset[str]
    """Passes that change it and families of its kernels: faults in others do not show."""

    def meets(self, plant: Plant, number: int) -> bool:
        """Whether a fault is tried: one that shows here. To leave out a pass that changes nothing
        is always the same, so that is tried with one program in `EVERY`."""
        if plant.way == "half done" or plant.name.startswith("kernel "):
            return plant.name in self.met
        return not plant.name.startswith("pass ") or plant.name in self.met or not number % EVERY

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
    met = {f"pass {r.name}" for r in exe.pass_records if r.changed}
    met |= {f"kernel {c.name}" for c in exe.stages.lowering.families.values()}
    made = Program(name, module, trial, given, wanted, coarsest_of(module), frozenset(met))
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
            what = outcome(program, plant, k + n) if program.meets(plant, k + n) else "unmet"
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
