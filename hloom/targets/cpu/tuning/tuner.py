"""Chooses how kernels are written, by measuring what can be tried.

For each kernel of a planned module: what is known of it (from a file that was named, from the cache
on disk, from this process) is taken; else, where measuring is asked for, every candidate is
compiled in a module of its own, run, and compared with the default. Equal kernels share one
tuning, whatever their names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hloom.base.diagnostics import HloError
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.text.options import PrintOptions
from hloom.ir.text.show import show_module
from hloom.passes.pass_ import Pass
from hloom.targets.cpu.tuning.choice import Choice
from hloom.targets.cpu.tuning.log import TuningLog
from hloom.targets.cpu.tuning.profiler import Measured
from hloom.targets.cpu.tuning.results import (
    ResultCache,
    TuningResult,
    read_results,
    write_results,
)

MODES = ("off", "load", "quick", "full")
WINDOW_S = 1e-6
"""Candidates within this of the best are alike: the one with the least scratch is taken."""
LEAST_GAIN = 0.03
"""A candidate that is not faster by this part is noise, and the default stays."""
DEFAULT = "default"


class Backend(Protocol):
    """What can be tried, and how it is measured."""

    def candidates(self, i: Instruction, is_thorough: bool) -> list[Choice]:
        """For an instruction, the default first; empty where there is nothing to choose."""
        ...

    def alone(self, i: Instruction) -> Module:
        """A module that computes this instruction of its operands."""
        ...

    def profiled(
        self, module: Module, choices: Sequence[Choice], is_thorough: bool
    ) -> list[Measured]:
        """What each choice takes in a module of one instruction."""
        ...


def select(measured: Sequence[Measured], window_s: float = WINDOW_S, what: str = "") -> Measured:
    """Of those that work within the window of the fastest (in whole nanoseconds), the one with the
    least scratch, then the fastest. `HloError` that lists all failures where none works."""
    able = [m for m in measured if not m.failure]
    if not able:
        raise _none_works(measured, what or "the kernel")
    best, window_ns = min(m.seconds for m in able), round(window_s * 1e9)
    near = [m for m in able if round((m.seconds - best) * 1e9) <= window_ns]
    return min(near, key=lambda m: (m.scratch_bytes, m.seconds))


def _none_works(measured: Sequence[Measured], what: str) -> HloError:
    """The error for a kernel that no config is left for: with every failure, if there are any."""
    if not measured:
        return HloError(f"{what}: no configs are supported", rule="autotune-not-found")
    is_compiled = any(m.is_compiled for m in measured)
    how = "during profiling" if is_compiled else "to compile"
    lines = [m.failure for m in measured if m.failure]
    text = "\n".join([f"{what}: All configs failed {how}.", f"Failures ({len(lines)}):", *lines])
    return HloError(text, rule="autotune-not-found" if is_compiled else "autotune-compile")


@dataclass
class Tuner:
    """The choices of one compilation. `device` names what results are for."""

    mode: str
    device: str
    backend: Callable[[], Backend]
    cache: ResultCache | None = None
    load_path: Path | None = None
    """Results to begin with."""
    export: Path | None = None
    """Where the results that were used are written."""
    is_complete: bool = False
    """Whether a kernel of which nothing is known is an error, where nothing is measured."""
    known: dict[str, TuningResult] = field(default_factory=dict)
    used: dict[str, TuningResult] = field(default_factory=dict)
    measured: int = 0
    """How many kernels have been measured."""
    log: TuningLog | None = None
    """Where all that is measured is written, whatever comes of it."""
    options_pass: Pass | None = None
    """Chooses the code-generation options of other kernels, where measuring is asked for."""

    def __post_init__(self) -> None:
        if self.load_path is not None:
            self.known.update(read_results(self.load_path, self.device))

    def choices(self, instructions: Iterable[Instruction]) -> dict[Instruction, Choice]:
        """For the instructions whose kernels are not to be as they would be anyway."""
        backend, choices_ = self.backend(), {}
        instructions = list(instructions)
        self._tune_options(instructions)
        for i in instructions:
            # All that may have been chosen, also by who took more time.
            able = backend.candidates(i, True)
            if not able:
                continue
            alone = backend.alone(i)
            text = show_module(alone, PrintOptions.fingerprint())
            key = hashlib.sha256(text.encode()).hexdigest()
            result = self._known(key)
            if result is None and self.mode in ("quick", "full"):
                result = self._tuned(backend, i, key, alone)
            if result is None:
                if self.is_complete:
                    raise HloError(
                        f"no tuning result for %{i.name} ({key})",
                        rule="autotune-not-found",
                        hint="autotune=quick measures what is missing",
                    )
                continue
            self.known[key] = self.used[key] = result
            if result.choice != DEFAULT:
                choices_[i] = _chosen(result, able, i)
        if self.export is not None:
            write_results(self.export, self.device, self.used.values())
        return choices_

    def _tune_options(self, instructions: Sequence[Instruction]) -> None:
        """Write the best options into the backend configs of the instructions' module."""
        if self.options_pass is None or self.mode not in ("quick", "full") or not instructions:
            return
        if (module := instructions[0].parent.module) is not None:
            self.options_pass.run(module)

    def _known(self, key: str) -> TuningResult | None:
        if key in self.known:
            return self.known[key]
        return self.cache.get(key) if self.cache is not None else None

    def _tuned(self, backend: Backend, i: Instruction, key: str, alone: Module) -> TuningResult:
        """Measure an instruction, and keep what was found."""
        is_thorough = self.mode == "full"
        able = backend.candidates(i, is_thorough)
        measured = backend.profiled(alone, able, is_thorough)
        self.measured += 1
        if self.log is not None:
            self.log.add(i.name, f"{key} {_line(i)}", measured)
        best = select(measured, what=f"%{i.name}")
        default = measured[0]
        gains = default.failure or best.seconds < (1 - LEAST_GAIN) * default.seconds
        result = TuningResult(
            key=key,
            what=_line(i),
            choice=best.text if best is not default and gains else DEFAULT,
            times_us=tuple((m.text, round(m.seconds * 1e6, 3)) for m in measured if not m.failure),
            failures=tuple((m.text, m.failure) for m in measured if m.failure),
        )
        if self.cache is not None:
            self.cache.put(result)
        return result


def _chosen(result: TuningResult, able: Sequence[Choice], i: Instruction) -> Choice:
    """The choice that a result names: one of those that this compiler can make."""
    for choice in able:
        if choice.text == result.choice:
            return choice
    raise HloError(
        f"the tuning result for %{i.name} ({result.key}) is {result.choice!r}, which is none of "
        f"its {len(able)} candidates",
        rule="autotune",
        hint="autotune=quick measures again; a file that was changed by hand may be wrong",
    )


def _line(i: Instruction) -> str:
    """What an instruction is, in a line."""
    inside = i.called[0].instructions if i.opcode == "fusion" else (i,)
    anchors = [x for x in inside if x.opcode in ("dot", "convolution")]
    shapes = ", ".join([x.shape.text_without_layout for h in anchors for x in h.operands])
    results = " ".join([h.opcode for h in anchors])
    return f"{results}({shapes}) -> {i.shape.text_without_layout}"
