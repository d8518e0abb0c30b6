"""A module run as N replicas of M partitions, all devices together in one thread.

Each device is a generator that runs until it needs another device. The scheduler lets every
device run as far as it can, then answers each meeting all of whose members have come. When
nobody can go on and somebody has not finished, the devices wait for each other for ever; the
error says who waits where.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.arguments import checked_arguments
from hloom.interp.context import DevicePosition, EvalContext, EvalOptions, Meet, Receive
from hloom.interp.machine import SharedEvaluation, target
from hloom.interp.memory import check_memory
from hloom.interp.values import EvalValue, nesting_limit, to_literal
from hloom.ir.module import Module
from hloom.types.literal import Literal


def evaluate_lockstep(
    module: Module,
    arguments_per_device: Sequence[Sequence[Any]],
    *,
    replicas: int | None = None,
    partitions: int | None = None,
    options: EvalOptions | None = None,
) -> list[Literal]:
    """The result of every device, by global id (replica * partitions + partition).

    `arguments_per_device` has one list of arguments per device, each as for `evaluate`.
    `replicas` and `partitions` are those of the module unless given. Collectives that not all
    members reach, and receives nobody sends to, raise an `EvalError` naming who waits where.
    """
    replicas = module.replica_count if replicas is None else replicas
    partitions = module.num_partitions if partitions is None else partitions
    count = replicas * partitions
    if count < 1:
        raise EvalError(f"{replicas} replicas of {partitions} partitions are no devices")
    argument_count = len(arguments_per_device)
    if argument_count != count:
        raise EvalError(
            f"{count} devices need {count} lists of arguments, "
            f"but {argument_count} {'was' if argument_count == 1 else 'were'} given"
        )
    options = _shareable(options or EvalOptions())
    machine = SharedEvaluation(options)
    _, entry = target(module)
    check_memory(entry, options.memory_limit_bytes, count)
    devices: list[_Running] = []
    for g, arguments in enumerate(arguments_per_device):
        device = DevicePosition(g // partitions, g % partitions, replicas, partitions)
        values = checked_arguments(entry, arguments, module.name)
        run = machine.run(entry, values, EvalContext(machine, options, device))
        devices.append(_Running(device, run))
    with np.errstate(all="ignore"), nesting_limit():
        _run_all(devices, machine)
        return [to_literal(d.result, entry.root.shape) for d in devices]


def _shareable(options: EvalOptions) -> EvalOptions:
    """The options with every queue as a tuple, so that each device reads all of it."""
    return replace(
        options,
        infeed=tuple(options.infeed),
        host_receive={channel: tuple(values) for channel, values in options.host_receive.items()},
    )


class _Running:
    """One device in progress: what it waits for, or its result."""

    def __init__(self, device: DevicePosition, run: Generator[Any, Any, EvalValue]) -> None:
        self.device = device
        self.run = run
        self.request: Meet | Receive | None = None
        self.finished = False
        self.result: EvalValue = None

    def go_on(self, answer: Any) -> None:
        """Run until the next request or the end."""
        try:
            self.request = self.run.send(answer)
        except StopIteration as stop:
            self.request, self.finished, self.result = None, True, stop.value
        except EvalError as error:
            if error.hint is None:
                error.hint = f"on {self.device}"
            raise


def _run_all(devices: list[_Running], machine: SharedEvaluation) -> None:
    for d in devices:
        d.go_on(None)
    while not all(d.finished for d in devices):
        answered = [d for d in devices if _answer(d, devices, machine)]
        if not answered:
            raise EvalError(_stuck(devices), hint="every member of a group must reach the same op")


def _answer(d: _Running, devices: list[_Running], machine: SharedEvaluation) -> bool:
    """Answer what this device waits for, if that can be done now."""
    request = d.request
    if isinstance(request, Receive):
        mail = machine.mail.get((d.device.global_id, request.key))
        if not mail:
            return False
        d.go_on(mail.popleft())
        return True
    if request is None:
        return False
    if not all(0 <= member < len(devices) for member in request.members):
        raise EvalError(
            f"devices {list(request.members)} are to meet, but there are {len(devices)}",
            instruction=f"%{request.instruction.name}",
        )
    group = [devices[member] for member in request.members]
    values: dict[int, EvalValue] = {}
    for member in group:
        other = member.request
        if (
            not isinstance(other, Meet)
            or other.key is not request.key
            or other.members != request.members
        ):
            return False
        values[member.device.global_id] = other.value
    for member in group:
        member.go_on(values)
    return True


def _stuck(devices: list[_Running]) -> str:
    """Who waits where."""
    lines = []
    for d in devices:
        request = d.request
        if request is None:
            lines.append(f"{d.device} has finished")
            continue
        where = f"%{request.instruction.name} ({request.instruction.opcode})"
        if isinstance(request, Meet):
            lines.append(f"{d.device} waits at {where} for devices {list(request.members)}")
        else:
            lines.append(f"{d.device} waits at {where} for a send to it")
    return "the devices wait for each other for ever: " + "; ".join(lines)
