"""Lines of a matrix that are asked for while what stands before them is multiplied.

A constant B stands in panels, and each step reads its own for every tile of rows: from memory for
the first, from the second-level cache for the others. So the first tile waits for memory, and while
the others are computed memory has nothing to do. Here every k of every tile asks for some of what
the core reads next: the next part of K in the same panels where K is cut, else those of the step
that it does next. They come evenly, for a cache has few places to wait in. What lies behind the end
of the matrix may be asked for: a processor drops what it may not read.

From the second-level cache rows come late, too: multiply-adds that wait fill the queue of a
processor before it sees the loads of the rows that follow. So the nearest cache is asked for those
some rows before, behind what is multiplied: a prefetch between loads would keep LLVM from putting
each of these where it is used.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.codegen.affine import Affine
from hloom.codegen.elements import Elements
from hloom.codegen.gemm_tiling import GemmTiling
from hloom.codegen.product import Product
from hloom.device.device import Device
from hloom.kernel.kernel import Value

LEAST_TILE = 256
"""Multiply-adds of a tile for each k beside which what is asked for costs little. With 384 of them
(AVX-512) convolutions of weights in memory took 0.85 to 0.97 of the time, with 96 (AVX2), which
leave no registers for addresses, 1.06 to 1.22."""
ROWS_AHEAD = 8
"""Rows of a panel between what is multiplied and what the nearest cache is asked for: as many
cycles as the second-level cache takes to answer, and some more."""
Lines = tuple[int, ...]
Ahead = Callable[[Affine], None]
"""Writes what is asked for at one k of a part of K, or at the first of those of a tile."""


def reads_far(p: Product, tiling: GemmTiling, device: Device) -> bool:
    """Whether B stands in panels that tiles of rows share, and is more than the second-level cache
    holds, so that programs find it there only by chance."""
    whole = p.batch * p.depth * p.columns * p.element_bytes
    return (
        p.b_panels is not None
        and (p.packing.group == 1 or p.packing.tile_depth > 0)
        and tiling.row_tiles > 1
        and tiling.height * tiling.width >= LEAST_TILE
        and whole > device.near_bytes
    )


def lines_ahead(
    e: Elements, p: Product, tiling: GemmTiling, depth: int, panels: Value, base: Affine, t: Affine
) -> Ahead | None:
    """What tile `t` of the rows of a step asks for while it multiplies by `depth` rows of the panel
    at `base`; None where B is likely to be near."""
    device = e.device
    if p.b_panels is None or not reads_far(p, tiling, device):
        return None
    line = max(device.caches[0].line_bytes // p.element_bytes, 1)
    width, per_row, tiles = p.b_panels.width, max(tiling.width // line, 1), tiling.row_tiles
    start = base.plus(depth * width)
    if depth == p.depth:
        columns = device.compute.units * tiling.panels * tiling.width
        start = base.plus(-(-columns // width) * p.b_panels.stride)
    at_once = -(-per_row // tiles)
    each = 1 << (max(tiles * at_once // per_row, 1).bit_length() - 1)
    first = t.times(depth)

    def ask(k: Affine) -> None:
        for apart in range(0, p.packing.tile_depth or 1, each):
            lines = e.indices.quotient(first.plus(k).plus(apart), each).times(at_once)
            for more in range(at_once):
                row, within = e.indices.digits(lines.plus(more), [tiles * depth * at_once, per_row])
                at = start.plus(row.times(width)).plus(within.times(line))
                e.builder.prefetch(panels, e.scalar(at))

    return ask


def rows_ahead(e: Elements, p: Product, tiling: GemmTiling, depth: int, across: int) -> Lines:
    """How far behind the row of a panel that a tile multiplies by stand the lines that the nearest
    cache is asked for: a row that follows soon, where it does not hold panels of `depth` rows."""
    if p.packing.group > 1 or depth * across * p.element_bytes <= e.device.nearest_bytes:
        return ()
    line = max(e.device.line_bytes // p.element_bytes, 1)
    return tuple(range(ROWS_AHEAD * across, ROWS_AHEAD * across + tiling.width, line))
