"""`python -m tests.fuzz.run_proof --count 500`: kernels with a planted fault, and the proof.

A kernel of the compiler is changed in one place: a loop, a mask, a stride, a constant, the grid or
the size of a buffer is off by one. The interpreter judges what the change does. If a step leaves a
buffer, two steps write one element, or an element is not written, `prove` must have refused it.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from hloom.base.diagnostics import HloError
from hloom.base.options import Options
from hloom.interp.kernel import run_kernel
from hloom.ir.module import Module
from hloom.ir.text import parse_module
from hloom.kernel.kernel import Kernel, Op
from hloom.kernel.proof.prove import Proof, prove
from hloom.kernel.text import parse_kernel, show_kernel
from hloom.kernel.verify import verify_kernel
from hloom.targets.cpu.options import cpu_target
from tests.fuzz.programs import programs
from tests.fuzz.programs_native import drawn_program, drawn_single, single
from tests.fuzz.sketch_chain import drawn_chain

MOST_TEXT = 9000
MOST_STEPS = 5000
MOST_ELEMENTS = 200_000
SECONDS = 4
"""What the interpreter may take for one mutant; those that take longer are not judged."""
DIRECTIONS = ("LT", "LE", "GT", "GE", "EQ", "NE")
Array = np.ndarray[Any, Any]


def kernels_of(module: Module) -> list[str]:
    """The texts of the kernels of a module; none if it has no native code."""
    try:
        stages = cpu_target(Options()).written(module)
    except HloError:
        return []
    texts = []
    for kernel in stages.lowering.kernels.values():
        kernel.name = "kernel"
        texts.append(show_kernel(kernel))
    return texts


def modules(rng: random.Random) -> Iterator[Module]:
    """Programs without end: those of the tests, single operations, drawn ones."""
    texts = programs()
    while True:
        kind, number = rng.randrange(4), rng.randrange(1 << 20)
        try:
            if kind == 0:
                yield parse_module(rng.choice(texts))
            elif kind == 1:
                yield drawn_single(number, rng.choice(single()))
            elif kind == 2:
                yield drawn_program(number, integral=True)
            else:
                yield drawn_chain(number)
        except HloError:
            continue


def mutated(kernel: Kernel, rng: random.Random) -> str:
    """What was changed in a kernel; nothing if no change was found."""
    kind = rng.random()
    if kind < 0.15 and kernel.grid:
        grid = list(kernel.grid)
        axis = rng.randrange(len(grid))
        grid[axis] = max(1, grid[axis] + rng.choice((-1, 1, 1, 2)))
        kernel.grid = tuple(grid)
        return f"grid axis {axis}"
    if kind < 0.3 and kernel.params:
        k = rng.randrange(len(kernel.params))
        param = kernel.params[k]
        kernel.params[k] = param._replace(size=max(0, param.size + rng.choice((-1, -1, 1, -4))))
        return f"size of {param.name}"
    ops = [op for op in kernel.ops() if op.opcode in _CHANGES]
    if not ops:
        return ""
    op = rng.choice(ops)
    return op.opcode if _CHANGES[op.opcode](op, rng) else ""


def _constant(op: Op, rng: random.Random) -> bool:
    if not op.results[0].dtype.is_integral:
        return False
    op.attrs["value"] = int(op.attrs["value"]) + rng.choice((-1, 1, 1, -8, 8, 16))
    return True


def _step(op: Op, rng: random.Random) -> bool:
    op.attrs["step"] = max(1, op.attrs["step"] + rng.choice((-1, 1)))
    return True


def _direction(op: Op, rng: random.Random) -> bool:
    op.attrs["direction"] = rng.choice(DIRECTIONS)
    return True


def _stride(op: Op, rng: random.Random) -> bool:
    strides = list(op.attrs["strides"])
    if not strides:
        return False
    strides[rng.randrange(len(strides))] += rng.choice((-1, 1))
    op.attrs["strides"] = tuple(strides)
    return True


def _extreme(op: Op, rng: random.Random) -> bool:
    op.opcode = "maximum" if op.opcode == "minimum" else "minimum"
    return True


def _size(op: Op, rng: random.Random) -> bool:
    op.attrs["size"] = max(0, op.attrs["size"] - 1)
    return True


def _arms(op: Op, rng: random.Random) -> bool:
    op.operands = (op.operands[0], op.operands[2], op.operands[1])
    return True


def _mask(op: Op, rng: random.Random) -> bool:
    """A store without its mask."""
    if len(op.operands) < 4:
        return False
    op.operands = op.operands[:3]
    return True


_CHANGES = {
    "constant": _constant,
    "for": _step,
    "compare": _direction,
    "load": _stride,
    "store": lambda op, rng: _mask(op, rng) or _stride(op, rng),
    "minimum": _extreme,
    "maximum": _extreme,
    "alloc": _size,
    "select": _arms,
}


def arguments(kernel: Kernel, seed: int) -> list[Array]:
    """Flat arrays for a kernel; indices are small, or anything."""
    rng = np.random.default_rng(seed)
    found = []
    for param in kernel.params:
        dtype = param.value.dtype
        if dtype.is_pred:
            array = rng.integers(0, 2, param.size)
        elif dtype.is_integral:
            low = -2 if dtype.is_signed_int and dtype.bits > 2 else 0
            array = rng.integers(low, 2, param.size)
            if dtype.is_signed_int and dtype.bits >= 32 and rng.random() < 0.3:
                array = rng.integers(-(2**31), 2**31 - 1, param.size)
        else:
            array = rng.normal(size=param.size)
        found.append(array.astype(dtype.numpy))
    return found


class TooLong(Exception):
    """The interpreter took longer than it may."""


def _alarm(*_: Any) -> None:
    raise TooLong


def harm(kernel: Kernel, seed: int) -> str:
    """What a kernel does that it must not, by the interpreter; nothing if that is not seen."""
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(SECONDS)
    try:
        for k in range(2):
            first = arguments(kernel, seed + k)
            second = [x.copy() for x in first]
            for param, x, y in zip(kernel.params, first, second):
                if param.role == "out":
                    x.view(np.uint8)[:] = 0
                    y.view(np.uint8)[:] = 1
            run_kernel(kernel, first, races=True)
            run_kernel(kernel, second)
            for param, x, y in zip(kernel.params, first, second):
                if param.role == "out" and (x.view(np.uint8) != y.view(np.uint8)).any():
                    return "unwritten element"
    except TooLong:
        return "not judged"
    except HloError as error:
        return error.rule or ""
    finally:
        signal.alarm(0)
    return ""


REFUSED_FOR = {
    "kernel-bounds": lambda p: p.accesses,
    "kernel-race": lambda p: p.accesses or p.writes,
    "unwritten element": lambda p: p.accesses or p.writes,
}


def missed(kernel: Kernel, seed: int) -> tuple[str, Proof]:
    """The harm of a kernel that its proof does not refuse, or nothing; and the proof."""
    proof = prove(kernel)
    found = harm(kernel, seed)
    refuses = REFUSED_FOR.get(found)
    return (found if refuses and not refuses(proof) else ""), proof


def trial(text: str, rng: random.Random, seen: Counter[str]) -> str:
    """Plant one fault in a kernel and judge it: the mutant's text if the proof missed it."""
    kernel = parse_kernel(text)
    what = mutated(kernel, rng)
    try:
        verify_kernel(kernel)
    except HloError:
        what = ""
    elements = sum(p.size for p in kernel.params)
    if not what or elements > MOST_ELEMENTS or kernel.steps > MOST_STEPS:
        return ""
    seed = rng.randrange(1 << 30)
    harmful, proof = missed(kernel, seed)
    if harmful:
        return f"{harmful} by a change of {what} is not refused:\n{show_kernel(kernel)}"
    kind = "refused" if proof.accesses or proof.writes else "harmless"
    seen[f"{what.split()[0]}: {kind}"] += 1
    return ""


def run(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Until so many mutants have been refused: what was seen, and what the proof missed."""
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    faults = []
    for module in modules(rng):
        texts = [t for t in kernels_of(module) if len(t) < MOST_TEXT]
        for text in rng.sample(texts, min(2, len(texts))):
            fault = trial(text, rng, seen)
            if fault:
                faults.append(fault)
        if sum(n for what, n in seen.items() if what.endswith("refused")) >= count:
            return seen, faults
    return seen, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="how many must be refused")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    seen, faults = run(given.count, given.seed)
    for what, n in sorted(seen.items()):
        print(f"{n:6} {what}")
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults missed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
