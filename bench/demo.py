"""`make demo`: two real models from HLO to machine code: stages, times, memory.

    python -m bench.demo [FILE.hlo ...]

The interpreter runs beside it, and XLA:CPU where jaxlib is installed (`make setup`).
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import hloom

EXAMPLES = Path(__file__).parents[1] / "examples"
MODELS = ("resnet50.hlo", "language_model.hlo")
REPEATS, MOST_SECONDS = 20, 3.0


def main(names: list[str]) -> None:
    # A cache of its own, so that there is something to see.
    with tempfile.TemporaryDirectory(prefix="hloom-demo-") as folder:
        os.environ["HLOOM_CACHE_DIR"] = folder
        for path in [Path(n) for n in names] or [EXAMPLES / name for name in MODELS]:
            demonstrate(path)


def demonstrate(path: Path) -> None:
    """Compile one program, run it, and say what happened."""
    module = hloom.load(path)
    start = time.perf_counter()
    exe = hloom.compile(module)
    compile_s = time.perf_counter() - start
    gflop = exe.cost.flops / 1e9
    print(f"== {path.name}: {module.instruction_count:,} instructions, {gflop:.2f} GFLOP")
    show_stages(exe, compile_s)
    start = time.perf_counter()
    hloom.compile(module)
    print(f"   again, from the cache: {time.perf_counter() - start:.2f} s\n")
    arguments = hloom.random_arguments(module, seed=0)
    show_times(path, module, exe, arguments)
    show_memory(exe)
    show_kernels(exe, arguments)


def show_stages(exe: hloom.Executable, compile_s: float) -> None:
    """What each stage made, with its time; and a line or two of it."""
    stages = exe.stages
    fusions = sum(i.opcode == "fusion" for i in stages.module.entry.instructions)
    assignment = stages.buffer_assignment
    kernels, values = len(stages.lowering.kernels), len(assignment.values)
    size = sum(len(x) for x in stages.program.objects)
    made = {
        "start-up": "imports, asking LLVM what the processor can do",
        "passes": f"{stages.module.instruction_count:,} instructions, {fusions} fusions",
        "schedule": "an order that needs little memory",
        "copies": f"{sum(v.instruction.opcode == 'copy' for v in assignment.values)} copies",
        "buffers": f"{values:,} values in {assignment.temp_bytes / 2**20:.2f} MiB of arena",
        "kernels": f"{kernels} kernels for {len(exe.thunks)} steps",
        "llvm text": f"{sum(map(len, stages.texts.values())) / 1e3:,.0f} kB",
        "machine code": f"{size / 1e3:,.0f} kB",
        "load": "linked, ready to call",
    }
    print(f"   compiled in {compile_s:.2f} s")
    rest_s = compile_s - sum(exe.seconds.values())
    for name, seconds in [("start-up", rest_s), *exe.seconds.items()]:
        print(f"   {name:14} {seconds * 1e3:8.1f} ms   {made.get(name, '')}".rstrip())


def show_times(path: Path, module: hloom.Module, exe: hloom.Executable, arguments: Any) -> None:
    """Native code against the interpreter, and against XLA."""
    result = flat(exe(*arguments))
    native_s = timed(lambda: exe(*arguments))
    start = time.perf_counter()
    expected = flat(hloom.evaluate(module, *arguments))
    interpreter_s = time.perf_counter() - start
    apart = max(float(np.max(np.abs(a - b), initial=0)) for a, b in zip(result, expected))
    rows = [("hloom", native_s), ("interpreter", interpreter_s)]
    xla = xla_times(path, arguments)
    if xla is not None:
        rows.append(("XLA:CPU", xla[0]))
    for name, seconds in rows:
        print(f"   {name:14} {seconds * 1e3:10.2f} ms   {seconds / native_s:8.2f} x hloom")
    print(f"   the largest difference from the interpreter's result is {apart:.2g}")
    if xla is None:
        print("   (make setup installs jaxlib, to compare with)\n")
    else:
        print(f"   XLA compiled it in {xla[1]:.2f} s\n")


def xla_times(path: Path, arguments: Any) -> tuple[float, float] | None:
    """Seconds of a run and of the compilation by XLA; None where jaxlib is not installed."""
    if find_spec("jaxlib") is None:
        return None
    import jax

    from bench.native import xla_program

    made, compile_s = xla_program(path.read_text())
    device = jax.devices("cpu")[0]
    given = [jax.device_put(x, device) for a in arguments for x in flat(a)]

    def once() -> None:
        found = made.execute_sharded(given).disassemble_into_single_device_arrays()
        for part in found:
            for array in part:
                array.block_until_ready()

    once()
    return timed(once), compile_s


def timed(call: Callable[[], Any]) -> float:
    """The median seconds of some calls."""
    times: list[float] = []
    end = time.perf_counter() + MOST_SECONDS
    while len(times) < REPEATS and (not times or time.perf_counter() < end):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times)


def flat(value: Any) -> list[np.ndarray]:
    """The arrays of a literal, or of nested tuples of buffers."""
    if isinstance(value, tuple):
        return [array for part in value for array in flat(part)]
    if isinstance(value, hloom.Literal):
        return [leaf.array for leaf in value.leaves() if not leaf.is_token]
    return [np.asarray(value)]


def show_memory(exe: hloom.Executable) -> None:
    """Where the memory goes: sums, and the largest values."""
    memory = exe.memory
    print("   memory: " + ", ".join(f"{k} {v / 2**20:.2f}" for k, v in memory.as_dict().items()))
    print("   (MiB); the largest values of its own:")
    for v in memory.largest(4):
        a = v.slice.allocation
        where = f"arena at {v.slice.offset:,}" if a.kind == "temp" else a.kind
        note = f"; {v.note}" if v.note else ""
        print(f"     {v.slice.size_bytes / 2**20:6.2f} MiB  {v.name}: {where}{note}")
    print()


def show_kernels(exe: hloom.Executable, arguments: Any) -> None:
    """The steps that take longest."""
    steps = sorted(exe.profile(*arguments, repeats=3), key=lambda s: -s.seconds)
    total = sum(s.seconds for s in steps) or 1.0
    print(f"   the slowest of {len(steps)} steps:")
    for s in steps[:4]:
        print(
            f"     {s.seconds / s.runs * 1e3:8.3f} ms  {s.seconds / total:4.0%}  "
            f"{s.thunk.kind} {s.thunk.name}"
        )
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
