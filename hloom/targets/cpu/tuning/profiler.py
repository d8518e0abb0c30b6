"""Runs candidates: on the same arguments, between guards, in turns; the best run of each counts.

The first run of each warms up, and says whether it computes what the default does and stays inside
of its buffers. Only runs are timed, never compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hloom.base.clock import performance
from hloom.interp.sample import random_arguments
from hloom.ir.module import Module
from hloom.program.program import Program
from hloom.runtime.buffer import in_layout, unpacked
from hloom.types.shape import Shape
from hloom.types.sizes import data_bytes, packed_bits

GUARD_BYTES = 4096
PATTERN = 0xA5
OUTSIDE = "it writes outside of buffer"
TOO_SLOW = 3.0
"""Times the best first run: such a candidate is not run again."""
LEAST_ROUNDS = 3
LEAST_ROUND_S = 2e-4
"""A candidate runs so often in a round that it takes as long."""
TOLERANCES = {"f64": 1e-9, "c128": 1e-9, "f32": 1e-4, "c64": 1e-4}
"""Of the largest number, by type; sums may be made in another order."""
NARROW_TOLERANCE = 3e-2
"""Of types of 16 bits and less."""


class Runnable(Protocol):
    """A compiled program of one instruction."""

    @property
    def program(self) -> Program: ...
    def run_at(self, arguments: Sequence[int], results: Sequence[int]) -> None: ...


@dataclass(frozen=True)
class Measured:
    """What one candidate took, or why it cannot be used."""

    text: str
    seconds: float = 0.0
    failure: str = ""
    scratch_bytes: int = 0
    is_compiled: bool = True
    """Whether it failed, if it did, when it ran."""
    is_wrong: bool = False
    """Whether it failed for what it computes."""


class Arguments:
    """Random arguments of a program of one instruction, and room for its results."""

    def __init__(self, module: Module, program: Program) -> None:
        leaves = [leaf for literal in random_arguments(module) for leaf in literal.leaves()]
        arrays = [leaf.array for leaf in leaves if leaf.shape.is_array]
        self._arrays = [
            _guarded(in_layout(array, p.shape))
            for array, p in zip(arrays, program.parameters, strict=True)
        ]
        self._shapes = [r.shape for r in program.results]
        self._rooms = [_guarded(np.zeros(data_bytes(s), np.uint8)) for s in self._shapes]

    def run(self, runnable: Runnable) -> None:
        places = [_inside(a).ctypes.data for a in self._arrays]
        runnable.run_at(places, [_inside(r).ctypes.data for r in self._rooms])

    def results(self, runnable: Runnable) -> list[np.ndarray]:
        """What one run computes; raises ValueError where it writes outside of its results."""
        for room in self._rooms:
            _inside(room)[:] = 0
        self.run(runnable)
        for k, raw in enumerate([*self._arrays, *self._rooms]):
            if (raw[:GUARD_BYTES] != PATTERN).any() or (raw[-GUARD_BYTES:] != PATTERN).any():
                raise ValueError(f"{OUTSIDE} {k}")
        return [_values(_inside(r), s).copy() for r, s in zip(self._rooms, self._shapes)]


def _guarded(array: np.ndarray) -> np.ndarray:
    """The bytes of an array between guards, at a multiple of 64."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    size = -(-data.size // 64) * 64
    whole = np.full(size + 2 * GUARD_BYTES + 64, PATTERN, np.uint8)
    start = -whole.ctypes.data % 64
    guarded = whole[start : start + GUARD_BYTES + data.size + GUARD_BYTES]
    guarded[GUARD_BYTES : GUARD_BYTES + data.size] = data
    return guarded


def _inside(raw: np.ndarray) -> np.ndarray:
    return raw[GUARD_BYTES : raw.size - GUARD_BYTES]


def _values(raw: np.ndarray, shape: Shape) -> np.ndarray:
    """The numbers of a result, in the order in which they stand."""
    raw = raw[: data_bytes(shape)]
    return unpacked(raw, shape) if packed_bits(shape) else raw.view(shape.dtype.numpy)


