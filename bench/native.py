"""`python -m bench.native [words]`: compiled programs against XLA:CPU, one table.

Each program of the corpus (and each .hlo file named) is taken in a child process of its own:
compiled by both with a cold cache, compiled by hloom again with a warm one, and run in turn,
hloom then XLA, on the same arguments; medians count. Donated arguments are made anew for every
run, outside of the clock. Memory is what a run needs beside its arguments, by each compiler's
own plan. `--json FILE` keeps the numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.corpus import CORPUS

PROGRAMS = CORPUS / "cpu"
EXAMPLES = Path(__file__).parent.parent / "examples"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.native", description=__doc__)
    parser.add_argument("words", nargs="*", help="files, or words that names contain")
    parser.add_argument("--rounds", type=int, default=15, help="runs of each contestant")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of runs per program")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds per program")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def programs(words: list[str]) -> list[Path]:
    """The programs to measure."""
    files = [Path(w) for w in words if w.endswith(".hlo") and Path(w).exists()]
    words = [w for w in words if Path(w) not in files]
    if files and not words:
        return files
    known = sorted(PROGRAMS.glob("*.hlo")) if PROGRAMS.exists() else sorted(EXAMPLES.glob("*.hlo"))
    return files + [p for p in known if not words or any(w in p.name for w in words)]


# -- one program, in a child process


def xla_program(text: str) -> tuple[Any, float]:
    """XLA's executable for HLO text, and the seconds it took to compile."""
    import jax
    from jaxlib import _hlo, xla_client
    from jaxlib import _jax as bindings

    parsed = _hlo.hlo_module_from_text(text)
    computation = _hlo.XlaComputation(parsed.as_serialized_hlo_module_proto())
    portable = bindings.mlir.xla_computation_to_mlir_module(computation)
    client = jax.devices("cpu")[0].client
    devices = bindings.DeviceList(tuple(client.devices()[:1]))
    start = time.perf_counter()
    made = client.compile_and_load(portable, devices, xla_client.CompileOptions())
    return made, time.perf_counter() - start


def measured(path: Path, rounds: int, budget_s: float) -> dict[str, Any]:
    """The numbers of one program."""
    os.environ["HLOOM_CACHE_DIR"] = tempfile.mkdtemp(prefix="hloom-bench-")
    import hloom
    from hloom.runtime.buffer import Buffer, copied

    module = hloom.load(path)
    arrays = aligned_arguments(hloom.random_arguments(module))
    warm_up = hloom.parse("HloModule w\nENTRY e { ROOT p = f32[] parameter(0) }")
    hloom.compile(warm_up)
    start = time.perf_counter()
    exe = hloom.compile(module)
    row: dict[str, Any] = {"name": path.stem, "compile_s": time.perf_counter() - start}
    start = time.perf_counter()
    hloom.compile(hloom.load(path))
    row["load_and_warm_s"] = time.perf_counter() - start
    start = time.perf_counter()
    hloom.compile(module)
    row["warm_s"] = time.perf_counter() - start
    parameters = exe.program.parameters
    donated = {a.index for a in exe.program.allocations if a.is_donated}
    is_donated = [p.allocation in donated for p in parameters]

    def ours() -> float:
        given = [
            Buffer(p.shape, copied(x, p.shape)) if gone else x
            for p, x, gone in zip(parameters, arrays, is_donated)
        ]
        begin = time.perf_counter()
        kept = exe(*given)
        took = time.perf_counter() - begin
        del kept
        return took

    theirs = None
    try:
        theirs = peer(path, arrays, is_donated, row)
    except Exception as error:  # a peer that cannot do it is a row without a ratio
        row["xla_error"] = str(error).split("\n")[0][:200]
    mine: list[float] = []
    others: list[float] = []
    ours()
    if theirs is not None:
        theirs()
    start = time.perf_counter()
    while len(mine) < rounds and (not mine or time.perf_counter() - start < budget_s):
        mine.append(ours())
        if theirs is not None:
            others.append(theirs())
    row["run_s"] = statistics.median(mine)
    if others:
        row["xla_run_s"] = statistics.median(others)
    kinds = {"temp": 0, "output": 0}
    for a in exe.program.allocations:
        if a.kind in kinds:
            kinds[a.kind] += a.size_bytes
    row["memory_bytes"] = sum(kinds.values())
    return row


