"""Bytes communicated and memory of partitioned programs, beside XLA's: `python -m bench.partition`.

Every program of `partition_programs.py` is lowered by JAX for eight devices. jaxlib's built-in
backend compiles it and prints what each device runs; hloom partitions the same StableHLO. Of both
the same analysis counts the bytes that a device receives. XLA:CPU makes all-reduces of
reduce-scatters, so those of both are counted as what they are. Memory is that of both compilers'
plans: arguments, results and temporaries (`--memory`, which compiles for longer).

    python -m bench.partition [words] [--memory] [--values] [--json FILE]
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

import bench.partition_matrices
import bench.partition_steps
import bench.partition_trainings
import bench.partition_users
import bench.partition_uses  # noqa: F401  these keep their programs in CASES
import hloom
from bench.partition_programs import CASES, Case
from hloom.analysis.communication import communications, summed
from hloom.analysis.cost import module_cost
from hloom.base.clock import performance
from hloom.ir.copy import copy_module
from hloom.ir.values.sharding_data import join_array
from hloom.passes.partition.whole_program import partitioned, split_arguments

SLACK_BYTES = 64
"""Scalars are no loss."""
WRONG = 1e-4
"""What results may differ by, as a part of the largest number."""


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
    with jax.set_mesh(mesh):
        return jitted.lower(*arguments)


def traffic(module: hloom.Module) -> dict[str, float]:
    """Bytes received by kind."""
    return {t.name: t.bytes for t in summed(communications(module), lambda r: r.kind)}


def mesh_of(case: Case) -> Mesh:
    """The eight devices along the axes of a program."""
    return Mesh(np.array(jax.devices()).reshape(*case.mesh.values()), tuple(case.mesh))


def meetings(module: hloom.Module) -> float:
    """How many times devices meet in one run."""
    return sum([r.runs for r in communications(module)])


def is_cut_by_itself(module: hloom.Module) -> bool:
    """Whether a program has regions of parts: what it computes on one device is not known."""
    calls = [i for i in module.instructions() if i.opcode == "custom-call"]
    return any(i.attrs.custom_call_target == "SPMDFullToShardShape" for i in calls)


def work(module: hloom.Module) -> float:
    """Operations of one device in one run, but for those that only move data."""
    return module_cost(module).total.flops


def difference(whole: hloom.Module, cut: hloom.Module, executable: hloom.Executable) -> float:
    """The largest difference between what devices compute together and what one computes, as a
    part of the largest number; infinite where something is a number on one side only."""
    alone = copy_module(whole)
    alone.use_spmd_partitioning = False
    arguments = hloom.random_arguments(alone, 3)
    expected = list(hloom.evaluate(alone, *arguments).leaves())
    results = executable.run_devices(split_arguments(cut, arguments))
    worst = 0.0
    for k, leaf in enumerate(expected):
        sharding = cut.spmd_output_sharding
        parts = [np.asarray(r[k] if isinstance(r, list | tuple) else r) for r in results]
        own = None if sharding is None else sharding.for_leaf(k)
        x = np.asarray(leaf.array)
        y = parts[0] if own is None else join_array(parts, own, x.shape)
        if np.array_equal(x, y, equal_nan=x.dtype.kind == "f"):
            continue
        x, y = x.astype(np.float64), y.astype(np.float64)
        scale = np.abs(x[np.isfinite(x)]).max(initial=0.0) or 1.0
        apart = np.abs(x - y)[~(np.isnan(x) & np.isnan(y)) & (x != y)]
        worst = max(worst, float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0) / scale))
    return worst


def compared(case: Case, with_memory: bool, with_values: bool = False) -> dict[str, Any]:
    """Both sides of one program; bytes."""
    mesh = mesh_of(case)
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
        "xla_work": work(theirs),
        "hloom_work": work(cut),
        "whole_work": work(whole),
    }
    if with_memory or with_values:
        executable = hloom.compile(cut)
        m = compiled.memory_analysis()
        row["xla_memory"] = m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes
        row["hloom_memory"] = executable.memory.peak
        row["xla_meetings"] = meetings(theirs)
        row["hloom_meetings"] = meetings(executable.stages.module)
        if with_values and not is_cut_by_itself(whole):
            row["difference"] = difference(whole, cut, executable)
    return row


def ratio(ours: float, theirs: float) -> float:
    """Of bytes, scalars left out: 1 where neither has any."""
    ours, theirs = max(0.0, ours - SLACK_BYTES), max(0.0, theirs - SLACK_BYTES)
    return ours / theirs if theirs else (math.inf if ours else 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", help="programs whose names hold one of these")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--values", action="store_true", help="run them, and compare")
    parser.add_argument("--json", default="")
    asked = parser.parse_args()
    shown = Table("program", "XLA", "hloom", "ratio", "memory", "work", "by kind", box=None)
    rows: dict[str, Any] = {}
    for name, case in CASES.items():
        if asked.words and not any(w in name for w in asked.words):
            continue
        row = rows[name] = compared(case, asked.memory, asked.values)
        ours, theirs = [sum(row[k].values()) for k in ("hloom", "xla")]
        row["ratio"] = ratio(ours, theirs)
        memory = f"{row['hloom_memory'] / row['xla_memory']:.2f}" if asked.memory else ""
        share = f"{row['hloom_work'] / row['xla_work']:.2f}" if row["xla_work"] else ""
        if row.get("difference", 0.0) > WRONG:
            print(f"{name}: differs from one device by {row['difference']:.2g} of the largest")
        kinds = "; ".join(
            f"{k} {row['xla'].get(k, 0):,.0f} > {row['hloom'].get(k, 0):,.0f}"
            for k in sorted({*row["xla"], *row["hloom"]})
        )
        cells = (f"{theirs:,.0f}", f"{ours:,.0f}", f"{row['ratio']:.2f}", memory, share)
        shown.add_row(name, *cells, kinds)
    Console(width=220).print(shown)
    ratios = [r["ratio"] for r in rows.values()]
    less, more = sum(x < 0.999 for x in ratios), sum(x > 1.001 for x in ratios)
    print(f"{len(ratios)} programs: {less} with fewer bytes than XLA's, {more} with more")
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
