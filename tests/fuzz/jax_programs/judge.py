"""One random program, on hloom and on the built-in backend: what is wrong, and how long it takes.

Results must agree to the tolerance of their type. Where they do not, hloom is wrong only if the
built-in backend's own result stands fast when its arguments change in their last bit, and if the
same program in f64 is clearly nearer to it.
"""

from __future__ import annotations

import json
import os
import resource
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.fuzz.jax_programs.assemble import Program, drawn
from tests.fuzz.jax_programs.sketch import Unfit, kind_of_type

ADDRESS_BYTES = 14 << 30
SLOWER = 10
LEAST_SLOW_S = 3e-3
TOLERANCE = {"bfloat16": 6e-2, "float16": 8e-3, "float32": 2e-4, "complex64": 2e-4}
"""Of a value and of the mean size of values; 1e-9 for the other types of floats."""
SMALL_BITS = 0.05
"""Of the last bit of 1, by which 16-bit floats may differ: what cancels is left with less."""
QUICKLY = {"xla_backend_optimization_level": 0}
MOST_UNOPTIMISED = 1 << 16
"""Options of the built-in compiler where nobody looks at the clock, up to so many elements."""
FURTHER = 8
"""So many times more elements than a changed last bit moves may differ."""


def attempt(number: int, timed: bool) -> str:
    """JSON: the verdict on one number, what the program is, seconds."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    report: dict[str, Any] = {"verdict": "ok"}
    _say("draw")
    try:
        program = drawn(number)
    except Unfit as error:
        return json.dumps({"verdict": f"draw: {error}"})
    report["label"] = program.label
    try:
        report["verdict"] = verdict(program, report, timed) or "ok"
    except NotJudged as error:
        report.update(verdict="not judged", why=str(error)[:300])
    return json.dumps(report)


class NotJudged(Exception):
    """The built-in backend does not say what is right."""


def _say(phase: str) -> None:
    os.write(2, f"PHASE {phase}\n".encode())


class Side:
    """A program, compiled for one backend."""

    def __init__(self, program: Program, backend: str, options: dict[str, Any]) -> None:
        self.program, self.backend = program, backend
        self.device = jax.devices(backend)[0]
        start = time.perf_counter()
        f = jax.jit(program.f, donate_argnums=program.donated, keep_unused=True)
        self.compiled = f.lower(*self.placed(program.args)).compile(options)
        self.compile_s = time.perf_counter() - start

    def placed(self, args: list[np.ndarray]) -> list[Any]:
        """Arguments on the device; those to be donated are copies."""
        return [
            jax.device_put(np.array(a) if k in self.program.donated else a, self.device)
            for k, a in enumerate(args)
        ]

    def run(self, args: list[np.ndarray]) -> tuple[list[np.ndarray], float]:
        """The results, and the seconds that it took."""
        placed = jax.block_until_ready(self.placed(args))
        start = time.perf_counter()
        made = jax.block_until_ready(self.compiled(*placed))
        spent = time.perf_counter() - start
        return [np.array(x) for x in made], spent


def verdict(program: Program, report: dict[str, Any], timed: bool) -> str:
    """What is wrong, one line, empty if nothing is."""
    _say("built-in")
    try:
        small = sum(a.size for a in program.args) < MOST_UNOPTIMISED
        built_in = Side(program, "cpu", QUICKLY if small and not timed else {})
        want, built_in_s = built_in.run(program.args)
    except Exception as error:
        raise NotJudged(f"built-in: {type(error).__name__}: {error}") from error
    before = [a.copy() for a in program.args]
    _say("hloom compile")
    try:
        hloom = Side(program, "hloom", {})
    except Exception as error:
        return f"refused: {_line(error)}"
    _say("hloom run")
    try:
        got, hloom_s = hloom.run(program.args)
        again, hloom_again_s = hloom.run(program.args)
    except Exception as error:
        return f"failed: {_line(error)}"
    report["compile_s"] = [round(hloom.compile_s, 3), round(built_in.compile_s, 3)]
    _say("compare")
    for k, (a, b) in enumerate(zip(program.args, before)):
        if a.tobytes() != b.tobytes():
            return f"argument {k} {a.dtype.name}{list(a.shape)} was written to"
    for k, (a, b) in enumerate(zip(got, again)):
        if a.tobytes() != b.tobytes():
            return f"result {k} {a.dtype.name}{list(a.shape)} differs from run to run"
    if what := difference(program, built_in, got, want):
        return what
    if timed:
        _say("time")
        return _timed(hloom, built_in, report, [hloom_s, hloom_again_s], [built_in_s])
    return ""


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]


def _timed(
    hloom: Side, built_in: Side, report: dict[str, Any], ours: list[float], theirs: list[float]
) -> str:
    for _ in range(4):
        if sum(ours) + sum(theirs) > 2:
            break
        theirs.append(built_in.run(built_in.program.args)[1])
        ours.append(hloom.run(hloom.program.args)[1])
    report["run_s"] = [float(f"{min(ours):.3g}"), float(f"{min(theirs):.3g}")]
    if min(ours) > max(SLOWER * min(theirs), LEAST_SLOW_S):
        return (
            f"slow: {min(ours) / min(theirs):.0f} times the built-in backend's {min(theirs):.2g} s"
        )
    return ""


# -- what is right


def difference(
    program: Program, built_in: Side, got: list[np.ndarray], want: list[np.ndarray]
) -> str:
    """The result that is wrong, '' if none is."""
    if len(got) != len(want):
        return f"{len(got)} results, not {len(want)}"
    others: list[list[np.ndarray]] | None = None
    for k, (a, b) in enumerate(zip(got, want)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {k} is {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        bad = off(a, b)
        if not bad.any():
            continue
        if others is None:
            others = [built_in.run(nudged(program.args, s))[0] for s in (0, 1)]
        moved = max(int(off(o[k], b).sum()) for o in others)
        if int(bad.sum()) <= FURTHER * moved or _nearer(program, k, a, b):
            continue
        where = np.unravel_index(int(bad.argmax()), b.shape)
        return (
            f"wrong: result {k} {b.dtype.name}{list(b.shape)}: {int(bad.sum())} of {b.size} "
            f"differ, {moved} of them with a changed bit; at {[int(i) for i in where]} "
            f"{a[where]}, not {b[where]}"
        )
    return ""


def off(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Which elements are not close enough."""
    if kind_of_type(want.dtype) in "ib":
        return got.astype(want.dtype) != want
    tolerance = TOLERANCE.get(want.dtype.name, 1e-9)
    if kind_of_type(want.dtype) == "c":
        return off(got.real.copy(), want.real.copy()) | off(got.imag.copy(), want.imag.copy())
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(b)
    scale = np.abs(b[finite]).mean() if finite.any() else 0.0
    floor = SMALL_BITS * float(jnp.finfo(want.dtype).eps) if want.dtype.itemsize < 4 else 0.0
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= tolerance * (np.abs(b) + scale) + floor
    return ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))