def aligned_arguments(literals: list[Any]) -> list[Any]:
    """The leaves of the arguments in memory aligned to 64 bytes, which nobody has to copy."""
    import numpy as np

    from hloom.runtime.buffer import ArenaMemory

    arrays = []
    while literals:
        literal = literals.pop(0)
        for leaf in literal.leaves():
            if leaf.shape.is_array:
                raw = np.asarray(ArenaMemory(leaf.array.nbytes))[: leaf.array.nbytes]
                place = raw.view(leaf.array.dtype).reshape(leaf.array.shape)
                place[...] = leaf.array
                arrays.append(place)
    return arrays


def peer(path: Path, arrays: list[Any], is_donated: list[bool], row: dict[str, Any]) -> Any:
    """A function that runs XLA once and returns the seconds; None without jaxlib."""
    try:
        import jax
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)
    made, row["xla_compile_s"] = xla_program(path.read_text())
    stats = made.get_compiled_memory_stats()
    row["xla_memory_bytes"] = (
        stats.temp_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
    )
    device = jax.devices("cpu")[0]

    def once() -> float:
        given = [x.copy() if gone else x for x, gone in zip(arrays, is_donated)]
        held = [jax.device_put(x, device) for x in given]
        for x in held:
            x.block_until_ready()
        begin = time.perf_counter()
        results = made.execute_sharded(held).disassemble_into_single_device_arrays()
        for shards in results:
            shards[0].block_until_ready()
        return time.perf_counter() - begin

    return once


# -- all programs, and the table


def rows_of(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Measure every program in a child process; what fails is a row that says so."""
    rows = []
    for path in programs(options.words):
        console.print(f"[dim]{path.name}[/dim]", end="\r")
        command = [sys.executable, "-m", "bench.native", "--child", str(path)]
        command += ["--rounds", str(options.rounds), "--budget", str(options.budget)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
            rows.append(json.loads(done.stdout.strip().split("\n")[-1]))
        except subprocess.TimeoutExpired:
            rows.append({"name": path.stem, "error": f"over {options.timeout:.0f} s"})
        except (ValueError, IndexError):
            last = done.stderr.strip().split("\n")[-1][:200]
            rows.append({"name": path.stem, "error": last or f"exit {done.returncode}"})
    return rows


def ratio(row: dict[str, Any], ours: str, theirs: str) -> float | None:
    """hloom's number over XLA's; below 1 is better."""
    if ours not in row or not row.get(theirs):
        return None
    return row[ours] / row[theirs]


def shown(value: float | None, scale: float = 1.0, digits: int = 2) -> str:
    return "" if value is None else f"{value * scale:,.{digits}f}"


def geometric_mean(values: list[float]) -> float | None:
    """The geometric mean of positive numbers."""
    if not values:
        return None
    return math.exp(statistics.fmean(math.log(max(v, 1e-9)) for v in values))


COLUMNS = (
    ("run", "run_s", "xla_run_s", 1e3, 1.5),
    ("compile", "compile_s", "xla_compile_s", 1e3, 2.0),
    ("memory", "memory_bytes", "xla_memory_bytes", 1e-6, 1.05),
)


def table(rows: list[dict[str, Any]]) -> Table:
    """The numbers side by side; losing ratios in red."""
    made = Table(title="hloom / XLA:CPU (below 1 is better); ms, MB")
    made.add_column("program")
    for name, *_ in COLUMNS:
        made.add_column(name, justify="right")
        made.add_column("XLA", justify="right")
        made.add_column("ratio", justify="right")
    made.add_column("warm %", justify="right")
    for row in rows:
        if "error" in row:
            made.add_row(row["name"][:40], row["error"][:60])
            continue
        cells = [row["name"][:40]]
        for _, ours, theirs, scale, limit in COLUMNS:
            found = ratio(row, ours, theirs)
            cells += [shown(row.get(ours), scale, 1), shown(row.get(theirs), scale, 1)]
            colour = "" if found is None else "red" if found > limit else "green"
            cells.append(f"[{colour}]{shown(found)}[/{colour}]" if colour else "")
        cells.append(shown(row["warm_s"] / row["compile_s"], 100, 0))
        made.add_row(*cells)
    means = ["geometric mean"]
    for _, ours, theirs, _, _ in COLUMNS:
        found = [r for row in rows if (r := ratio(row, ours, theirs)) is not None]
        means += ["", "", shown(geometric_mean(found))]
    made.add_row(*means, "", style="bold")
    return made


def main() -> None:
    """Measure and print."""
    options = arguments()
    if options.child:
        print(json.dumps(measured(Path(options.child), options.rounds, options.budget)))
        return
    console = Console(width=None if sys.stdout.isatty() else 150)
    rows = rows_of(options, console)
    console.print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
