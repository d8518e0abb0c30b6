"""Transposes folded into what reads them by dimension number: dot and convolution.

Both say which dimension means what, so a permuted operand is the operand itself under permuted
numbers. A dot's free dimensions have to stay in their order, as they have no numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloom.ir.instruction import Instruction
from hloom.passes.expand.dot_decomposer import canonical_dots
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import register

Dims = tuple[int, ...]


def _through(order: Sequence[int], dims: Sequence[int]) -> Dims:
    return tuple(order[d] for d in dims)


@register
class TransposeFolding(Expander):
    """Let dots and convolutions read the operands of transposes under permuted numbers."""

    name = "transpose-folding"
    breaks = (canonical_dots, no_dead_code)
    opcodes = frozenset(["dot", "convolution"])

    fold_convolutions: bool = True

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if not any(o.opcode == "transpose" for o in i.operands) or i.shape.is_dynamic:
            return None
        if i.opcode == "convolution" and not self.fold_convolutions:
            return None
        operands, attrs = list(i.operands), i.attrs
        for side, prefix in enumerate(("lhs", "rhs")):
            while operands[side].opcode == "transpose":
                order = operands[side].attrs.dimensions
                fold = _folded_dot if i.opcode == "dot" else _folded_convolution
                folded = fold(attrs, prefix, order, operands[side].shape.rank)
                if folded is None:
                    break
                attrs, operands[side] = folded, operands[side].operands[0]
        if attrs is i.attrs:
            return None
        replacement = b.like(i, *operands)
        replacement.attrs = attrs
        return replacement


def _folded_dot(attrs, prefix: str, order: Dims, rank: int):
    """The numbers of a dot that reads the operand of a transpose; None if free dimensions move."""
    batch = getattr(attrs, f"{prefix}_batch_dims")
    contracting = getattr(attrs, f"{prefix}_contracting_dims")
    free = [order[d] for d in range(rank) if d not in (*batch, *contracting)]
    if free != sorted(free):
        return None
    return replace(
        attrs,
        **{
            f"{prefix}_batch_dims": _through(order, batch),
            f"{prefix}_contracting_dims": _through(order, contracting),
        },
    )


def _folded_convolution(attrs, prefix: str, order: Dims, rank: int):
    labels = attrs.dim_labels
    side = "input" if prefix == "lhs" else "kernel"
    names = [f"{side}_feature_dimension", f"{side}_batch_dimension"]
    if side == "kernel":
        names = ["kernel_input_feature_dimension", "kernel_output_feature_dimension"]
    changed = {name: order[getattr(labels, name)] for name in names}
    spatial = _through(order, getattr(labels, f"{side}_spatial_dimensions"))
    return replace(
        attrs, dim_labels=replace(labels, **changed, **{f"{side}_spatial_dimensions": spatial})
    )
