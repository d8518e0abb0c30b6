"""`hloom calibrate`: what operations and bytes cost on one core of the machine at hand, measured.

Every number is a difference of two programs that differ in it alone, so that starts, loads and
stores cancel; each is the best of several rounds, in which all programs take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter, thread_time
from typing import Annotated

import numpy as np
import typer

from hloom import api
from hloom.device.text import show_device
from hloom.tools.terminal import AsJson, console, guarded, print_table, table, write_json

NEAR_ELEMENTS = 8192
"""Arrays of f32 that stay in the nearest caches."""
FEW_ELEMENTS = 1024
FAR_ELEMENTS = 1 << 26
"""Arrays of f32 that no cache holds."""
COPIES = 4
UNARY = (
    "acos acosh asin asinh atanh cbrt cosh cosine erf exp2 exponential exponential-minus-one log "
    "log-plus-one log2 logistic rsqrt sine sinh sqrt tan tanh"
).split()
BINARY = ("atan2", "divide", "power", "remainder")
PRODUCT = 512
"""Rows, columns and depth of a product that runs at the rate of the multiply-adds."""
SHARES = 0.3, 0.8
"""Of a cache: arrays of these sizes differ in what moving bytes of it takes."""
RATE_ROUNDS = 6
CACHE_ROUNDS = 24
LONG_BYTES = 4 << 20
"""Beside what moving so much takes a call is nothing."""
LEAST_CALL_S = 2e-4
"""Runs are repeated within a measurement until it takes this long."""


ROUTINE_FLOATS = 1 << 18
ROUTINES = {
    "sort_byte_ns": """HloModule sort
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e { p = f32[262144] parameter(0) ROOT r = f32[262144] sort(p), dimensions={0}, to_apply=less }
""",
    "fft_byte_ns": """HloModule transform
