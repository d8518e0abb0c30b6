"""`python -m tests.fuzz.run_sizes --minutes 60`: programs at the sizes people use.

Each is drawn from one number and tried in a process of its own: compiled, run, and compared with
the interpreter, or with XLA:CPU where jax is installed and the interpreter would take too long.
What differs or crashes is named by its seed, made smaller and kept as run_native's finds are. What
takes five times its floor (`hloom run --roofline`) is listed, with its slowest kernel, but not
under HLOOM_GUARD=1, which finds bytes out of place and slows all down. In the end: what was
reached.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from hloom.api import Device, host_device
from hloom.base.diagnostics import HloError
from hloom.base.guarding import GUARDING
from hloom.executable import Executable
from hloom.interp import EvalOptions, evaluate
from hloom.ir.module import Module
from hloom.ir.text import PrintOptions, show_module
from hloom.ir.verify import verify
from hloom.targets.roofline import floor_s
from hloom.tools.calibrate import measured_rates
from tests.fuzz.check_native import (
    NotJudged,
    Trial,
    arguments_of,
    compiled,
    different,
    leaves,
    literal_leaves,
)
from tests.fuzz.open_results import is_open, rounded_at_every_step
from tests.fuzz.reached import FAMILIES, watch
from tests.fuzz.run_native import in_child, keep, kind_of
from tests.fuzz.sketch_models import drawn_model
from tests.fuzz.sketch_sizes import drawn_near, drawn_sizes
from tests.fuzz.thresholds import thresholds
from tests.fuzz.wide import is_as_near, wide_results

SECONDS = 240
"""What one program may take, the judges included."""
INTERPRETER_SECONDS = 20
MEMORY_BYTES = 1 << 31
ARGUMENT_BYTES = 1 << 29
RESULT_BYTES = 1 << 28
"""Of all results together, of which judges make copies in f64."""
OPTIONS = EvalOptions(while_iteration_limit=300, memory_limit_bytes=MEMORY_BYTES)
SLOWER = 5
"""Times the floor, from which on a program is slow."""
LEAST_SLOW_S = 2e-3
FLOAT_TOLERANCE = 2e-3
"""Between two compilers, of the largest value: sums in other orders."""

KINDS, SHARES = ("near", "sizes", "model"), (0.25, 0.3, 0.45)
DRAWN = {"sizes": drawn_sizes, "model": drawn_model}


def drawn(number: int) -> tuple[Module, Trial]:
    """The program of a number, and how it is tried."""
    rng = random.Random(number)
    machine = rng.choice(("host", "host", "host", "avx2", "sse"))
    kind = rng.choices(KINDS, SHARES)[0]
    module = _near(rng, number) if kind == "near" else DRAWN[kind](number)
    return module, Trial("integral", rng.randrange(4), machine, rng.choice((1, 2)))


def _near(rng: random.Random, number: int) -> Module:
    return drawn_near(rng.choice(thresholds()), rng.choice((-1, 0, 1)), number)


class TooLong(Exception):
    """The interpreter was stopped."""


def _check_size(module: Module) -> None:
    """Declines a program whose values, or results, take more memory than there is to judge it."""
    taken = sum(leaf.size_bytes for leaf in module.entry.root.shape.leaves() if leaf.is_array)
    if taken > RESULT_BYTES:
        raise NotJudged(f"its results are {taken} bytes, more than the {RESULT_BYTES} allowed")
    largest = max(i.shape.size_bytes for i in module.instructions() if i.shape.is_array)
    if largest > MEMORY_BYTES:
        raise NotJudged(f"a value takes {largest} bytes, more than the {MEMORY_BYTES} allowed")


def _stop(*_: object) -> None:
    raise TooLong


def judged(module: Module, arguments: list[Any], given: list[Any]) -> list[Any]:
    """What the program computes, by the interpreter or by XLA; raises `NotJudged`."""
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(INTERPRETER_SECONDS)
    try:
        made = literal_leaves(evaluate(module, *arguments, options=OPTIONS))
        signal.alarm(0)
        return made
    except (HloError, TooLong, MemoryError):
        signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    return _by_xla(module, given)


def _by_xla(module: Module, given: list[Any]) -> list[Any]:
    try:
        import jax

        from bench.native import xla_program
    except ImportError:
        raise NotJudged("the interpreter takes too long, and there is no jax") from None
    text = show_module(module, PrintOptions(large_constants=True, metadata=False))
    try:
        run, _ = xla_program(text)
        made = run.execute([jax.device_put(x) for x in given])
    except Exception as error:
        raise NotJudged(f"XLA: {error}"[:200]) from error
    return [np.asarray(x) for x in made]


def _as_near(module: Module, given: list[Any], k: int, got: Any, want: Any) -> bool:
    """Whether a result is about as near to that of the program in f64 as the judge's is."""
    wide = wide_results(module, given, OPTIONS)
    return wide is not None and is_as_near(got, getattr(want, "array", want), wide[k])


