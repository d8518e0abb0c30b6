"""Tilings of a product that are worth measuring: other tiles, other blocks, other forms.

The model of `gemm_tiling.py` chooses one; which is best follows from caches, pipelines and
neighbours that it does not know. Every tiling here is one that the model may come to for some
product.
"""

from __future__ import annotations

from dataclasses import replace

from hloom.codegen.gemm_tiling import (
    GemmTiling,
    along_k_tiling,
    direct_tiling,
    packed_tiling,
    result_lanes,
    sum_registers,
)
from hloom.codegen.matrix_tiling import tiles_of_matrices
from hloom.codegen.product import Product
from hloom.device.device import Device
from hloom.kernel.kernel import SCRATCH_BYTES

FEW, MOST_HEIGHT, MOST_VECTORS = 6, 12, 4
"""Tiles that are tried where little time is to be spent; the largest tile."""
LEAST_USE = 0.6
"""Of the registers for sums, that a tile must fill if the product has enough rows and columns."""


def tilings(p: Product, device: Device, is_thorough: bool) -> list[GemmTiling]:
    """The default first, each once."""
    default = GemmTiling.of(replace(p, tiling=None), device)
    lanes = result_lanes(p, device)
    candidates = [default]
    tiles = _tiles(p, lanes, device)
    for tile in tiles if is_thorough else tiles[:FEW]:
        candidates.append(packed_tiling(p, lanes, device, tile))
    if p.row_groups == 1 and p.packing.group == 1 and not p.b_panels:
        if (
            p.b_lanes == "k"
            and p.depths[-1] >= lanes * p.b_parts
            and p.rows <= device.costs.along_long_depth_rows
        ):
            candidates.append(along_k_tiling(p, device))
        if p.b_lanes == "n" and p.columns >= lanes and p.rows <= device.costs.direct_rows:
            candidates.append(direct_tiling(p, lanes, device))
    packed = [x for x in dict.fromkeys(candidates) if x.form == "packed"]
    for tiling in packed[: FEW if is_thorough else 1]:
        candidates += _cut_otherwise(p, tiling)
    return [
        x for x in dict.fromkeys(candidates) if x is default or x.scratch_bytes(p) <= SCRATCH_BYTES
    ]


def _tiles(p: Product, lanes: int, device: Device) -> list[tuple[int, int]]:
    """Rows and vectors of tiles that fit into the registers, those first that waste least and load
    least for each product."""
    if p.packing.tile_depth:
        return tiles_of_matrices(p, lanes)
    registers, every = sum_registers(device), device.compute.vector_registers
    if p.of.is_complex:
        registers, every = registers // 2, every // 2
    costs = {}
    for vectors in range(1, MOST_VECTORS + 1):
        if vectors > 1 and (vectors - 1) * lanes >= p.columns:
            continue
        if p.b_panels and p.b_panels.width % (vectors * lanes):
            continue
        for height in range(1, min(MOST_HEIGHT, p.rows) + 1):
            if height * vectors > registers or (height + 1) * vectors + 1 > every:
                continue
            if height * vectors < LEAST_USE * registers and height < p.rows:
                continue
            area = -(-p.rows // height) * height * -(-p.columns // (vectors * lanes)) * vectors
            costs[height, vectors] = area * (1 + (height + vectors) / (height * vectors))
    return sorted(costs, key=lambda tile: costs[tile])


def _cut_otherwise(p: Product, tiling: GemmTiling) -> list[GemmTiling]:
    """The same tiles in steps of twice or half as many columns or rows."""
    tiles, rows = -(-p.columns // tiling.width), p.row_groups * -(-p.rows // tiling.height)
    candidates = []
    is_whole = tiling.split == 0 and tiling.piece >= p.depths[0]
    for panels in {max(1, tiling.panels // 2), tiling.panels, min(tiles, tiling.panels * 2)}:
        for per_chunk in {
            max(1, tiling.row_tiles // 2),
            tiling.row_tiles,
            min(rows, tiling.row_tiles * 2),
        }:
            # Where K is cut, partial sums of all tiles of a step stand in the scratch.
            if not is_whole and panels * per_chunk > tiling.panels * tiling.row_tiles:
                continue
            blocks, chunks = -(-tiles // panels), -(-rows // per_chunk)
            candidates.append(
                replace(tiling, panels=panels, blocks=blocks, row_tiles=per_chunk, chunks=chunks)
            )
    return sorted(candidates, key=lambda x: (x.panels, x.row_tiles))
