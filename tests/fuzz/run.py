"""`python -m tests.fuzz.run --minutes 60`: throw mutants at the readers, keep what breaks them.

Every input that raises anything but an `HloError`, or takes too long, or does not survive a round
trip is written to tests/fuzz/found/, where test_fuzz.py replays it from then on.
"""

import argparse
import hashlib
import random
import sys
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.check import TooSlow, verdict
from tests.fuzz.mutate import mutated_bytes, mutated_message, mutated_text
from tests.fuzz.programs import programs

FOUND = Path(__file__).parent / "found"


def mutants(rng: random.Random):
    """An endless stream of broken programs, text and bytes in turn."""
    from hloom.ir.proto import module_to_bytes
    from hloom.ir.text import parse_module

    texts = programs()
    protos = [module_to_bytes(parse_module(text)) for text in texts]
    while True:
        yield mutated_text(rng.choice(texts), rng)
        yield mutated_message(rng.choice(protos), rng)
        yield mutated_text(rng.choice(texts), rng)
        yield mutated_message(rng.choice(protos), rng)
        yield mutated_bytes(rng.choice(protos), rng)


def keep(given: str | bytes) -> Path:
    """Write an input that broke something; its name is a hash of it."""
    data = given.encode("utf-8", "surrogatepass") if isinstance(given, str) else given
    kind = "hlo" if isinstance(given, str) else "pb"
    path = FOUND / f"{hashlib.sha256(data).hexdigest()[:12]}.{kind}"
    FOUND.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def main() -> int:
    """Fuzz until time is up; the exit status says whether something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"fuzzing for {options.minutes:g} minutes, seed {options.seed}", flush=True)
    verdicts: Counter[str] = Counter()
    found: dict[str, Path] = {}
    start = said = time.monotonic()
    for given in mutants(random.Random(options.seed)):
        try:
            verdicts[verdict(given)] += 1
        except (
            Exception,
            TooSlow,
        ) as error:  # anything at all that is not an HloError is what we look for
            verdicts["broken"] += 1
            where = error.__traceback__
            while where is not None and where.tb_next is not None:
                where = where.tb_next
            code = where.tb_frame.f_code if where else None
            key = f"{type(error).__name__} in {code.co_qualname if code else '?'}"
            if key not in found:
                found[key] = keep(given)
                print(f"FOUND {key}: {str(error)[:200]} -> {found[key]}", flush=True)
        now = time.monotonic()
        if now - said > 15:
            said = now
            print(f"{now - start:5.0f} s: {dict(verdicts)}", flush=True)
        if now - start > 60 * options.minutes:
            break
    print(f"done: {dict(verdicts)}; {len(found)} different failures")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
