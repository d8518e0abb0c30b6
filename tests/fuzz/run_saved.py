"""`python -m tests.fuzz.run_saved --count 100000`: damaged saved programs, for both loaders.

Each of the forms gets `--count` programs with one changed byte, every one of which must be
refused, and a quarter as many with right checksums of wrong things, which may do anything but
crash. With `--seed` it is the same again. `make sanitize` runs this on a library built with
AddressSanitizer and UndefinedBehaviorSanitizer.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import sys
import time

from tests.fuzz.check_saved import FORMS, changes, is_refused, resealed


def changed_bytes(form: str, count: int, seed: int) -> list[int]:
    """Positions, by the order in which they were drawn, of changes that nobody refused."""
    make, load = FORMS[form]
    rng = random.Random(seed)
    streams = [changes(data, rng) for data in make()]
    for data in make():
        load(data)  # unharmed, it is taken
    return [k for k in range(count) if not is_refused(load, next(streams[k % len(streams)]))]


def wrong_under_right_sums(form: str, count: int, seed: int) -> tuple[int, int]:
    """How many were taken, and how many refused."""
    make, load = FORMS[form]
    rng = random.Random(seed)
    refused = sum(is_refused(load, resealed(rng.choice(make()), rng)) for _ in range(count))
    return count - refused, refused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="changed bytes of each form")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--form", choices=sorted(FORMS), action="append")
    options = parser.parse_args()
    faulthandler.enable()
    failures = 0
    for form in options.form or sorted(FORMS):
        began = time.perf_counter()
        missed = changed_bytes(form, options.count, options.seed)
        taken, refused = wrong_under_right_sums(form, options.count // 4, options.seed)
        failures += len(missed)
        print(
            f"{form}: {options.count} changed bytes, {len(missed)} not refused {missed[:5]}; "
            f"resealed: {taken} taken, {refused} refused; {time.perf_counter() - began:.0f} s",
            flush=True,
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
