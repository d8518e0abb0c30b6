"""`python -m tests.fuzz.run_native --minutes 60`: machine code against the interpreter.

Every program is drawn from one number, so `--seed N --count 1` tries one again. What differs, or
crashes, is made smaller and written to tests/fuzz/found_native/, where test_fuzz_native.py replays
it from then on. Programs run in child processes, under guard (HLOOM_GUARD=0 does without).
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import IO, NoReturn

import numpy as np

from hloom.base.diagnostics import HloError
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.text import parse_module
from hloom.ir.verify import verify
from hloom.passes import PASSES
from hloom.runtime.library import library
from tests.fuzz.check_native import NotJudged, Trial, as_text, difference, simpler_trials
from tests.fuzz.mutate_graph import mutate
from tests.fuzz.programs import programs
from tests.fuzz.programs_graph import HAND_MADE
from tests.fuzz.programs_native import drawn_program, drawn_single, single, with_odd_layouts
from tests.fuzz.shrink_native import shrunk
from tests.fuzz.sketch_chain import drawn_chain
from tests.fuzz.vary_native import varied

FOUND = Path(__file__).parent / "found_native"
BATCH = 25
SECONDS = 60
"""What one program may take."""
MOST_PROGRAM_BYTES = 1 << 22
TRIED = Path(tempfile.gettempdir()) / f"hloom_native_seed_{os.getpid()}"
"""Holds the number that is being tried."""
GUARDED = {"HLOOM_GUARD": "1", "HLOOM_CACHE": "0", "HLOOM_STRICT": "1"}
KINDS = (("single", 0.3), ("program", 0.33), ("chain", 0.27), ("mutant", 0.1))


def drawn(number: int, opcodes: tuple[str, ...] = ()) -> tuple[Module, Trial]:
    """The program of a number and how it is tried; raises `HloError` for one that is not valid."""
    rng = random.Random(number)
    kind = rng.choices([k for k, _ in KINDS], [w for _, w in KINDS])[0]
    if opcodes:
        kind = "single"
    arguments = rng.choice(("integral", "integral", "normal"))
    if kind == "single":
        module = drawn_single(number, rng.choice(opcodes or single()))
        arguments = rng.choice(("normal", "normal", "special"))
        if not _takes_special(module):
            arguments = "normal"
    elif kind == "program":
        module = drawn_program(number, arguments == "integral")
    elif kind == "chain":
        arguments, module = "integral", drawn_chain(number)
    else:
        module = _mutant(rng)
    if rng.random() < 0.3:
        other = varied(module, rng)
        try:
            verify(other)
            module = other
        except HloError:
            pass  # a change that this program does not admit
    if rng.random() < 0.4:
        odd = copy_module(module)
        with_odd_layouts(odd, np.random.default_rng(number), rng.choice((0.2, 0.7)))
        try:
            verify(odd)
            module = odd
        except HloError:
            pass  # some operations do not admit other layouts
    trial = Trial(
        arguments,
        rng.randrange(4),
        rng.choice(("host", "host", "host", "avx2", "avx", "sse")),
        rng.choice((1, 1, 2, 4)),
        rng.random() < 0.3 and arguments == "normal" and kind == "single",
        rng.choice(_passes()) if rng.random() < 0.15 else "",
        rng.random() < 0.06,
        rng.random() < 0.2,
    )
    return module, trial


@cache
def _passes() -> list[str]:
    """All passes, each of which a user may leave out."""
    return sorted(PASSES)


_MOVES = frozenset(
    "reverse broadcast concatenate copy reshape slice transpose pad dynamic-slice "
    "dynamic-update-slice gather select compare abs negate sign maximum minimum add subtract "
    "multiply divide is-finite floor ceil round-nearest-even round-nearest-afz convert clamp tuple "
    "get-tuple-element sort topk and or xor not popcnt count-leading-zeros shift-left "
    "shift-right-logical shift-right-arithmetic remainder mulhi exponential log tanh logistic "
    "sqrt rsqrt cbrt sine cosine tan erf power atan2 exponential-minus-one log-plus-one "
    "reduce-precision bitcast-convert opt-barrier while conditional call fusion map".split()
)


def _takes_special(module: Module) -> bool:
    inner = ("parameter", "constant", "tuple", "get-tuple-element", "broadcast")
    if any(i.opcode == "sort" for i in module.entry.instructions):
        # Without a total order NaN leaves the result of a sort open.
        return all(
            i.attrs.type == "TOTALORDER" for i in module.instructions() if i.opcode == "compare"
        )
    if any(i.opcode == "power" and i.shape.dtype.is_complex for i in module.entry.instructions):
        return False  # numbers that turn 1e19 times and more, of whose angle no digit is known
    return all(i.opcode in _MOVES or i.opcode in inner for i in module.entry.instructions)


def _mutant(rng: random.Random) -> Module:
    """A program written by hand, or one of the tests', often with a change that leaves it valid."""
    texts = list(HAND_MADE.values()) + programs()
    module = parse_module(rng.choice(texts))
    if rng.random() < 0.75:
        mutate(module, rng)
    verify(module)
    return module


