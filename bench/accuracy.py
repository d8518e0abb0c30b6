"""`python -m bench.accuracy [words]`: errors of long sums against f64, hloom and XLA:CPU.

Every case is one HLO program, run by both on the same arguments: random normal, random between 0
and 1, and all 0.1 (where roundings do not cancel). The reference is the same sum in extended
precision. The error is the largest difference over all results, divided by the sum of absolute
values of what was added, in units of the type's epsilon; below one epsilon all are equal. A row
loses where hloom's error is more than XLA's; the worst rows come first. Without jaxlib there is
only hloom's column. `--json FILE` keeps the numbers, `--quick` takes lengths up to 65,536.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import hloom
from bench import accuracy_cases as make
from bench import accuracy_products as product
from bench.accuracy_cases import KINDS, Case, epsilon, wide

# A ratio of errors that is called a loss: single results vary by about as much.
TOLERATED = 2.0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy", description=__doc__)
    parser.add_argument("words", nargs="*", help="words that names contain")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    parser.add_argument("--quick", action="store_true", help="lengths up to 65,536 only")
    parser.add_argument("--threads", type=int, default=2, help="threads of hloom")
    return parser.parse_args()


def cases(quick: bool) -> Iterator[Case]:
    """All programs."""
    for n in [1000, 4097, 65536] if quick else [1000, 4097, 65536, 1_000_003, 16_000_000]:
        yield from sums(n)
        yield from products(n)
        yield from other_sums(n)
    if not quick:
        yield make.reduction("f32", (100_000_000,), (0,))


def sums(n: int) -> Iterator[Case]:
    """Plain sums of n elements, along every axis."""
    yield make.reduction("f32", (n,), (0,))
    yield make.reduction("f32", (n, 4), (0,))
    yield make.reduction("f32", (3, n), (1,))
    yield make.reduction("f64", (n,), (0,))
    yield make.reduction("c64", (n,), (0,))
    if n <= 1 << 20:
        yield make.reduction("f32", (n, 40), (0,))
        yield make.reduction("f32", (2, n, 7), (1,))
        yield make.reduction("f32", (n, 3), (0, 1))
        yield make.reduction("f32", (8, n), (1,), (0, 1))
        yield make.reduction("f64", (n, 4), (0,))
        yield make.reduction("bf16", (n,), (0,))
        yield make.reduction("f16", (n, 4), (0,))
    if n <= 1 << 16:
        yield make.reduction("f32", (n, 700), (0,))
        yield make.reduction("f32", (2, n, 5, 3), (1, 3))
    yield make.fused((3, n), 1)
    yield make.fused((n, 4), 0)
    yield make.variadic((n,), 0)
    yield make.variadic((n, 5), 0)
    yield make.cumulative("f32", (n,), 0)
    yield make.cumulative("f32", (n,), 0, reverse=True)
    yield make.cumulative("f32", (n, 3), 0)
    yield make.cumulative("f64", (n,), 0)


def products(n: int) -> Iterator[Case]:
    """Products with n terms in each sum."""
    yield product.dot("f32", 1, n, 1)
    if n <= 1 << 20:
        yield product.dot("f32", 4, n, 4)
        yield product.dot("f32", 3, n, 40)
        yield product.dot("f32", 8, n, 8, "km,nk")
        yield product.dot("f64", 4, n, 5)
        yield product.dot("f32", 2, n, 3, batch=3)
    if n <= 1 << 16:
        yield product.dot("f32", 1, n, 300)
        yield product.dot("f32", 50, n, 50)
        yield product.dot("f32", 5, n, 120, "mk,nk")
        yield product.dot("f32", 100, n, 96, "km,kn")
        yield product.dot("bf16", 20, n, 20, out="f32")
        yield product.dot("bf16", 20, n, 20)
        yield product.dot("c64", 5, n, 6)


def other_sums(n: int) -> Iterator[Case]:
    """Sums inside something else."""
    yield make.variance((n,), 0)
    yield make.norm((n,), 0)
    yield make.log_sum_exp((n,), 0, softmax=False)
    if n <= 1 << 20:
        yield make.variance((n, 6), 0)
        yield make.norm((2, n), 1)
        yield make.log_sum_exp((2, n), 1, softmax=True)
        yield make.looped(3, n)
        for order in ("random", "sorted"):
            yield make.segment_sum(n, 8, 0, order)
            yield make.segment_sum(n, 100, 16, order)
    if n <= 1 << 16:
        yield make.window_sum((n + 50, 2), 0, n)
        yield product.convolution(n // 4 + 40, n // 4, 4, 8)
        yield product.attention(9, n, 32)
        yield product.weight_gradient(max(n // 1024, 1), 32, 8, 8)
        yield product.depthwise_gradient(max(n // 1024, 1), 32, 32)


def xla_runner(text: str) -> Callable[..., list[np.ndarray]]:
    """XLA:CPU's executable for HLO text, as a function of arrays."""
    import jax

    from bench.native import xla_program

    made, _ = xla_program(text)

    def run(*given: np.ndarray) -> list[np.ndarray]:
        placed = [jax.device_put(x, jax.devices("cpu")[0]) for x in given]
        return [np.asarray(x) for x in made.execute(placed)]

    return run


