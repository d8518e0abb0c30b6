"""scan as a loop over slices, or as one reduce-window where it is a running sum or its like.

A body that combines the slice with the carry by one associative operation, and gives the result
out, is a running fold: a window that reaches from the first element to each, met by the initial
carry. Integers and extremes give the same in any order; float sums do where the scan says that it
is associative. Everything else runs step by step.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.values.window import Window, WindowDimension
from hloom.passes.expand.expansion import Expander, Expansion, refuse
from hloom.passes.expand.loops import counted_loop, rows_from, with_rows
from hloom.passes.facts import without
from hloom.passes.pass_ import register
from hloom.types import limits
from hloom.types.dtype import S32, DType

NEUTRAL = {
    "add": limits.zero,
    "multiply": limits.multiplicative_identity,
    "maximum": limits.min_value,
    "minimum": limits.max_value,
}
"""Of the folds whose order does not matter."""


def running_opcode(i: Instruction) -> str | None:
    """The opcode when the scan is a running fold whose order does not matter."""
    body = i.called[0]
    root, parameters = body.root, body.parameters
    if root.opcode != "tuple" or len(root.operands) != 2 or len(parameters) != 2:
        return None
    y, again = root.operands
    if y is not again or y.opcode not in NEUTRAL or set(y.operands) != set(parameters):
        return None
    dtype = y.shape.dtype
    if i.attrs.num_carries != 1 or dtype.is_complex or dtype.is_pred:
        return None
    if any(o.shape.dtype is not dtype for o in i.operands):
        return None
    exact = dtype.is_integral or y.opcode in ("maximum", "minimum")
    return y.opcode if exact or i.attrs.is_associative else None


def identity(b: Expansion, opcode: str, dtype: DType) -> Instruction:
    value = NEUTRAL[opcode](dtype)
    return b.scalar(value, dtype)


MOST_STEPS = 2**31 - 1


@register
class ScanExpander(Expander):
    """Write scan as a while loop over slices, or a running fold as reduce-window."""

    name = "scan-expander"
    gives = (without("scan"),)
    opcodes = frozenset(["scan"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if any(s.is_dynamic for s in i.shape.leaves()):
            return None
        opcode = running_opcode(i)
        axis = i.attrs.dimensions[0]
        if opcode is not None and i.operands[0].shape.dims[axis]:
            return self.folded(b, i, opcode)
        return self.stepped(b, i)

    def folded(self, b: Expansion, i: Instruction, opcode: str) -> Instruction:
        """(carry op x[0] op ... op x[k] for every k, the last of them)."""
        x, carry = i.operands
        axis, of = i.attrs.dimensions[0], x.shape
        n = of.dims[axis]
        rows = [WindowDimension(1)] * of.rank
        back = i.attrs.is_reverse
        rows[axis] = WindowDimension(n, 1, 0 if back else n - 1, n - 1 if back else 0)
        start = identity(b, opcode, of.dtype)
        called = (b.combiner(opcode, of.dtype),)
        folded = b.emit("reduce-window", x, start, window=Window(tuple(rows)), called=called)
        rest = [d for d in range(of.rank) if d != axis]
        sums = b.emit(opcode, b.spread(carry, of.dims, rest), folded)
        at = 0 if back else n - 1
        last = b.reshaped(b.sliced(sums, axis, at, at + 1), carry.shape.dims)
        return b.tuple(sums, last)

    def stepped(self, b: Expansion, i: Instruction) -> Instruction:
        count = len(i.operands) - i.attrs.num_carries
        inputs, carries = i.operands[:count], i.operands[count:]
        axis, body = i.attrs.dimensions[0], i.called[0]
        parts = i.shape.elements if i.shape.is_tuple else (i.shape,)
        outputs = parts[: len(parts) - len(carries)]
        steps = inputs[0].shape.dims[axis] if inputs else outputs[0].dims[axis]
        if steps > MOST_STEPS:
            raise refuse(i, f"no loop is made for {steps} steps, more than 32 bits count", "scan")
        empty = [b.full(0, s.dtype, s.dims) for s in outputs]
        if not steps:
            return b.tuple(*empty, *carries) if i.shape.is_tuple else [*empty, *carries][0]

        def step(b: Expansion, k, state, fixed):
            if i.attrs.is_reverse:
                k = b.subtract(b.scalar(steps - 1, S32), k)
            old, carried = state[: len(outputs)], state[len(outputs) :]
            slices = []
            for x in fixed:
                dims = [n for d, n in enumerate(x.shape.dims) if d != axis]
                slices.append(b.reshaped(rows_from(b, x, axis, k, 1), dims))
            result = b.emit("call", *slices, *carried, called=(body,))
            several = result.shape.is_tuple
            new = (
                [b.element(result, n) for n in range(len(result.shape.elements))]
                if several
                else [result]
            )
            written = []
            for out, row in zip(old, new, strict=False):
                dims = [1 if d == axis else n for d, n in enumerate(out.shape.dims)]
                written.append(with_rows(b, out, b.reshaped(row, dims), axis, k))
            return [*written, *new[len(outputs) :]]

        trips = b.scalar(steps, S32)
        results = counted_loop(b, "scan", trips, [*empty, *carries], inputs, step)
        return b.tuple(*results) if i.shape.is_tuple else results[0]
