"""Device numbers written as a transposed count: `<=[2,4]T(1,0)` instead of eight numbers.

Programs for thousands of devices carry such lists by the hundred, so the short form is kept as
it is and only expanded on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from hloom.ir.text.cursor import Cursor

if TYPE_CHECKING:
    import numpy


@dataclass(frozen=True, slots=True)
class IotaDevices:
    """The numbers 0, 1, ... in the order of `arange.reshape(dims).transpose(permutation)`.

    Equal orders made by `of` are equal values: dimensions of size 1 are gone and neighbours that
    stay neighbours are one dimension.
    """

    reshape_dims: tuple[int, ...]
    transpose_permutation: tuple[int, ...]

    @classmethod
    def of(
        cls, reshape_dims: tuple[int, ...], transpose_permutation: tuple[int, ...] | None = None
    ) -> IotaDevices:
        """The shortest way to write this order."""
        permutation = transpose_permutation or tuple(range(len(reshape_dims)))
        kept_dims = [p for p in permutation if reshape_dims[p] != 1]
        runs: list[list[int]] = []
        names = {old: new for new, old in enumerate(sorted(kept_dims))}
        for p in kept_dims:
            if runs and names[p] == names[runs[-1][-1]] + 1:
                runs[-1].append(p)
            else:
                runs.append([p])
        if len(runs) <= 1:
            return cls((prod(reshape_dims),), (0,))
        by_source = sorted(range(len(runs)), key=lambda i: runs[i][0])
        place = {run: source for source, run in enumerate(by_source)}
        dims = tuple(prod(reshape_dims[p] for p in runs[i]) for i in by_source)
        return cls(dims, tuple(place[i] for i in range(len(runs))))

    @classmethod
    def of_numbers(cls, numbers: Sequence[int]) -> IotaDevices | None:
        """The order in which these numbers stand; None: nested loops do not count so."""
        loops: list[tuple[int, int]] = []
        """Steps and lengths of loops, innermost first, that count as the numbers do."""
        inside = 1
        while inside < len(numbers):
            step = numbers[inside] - numbers[0]
            length = 1
            while (
                length * inside < len(numbers)
                and numbers[length * inside] - numbers[0] == length * step
            ):
                length += 1
            loops.append((step, length))
            inside *= length
        outer_first = loops[::-1]
        by_step = sorted(range(len(loops)), key=lambda k: -outer_first[k][0])
        dims = tuple([outer_first[k][1] for k in by_step]) or (1,)
        permutation = tuple([by_step.index(k) for k in range(len(loops))]) or (0,)
        if prod(dims) != len(numbers):
            return None
        iota = cls.of(dims, permutation)
        return iota if iota.array().reshape(-1).tolist() == list(numbers) else None

    @property
    def count(self) -> int:
        return prod(self.reshape_dims)

    @property
    def text(self) -> str:
        dims = "[" + ",".join(map(str, self.reshape_dims)) + "]"
        if len(self.reshape_dims) <= 1:
            return dims
        return f"{dims}T({','.join(map(str, self.transpose_permutation))})"

    def array(self) -> numpy.ndarray:
        """The numbers in order, as one row."""
        import numpy as np

        numbers = np.arange(self.count).reshape(self.reshape_dims)
        return numbers.transpose(self.transpose_permutation).reshape(-1)

    @property
    def devices(self) -> tuple[int, ...]:
        """The numbers in order."""
        return _expand(self)


@lru_cache(maxsize=256)
def _expand(iota: IotaDevices) -> tuple[int, ...]:
    return tuple(iota.array().tolist())


def parse_iota(cursor: Cursor) -> IotaDevices:
    """Read `[8]` or `[2,4]T(1,0)`, the part after `<=`."""
    at = cursor.skip()
    dims = cursor.integers("[", "]")
    if not dims or any(d < 0 for d in dims):
        cursor.fail("the dimensions of an iota are one or more sizes that are not negative", at)
    if len(dims) == 1:
        return IotaDevices(dims, (0,))
    cursor.expect("T", "after the dimensions of an iota, unless there is only one")
    at = cursor.skip()
    permutation = cursor.integers("(", ")")
    if sorted(permutation) != list(range(len(dims))):
        cursor.fail(f"T{permutation} is not a permutation of {len(dims)} dimensions", at)
    return IotaDevices.of(dims, permutation)
