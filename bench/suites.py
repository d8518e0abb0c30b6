"""The suites of `hloom bench`: `python -m bench.suites ops -k roll` prints a line of JSON a row.

Each suite is what a module of this folder measures, as rows of `hloom/tools/bench_rows.py`:
so all of them come with one table of losses, one page and one history. Contestants take turns.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "hloom,cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from hloom.tools.bench_rows import Failure, Row

Line = Row | Failure
XLA = "XLA:CPU"
WARM_UP = "HloModule w\nENTRY e { x = f32[8] parameter(0) ROOT y = f32[8] add(x, x) }"
SHOWN = 200
"""Characters of what a program fails with."""


def _kernels(suite: str, programs: Any, options: argparse.Namespace) -> Iterator[Line]:
    """Programs with a name, a text and inputs, on both compilers."""
    import jax
    import numpy as np

    from bench.kernels.loops import compare

    compare(WARM_UP, 1, 0.0)  # what is imported and set up once is no program's
    for name, draw in programs:
        if options.k not in name:
            continue
        try:
            inputs, text_of = draw()
            wide = any(x.dtype in (np.float64, np.int64, np.complex128) for x in inputs)
            with jax.enable_x64(wide):
                found = compare(text_of(), options.rounds, options.seconds, inputs)
        except Exception as error:  # what one of them cannot do is a line that says so
            yield Failure(suite, name, f"{type(error).__name__}: {error}"[:SHOWN])
            continue
        yield Row(suite, name, "run", "s", found.ours, {XLA: found.theirs}, found.floor)
        compiling = {XLA: found.their_compile_s}
        yield Row(suite, name, "compile", "s", found.our_compile_s, compiling)


def _listed(operations: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Operations of a list, whose inputs are made when their turn has come."""
    for operation in operations:

        def draw(operation: Any = operation) -> Any:
            inputs = operation.inputs()
            return inputs, lambda: operation.text(inputs)

        yield operation.name, draw


def _drawn(options: argparse.Namespace, suite: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    from bench.kernels.drawn import drawn

    for operation in drawn(options.seed, options.k, suite):
        yield operation.name, lambda operation=operation: (operation.inputs, operation.text)


def ops(options: argparse.Namespace) -> Iterator[Line]:
    from bench.kernels.operations import operations

    yield from _kernels("ops", _listed(operations()), options)
    yield from _kernels("ops", _drawn(options, "operations"), options)


def loops(options: argparse.Namespace) -> Iterator[Line]:
    from bench.kernels.iterations import iterations

    yield from _kernels("loops", _listed(iterations()), options)
    yield from _kernels("loops", _drawn(options, "loops"), options)


def models(options: argparse.Namespace) -> Iterator[Line]:
    from bench.kernels.blocks import blocks
    from bench.models import CASES, measured

    for name, case in CASES.items():
        if options.k not in name:
            continue
        try:
            found = measured(case, options.rounds, max(options.seconds, 2.0))
        except Exception as error:
            yield Failure("models", name, f"{type(error).__name__}: {error}"[:SHOWN])
            continue
        yield Row("models", name, "run", "s", found["hloom"], {XLA: found["cpu"]})
        compiling = {XLA: found["cpu compile"]}
        yield Row("models", name, "compile", "s", found["hloom compile"], compiling)
    yield from _kernels("models", _listed(blocks()), options)


def peers(options: argparse.Namespace) -> Iterator[Line]:
    from bench.peer_models import MODELS
    from bench.peers import measured

    for model in MODELS:
        if options.k not in model.name:
            continue
        try:
            found = measured(model)
        except Exception as error:
            yield Failure("peers", model.name, f"{type(error).__name__}: {error}"[:SHOWN])
            continue
        yield Row("peers", model.name, "run", "s", found.pop("hloom"), found)


def compile_(options: argparse.Namespace) -> Iterator[Line]:
    from bench.compile_time import measured
    from bench.native import programs

    for path in programs([]):
        if options.k not in path.name:
            continue
        try:
            found = measured(path, min(options.rounds, 5), options.seconds * 10)
        except Exception as error:
            yield Failure("compile", path.stem, f"{type(error).__name__}: {error}"[:SHOWN])
            continue
        peers = {XLA: found["xla_s"]} if "xla_s" in found else {}
        note = found.get("xla_error", "")
        yield Row("compile", path.stem, "compile", "s", found["cold_s"], peers, note=note)
        yield Row("compile", path.stem, "warm", "s", found["warm_s"], peers, note=note)


def dispatch(options: argparse.Namespace) -> Iterator[Line]:
    from bench.dispatch import measured

    for name, (ours, theirs) in measured(max(options.seconds, 2.0)).items():
        if options.k in name:
            yield Row("dispatch", name, "dispatch", "s", ours * 1e-6, {"built-in": theirs * 1e-6})


def memory(options: argparse.Namespace) -> Iterator[Line]:
    from bench.memory import GRANTED_BYTES, row_of
    from bench.native import programs

    for path in programs([]):
        if options.k not in path.name:
            continue
        found = row_of(path, 600.0)
        if "error" in found:
            yield Failure("memory", path.stem, found["error"])
            continue
        for kind, granted in GRANTED_BYTES.items():
            ours, theirs = found["hloom"][kind] + granted, found["xla"][kind] + granted
            yield Row("memory", path.stem, kind, "B", ours, {XLA: theirs})


SUITES = {
    "ops": ops,
    "loops": loops,
    "models": models,
    "peers": peers,
    "compile": compile_,
    "dispatch": dispatch,
    "memory": memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.suites", description=__doc__)
    parser.add_argument("suite", choices=list(SUITES))
    parser.add_argument("-k", default="", help="only what has this in its name")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1.0, help="most for one program")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    for line in SUITES[options.suite](options):
        print(json.dumps(asdict(line)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
