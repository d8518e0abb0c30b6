"""Padding of `pad`: text `0_0x1_2`, or `0_0_0x1_2_3` when elements are also put between."""

import re
from dataclasses import dataclass

from hloom.ir.text.cursor import Cursor

_PADDING = re.compile(r"-?\d+_-?\d+(?:_\d+)?(?:x-?\d+_-?\d+(?:_\d+)?)*")
_NEXT = re.compile(r"[,)\n}]|$")


@dataclass(frozen=True, slots=True)
class PaddingDimension:
    """Padding of one dimension, in elements; negative edges take elements away."""

    edge_padding_low: int
    edge_padding_high: int
    interior_padding: int = 0
    """Elements put between each two neighbours; never negative."""

    def output_size(self, size: int) -> int:
        """The padded size of a dimension of `size` elements (negative: not possible)."""
        between = max(0, size - 1) * self.interior_padding
        return size + between + self.edge_padding_low + self.edge_padding_high


@dataclass(frozen=True, slots=True)
class Padding:
    """Padding of every dimension of the operand."""

    dimensions: tuple[PaddingDimension, ...] = ()

    @property
    def text(self) -> str:
        if any(d.interior_padding for d in self.dimensions):
            return "x".join(
                f"{d.edge_padding_low}_{d.edge_padding_high}_{d.interior_padding}"
                for d in self.dimensions
            )
        return "x".join(f"{d.edge_padding_low}_{d.edge_padding_high}" for d in self.dimensions)

    @property
    def is_none(self) -> bool:
        """Whether nothing is added or taken away."""
        return not any(
            d.edge_padding_low or d.edge_padding_high or d.interior_padding for d in self.dimensions
        )

    @classmethod
    def of(cls, *dimensions: tuple[int, ...]) -> "Padding":
        """From `(low, high)` or `(low, high, interior)` tuples, one per dimension."""
        return cls(tuple(PaddingDimension(*d) for d in dimensions))


def parse_padding(cursor: Cursor) -> Padding:
    """Read `low_high[_interior]` joined by `x`; nothing at all is the padding of a scalar."""
    match = cursor.match(_PADDING)
    if not match:
        if _NEXT.match(cursor.text, cursor.position):
            return Padding()
        cursor.fail(f"expected padding such as 0_0_0x3_3_1, found {cursor.next_text()}")
    after = cursor.text[cursor.position : cursor.position + 1]
    if after and after in "_x":
        cursor.fail("expected low_high or low_high_interior for each dimension")
    dimensions = []
    for part in match[0].split("x"):
        numbers = [int(n) if len(n) <= 20 else 2**63 for n in part.split("_")]
        if any(not -(2**63) <= n < 2**63 for n in numbers):
            cursor.fail("a padding does not fit 64 bits", match.start(), length=len(match[0]))
        dimensions.append(PaddingDimension(*numbers))
    return Padding(tuple(dimensions))