def profiled(
    compiled: Sequence[tuple[str, Callable[[], Runnable], int]],
    module: Module,
    rounds: int,
    budget_s: float,
    *,
    compares: bool = True,
) -> list[Measured]:
    """Each candidate (its text, what compiles it, its scratch bytes), the default first. What
    computes something else than the default fails, or, where the default does not work, something
    else than most do; unless results are not to be compared (`compares`). Fewer rounds, but three,
    where they take longer than `budget_s`."""
    measured: list[Measured] = []
    able: dict[int, Runnable] = {}
    arguments: Arguments | None = None
    clusters: list[Cluster] = []
    first: dict[int, float] = {}
    for k, (text, compile_it, scratch) in enumerate(compiled):
        runnable: Runnable | None = None
        try:
            runnable = compile_it()
            arguments = arguments or Arguments(module, runnable.program)
            results = arguments.results(runnable)
            begin = performance()
            arguments.run(runnable)
            first[k] = performance() - begin
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:300]
            measured.append(Measured(text, failure=why, is_compiled=runnable is not None))
            continue
        able[k] = runnable
        measured.append(Measured(text, 0.0, "", scratch))
        if compares:
            _join(clusters, k, results)
    for k, why in _wrong(clusters).items():
        del able[k]
        measured[k] = Measured(measured[k].text, failure=why, is_wrong=True)
    if arguments is None:
        return measured
    limit = TOO_SLOW * min([first[k] for k in able], default=0.0)
    in_turns = [(k, r) for k, r in able.items() if first[k] <= limit]
    start = performance()
    for done in range(rounds):
        if done >= LEAST_ROUNDS and performance() - start > budget_s:
            break
        for k, runnable in in_turns:
            first[k] = min(first[k], _seconds(arguments, runnable, first[k]))
    return [
        m if m.failure else Measured(m.text, first[k], "", m.scratch_bytes)
        for k, m in enumerate(measured)
    ]


@dataclass
class Cluster:
    """Candidates whose results agree, by number."""

    results: list[np.ndarray]
    members: list[int]


def _join(clusters: list[Cluster], k: int, results: list[np.ndarray]) -> None:
    """Add a candidate to those that it agrees with; only the results of one of them are kept."""
    for cluster in clusters:
        if not differs(results, cluster.results):
            cluster.members.append(k)
            return
    clusters.append(Cluster(results, [k]))


def _wrong(clusters: list[Cluster]) -> dict[int, str]:
    """Of the candidates whose results are not right, what differs. The default is trusted; where it
    does not work, the most that agree are."""
    if not clusters:
        return {}
    trusted = [c for c in clusters if 0 in c.members]
    right = trusted[0] if trusted else max(clusters, key=lambda c: len(c.members))
    whose = "the default's" if trusted else "most others'"
    return {
        k: differs(c.results, right.results, whose)
        for c in clusters
        for k in c.members
        if c is not right
    }


def _seconds(arguments: Arguments, runnable: Runnable, about_s: float) -> float:
    """One run, the mean of some that follow one another where it is short."""
    count = max(1, min(64, int(LEAST_ROUND_S / max(about_s, 1e-7))))
    begin = performance()
    for _ in range(count):
        arguments.run(runnable)
    return (performance() - begin) / count


def differs(
    results: Sequence[np.ndarray], want: Sequence[np.ndarray], whose: str = "the default's"
) -> str:
    """What differs between results by more than other orders of sums do; '' if nothing does."""
    for k, (a, b) in enumerate(zip(results, want, strict=True)):
        if b.dtype.kind in "biu":
            if not np.array_equal(a, b):
                return f"result {k} differs from {whose}"
            continue
        wide = np.complex128 if b.dtype.kind == "c" else np.float64
        x, y = a.astype(wide), b.astype(wide)
        scale = float(np.abs(y[np.isfinite(y)]).max(initial=0.0))
        name = {"float64": "f64", "float32": "f32", "complex64": "c64", "complex128": "c128"}
        tolerance = TOLERANCES.get(name.get(b.dtype.name, ""), NARROW_TOLERANCE) * scale
        if not np.isclose(x, y, rtol=0, atol=tolerance, equal_nan=True).all():
            return f"result {k} differs from {whose} by more than {tolerance:.3g}"
    return ""
