"""A program as machine code against the same program in the interpreter.

How one is tried is a value of its own (`Trial`): which arguments, which machine, how many threads,
whether narrow floats may stay wide inside kernels. It stands in the first line of a find's file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError, HloError
from hloom.codegen.llvm.machine import Machine
from hloom.executable import Executable
from hloom.interp import EvalOptions, evaluate, random_arguments
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.text import PrintOptions, parse_module, show_module
from hloom.ir.verify import verify
from hloom.passes.pipeline import PipelineOptions
from hloom.runtime.drawn_order import drawn_order
from hloom.targets.cpu.device import device_of
from hloom.targets.cpu.lowering import UnsupportedError
from hloom.targets.cpu.target import CpuTarget
from hloom.types.dtype import DType
from hloom.types.literal import Literal
from tests.fuzz.open_results import is_open, rounded_at_every_step
from tests.subnormal import flushed

Array = np.ndarray[Any, Any]
MEMORY_BYTES = 1 << 27
OPTIONS = EvalOptions(while_iteration_limit=300, memory_limit_bytes=MEMORY_BYTES)
MACHINES = {"host": "", "avx2": "AVX2", "avx": "AVX", "sse": "SSE4_2"}
TOLERANCE = {"f64": 1e-9, "c128": 1e-9, "f32": 2e-4, "c64": 2e-4, "f16": 8e-3, "bf16": 4e-2}
SMALL_TOLERANCE = 0.3
"""Of floats of a byte: one step of a type with two bits of mantissa."""
COARSEST = 3e-2
MOST_WATCHED = 2e6
_SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-42, -3e38, 3e38, 1e-300, 65504.0, 0.5, -2.5, 1e9)


@dataclass(frozen=True)
class Trial:
    """How a program is tried. `arguments`: normal, integral (floats hold small integers) or
    special (infinities, NaN, ends of ranges among them)."""

    arguments: str = "normal"
    seed: int = 0
    machine: str = "host"
    threads: int = 1
    excess: bool = False
    disabled: str = ""
    """A pass that is left out; what then has no lowering is refused."""
    watched: bool = False
    """Kernels run once more in the interpreter of their language, between guards."""
    beside: bool = False
    """All parts that may run side by side do, in an order that is drawn."""

    def __str__(self) -> str:
        return (
            f"arguments={self.arguments} seed={self.seed} machine={self.machine} "
            f"threads={self.threads} excess={self.excess} disabled={self.disabled or '-'} "
            f"watched={self.watched} beside={self.beside}"
        )

    @staticmethod
    def of(text: str) -> Trial:
        """From what `str` makes of one."""
        words = dict(word.split("=") for word in text.split())
        return Trial(
            words["arguments"],
            int(words["seed"]),
            words["machine"],
            int(words["threads"]),
            words["excess"] == "True",
            words.get("disabled", "-").strip("-"),
            words.get("watched") == "True",
            words.get("beside") == "True",
        )


class NotJudged(Exception):
    """The interpreter cannot say what a program computes."""


def compiled(module: Module, trial: Trial) -> Executable:
    """A program for the machine and with the freedom of a trial."""
    verify(module)
    # Whether passes tell the truth is asked by hashing the module's text, constants and all.
    small = sum(i.shape.size for i in module.instructions() if i.opcode == "constant") < 2000
    passes = PipelineOptions(
        disable_hlo_passes=frozenset(filter(None, [trial.disabled])),
        detect_cycles=small,
        crash_on_fix_max_iterations=True,
        crash_on_noop_change=small,
        crash_on_silent_change=small,
    )
    machine = Machine.host(MACHINES[trial.machine])
    target = CpuTarget(machine, passes=passes, excess_precision=trial.excess)
    if trial.beside:
        target = replace(target, scheduler="concurrency", kernel_device=device_of(machine, 2))
    return Executable(target.compile(copy_module(module)), max(trial.threads, 1 + trial.beside))


def arguments_of(module: Module, trial: Trial, most_bytes: int = MEMORY_BYTES) -> list[Literal]:
    """The arguments of a trial, the same every time; an error where they are more than that."""
    made = random_arguments(module, trial.seed, most_bytes)
    if trial.arguments == "normal":
        return made
    rng = np.random.default_rng(trial.seed)
    change = _rounded if trial.arguments == "integral" else _with_special
    return [_changed(x, change, rng) for x in made]


def _changed(x: Literal, change: Any, rng: np.random.Generator) -> Literal:
    if x.shape.is_tuple:
        return Literal(x.shape, None, tuple([_changed(y, change, rng) for y in x.elements]))
    if not x.shape.is_array:
        return x
    return Literal.owning(change(x.array, x.shape.dtype, rng), x.shape)


def _rounded(array: Array, dtype: DType, rng: np.random.Generator) -> Array:
    if dtype.is_complex:
        return (np.round(array.real * 2) + 1j * np.round(array.imag * 2)).astype(array.dtype)
    if not dtype.is_floating or not dtype.is_signed:
        return array
    return np.round(array.astype(np.float64) * 2).astype(np.float32).astype(array.dtype)


def _with_special(array: Array, dtype: DType, rng: np.random.Generator) -> Array:
    """With odd values in some places; where the type has no such value, what it converts to."""
    array = array.copy()
    if dtype.is_pred or not array.size:
        return array
    some = rng.random(array.shape) < 0.4
    count = int(some.sum())
    if dtype.is_integral:
        if dtype.bits < 8:
            return array
        ends = np.iinfo(array.dtype)
        array[some] = rng.choice(np.array([ends.min, ends.max, 0, 1, 7], array.dtype), count)
        return array
    with np.errstate(all="ignore"):
        values = rng.choice(np.array(_SPECIAL), count)
        if dtype.is_complex:
            array[some] = values + 1j * rng.choice(np.array(_SPECIAL), count)
        else:
            array[some] = values.astype(np.float64 if dtype.bits == 64 else np.float32).astype(
                array.dtype
            )
    return array


def _flushed(arguments: list[Literal]) -> list[Literal]:
    """With zeros for subnormal numbers of the types whose arithmetic takes them for that."""
    rng = np.random.default_rng()

    def change(array: Array, dtype: DType, _: Any) -> Array:
        if dtype.component.name not in ("f32", "f64", "bf16"):
            return array
        if dtype.is_complex:
            array = array.copy()
            array.real, array.imag = flushed(array.real), flushed(array.imag)
            return array
        return flushed(array)

    return [_changed(x, change, rng) for x in arguments]


def leaves(made: Any) -> list[Any]:
    """The arrays of a nested result, tokens left out."""
    if isinstance(made, tuple | list):
        return [leaf for part in made for leaf in leaves(part)]
    return [] if made is None else [made]


def literal_leaves(made: Literal) -> list[Literal]:
    return [leaf for leaf in made.leaves() if leaf.shape.is_array]


def judged(module: Module, arguments: list[Literal]) -> list[Literal]:
    """What the interpreter computes; raises `NotJudged`."""
    try:
        return literal_leaves(evaluate(module, *arguments, options=OPTIONS))
    except EvalError as error:
        raise NotJudged(str(error)) from error


def difference(module: Module, trial: Trial) -> str:
    """What differs between machine code and the interpreter: one line, empty if nothing does.
    Raises `NotJudged`."""
    try:
        arguments = arguments_of(module, trial)
    except HloError as error:
        raise NotJudged(str(error)) from error
    with np.errstate(all="ignore"):
        wanted = judged(module, arguments)
        flushed_answer = cache(lambda: judged(module, _flushed(arguments)))
        try:
            exe = compiled(module, trial)
        except HloError as error:
            if error.rule == "dynamic-shape":
                raise NotJudged(str(error)) from error  # said clearly; not everything can be
            if trial.disabled and isinstance(error, UnsupportedError):
                return ""
            return f"refused: {type(error).__name__}: {_line(error)}"
        except Exception as error:
            return f"compile: {type(error).__name__}: {_line(error)}"
        given = [leaf.array for a in arguments for leaf in literal_leaves(a)]
        try:
            with drawn_order(trial.seed + 1 if trial.beside else 0, most_delay_ns=20_000):
                made = leaves(exe(*given))
        except Exception as error:
            return f"run: {type(error).__name__}: {_line(error)}"
        arrays = [np.array(x.numpy()) for x in made]
        coarsest = coarsest_of(module)
        if not trial.excess:
            coarsest = max(coarsest, rounded_at_every_step(module))
        for k, (got, want) in enumerate(zip(arrays, wanted, strict=True)):
            if what := different(got, want, trial, coarsest):
                if not different(got, flushed_answer()[k], trial, coarsest):
                    continue
                if is_open(module):
                    raise NotJudged(f"a reducer has no single result: {what}")
                return f"result {k} {want.shape.text_without_layout}: {what}"
        if trial.watched and exe.cost.flops + exe.cost.bytes < MOST_WATCHED:
            try:
                exe.debug(*given, nan=False, kernels=True)
            except Exception as error:
                return f"watched: {type(error).__name__}: {_line(error)}"
        return _unsteady(module, exe, given, arrays, trial)


def _unsteady(
    module: Module, exe: Executable, given: list[Array], first: list[Array], trial: Trial
) -> str:
    """Whether a second run, or one on one thread, gives other bits."""
    if any(i.opcode.startswith("rng") for i in module.instructions()):
        return ""  # the state of random numbers goes on
    others = [("a second run gives", exe)]
    if trial.threads > 1:
        others.append((f"{trial.threads} threads and one give", Executable(exe.stages, 1)))
    for what, other in others:
        for k, (x, y) in enumerate(zip(first, leaves(other(*given)), strict=True)):
            if x.tobytes() != np.array(y.numpy()).tobytes():
                return f"result {k}: {what} other bits"
    return ""


def _line(error: Exception) -> str:
    return str(error).replace("\n", " ")[:300]


def coarsest_of(module: Module) -> float:
    """The loosest tolerance that any value of the program calls for: rounding to bf16 in the
    middle shows in an f64 at the end."""
    found = 0.0
    for i in module.instructions():
        for leaf in i.shape.leaves():
            if leaf.is_array and (leaf.dtype.is_floating or leaf.dtype.is_complex):
                found = max(found, TOLERANCE.get(leaf.dtype.name, SMALL_TOLERANCE))
    return found


def different(got: Array, want: Literal, trial: Trial, coarsest: float) -> str:
    """What differs between two arrays of a type, '' if they agree."""
    dtype, wanted = want.shape.dtype, want.array
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    if not (dtype.is_floating or dtype.is_complex):
        carrier = np.int8 if dtype.bits < 8 else wanted.dtype
        a, b = got.astype(carrier), wanted.astype(carrier)
        return _said(got, wanted, a != b)
    if dtype.is_complex:
        for part in ("real", "imag"):
            a, b = getattr(got, part), getattr(wanted, part)
            scale = np.abs(wanted)
            if what := _floats(a, b, dtype, coarsest, scale):
                return f"{part}: {what}"
        return ""
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    return _floats(a, b, dtype, coarsest, np.abs(b))


def _floats(a: Array, b: Array, dtype: DType, coarsest: float, scale: Array) -> str:
    tolerance = max(TOLERANCE.get(dtype.name, SMALL_TOLERANCE), coarsest)
    finite = np.isfinite(b)
    ends = float(np.finfo(dtype.component.numpy).max) if dtype.bits >= 32 else _most(dtype)
    edge = np.abs(np.where(np.isfinite(a), a, ends)) > 0.9 * ends
    bad = np.isnan(a) != np.isnan(b)
    bad |= (np.isinf(a) != np.isinf(b)) & ~edge
    both = finite & np.isfinite(a)
    middle = scale[finite & (scale < 1e30)]
    whole = np.minimum(float(middle.mean()) if middle.size else 1.0, 1e30)
    least = 4 * _least(dtype.component) + 1e-30
    bad |= both & (np.abs(a - b) > tolerance * np.maximum(scale, whole) + least)
    bad |= np.isinf(a) & np.isinf(b) & (np.sign(a) != np.sign(b))
    return _said(a, b, bad)


def _most(dtype: DType) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype.numpy).max)


def _least(dtype: DType) -> float:
    """The step between the smallest numbers, where relative errors mean nothing."""
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype.numpy).smallest_subnormal)


def _said(a: Array, b: Array, bad: Array) -> str:
    places = np.argwhere(bad)
    if not len(places):
        return ""
    at = tuple(int(k) for k in places[0])
    return f"{len(places)} of {b.size} differ: {list(at)} is {a[at]!r}, not {b[at]!r}"


# -- finds on disk


def as_text(module: Module, trial: Trial, what: str) -> str:
    """A find as a file: comments, then the module."""
    shown = show_module(module, PrintOptions(large_constants=True, metadata=False))
    return f"// {what}\n// trial {trial}\n{shown}"


def from_text(text: str) -> tuple[Module, Trial]:
    """What `as_text` wrote."""
    trial = Trial()
    for line in text.split("\n"):
        if line.startswith("// trial "):
            trial = Trial.of(line.removeprefix("// trial "))
    return parse_module(text), trial


def simpler_trials(trial: Trial) -> list[Trial]:
    """Trials that say less, to see whether a find needs what it was found with."""
    plain = Trial()
    names = ("machine", "threads", "excess", "disabled", "watched", "beside", "seed")
    return [
        replace(trial, **{name: getattr(plain, name)})
        for name in names
        if getattr(trial, name) != getattr(plain, name)
    ]
