"""`hloom run`: compile a program to native code and run it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from hloom import api
from hloom.tools import run_report
from hloom.tools.arrays import write_arrays
from hloom.tools.calibrate import measured_rates
from hloom.tools.compare import Difference, differences
from hloom.tools.evaluate import (
    TOP,
    Inputs,
    Top,
    evaluating,
    named_results,
    progress,
)
from hloom.tools.memory_plot import write_memory_plot
from hloom.tools.opt import OPTION_WORDS
from hloom.tools.owned import OwnedMemory
from hloom.tools.processes import gathered, joined, own_arguments, refuse_timing
from hloom.tools.run_arguments import (
    Arguments,
    Devices,
    ResultsOf,
    Values,
    ValuesOfArguments,
    arguments_of,
    shown_of,
)
from hloom.tools.saved import is_saved, opened
from hloom.tools.terminal import (
    WRONG_INPUT,
    AsJson,
    InputFile,
    Partitions,
    Replicas,
    Shapes,
    Spmd,
    guarded,
    read,
    warn,
    warn_of_elided,
    write_json,
)
from hloom.tools.timeline import write_trace

Call = Callable[[api.Executable, Arguments], list[Any]]
"""Runs a program: the result of each device."""
LONG_S = 0.5
"""Runs longer than this can be interrupted; that costs 50 us, which shorter ones are spared."""

Random = Annotated[
    int | None,
    typer.Option(
        metavar="SEED", help="Random arguments that make sense, also for a snapshot.", min=0
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the results to this .npz.")
]
Repeats = Annotated[int, typer.Option(help="Timed runs, after a first one.", min=0)]
Profile = Annotated[bool, typer.Option("--profile", help="Times of every kernel.")]
Roofline = Annotated[
    bool,
    typer.Option("--roofline", help="How far every kernel is from the least time it can take."),
]
Check = Annotated[
    bool, typer.Option("--check", help="Compare with the interpreter; exit code 1 if they differ.")
]
Threads = Annotated[
    int | None, typer.Option(help="Threads to use; default: what the system grants.", min=1)
]
MemoryPlot = Annotated[
    Path | None, typer.Option(help="Plot memory over time to this .html or .png.")
]
TargetName = Annotated[
    str,
    typer.Option(
        "--target",
        help="What to compile for: cpu, cpu:x86-64-v4, sim, sim:two-gpus, sim:FILE.toml.",
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option("--timeline", help="Write what simulated devices did when, for Perfetto."),
]
Delays = Annotated[
    int | None,
    typer.Option(metavar="SEED", help="Delay everything at random on simulated devices.", min=0),
]
LeftOut = Annotated[
    int | None,
    typer.Option(
        "--leave-out-wait", metavar="K", help="Let nobody wait for K on simulated devices.", min=0
    ),
]
Assignment = Annotated[
    str | None,
    typer.Option(
        "--device-assignment",
        metavar="IDS",
        help="The device of each partition, replica by replica: {{0,2},{1,3}}; or a mesh.toml.",
    ),
]
TimePasses = Annotated[
    bool, typer.Option("--time-passes", help="How long each stage and pass takes; compiles afresh.")
]


@guarded
def run(
    ctx: typer.Context,
    file: InputFile,
    inputs: Inputs = None,
    random: Random = None,
    fill: ValuesOfArguments = Values.random,
    output: Output = None,
    of: ResultsOf = Devices.all,
    repeats: Repeats = 0,
    profile: Profile = False,
    roofline: Roofline = False,
    top: Top = TOP,
    check: Check = False,
    threads: Threads = None,
    memory_plot: MemoryPlot = None,
    time_passes: TimePasses = False,
    replicas: Replicas = None,
    partitions: Partitions = None,
    spmd: Spmd = False,
    shapes: Shapes = "",
    target: TargetName = "cpu",
    timeline: Trace = None,
    delays: Delays = None,
    leave_out_wait: LeftOut = None,
    device_assignment: Assignment = None,
    values: Annotated[bool, typer.Option("--print", help="Print every value.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compile a program for this machine's CPU, or simulated devices, and run it on all of them.

    Its arguments are those of --inputs, a snapshot or --arguments; compiler options are taken, too.

    [bold]Examples[/bold]

      hloom run step.hlo --check --repeats 100 --roofline --threads 1

      mpirun -n 4 hloom run sharded.hlo --inputs arguments.npz -o results.npz --partitions 8

      hloom run step.hlo --target sim:two-gpus --timeline trace.json
    """
    words = ctx.meta.get(OPTION_WORDS, [])
    chosen = Chosen(words, target, time_passes, replicas, partitions, shapes, spmd)
    loaded, exe = _program(file, threads, chosen, check, memory_plot, roofline)
    exe.device_assignment = device_assignment or exe.device_assignment
    refuse_timing(joined(exe), profile=profile, roofline=roofline)
    module, arguments, origin, memory = arguments_of(loaded, inputs, random, fill)
    own = _own(exe, arguments, memory, any((repeats, check, profile, roofline)))
    simulator = simulated(exe, timeline, delays, leave_out_wait)
    first_s, times, results_here = timed(exe, own, repeats, simulator or _called)
    seen = simulator and simulator.written(timeline)
    expected = (module, arguments) if check else None
    if (shown := _shown(exe, results_here, expected, of, output)) is None:
        return
    _write(exe, shown[0], output, memory_plot)
    steps = profiled(exe, arguments, max(repeats, 1)) if profile else None
    limits = limits_of(exe, arguments, repeats) if roofline else None
    ran = run_report.Ran(exe, origin, first_s, times, *shown, steps, seen, limits)
    if not as_json:
        run_report.show_run(ran, values, time_passes, top, [memory_plot, timeline])
    _end(run_report.as_data(ran, values) if as_json else None, ran.differing)


