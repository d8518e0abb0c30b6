"""`python -m bench.accuracy [words]`: errors of long sums against f64, hloom and XLA:CPU.

Every case is one HLO program, run by both on the same arguments: random normal, random between 0
and 1, and all equal (where roundings do not cancel; the mean of several numbers). The reference is
the same sum in extended precision. The error is the largest difference over all results, divided by
the sum of absolute values of what was added, in units of the type's epsilon; below one epsilon all
are equal. A row loses where hloom's error is more than XLA's; the worst rows come first. Without
jaxlib there is only hloom's column. `--json FILE` keeps the numbers, `--markdown FILE` writes the
table of the documentation, `--quick` takes lengths up to 100,003, `--long` adds 100,000,000.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import hloom
from bench import accuracy_cases as make
from bench import accuracy_jax
from bench import accuracy_products as product
from bench.accuracy_cases import EQUAL, KINDS, Case, epsilon, wide

# A ratio of errors that is called a loss: single results vary by about as much.
TOLERATED = 2.0
# One is no multiple of a power of two, by chance of which roundings of equal numbers meet well.
LENGTHS = (1000, 100_003, 10_000_000)
LONG = 100_000_000


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy", description=__doc__)
    parser.add_argument("words", nargs="*", help="words that names contain")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    parser.add_argument("--markdown", type=Path, help="write the table of the documentation here")
    parser.add_argument("--quick", action="store_true", help="lengths up to 100,003 only")
    parser.add_argument("--long", action="store_true", help="100,000,000 too")
    parser.add_argument("--threads", type=int, default=2, help="threads of hloom")
    return parser.parse_args()


def cases(options: argparse.Namespace, peer: bool) -> Iterator[Case]:
    """All programs."""
    lengths = LENGTHS[:2] if options.quick else LENGTHS
    for n in lengths:
        yield from sums(n)
        yield from products(n)
        yield from other_sums(n)
        if peer:
            yield from accuracy_jax.cases(n)
    if options.long:
        yield make.reduction("f32", (LONG,), (0,))
        yield make.reduction("f32", (LONG // 4, 4), (0,))
        yield make.cumulative("f32", (LONG,), 0)
        yield make.segment_sum(LONG, 100, 0, "random")
        yield product.dot("f32", 1, LONG, 1)


def sums(n: int) -> Iterator[Case]:
    """Plain sums of n elements, along every axis."""
    yield make.reduction("f32", (n,), (0,))
    yield make.reduction("f32", (n, 4), (0,))
    yield make.reduction("f32", (3, n), (1,))
    yield make.reduction("f64", (n,), (0,))
    yield make.reduction("c64", (n // 2,), (0,))
    if n <= 1 << 17:
        yield make.reduction("f32", (n, 40), (0,))
        yield make.reduction("f32", (2, n, 7), (1,))
        yield make.reduction("f32", (n, 3), (0, 1))
        yield make.reduction("f32", (8, n), (1,), (0, 1))
        yield make.reduction("f64", (n, 4), (0,))
        yield make.reduction("bf16", (n,), (0,))
        yield make.reduction("f16", (n, 4), (0,))
    if n <= 1 << 17:
        yield make.reduction("f32", (n, 70), (0,))
        yield make.reduction("f32", (2, n, 5, 3), (1, 3))
    yield make.fused((3, n), 1)
    yield make.fused((n, 4), 0)
    yield make.variadic((n,), 0)
    yield make.variadic((n // 2, 5), 0)
    yield make.cumulative("f32", (n,), 0)
    yield make.cumulative("f32", (n,), 0, reverse=True)
    yield make.cumulative("f32", (n, 3), 0)
    yield make.cumulative("f64", (n,), 0)


def products(n: int) -> Iterator[Case]:
    """Products with n terms in each sum."""
    yield product.dot("f32", 1, n, 1)
    if n <= 1 << 17:
        yield product.dot("f32", 4, n, 4)
        yield product.dot("f32", 3, n, 40)
        yield product.dot("f32", 8, n, 8, "km,nk")
        yield product.dot("f64", 4, n, 5)
        yield product.dot("f32", 2, n, 3, batch=3)
    if n <= 1 << 17:
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
    if n <= 1 << 17:
        yield make.variance((n, 6), 0)
        yield make.norm((2, n), 1)
        yield make.log_sum_exp((2, n), 1, softmax=True)
        yield make.looped(3, n)
        for order in ("random", "sorted"):
            yield make.segment_sum(n, 8, 0, order)
            yield make.segment_sum(n, 100, 16, order)
    if n <= 1 << 17:
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


def error(case: Case, found: np.ndarray, exact: np.ndarray, scale: np.ndarray) -> float:
    """The largest error of a result, in epsilons of its type and of the sum of magnitudes."""
    numbers = wide(found)
    if not np.all(np.isfinite(np.abs(numbers))):
        return math.inf
    off = np.abs(numbers.reshape(np.shape(exact)) - exact)
    return float(np.max(off / np.maximum(scale, 1e-300))) / epsilon(case.dtype)


def measured(case: Case, threads: int, peer: bool) -> Iterator[dict[str, Any]]:
    """One row for each kind of data."""
    runners = {"hloom": hloom_runner(case.text, threads)}
    if peer:
        runners["xla"] = xla_runner(case.text)
    for kind in KINDS:
        off: dict[str, list[float]] = {name: [] for name in runners}
        for number in EQUAL if kind == "equal" else EQUAL[:1]:
            given = case.arguments(kind, number)
            exact, scale = case.exact(given)
            for name, run in runners.items():
                off[name].append(error(case, run(*given)[0], exact, scale))
        row: dict[str, Any] = {"case": case.name, "length": case.length, "data": kind}
        row |= {name: statistics.fmean(errors) for name, errors in off.items()}
        if peer:
            both_overflow = row["hloom"] == row["xla"] == math.inf
            row["ratio"] = (
                max(row["hloom"], 1.0) / max(row["xla"], 1.0) if not both_overflow else 1.0
            )
        yield row


def has_peer() -> bool:
    """Whether XLA:CPU is installed."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("JAX_ENABLE_X64", "1")
    try:
        import jaxlib  # noqa: F401
    except ImportError:
        return False
    return True


