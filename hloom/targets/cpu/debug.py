"""Runs a program for a CPU step by step and says what went wrong where (see `runtime/debug.py`).

This is where steps are tied to the instructions they came from: which type stands in a buffer, and
which instruction inside a fusion made the first number that is not finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hloom.base.diagnostics import HloError
from hloom.device.device import Device
from hloom.interp.kernel import run_kernel
from hloom.interp.partial import evaluate_partially
from hloom.ir.instruction import Instruction
from hloom.program.slice import BufferSlice
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import Thunk
from hloom.runtime.communicator.in_process import InProcess
from hloom.runtime.debug import DebugExecutor, Finding, StepTime, Watch
from hloom.runtime.debug_devices import DebugDevices
from hloom.runtime.executor import Executor
from hloom.targets.stages import Stages
from hloom.types.shape import Shape
from hloom.types.sizes import data_bytes


@dataclass
class DebugRun:
    """What a run of the debug executor gave."""

    leaves: list[Any]
    steps: list[StepTime]
    """In the order in which they ran first."""
    finding: Finding | None
    """The first step that made NaN or infinities of finite numbers."""
    instruction: Instruction | None
    """The instruction that did: inside a fusion, where it can be told."""
    result: Any = field(default=None, repr=False)

    def __str__(self) -> str:
        total = sum([s.seconds for s in self.steps])
        text = f"{sum([s.runs for s in self.steps]):,} steps, {total * 1e3:.3f} ms"
        if self.finding is None:
            return f"{text}, nothing found"
        text = f"{text}; {self.finding}"
        i = self.instruction
        if i is not None and i.name != self.finding.thunk.name:
            text += f", by %{i.name} ({i.opcode}) inside"
        return text


def debug_run(
    stages: Stages,
    executor: Executor,
    device: Device,
    leaves: Sequence[Sequence[Any]],
    together: InProcess | None,
    *,
    nan: bool,
    bounds: bool,
    kernels: bool,
) -> list[DebugRun]:
    """Run on each device, one alone where it is not together with others, with what is asked for
    being watched."""
    types = _Types(stages)

    def interpreted(t: Kernel, arrays: list[np.ndarray[Any, Any]]) -> bool:
        kernel = stages.lowering.kernels[t.symbol]
        typed = []
        for param, raw in zip(kernel.params, arrays):
            dtype = param.value.type.dtype.numpy
            typed.append(raw[: param.size * dtype.itemsize].view(dtype))
        run_kernel(kernel, typed)
        return True

    def watch() -> Watch:
        return Watch(
            type_of=types if nan else None,
            guards=bounds,
            replace=interpreted if kernels else None,
        )

    if together is None:
        debugs = [DebugExecutor(executor, device, watch())]
        results = [debugs[0].run(leaves[0])]
    else:
        devices = DebugDevices(executor, device, watch)
        debugs, results = devices.devices, devices.run(together, leaves)
    runs = []
    for debug, result in zip(debugs, results, strict=True):
        finding = debug.finding
        culprit = None if finding is None else types.culprit(finding)
        runs.append(DebugRun(result, list(debug.steps.values()), finding, culprit))
    return runs


class _Types:
    """What stands in the buffers of each step: asked of the instruction that it came from."""

    def __init__(self, stages: Stages) -> None:
        self.buffer_assignment = stages.buffer_assignment
        self.instructions = {i.name: i for i in stages.buffer_assignment.trees}
        self._known: dict[Thunk, dict[BufferSlice, Shape]] = {}

    def __call__(self, t: Thunk, s: BufferSlice) -> np.dtype[Any] | None:
        shape = self.shapes(t).get(s)
        return None if shape is None else shape.dtype.numpy

    def shapes(self, t: Thunk) -> dict[BufferSlice, Shape]:
        """The shape in each buffer that a step uses, where it is known."""
        shapes_ = self._known.get(t)
        if shapes_ is None:
            shapes_ = self._known[t] = {}
            i = self.instructions.get(t.name)
            for x in (i, *i.operands) if i is not None else ():
                for index, place in self.buffer_assignment.leaves(x):
                    shapes_.setdefault(place, x.shape.subshape(index))
        return shapes_

    def culprit(self, finding: Finding) -> Instruction | None:
        """The instruction inside a fusion that makes the first number that is not finite.

        The body is evaluated by the interpreter on what the step read; where that cannot be done,
        or nothing is found (the machine code rounds otherwise), the step's own instruction.
        """
        i = self.instructions.get(finding.thunk.name)
        if i is None or i.opcode != "fusion":
            return i
        body = i.called[0]
        known: dict[Instruction, Any] = {}
        for p in body.parameters:
            raw = finding.inputs.get(self.buffer_assignment.slice(i.operands[p.attrs.number]))
            if raw is None or not p.shape.is_array:
                return i
            known[p] = elements(raw, p.shape)
        try:
            for x in body.in_order():
                if x.opcode == "parameter" or not x.shape.is_array:
                    continue
                known[x] = value = evaluate_partially(x, known).array
                if x.opcode != "constant" and not is_finite(value):
                    return x
        except HloError:
            return i
        return i


def elements(raw: np.ndarray[Any, Any], shape: Shape) -> np.ndarray[Any, Any]:
    """The array of a shape in row-major memory."""
    return raw[: data_bytes(shape)].view(shape.dtype.numpy).reshape(shape.dims)


def is_finite(array: np.ndarray[Any, Any]) -> bool:
    """Whether there is no NaN and no infinity in it."""
    if array.dtype.kind in "biu":
        return True
    if array.dtype.kind == "V" or array.dtype.itemsize < 4:
        with np.errstate(all="ignore"):
            array = array.astype(np.float32)
    return bool(np.isfinite(array).all())
