"""The normal form of tiled shardings.

Subgroup dimensions of one type become one dimension, those of size 1 go, the rest are put in a
fixed order of types, and devices that hold the same replicated tile are put in rising order.
All of that is a permutation of dimensions, so an iota stays an iota where its own dimensions can
be cut to fit; otherwise the devices are written out.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

from hloom.ir.values.devices import IotaDevices

SUBGROUP_TYPES = ("maximal", "manual", "unreduced", "replicated")
"""What the devices of a subgroup do, in the order of their dimensions."""

Devices = tuple[int, ...] | IotaDevices
Tiles = tuple[tuple[int, ...], Devices, tuple[str, ...], str | None]


def normal_tiles(dims: tuple[int, ...], devices: Devices, types: tuple[str, ...]) -> Tiles:
    """Tile dimensions, devices and subgroup types in normal form.

    The fourth result is the simple kind it is equal to (`replicated`, ...) or None.
    """
    if not types:
        return dims, devices, types, None
    rank = len(dims) - len(types)
    order = sorted(range(len(types)), key=lambda i: SUBGROUP_TYPES.index(types[i]))
    counts = {t: prod(dims[rank + i] for i in order if types[i] == t) for t in types}
    kept = tuple(t for t in SUBGROUP_TYPES if counts.get(t, 1) > 1)
    data = dims[:rank]
    if prod(data) == 1 and len(kept) <= 1 and kept != ("maximal",):
        word = kept[0] if kept else next(t for t in SUBGROUP_TYPES if t in types)
        if word != "maximal":
            return (), (), (), word
    result = data + tuple(counts[t] for t in kept)
    permutation = tuple(range(rank)) + tuple(rank + i for i in order)
    return result, _arranged(dims, devices, permutation, counts, kept), kept, None


def _arranged(
    dims: tuple[int, ...],
    devices: Devices,
    permutation: tuple[int, ...],
    counts: dict[str, int],
    kept: tuple[str, ...],
) -> Devices:
    """The devices with tile dimensions permuted and replicated ones in rising order."""
    moved = permutation != tuple(range(len(dims)))
    last = counts["replicated"] if kept[-1:] == ("replicated",) else 1
    if not moved and last == 1:
        return devices
    if isinstance(devices, IotaDevices):
        if (iota := _arranged_iota(dims, devices, permutation, last)) is not None:
            return iota
        devices = devices.devices
    import numpy as np

    rows = np.array(devices).reshape(dims).transpose(permutation).reshape(-1, last)
    return tuple(np.sort(rows, axis=1).reshape(-1).tolist())


def _arranged_iota(
    dims: tuple[int, ...], iota: IotaDevices, permutation: tuple[int, ...], last: int
) -> IotaDevices | None:
    """The same on an iota, or None when its dimensions cannot be cut to fit."""
    source = [iota.reshape_dims[p] for p in iota.transpose_permutation]
    parts = _common_parts(source, dims)
    if parts is None:
        return None
    by_source, by_tile = parts
    # Pieces are numbered in the order of the devices; each belongs to one dimension of the iota
    # and to one tile dimension.
    order = [piece for d in permutation for piece in by_tile[d]]
    sizes: dict[int, int] = {}
    for pieces in by_tile:
        sizes.update(pieces)
    numbering = [
        piece[0]
        for d in range(len(iota.reshape_dims))
        for piece in by_source[iota.transpose_permutation.index(d)]
    ]
    place = {piece: i for i, piece in enumerate(numbering)}
    moved = [place[piece] for piece, _ in order]
    if last > 1:
        count, cut = 1, len(moved)
        while count < last:
            cut -= 1
            count *= sizes[numbering[moved[cut]]]
        if count != last:
            return None
        moved[cut:] = sorted(moved[cut:])
    return IotaDevices.of(tuple(sizes[p] for p in numbering), tuple(moved))


Pieces = list[tuple[int, int]]


def _common_parts(
    first: list[int], second: tuple[int, ...]
) -> tuple[list[Pieces], list[Pieces]] | None:
    """Cut two factorings of one number into common pieces; None when they do not fit.

    Each dimension gets its pieces `(number, size)`, the numbers counting from the major end.
    """
    points = sorted(set(_strides(first)) | set(_strides(second)))
    if any(high % low for low, high in pairwise(points)):
        return None
    pieces = [(low, high) for low, high in pairwise(points)][::-1]

    def cut(dims) -> list[Pieces]:
        result, high = [], prod(dims)
        for size in dims:
            low = high // size
            result.append(
                [(i, b // a) for i, (a, b) in enumerate(pieces) if low <= a and b <= high]
            )
            high = low
        return result

    return cut(first), cut(second)


def _strides(dims) -> list[int]:
    """Products of the dimensions counted from the minor end, 1 and the whole included."""
    values = [1]
    for size in reversed(dims):
        values.append(values[-1] * size)
    return values
