"""Sizes of the blocks of an attention: rows of a step, keys of a block, tiles of both."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.analysis.attention_form import AttentionForm
from hloom.codegen.gemm_tiling import share_bytes, sum_registers
from hloom.codegen.packing import TILE_LINES
from hloom.device.device import Device
from hloom.kernel.kernel import SCRATCH_BYTES

KEYS_SHARE = 2**-12
"""Keys of a block, for each byte of the second-level cache: scores of a tile of rows and both
packed blocks stay there."""
# Rows of a step: few enough for all threads to have steps, enough to pay for the packing.
MOST_ROWS, LEAST_ROWS = 192, 48
STEPS_PER_UNIT = 4
TILE_ROWS = 6


@dataclass(frozen=True)
class AttentionTiling:
    """Sizes of the blocks of one attention kernel."""

    height: int
    lanes: int
    vectors: int
    panels: int
    """Tiles of keys in a block."""
    row_tiles: int
    """Tiles of rows in a step."""
    chunks: int

    parts: int = 0
    """Numbers that stand for each weight where products are by the device's tiles of matrices."""

    @staticmethod
    def of(form: AttentionForm, device: Device, parts: int = 0) -> AttentionTiling:
        """The tiling for a machine with such vectors, or such tiles."""
        lanes = device.compute.vector_bytes // 4
        vectors = max(sum_registers(device) // TILE_ROWS, 1)
        height = min(TILE_ROWS, form.rows)
        if parts:
            height = TILE_LINES * (2 if form.rows >= 2 * TILE_LINES else 1)
            vectors = 2 * TILE_LINES // lanes
        tiles = -(-form.rows // height)
        steps = -(-STEPS_PER_UNIT * device.compute.units // form.batch)
        per_step = min(max(-(-form.rows // steps), LEAST_ROWS), MOST_ROWS)
        row_tiles = min(tiles, -(-per_step // height))
        panels = max(1, min(share_bytes(device, KEYS_SHARE), form.keys) // (vectors * lanes))
        while True:
            chunks = -(-tiles // row_tiles)
            row_tiles = -(-tiles // chunks)
            tiling = AttentionTiling(height, lanes, vectors, panels, row_tiles, chunks, parts)
            if tiling.scratch_bytes(form) <= SCRATCH_BYTES:
                return tiling
            if row_tiles * height > tiling.block:
                row_tiles = row_tiles * 3 // 4
            else:
                panels = max(panels // 2, 1)

    def scratch_bytes(self, form: AttentionForm) -> int:
        """What the buffers of a step take, or a little less than this."""
        rows, width = self.row_tiles * self.height, self.width
        column_tiles = -(-form.columns // width)
        kept_floats = rows * (form.depth + column_tiles * width + 2)
        scores = self.height * (2 * width + self.block + 1)
        if self.parts:  # weights in bf16, and the sums of a tile
            weights = (self.block + self.width) * self.parts
            scores += self.height * (self.width + weights // 2)
        packed = self.panels * (form.depth + 1) + column_tiles * (min(self.block, form.keys) + 1)
        return 4 * (kept_floats + scores + packed * width)

    @property
    def width(self) -> int:
        """Keys or columns of a tile."""
        return self.lanes * self.vectors

    @property
    def block(self) -> int:
        """Keys of a block."""
        return self.panels * self.width