ENTRY e {
  p = c64[64,2048] parameter(0)
  ROOT r = c64[64,2048] fft(p), fft_type=FFT, fft_length={2048}
}
""",
}
"""Programs that are one call of a routine, by the cost that says what it takes."""


@guarded
def calibrate(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the device to this file.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Of which the best counts.")] = 40,
    as_json: AsJson = False,
) -> None:
    """Measure what operations and bytes cost on one core of this machine.

    The device that is written can be named as a target; what is not measured keeps its value. Other
    work on the machine makes numbers larger.

    [bold]Examples[/bold]

      hloom calibrate -o mine.toml

      hloom run module.hlo --target cpu:mine.toml
    """
    known = api.host_device()
    measured = measured_costs(known.costs, rounds, FAR_ELEMENTS)
    device = measured_rates(replace(known, costs=measured), FAR_ELEMENTS)
    if output is not None:
        api.write_whole(output, show_device(device).encode())
    if as_json:
        write_json(api.device_table(device))
        return
    _show(known.costs, measured)
    _show_rates(known, device)


def measured_rates(
    known: api.Device, far_elements: int = FAR_ELEMENTS // 4, threads: int | None = None
) -> api.Device:
    """A device with the rates of this machine: its clock, by what a product of f32 takes, and the
    bandwidths of each cache and of memory, by adding vectors. Half a second.

    `threads`: how many use memory, None for one on each core.

    The nearest cache is taken to give a vector of 64 bytes a cycle: calling a program takes as long
    as adding all that it holds."""
    product = _product(PRODUCT)
    [seconds] = _best([product], RATE_ROUNDS)
    peak = dict(known.compute.operations_per_cycle).get("f32", known.compute.vector_bytes / 4)
    clock_hz = float(f"{2 * PRODUCT**3 / seconds / peak:.3g}")
    caches = [
        replace(c, bandwidth_bytes_per_s=_cache_rate(c.size_bytes // c.units, 64 * clock_hz))
        if c.level > 1
        else replace(c, bandwidth_bytes_per_s=64 * clock_hz)
        for c in known.caches
    ]
    far = _Programs(far_elements, threads)
    [far_s] = _best([far.chain("", False, 1)], RATE_ROUNDS, alone=threads == 1)
    # Two that are read and one that is written.
    moved_bytes = 4 * (2 + known.costs.written_factor) * far_elements
    rate = float(f"{moved_bytes / far_s:.3g}")
    spaces = tuple([replace(m, bandwidth_bytes_per_s=rate) for m in known.memory_spaces])
    return replace(
        known,
        compute=replace(known.compute, clock_hz=clock_hz),
        caches=tuple(caches),
        memory_spaces=spaces,
        sources=(*known.sources, "hloom calibrate"),
    )


def _cache_rate(size_bytes: int, most: float) -> float:
    """Bytes a second that one core reads and writes of a cache, `most` where something else kept
    the machine busy."""
    sizes = [int(share * size_bytes) // 12 for share in SHARES]
    few, many = _best([_Programs(n).chain("", False, 1) for n in sizes], CACHE_ROUNDS)
    if 12 * sizes[1] >= LONG_BYTES:
        return min(most, float(f"{12 * max(sizes[0] / few, sizes[1] / many):.3g}"))
    if many <= few:
        return most
    return min(most, float(f"{12 * (sizes[1] - sizes[0]) / (many - few):.3g}"))


def _product(n: int) -> Callable[[], None]:
    """Runs a product of two square matrices on one core."""
    of = f"f32[{n},{n}]"
    text = f"HloModule product\nENTRY e {{\n a = {of} parameter(0)\n b = {of} parameter(1)\n"
    text += f" ROOT r = {of} dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}"
    compiled = api.compile(text, threads=1)
    arrays = [_aligned(n * n) for _ in range(3)]

    def run() -> None:
        *read, written = [a.ctypes.data for a in arrays]
        compiled.run_at(read, [written])

    return run


def measured_costs(known: api.Costs, rounds: int, far_elements: int) -> api.Costs:
    """The costs with all that can be measured by running programs; the others as they were."""
    near = _Programs(NEAR_ELEMENTS)
    few, many = near.chain("", False), near.chain("", False, 2 * COPIES)
    names = [(name, name in BINARY) for name in (*UNARY, *BINARY)]
    plain = {binary: near.chain("", binary) for binary in (False, True)}
    short = _Programs(FEW_ELEMENTS).chain("", False)
    timed = [few, many, *plain.values(), *[near.chain(name, binary) for name, binary in names]]
    *seconds, short_s = _best([*timed, short], rounds)
    # Four more times a maximum and an addition.
    operation = max((seconds[1] - seconds[0]) / (2 * COPIES * NEAR_ELEMENTS), 1e-13)
    weights = {}
    for (name, binary), s in zip(names, seconds[4:]):
        each = (s - seconds[2 + binary]) / (COPIES * NEAR_ELEMENTS)
        weights[name] = round(max(each / operation, 1.0), 1)
    with_operations = (seconds[0] - short_s) / (NEAR_ELEMENTS - FEW_ELEMENTS)
    element = max(with_operations - 2 * COPIES * operation, operation)
    far = _Programs(far_elements)
    [far_s] = _best([far.chain("", False, 1)], max(rounds // 8, 3))
    byte = far_s / (12 * far_elements)
    return replace(
        known,
        operation_ns=_rounded(operation),
        element_ns=_rounded(element),
        byte_ns=_rounded(byte),
        copy_byte_ns=_rounded(2 * byte),
        weights=tuple(sorted(weights.items())),
        **_routines(known, rounds),
    )


def _routines(known: api.Costs, rounds: int) -> dict[str, float]:
    """What sorting, transforming and looking for the largest costs: each cost as many times what
    is known of it as a program takes what is expected of it."""
    programs = [api.compile(text, threads=1) for text in ROUTINES.values()]
    arrays = [[_aligned(ROUTINE_FLOATS) for _ in range(2)] for _ in programs]
    runs = []
    for program, (read, *written) in zip(programs, arrays):
        read[:] = np.random.default_rng(0).random(ROUTINE_FLOATS, np.float32)
        places = [x.ctypes.data for x in (read, *written)]
        runs.append(lambda program=program, places=places: program.run_at(places[:1], places[1:]))
    costs = {}
    for name, program, seconds in zip(ROUTINES, programs, _best(runs, max(rounds // 4, 3))):
        expected = sum([t.elapsed_ns(known, 1) for t in program.program.thunks])
        costs[name] = float(f"{getattr(known, name) * seconds * 1e9 / expected:.3g}")
    return costs


class _Programs:
    """Programs on two arrays of one size, on one core, or on all."""

    def __init__(self, size: int, threads: int | None = 1) -> None:
        self.size, self.threads = size, threads
        generator = np.random.default_rng(0)
        self.arrays = [_aligned(size) for _ in range(3)]
        for a in self.arrays[:2]:
            a[:] = generator.random(size, np.float32) * 0.8 + 0.1

    def chain(self, opcode: str, binary: bool, copies: int = COPIES) -> Callable[[], None]:
        """Runs `q + op(max(p, c0)) + op(max(p, c1)) + ...`; without an opcode, without `op`."""
        n = self.size
        lines = [f"HloModule chain\nENTRY e {{\n p = f32[{n}] parameter(0)"]
        lines.append(f" t0 = f32[{n}] parameter(1)")
        for k in range(copies):
            lines.append(f" c{k} = f32[] constant({0.11 + 0.7 * k / copies:.4f})")
            lines.append(f" b{k} = f32[{n}] broadcast(c{k}), dimensions={{}}")
            lines.append(f" m{k} = f32[{n}] maximum(p, b{k})")
            if opcode:
                second = ", t0" if binary else ""
                lines.append(f" o{k} = f32[{n}] {opcode}(m{k}{second})")
            root = "ROOT " if k == copies - 1 else ""
            lines.append(f" {root}t{k + 1} = f32[{n}] add(t{k}, {'o' if opcode else 'm'}{k})")
        compiled = api.compile("\n".join([*lines, "}"]), threads=self.threads)
        arrays = self.arrays  # which live as long as what runs on them

        def run() -> None:
            *read, written = [a.ctypes.data for a in arrays]
            compiled.run_at(read, [written])

        return run


def _aligned(size: int) -> np.ndarray:
    """An array of f32 at 64 bytes."""
    whole = np.zeros(4 * size + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + 4 * size].view(np.float32)


def _best(programs: Sequence[Callable[[], None]], rounds: int, alone: bool = True) -> list[float]:
    """The shortest time of each in seconds; they take turns. `alone`: each on one thread, by the
    clock of that thread, which stands still while others have its core."""
    clock = thread_time if alone else perf_counter
    best = [float("inf")] * len(programs)
    calls = [1] * len(programs)
    for _ in range(rounds + 1):
        for k, program in enumerate(programs):
            start = clock()
            for _ in range(calls[k]):
                program()
            took = clock() - start
            best[k] = min(best[k], took / calls[k])
            if took < LEAST_CALL_S:
                calls[k] = min(calls[k] * 2, 1024)
    return best


def _rounded(seconds: float) -> float:
    """In nanoseconds, three digits."""
    return float(f"{seconds * 1e9:.3g}")


def _show_rates(known: api.Device, measured: api.Device) -> None:
    rich_table = table("rates", "what", ">before", ">measured", "unit")
    clocks = [d.compute.clock_hz / 1e9 for d in (known, measured)]
    rich_table.add_row("clock", *[f"{c:.3g}" for c in clocks], "GHz")
    for a, b in zip(known.caches, measured.caches):
        pair = [f"{c.bandwidth_bytes_per_s / 1e9:.3g}" for c in (a, b)]
        rich_table.add_row(f"cache {a.level}, one core", *pair, "GB/s")
    memory = [d.memory_spaces[0].bandwidth_bytes_per_s / 1e9 for d in (known, measured)]
    rich_table.add_row("memory, all cores", *[f"{m:.3g}" for m in memory], "GB/s")
    print_table(rich_table, console())


def _show(known: api.Costs, measured: api.Costs) -> None:
    rich_table = table("costs of one core", "what", ">before", ">measured", "unit")
    for name in ("operation_ns", "element_ns", "byte_ns", "copy_byte_ns"):
        rich_table.add_row(
            name.removesuffix("_ns"),
            f"{getattr(known, name):.3g}",
            f"{getattr(measured, name):.3g}",
            "ns",
        )
    for name, weight in measured.weights:
        rich_table.add_row(name, f"{known.weight(name):.3g}", f"{weight:.3g}", "operations")
    print_table(rich_table, console())