def by_loss(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, losing ones first."""
    return sorted(rows, key=lambda r: (-r.get("ratio", 0.0), -r["hloom"]))


def cells(r: dict[str, Any]) -> list[str]:
    """What the table says of a row."""
    numbers = [f"{r[k]:.2f}" if k in r else "" for k in ("hloom", "xla", "ratio")]
    return [r["case"], f"{r['length']:,}", r["data"], *numbers]


COLUMNS = ("case", "length", "data", "hloom", "xla", "ratio")


def table(rows: list[dict[str, Any]]) -> Table:
    """The rows, worst ratio first."""
    shown = Table(title="largest error, in epsilons of the sum of magnitudes")
    for name in COLUMNS:
        shown.add_column(name, justify="left" if name in ("case", "data") else "right")
    for r in by_loss(rows):
        shown.add_row(*cells(r), style="red" if r.get("ratio", 0.0) > TOLERATED else "")
    return shown


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table of the documentation: every losing row, and of each case the longest and worst."""
    chosen = [r for r in rows if r.get("ratio", 0.0) > 1.1]
    named: set[str] = {family(r["case"]) for r in chosen}
    for r in sorted(rows, key=lambda r: (-r["length"], -r["hloom"])):
        if family(r["case"]) not in named:
            named.add(family(r["case"]))
            chosen.append(r)
    lines = [" | ".join(["", *COLUMNS, ""]).strip(), "|---|--:|---|--:|--:|--:|"]
    lines += [" | ".join(["", *cells(r), ""]).strip() for r in by_loss(chosen)]
    return "\n".join(lines) + "\n"


def family(name: str) -> str:
    """The name of a case without its numbers."""
    return re.sub(r"\d+", "", name)


def summary(rows: list[dict[str, Any]]) -> str:
    """How the two compare over all rows."""
    ratios = [r["ratio"] for r in rows if math.isfinite(r.get("ratio", math.inf))]
    if not ratios:
        return ""
    mean = math.exp(statistics.fmean(math.log(r) for r in ratios))
    losing = sum(r > TOLERATED for r in ratios)
    return (
        f"{len(ratios)} rows: geometric mean {mean:.3f} of XLA's error, "
        f"{losing} above {TOLERATED:g} times it"
    )


def main() -> None:
    """Measure, print, keep."""
    options = arguments()
    peer = has_peer()
    rows: list[dict[str, Any]] = []
    console = Console(width=max(Console().width, 110))
    for case in cases(options, peer):
        if options.words and not any(w in case.name for w in options.words):
            continue
        try:
            rows += measured(case, options.threads, peer)
        except Exception as problem:  # one case must not end the table
            console.print(f"{case.name}: {str(problem).splitlines()[0]}")
            rows.append({"case": case.name, "length": case.length, "data": ""})
            rows[-1]["hloom"] = math.inf
    console.print(table(rows))
    console.print(summary(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    if options.markdown:
        options.markdown.write_text(markdown(rows))


if __name__ == "__main__":
    main()