def differs(got: Any, want: Any, coarsest: float = 0.0) -> str:
    """What differs between results, '' if they agree; `want` is the interpreter's or XLA's.
    `coarsest`: what roundings inside allow."""
    trial = Trial("integral")
    if not isinstance(want, np.ndarray):
        return different(got, want, trial, max(2e-4, coarsest))
    if got.shape != want.shape:
        return f"{got.shape}, not {want.shape}"
    if got.dtype.kind in "biu":
        return "" if np.array_equal(got, want) else "integers differ from XLA's"
    if got.dtype.kind == "c":
        return differs(got.real, want.real, coarsest) or differs(got.imag, want.imag, coarsest)
    a, b = got.astype(np.float64), want.astype(np.float64)
    scale = np.abs(b[np.isfinite(b)]).max(initial=1e-30)
    tolerance = max(coarsest, FLOAT_TOLERANCE if got.dtype.itemsize >= 4 else 5e-2)
    same = np.isclose(a, b, rtol=0, atol=tolerance * scale, equal_nan=True)
    return "" if same.all() else f"{int((~same).sum())} of {b.size} differ from XLA's"


def difference(module: Module, trial: Trial, report: dict[str, Any] | None = None) -> str:
    """What is wrong, one line, empty if nothing is; how long it takes goes into the report."""
    try:
        arguments = arguments_of(module, trial, ARGUMENT_BYTES)
        _check_size(module)
    except HloError as error:
        raise NotJudged(str(error)) from error
    given = [leaf.array for a in arguments for leaf in literal_leaves(a)]
    start = time.perf_counter()
    try:
        exe = compiled(module, trial)
    except HloError as error:
        return f"refused: {type(error).__name__}: {error}"[:300]
    except Exception as error:
        return f"compile: {type(error).__name__}: {error}"[:300]
    compile_s = time.perf_counter() - start
    arrays = [np.array(x.numpy()) for x in leaves(exe(*given))]
    if report is not None:
        report.update(_timed(exe, given), compile_s=round(compile_s, 2))
    with np.errstate(all="ignore"):
        wanted = judged(module, arguments, given)
        coarsest = 0.0 if trial.excess else rounded_at_every_step(module)
        for k, (got, want) in enumerate(zip(arrays, wanted, strict=True)):
            what = differs(got, want, coarsest)
            if what and is_open(module):
                raise NotJudged(f"a reducer has no single result: {what}")
            if what and _as_near(module, given, k, got, want):
                raise NotJudged(f"f64 is as far from the judge: {what}")
            if what:
                return f"result {k} {got.dtype.name}[{list(got.shape)}]: {what}"
    return ""


@cache
def rates() -> Device:
    """This machine, its rates measured."""
    return measured_rates(host_device())


def _rated(device: Device) -> Device:
    """A device with the clock and the bandwidths of this machine."""
    compute = replace(device.compute, clock_hz=rates().compute.clock_hz)
    spaces = rates().memory_spaces
    return replace(device, compute=compute, caches=rates().caches, memory_spaces=spaces)


