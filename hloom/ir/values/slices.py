"""The ranges of `slice`: text `{[0:4], [1:9:2]}`."""

from dataclasses import dataclass

from hloom.ir.text.cursor import Cursor


@dataclass(frozen=True, slots=True)
class SliceDimension:
    """One dimension's range: `start`, `start + stride`, ... below `limit`."""

    start: int
    limit: int
    stride: int = 1

    @property
    def size(self) -> int:
        """How many elements are taken (0 when the range is empty)."""
        if self.stride <= 0:
            return 0
        return max(0, -(-(self.limit - self.start) // self.stride))


@dataclass(frozen=True, slots=True)
class Slices:
    """The ranges of all dimensions; strides are written when any of them is not 1."""

    dimensions: tuple[SliceDimension, ...] = ()

    @property
    def text(self) -> str:
        if any(d.stride != 1 for d in self.dimensions):
            parts = [f"[{d.start}:{d.limit}:{d.stride}]" for d in self.dimensions]
        else:
            parts = [f"[{d.start}:{d.limit}]" for d in self.dimensions]
        return "{" + ", ".join(parts) + "}"

    @property
    def starts(self) -> tuple[int, ...]:
        return tuple(d.start for d in self.dimensions)

    @property
    def limits(self) -> tuple[int, ...]:
        return tuple(d.limit for d in self.dimensions)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(d.stride for d in self.dimensions)

    @classmethod
    def of(cls, *ranges: tuple[int, ...]) -> "Slices":
        """From `(start, limit)` or `(start, limit, stride)` tuples, one per dimension."""
        return cls(tuple(SliceDimension(*r) for r in ranges))


def parse_slices(cursor: Cursor) -> Slices:
    """Read `{[start:limit], [start:limit:stride]}`."""
    cursor.expect("{", "to start the ranges of a slice")
    dimensions: list[SliceDimension] = []
    while not cursor.eat("}"):
        if dimensions:
            cursor.expect(",", "between the ranges of a slice")
        at = cursor.skip()
        cursor.expect("[", "to start a range [start:limit:stride]")
        numbers = [cursor.integer()]
        while cursor.eat(":"):
            numbers.append(cursor.integer())
        cursor.expect("]", "to end a range")
        if len(numbers) not in (2, 3):
            cursor.fail(
                f"a range is [start:limit] or [start:limit:stride], not {len(numbers)} numbers", at
            )
        dimensions.append(SliceDimension(*numbers))
    return Slices(tuple(dimensions))
