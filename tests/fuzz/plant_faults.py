"""Faults planted in the compiler: programs compile in spite of them, and compute the same.

    python -m tests.fuzz.plant_faults --programs 200     # each fault on so many programs; hours
    python -m tests.fuzz.plant_faults --most 3           # each fault on three that meet it
    python -m tests.fuzz.plant_faults --only pass:cse

A fault is an exception in a pass (at once, or when it has changed the module), in a kind of
fusions, a family of kernels (its form, its writer, its admission), a rule of lowering or of the
partitioner, a step of compilation, or LLVM. Programs are of one device and of several, partitioned
ones and C libraries (`planted_programs.py`). Each is compiled with each fault that it meets; what
it computes is compared with the interpreter, and there is exactly one warning, which names the
culprit. The table at the end says of each fault how many programs reached it.
"""

from __future__ import annotations

import argparse
import json
import random
import time
import warnings
from collections import Counter
from pathlib import Path

from hloom.base.faults import CompilerFaultWarning
from hloom.passes import PASSES
from tests.fuzz.planted import Plant, Planted, plants, run_by_name_only
from tests.fuzz.planted_programs import LENIENT, Program, programs

EVERY = 8


def meets(program: Program, plant: Plant, number: int) -> bool:
    """Whether a fault is tried: one that shows here. To leave out a pass that changes nothing
    is always the same, so that is tried with one program in `EVERY`."""
    if plant.needs:
        return plant.needs in program.met
    if plant.way == "half done" or plant.name.startswith("kernel "):
        return plant.name in program.met
    return not plant.name.startswith("pass ") or plant.name in program.met or not number % EVERY


def outcome(program: Program, plant: Plant, number: int) -> str:
    """What a fault does to a program: `unmet`, `right`, or what is wrong."""
    fault = Planted(number)
    with plant.put(fault), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            runnable = program.compiled(LENIENT)
        except Exception as error:
            if not fault.count:
                return "unmet"
            return f"not compiled: {type(error).__name__}: {str(error)[:300]}"
    told = [str(w.message) for w in seen if w.category is CompilerFaultWarning]
    if not fault.count:
        return "unmet" if not told else f"a warning without a fault: {told[0]}"
    if len(told) != 1:
        return f"{len(told)} warnings: {told}"
    if plant.name not in told[0]:
        return f"the warning does not name it: {told[0]}"
    if what := program.wrong(runnable):
        return what
    return "right, by the interpreter" if "evaluate" in told[0] else "right"


class Table:
    """What became of each fault, kept in a file from run to run."""

    def __init__(self, chosen: list[Plant], report: Path | None) -> None:
        self.counts: dict[str, Counter[str]] = {str(p): Counter() for p in chosen}
        self.kinds = Counter[str]()
        self.report = report
        if report is not None and report.exists():
            for line in report.read_text().splitlines():
                entry = json.loads(line)
                self._count(entry["plant"], entry["program"], entry["what"])

    def _count(self, plant: str, kind: str, what: str) -> None:
        if plant in self.counts:
            word = what if what.startswith(("right", "unmet")) else "WRONG"
            self.counts[plant][word] += 1
            self.kinds[kind] += word != "unmet"

    def add(self, plant: Plant, program: Program, what: str) -> None:
        self._count(str(plant), program.kind, what)
        if not what.startswith(("right", "unmet")):
            print(f"{program.name}, {plant}: {what}", flush=True)
        if self.report is not None and what != "unmet":
            entry = {"plant": str(plant), "program": program.kind, "what": what}
            entry["name"] = program.name
            with self.report.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    def reached(self, plant: Plant) -> int:
        """How many programs had the fault."""
        return sum(n for word, n in self.counts[str(plant)].items() if word != "unmet")

    def show(self) -> int:
        """Print it; how often something was wrong."""
        for name, found in self.counts.items():
            words = ", ".join(f"{v} {k}" for k, v in sorted(found.items()) if k != "unmet")
            print(f"{name:58} {words or 'NOT REACHED'}")
        totals = sum(self.counts.values(), Counter[str]())
        names = ", ".join(sorted(run_by_name_only()))
        print(f"by kind of program: {dict(self.kinds)}")
        print(f"{len(PASSES)} passes are registered; in no pipeline, so run by name only: {names}")
        print(f"{len(self.counts)} faults: {dict(totals)}")
        return totals["WRONG"]


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    words.add_argument("--programs", type=int, default=200)
    words.add_argument("--only", default="", help="faults whose name has this in it")
    words.add_argument("--kind", default="", help="programs of this kind: one device, devices, ...")
    words.add_argument("--minutes", type=float, default=600.0)
    words.add_argument("--most", type=int, default=1 << 30, help="programs that reach each fault")
    words.add_argument("--share", type=float, default=1.0, help="of the faults, for each program")
    words.add_argument("--report", type=Path, help="a line of JSON for each trial; resumed")
    given = words.parse_args()
    chosen = [p for p in plants() if given.only in str(p)]
    table, rng = Table(chosen, given.report), random.Random(0)
    end = time.monotonic() + 60 * given.minutes
    done = 0
    for k, program in enumerate(programs(given.programs)):
        if time.monotonic() > end:
            break
        if given.kind and given.kind != program.kind:
            continue
        done += 1
        for n, plant in enumerate(chosen):
            if time.monotonic() > end or rng.random() > given.share:
                continue
            if table.reached(plant) < given.most and meets(program, plant, k + n):
                table.add(plant, program, outcome(program, plant, k + n))
    print(f"{done} programs")
    return 1 if table.show() else 0


if __name__ == "__main__":
    raise SystemExit(main())
