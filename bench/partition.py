"""Bytes communicated and memory of partitioned programs, beside XLA's: `python -m bench.partition`.

Every program of `partition_programs.py` is lowered by JAX for eight devices. jaxlib's built-in
backend compiles it and prints what each device runs; hloom partitions the same StableHLO. Of both
the same analysis counts the bytes that a device receives. XLA:CPU makes all-reduces of
reduce-scatters, so those of both are counted as what they are. Memory is that of both compilers'
plans: arguments, results and temporaries (`--memory`, which compiles for longer).

    python -m bench.partition [words] [--memory] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import os
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from rich.console import Console
from rich.table import Table

import hloom
from bench.partition_programs import CASES, Case
from hloom.analysis.communication import communications, summed
from hloom.base.clock import performance
from hloom.passes.partition.whole_program import partitioned

SLACK_BYTES = 64
"""Scalars are no loss."""


def is_shaped(x: Any) -> bool:
    return isinstance(x, tuple) and len(x) == 2 and isinstance(x[1], P)


def lowered(case: Case, mesh: Mesh) -> Any:
    """A program with its arguments where their specs say."""

    def argument(x: Any) -> Any:
        return jax.ShapeDtypeStruct(x[0], np.float32, sharding=NamedSharding(mesh, x[1]))

    arguments = jax.tree.map(argument, case.arguments, is_leaf=is_shaped)
    results = jax.tree.map(
        lambda s: NamedSharding(mesh, s), case.results, is_leaf=lambda s: isinstance(s, P)
    )
    jitted = jax.jit(case.function, **({} if case.results is None else {"out_shardings": results}))
    return jitted.lower(*arguments)


def traffic(module: hloom.Module) -> dict[str, float]:
    """Bytes received by kind."""
    return {t.name: t.bytes for t in summed(communications(module), lambda r: r.kind)}


def compared(case: Case, mesh: Mesh, with_memory: bool) -> dict[str, Any]:
    """Both sides of one program; bytes."""
    program = lowered(case, mesh)
    compiled = program.compile()
    theirs = hloom.parse(compiled.as_text())
    whole = hloom.parse(program.as_text())
    whole.use_spmd_partitioning = True
    if case.results is None:
        whole.allow_spmd_sharding_propagation_to_output = (True,)
    start = performance()
    cut = partitioned(whole)
    row: dict[str, Any] = {
        "seconds": performance() - start,
        "xla": traffic(theirs),
        "hloom": traffic(cut),
    }
    if with_memory:
        m = compiled.memory_analysis()
        row["xla_memory"] = m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes
        row["hloom_memory"] = hloom.compile(cut).memory.peak
    return row


def ratio(ours: float, theirs: float) -> float:
    """Of bytes, scalars left out: 1 where neither has any."""
    ours, theirs = max(0.0, ours - SLACK_BYTES), max(0.0, theirs - SLACK_BYTES)
    return ours / theirs if theirs else (math.inf if ours else 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", help="programs whose names hold one of these")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--json", default="")
    asked = parser.parse_args()
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    shown = Table("program", "XLA", "hloom", "ratio", "memory", "s", "by kind", box=None)
    rows: dict[str, Any] = {}
    for name, case in CASES.items():
        if asked.words and not any(w in name for w in asked.words):
            continue
        row = rows[name] = compared(case, mesh, asked.memory)
        ours, theirs = [sum(row[k].values()) for k in ("hloom", "xla")]
        row["ratio"] = ratio(ours, theirs)
        memory = f"{row['hloom_memory'] / row['xla_memory']:.2f}" if asked.memory else ""
        kinds = "; ".join(
            f"{k} {row['xla'].get(k, 0):,.0f} > {row['hloom'].get(k, 0):,.0f}"
            for k in sorted({*row["xla"], *row["hloom"]})
        )
        cells = (f"{theirs:,.0f}", f"{ours:,.0f}", f"{row['ratio']:.2f}", memory)
        shown.add_row(name, *cells, f"{row['seconds']:.2f}", kinds)
    Console(width=220).print(shown)
    ratios = [r["ratio"] for r in rows.values()]
    less, more = sum(x < 0.999 for x in ratios), sum(x > 1.001 for x in ratios)
    print(f"{len(ratios)} programs: {less} with fewer bytes than XLA's, {more} with more")
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
