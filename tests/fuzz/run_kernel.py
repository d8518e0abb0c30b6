"""`python -m tests.fuzz.run_kernel --minutes 10`: random kernels, as machine code and in numpy.

Each is drawn from its seed, so `--seed N --count 1` runs one again. What differs is made smaller
and written to tests/fuzz/found_kernels/, where test_fuzz_kernel.py replays it from then on. The
machine code runs in a child process; a crash is a find too.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from hloom.interp.draw_kernel import DrawnKernel, draw_kernel
from tests.fuzz.check_kernel import NUMERIC, as_text, difference
from tests.fuzz.shrink_kernel import shrunk

FOUND = Path(__file__).parent / "found_kernels"
BATCH = 50
TRIED = Path(tempfile.gettempdir()) / f"hloom_kernel_seed_{os.getpid()}"
"""Holds the seed that is being tried."""


def in_child(work, *arguments, seconds: int = 300) -> str:
    """What a function returns (text) when it runs in a process of its own; a crash is text too,
    and so is taking longer than some seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        signal.alarm(seconds)
        status = 1
        try:
            with os.fdopen(writer, "w") as pipe:
                pipe.write(work(*arguments))
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return text if not status else f"{text}crash: status {status}"


def machine_of(seed: int) -> str:
    """Which machine the code of a seed is for."""
    return NUMERIC[seed % len(NUMERIC)]


def batch(seeds: range) -> str:
    """A line `seed: difference` for the first seed of some that shows one; the seed is written
    before it is tried, so that a crash says where."""
    for seed in seeds:
        TRIED.write_text(str(seed))
        if found := difference(draw_kernel(seed), machine_of(seed)):
            return f"{seed}: {found}"
    return ""


def kind_of(what: str) -> str:
    """What sort of find it is, so that shrinking does not turn one into another."""
    if what.startswith("%"):
        return "wrote" if "wrote byte" in what else "differs"
    return what.split("\n")[0][:60]


def keep(seed: int, what: str) -> Path:
    """Make a find smaller and write it."""
    drawn, where = draw_kernel(seed), machine_of(seed)
    kind = kind_of(what.partition(": ")[2])

    def still(candidate: DrawnKernel) -> bool:
        return kind_of(in_child(difference, candidate, where, seconds=3)) == kind

    small = shrunk(drawn, still)
    line = in_child(difference, small, where).replace("\n", " ")
    text = as_text(small, where, f"seed {seed}: {line}")
    FOUND.mkdir(exist_ok=True)
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = FOUND / f"{name}.kernel"
    path.write_text(text)
    return path


def main() -> int:
    """Fuzz until time or seeds are used up; the exit status says whether something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1000)
    parser.add_argument("--count", type=int, default=1 << 60)
    parser.add_argument("--only-print", action="store_true", help="do not shrink and keep finds")
    parser.add_argument("--finds", type=int, default=10, help="stop after so many")
    options = parser.parse_args()
    seed, last = options.seed, options.seed + options.count
    start = said = time.monotonic()
    found = tried = 0
    while seed < last and found < options.finds:
        stop = min(seed + BATCH, last)
        what = in_child(batch, range(seed, stop))
        if what:
            if what.startswith("crash"):
                at = int(TRIED.read_text())
                what = f"{at}: {what}"
            bad = int(what.partition(":")[0])
            print(f"FOUND {what}", flush=True)
            if not options.only_print:
                print(f"  -> {keep(bad, what)}", flush=True)
            found += 1
            stop = bad + 1
        tried += stop - seed
        seed = stop
        now = time.monotonic()
        if now - said > 20:
            said = now
            print(f"{now - start:5.0f} s: {tried} kernels, {found} finds", flush=True)
        if now - start > 60 * options.minutes:
            break
    print(f"done: {tried} kernels, {found} finds")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
