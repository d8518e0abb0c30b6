"""What `hloom run` hands to each device, and which of them show what they return."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hloom import api
from hloom.tools import communication
from hloom.tools.arrays import arguments_per_device
from hloom.tools.evaluate import chosen_arguments, most_memory_for
from hloom.tools.owned import OwnedMemory


class Values(StrEnum):
    """What arguments are where no file says."""

    random = "random"
    shared = "shared-random"
    zeros = "zeros"
    device = "device-id"
    unset = "uninitialised"


class Devices(StrEnum):
    """Of which devices results are shown, or written."""

    all = "all"
    first = "device-0"
    none = "none"


ValuesOfArguments = Annotated[
    Values,
    typer.Option(
        "--arguments",
        help="Without --inputs: random, the random ones of device 0 on all, zeros, on each "
        "device its number, or what stands in memory.",
    ),
]
ResultsOf = Annotated[
    Devices,
    typer.Option("--results", help="Of which devices results are gathered, shown and written."),
]
Arguments = Sequence[Sequence[Any]]
"""Those of each device."""


def arguments_of(
    loaded: api.Loaded, inputs: Path | None, seed: int | None, fill: Values
) -> tuple[api.Module, Arguments, str, OwnedMemory]:
    """What each device runs, its arguments, where they came from, and the memory of those that no
    file says. Of programs that are to be partitioned they are parts of whole ones."""
    memory = OwnedMemory()
    is_drawn = fill in (Values.random, Values.shared)
    said = "--inputs" if inputs is not None else None if seed is None or is_drawn else "--random"
    if fill is not Values.random and said is not None:
        raise api.UsageError(f"{said} says what the arguments are", hint="leave out --arguments")
    module = communication.each_device(loaded.module)
    count = loaded.module.replica_count * loaded.module.num_partitions
    if is_drawn:
        devices, origin = _chosen(loaded, module, inputs, seed, count, memory)
        if fill is Values.random:
            return module, devices, origin, memory
        shared = [devices[0]] * len(devices)
        return module, shared, f"{origin}, those of device 0 on all", memory
    most = most_memory_for(loaded.module)
    own: Arguments = [api.unset_arguments(loaded.module, most, empty=memory.empty)] * count
    if module is not loaded.module:
        own = api.split_arguments(module, own[0])
    if fill is Values.unset:
        return module, own, "what stood in memory", memory
    is_numbered = fill is Values.device
    filled = [[_full(x, d if is_numbered else 0) for x in each] for d, each in enumerate(own)]
    return module, filled, "the number of each device" if is_numbered else "zeros", memory


def _chosen(
    loaded: api.Loaded,
    module: api.Module,
    inputs: Path | None,
    seed: int | None,
    count: int,
    memory: OwnedMemory,
) -> tuple[Arguments, str]:
    """The arguments of a file, a snapshot, or random ones; each device runs `module`."""
    if module is not loaded.module:
        whole, origin = chosen_arguments(loaded, inputs, seed, 1)
        return api.split_arguments(module, whole[0]), f"{origin}, split by their shardings"
    if inputs is not None and inputs.suffix == ".npy" and seed is None:
        try:
            array = np.load(inputs, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise api.UsageError(f"cannot read {inputs}: {error}") from None
        return arguments_per_device(module, {"arg_0": array}, count, str(inputs)), str(inputs)
    return chosen_arguments(loaded, inputs, seed, count, memory.empty)


def _full(x: api.Literal, number: int) -> api.Literal:
    """One number everywhere."""
    if x.elements:
        return api.Literal(x.shape, None, tuple([_full(part, number) for part in x.elements]))
    return api.Literal(x.shape, np.full_like(x.array, number)) if x.shape.is_array else x


def shown_of(
    results: list[api.Literal], devices: Devices, positions: Sequence[int], output: Path | None
) -> list[api.Literal]:
    """The results of those devices that are asked for, of devices at these positions."""
    if devices is Devices.all:
        return results
    if devices is Devices.none:
        if output is not None:
            raise api.UsageError("--results none leaves nothing for --output to write")
        return []
    return [x for x, position in zip(results, positions, strict=True) if position == 0]
