"""`hloom bench`: how fast programs run and compile, beside XLA:CPU and others, losses first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hloom import api
from hloom.tools import bench_rows
from hloom.tools.bench_children import SOURCES, BenchOptions, lines
from hloom.tools.bench_page import page
from hloom.tools.bench_rows import Results, Row, quantity_text
from hloom.tools.evaluate import progress
from hloom.tools.opt import OPTION_WORDS
from hloom.tools.terminal import (
    WRONG_INPUT,
    AsJson,
    console,
    guarded,
    print_table,
    table,
    write_json,
)

SUITES = {
    "ops": "about 400 operations at real sizes, as JAX writes them: listed ones and drawn ones",
    "loops": "about 130 scans and whiles",
    "models": "parts of models and training steps, through JAX",
    "peers": "whole models beside PyTorch, ONNX Runtime and OpenVINO, as far as they are installed",
    "compile": "compilations of real programs, cold",
    "dispatch": "calls of tiny functions, through JAX",
    "memory": "what a run takes beside its arguments, measured",
}
FEW = 25
"""Rows from which on only losses and means are shown, unless --all asks for more."""

What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE|SUITE]...",
        help="Programs, and suites of hloom's sources: " + ", ".join(SUITES) + ".",
        show_default=False,
    ),
]
Words = Annotated[str, typer.Option("-k", metavar="WORD", help="Only rows of this word.")]
Rounds = Annotated[int, typer.Option(help="Runs of each contestant, in turns.", min=1)]
Seconds = Annotated[float, typer.Option(help="Most seconds of runs for one program.", min=0.01)]
Seed = Annotated[int, typer.Option(help="Of what the suites ops and loops draw.", min=0)]
Threads = Annotated[
    int | None, typer.Option(help="Cores for each contestant; default: all there are.", min=1)
]
Timeout = Annotated[float, typer.Option(help="Most seconds for one program.", min=1.0)]
NoPeer = Annotated[bool, typer.Option("--no-peer", help="Measure hloom alone.")]
Page = Annotated[Path | None, typer.Option("--page", help="Write plots and tables to this .html.")]
History = Annotated[
    Path | None, typer.Option(help="Keep the numbers in this folder, and plot those of before.")
]
Against = Annotated[
    Path | None, typer.Option(help="Results of before (.json of a --history folder) to compare.")
]


@guarded
def bench(
    ctx: typer.Context,
    what: What = None,
    word: Words = "",
    rounds: Rounds = 30,
    seconds: Seconds = 1.0,
    seed: Seed = 0,
    threads: Threads = None,
    timeout: Timeout = 900.0,
    no_peer: NoPeer = False,
    show_all: Annotated[bool, typer.Option("--all", help="Show every row.")] = False,
    page_file: Page = None,
    history: History = None,
    against: Against = None,
    as_json: AsJson = False,
) -> None:
    """Time programs beside XLA:CPU (where jaxlib is installed): runs, cold compilation, memory.

    All contestants get the same program and arguments and take turns in one process, one program
    after another; medians count. Below 1, hloom is better. What loses comes first. Compiler
    options are taken too, with xla_ or without.

    [bold]Examples[/bold]

      hloom bench step.hlo model.mlir --threads 1

      hloom bench ops loops --history results --page bench.html

      hloom bench models -k GPT --against results/20261126T210000Z.json
    """
    options = ctx.meta.get(OPTION_WORDS, [])
    chosen = BenchOptions(word, rounds, seconds, seed, timeout, not no_peer, options)
    files, suites = _named(what or [], options, no_peer)
    before = bench_rows.read(against) if against is not None else None
    if page_file is not None and page_file.suffix != ".html":
        raise api.UsageError(f"--page {page_file}: the name ends in .html")
    _use_cores(threads)
    results = Results(bench_rows.this_machine())
    with progress("measuring") as stage:
        for line in lines(files, suites, chosen):
            results.add(line)
            stage(f"{line['suite']}: {line['name']}")
    kept = bench_rows.written(results, history) if history is not None else None
    if page_file is not None:
        earlier = bench_rows.history(history) if history is not None else [results]
        api.write_whole(page_file, page(results, earlier).encode())
    if as_json:
        write_json(results.as_data())
    else:
        _show(results, before, show_all)
        for path in filter(None, (kept, page_file)):
            typer.echo(f"wrote {path}")
    if results.failures and not results.rows:
        raise typer.Exit(WRONG_INPUT)


def _named(what: list[str], options: list[str], no_peer: bool) -> tuple[list[str], list[str]]:
    """Files and suites; `UsageError` for what is neither."""
    if not what:
        raise api.UsageError(
            "nothing to measure", hint=f"name program files, or suites: {', '.join(SUITES)}"
        )
    suites = [w for w in what if w in SUITES]
    files = [w for w in what if w not in SUITES]
    for name in files:
        if not Path(name).is_file():
            close = api.did_you_mean(name, SUITES)
            raise api.UsageError(f"{name} is no file and no suite", hint=close or None)
    if suites and not (SOURCES / "bench" / "suites.py").is_file():
        raise api.UsageError(
            f"the suite {suites[0]} is in hloom's sources, and this is an installed package",
            hint="clone hloom and run make bench there, or name program files",
        )
    if suites and (options or no_peer):
        raise api.UsageError("compiler options and --no-peer are for program files, not for suites")
    return files, suites


def _use_cores(count: int | None) -> None:
    """Bind this process, and so its children, to so many of its cores: all contestants keep to
    that."""
    if count is None:
        return
    if not hasattr(os, "sched_setaffinity"):
        raise api.UsageError("this system does not bind processes to cores: leave out --threads")
    cores = sorted(os.sched_getaffinity(0))
    if count > len(cores):
        raise api.UsageError(f"--threads {count}: there are {len(cores)} cores")
    os.sched_setaffinity(0, cores[:count])


def _show(results: Results, before: Results | None, show_all: bool) -> None:
    """Losses, then what failed, then means; all rows where they are few or asked for."""
    if losses := results.losses():
        _show_rows(f"slower or larger than the best other: {len(losses)}", losses, before)
    for failure in results.failures:
        typer.echo(f"no numbers: {failure.suite}: {failure.name}: {failure.why}")
    if not results.rows:
        return
    if show_all or len(results.rows) <= FEW:
        by_ratio = sorted(results.rows, key=lambda r: -(r.ratio or 0.0))
        _show_rows("all, worst first", by_ratio, before)
    _show_means(results)


def _show_rows(title: str, rows: list[Row], before: Results | None) -> None:
    earlier = bench_rows.numbers_of(before.rows if before is not None else [])
    columns = ["suite", "name", "what", ">hloom", "best other", ">its", ">ratio", ">of floor"]
    rich_table = table(title, *columns, *([">vs then"] if before is not None else []), "note")
    for row in rows:
        peer = row.best
        cells = [row.suite, row.name, row.quantity, quantity_text(row.hloom, row.unit), peer or ""]
        cells.append("" if peer is None else quantity_text(row.peers[peer], row.unit))
        cells += [_number(row.ratio), _number(row.distance)]
        if before is not None:
            old = earlier.get((row.suite, row.name, row.quantity))
            cells.append(_number(row.hloom / old if old else None))
        rich_table.add_row(*cells, row.note)
    print_table(rich_table, console())


def _show_means(results: Results) -> None:
    """One line for each suite and quantity."""
    columns = "suite what >rows >losses >ratio,_geometric_mean >worst >of_floor".split()
    rich_table = table("hloom to the best other, below 1 is better", *[
        c.replace("_", " ") for c in columns
    ])  # fmt: skip
    for (suite, quantity), rows in results.groups().items():
        ratios = [r.ratio for r in rows if r.ratio is not None]
        losing = sum(r > bench_rows.LOSS for r in ratios)
        worst = max(ratios, default=None)
        mean, distance = bench_rows.mean_ratio(rows), bench_rows.mean_distance(rows)
        counts = (f"{len(rows):,}", f"{losing:,}")
        rich_table.add_row(suite, quantity, *counts, *map(_number, (mean, worst, distance)))
    print_table(rich_table, console())


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 100 else f"{value:,.0f}"