NOT_TRIED = frozenset("custom-call rng infeed outfeed send recv domain ragged-all-to-all".split())


def is_tried(module: Module) -> bool:
    """Whether the interpreter and one machine can run it: one device, no huge arrays, no calls
    out, results that are the same every time."""
    if module.replica_count * module.num_partitions > 1:
        return False
    for i in module.instructions():
        if i.opcode in NOT_TRIED:
            return False
        for leaf in i.shape.leaves():
            if not leaf.is_array and not leaf.is_token:
                return False
            if leaf.is_array and (leaf.size > MOST_PROGRAM_BYTES or leaf.is_unbounded):
                return False
    return True


def attempt(number: int, opcodes: tuple[str, ...] = ()) -> str:
    """A verdict on one number: `ok`, `not valid`, `not judged`, or what is wrong."""
    try:
        module, trial = drawn(number, opcodes)
        verify(module)
    except (HloError, RecursionError):
        return "not valid"
    except Exception as error:
        # Mutation breaks graphs for good; the drawer's own bugs must be seen.
        return f"draw: {type(error).__name__}: {str(error)[:200]}"
    if not is_tried(module):
        return "not tried"
    signal.alarm(SECONDS)
    try:
        return difference(module, trial) or "ok"
    except NotJudged:
        return "not judged"
    finally:
        signal.alarm(0)


def batch(numbers: range, opcodes: tuple[str, ...] = ()) -> str:
    """A line `number<tab>verdict` for each of some; the number is written before it is tried, so
    that a crash says where."""
    lines = []
    for number in numbers:
        TRIED.write_text(f"{number} " + "|".join(lines))
        lines.append(f"{number}\t{attempt(number, opcodes)}".replace("|", "/").replace("\n", " "))
    return "\n".join(lines)


def in_child(work: Callable[..., str], *arguments: object, seconds: int = 300) -> str:
    """What a function returns when it runs in a process of its own; a crash is text too."""
    with tempfile.TemporaryFile() as said:
        text = _in_child(work, arguments, seconds, said.fileno())
        return f"{text} {guard_words(said)}".strip() if text.startswith("crash") else text


def quietly(said: int) -> None:
    """What this process says from here on goes to a file; a guard's words too."""
    os.dup2(said, 2)
    faulthandler.enable(said)  # disabling it would take the handler of the guard away
    library().hl_guard_report_to(said)


LAST_WORDS = (
    *("HLOOM_GUARD", "free()", "munmap_chunk()", "realloc()", "malloc", "corrupted"),
    *("double free", "corruption", "Fatal glibc"),
)
"""How lines begin in which a guard, or glibc's malloc, tells of a fault."""


def guard_words(said: IO[bytes]) -> str:
    """The lines that tell of a fault, of all that a process said, and what it was about to do."""
    said.seek(0)
    lines = said.read().decode(errors="replace").split("\n")
    phases = [line for line in lines if line.startswith("PHASE")][-1:]
    return " ".join(phases + [line for line in lines if line.startswith(LAST_WORDS)])


def _in_child(
    work: Callable[..., str], arguments: tuple[object, ...], seconds: int, said: int
) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        quietly(said)
        signal.alarm(seconds)
        status = 1
        try:
            with os.fdopen(writer, "w") as pipe:
                pipe.write(work(*arguments))
            status = 0
        except BaseException as error:
            os.write(1, f"child: {error!r}\n".encode())
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"crash: {signal.Signals(os.WTERMSIG(status)).name}"
    return f"crash: exit {os.WEXITSTATUS(status)}" if status else text


