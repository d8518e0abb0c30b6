"""What the cost model expects of each kernel beside what it takes: `python -m bench.costs [words]`.

Programs of `examples/`, the kernels of `bench.kernels`, and single operations of JAX where it is
installed, each compiled for this machine as `hloom calibrate` measures it (`--device`: as a file
says) and run on one thread, by that thread's clock, so that other work on the machine adds little;
the best of the runs counts. Steps shorter than ten microseconds are left out: calling one from
Python, with nothing of it in the caches, takes some. The error is |predicted - measured| /
measured; in the end its median, for all steps and for each family of kernels, and the steps that
are furthest off.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import hloom
from bench.kernels.loops import leaves
from bench.kernels.programs import PROGRAMS
from hloom.api import host_device
from hloom.compiler import compile_module
from hloom.device.text import show_device
from hloom.executable import Executable
from hloom.runtime import debug
from hloom.tools.calibrate import measured_costs, measured_rates

LEAST_S = 1e-5
ROUNDS = 20
FAR_ELEMENTS = 1 << 24
EXAMPLES = Path(__file__).parent.parent / "examples"


@dataclass(frozen=True)
class Step:
    """A step of a program, in seconds."""

    program: str
    name: str
    family: str
    predicted_s: float
    measured_s: float
    floor_s: float

    @property
    def error(self) -> float:
        return abs(self.predicted_s - self.measured_s) / self.measured_s


def programs(words: list[str]) -> Iterator[tuple[str, str]]:
    """Names and texts."""
    for path in sorted(EXAMPLES.glob("*.hlo")):
        if "partitioned" not in path.name and "sharded" not in path.name:
            yield path.stem, path.read_text()
    for name, text in PROGRAMS.items():
        yield f"kernel {name}", text
    if find_spec("jax") is None:
        return
    from bench.kernels.operations import operations

    for each in operations():
        if not words or any(w in each.name for w in words):
            yield each.name, each.text(each.inputs())


def measured_device(path: Path) -> None:
    """Writes this machine as it is measured, main memory as one core reads and writes it."""
    known = host_device()
    costs = measured_costs(known.costs, ROUNDS, FAR_ELEMENTS)
    device = measured_rates(replace(known, costs=costs), FAR_ELEMENTS, threads=1)
    path.write_text(show_device(device), encoding="utf-8")


def steps_of(program: str, text: str, repeats: int, device: Path) -> list[Step]:
    """The steps of a program that are long enough to be timed one by one."""
    module = hloom.parse(text)
    executable = compile_module(module, threads=1, target=f"cpu:{device}")
    given = [x for a in hloom.random_arguments(module) for x in leaves(a)]
    found = executable.roofline(*given, repeats=repeats)
    return [
        Step(
            program,
            s.thunk.name,
            family(executable, s.thunk),
            s.predicted_s / s.runs,
            s.measured_s / s.runs,
            s.floor_s / s.runs,
        )
        for s in found.steps
        if s.measured_s / s.runs >= LEAST_S
    ]


def family(executable: Executable, thunk: object) -> str:
    """Who wrote the kernel of a step, or which routine it is."""
    symbol = getattr(thunk, "symbol", None)
    culprit = executable.stages.lowering.families.get(symbol or "")
    return culprit.name if culprit is not None else symbol or type(thunk).__name__


def summary(found: list[Step]) -> str:
    """The median error of all, and of each family, the worst last."""
    by_family: dict[str, list[Step]] = {}
    for step in found:
        by_family.setdefault(step.family, []).append(step)
    lines = []
    for name, steps in sorted(by_family.items(), key=lambda row: _median(row[1])):
        ratio = math.exp(statistics.fmean(math.log(s.predicted_s / s.measured_s) for s in steps))
        lines.append(f"{name:28s} {len(steps):4d} steps   median error {_median(steps):6.1%}   "
                     f"predicted / measured {ratio:6.2f}")  # fmt: skip
    lines.append(f"{'all':28s} {len(found):4d} steps   median error {_median(found):6.1%}")
    return "\n".join(lines)


def _median(steps: list[Step]) -> float:
    return statistics.median(s.error for s in steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("words", nargs="*", help="only programs whose names contain one of these")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write all steps here")
    parser.add_argument("--device", type=Path, help="a device's file, instead of measuring")
    parser.add_argument("--worst", type=int, default=20)
    options = parser.parse_args()
    debug.performance = time.thread_time
    found: list[Step] = []
    with TemporaryDirectory() as folder:
        device = options.device or Path(folder) / "here.toml"
        if options.device is None:
            measured_device(device)
        for name, text in programs(options.words):
            if not options.words or any(w in name for w in options.words):
                found += steps_of(name, text, options.repeats, device)
    if not found:
        print("no program of that name has a step long enough to be timed")
        return
    for s in sorted(found, key=lambda s: -abs(math.log(s.predicted_s / s.measured_s)))[
        : options.worst
    ]:
        times = [x * 1e6 for x in (s.predicted_s, s.measured_s, s.floor_s)]
        print(f"{s.program[:36]:36s} {s.name[:28]:28s} {s.family:16s} predicted {times[0]:10.1f} "
              f"measured {times[1]:10.1f} floor {times[2]:10.1f} us")  # fmt: skip
    print(summary(found))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(s) for s in found], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
