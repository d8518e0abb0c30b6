"""What no processor can run is refused before anything else is done."""

from __future__ import annotations

from hloom.analysis.call_graph import expanded_size
from hloom.base.diagnostics import HloError, UnsupportedError
from hloom.ir.instruction import Instruction
from hloom.ir.mixed_precision import uniform
from hloom.ir.module import Module
from hloom.ir.named_devices import check_devices
from hloom.ir.op import opcodes
from hloom.ir.traits import CONTROL_FLOW, FORWARDS, PLUMBING
from hloom.ir.verify.layouts import handed_on
from hloom.passes.expand.dynamic_padder import DynamicPadder
from hloom.passes.expand.mixed_precision_removal import MixedPrecisionRemoval
from hloom.passes.layout.layout_normalization import LayoutNormalization, physical_order
from hloom.targets.cpu.lowering import unsupported
from hloom.types.shape import Shape

MOST_EXPANDED = 1 << 18
"""Instructions, a copy of what is called for each call counted: some minutes of compilation."""
SEVERAL = 8
"""Times its size a program may become, however large it is."""


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


def check_one_order(module: Module) -> None:
    """Refuse to hand an array on in another order than it lies in, which a pass sees to unless it
    was left out: nothing would move its elements."""
    for i in module.instructions():
        for said, had in handed_on(i):
            _check_orders(i, said, had)
    entry, layouts = module.entry, module.entry_layout
    if layouts is not None:
        for p, said in zip(entry.parameters, layouts.parameters):
            _check_orders(p, said, p.shape)
        _check_orders(entry.root, layouts.result, entry.root.shape)


def _check_orders(i: Instruction, said: Shape, had: Shape) -> None:
    if said is had:
        return
    for a, b in zip(said.leaves(), had.leaves()):
        if a.is_array and b.is_array and _solid_order(a) != _solid_order(b):
            hint = f"let the pass {LayoutNormalization.name} run"
            raise unsupported(i, f"hands {b.text} on as {a.text}", hint)


def _solid_order(s: Shape) -> list[int]:
    """The dimensions of more than one element, from outermost to innermost in memory."""
    return [d for d in physical_order(s) if s.dims[d] != 1]


def check_expansion(module: Module) -> None:
    """Refuse what would become far more instructions than it is: values of what is called have
    places of their own for every call site."""
    size = expanded_size(module)
    if size > max(MOST_EXPANDED, SEVERAL * module.instruction_count):
        raise UnsupportedError(
            f"{module.name} has {module.instruction_count} instructions, and {size:.2e} where each "
            "call has a copy of what it calls: that is too much code",
            rule="cpu-unsupported",
            hint="call less often what calls others more than once, or call it in a loop; "
            "hloom eval runs it",
        )


def check_one_precision(module: Module) -> None:
    """Refuse what no kernel can be written for; a pass sees to it, unless it was left out."""
    for i in module.instructions():
        if uniform(i) is not None:
            hint = f"let the pass {MixedPrecisionRemoval.name} run"
            raise unsupported(i, "mixes floats of different precision", hint)
