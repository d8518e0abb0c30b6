"""Measures one program for `hloom bench`, in a process of its own: cold compilation, a run, memory.

    python -m hloom.tools.bench_child '{"file": "step.hlo", "rounds": 30, "seconds": 1.0, ...}'

Both compilers are given the same program and the same random arguments, and take turns. Each line
on standard output is a row, or why there is none. Nothing is read from hloom's caches. A process
for each program: what one of them leaves in memory, or how it dies, changes no other's numbers.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from hloom import api
from hloom.tools.arrays import leaves
from hloom.tools.bench_rows import Failure, Row
from hloom.tools.calibrate import measured_rates

WARM_UP = "HloModule w\nENTRY e { ROOT p = f32[] parameter(0) }"
LEAST_ROUNDS = 3
"""However long a program takes."""
SUITE = "programs"


def measured(
    file: str, rounds: int, seconds: float, with_peer: bool, options: list[str]
) -> list[Row]:
    """The rows of one program: run, compile, memory."""
    module = api.load_file(file).module
    if module.replica_count * module.num_partitions > 1:
        raise api.UsageError("it is for several devices: the bench runs one")
    chosen = api.Options.parsed(options, api.Options.from_environment())
    arguments = api.random_arguments(module)
    api.compile_module(api.parse(WARM_UP))
    start = time.perf_counter()
    exe = api.compile_module(module, options=chosen, cached=False)
    compile_s = time.perf_counter() - start
    arrays = [array for a in arguments for _, _, array in leaves(a, "")]
    donated = {a.index for a in exe.program.allocations if a.is_donated}
    gone = [p.allocation in donated for p in exe.program.parameters]
    runs = {"hloom": _ours(exe, arrays, gone)}
    peer, note = _peer(module) if with_peer else (None, "")
    if peer is not None:
        runs["XLA:CPU"] = peer.runs(arrays, gone)
    medians = interleaved(runs, rounds, seconds)
    floor_s = api.floor_s(exe, measured_rates(exe.target.device))
    memory_bytes = exe.memory.temp + exe.memory.outputs
    name = os.path.basename(file)

    def row(quantity: str, unit: str, ours: float, theirs: float | None, **rest: Any) -> Row:
        peers = {} if theirs is None else {"XLA:CPU": theirs}
        return Row(SUITE, name, quantity, unit, ours, peers, note=note, **rest)

    return [
        row("run", "s", medians["hloom"], medians.get("XLA:CPU"), floor=floor_s),
        row("compile", "s", compile_s, peer and peer.compile_s),
        row("memory", "B", memory_bytes, peer and float(peer.memory_bytes)),
    ]


def _ours(exe: api.Executable, arrays: list[Any], gone: list[bool]) -> Callable[[], float]:
    """A function that runs it once and returns the seconds; what it may take is made before."""
    shapes = [p.shape for p in exe.program.parameters]
    kept = [api.Buffer.of(x, s) for x, s in zip(arrays, shapes)]

    def once() -> float:
        held = [api.Buffer.of(x, s) if g else k
                for x, k, s, g in zip(arrays, kept, shapes, gone)]  # fmt: skip
        start = time.perf_counter()
        result = exe(*held)
        took = time.perf_counter() - start
        del result
        return took

    return once


def _peer(module: api.Module) -> tuple[Any, str]:
    """The same program in XLA:CPU, or None and why."""
    if find_spec("jaxlib") is None or find_spec("jax") is None:
        return None, "no peer: pip install jax"
    try:
        from hloom.tools.bench_peer import XlaCpu

        return XlaCpu(api.file_bytes(module, "proto")), ""
    except Exception as error:  # a peer that cannot do it is a row without a ratio
        return None, f"XLA:CPU: {str(error).splitlines()[0][:160]}"


def interleaved(
    runs: dict[str, Callable[[], float]], rounds: int, seconds: float
) -> dict[str, float]:
    """Median seconds of each; one uncounted run, then turns until rounds or seconds are up."""
    times: dict[str, list[float]] = {who: [] for who in runs}
    for run in runs.values():
        run()
    begin = time.perf_counter()
    for done in range(rounds):
        if done >= LEAST_ROUNDS and time.perf_counter() - begin > seconds:
            break
        for who, run in runs.items():
            times[who].append(run())
    return {who: statistics.median(seconds_of_runs) for who, seconds_of_runs in times.items()}


def main() -> None:
    """Measure, and print a line for each row."""
    asked = json.loads(sys.argv[1])
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with tempfile.TemporaryDirectory(prefix="hloom-bench-") as folder:
        os.environ["HLOOM_CACHE_DIR"] = folder
        try:
            lines: list[Any] = list(measured(**asked))
        except api.HloError as error:
            lines = [Failure(SUITE, os.path.basename(asked["file"]), str(error).splitlines()[0])]
    for line in lines:
        print(json.dumps(asdict(line)), flush=True)


if __name__ == "__main__":
    main()
