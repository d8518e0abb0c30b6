"""What several cores that share a product wait for, as each finds only what it wrote in its cache.

Threads take consecutive steps: rows of the product first, columns within them. Cut by rows alone,
each core reads the rows of A that it wrote, and all of B; by columns, all of A, and a part of B.
"""

from __future__ import annotations

from hloom.codegen.product import Product
from hloom.device.device import Device


def far_cycles(p: Product, blocks: int, chunks: int, device: Device) -> float:
    """What a core of several waits for what stands in no cache of its own: A, which others wrote as
    far as it is of other rows than a core's share, its part of B, and, for who reads the result by
    rows, what others computed of them where columns are cut. As `gemm_tiling` counts: a
    multiply-add of vectors is one."""
    compute, units = device.compute, device.compute.units
    if units == 1 or p.batch >= units:
        return 0.0
    size, rows = p.element_bytes, p.row_groups * p.rows
    row_share = 1 / min(units, chunks)
    column_share = 1 / max(1, min(units // min(units, chunks), blocks))
    across = p.depths[-1] if p.window is not None else p.depth
    far = (row_share - 1 / units) * rows * across * size + column_share * p.depth * p.columns * size
    if column_share < 1:
        far += rows * p.columns * max(p.of.size_bytes, 1) * (1 - 1 / units) / units
    multiply_add_ns = 2 * compute.vector_floats * compute.flop_ns("f32")
    return far * device.byte_ns(device.last_bytes) / multiply_add_ns
