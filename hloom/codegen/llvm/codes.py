"""Which bits of which bytes the lowest bits of others are.

Elements below a byte are moved down, cut out and their sign extended, each a step on whole bytes
that machines have no instruction for. Who makes another type of them needs none of that, if it
knows where in memory's bytes the bits are.
"""

from __future__ import annotations

from hloom.codegen.llvm.arithmetic import Arithmetic
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.values import BITS, V

BYTE = 8


class KnownCodes(Arithmetic):
    """Arithmetic that keeps in mind where bits of bytes come from."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.codes: dict[str, tuple[V, int, int]] = {}
        """By name, vectors of bytes whose lowest bits are some of others': those others, from which
        of their bits on, and how many."""

    def lshr(self, a: V, b: V) -> V:
        """a >> b filled with zeros; b below the width."""
        moved = super().lshr(a, b)
        if b.value is not None:
            self._keep(moved, a, int(b.value))
        return moved

    def and_(self, a: V, b: V) -> V:
        """Bitwise and."""
        kept = super().and_(a, b)
        if b.value is not None:
            self._keep(kept, a, 0, _trailing_ones(int(b.value)))
        return kept

    def sign_extended(self, x: V, bits: int) -> V:
        """Integers whose sign is one of the lower bits."""
        by = self.like(x, BITS[x.kind] - bits)
        extended = self.ashr(self.shl(x, by), by)
        self._keep(extended, x, 0, bits)
        return extended

    def code(self, x: V, bits: int) -> tuple[V, int]:
        """Bytes some bits of which are the lowest of `x`, and from which of their bits on: those of
        which others were made, as far as that is known."""
        at = 0
        while (before := self.codes.get(x.name)) is not None and before[2] >= at + bits:
            x, at = before[0], at + before[1]
        return x, at

    def _keep(self, x: V, of: V, by: int, bits: int = BYTE) -> None:
        if x.kind == "i8" and x.lanes > 1 and x.value is None and x is not of:
            self.codes[x.name] = of, by, min(bits, BYTE - by)


def _trailing_ones(mask: int) -> int:
    return (~mask & (mask + 1)).bit_length() - 1


__all__ = ["KnownCodes"]
