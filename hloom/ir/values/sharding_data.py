"""Whole arrays as the parts that devices hold under a sharding, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy

    from hloom.ir.values.sharding import Sharding


def split_array(
    array: numpy.ndarray, sharding: Sharding | None, devices: int
) -> list[numpy.ndarray]:
    """Each device's part; where the dimensions do not divide, zeros fill the last ones."""
    import numpy as np

    s = None if sharding is None else sharding.tiled()
    if s is None or s.kind != "tiled":
        return [array] * devices
    sizes = s.tile_sizes(array.shape)
    parts = []
    for device in range(devices):
        first = [k * n for k, n in zip(s.tile_index(device), sizes)]
        part = array[tuple([slice(a, a + n) for a, n in zip(first, sizes)])]
        missing = [(0, n - m) for n, m in zip(sizes, part.shape)]
        parts.append(np.pad(part, missing) if any(m for _, m in missing) else part)
    return parts


def join_array(
    parts: Sequence[numpy.ndarray], sharding: Sharding | None, dims: Sequence[int]
) -> numpy.ndarray:
    """The whole array of these sizes from each device's part."""
    import numpy as np

    s = None if sharding is None else sharding.tiled()
    if s is None or s.kind != "tiled":
        device = 0 if s is None or s.kind != "maximal" or s.device is None else s.device
        return np.asarray(parts[device])
    whole = np.zeros(tuple(dims), np.asarray(parts[0]).dtype)
    for device, part in enumerate(parts):
        first = [k * n for k, n in zip(s.tile_index(device), np.shape(part))]
        into = whole[tuple([slice(a, a + n) for a, n in zip(first, np.shape(part))])]
        into[...] = np.asarray(part)[tuple([slice(0, n) for n in into.shape])]
    return whole
