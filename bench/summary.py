"""The tables of docs/performance.md: `python -m bench.summary bench/results/history/*.json`.

What several runs of `hloom bench` on one machine have written, as Markdown: means of each suite,
then what is slower than the best other, worst first. The last number of each program counts.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hloom.api import UsageError
from hloom.tools.bench_rows import (
    LOSS,
    Results,
    Row,
    mean_distance,
    mean_ratio,
    quantity_text,
    read,
)


def joined(runs: list[Results]) -> Results:
    """One run of several, in which the last number of each program counts."""
    rows = {(r.suite, r.name, r.quantity): r for run in runs for r in run.rows}
    failures = {(f.suite, f.name): f for run in runs for f in run.failures}
    return Results(runs[-1].machine, list(rows.values()), list(failures.values()))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def means(results: Results) -> list[str]:
    """A table of the suites; ratios are hloom's number over the best other's."""
    lines = [
        "| suite | what | rows | above 1.05 | geometric mean | worst | times the floor |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for (suite, quantity), rows in results.groups().items():
        ratios = [r.ratio for r in rows if r.ratio is not None]
        losing = sum(ratio > LOSS for ratio in ratios)
        numbers = mean_ratio(rows), max(ratios, default=None), mean_distance(rows)
        cells = [suite, quantity, str(len(rows)), str(losing), *map(_number, numbers)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def losses(results: Results, quantities: list[str], most: int) -> list[str]:
    """A table of so many rows that lose in one of these quantities, worst first."""
    lines = ["| suite | program | hloom | best other | ratio |", "|---|---|--:|--:|--:|"]
    losing = [row for row in results.losses() if row.quantity in quantities]
    lines += [f"| {' | '.join(_cells(row))} |" for row in losing[:most]]
    if losing[most:]:
        lines.append(
            f"| | {len(losing) - most} more | | | {_number(losing[most].ratio)} and less |"
        )
    return lines


def _cells(row: Row) -> list[str]:
    assert row.best is not None, "it loses to somebody"
    both = [quantity_text(value, row.unit) for value in (row.hloom, row.peers[row.best])]
    return [row.suite, row.name.replace("|", "\\|"), *both, _number(row.ratio)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.summary", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="results, the newest last")
    parser.add_argument("--most", type=int, default=40, help="losing rows of each table")
    args = parser.parse_args()
    try:
        results = joined([read(path) for path in args.files])
    except UsageError as error:
        parser.error(str(error))
    print(*[f"{key}: {value}" for key, value in results.machine.items()], sep=", ")
    print("", *means(results), sep="\n")
    for kinds in (["run", "dispatch"], ["compile", "warm"], ["planned", "measured"]):
        print("", f"{' and '.join(kinds)}:", "", *losses(results, kinds, args.most), sep="\n")
    for failure in results.failures:
        print(f"failed: {failure.suite} {failure.name}: {failure.why}")


if __name__ == "__main__":
    main()
