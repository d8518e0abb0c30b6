"""Numbers of devices in an order, and named axes that lay them out.

Device numbers may be written as a transposed count: `[2,4]T(1,0)` instead of eight numbers.
Programs for thousands of devices carry such lists by the hundred, so the short form is kept as it
is and only expanded on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from hloom.base.diagnostics import HloError
from hloom.base.quoting import escape

if TYPE_CHECKING:
    import numpy


MOST_DEVICES = 1 << 20
"""Devices of one program: who talks with whom is written down for each, so that more are refused
where their numbers are asked for."""


def too_many_devices(count: int) -> str | None:
    """What is wrong with so many devices, or None."""
    if count <= MOST_DEVICES:
        return None
    return f"{count:,} devices are more than {MOST_DEVICES:,}"


def _numbers(count: int) -> numpy.ndarray:
    """0, 1, ...; a few characters of text may ask for more of them than memory holds."""
    import numpy as np

    if wrong := too_many_devices(count):
        raise HloError(wrong, rule="too-many-devices")
    return np.arange(count)


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
        numbers = _numbers(self.count).reshape(self.reshape_dims)
        return numbers.transpose(self.transpose_permutation).reshape(-1)

    @property
    def devices(self) -> tuple[int, ...]:
        """The numbers in order."""
        return _expand(self)


@lru_cache(maxsize=256)
def _expand(iota: IotaDevices) -> tuple[int, ...]:
    return tuple(iota.array().tolist())


@dataclass(frozen=True, slots=True)
class MeshAxes:
    """Devices laid out on named axes, the first axis the most major.

    `devices` is None for 0, 1, 2, ...; a maximal mesh has no axes and exactly one device.
    """

    axes: tuple[tuple[str, int], ...]
    devices: tuple[int, ...] | IotaDevices | None = None

    @property
    def is_maximal(self) -> bool:
        return not self.axes and bool(self.devices)

    @property
    def device_count(self) -> int:
        return prod(size for _, size in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(size for _, size in self.axes)

    @property
    def text(self) -> str:
        if self.is_maximal and isinstance(self.devices, tuple):
            return f"maximal_mesh[device_id={self.devices[0]}]"
        text = "mesh[" + ",".join(f"'{escape(n)}'={s}" for n, s in self.axes) + "]"
        if isinstance(self.devices, IotaDevices):
            return f"{text}, device_ids=({self.devices.text})"
        if self.devices is not None:
            return f"{text}, device_ids=({','.join(map(str, self.devices))})"
        return text

    def array(self) -> numpy.ndarray:
        """The device numbers, one dimension per axis."""
        import numpy as np

        if self.devices is None:
            flat = _numbers(self.device_count)
        elif isinstance(self.devices, IotaDevices):
            flat = self.devices.array()
        else:
            flat = np.array(self.devices)
        return flat.reshape(self.sizes) if self.axes else flat

    @property
    def order(self) -> tuple[int, ...]:
        """The device numbers in a row, those of the last axis side by side."""
        return _order_of(self)


@lru_cache(maxsize=16)
def _order_of(mesh: MeshAxes) -> tuple[int, ...]:
    return tuple(mesh.array().reshape(-1).tolist())
