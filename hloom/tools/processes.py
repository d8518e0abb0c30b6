"""`hloom run` in several processes that `mpirun` has started: the first one speaks for all."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hloom import api

GATHER_S = 600.0
"""How long the first process waits for the results of another."""


def joined(exe: api.Executable) -> api.Processes | None:
    """The processes that were started together, over which the program is spread from here on;
    None where this one is alone."""
    _, count = api.launcher(os.environ)
    if count == 1:
        return None
    processes = api.Processes.mpi()
    if exe.is_simulated or exe.program.device_count == 1:
        raise api.UsageError(
            f"{count} processes were started, and {exe.program.name} runs on one device",
            rule="processes",
            hint="start it without mpirun; or give --partitions, --replicas or --spmd",
        )
    exe.processes = processes
    processes.own_part(exe.program.device_count)
    return processes


def refuse_timing(processes: api.Processes | None, **switches: object) -> None:
    """Raise for what looks into one process."""
    asked = [name for name, value in switches.items() if value]
    if processes is not None and asked:
        raise api.UsageError(
            f"--{asked[0]} steps through all devices, and those of other processes are not here",
            rule="processes",
            hint="start it without mpirun: one process can have all devices",
        )


def own_arguments(exe: api.Executable, arguments: Sequence[Sequence[Any]]) -> list[Any]:
    """Those of the devices in this process."""
    return [arguments[d] for d in exe.own_part] if len(arguments) > 1 else list(arguments)


def gathered(
    processes: api.Processes | None, results: list[api.Literal], shape: api.Shape
) -> list[api.Literal] | None:
    """The results of all devices in the first process, each of this shape; None in the others,
    which are done."""
    if processes is None:
        return results
    file = io.BytesIO()
    np.savez(file, *[leaf.array for each in results for leaf in _leaves(each)])
    parts = processes.gathered(file.getvalue(), GATHER_S)
    if not parts:
        return None
    return [literal for part in parts for literal in _literals(part, shape)]


def _leaves(literal: api.Literal) -> Iterator[api.Literal]:
    if literal.is_tuple:
        for part in literal.elements:
            yield from _leaves(part)
    elif literal.shape.is_array:
        yield literal


def _literals(data: bytes, shape: api.Shape) -> list[api.Literal]:
    """The results that another process has packed; each has this shape."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = iter([file[name] for name in file.files])
    literals: list[api.Literal] = []
    first = next(arrays, None)
    while first is not None:
        arrays = _behind(first, arrays)
        literals.append(_literal(shape, arrays))
        first = next(arrays, None)
    return literals


def _behind(first: np.ndarray, others: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    yield first
    yield from others


def _literal(shape: api.Shape, arrays: Iterator[np.ndarray]) -> api.Literal:
    if shape.is_tuple:
        return api.Literal(shape, None, tuple([_literal(s, arrays) for s in shape.elements]))
    if not shape.is_array:
        return api.Literal.token()
    array = next(arrays)
    wanted = np.dtype(shape.dtype.numpy)
    return api.Literal(shape, array.view(wanted) if array.dtype.kind == "V" else array)