def _shown(
    exe: api.Executable,
    results: list[api.Literal],
    expected: tuple[api.Module, Arguments] | None,
    of: Devices,
    output: Path | None,
) -> tuple[list[api.Literal], list[Difference] | None] | None:
    """The results that are asked for, and how all differ from what is expected; None in all
    processes but the first."""
    if expected is None:
        results = shown_of(results, of, exe.own_part, output)
    everywhere = gathered(exe.processes, results, exe.program.result_shape)
    if everywhere is None or expected is None:
        return None if everywhere is None else (everywhere, None)
    differing = _checked(*expected, everywhere)
    return shown_of(everywhere, of, range(len(everywhere)), output), differing


def _own(
    exe: api.Executable, arguments: Arguments, memory: OwnedMemory, is_needed: bool
) -> Arguments:
    """The arguments of the devices in this process, with their memory where nobody needs them
    later."""
    own = own_arguments(exe, arguments)
    if is_needed or exe.is_simulated:
        return own
    return [memory.handed_over(exe, each) for each in own]


def _end(data: Any, differing: list[Difference] | None) -> None:
    """Write JSON, where it is asked for; exit with the code for wrong results, where some are."""
    if data is not None:
        write_json(data)
    if differing is not None and not all(d.is_within for d in differing):
        raise typer.Exit(WRONG_INPUT)


class Chosen(NamedTuple):
    """What decides how a program is compiled."""

    words: list[str]
    """Options of the compiler."""
    target: str
    is_afresh: bool
    replicas: int | None
    partitions: int | None
    shapes: str
    spmd: bool


def _program(
    file: str,
    threads: int | None,
    chosen: Chosen,
    check: bool,
    memory_plot: Path | None,
    roofline: bool,
) -> tuple[api.Loaded, api.Executable]:
    """A file compiled, or loaded where it is compiled already, which leaves nothing to choose."""
    words, target, is_afresh, replicas, partitions, shapes, spmd = chosen
    if is_saved(file):
        switches = {
            "--check": check,
            "--memory-plot": memory_plot,
            "--roofline": roofline,
            "compiler options": words,
            "--target": target != "cpu",
            "--time-passes": is_afresh,
            "--replicas": replicas,
            "--partitions": partitions,
            "--shapes": shapes,
            "--spmd": spmd,
        }
        return opened(file, threads, switches)
    loaded = read(file, replicas, partitions, shapes, spmd)
    warn_of_elided(loaded.module)
    if check:
        api.settle_signs(loaded.module)
    return loaded, compiled(loaded.module, threads, words, target, is_afresh)


def _write(
    exe: api.Executable, results: list[api.Literal], output: Path | None, memory_plot: Path | None
) -> None:
    """The files that are asked for."""
    if output is not None:
        write_arrays(output, named_results(results))
    if memory_plot is not None:
        write_memory_plot(exe.memory, exe.program.name, memory_plot)


