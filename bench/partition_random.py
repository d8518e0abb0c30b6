"""Bytes of random partitioned programs beside XLA's: `python -m bench.partition_random`.

Programs of `tests/fuzz/partition_sketch.py`, on meshes of 2 to 32 devices, go through jaxlib's
built-in backend and through hloom, as they are annotated. Of both the same analysis counts the
bytes that a device receives. Programs that XLA refuses or fails at are left out, and named.

With `--memory` both compile them, and the bytes that a device needs are compared, too: those of
arguments, results and temporaries as each compiler plans them.

    python -m bench.partition_random --first 8000 --count 200 [--kinds loop,pair] [--memory]
        [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
from pathlib import Path
from typing import Any

import hloom
from bench.partition import ratio, traffic  # says how many devices JAX is to have: eight
from hloom import api
from hloom.ir.text import show_module
from hloom.passes.partition.whole_program import partitioned
from tests.fuzz import partition_sketch_calls, partition_sketch_ops  # noqa: F401  kinds of steps
from tests.fuzz.partition_sketch import Sketch

MOST_DEVICES = 32
MOST_SECONDS = 40
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={MOST_DEVICES}"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"


def compiled_by_xla(module: hloom.Module) -> Any:
    """What jaxlib's built-in backend makes of a module for as many devices as it has partitions."""
    import jax
    import numpy as np
    from jaxlib import _hlo, xla_client  # pyright: ignore[reportAttributeAccessIssue]
    from jaxlib._jax import mlir

    count = module.num_partitions
    proto = _hlo.hlo_module_from_text(show_module(module)).as_serialized_hlo_module_proto()
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, count
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = 1, count
    build.use_spmd_partitioning = True
    options.device_assignment = xla_client.DeviceAssignment.create(np.arange(count).reshape(1, -1))
    devices = xla_client.DeviceList(tuple(jax.devices()[:count]))
    client = jax.devices()[0].client
    return client.compile_and_load(mlir.hlo_to_stablehlo(proto), devices, options)


def partitioned_by_xla(seed: int, kinds: tuple[str, ...]) -> tuple[str, int, str]:
    """The text of what XLA makes of a program for each of its devices, and the bytes that one needs
    for it; or why it makes nothing."""
    import jax

    try:
        compiled = compiled_by_xla(Sketch(seed, kinds).module())
    except jax.errors.JaxRuntimeError as error:
        return "", 0, re.sub(r"\s+", " ", str(error))[:120]
    m = compiled.get_compiled_memory_stats()
    size = m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes
    return compiled.hlo_modules()[0].to_string(), size - m.alias_size_in_bytes, ""


def row_of(
    seed: int, kinds: tuple[str, ...], text: str, xla_memory: int, with_memory: bool
) -> dict[str, Any]:
    """Both sides of one program, of which XLA's is a text."""
    theirs = traffic(hloom.parse(text))
    cut = partitioned(Sketch(seed, kinds).module())
    ours = traffic(cut)
    sums = sum(theirs.values()), sum(ours.values())
    row = {"seed": seed, "xla": theirs, "hloom": ours, "ratio": ratio(sums[1], sums[0])}
    if with_memory:
        row["xla_memory"], row["hloom_memory"] = xla_memory, hloom.compile(cut).memory.peak
    return row


def rows_of(
    seeds: range, kinds: tuple[str, ...] = (), with_memory: bool = False
) -> list[dict[str, Any]]:
    """All rows; `said` where XLA has nothing to compare. XLA runs in a process of its own, some
    programs at a time, which it may end."""
    rows: list[dict[str, Any]] = []
    left = list(seeds)
    while left:
        context = multiprocessing.get_context("spawn")
        with context.Pool(1, maxtasksperchild=50) as pool:
            while left:
                seed = left.pop(0)
                try:
                    answer = pool.apply_async(partitioned_by_xla, (seed, kinds))
                    text, memory, said = answer.get(MOST_SECONDS)
                except multiprocessing.TimeoutError:
                    rows.append({"seed": seed, "said": "XLA ended the process, or takes long"})
                    break
                row = {"seed": seed, "said": said}
                rows.append(row if said else row_of(seed, kinds, text, memory, with_memory))
    return rows


def show_memory(rows: list[dict[str, Any]]) -> None:
    """The bytes that a device needs, where they are over 1 % more than XLA's; all in all."""
    for r in rows:
        r["memory"] = ratio(r["hloom_memory"], r["xla_memory"])
    more = sorted([r for r in rows if r["memory"] > 1.01], key=lambda r: -r["memory"])
    for r in more:
        print(
            f"{r['seed']:6} memory {r['memory']:.2f}  {r['xla_memory']:,} > {r['hloom_memory']:,}"
        )
    less = sum(r["memory"] < 0.99 for r in rows)
    theirs, ours = [sum(r[k] for r in rows) for k in ("xla_memory", "hloom_memory")]
    print(
        f"memory of a device: {less} less than XLA's by over 1 %, {len(more)} more; "
        f"{ours / max(theirs, 1):.2f} of its bytes in all"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--kinds", default="", help="names of steps; others are not drawn")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--json", default="")
    asked = parser.parse_args()
    kinds = tuple(filter(None, asked.kinds.split(",")))
    rows = rows_of(range(asked.first, asked.first + asked.count), kinds, asked.memory)
    found = [r for r in rows if "said" not in r]
    for r in sorted([r for r in found if r["ratio"] > 1.001], key=lambda r: -r["ratio"]):
        kinds = "; ".join(
            f"{k} {r['xla'].get(k, 0):,.0f} > {r['hloom'].get(k, 0):,.0f}"
            for k in sorted({*r["xla"], *r["hloom"]})
        )
        print(f"{r['seed']:6} {r['ratio']:5.2f}  {kinds}")
    for r in rows:
        if "said" in r:
            print(f"{r['seed']:6} left out: {r['said']}")
    less = sum(r["ratio"] < 0.999 for r in found)
    more = sum(r["ratio"] > 1.001 for r in found)
    theirs, ours = [sum(sum(r[k].values()) for r in found) for k in ("xla", "hloom")]
    print(
        f"{len(found)} programs: {less} with fewer bytes than XLA's, {len(found) - less - more} "
        f"with as many, {more} with more; {ours / max(theirs, 1):.2f} of its bytes in all"
    )
    if asked.memory:
        show_memory(found)
    if asked.json:
        api.write_whole(Path(asked.json), (json.dumps(rows, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
