"""One opcode with one type changed: does what the verifier admits mean one thing?

Every value of a drawn instance, in its entry and in what it calls, gets another element type, one
at a time (and a called computation all its types at once). What still verifies must compute the
same in the interpreter and as machine code.

`python -m tests.fuzz.mixed_types --draws 3` tries all opcodes; `--ops add,reduce` some.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hloom.base.diagnostics import HloError
from hloom.interp import draw_instance
from hloom.ir.module import Module
from hloom.ir.text import parse_module, show_module
from hloom.ir.verify import verify
from hloom.types.dtype import BY_NAME, DType
from hloom.types.shape import Shape, tuple_shape
from tests.fuzz.check_native import NotJudged, Trial, as_text, compiled, difference
from tests.fuzz.programs_native import single
from tests.fuzz.run_native import in_child, is_tried

FLOATS = tuple(BY_NAME[n] for n in "f32 bf16 f64 f16 f8e4m3fn".split())
OTHERS = tuple(BY_NAME[n] for n in "s32 s8 u32 s64 s4 pred c64 c128".split())
SECONDS = 30
"""What one variation may take."""
DRAWS = 30
"""How many instances are looked at for one with floats."""


def variations(module: Module, seed: int) -> Iterator[tuple[str, Module]]:
    """The valid modules that differ from this one in one element type, each with what changed."""
    rng = random.Random(seed)
    text = show_module(module)
    order = [i for c in module.computations for i in c.instructions]
    for number, i in enumerate(order):
        for place, old in enumerate(i.shape.leaves()):
            if not old.is_array:
                continue
            for new in _other_types(old.dtype, rng):
                label = f"{i.opcode} %{i.name} leaf {place}: {old.dtype} -> {new}"
                yield from _valid(label, _changed(text, [(number, place)], new))
    for c in module.computations:
        if c.is_entry:
            continue
        for old in {leaf.dtype for i in c.instructions for leaf in i.shape.leaves()}:
            places = [
                (number, place)
                for number, i in enumerate(order)
                if i.parent is c
                for place, leaf in enumerate(i.shape.leaves())
                if leaf.is_array and leaf.dtype is old
            ]
            if not places:
                continue
            for new in _other_types(old, rng):
                label = f"all of %{c.name}: {old} -> {new}"
                yield from _valid(label, _changed(text, places, new))


def _other_types(old: DType, rng: random.Random) -> list[DType]:
    """Types to put in place of one: most for floats, which may be mixed."""
    if not old.is_floating:
        return rng.sample([t for t in OTHERS if t is not old] + [FLOATS[0]], 3)
    floats = [t for t in FLOATS if t is not old]
    return [*rng.sample(floats, 2), rng.choice(OTHERS)]


def _changed(text: str, places: list[tuple[int, int]], new: DType) -> Module:
    """The module with another element type at these leaves of these instructions."""
    module = parse_module(text)
    order = [i for c in module.computations for i in c.instructions]
    for number, place in places:
        i = order[number]
        i.shape = _with_leaf(i.shape, place, new)
    module.entry_layout = None
    return module


def _with_leaf(of: Shape, place: int, new: DType) -> Shape:
    if of.is_array:
        return of.with_dtype(new)
    parts = list(of.elements)
    for k, part in enumerate(parts):
        count = len(list(part.leaves()))
        if place < count:
            parts[k] = _with_leaf(part, place, new)
            return tuple_shape(parts)
        place -= count
    raise AssertionError("no such leaf")


def _valid(label: str, module: Module) -> Iterator[tuple[str, Module]]:
    try:
        verify(module)
    except HloError:
        return
    yield label, module


def drawn(opcode: str, seed: int) -> Iterator[tuple[str, Module]]:
    """The variations of one drawn instance, one with floats and elements where there is one."""
    found: Module | None = None
    for attempt in range(DRAWS):
        module = draw_instance(opcode, np.random.default_rng(seed * DRAWS + attempt))
        if not is_tried(module):
            continue
        found = found or module
        leaves = [leaf for i in module.instructions() for leaf in i.shape.leaves() if leaf.is_array]
        if any(x.dtype.is_floating for x in leaves) and all(x.size for x in leaves):
            found = module
            break
    if found is not None:
        yield from variations(found, seed)


def verdict(module: Module) -> str:
    """'' where native code and the interpreter agree, or both refuse; else what differs."""
    signal.alarm(SECONDS)
    try:
        what = difference(module, Trial())
        return "" if what.endswith("[no-meaning]") else what
    except NotJudged as error:
        return "" if _is_refused(module) else f"compiled, but {error}"
    finally:
        signal.alarm(0)


def _is_refused(module: Module) -> bool:
    try:
        compiled(module, Trial())
    except HloError:
        return True
    return False


def _tried(opcode: str, seed: int, skip: int, at: Path) -> str:
    """A line `number<tab>label<tab>verdict` for each variation from number `skip` on."""
    lines: list[str] = []
    for number, (label, module) in enumerate(drawn(opcode, seed)):
        if number < skip:
            continue
        at.write_text("\n".join([*lines, f"{number}\t{label}\t"]))
        lines.append(f"{number}\t{label}\t{verdict(module)}".replace("\n", " "))
    return "\n".join(lines)


def verdicts(opcode: str, seed: int) -> list[tuple[int, str, str]]:
    """Number, label and verdict of every variation; a crash is a verdict."""
    made: list[tuple[int, str, str]] = []
    skip = 0
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder) / "at"
        while True:
            at.write_text("")
            text = in_child(_tried, opcode, seed, skip, at)
            crashed = text.startswith("crash")
            lines = (at.read_text() if crashed else text).split("\n")
            for line in filter(None, lines):
                number, label, what = line.split("\t")
                made.append((int(number), label, what))
            if not crashed or not made:
                return made
            number, label, _ = made[-1]
            made[-1] = number, label, text
            skip = number + 1


def main() -> int:
    """Try opcodes; the exit status says whether something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ops", default="")
    parser.add_argument("--keep", default="", help="a folder for what is found")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for opcode in options.ops.split(",") if options.ops else single():
        for seed in range(options.seed, options.seed + options.draws):
            for number, label, what in verdicts(opcode, seed):
                kind = "found" if what else "ok"
                counts[kind] += 1
                if kind == "ok":
                    continue
                print(f"{opcode} seed {seed} #{number} {label}: {what}", flush=True)
                if options.keep and kind == "found":
                    module = next(m for n, (_, m) in enumerate(drawn(opcode, seed)) if n == number)
                    path = Path(options.keep) / f"{opcode}_{seed}_{number}.hlo"
                    path.write_text(as_text(module, Trial(), what))
    print(f"done: {dict(counts)}")
    return 1 if counts["found"] else 0


if __name__ == "__main__":
    sys.exit(main())
