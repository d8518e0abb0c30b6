"""The normal form of tiled shardings.

Subgroup dimensions of one type become one dimension, those of size 1 go, the rest are put in a
fixed order of types, and devices that hold the same replicated tile are put in rising order.
All of that is a permutation of dimensions, so an iota stays an iota where its own dimensions can
be cut to fit; otherwise the devices are written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from hloom.ir.values.devices import IotaDevices

SUBGROUP_TYPES = ("maximal", "manual", "unreduced", "replicated")
"""What the devices of a subgroup do, in the order of their dimensions."""

Devices = tuple[int, ...] | IotaDevices
Tiles = tuple[tuple[int, ...], Devices, tuple[str, ...], str | None]


def normal_tiles(dims: tuple[int, ...], devices: Devices, types: tuple[str, ...]) -> Tiles:
    """Tile dimensions, devices and subgroup types in normal form.

    The fourth result is the simple kind it is equal to (`replicated`, ...) or None. An iota of one
    device, which XLA reads for any tiles, has that device hold all of them.
    """
    if isinstance(devices, IotaDevices) and devices.count == 1 and prod(dims) > 1:
        return (), (), (), "replicated"
    if not types:
        return dims, devices, types, None
    rank = len(dims) - len(types)
    order = sorted(range(len(types)), key=lambda i: SUBGROUP_TYPES.index(types[i]))
    counts = {t: prod(dims[rank + i] for i in order if types[i] == t) for t in types}
    kept_types = tuple(t for t in SUBGROUP_TYPES if counts.get(t, 1) > 1)
    data = dims[:rank]
    if prod(data) == 1 and (len(kept_types) == 1 or len(counts) == 1):
        word = kept_types[0] if kept_types else types[0]
        if word != "maximal":
            return (), (), (), word
    result = data + tuple(counts[t] for t in kept_types)
    permutation = tuple(range(rank)) + tuple(rank + i for i in order)
    devices = _permuted(dims, devices, permutation)
    if kept_types[-1:] == ("replicated",):
        devices = _sorted(devices, prod(dims), counts["replicated"])
    return result, devices, kept_types, None


def _permuted(dims: tuple[int, ...], devices: Devices, permutation: tuple[int, ...]) -> Devices:
    """The devices with tile dimensions permuted."""
    order = [p for p in permutation if dims[p] != 1]
    if order == sorted(order):
        return devices
    if isinstance(devices, IotaDevices):
        parts = _Pieces.of(devices, dims)
        if parts is not None:
            return parts.iota([piece for d in permutation for piece in parts.by_tile[d]])
        devices = devices.devices
    import numpy as np

    return tuple(np.array(devices).reshape(dims).transpose(permutation).reshape(-1).tolist())


def _sorted(devices: Devices, count: int, last: int) -> Devices:
    """The devices with each `last` that follow each other in rising order."""
    if isinstance(devices, IotaDevices):
        parts = _Pieces.of(devices, (count // last, last))
        if parts is not None:
            return parts.iota(parts.by_tile[0] + sorted(parts.by_tile[1], key=parts.place))
        devices = devices.devices
    import numpy as np

    rows = np.sort(np.array(devices).reshape(-1, last), axis=1)
    return tuple(rows.reshape(-1).tolist())


@dataclass(frozen=True, slots=True)
class _Pieces:
    """An iota whose dimensions are cut so that each piece belongs to one tile dimension.

    A piece is its number, counted from the major end of the devices, and its size.
    """

    by_tile: list[list[tuple[int, int]]]
    by_number: list[tuple[int, int]]
    """All pieces from the major end of the device numbers: slow to fast."""

    @classmethod
    def of(cls, iota: IotaDevices, dims: tuple[int, ...]) -> _Pieces | None:
        """None when the dimensions of the two cannot be cut to fit."""
        source = tuple(iota.reshape_dims[p] for p in iota.transpose_permutation)
        points = sorted(set(_strides(source)) | set(_strides(dims)))
        if any(high % low for low, high in pairwise(points)):
            return None
        pieces = list(pairwise(points))[::-1]
        by_source = _cut(source, pieces)
        moved = [by_source[iota.transpose_permutation.index(d)] for d in range(len(source))]
        return cls(_cut(dims, pieces), [piece for part in moved for piece in part])

    def place(self, piece: tuple[int, int]) -> int:
        return self.by_number.index(piece)

    def iota(self, order: list[tuple[int, int]]) -> IotaDevices:
        """The iota with its pieces in this order."""
        sizes = tuple(size for _, size in self.by_number)
        return IotaDevices.of(sizes, tuple(map(self.place, order)))


def _cut(dims: tuple[int, ...], pieces: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """The pieces of each dimension; a piece is given by the strides where it starts and ends."""
    result, high = [], prod(dims)
    for size in dims:
        low = high // size
        result.append([(i, b // a) for i, (a, b) in enumerate(pieces) if low <= a and b <= high])
        high = low
    return result


def _strides(dims) -> list[int]:
    """Products of the dimensions counted from the minor end, 1 and the whole included."""
    values = [1]
    for size in reversed(dims):
        values.append(values[-1] * size)
    return values
