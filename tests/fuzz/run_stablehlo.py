"""Drawn programs of every StableHLO operation against the interpreter and XLA:CPU.

python -m tests.fuzz.run_stablehlo --minutes 10 --first 0 [--only slice,pad]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.fuzz.check_native import Trial
from tests.fuzz.check_stablehlo import check
from tests.fuzz.stablehlo.families import FAMILIES, ROOMS, drawn
from tests.fuzz.stablehlo.xla_worker import Xla

ARGUMENTS = ("normal", "integral", "special")


def trial_of(name: str, seed: int) -> Trial:
    """Infinities and the like only where one element makes one element."""
    kinds = 3 if ROOMS[name] in ("elementwise", "data") else 2
    return Trial(ARGUMENTS[seed % kinds], seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=10**9, help="seeds of each family")
    parser.add_argument("--only", default="", help="families, separated by commas")
    parser.add_argument("--python", default=sys.executable, help="whose jaxlib is asked")
    parser.add_argument("--verbose", action="store_true", help="say why programs are refused")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(FAMILIES)
    end, xla = time.monotonic() + 60 * options.minutes, Xla(options.python)
    said: Counter[str] = Counter()
    seed = options.first
    while seed < options.first + options.count and time.monotonic() < end:
        for name in names:
            program = drawn(name, seed)
            answer = check(program, trial_of(name, seed), xla)
            said[answer.what] += 1
            if answer.is_fault or (options.verbose and answer.what != "same"):
                print(f"{program.name}: {answer.what}: {answer.why}", flush=True)
            if time.monotonic() >= end:
                break
        seed += 1
    xla.stop()
    for what, times in said.most_common():
        print(times, what)
    sys.exit(any(what.startswith("fault") for what in said))


if __name__ == "__main__":
    main()
