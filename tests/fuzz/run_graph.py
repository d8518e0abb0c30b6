"""`python -m tests.fuzz.run_graph --minutes 60`: break graphs, and look whether anything crashes.

Every mutant is made from one number, so `--only 1234` replays what the run said. What was found
is kept as a small test in tests/fuzz/test_fuzz_graph.py or beside the code it broke.
"""

import argparse
import faulthandler
import random
import resource
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from hloom.base.diagnostics import HloError
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.text import parse_module
from tests.fuzz.check import TooSlow
from tests.fuzz.check_graph import Broken, graph_verdict
from tests.fuzz.mutate_graph import mutate
from tests.fuzz.programs import programs
from tests.fuzz.programs_graph import HAND_MADE

ADDRESS_SPACE_BYTES = 5 << 30
STUCK_S = 240


def mutant(number: int) -> tuple[Module, list[str]]:
    """The broken graph of a number, and what was done to it."""
    from hloom.interp import draw_instance

    rng = random.Random(number)
    kind = rng.random()
    if kind < 0.55:
        opcode = rng.choice(sorted(OPS))
        module, what = draw_instance(opcode, rng.randrange(10_000)), opcode
    elif kind < 0.85:
        name = rng.choice(sorted(HAND_MADE))
        module, what = copy_module(_parsed(HAND_MADE[name])), name
    else:
        at = rng.randrange(len(programs()))
        module, what = copy_module(_parsed(programs()[at])), f"program {at}"
    return module, [what, *mutate(module, rng)]


_READ: dict[str, Module] = {}


def _parsed(text: str) -> Module:
    if text not in _READ:
        _READ[text] = parse_module(text)
    return _READ[text]


def place(error: BaseException) -> str:
    """The innermost function of hloom that an error came through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/hloom/" in f.filename]
    where = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(where.filename).name}:{where.lineno} {where.name}"


def main() -> int:
    """Fuzz until time is up; the exit status says whether something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1000)
    parser.add_argument("--only", type=int, help="replay one mutant")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    if options.only is not None:
        module, made = mutant(options.only)
        print(made)
        try:
            print(module)
        except Exception as error:
            print(f"cannot be shown: {error!r}")
        print(graph_verdict(module))
        return 0
    print(f"fuzzing for {options.minutes:g} minutes, seed {options.seed}", flush=True)
    verdicts: Counter[str] = Counter()
    found: dict[str, int] = {}
    start = said = time.monotonic()
    number = options.seed
    while time.monotonic() - start < 60 * options.minutes:
        number += 1
        faulthandler.dump_traceback_later(STUCK_S, exit=True)
        made: list[str] = []
        began = time.monotonic()
        try:
            module, made = mutant(number)
            verdicts[graph_verdict(module)] += 1
        except (Exception, TooSlow) as error:  # whatever is not an HloError is what we look for
            verdicts["broken"] += 1
            message = str(error)[:24] if isinstance(error, Broken | HloError) else ""
            key = f"{type(error).__name__} {place(error)} {message}"
            found[key] = found.get(key, 0) + 1
            if found[key] == 1:
                print(f"FOUND --only {number} {made} {key}: {str(error)[:300]}", flush=True)
        if time.monotonic() - began > 3:
            print(f"SLOW --only {number} {made}: {time.monotonic() - began:.1f} s", flush=True)
        if time.monotonic() - said > 30:
            said = time.monotonic()
            print(f"{said - start:5.0f} s: {dict(verdicts)}", flush=True)
    print(f"done: {dict(verdicts)}; {len(found)} different failures")
    for key, count in sorted(found.items(), key=lambda item: -item[1]):
        print(f"{count:5} {key}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
