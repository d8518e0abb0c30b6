"""`python -m tests.fuzz.sweep_sizes --minutes 40`: every kernel family at every length, guarded.

Lengths are 1 to 300 and those around multiples of the family's blocks and steps, each as machine
code with 1, 2 and 4 threads against the interpreter. They are tried in a mixed order, so that a
sweep that is cut off has seen a part of every family (all of it takes over an hour on one core;
`--part 1/4` is for several). Processes of their own try 30 cases each: what a guard says of a
fault, and in which case, is told, and the sweep goes on behind it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hloom.base.guarding import GUARDING
from hloom.base.options import Options
from hloom.codegen.walk import block_elements
from hloom.executable import Executable
from hloom.interp import evaluate
from hloom.ir.copy import copy_module
from hloom.ir.text import parse_module
from hloom.ir.verify import verify
from hloom.targets.cpu.device import host_device
from hloom.targets.cpu.options import cpu_target
from tests.fuzz.check_native import (
    Trial,
    arguments_of,
    coarsest_of,
    different,
    leaves,
    literal_leaves,
)
from tests.fuzz.run_native import again_under_guard, guard_words, quietly
from tests.fuzz.size_families import families, names

LENGTHS = 300
AROUND = 40
TIMES = (1, 2, 3)
THREADS = (1, 2, 4)
CHUNK, SECONDS = 30, 240
WRITTEN_FOR = 4096
"""Elements of a block where the multiples of families are exact."""


class Case(NamedTuple):
    """A family at a length."""

    family: str
    length: int

    def __str__(self) -> str:
        return f"{self.family}:{self.length}"


def lengths_of(family: str) -> list[int]:
    """The lengths at which a family is tried."""
    _, multiples, most = families()[family]
    lengths = set(range(1, LENGTHS + 1))
    # Blocks follow the nearest memory; the multiples are written for 32 KiB of it.
    block = block_elements(host_device())
    for multiple in {m * size // WRITTEN_FOR for m in multiples for size in (block, WRITTEN_FOR)}:
        for k in TIMES:
            lengths.update(range(k * multiple - AROUND, k * multiple + AROUND + 1))
    return sorted(n for n in lengths if 1 <= n <= most)


def cases(chosen: Sequence[str], seed: int) -> list[Case]:
    """All cases, mixed."""
    found = [Case(family, n) for family in chosen for n in lengths_of(family)]
    random.Random(seed).shuffle(found)
    return found


def trouble(case: Case, counts: Sequence[int] = THREADS) -> str:
    """What is wrong with a case; empty if nothing is."""
    module = parse_module(families()[case.family].text(case.length))
    verify(module)
    trial = Trial("integral", case.length)
    arguments = arguments_of(module, trial)
    with np.errstate(all="ignore"):
        wanted = literal_leaves(evaluate(module, *arguments))
        stages = cpu_target(Options()).compile(copy_module(module))
        given = [leaf.array for a in arguments for leaf in literal_leaves(a)]
        first: list[bytes] = []
        for threads in counts:
            made = [np.array(x.numpy()) for x in leaves(Executable(stages, threads)(*given))]
            for k, (got, want) in enumerate(zip(made, wanted, strict=True)):
                if what := different(got, want, trial, coarsest_of(module)):
                    return f"{threads} threads, result {k} {want.shape.text_without_layout}: {what}"
            found = [x.tobytes() for x in made]
            if first and found != first:
                return f"{threads} threads give other bits than 1"
            first = found
    return ""


def tell(case: Case) -> str:
    """A line on a case."""
    try:
        return trouble(case) or "ok"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}".replace("\n", " ")


def in_child(chunk: Sequence[Case], said: int) -> str:
    """What a process of its own wrote: a case and a tab as it begins one, then what is said."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        quietly(said)
        signal.alarm(SECONDS)
        for case in chunk:
            os.write(writer, f"{case}\t".encode())
            os.write(writer, f"{tell(case)}\n".encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, errors="replace") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        text += signal.Signals(os.WTERMSIG(status)).name
    return text


def tried(chunk: Sequence[Case]) -> Iterator[tuple[Case, str]]:
    """Each case and what is said of it; what comes behind a fault is tried in another process."""
    left = list(chunk)
    while left:
        with tempfile.TemporaryFile() as said:
            lines = in_child(left, said.fileno()).rstrip("\n").split("\n")
            words = guard_words(said)
        for line in lines:
            what = line.partition("\t")[2]
            yield left.pop(0), f"{what} {words}" if what.startswith("SIG") else what


def warm_up() -> None:
    """So that children find everything imported; no thread is started, which a fork would lose."""
    for family in ("softmax last", "dot rows f32", "convolution along", "sort pairs"):
        trouble(Case(family, 20), (1,))


def main() -> int:
    """Sweep until all is tried or time is up; the exit status says whether something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=0, help="of the order")
    parser.add_argument("--part", default="1/1", help="2/3: the second of three parts")
    parser.add_argument("--families", default="", help="only those whose names have this word")
    parser.add_argument("--cases", default="", help="family:length, by semicolons")
    options = parser.parse_args()
    if not GUARDING:
        again_under_guard("tests.fuzz.sweep_sizes")
    chosen = [name for name in names() if options.families in name]
    part, parts = map(int, options.part.split("/"))
    todo = cases(chosen, options.seed)[part - 1 :: parts]
    if options.cases:
        named = [text.rpartition(":") for text in options.cases.split(";")]
        todo = [Case(family, int(length)) for family, _, length in named]
    warm_up()
    start = said = time.monotonic()
    verdicts: Counter[str] = Counter()
    done = 0
    while done < len(todo) and time.monotonic() - start < 60 * options.minutes:
        for case, what in tried(todo[done : done + CHUNK]):
            verdicts["ok" if what == "ok" else case.family] += 1
            if what != "ok":
                print(f"FOUND {case}: {what}", flush=True)
        done += CHUNK
        if time.monotonic() - said > 60:
            said = time.monotonic()
            print(f"{said - start:5.0f} s: {min(done, len(todo))} of {len(todo)}", flush=True)
    wrong = verdicts.total() - verdicts["ok"]
    print(f"done: {verdicts.total()} of {len(todo)} cases of {len(chosen)} families, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
