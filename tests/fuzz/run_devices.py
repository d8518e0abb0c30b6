"""`python -m tests.fuzz.run_devices --minutes 10`: programs of several devices, against lockstep.

Every program is drawn from one number, so `--seed N --count 1` tries one again: an even number is
a program of many steps, an odd one of a single collective. Results have the bits of lockstep; where
passes make one collective of several, whose sums are in another order, they have them without these
passes, and differ by rounding with them. What differs is written to a file in the
folder of temporary files, and the number printed. Behind `mpirun -n 2` the devices are in two
processes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hloom.base.diagnostics import HloError
from hloom.base.options import Options
from hloom.compiler import compile_module
from hloom.executable import Executable
from hloom.interp import evaluate_lockstep
from hloom.interp.sample import random_arguments
from hloom.ir.text import parse_module
from hloom.ir.verify import verify
from hloom.runtime.communicator.processes import Processes, launcher
from hloom.types.literal import Literal
from tests.fuzz.check_native import Trial, coarsest_of, different
from tests.fuzz.programs_collectives import CollectiveProgram
from tests.fuzz.programs_devices import DeviceProgram

REORDERING = (
    *("all-reduce-folder", "all-reduce-reassociate", "all-reduce-splitter"),
    *("reduce-scatter-creator", "reduce-scatter-reassociate", "while-loop-all-reduce-code-motion"),
)
"""Passes after which sums of several devices are added up in another order."""
EXACT = Options({"allow_excess_precision": False})


def arrays(value: Any) -> list[np.ndarray]:
    """The arrays of a nested result."""
    if isinstance(value, tuple):
        return [x for part in value for x in arrays(part)]
    return [] if value is None else [np.asarray(value)]


def text_of(seed: int) -> str:
    """The program of a number."""
    return CollectiveProgram(seed).text() if seed % 2 else DeviceProgram(seed // 2).text()


def check(seed: int) -> str:
    """`same`, `refused` (the verifier does not take the program), or what differs."""
    return check_text(text_of(seed), seed)


def check_text(text: str, seed: int = 0) -> str:
    """The same of a program as it is written, on arguments of a seed."""
    try:
        module = parse_module(text)
        verify(module)
    except HloError:
        return "refused"
    count = module.replica_count * module.num_partitions
    given = [random_arguments(module, 100 * seed + d) for d in range(count)]
    wanted = evaluate_lockstep(module, given)
    exe = compile_module(module, None, EXACT, cached=False)
    forms: list[tuple[Executable, Comparison]] = [(exe, _same_bits)]
    if any(r.changed and r.name in REORDERING for r in exe.pass_records):
        plain = EXACT.with_(disable_hlo_passes=REORDERING)
        judge = Trial(), coarsest_of(module)
        forms = [
            (compile_module(module, None, plain, cached=False), _same_bits),
            (exe, lambda a, b: not different(a, b, *judge)),
        ]
    for exe, compare in forms:
        if launcher(os.environ)[1] > 1:
            processes = Processes.mpi()
            if count % processes.size:
                return "refused"
            exe.processes = processes
        said = _compared(exe, given, wanted, compare)
        if said:
            return f"seed {seed}: {said}"
    return "same"


Comparison = Callable[[np.ndarray, Literal], bool]


def _same_bits(a: np.ndarray, wanted: Literal) -> bool:
    return _equal(a, wanted.array)


def _compared(exe: Executable, given: list[Any], wanted: list[Literal], compare: Comparison) -> str:
    """What differs in one of two runs; '' if nothing does."""
    own = exe.own_part
    for turn in range(2):
        results = exe.run_devices(given[own.start : own.stop])
        for device, x, y in zip(own, results, wanted[own.start : own.stop], strict=True):
            expected = [leaf for leaf in y.leaves() if leaf.shape.is_array]
            for k, (a, b) in enumerate(zip(arrays(x), expected, strict=True)):
                if a.shape != b.array.shape or not compare(a, b):
                    return f"result {k} of device {device} differs in run {turn}"
    return ""


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Bit by bit; any NaN equals any other, of which payloads say nothing."""
    if a.tobytes() == b.tobytes():
        return True
    nan = (a != a) & (b != b)
    return bool(np.all(nan | (a == b)))


def _is_before(end: float) -> bool:
    """Whether there is time left, which of several processes the first one says: else one would
    wait for another that has stopped."""
    is_left = time.monotonic() < end
    if launcher(os.environ)[1] < 2:
        return is_left
    processes = Processes.mpi()
    if processes.rank:
        return processes.receive(0, 600.0) == b"on"
    for other in range(1, processes.size):
        processes.send(other, b"on" if is_left else b"off")
    return is_left


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1 << 60)
    options = parser.parse_args()
    end, tried, wrong = time.monotonic() + 60 * options.minutes, 0, 0
    while tried < options.count and _is_before(end):
        seed = options.seed + tried
        try:
            said = check(seed)
        except Exception as error:
            said = f"seed {seed}: {type(error).__name__}: {error}"
        tried += 1
        if said not in ("same", "refused"):
            wrong += 1
            path = Path(tempfile.gettempdir()) / f"hloom_devices_{seed}.hlo"
            path.write_text(text_of(seed))
            print(f"{said}\n  {path}", flush=True)
    print(f"{tried} programs, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
