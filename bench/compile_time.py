"""`python -m bench.compile_time [words]`: where the time of compiling goes, against XLA:CPU.

Each program of the corpus (and each .hlo file named) is taken in a child process of its own, warmed
up with a program of one instruction. In every round it is compiled by hloom without the compile
cache, then by XLA; the fastest of each counts, because other work on the machine only adds. Then it
is compiled with an empty cache and with the full one; `start` is what a fresh process takes to
import hloom and to have the program from its file and the full cache. Times are of the wall clock:
several processes work at once; the CPU ratio counts the time of all processors, which says more
where the machine has other work. `--json FILE` keeps the numbers, `--base FILE` shows those of an
earlier run beside them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.native import programs, xla_program

STAGES = ("verify", "passes", "copies", "kernels", "llvm text", "machine code", "load")
"""Columns; stages that are not named here count to the one before them in `FOLDED`."""
FOLDED = {"copy": "verify", "schedule": "copies", "buffers": "copies", "cache": "verify"}
WARM_UP = "HloModule w\nENTRY e { ROOT p = f32[] parameter(0) }"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.compile_time", description=__doc__)
    parser.add_argument("words", nargs="*", help="files, or words that names contain")
    parser.add_argument("--rounds", type=int, default=5, help="compilations by each")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of rounds per program")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    parser.add_argument("--base", type=Path, help="numbers of an earlier run, to compare with")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds per program")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def measured(path: Path, rounds: int, budget_s: float) -> dict[str, Any]:
    """The numbers of one program, in seconds."""
    import hloom

    os.environ["HLOOM_CACHE"] = "0"
    hloom.compile(hloom.parse(WARM_UP))
    module, text = hloom.load(path), path.read_text()
    row: dict[str, Any] = {"name": path.stem, "instructions": module.instruction_count}
    begin = time.perf_counter()
    for number in range(rounds):
        used, start = cpu_seconds(), time.perf_counter()
        exe = hloom.compile(module)
        took, used = time.perf_counter() - start, cpu_seconds() - used
        row["cold_cpu_s"] = min(row.get("cold_cpu_s", math.inf), used)
        if took < row.get("cold_s", math.inf):
            row |= {"cold_s": took, "stages": exe.seconds, "first_s": row.get("first_s", took)}
        try:
            used = cpu_seconds()
            row["xla_s"] = min(row.get("xla_s", math.inf), xla_program(text)[1])
            row["xla_cpu_s"] = min(row.get("xla_cpu_s", math.inf), cpu_seconds() - used)
        except Exception as error:  # a peer that cannot do it is a row without a ratio
            row["xla_error"] = str(error).split("\n")[0][:200]
        if number and time.perf_counter() - begin > budget_s:
            break
    os.environ["HLOOM_CACHE"] = "1"
    with tempfile.TemporaryDirectory(prefix="hloom-bench-") as folder:
        os.environ["HLOOM_CACHE_DIR"] = folder
        hloom.compile(module)
        warm = []
        for _ in range(3):
            start = time.perf_counter()
            hloom.compile(module)
            warm.append(time.perf_counter() - start)
        starts = [fresh_start(path) for _ in range(4)]
    # The first start reads the file, and leaves its name in the cache.
    return row | {"warm_s": min(warm), "start_s": min(starts[1:])}


def fresh_start(path: Path) -> float:
    """Seconds that a new process takes to import hloom and compile a file."""
    code = (
        "import time; start = time.perf_counter(); import hloom; "
        f"hloom.compile({str(path)!r}); print(time.perf_counter() - start)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def cpu_seconds() -> float:
    """Processor time of this process and of those it has started and that still run."""
    total = time.process_time()
    ticks = os.sysconf("SC_CLK_TCK")
    for file in Path("/proc/self/task").glob("*/children"):
        for child in file.read_text().split():
            try:
                fields = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:  # it has gone since
                continue
            total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def in_child(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The numbers of one program, measured in a process of its own."""
    command = [sys.executable, "-m", "bench.compile_time", "--child", str(path)]
    command += ["--rounds", str(options.rounds), "--budget", str(options.budget)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=options.timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return {"name": path.stem, "error": f"longer than {options.timeout:.0f} s"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return {"name": path.stem, "error": (done.stderr.strip() or "no output").splitlines()[-1]}


def stage_times(row: dict[str, Any]) -> dict[str, float]:
    """Seconds by column."""
    found: dict[str, float] = dict.fromkeys(STAGES, 0.0)
    for name, seconds in row.get("stages", {}).items():
        column = FOLDED.get(name, name)
        found[column if column in found else "load"] += seconds
    return found


def mean_ratio(rows: list[dict[str, Any]], above: str, below: str) -> float | None:
    """The geometric mean of a ratio, over the rows that have both."""
    logs = [math.log(r[above] / r[below]) for r in rows if above in r and below in r]
    return math.exp(sum(logs) / len(logs)) if logs else None


def shown_ratio(value: float | None) -> str:
    """A ratio as the table has it."""
    return "" if value is None else f"{value:.2f}"


def table(rows: list[dict[str, Any]], base: dict[str, dict[str, Any]]) -> Table:
    """All numbers; milliseconds."""
    made = Table(title="compile time, ms")
    columns = ["program", "instructions", "hloom", "XLA", "ratio", "CPU ratio", "warm", "warm/XLA"]
    columns += ["start"]
    columns += STAGES
    if base:
        columns.insert(3, "before")
    for name in columns:
        made.add_column(name, justify="left" if name == "program" else "right")
    for row in rows:
        if "error" in row:
            made.add_row(row["name"][:40], row["error"][:60])
            continue
        xla = row.get("xla_s")
        cells = [row["name"][:40], str(row["instructions"]), f"{row['cold_s'] * 1e3:,.1f}"]
        if base:
            old = base.get(row["name"], {}).get("cold_s")
            cells.append("" if old is None else f"{old * 1e3:,.1f}")
        cells += [
            "" if xla is None else f"{xla * 1e3:,.1f}",
            shown_ratio(xla and row["cold_s"] / xla),
            shown_ratio(xla and row["cold_cpu_s"] / row["xla_cpu_s"]),
            f"{row['warm_s'] * 1e3:,.1f}",
            shown_ratio(xla and row["warm_s"] / xla),
            f"{row['start_s'] * 1e3:,.0f}",
            *[f"{s * 1e3:,.1f}" for s in stage_times(row).values()],
        ]
        made.add_row(*cells)
    return made


def main() -> None:
    """Measure, show, keep."""
    options = arguments()
    if options.child:
        print(json.dumps(measured(Path(options.child), options.rounds, options.budget)))
        return
    rows: list[dict[str, Any]] = []
    for path in programs(options.words):
        rows.append(in_child(path, options))
        print(path.name, shown_ratio(mean_ratio(rows[-1:], "cold_s", "xla_s")), file=sys.stderr)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    base: dict[str, dict[str, Any]] = {}
    if options.base:
        base = {r["name"]: r for r in json.loads(options.base.read_text())}
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table(rows, base))
    kinds = (("cold", "cold_s", "xla_s"), ("warm", "warm_s", "xla_s"))
    for what, above, below in (*kinds, ("cold CPU", "cold_cpu_s", "xla_cpu_s")):
        ratio = shown_ratio(mean_ratio(rows, above, below))
        console.print(f"geometric mean of {what} hloom / XLA: {ratio or 'no peer'}")


if __name__ == "__main__":
    main()
