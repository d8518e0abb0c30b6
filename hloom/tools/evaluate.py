"""`hloom eval`: run a program in the interpreter and show what it computes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hloom import api
from hloom.ir.text.expression import shape_short
from hloom.tools import communication
from hloom.tools.arrays import (
    arguments_per_device,
    leaves,
    pieces,
    read_arrays,
    write_arrays,
)
from hloom.tools.terminal import (
    AsJson,
    InputFile,
    Partitions,
    Replicas,
    Shapes,
    Spmd,
    bytes_text,
    console,
    guarded,
    print_table,
    read,
    table,
    time_text,
    warn_of_elided,
    write_json,
    write_text,
)

FEW = 8
"""Elements of a result that are shown in the table."""
MOST_MEMORY = 0.85
"""The share of the machine's memory that random arguments may take."""
MOST_DEVICES = 8
"""Devices whose results are shown apart."""


WHILE_LIMIT = 1_000_000
"""Iterations of one loop."""
TOP = 20
"""Rows of a table, where nothing else is asked for."""
Top = Annotated[int, typer.Option(help="Rows of each table; 0 is all.", min=0)]
Inputs = Annotated[
    Path | None, typer.Option(help="Arguments in an .npz: by parameter name or arg_0, arg_1, ...")
]


@guarded
def evaluate(
    file: InputFile,
    inputs: Inputs = None,
    random: Annotated[
        int | None,
        typer.Option(
            metavar="SEED", help="Random arguments that make sense, also for a snapshot.", min=0
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the results to this .npz.")
    ] = None,
    values: Annotated[bool, typer.Option("--print", help="Print every value.")] = False,
    replicas: Replicas = None,
    partitions: Partitions = None,
    spmd: Spmd = False,
    shapes: Shapes = "",
    while_limit: Annotated[
        int, typer.Option(help="Iterations that one loop may take.", min=1)
    ] = WHILE_LIMIT,
    top: Top = TOP,
    as_json: AsJson = False,
) -> None:
    """Run a program in the interpreter: slow, and right.

    The arguments are those of --inputs, else a snapshot's own, else random ones: indices in range,
    divisors that are not 0, matrices that can be factorised. A program for several replicas or
    partitions runs on all of them in lockstep.

    [bold]Examples[/bold]

      hloom eval step.hlo

      hloom eval step.hlo --inputs arguments.npz --output results.npz

      hloom eval sharded.hlo --partitions 4 --random 7 --print
    """
    loaded = read(file, replicas, partitions, shapes, spmd)
    module = checked(loaded.module)
    count = module.replica_count * module.num_partitions
    module, arguments, origin = split_where_sharded(loaded, inputs, random, count)
    start = time.monotonic()
    with evaluating(f"evaluating {module.name}", module, while_limit) as options:
        if count == 1:
            results = [api.evaluate(module, *arguments[0], options=options)]
        else:
            results = api.evaluate_lockstep(module, arguments, options=options)
    seconds = time.monotonic() - start
    if output is not None:
        write_arrays(output, named_results(results))
    difference = None
    if origin == "snapshot" and loaded.result is not None and count == 1:
        difference = largest_difference(results[0], loaded.result)
    if as_json:
        write_json(as_data(module, results, origin, seconds, difference, values))
        return
    show(module.name, results, f"{origin}, {time_text(seconds)}", values, top)
    if difference is not None:
        typer.echo(f"largest difference from the snapshot's own result: {difference:.3g}")


def checked(module: api.Module) -> api.Module:
    """The module, when it is valid and says for how many devices it is."""
    api.verify(module)
    api.check_devices(module)
    warn_of_elided(module)
    return module


def split_where_sharded(
    loaded: api.Loaded, inputs: Path | None, seed: int | None, count: int
) -> tuple[api.Module, Sequence[Sequence[api.Literal]], str]:
    """What each device runs and is given, and where its arguments came from: parts of whole ones
    where the program is to be partitioned."""
    module = communication.each_device(loaded.module)
    if module is loaded.module:
        return (module, *chosen_arguments(loaded, inputs, seed, count))
    whole, origin = chosen_arguments(loaded, inputs, seed, 1)
    return module, api.split_arguments(module, whole[0]), f"{origin}, split by their shardings"


def chosen_arguments(
    loaded: api.Loaded,
    inputs: Path | None,
    seed: int | None,
    count: int,
    empty: Callable[[api.Shape, tuple[int, ...]], np.ndarray] | None = None,
) -> tuple[Sequence[Sequence[api.Literal]], str]:
    """The arguments of every device, and where they came from; `empty` has memory for them."""
    module = loaded.module
    if inputs is not None:
        if seed is not None:
            raise api.UsageError("--inputs and --random exclude each other")
        arrays = read_arrays(inputs)
        return arguments_per_device(module, arrays, count, str(inputs)), str(inputs)
    if seed is None and loaded.partitions:
        partitions = loaded.partitions
        if len(partitions) not in (1, count):
            raise api.EvalError(
                f"the snapshot has arguments for {len(partitions)} devices, "
                f"the program runs on {count}",
                hint="--partitions, or --random SEED",
            )
        return partitions if len(partitions) == count else partitions * count, "snapshot"
    most = most_memory_for(module)
    memory = {} if empty is None else {"empty": empty}
    one = api.random_arguments(module, seed or 0, most, **memory)
    return [one] * count, f"random arguments, seed {seed or 0}"


def most_memory_for(module: api.Module) -> int:
    """The bytes that arguments may take on this machine; `EvalError` where these take more."""
    need = api.module_statistics(module, 0).parameter_bytes
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > (most := int(MOST_MEMORY * have)):
        raise api.EvalError(
            f"the arguments of {module.name} take {bytes_text(need)}, but this machine has "
            f"{bytes_text(have)}"
        )
    return most


@dataclass
class Counted:
    """How far an evaluation is: it is told of every instruction that runs."""

    entry: api.Computation
    run: int = 0
    of_entry: int = 0

    def __call__(self, i: api.Instruction) -> None:
        self.run += 1
        if i.parent is self.entry:
            self.of_entry += 1

    def __str__(self) -> str:
        total = len(self.entry.instructions)
        return f"{self.run:,} instructions, {self.of_entry:,} of the entry's {total:,}"


@contextmanager
def evaluating(
    what: str, module: api.Module, while_limit: int = WHILE_LIMIT
) -> Iterator[api.EvalOptions]:
    """The options to evaluate with, while a terminal shows how many instructions have run."""
    options = api.EvalOptions(while_iteration_limit=while_limit)
    if module.entry_or_none is None or not is_watched():
        yield options
        return
    counted = Counted(module.entry)
    with progress(what, counted):
        yield replace(options, on_instruction=counted)


def is_watched() -> bool:
    """Whether somebody sees standard error while it is written."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def progress(what: str, state: object = "") -> Iterator[Callable[[str], None]]:
    """A spinner with the time gone by, on a terminal only; call it to say what is done now.

    `state` is shown as it is at the time, a few times a second.
    """
    if not is_watched():
        yield lambda stage: None
        return
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class State(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(str(state), style="dim")

    columns = (SpinnerColumn(), TextColumn("{task.description}"), State(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what)
        yield lambda stage: progress.update(task, description=f"{what}: {stage}")


def named_results(results: list[api.Literal]) -> dict[str, np.ndarray]:
    """The arrays of all results: `result`, `result.0`; with `@D` for several devices."""
    arrays = {}
    for device, result in enumerate(results):
        for name, _, array in leaves(result, "result"):
            arrays[f"{name}@{device}" if len(results) > 1 else name] = array
    return arrays


def equal(a: api.Literal, b: api.Literal) -> bool:
    pairs = zip(leaves(a, ""), leaves(b, ""))
    return all(x.shape == y.shape and x.tobytes() == y.tobytes() for (_, _, x), (_, _, y) in pairs)


def show(name: str, results: list[api.Literal], origin: str, values: bool, top: int) -> None:
    """A table of the results of each device, or of one where all are the same: of so many."""
    same = len(results) > 1 and all(equal(results[0], r) for r in results[1:])
    shown = results[:1] if same else results[:MOST_DEVICES]
    where = f", the same on all {len(results)} devices" if same else ""
    rich_table = table(
        f"{name} ({origin}{where})",
        "result",
        "shape",
        ">smallest",
        ">largest",
        ">mean",
        "values",
    )
    rows = [
        (f"{name}@{device}" if len(shown) > 1 else name, shape, array)
        for device, result in enumerate(shown)
        for name, shape, array in leaves(result, "result")
    ]
    for row, shape, array in rows[: top or None]:
        s = summary(array)
        numbers = [s["smallest"], s["largest"], s["mean"]]
        rich_table.add_row(row, shape_short(shape), *map(number, numbers), note(s, array))
    if len(rows) > top > 0:
        rich_table.add_row("", f"{len(rows) - top:,} more", "", "", "", "--top 0 shows all")
    print_table(rich_table, console())
    if len(shown) < len(results) and not same:
        typer.echo(f"... and {len(results) - len(shown)} more devices")
    if values:
        for device, result in enumerate(shown):
            mark = f"@{device}" if len(shown) > 1 else ""
            for name, shape, array in leaves(result, "result"):
                text = np.array2string(array, threshold=array.size + 1, max_line_width=100)
                write_text(f"\n{name}{mark} {shape_short(shape)}\n{text}")


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def note(s: dict[str, Any], array: np.ndarray) -> str:
    """The values themselves where they are few; else what is odd about them."""
    odd = [f"{s[what]:,} {what}" for what in ("nan", "inf") if s[what]]
    if array.size <= FEW:
        odd.insert(0, few_text(array))
    return ", ".join(odd)


def few_text(array: np.ndarray) -> str:
    """`[1, 2.5, inf]`, nested as the array is."""
    if array.ndim:
        return f"[{', '.join(few_text(part) for part in array)}]"
    value = array.item() if array.dtype.kind in "biufc" else float(array)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float | complex) else str(value)


def summary(array: np.ndarray) -> dict[str, Any]:
    """Smallest, largest and mean of what is finite; how much is not. Complex: by magnitude."""
    smallest, largest, total, count, nan, inf = np.inf, -np.inf, 0.0, 0, 0, 0
    for piece in pieces(array):
        numbers = np.abs(piece) if np.iscomplexobj(piece) else piece
        with np.errstate(all="ignore"):
            numbers = numbers.astype(np.float64)
            finite = numbers[np.isfinite(numbers)]
        nan += int(np.isnan(numbers).sum())
        inf += int(np.isinf(numbers).sum())
        count += finite.size
        if finite.size:
            smallest = min(smallest, float(finite.min()))
            largest = max(largest, float(finite.max()))
            total += float(finite.sum())
    return {
        "smallest": smallest if count else None,
        "largest": largest if count else None,
        "mean": total / count if count else None,
        "nan": nan,
        "inf": inf,
    }


def largest_difference(a: api.Literal, b: api.Literal) -> float:
    """The largest difference of two results, infinite where only one of them is a number."""
    largest = 0.0
    for (_, _, x), (_, _, y) in zip(leaves(a, ""), leaves(b, "")):
        if x.shape != y.shape:
            return float("inf")
        wide = np.complex128 if np.iscomplexobj(x) else np.float64
        with np.errstate(all="ignore"):
            gap = np.abs(x.astype(wide) - y.astype(wide))
        same = (x == y) | ((x != x) & (y != y))
        gap = np.where(same, 0, np.where(np.isnan(gap), np.inf, gap))
        largest = max(largest, float(gap.max(initial=0)))
    return largest


def as_data(
    module: api.Module,
    results: list[api.Literal],
    origin: str,
    seconds: float,
    difference: float | None,
    values: bool,
) -> dict[str, Any]:
    """Results as plain data: statistics always, values where few or asked for."""
    rows = []
    for device, result in enumerate(results):
        for name, shape, array in leaves(result, "result"):
            row = {"name": name, "device": device, "shape": shape.text_without_layout}
            row |= summary(array)
            if values or array.size <= FEW:
                row["values"] = plain(array)
            rows.append(row)
    return {
        "ok": True,
        "module": module.name,
        "arguments": origin,
        "seconds": seconds,
        "difference_from_snapshot": None if difference is None else plain_number(difference),
        "results": rows,
    }


def plain(array: np.ndarray) -> Any:
    """Nested lists of what JSON has: infinities and NaN as text, complex as pairs."""
    if array.ndim:
        return [plain(part) for part in array]
    value = array.item() if array.dtype.kind in "biufc" else float(array)
    if isinstance(value, complex):
        return [plain_number(value.real), plain_number(value.imag)]
    return plain_number(value) if isinstance(value, float) else value


def plain_number(value: float) -> float | str:
    return value if np.isfinite(value) else str(value)
