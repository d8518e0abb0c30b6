"""How much work an element of an instruction is, in the cheap operations of a device's costs.

Only used to choose tile widths and how many grid steps a thread takes at a time; results never
depend on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import prod

from hloom.device.costs import Costs
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import PLUMBING, RESHAPES
from hloom.types.sizes import data_bytes

_FREE = opcodes(PLUMBING, RESHAPES, also=("broadcast",))


def element_work(i: Instruction, costs: Costs) -> float:
    """The cost of one element of the result, in units of a simple vector operation."""
    opcode = i.opcode
    if opcode in _FREE:
        return 0.0
    if opcode == "reduce-window":
        return float(prod(w.size for w in i.attrs.window.dimensions))
    if opcode == "dot":
        return float(prod(i.operands[0].shape.dims[d] for d in i.attrs.lhs_contracting_dims))
    if opcode == "convolution":
        kernel = i.operands[1].shape
        labels = i.attrs.dim_labels
        return kernel.size / max(kernel.dims[labels.kernel_output_feature_dimension], 1)
    # What moves elements takes the place of an operation here.
    return max(costs.weight(opcode), 1.0)


def body_work(
    instructions: Iterable[Instruction], roots: Iterable[Instruction], costs: Costs
) -> float:
    """The cost of a body for each element of its largest root.

    What is computed for more elements than the root has (what a reduction folds) counts as often;
    what is computed for fewer (once per row) counts less.
    """
    total = max([_written(r) for r in roots], default=0)
    if total == 0:
        return sum([element_work(i, costs) for i in instructions])
    work = 0.0
    for i in instructions:
        if i.opcode == "reduce":
            work += i.operands[0].shape.size / total
        elif i.shape.is_array or i.shape.is_tuple:
            work += element_work(i, costs) * (_written(i) / total)
    return work


def reading_ns(
    arrays: Iterable[Instruction], leaves: Collection[Instruction], device: Device
) -> float:
    """What one core takes to read what some values are computed from, and to compute each of their
    elements once; `leaves` are in memory."""
    seen: set[Instruction] = set()
    waiting, size, work = list(arrays), 0, 0.0
    while waiting:
        x = waiting.pop()
        if x in seen or not x.shape.is_array:
            continue
        seen.add(x)
        if x in leaves:
            size += data_bytes(x.shape)
        else:
            work += element_work(x, device.costs) * x.shape.size
            waiting += x.operands
    return size * device.byte_ns(size) + work * device.costs.operation_ns


def _written(i: Instruction) -> int:
    """How many elements of an instruction are computed: of an update only the new ones."""
    if i.opcode == "dynamic-update-slice":
        return i.operands[1].shape.size
    return 0 if i.opcode == "tuple" else _size(i)


def _size(i: Instruction) -> int:
    return (i.shape.elements[0] if i.shape.is_tuple else i.shape).size
