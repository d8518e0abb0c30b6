"""How much work an element of an instruction is, in rough nanoseconds per element and core.

Only used to choose tile widths and how many grid steps a thread takes at a time; results never
depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import PLUMBING, RESHAPES

# Relative cost of one element; anything else counts 1.
_COSTLY = {
    "exp2": 6,
    "exponential": 6,
    "exponential-minus-one": 8,
    "log": 7,
    "log-plus-one": 8,
    "log2": 8,
    "logistic": 9,
    "tanh": 10,
    "erf": 10,
    "sine": 10,
    "cosine": 10,
    "tan": 14,
    "power": 20,
    "atan2": 14,
    "cbrt": 10,
    "divide": 3,
    "remainder": 6,
    "sqrt": 3,
    "rsqrt": 3,
    "acos": 12,
    "asin": 12,
    "acosh": 12,
    "asinh": 12,
    "atanh": 12,
    "cosh": 12,
    "sinh": 12,
    "gather": 6,
}
_FREE = opcodes(PLUMBING, RESHAPES, also=("broadcast",))


def element_work(i: Instruction) -> float:
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
    return float(_COSTLY.get(opcode, 1))


def body_work(instructions: Iterable[Instruction], roots: Iterable[Instruction] = ()) -> float:
    """The cost of a body for each element of its largest root.

    What is computed for more elements than the root has (what a reduction folds) counts as often;
    what is computed for fewer (once per row) counts less.
    """
    total = max([_written(r) for r in roots], default=0)
    if total == 0:
        return sum([element_work(i) for i in instructions])
    work = 0.0
    for i in instructions:
        if i.opcode == "reduce":
            work += i.operands[0].shape.size / total
        elif i.shape.is_array or i.shape.is_tuple:
            work += element_work(i) * (_written(i) / total)
    return work


def _written(i: Instruction) -> int:
    """How many elements of an instruction are computed: of an update only the new ones."""
    if i.opcode == "dynamic-update-slice":
        return i.operands[1].shape.size
    return 0 if i.opcode == "tuple" else _size(i)


def _size(i: Instruction) -> int:
    return (i.shape.elements[0] if i.shape.is_tuple else i.shape).size
