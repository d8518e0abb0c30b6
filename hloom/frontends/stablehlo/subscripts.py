"""Einsum subscripts as a dot between sums and transposes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction

_CONFIG = re.compile(r"\s*([A-Za-z]*)\s*(?:,\s*([A-Za-z]*)\s*)?->\s*([A-Za-z]*)\s*")


def einsum_of(scope: Scope, operands: Sequence[Instruction], config: str) -> Instruction:
    """The value that `ab,bc->ac` or `ab->b` describes."""
    match = _CONFIG.fullmatch(config)
    words = [w for w in match.groups()[:2] if w is not None] if match else []
    if match is None or len(words) != len(operands):
        raise scope.error(
            f"subscripts {config!r} are not understood",
            rule="einsum",
            hint="write letters for dimensions, as in ab,bc->ac; ellipses are not read",
        )
    out = match[3]
    for word, x in zip(words, operands, strict=True):
        if len(word) != x.shape.rank or len(set(word)) != len(word):
            raise scope.error(
                f"subscripts {word!r} do not name each dimension of {x.shape.bare} once",
                rule="einsum",
            )
    if len(operands) == 1:
        x, word = _summed(scope, operands[0], words[0], set(out))
        return _transposed(scope, x, word, out)
    left, right = words
    lhs, left = _summed(scope, operands[0], left, set(right) | set(out))
    rhs, right = _summed(scope, operands[1], right, set(left) | set(out))
    batch = [c for c in left if c in right and c in out]
    contracted = [c for c in left if c in right and c not in out]
    instruction = scope.add(
        "dot",
        lhs,
        rhs,
        lhs_batch_dims=tuple(left.index(c) for c in batch),
        rhs_batch_dims=tuple(right.index(c) for c in batch),
        lhs_contracting_dims=tuple(left.index(c) for c in contracted),
        rhs_contracting_dims=tuple(right.index(c) for c in contracted),
    )
    word = "".join(batch)
    word += "".join(c for c in left if c not in right) + "".join(c for c in right if c not in left)
    return _transposed(scope, instruction, word, out)


def _summed(
    scope: Scope, x: Instruction, word: str, kept_letters: set[str]
) -> tuple[Instruction, str]:
    """x without the dimensions that nobody else names, summed over."""
    dims = tuple(k for k, c in enumerate(word) if c not in kept_letters)
    if not dims:
        return x, word
    zero = scope.scalar(0, x.shape.dtype)
    fold = scope.combiner("add", x.shape.dtype)
    sums = scope.add("reduce", x, zero, dimensions=dims, called=(fold,))
    return sums, "".join(c for c in word if c in kept_letters)


def _transposed(scope: Scope, x: Instruction, word: str, out: str) -> Instruction:
    if set(word) != set(out):
        raise scope.error(f"subscripts {out!r} name what no operand has", rule="einsum")
    if word == out:
        return x
    return scope.add("transpose", x, dimensions=tuple(word.index(c) for c in out))