def _timed(exe: Executable, given: list[Any]) -> dict[str, Any]:
    """The run's time, its floor, and its slowest step where it is far above. Nothing under guard,
    where every array is new memory: page faults are most of the time."""
    if GUARDING:
        return {}
    floor = floor_s(exe, _rated(exe.target.device))
    times = []
    for _ in range(4):
        start = time.perf_counter()
        exe(*given)
        times.append(time.perf_counter() - start)
        if times[-1] > 1 or times[-1] < LEAST_SLOW_S:
            break
    found = {"run_s": min(times), "floor_s": floor}
    if min(times) > max(SLOWER * floor, LEAST_SLOW_S):
        steps = sorted(exe.profile(*given), key=lambda s: -s.seconds)
        if steps:
            found["step"] = (
                f"{steps[0].thunk.kind} {steps[0].thunk.name} {steps[0].seconds * 1e3:.1f} ms"
            )
    return found


def attempt(number: int) -> str:
    """JSON: the verdict on one number, what was reached, how long it took."""
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    signal.alarm(SECONDS)
    report: dict[str, Any] = {}
    counted: Counter[str] = Counter()
    try:
        module, trial = drawn(number)
        verify(module)
    except HloError as error:
        return json.dumps({"verdict": f"draw: {error}"[:300]})
    watch(counted)
    try:
        verdict = difference(module, trial, report) or "ok"
    except NotJudged as error:
        verdict = "not judged"
        report["why"] = str(error)[:200]
    return json.dumps({"verdict": verdict, "reached": counted, **report})


def tried(module: Module, trial: Trial) -> str:
    """For shrinking: what is wrong with a program, '' when nothing is or nobody can say."""
    try:
        verify(module)
        return difference(module, trial)
    except (HloError, NotJudged):
        return ""


def main() -> int:
    """Fuzz until time or numbers are used up; the exit status says whether something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1000)
    parser.add_argument("--count", type=int, default=1 << 60)
    parser.add_argument("--only-print", action="store_true", help="do not shrink and keep finds")
    options = parser.parse_args()
    os.environ["HLOOM_STRICT"] = "1"
    rates()  # before it is needed in processes that begin as this one is
    verdicts: Counter[str] = Counter()
    found: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    slow: list[tuple[float, str]] = []
    start = said = time.monotonic()
    for number in range(options.seed, options.seed + options.count):
        if time.monotonic() - start > 60 * options.minutes:
            break
        text = in_child(attempt, number, seconds=SECONDS)
        made: dict[str, Any] = {"verdict": text} if not text.startswith("{") else json.loads(text)
        what = made["verdict"]
        verdicts[what if what in ("ok", "not judged") else "found"] += 1
        reached.update(made.get("reached", {}))
        run_s, floor_s = made.get("run_s", 0.0), made.get("floor_s", 0.0)
        if run_s > max(SLOWER * floor_s, LEAST_SLOW_S):
            line = f"--seed {number}: {run_s * 1e3:.1f} ms, {run_s / floor_s:.0f} times its floor"
            slow.append((run_s / floor_s, f"{line}; {made.get('step', '')}"))
            print(f"SLOW {slow[-1][1]}", flush=True)
        if what not in ("ok", "not judged"):
            found[kind_of(what)] += 1
            print(f"FOUND --seed {number} --count 1: {what}", flush=True)
            is_new = found[kind_of(what)] == 1 and not what.startswith("draw")
            if is_new and not options.only_print:
                print(f"  -> {keep(*drawn(number), what, tried)}", flush=True)
        if time.monotonic() - said > 60:
            said = time.monotonic()
            print(f"{said - start:5.0f} s: {dict(verdicts)}", flush=True)
    _summary(verdicts, found, reached, slow)
    return 1 if found else 0


def _summary(
    verdicts: Counter[str],
    found: Counter[str],
    reached: Counter[str],
    slow: list[tuple[float, str]],
) -> None:
    print(f"done: {dict(verdicts)}; {len(found)} kinds of finds; {len(thresholds())} thresholds")
    for kind, count in found.most_common():
        print(f"{count:5} {kind}")
    print("reached")
    for name in FAMILIES:
        print(f"{reached[name]:7} {name}{'' if reached[name] else '  NEVER REACHED'}")
    for name, count in reached.most_common():
        if name not in FAMILIES:
            print(f"{count:7} {name}")
    print(f"{len(slow)} slower than {SLOWER} times their floor")
    for _, line in sorted(slow, reverse=True)[:40]:
        print(f"  {line}")


if __name__ == "__main__":
    sys.exit(main())
