"""Blocks of products by whole tiles (AMX), beside what holds of all products (`gemm_tiling.py`).

Such products are so fast that reading B is what they wait for.
"""

from __future__ import annotations

from hloom.codegen.packing import TILE_LINES
from hloom.codegen.product import Product
from hloom.device.device import Device

FEW_ROW_TILES = 8
"""Rows of tiles up to which a B that comes from beyond the second-level cache is read in long rows.
With 16 and more what is added to sums for each part of K costs more than short rows do."""
LONG_ROW_BYTES = 1024
"""How long these are: of 2 to 32 panels of 64 bytes the best, or next to it, on twelve products."""
PACKED_DEPTH_BYTES = 512
"""The K that is packed at once then, of each column."""


def tiles_of_matrices(p: Product, lanes: int) -> list[tuple[int, int]]:
    """Rows and vectors of tiles that are one or two tiles of the device's matrices high and wide,
    or as high as a product of fewer rows, those first that waste least and load least for each
    product."""
    costs = {}
    for height in (2 * TILE_LINES, TILE_LINES) if p.rows >= TILE_LINES else (p.rows,):
        for across in (2, 1):
            down, width = -(-height // TILE_LINES), across * lanes
            if height > p.rows or (p.b_panels and p.b_panels.width % width):
                continue
            area = -(-p.rows // height) * height * -(-p.columns // width) * width
            costs[height, across] = area * (1 + (down + across) / (down * across))
    return sorted(costs, key=lambda tile: costs[tile])


def reads_long_rows(p: Product, height: int, device: Device) -> bool:
    """Whether a product waits for a B that lies beyond the second-level cache: pieces of its rows
    of one or two panels come at half the speed."""
    if not p.packing.tile_depth or p.b_panels or p.window is not None or p.b_lanes != "n":
        return False
    is_far = p.depth * p.columns * p.element_bytes > device.near_bytes
    is_deep = p.depth * p.element_bytes >= 2 * PACKED_DEPTH_BYTES
    return is_far and is_deep and p.row_groups * -(-p.rows // height) <= FEW_ROW_TILES


def long_rows(
    p: Product, height: int, width: int, sums_bytes: int, device: Device
) -> tuple[int, int]:
    """Panels of a step, and the elements of K that are packed at a time: as many panels as leave
    work for every core and let the sums of all rows fit into so many bytes."""
    tiles, rows = -(-p.columns // width), p.row_groups * -(-p.rows // height) * height
    units = device.compute.units
    most = min(
        LONG_ROW_BYTES // (width * p.element_bytes),
        sums_bytes // (rows * width * p.of.size_bytes),
        -(-tiles // (2 * units if units > 1 else 1)),
    )
    blocks = -(-tiles // max(most, 1))
    return -(-tiles // blocks), PACKED_DEPTH_BYTES // p.element_bytes
