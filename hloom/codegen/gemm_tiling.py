"""Sizes of the blocks of a product of matrices, chosen from its extents.

A step of the grid owns some panels of columns and some tiles of rows. The choice is by a small
model: multiply-adds at the machine's rate, what packing costs each time it is repeated, and how
evenly the steps go to the device's cores. Sizes in bytes are shares of a core's part of the
second-level cache.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import prod

from hloom.codegen.far_operands import far_cycles
from hloom.codegen.gemm_steps import wanted_direct_steps, wanted_steps
from hloom.codegen.matrix_tiling import long_rows, reads_long_rows, tiles_of_matrices
from hloom.codegen.product import Product
from hloom.device.device import Device
from hloom.kernel.kernel import SCRATCH_BYTES, STACK_LIMIT
from hloom.types.dtype import DType

# What a step packs of B at once should stay in about half of the cache.
PANEL_SHARE = 9 / 16
# What lies across K is read in short pieces again and again, for every tile of rows: the part of A
# for a block of K should stay in the cache too.
ACROSS_SHARE = 3 / 8
# The scratch for partial sums of a step.
PARTIAL_SHARE = 3 / 16
# The lines of an image that a step of a convolution copies, and what the fewest may take.
LINES_SHARE = 1 / 4
FEWEST_LINES_SHARE = 3 / 8
# The sums of a step of the direct form.
SUMS_SHARE = 1 / 4
# The B of the near form, and the rows that it takes to keep multiply-adds busy.
NEAR_SHARE = 1 / 2
LEAST_NEAR_ROWS = 3
# The least depth of a block of K where K is cut: partial sums are loaded and stored once for it.
LEAST_DEPTH = 256
# A K so long that sums of lanes at its end do not matter.
LONG_K = 1024
# The part of the registers that may hold sums; the others hold what is multiplied.
SUM_REGISTERS = 3 / 4
ALONG_COLUMNS = 8
"""Columns of a tile along K: each is a run of memory of its own. Of 4, 8 and 16 the best on most of
15 products of one row (f32, bf16, s8; K of 512 to 8192)."""
DEEP_ALONG = 128
"""The K from which on so many columns pay: with 64 (keys of heads) they took 1.2 to 1.4 of the
time, with 128 0.5 to 1.0."""


@dataclass(frozen=True)
class GemmTiling:
    """Sizes of the blocks of one product.

    A tile has `height` rows and `vectors * lanes` columns. A step has `panels` tiles of columns
    and `row_tiles` tiles of rows; there are `blocks` steps along the columns, `chunks` along the
    rows. K is cut within its digit `split`, `piece` elements of that digit at a time.
    """

    form: str
    height: int
    lanes: int
    vectors: int
    panels: int = 1
    blocks: int = 1
    row_tiles: int = 1
    chunks: int = 1
    split: int = 0
    piece: int = 0

    @property
    def text(self) -> str:
        """`packed height=8 lanes=16 ...`: equal for equal tilings."""
        return " ".join(
            [self.form, *[f"{f.name}={getattr(self, f.name)}" for f in fields(self)[1:]]]
        )

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.lanes

    def scratch_bytes(self, p: Product) -> int:
        """What the buffers of a step take, or a little less than this."""
        size, tile = max(p.of.size_bytes, 1), self.height * self.width
        element = p.element_bytes
        if self.form in ("along-k", "near"):
            return tile * size
        if self.form == "direct":
            return -(-p.rows // self.height) * tile * self.panels * size
        depth = self.piece * prod(p.depths[self.split + 1 :])
        packed = 0 if p.b_panels else self.panels * (depth + p.packing.step) * self.width
        if p.window is not None:
            packed += p.window.scratch_elements(p.rows, self.height, self.row_tiles, self.split)
        elif p.direct_a is None:
            packed += self.height * (depth + self.lanes * p.packing.step)
        partial = tile if depth == p.depth else self.row_tiles * self.panels * tile
        return packed * element + partial * size

    def leaves_registers(self, of: DType, device: Device) -> bool:
        """Whether a tile fills at most half of the registers that are for sums."""
        used = self.height * self.vectors * (2 if of.is_complex else 1)
        return 2 * used <= sum_registers(device)

    @staticmethod
    def of(p: Product, device: Device) -> GemmTiling:
        """The tiling for a product on a machine with such vectors; its own, where it has one."""
        if p.tiling is not None:
            return p.tiling
        costs = device.costs
        lanes = result_lanes(p, device)
        if p.packing.tile_depth:
            return packed_tiling(p, lanes, device)
        if p.b_panels:
            is_few = p.row_groups == 1 and p.rows <= costs.few_direct_rows
            if is_few and p.packing.group == 1:
                return near_tiling(p, lanes, device)
            return packed_tiling(p, lanes, device)
        if p.packing.group > 1 and p.rows > costs.grouped_rows // p.packing.group:
            return packed_tiling(p, lanes, device)
        if p.row_groups == 1 and p.b_lanes == "k" and p.depths[-1] >= lanes * p.b_parts:
            is_long = p.depths[-1] >= LONG_K
            if p.rows <= (costs.along_long_depth_rows if is_long else costs.along_depth_rows):
                return along_k_tiling(p, device)
        if p.row_groups == 1 and p.b_lanes == "n" and p.columns >= lanes:
            # More rows than a tile has pay only where B is far larger than the caches.
            is_wide = p.rows <= costs.direct_rows and p.columns >= costs.direct_columns
            if is_near(p, device):
                return near_tiling(p, lanes, device)
            if p.rows <= costs.few_direct_rows or is_wide:
                return direct_tiling(p, lanes, device)
        return packed_tiling(p, lanes, device)


def result_lanes(p: Product, device: Device) -> int:
    """Elements of the result in a vector; of complex numbers, of which a vector has the real parts
    and another the imaginary ones, in both."""
    part = p.of.component if p.of.is_complex else p.of
    return max(device.compute.vector_bytes // max(part.size_bytes, 1), 1)


def sum_registers(device: Device) -> int:
    """How many vector registers may hold sums."""
    return int(device.compute.vector_registers * SUM_REGISTERS)


def along_k_tiling(p: Product, device: Device) -> GemmTiling:
    """Eight columns where K is deep and there are registers for as many sums, else four; a step has
    some tiles more, if then all steps are alike (`SkinnyWriter` reads long runs of memory then)."""
    height = -(-p.rows // -(-p.rows // 6))
    most = sum_registers(device) // height
    wide = ALONG_COLUMNS if most >= ALONG_COLUMNS and p.depth >= DEEP_ALONG else 4
    columns = max(1, min(wide, most, p.columns))
    tiles = -(-p.columns // columns)
    steps = wanted_steps(p, device)
    panels = -(-tiles // max(1, min(tiles, -(-steps // p.batch))))
    alike = [n for n in range(panels, min(panels + panels // 4, tiles) + 1) if tiles % n == 0]
    panels = alike[0] if alike else panels
    return GemmTiling("along-k", height, columns, 1, panels, -(-tiles // panels))


def direct_tiling(p: Product, lanes: int, device: Device) -> GemmTiling:
    sums = sum_registers(device) * 2 // 3
    height = -(-p.rows // -(-p.rows // (sums // 2)))
    most = max(1, sums // height)
    vectors = max(1, min(most, 4, p.columns // lanes))
    tiles = -(-p.columns // (vectors * lanes))
    least = -(-device.costs.direct_columns // (vectors * lanes))
    steps = -(-wanted_direct_steps(p, device) // p.batch)
    panels = min(tiles, max(-(-tiles // steps), least if tiles >= 4 * least else 1))
    sums = -(-p.rows // height) * height * vectors * lanes * max(p.of.size_bytes, 1)
    panels = min(panels, max(1, share_bytes(device, SUMS_SHARE) // sums))
    return GemmTiling("direct", height, lanes, vectors, panels, -(-tiles // panels))


def is_near(p: Product, device: Device) -> bool:
    """Whether some rows, but few, are multiplied by a B that stays in a core's second-level cache,
    as in the steps of a loop: it is read there where it stands, and sums stay in registers."""
    size = p.depth * p.columns * max(p.of.size_bytes, 1)
    return (
        LEAST_NEAR_ROWS <= p.rows <= device.costs.few_direct_rows
        and size <= share_bytes(device, NEAR_SHARE)
        and not p.of.is_complex
    )


def near_tiling(p: Product, lanes: int, device: Device) -> GemmTiling:
    registers = device.compute.vector_registers
    height, vectors = _tile(p, lanes, sum_registers(device), registers, device)
    tiles = -(-p.columns // (vectors * lanes))
    panels = -(-tiles // max(1, min(tiles, -(-wanted_steps(p, device) // p.batch))))
    return GemmTiling("near", height, lanes, vectors, panels, -(-tiles // panels))


def share_bytes(device: Device, share: float) -> int:
    """A share of the cache that scratch stays in: a core's part of the second level, at most as
    much as a kernel may have on its stack."""
    return int(min(device.near_bytes, STACK_LIMIT) * share)


def lines_bytes(p: Product, columns: int, deepest: int, device: Device) -> int:
    """What the lines of an image for one step may take beside panels of so many columns: their
    share of a large cache, too, where panels of all of K are not cut for it."""
    packs = p.b_panels is None and p.depth <= deepest
    panels = p.depth * columns * p.element_bytes * packs
    most = min(int(device.near_bytes * LINES_SHARE), STACK_LIMIT // 2, SCRATCH_BYTES - panels)
    return max(most, share_bytes(device, LINES_SHARE))


def packed_tiling(
    p: Product, lanes: int, device: Device, tile: tuple[int, int] | None = None
) -> GemmTiling:
    """`tile`: its rows and vectors, where they are chosen already."""
    registers = sum_registers(device)
    panel_bytes = share_bytes(device, PANEL_SHARE)
    all_registers = device.compute.vector_registers
    if p.of.is_complex:
        registers, all_registers = registers // 2, all_registers // 2
    height, vectors = tile or _tile(p, lanes, registers, all_registers, device)
    width = vectors * lanes
    total = p.row_groups * -(-p.rows // height)
    if tile is None and reads_long_rows(p, height, device):
        sums = share_bytes(device, PARTIAL_SHARE)
        panels, deepest = long_rows(p, height, width, sums, device)
        return tiling_of_depth(p, height, lanes, vectors, panels, total, deepest, device)
    tiles = -(-p.columns // width)
    element = p.element_bytes
    most = max(1, panel_bytes // (min(p.depth, LEAST_DEPTH) * width * element))
    steps = wanted_steps(p, device)
    if p.depth * width * element <= panel_bytes:
        most = panel_bytes // (p.depth * width * element)
    best, least = (1, 1), None
    for panels in range(1, min(tiles, most) + 1):
        blocks = -(-tiles // panels)
        if panels > 1 and -(-tiles // blocks) != panels:
            continue
        for chunks in _chunk_counts(total, -(-steps // (blocks * p.batch))):
            cost = _cost(p, height, vectors, panels, blocks, chunks, device)
            if blocks * chunks * p.batch < min(steps, 2 * device.compute.units):
                cost *= 1.5
            if least is None or cost < least:
                best, least = (panels, chunks), cost
    panels, chunks = best
    deepest = max(panel_bytes // (panels * width * element), 16)
    if p.window is not None:
        most = lines_bytes(p, panels * width, deepest, device) // max(p.of.size_bytes, 1)
        chunks = chunks_of_lines(p, height, chunks, deepest, most)
    per_chunk = -(-total // chunks)
    if p.b_panels and per_chunk == 1:
        deepest = p.depth  # what is read once need not stay in a cache
    if p.a_lanes == "m" and len(p.depths) == 1:
        across_bytes = share_bytes(device, ACROSS_SHARE)
        deepest = min(deepest, max(across_bytes // (per_chunk * height * element), LEAST_DEPTH))
    while True:
        tiling = tiling_of_depth(p, height, lanes, vectors, panels, per_chunk, deepest, device)
        if tiling.scratch_bytes(p) <= SCRATCH_BYTES:
            return tiling
        # What is packed of A counts too, and where K is cut a part may be a little deeper.
        deepest = min(deepest, p.depth) * 3 // 4


def tiling_of_depth(
    p: Product,
    height: int,
    lanes: int,
    vectors: int,
    panels: int,
    per_chunk: int,
    deepest: int,
    device: Device,
) -> GemmTiling:
    """A tiling of such tiles, with at most about so many elements of K packed at a time."""
    width, total = vectors * lanes, p.row_groups * -(-p.rows // height)
    split, piece, parts = _cut(p, deepest, lanes)
    if parts > 1:
        partial_bytes = share_bytes(device, PARTIAL_SHARE)
        room = max(1, partial_bytes // (panels * width * height * max(p.of.size_bytes, 1)))
        per_chunk = -(-total // -(-total // min(per_chunk, room)))
    chunks = -(-total // per_chunk)
    blocks = -(-p.columns // width // panels)
    return GemmTiling(
        "packed", height, lanes, vectors, panels, blocks, per_chunk, chunks, split, piece
    )


def chunks_of_lines(p: Product, height: int, chunks: int, deepest: int, most: int) -> int:
    """As many chunks of rows, or more, so that an image's lines for one have `most` elements."""
    assert p.window is not None
    split = len(p.window.outer) if p.depth > deepest else 0
    tiles = -(-p.rows // height)
    per_chunk, least = -(-tiles // chunks), p.window.least_tiles(height)
    while per_chunk > least:
        elements = p.window.scratch_elements(p.rows, height, per_chunk, split)
        if elements <= most:
            break
        per_chunk = max(least, min(per_chunk - 1, per_chunk * most // elements))
    return -(-tiles // per_chunk)


def _chunk_counts(tiles: int, steps: int) -> list[int]:
    """How many chunks of rows may be tried."""
    counts = {1, 2, 4, steps, 2 * steps, -(-steps // 2)}
    return sorted({-(-tiles // -(-tiles // n)) for n in counts if 1 <= n <= tiles})


def _cost(
    p: Product, height: int, vectors: int, panels: int, blocks: int, chunks: int, device: Device
) -> float:
    """A guess of the cycles of all cores for each unit of depth of one batch element."""
    costs, units = device.costs, device.compute.units
    tiles = p.row_groups * -(-p.rows // height)
    rows = -(-tiles // chunks) * height
    work = rows * panels * vectors / p.packing.group
    if p.packing.tile_depth:
        # A tile takes a cycle for each of its rows, vectors half of one for each multiply-add.
        work *= 2 * p.packing.group / p.packing.tile_depth
    copied = costs.copied_cycles if p.b_lanes == "n" else costs.turned_cycles
    pack_b = panels * vectors * (costs.load_cycles if p.b_panels else copied)
    piece = share_bytes(device, PANEL_SHARE) // (panels * vectors * device.compute.vector_bytes)
    if piece < p.depth:
        # Partial sums go to memory and back.
        work *= 1.02 + 8.0 / piece
    pack_a = 0.0
    if p.window is not None:
        lines = p.window.scratch_elements(p.rows, height, -(-tiles // chunks), 0)
        pack_a = lines / device.compute.vector_floats * costs.copied_cycles / p.depth
    elif not p.direct_a:
        copied = costs.gathered_cycles if len(p.depths) > 1 else costs.copied_cycles
        pack_a = rows / device.compute.vector_floats * copied
        if p.a_lanes == "m":
            # One vector for each tile of rows and each k, however few rows are in it.
            pack_a = rows / height * costs.gathered_cycles
    step = work + pack_a + pack_b
    steps = blocks * chunks * p.batch
    # The last block and the last chunk may be smaller, which helps nobody who waits.
    full = step * -(-steps // units) / p.batch
    even = step * steps / units / p.batch
    far = far_cycles(p, blocks, chunks, device) / p.depth
    return 0.5 * (full + even) + costs.tile_step_cycles * steps / units / p.batch + far


def _tile(
    p: Product, lanes: int, registers: int, all_registers: int, device: Device
) -> tuple[int, int]:
    """Rows and vectors of a tile: the shape that wastes least and loads least. Beside the sums a
    vector of B for each column of vectors, and one of A, are in registers."""
    if p.packing.tile_depth:
        return tiles_of_matrices(p, lanes)[0]
    best, least = (1, 1), None
    for vectors in (2, 3, 4, 1):
        if vectors > 1 and (vectors - 1) * lanes >= p.columns:
            continue
        if p.b_panels and p.b_panels.width % (vectors * lanes):
            continue
        beside = (all_registers - vectors - 1) // vectors
        most = max(1, min(registers // vectors, beside, 12, p.rows))
        height = -(-p.rows // -(-p.rows // most))
        area = -(-p.rows // height) * height * -(-p.columns // (vectors * lanes)) * vectors
        loads = (height + vectors) / (height * vectors)
        is_waiting = height * vectors < device.costs.sums_in_flight
        cost = area * (1.0 + max(0.0, loads - 0.45)) * (1.2 if is_waiting else 1.0)
        cost *= device.costs.tile_shape(vectors, device.compute.vector_registers)
        if least is None or cost < least * 0.99:
            best, least = (height, vectors), cost
    return best


def _cut(p: Product, most: int, lanes: int) -> tuple[int, int, int]:
    """Where K is cut: the digit, how many of it make a part, and how many parts there are."""
    if p.depth <= most:
        return 0, p.depths[0], 1
    outer = len(p.window.outer) if p.window is not None else 0
    if outer and prod(p.depths[outer:]) <= most:
        return outer, p.depths[outer], prod(p.depths[:outer])
    split, unit = len(p.depths) - 1, 1
    while split and unit * p.depths[split] <= most:
        unit *= p.depths[split]
        split -= 1
    size = p.depths[split]
    parts = max(-(-size // max(most // unit, 1)), 1)
    piece = -(-size // parts)
    if split == len(p.depths) - 1 and parts > 1:
        # Packing goes in whole vectors; the last part must have one.
        least = max(2 * lanes, p.packing.step)
        piece = -(-piece // least) * least
        while 0 < size % piece < least:
            piece += least
        piece = min(piece, size)
    return split, piece, prod(p.depths[:split]) * -(-size // piece)