def kind_of(what: str) -> str:
    """What sort of find it is: numbers and names left out, so that equal ones are told apart from
    new ones and shrinking does not turn one into another."""
    if what.startswith("result"):
        shape = re.search(r"\s(\w+)\[", what)
        return f"differs {shape[1] if shape else ''}"
    what = re.sub(r"HLOOM_GUARD: \S+", "HLOOM_GUARD: #", what)  # the kernel
    what = re.sub(r"%[\w.\-]+|main/[\w.\-]+|\b[\w.\-]+: (?=[a-z\-]+ has no)", "#", what)
    return re.sub(r"\d+", "#", what)[:70]


def tried(module: Module, trial: Trial) -> str:
    """A difference, or '' when there is none or nobody can say."""
    try:
        verify(module)
        return difference(module, trial)
    except (HloError, NotJudged):
        return ""


def keep(
    module: Module, trial: Trial, what: str, tried: Callable[[Module, Trial], str] = tried
) -> Path:
    """Make a find smaller and write it; `tried` says what is wrong with a candidate."""
    kind = kind_of(what).split(" ")[0] if what.startswith("result") else kind_of(what)

    def still(candidate: Module, how: Trial = trial) -> bool:
        found = in_child(tried, candidate, how, seconds=SECONDS)
        return bool(found) and kind_of(found).startswith(kind)

    for simpler in simpler_trials(trial):
        if still(module, simpler):
            trial = simpler
            break
    small = shrunk(module, lambda m: still(m, trial))
    line = in_child(tried, small, trial, seconds=SECONDS).replace("\n", " ")
    text = as_text(small, trial, line or what)
    FOUND.mkdir(exist_ok=True)
    path = FOUND / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.hlo"
    path.write_text(text)
    return path


def again_under_guard(module: str) -> NoReturn:
    """Run this program anew, under guard and strict: the native side looks once, when loaded."""
    again = [sys.executable, "-m", module, *sys.argv[1:]]
    os.execve(sys.executable, again, {**os.environ, **GUARDED})


FINE = ("ok", "not valid", "not judged", "not tried")


def main() -> int:
    """Fuzz until time or numbers are used up; the exit status says whether something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1000)
    parser.add_argument("--count", type=int, default=1 << 60)
    parser.add_argument("--only-print", action="store_true", help="do not shrink and keep finds")
    parser.add_argument("--each", type=int, default=3, help="differences to show of each kind")
    parser.add_argument("--ops", default="", help="single operations of these opcodes, by commas")
    options = parser.parse_args()
    if "HLOOM_GUARD" not in os.environ:
        again_under_guard("tests.fuzz.run_native")
    opcodes = tuple(filter(None, options.ops.split(",")))
    seed, last = options.seed, options.seed + options.count
    start = said = time.monotonic()
    verdicts: Counter[str] = Counter()
    found: Counter[str] = Counter()
    single()
    while seed < last and time.monotonic() - start < 60 * options.minutes:
        stop = min(seed + BATCH, last)
        text = in_child(batch, range(seed, stop), opcodes, seconds=BATCH * SECONDS)
        if text.startswith("crash"):
            number, _, before = TRIED.read_text().partition(" ")
            text = "\n".join(filter(None, [*before.split("|"), f"{number}\t{text}"]))
            stop = int(number) + 1
        for line in text.split("\n"):
            number, _, what = line.partition("\t")
            verdicts[what if what in FINE else "found"] += 1
            if what in FINE:
                continue
            kind = kind_of(what)
            found[kind] += 1
            if found[kind] > (options.each if what.startswith("result") else 1):
                continue
            print(f"FOUND --seed {number} --count 1: {what}", flush=True)
            if not options.only_print and not what.startswith(("draw", "refused: Unsupp")):
                print(f"  -> {keep(*drawn(int(number), opcodes), what)}", flush=True)
        seed = stop
        if time.monotonic() - said > 30:
            said = time.monotonic()
            print(f"{said - start:5.0f} s: {dict(verdicts)}", flush=True)
    print(f"done: {dict(verdicts)}; {len(found)} kinds of finds")
    for kind, count in found.most_common():
        print(f"{count:5} {kind}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
