"""Whether a sharding fits a value, and what shape each device's part then has."""

from __future__ import annotations

from math import prod

from hloom.ir.values.devices import IotaDevices
from hloom.ir.values.sharding import Sharding
from hloom.types.shape import Shape, tuple_shape


def validate(sharding: Sharding, shape: Shape, num_devices: int | None = None) -> str | None:
    """What is wrong with a sharding on a value of this shape and so many devices, or None."""
    leaves = list(shape.leaves())
    if not sharding.is_tuple:
        if shape.is_tuple and sharding.tiled().kind == "tiled":
            return "a tuple is not tiled as a whole; give one sharding per leaf"
        return _check_leaf(sharding, shape, num_devices)
    if not shape.is_tuple:
        return f"a tuple sharding on {shape}, which is not a tuple"
    # The tuple without leaves carries one sharding that means nothing.
    if len(sharding.elements) != len(leaves) and not (not leaves and len(sharding.elements) <= 1):
        return f"the tuple has {len(leaves)} leaves but {len(sharding.elements)} shardings"
    for index, (element, leaf) in enumerate(zip(sharding.elements, leaves)):
        if wrong := _check_leaf(element, leaf, num_devices):
            return f"leaf {index}: {wrong}"
    return None


def _check_leaf(sharding: Sharding, shape: Shape, num_devices: int | None) -> str | None:
    if sharding.named is not None and not sharding.named.mesh.is_maximal:
        dims = sharding.named.dim_shardings
        if dims and shape.is_array and len(dims) != shape.rank:
            return f"{len(dims)} dimensions are sharded but {shape} has {shape.rank}"
    s = sharding.tiled()
    if s.kind == "maximal":
        device = s.device if s.device is not None else -1
        if device < 0 or (num_devices is not None and device >= num_devices):
            return f"device {device} is not one of {num_devices or 'the'} devices"
        return None
    if s.kind != "tiled":
        return None
    if not shape.is_array:
        return None if shape.is_token and s.data_rank == 0 else f"{shape} cannot be tiled"
    if s.data_rank != shape.rank:
        return f"tiles have {s.data_rank} dimensions but {shape} has {shape.rank}"
    count = prod(s.tile_dims)
    if isinstance(s.devices, IotaDevices):
        devices_wrong = s.devices.count != count
    else:
        devices = set(s.devices)
        devices_wrong = len(s.devices) != count or len(devices) != count
        if devices and (min(devices) < 0 or max(devices) >= (num_devices or max(devices) + 1)):
            return f"device {max(devices) if min(devices) >= 0 else min(devices)} does not exist"
    if devices_wrong:
        return "each tile needs a device of its own"
    if num_devices is not None and count != num_devices:
        return f"{count} tiles do not cover {num_devices} devices"
    return None


def tile_shape(sharding: Sharding, shape: Shape) -> Shape:
    """The shape of one device's part: dimensions divided by their tiles, rounded up."""
    if shape.is_array:
        return _tile_leaf(sharding.for_leaf(0) if sharding.is_tuple else sharding, shape)
    leaf = 0
    # Tuples are rebuilt with an explicit stack: (shape, parts built so far).
    if not shape.is_tuple:
        return shape
    stack: list[tuple[Shape, list[Shape]]] = [(shape, [])]
    while True:
        part, built = stack[-1]
        if len(built) == len(part.elements):
            stack.pop()
            shape_ = tuple_shape(built)
            if not stack:
                return shape_
            stack[-1][1].append(shape_)
            continue
        element = part.elements[len(built)]
        if element.is_tuple:
            stack.append((element, []))
            continue
        built.append(_tile_leaf(sharding.for_leaf(leaf), element) if element.is_array else element)
        leaf += 1


def _tile_leaf(sharding: Sharding, shape: Shape) -> Shape:
    sizes = sharding.tile_sizes(shape.dims)
    return shape if sizes == shape.dims else shape.with_dims(sizes, shape.dynamic)
