"""`python -m bench.run [words]`: run the contests whose names contain a word, print a table.

Numbers go to bench/results/<time>-<commit>.json; `--against FILE` shows an earlier file beside
them. Goals that are missed are shown as such: a losing row is published too.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import bench.hlo  # noqa: F401  (registers the contests)
from bench.measure import CONTESTS, Contest, Outcome, outcomes

RESULTS = Path(__file__).parent / "results"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("words", nargs="*", help="run contests whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each contestant")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for one contest")
    parser.add_argument("--against", type=Path, help="an earlier result file to compare with")
    parser.add_argument("--list", action="store_true", help="list the contests and stop")
    parser.add_argument("--strict", action="store_true", help="fail when a goal is missed")
    return parser.parse_args()


def commit() -> str:
    """The short hash of what is measured, with + when files differ from it."""
    try:
        command = ["git", "describe", "--always", "--dirty=+"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """What must be known about where the numbers come from."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def chosen(words: list[str]) -> list[Contest]:
    """The contests whose name contains one of the words; all when there are none."""
    return [c for c in CONTESTS.values() if not words or any(word in c.name for word in words)]


def number(value: float) -> str:
    """Three or four significant digits, with separators."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def ratio_to_peer(row: Outcome, rows: list[Outcome]) -> str:
    """How many times better hloom is than the best peer of the same contest; below 1 is worse."""
    peers = [r.median for r in rows if r.contest == row.contest and r.contestant != "hloom"]
    if row.contestant != "hloom" or not peers:
        return ""
    if row.more_is_better:
        return f"{row.median / max(peers):.2f}x"
    return f"{min(peers) / row.median:.2f}x"


def ratio_to_earlier(row: Outcome, earlier: dict[tuple[str, str], float]) -> str:
    """How many times better than in the earlier file."""
    old = earlier.get((row.contest, row.contestant))
    if not old or not row.median:
        return ""
    return f"{row.median / old if row.more_is_better else old / row.median:.2f}x"


def table(rows: list[Outcome], earlier: dict[tuple[str, str], float]) -> Table:
    """All outcomes, one line each."""
    made = Table(title="hloom bench: medians of interleaved rounds")
    for title in ("contest", "who", "median", "low", "high", "unit", "goal", "vs peer", "vs then"):
        numeric = title in ("median", "low", "high", "goal", "vs peer", "vs then")
        made.add_column(title, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        goal = row.goal
        if row.met is not None:
            goal += " [green]met[/]" if row.met else " [red]missed[/]"
        made.add_row(
            row.contest if row.contestant == "hloom" else "",
            row.contestant,
            number(row.median),
            number(row.low),
            number(row.high),
            row.unit,
            goal,
            ratio_to_peer(row, rows),
            ratio_to_earlier(row, earlier),
        )
    return made


def write(rows: list[Outcome]) -> Path:
    """Write a result file and return where it is."""
    about = machine()
    RESULTS.mkdir(parents=True, exist_ok=True)
    stamp = about["time"].replace(":", "").replace("-", "")
    path = RESULTS / f"{stamp}-{about['commit'].rstrip('+')}.json"
    content = {"machine": about, "rows": [row.as_json() for row in rows]}
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def read_earlier(path: Path | None) -> dict[tuple[str, str], float]:
    """Medians of an earlier result file, by contest and contestant."""
    if path is None:
        return {}
    rows = json.loads(path.read_text())["rows"]
    return {(row["contest"], row["contestant"]): row["median"] for row in rows}


def main() -> int:
    """Run; the exit status is 1 when a contest broke, or with --strict a goal was missed."""
    options = arguments()
    # Written to a file, the table keeps its width rather than that of an imagined terminal.
    console = Console() if sys.stdout.isatty() else Console(width=140)
    rows: list[Outcome] = []
    broken = 0
    earlier = read_earlier(options.against)
    for which in chosen(options.words):
        if options.list:
            console.print(f"{which.name:28} {which.doc}", highlight=False)
            continue
        console.print(f"[dim]{which.name}: {which.doc}[/]", highlight=False)
        try:
            rows += outcomes(which, options.rounds, options.budget)
        except Exception as error:  # one broken contest must not hide the others
            broken += 1
            console.print(f"[red]{which.name} broke: {type(error).__name__}: {error}[/]")
    if options.list:
        return 0
    console.print(table(rows, earlier))
    console.print(f"load of the machine: {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")
    console.print(f"written to {write(rows)}", highlight=False)
    missed = [row.contest for row in rows if row.met is False]
    if missed:
        console.print(f"[red]goals missed: {', '.join(missed)}[/]")
    return 1 if broken or (options.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
