"""`python -m tests.fuzz.run_runtime_library --count 1000000`: damaged programs for libhloom_rt.

The embeddable runtime is compiled with AddressSanitizer and UndefinedBehaviorSanitizer (`--plain`:
as users have it), and handed saved programs by its C functions: with one changed byte, which it
must refuse, and with right checksums of wrong things, which it may take or refuse, but not crash.
"""

from __future__ import annotations

import argparse
import os
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from hloom.aot.link import RUNTIME, compiler
from hloom.aot.runtime_library import FLAGS, LIBRARY, archived, sources
from tests.fuzz.check_saved import calling_programs, changes, resealed

MAIN = Path(__file__).parents[1] / "aot" / "damaged.c"
SANITIZED = (
    "-fsanitize=address,undefined",
    "-fno-sanitize=vptr",
    "-fno-sanitize-recover=undefined",
)
LINK = ("-lstdc++", "-lm", "-pthread")
BATCH = 200
TAKEN, REFUSED = "t", "r"


def built(folder: Path, sanitize: bool) -> Path:
    """The program that loads what is damaged."""
    words = compiler(LIBRARY)
    extra = (*SANITIZED, "-O0", "-g1") if sanitize else ()
    flags = [f for f in FLAGS if f != "-O3" or not sanitize]

    def compiled(source: Path) -> Path:
        out = folder / f"{source.stem}.o"
        subprocess.run(
            [*words, *flags, *extra, f"-I{RUNTIME}", "-c", str(source), "-o", str(out)], check=True
        )
        return out

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compiled, sources()))
    return driver(archived(objects, folder), folder / "damaged", extra)


def driver(library: Path, out: Path, extra: Iterable[str] = ()) -> Path:
    """The same, where the library is there."""
    words = [*compiler(LIBRARY), *extra, f"-I{RUNTIME}", str(MAIN), str(library)]
    subprocess.run([*words, *LINK, "-o", str(out)], check=True)
    return out


def answers(program: Path, cases: Iterable[bytes]) -> str:
    """A letter for each case; raises `AssertionError` with its words where the program crashes."""
    data = b"".join([struct.pack("<Q", len(case)) + case for case in cases])
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(
        [str(program)], input=data, capture_output=True, timeout=600, env=environment
    )
    words = done.stderr.decode(errors="replace")
    assert done.returncode == 0, f"exit {done.returncode}: {words[:4000]}"
    return done.stdout.decode()


def one_byte(rng: random.Random) -> Iterator[bytes]:
    """Programs with one changed byte each, without end."""
    streams = [changes(data, rng) for data in calling_programs()]
    while True:
        yield next(rng.choice(streams))


def wrong_things(rng: random.Random) -> Iterator[bytes]:
    """Programs with something else in them, and the right checksums of that."""
    while True:
        yield resealed(rng.choice(calling_programs()), rng)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="changed bytes, at least")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="without sanitizers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = built(Path(folder), not options.plain)
        assert answers(program, calling_programs()) == TAKEN * len(calling_programs())
        rng = random.Random(options.seed)
        plain, wrong = one_byte(rng), wrong_things(rng)
        changed = missed = taken = refused = 0
        while changed < options.count:
            found = answers(program, islice(plain, BATCH))
            changed, missed = changed + len(found), missed + found.count(TAKEN)
            found = answers(program, islice(wrong, BATCH // 4))
            taken, refused = taken + found.count(TAKEN), refused + found.count(REFUSED)
    print(
        f"{changed} changed bytes, {missed} not refused; resealed: {taken} taken, {refused} refused"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