def hloom_runner(text: str, threads: int) -> Callable[..., list[np.ndarray]]:
    """hloom's executable for HLO text, as a function of arrays."""
    exe = hloom.compile(hloom.parse(text), threads=threads)

    def run(*given: np.ndarray) -> list[np.ndarray]:
        found = exe(*given)
        return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]

    return run


def error(case: Case, found: np.ndarray, given: list[np.ndarray]) -> float:
    """The largest error of a result, in epsilons of its type and of the sum of magnitudes."""
    exact, scale = case.exact(given)
    if not np.all(np.isfinite(np.abs(wide(found)))):
        return math.inf
    off = np.abs(wide(found).reshape(np.shape(exact)) - exact)
    return float(np.max(off / np.maximum(scale, 1e-300))) / epsilon(case.dtype)


def measured(case: Case, kind: str, threads: int, peer: bool) -> dict[str, Any]:
    """One row."""
    given = case.arguments(kind)
    row: dict[str, Any] = {"case": case.name, "length": case.length, "data": kind}
    row["hloom"] = error(case, hloom_runner(case.text, threads)(*given)[0], given)
    if peer:
        row["xla"] = error(case, xla_runner(case.text)(*given)[0], given)
        row["ratio"] = max(row["hloom"], 1.0) / max(row["xla"], 1.0)
    return row


def has_peer() -> bool:
    """Whether XLA:CPU is installed."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("JAX_ENABLE_X64", "1")
    try:
        import jaxlib  # noqa: F401
    except ImportError:
        return False
    return True


def table(rows: list[dict[str, Any]]) -> Table:
    """The rows, worst ratio first."""
    shown = Table(title="largest error, in epsilons of the sum of magnitudes")
    for name in ("case", "length", "data", "hloom", "xla", "ratio"):
        shown.add_column(name, justify="left" if name in ("case", "data") else "right")
    for r in sorted(rows, key=lambda r: (-r.get("ratio", 0.0), -r["hloom"])):
        style = "red" if r.get("ratio", 0.0) > TOLERATED else ""
        cells = [r["case"], f"{r['length']:,}", r["data"], f"{r['hloom']:.2f}"]
        cells += [f"{r[k]:.2f}" if k in r else "" for k in ("xla", "ratio")]
        shown.add_row(*cells, style=style)
    return shown


def main() -> None:
    """Measure, print, keep."""
    options = arguments()
    peer = has_peer()
    rows: list[dict[str, Any]] = []
    console = Console(width=max(Console().width, 110))
    for case in cases(options.quick):
        if options.words and not any(w in case.name for w in options.words):
            continue
        for kind in KINDS:
            try:
                rows.append(measured(case, kind, options.threads, peer))
            except Exception as problem:  # one case must not end the table
                console.print(f"{case.name} {kind}: {str(problem).splitlines()[0]}")
                rows.append({"case": case.name, "length": case.length, "data": kind})
                rows[-1]["hloom"] = math.inf
    console.print(table(rows))
    ratios = [r["ratio"] for r in rows if math.isfinite(r.get("ratio", math.inf))]
    if ratios:
        mean = math.exp(statistics.fmean(math.log(r) for r in ratios))
        losing = sum(r > TOLERATED for r in ratios)
        console.print(
            f"{len(ratios)} rows: geometric mean {mean:.3f} of XLA's error, "
            f"{losing} above {TOLERATED:g} times it"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
