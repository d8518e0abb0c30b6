"""Kernels without products, against XLA:CPU in the same process: `python -m bench.kernels.loops`.

Runs of both take turns on the same inputs and the medians are compared; a ratio under 1 is in
our favour. XLA gets fresh result buffers, as it does in practice. `-k WORD` chooses programs,
`--rounds N` how often. `XLA_FLAGS=--xla_cpu_max_isa=AVX2` holds both to AVX2.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import hloom
from bench.kernels.programs import PROGRAMS
from hloom.api import Device, host_device
from hloom.compiler import compile_module
from hloom.targets.roofline import floor_s
from hloom.tools.calibrate import measured_rates

Run = Callable[[], object]


def xla_program(text: str, inputs: Sequence[Any]) -> tuple[Run, float]:
    """A function that runs the program in XLA:CPU until it is done, and seconds of compilation."""
    import jax
    from jaxlib import _hlo, _jax  # type: ignore[attr-defined]
    from jaxlib import xla_client as client

    device = jax.devices("cpu")[0]
    module = _hlo.hlo_module_from_text(text)
    computation = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    portable = _jax.mlir.xla_computation_to_mlir_module(computation)
    start = time.perf_counter()
    devices = _jax.DeviceList((device,))
    loaded = device.client.compile_and_load(portable, devices, client.CompileOptions())
    took = time.perf_counter() - start
    there = [jax.device_put(x, device) for x in inputs]

    def run() -> object:
        results = loaded.execute_sharded(there).disassemble_into_single_device_arrays()
        for parts in results:
            for x in parts:
                x.block_until_ready()
        return results

    return run, took


def leaves(literal: Any) -> list[Any]:
    """The arrays of an argument."""
    return [part.array for part in literal.leaves() if part.shape.is_array]


class Compared(NamedTuple):
    """Median seconds of hloom and of XLA, the least that this machine allows, and what compiling
    took."""

    ours: float
    theirs: float
    floor: float
    our_compile_s: float
    their_compile_s: float

    @property
    def compiling(self) -> str:
        """For the end of a line."""
        ours, theirs = self.our_compile_s * 1e3, self.their_compile_s * 1e3
        return f"compile {ours:6.0f} ms, xla {theirs:6.0f}"


@cache
def rates() -> Device:
    """This machine, its rates measured."""
    return measured_rates(host_device())


def compare(text: str, rounds: int, budget_s: float, inputs: Sequence[Any] = ()) -> Compared:
    """One program on both; random arguments if none given."""
    module = hloom.parse(text)
    inputs = inputs or [x for a in hloom.random_arguments(module) for x in leaves(a)]
    start = time.perf_counter()
    executable = compile_module(module, options=hloom.Options.from_environment(), cached=False)
    ours = time.perf_counter() - start
    theirs, their_compile = xla_program(text, inputs)
    runs: dict[str, Run] = {"hloom": lambda: executable(*inputs), "xla": theirs}
    times: dict[str, list[float]] = {who: [] for who in runs}
    for run in runs.values():
        run()
    begin = time.perf_counter()
    for done in range(rounds):
        if done >= 3 and time.perf_counter() - begin > budget_s:
            break
        for who, run in runs.items():
            start = time.perf_counter()
            kept = run()
            times[who].append(time.perf_counter() - start)
            del kept
    medians = {who: statistics.median(times[who]) for who in runs}
    floor = floor_s(executable, rates())
    return Compared(medians["hloom"], medians["xla"], floor, ours, their_compile)


def argument_parser(doc: str | None) -> argparse.ArgumentParser:
    """What every bench of kernels can be told."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("-k", default="", help="only programs whose name contains this")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1.0, help="most for one program")
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line; what XLA and JAX log is not shown."""
    args = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    logging.disable(logging.WARNING)
    return args


def arguments(doc: str | None) -> argparse.Namespace:
    """The command line of a bench with no options of its own."""
    return parsed(argument_parser(doc))


def main() -> None:
    args = arguments(__doc__)
    ratios = []
    for name, text in PROGRAMS.items():
        if args.k not in name:
            continue
        found = compare(text, args.rounds, args.seconds)
        ours, theirs, floor = found[:3]
        ratios.append(ours / theirs)
        print(
            f"{name:44s} {ours * 1e3:10.3f} ms   xla {theirs * 1e3:10.3f}   "
            f"ratio {ours / theirs:6.2f}   floor {floor * 1e3:7.3f} ({ours / floor:5.1f})   "
            f"{found.compiling}",
            flush=True,
        )
    if ratios:
        print(f"geometric mean of {len(ratios)}: {np.exp(np.mean(np.log(ratios))):.3f}")


if __name__ == "__main__":
    main()