class Simulator:
    """Runs on simulated devices, and keeps what they did when in the first run."""

    def __init__(self, delays: int | None, left_out: int | None) -> None:
        self.delays, self.left_out = delays, left_out
        self.timeline: api.Timeline | None = None

    def __call__(self, exe: api.Executable, arguments: Arguments) -> list[Any]:
        results, seen = exe.simulate(arguments, delays=self.delays, leave_out_wait=self.left_out)
        self.timeline = self.timeline or seen
        return results

    def written(self, file: Path | None) -> api.Timeline | None:
        """What was seen, also as a file if one is asked for."""
        if file is not None and self.timeline is not None:
            write_trace(self.timeline, file)
        return self.timeline


def simulated(
    exe: api.Executable, file: Path | None, delays: int | None, left_out: int | None
) -> Simulator | None:
    """How the program is run on simulated devices; None where nothing is simulated."""
    if exe.is_simulated:
        return Simulator(delays, left_out)
    if any(x is not None for x in (file, delays, left_out)):
        raise api.UsageError(
            "--timeline, --delays and --leave-out-wait are for simulated devices",
            rule="target",
            hint="add --target sim, or --target sim:two-gpus",
        )
    return None


def compiled(
    module: api.Module,
    threads: int | None,
    words: list[str],
    target: str = "cpu",
    is_afresh: bool = False,
) -> api.Executable:
    """The program as native code; a line says which stage it is in while that takes long."""
    options = api.Options.parsed(words, api.Options.from_environment())
    with progress(f"compiling {module.name}") as stage:
        exe = api.compile_module(
            module, threads, options, target=target, progress=stage, cached=not is_afresh
        )
    for name in exe.kind.unread(options):
        warn(f"--{name} does nothing when compiling for a {target.upper()}")
    return exe


def timed(
    exe: api.Executable, arguments: Arguments, repeats: int, call: Call
) -> tuple[float, list[float], list[api.Literal]]:
    """Seconds of the first run, those of each further one, and the results of the first."""
    exe.interruptible = True
    with progress(f"running {exe.program.name}"):
        start = time.perf_counter()
        outcome = call(exe, arguments)
        first_s = time.perf_counter() - start
        results = [as_literal(each, exe.program.result_shape) for each in outcome]
        exe.interruptible = first_s > LONG_S
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            call(exe, arguments)
            times.append(time.perf_counter() - start)
    return first_s, times, results


def _called(exe: api.Executable, arguments: Arguments) -> list[Any]:
    """What it returns on each device."""
    alone = len(arguments) == 1 and exe.processes is None
    return [exe(*arguments[0])] if alone else exe.run_devices(arguments)


def profiled(exe: api.Executable, arguments: Arguments, repeats: int) -> list[list[Any]]:
    """The time of each step of each device, called alone."""
    with progress(f"timing the kernels of {exe.program.name}"):
        if len(arguments) == 1:
            return [exe.profile(*arguments[0], repeats=repeats)]
        return exe.profile_devices(arguments, repeats=repeats)


def limits_of(exe: api.Executable, arguments: Arguments, repeats: int) -> api.Roofline:
    """How far a program is from what the machine allows, whose rates are measured first: the best
    of so many runs, of ten where none were asked for."""
    if exe.is_simulated or len(arguments) > 1:
        raise api.UsageError(
            "--roofline times the steps of one device of this machine",
            rule="target",
            hint="--profile shows those of several; simulated devices take what their file says",
        )
    with progress("measuring the rates of this machine"):
        device = measured_rates(exe.target.device)
    with progress(f"timing the kernels of {exe.program.name}"):
        return exe.roofline(*arguments[0], repeats=repeats or 10, device=device)


def _checked(
    module: api.Module, arguments: Arguments, results: list[api.Literal]
) -> list[Difference]:
    with evaluating(f"evaluating {module.name} to compare with", module) as options:
        if len(results) == 1:
            return differences(results[0], api.evaluate(module, *arguments[0], options=options))
        expected = api.evaluate_lockstep(module, arguments, options=options)
    return [
        replace(d, name=f"{d.name}@{device}")
        for device, (result, reference) in enumerate(zip(results, expected))
        for d in differences(result, reference)
    ]


def as_literal(value: Any, shape: api.Shape) -> api.Literal:
    """What a program returned, as a literal of its result's shape."""
    if shape.is_tuple:
        parts = [as_literal(x, s) for x, s in zip(value, shape.elements)]
        return api.Literal(shape, None, tuple(parts))
    if shape.is_token:
        return api.Literal.token()
    return api.Literal.owning(np.asarray(value), shape)