def nudged(args: list[np.ndarray], seed: int) -> list[np.ndarray]:
    """The arguments, floats changed in their last bit, up or down."""
    rng, found = np.random.default_rng(seed), []
    for a in args:
        if kind_of_type(a.dtype) in "fc":
            eps = float(jnp.finfo(a.dtype).eps)
            signs = rng.integers(0, 2, a.shape) * 2 - 1
            wide = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
            a = (wide * (1 + eps * signs)).astype(a.dtype)
        found.append(a)
    return found


def _nearer(program: Program, k: int, got: np.ndarray, want: np.ndarray) -> bool:
    """Whether a result is about as near to that of the program in f64 as the other one is."""
    if program.has_bits or program.x64 or kind_of_type(want.dtype) in "ib":
        return False
    wide = {"f": np.float64, "c": np.complex128}
    args = [a.astype(wide.get(kind_of_type(a.dtype), a.dtype)) for a in program.args]
    _say("f64")
    try:
        with jax.enable_x64(True):
            device = jax.devices("cpu")[0]
            placed = [jax.device_put(a, device) for a in args]
            truth = np.asarray(jax.jit(program.f)(*placed)[k])
    except Exception:
        return False
    truth = truth.astype(wide[kind_of_type(want.dtype)])
    ours, theirs = np.abs(got - truth), np.abs(want - truth)
    if not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return False
    return bool(ours.max() <= 4 * theirs.max() and ours.mean() <= 4 * theirs.mean())
