"""The same program on other meshes: what its shardings cut along an axis is cut along that axis,
which has another size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hloom.analysis.mesh_names import named_mesh
from hloom.base.diagnostics import UsageError
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.values.sharding import Sharding
from hloom.passes.partition.device_mesh import DeviceMesh, mesh_of
from hloom.types.mesh import IotaDevices, MeshAxes

MOST_MESHES = 64
"""Meshes that are looked at."""


def other_meshes(module: Module) -> Iterator[tuple[MeshAxes, Module]]:
    """Every mesh of as many axes and devices, its own among them, and a copy of the module with
    shardings on it. `UsageError` for shardings that are not lists of axes of one grid."""
    own = named_mesh(module)
    grid = None if own is not None else mesh_of(module)
    axes = own.axes if own is not None else _grid_axes(grid)
    if not axes:
        raise UsageError("no sharding cuts anything", rule="partition", hint="see hloom partition")
    for count, sizes in enumerate(_products(module.num_partitions, len(axes))):
        if count == MOST_MESHES:
            return
        mesh = MeshAxes(tuple([(name, n) for (name, _), n in zip(axes, sizes)]))
        copied = copy_module(module)
        copied.use_spmd_partitioning = True
        known: dict[Sharding, Sharding] = {}
        for i in copied.instructions():
            if i.sharding is not None:
                if i.sharding not in known:
                    known[i.sharding] = _moved(i.sharding, mesh, grid)
                i.sharding = known[i.sharding]
        yield mesh, copied


def _grid_axes(grid: DeviceMesh | None) -> tuple[tuple[str, int], ...]:
    assert grid is not None, "without names there is a grid"
    return tuple([(f"axis{k}", n) for k, n in enumerate(grid.sizes) if grid.device_count > 1])


def _products(n: int, count: int) -> Iterator[tuple[int, ...]]:
    """All sizes of so many axes that make n devices."""
    if count == 1:
        yield (n,)
        return
    for first in range(1, n + 1):
        if n % first == 0:
            for rest in _products(n // first, count - 1):
                yield (first, *rest)


def _moved(s: Sharding, mesh: MeshAxes, grid: DeviceMesh | None) -> Sharding:
    """The sharding along the same axes of another mesh."""
    if s.is_tuple:
        return Sharding.tuple_of(*[_moved(e, mesh, grid) for e in s.elements])
    if s.named is not None:
        parts = [*s.named.manual_axes, *s.named.unreduced_axes, *s.named.replicated_axes]
        parts += [a for d in s.named.dim_shardings for a in d.axes]
        if any(a.size is not None for a in parts):
            raise UsageError(f"{s.text} cuts along a part of an axis", rule="partition")
        return replace(s, named=replace(s.named, mesh=mesh))
    if s.tiled().kind != "tiled":
        return s
    assert grid is not None, "without names there is a grid"
    t = grid.tiling(s, s.data_rank)
    manual = grid.manual_axes(s)
    if t is None or manual or t.partial:
        raise UsageError(
            f"{s.text} is no list of axes of {mesh.text}", rule="partition", hint="name the axes"
        )
    tiles = [int(np.prod([mesh.sizes[a] for a in axes])) for axes in t.dims]
    used = [a for axes in t.dims for a in axes]
    rest = [a for a in range(len(mesh.sizes)) if a not in used]
    devices = IotaDevices.of(mesh.sizes, (*used, *rest))
    copies = int(np.prod([mesh.sizes[a] for a in rest]))
    types = ("replicated",) if copies > 1 else ()
    dims = (*tiles, copies) if copies > 1 else tuple(tiles)
    return Sharding.tile(dims, devices, types)
