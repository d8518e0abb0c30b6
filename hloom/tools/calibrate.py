"""`hloom calibrate`: what operations and bytes cost on one core of the machine at hand, measured.

Every number is a difference of two programs that differ in it alone, so that starts, loads and
stores cancel; each is the best of several rounds, in which all programs take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Annotated

import numpy as np
import typer

from hloom import api
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
LEAST_CALL_S = 2e-4
"""Runs are repeated within a measurement until it takes this long."""


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
    device = replace(known, costs=measured, sources=(*known.sources, "hloom calibrate"))
    if output is not None:
        api.write_whole(output, api.show_device(device).encode())
    if as_json:
        write_json(api.device_table(device))
        return
    _show(known.costs, measured)


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
    )


class _Programs:
    """Programs on two arrays of one size, on one core."""

    def __init__(self, size: int) -> None:
        self.size = size
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
        compiled = api.compile("\n".join([*lines, "}"]), threads=1)
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


def _best(programs: Sequence[Callable[[], None]], rounds: int) -> list[float]:
    """The shortest time of each in seconds; they take turns."""
    best = [float("inf")] * len(programs)
    calls = [1] * len(programs)
    for _ in range(rounds + 1):
        for k, program in enumerate(programs):
            start = perf_counter()
            for _ in range(calls[k]):
                program()
            took = perf_counter() - start
            best[k] = min(best[k], took / calls[k])
            if took < LEAST_CALL_S:
                calls[k] = min(calls[k] * 2, 1024)
    return best


def _rounded(seconds: float) -> float:
    """In nanoseconds, three digits."""
    return float(f"{seconds * 1e9:.3g}")


def _show(known: api.Costs, measured: api.Costs) -> None:
    made = table("costs of one core", "what", ">before", ">measured", "unit")
    for name in ("operation_ns", "element_ns", "byte_ns", "copy_byte_ns"):
        made.add_row(
            name.removesuffix("_ns"),
            f"{getattr(known, name):.3g}",
            f"{getattr(measured, name):.3g}",
            "ns",
        )
    for name, weight in measured.weights:
        made.add_row(name, f"{known.weight(name):.3g}", f"{weight:.3g}", "operations")
    print_table(made, console())
