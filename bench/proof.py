"""`python -m bench.proof [words]`: what share of compiling is the proof of kernels.

Each program of the corpus (and each .hlo file named) is compiled without the cache, by one thread
at a time, a few times; the smallest processor time of all and of the proof counts. `pooled` is the
sum of the proofs over the sum of all, which is what a long session pays; the median is of programs.
Ends with status 1 where the pooled share is above `--limit` percent. `--json FILE` keeps the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.native import programs


class ProofClock:
    """Adds up the processor time that this thread spends in the proof of kernels."""

    def __init__(self) -> None:
        from hloom.targets.cpu import lowering

        self.seconds, self.kernels = 0.0, 0
        admit = lowering.admit_kernel

        def timed(kernel: Any) -> Any:
            start = time.thread_time()
            try:
                return admit(kernel)
            finally:
                self.seconds += time.thread_time() - start
                self.kernels += 1

        lowering.admit_kernel = timed


def measured(module: Any, clock: ProofClock, rounds: int) -> dict[str, Any]:
    """Kernels, seconds of the proof and of all."""
    from dataclasses import replace

    from hloom.base.clock import StageClock
    from hloom.base.collection import paused_collection
    from hloom.base.options import Options
    from hloom.targets.cpu.options import cpu_target

    target = replace(cpu_target(Options()), compile_threads=1)
    best: dict[str, Any] = {}
    for _ in range(rounds):
        clock.seconds, clock.kernels = 0.0, 0
        start = time.process_time()  # LLVM is at work in a thread beside this one
        with paused_collection():
            target.compiled(module, StageClock())
        took = time.process_time() - start
        best = {
            "kernels": clock.kernels,
            "proof_s": min(clock.seconds, best.get("proof_s", clock.seconds)),
            "all_s": min(took, best.get("all_s", took)),
        }
    return best


def rows_of(paths: Iterable[Path], rounds: int) -> list[dict[str, Any]]:
    """A row for each program that compiles."""
    import hloom

    clock, rows = ProofClock(), []
    for path in paths:
        try:
            module = hloom.load(path)
            rows.append({"name": path.stem, **measured(module, clock, rounds)})
        except hloom.HloError as error:
            print(f"{path.name}: {error}".splitlines()[0], file=sys.stderr)
    return rows


def pooled_percent(rows: Iterable[dict[str, Any]]) -> float:
    """The share of the proof in the time of all programs together."""
    rows = list(rows)
    return 100 * sum(r["proof_s"] for r in rows) / max(sum(r["all_s"] for r in rows), 1e-9)


def main() -> int:
    """Measure, show, keep."""
    parser = argparse.ArgumentParser(prog="python -m bench.proof", description=__doc__)
    parser.add_argument("words", nargs="*", help="files, or words that names contain")
    parser.add_argument("--rounds", type=int, default=3, help="compilations of each")
    parser.add_argument("--limit", type=float, default=2.0, help="percent, pooled")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    os.environ["HLOOM_CACHE"] = "0"
    rows = rows_of(programs(options.words), options.rounds)
    if not rows:
        print("no program was measured", file=sys.stderr)
        return 1
    table = Table(title="the proof of kernels, of the processor time of compiling")
    for name in ("program", "kernels", "proof ms", "all ms", "share %"):
        table.add_column(name, justify="left" if name == "program" else "right")
    shares = [100 * r["proof_s"] / r["all_s"] for r in rows]
    for row, share in sorted(zip(rows, shares), key=lambda x: -x[1]):
        cells = [str(row["kernels"]), f"{row['proof_s'] * 1e3:.2f}", f"{row['all_s'] * 1e3:.1f}"]
        table.add_row(row["name"][:48], *cells, f"{share:.1f}")
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    pooled, median = pooled_percent(rows), statistics.median(shares)
    print(f"pooled {pooled:.2f} %, median {median:.2f} %, {len(rows)} programs")
    if options.json:
        result = {"pooled_percent": pooled, "median_percent": median, "programs": rows}
        options.json.write_text(json.dumps(result, indent=1))
    return int(pooled > options.limit)


if __name__ == "__main__":
    sys.exit(main())
