"""What no processor can run is refused before anything else is done."""

from __future__ import annotations

from hloom.base.diagnostics import HloError
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.named_devices import check_devices
from hloom.ir.op import opcodes
from hloom.ir.traits import CONTROL_FLOW, FORWARDS, PLUMBING
from hloom.passes.expand.dynamic_padder import DynamicPadder
from hloom.targets.cpu.lowering import unsupported
from hloom.types.shape import Shape


def check_supported(module: Module) -> None:
    """Raise for programs that no processor can run."""
    check_devices(module)
    known: set[Shape] = set()
    for i in module.instructions():
        shape = i.shape
        if shape in known:
            continue
        known.add(shape)
        if shape.is_unbounded:
            raise _unbounded(i)


def _unbounded(i: Instruction) -> HloError:
    return HloError(
        f"{i.shape.text_without_layout} has a dimension without a bound, so no memory can be "
        "reserved for it",
        instruction=f"%{i.parent.name}/%{i.name}",
        rule="unbounded",
        hint="give every dynamic dimension a bound (f32[<=8]), or compile for fixed sizes",
    )


NAMING = opcodes(PLUMBING, CONTROL_FLOW, FORWARDS, also=("custom-call", "copy", "after-all"))
"""What may have arrays of run-time size when the passes have run: it only hands them on."""


def check_static(module: Module) -> None:
    """Refuse to compute with arrays of run-time size, whose bounds would be taken for sizes; a
    pass sees to it, unless it was left out."""
    for i in module.instructions():
        if i.opcode not in NAMING and i.shape.is_dynamic:
            hint = f"let the pass {DynamicPadder.name} run"
            raise unsupported(i, f"computes {i.shape.text}, an array of run-time size", hint)
        if i.opcode not in NAMING and any(x.shape.is_dynamic for x in i.operands):
            raise unsupported(i, "reads an array of run-time size")
