"""Attention as one kernel: scores are never in memory all at once.

A step of the grid owns some rows (queries) of one batch element and walks over the keys, a block at
a time. Keys and values of a block are packed as the product kernels pack them; for each tile of
rows the scores of the block are computed, masked, and their exponentials summed and multiplied by
the values, relative to the largest score met so far. When a larger one is met, what was summed
before is scaled down. (Milakov and Gimelshein 2018, Online normalizer calculation for softmax;
Dao et al. 2022, FlashAttention.)

Tiles that do not divide their matrix are moved back to end with it, as in `gemm.py`. Scores of such
a tile are stored where their keys belong in the block, so that what two tiles have is written twice
with equal values and read once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from hloom.analysis.attention import attention_pattern
from hloom.analysis.attention_form import AttentionForm, attention_form
from hloom.analysis.indexing import IndexMap
from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.attention_tiling import AttentionTiling
from hloom.codegen.elements import Elements, Index
from hloom.codegen.epilogue import index_steps
from hloom.codegen.gemm import Finish
from hloom.codegen.gemm_pack import Packer, Part
from hloom.codegen.gemm_tiling import GemmTiling
from hloom.codegen.product import Product, dot_product
from hloom.codegen.tile import Body, Emitted, KernelEmitter
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value
from hloom.types.dtype import dtype

F32 = dtype("f32")


def body_attention(body: Body) -> AttentionForm | None:
    """The attention that a body computes; None where it is none."""
    dots = [x for x in body.instructions if x.opcode == "dot"]
    if len(dots) != 2 or len(body.roots) != 1:
        return None
    attention = attention_pattern(dots[1])
    if isinstance(attention, str):
        return None
    form = attention_form(attention)
    if isinstance(form, str) or index_steps(body, attention.output) is None:
        return None
    return form


def attention_kernel(body: Body, form: AttentionForm, device: Device) -> Emitted:
    """The kernel of a body that is an attention."""
    from hloom.codegen.attention_tiles import TiledAttentionWriter, parts_of_weights

    tiling = AttentionTiling.of(form, device, parts_of_weights(body, form, device))
    emitter = KernelEmitter(body, (form.batch, tiling.chunks), device)
    writer = TiledAttentionWriter if tiling.parts else AttentionWriter
    writer(emitter, form, tiling).write()
    return emitter.finish()


def products_of(
    form: AttentionForm, leaves: set[Instruction], device: Device | None
) -> tuple[Product, Product]:
    """Queries times keys, and weights times values; with the device's instructions for narrow types
    where it is given."""
    return (
        dot_product(form.of.scores, leaves, form.keys_left, device),
        dot_product(form.of.output, leaves, form.values_left, device, splits=True),
    )


class AttentionWriter(Finish):
    """Writes one step of an attention."""

    def __init__(
        self, emitter: KernelEmitter, form: AttentionForm, tiling: AttentionTiling
    ) -> None:
        super().__init__(emitter, form.of.output)
        self.form, self.tiling = form, tiling
        leaves = {x for x, _ in emitter.body.leaves}
        device = emitter.elements.device if tiling.parts else None
        self.scores, self.values = products_of(form, leaves, device)
        depth = self.scores.depth
        self.keys_packer = self._packer(self.scores, piece=depth)
        self.values_packer = self._packer(self.values, piece=min(tiling.block, form.keys))
        self.tile_keys = min(tiling.width, form.keys)
        self.tile_columns = min(tiling.width, self.values.columns)
        self.column_tiles = -(-self.values.columns // tiling.width)
        self.key_tiles = -(-form.keys // tiling.width)
        self.row_count = -(-form.rows // tiling.height)
        # Scores of a tile that is moved back begin before those of their block.
        self.score_stride = tiling.width + tiling.block + tiling.lanes
        step = self.scores.packing.step
        self.depth_stride = -(-depth // step) * step
        self.out_stride = self.column_tiles * tiling.width

    def _packer(self, p: Product, piece: int) -> Packer:
        tiling = self.tiling
        return Packer(
            self.e,
            p,
            GemmTiling("packed", tiling.height, tiling.lanes, tiling.vectors, piece=piece),
        )

    def write(self) -> None:
        """The step."""
        e, b, tiling, form = self.e, self.b, self.tiling, self.form
        grid = b.grid_indices
        self.batch = e.indices.scalar(grid[0], 0, form.batch - 1)
        self.keys_packer.batch = self.values_packer.batch = self.batch
        self.first = e.indices.scalar(grid[1], 0, tiling.chunks - 1).times(tiling.row_tiles)
        last = self.keys_packer.least(self.first.plus(tiling.row_tiles), self.row_count)
        self.count = last.plus(self.first.times(-1))
        rows = tiling.row_tiles * tiling.height
        self.q = b.alloc(self.scores.a_type, rows * self.depth_stride)
        self.out = b.alloc(F32, rows * self.out_stride)
        self.largest = b.alloc(F32, rows)
        self.total = b.alloc(F32, rows)
        self.s = b.alloc(F32, tiling.height * self.score_stride)
        self.scale = b.alloc(F32, tiling.height)
        self.k_panels = b.alloc(self.scores.b_type, tiling.panels * self.keys_packer.panel)
        self.v_panels = b.alloc(self.values.b_type, self.column_tiles * self.values_packer.panel)
        self._each_tile(self._begin)
        blocks = -(-form.keys // tiling.block)

        def block(number: Affine) -> tuple[Value, ...]:
            e.one_tile(number, tiling.block, form.keys, lambda low, n: self._block(number, low, n))
            return ()

        e.loop(blocks, (), block)
        self._each_tile(self._finish)

    def _each_tile(self, body: Callable[[Affine], None]) -> None:
        """`body` for the number of each tile of rows within the step."""
        self.keys_packer.each(ZERO, self.count, 1, body)

    def _first_row(self, tile: Affine) -> tuple[Affine, Affine]:
        """The first row of a tile of the step, and how many of its rows another tile has."""
        rows, height = self.form.rows, self.tiling.height
        start = self.first.plus(tile).times(height)
        if rows % height == 0:
            return start, ZERO
        row = self.keys_packer.least(start, rows - height)
        skipped = start.plus(row.times(-1))
        if not skipped.is_constant:
            skipped = self.e.indices.scalar(self.e.scalar(skipped), 0, height - 1)
        return row, skipped

    # -- before the keys

    def _begin(self, tile: Affine) -> None:
        """Pack the rows of a tile, and begin their sums."""
        e, b, tiling, p = self.e, self.b, self.tiling, self.scores
        m, _ = self._first_row(tile)
        lanes = min(tiling.lanes, p.depth)

        def row(r: Affine) -> None:
            def piece(k: Affine) -> None:
                e.tile = (lanes,) if lanes > 1 else ()
                k_lanes = [k.plus(e.indices.lane(0, lanes, 1))]
                value = p.packed_a(e, self.batch, m.plus(r), k_lanes)
                at = tile.times(tiling.height).plus(r).times(self.depth_stride).plus(k)
                self._put(self.q, at, b.broadcast(value, e.tile))

            if (step := p.packing.step) and self.depth_stride > p.depth:
                at = tile.times(tiling.height).plus(r).times(self.depth_stride)
                zeros = b.constant(p.a_type, 0, (step,))
                self._put(self.q, at.plus(self.depth_stride - step), zeros)
            self.keys_packer.each(ZERO, constant(p.depth), lanes, piece)
            at = tile.times(tiling.height).plus(r)
            self._put(self.largest, at, b.constant(F32, self.form.floor))
            self._put(self.total, at, b.constant(F32, 0))

            def clear(k: Affine) -> None:
                zero = b.constant(F32, 0, (tiling.lanes,))
                self._put(self.out, at.times(self.out_stride).plus(k), zero)

            self.keys_packer.each(ZERO, constant(self.out_stride), tiling.lanes, clear)

        self.keys_packer.each(ZERO, constant(tiling.height), 1, row)

    def _put(self, buffer: Value, at: Affine, value: Value) -> None:
        self.b.store(buffer, self.e.scalar(at), value, (1,) * len(value.shape))

    # -- a block of keys

    def _block(self, number: Affine, low: Affine, size: int) -> None:
        """The keys from `low` on, for every row of the step."""
        tiling, e = self.tiling, self.e
        first = number.times(tiling.panels)
        tiles = -(-size // tiling.width)
        depth = self.scores.depth
        self.keys_packer.pack_b(
            self.k_panels, first, constant(tiles), Part([], ZERO, constant(depth), 1)
        )
        self.values_packer.pack_b(
            self.v_panels, ZERO, constant(self.column_tiles), Part([], low, low.plus(size), 1)
        )

        def rows(tile: Affine) -> None:
            m, _ = self._first_row(tile)
            e.loop(tiles, (), lambda t: (self._score(tile, m, first.plus(t), t, low), ())[1])
            self.keys_packer.each(
                ZERO, constant(tiling.height), 1, lambda r: self._weigh(tile, m, r, low, size)
            )
            e.loop(self.column_tiles, (), lambda j: (self._add_values(tile, j, size), ())[1])

        self._each_tile(rows)

    def _score(self, tile: Affine, m: Affine, keys: Affine, t: Affine, low: Affine) -> None:
        """The masked scores of a tile of rows and of keys."""
        e, b, tiling = self.e, self.b, self.tiling
        shape = (tiling.height, self.tile_keys)
        rows = tile.times(tiling.height * self.depth_stride)
        panel = t.times(self.keys_packer.panel)

        def step(d: Affine, acc: Value) -> tuple[Value, ...]:
            at = e.scalar(rows.plus(d))
            left = b.load(self.q, at, (shape[0], 1), (self.depth_stride, 1))
            at = e.scalar(panel.plus(d.times(tiling.width)))
            right = b.load(self.k_panels, at, (1, shape[1]), (tiling.width, 1))
            return (b.dot(acc, left, right),)

        [acc] = e.loop(self.scores.depth, (b.constant(F32, 0, shape),), step)
        n = self.keys_packer.first_column(keys)
        e.tile = shape
        row = m.plus(e.indices.lane(0, shape[0], 2))
        key = n.plus(e.indices.lane(1, shape[1], 2))
        value = self._masked(acc, row, key)
        at = n.plus(low.times(-1)).plus(tiling.width)
        b.store(self.s, e.scalar(at), value, (self.score_stride, 1))

    def _masked(self, sums: Value, row: Affine, key: Affine) -> Value:
        """What the softmax is of, for sums of rows and keys in the form of the current tile."""
        e, b, dot = self.e, self.b, self.form.of.scores
        e.supplied[dot] = b.convert(sums, dot.shape.dtype)
        e.floor = b.depth
        e.forget(b.depth)
        index = placed(e, self.form.masked_at, (self.batch, row, key))
        value = b.convert(e.value(self.form.of.masked, index), F32)
        e.floor = 0
        del e.supplied[dot]
        e.forget(b.depth)
        return b.broadcast(value, sums.shape)

    def _weigh(self, tile: Affine, m: Affine, r: Affine, low: Affine, size: int) -> None:
        """Turn the scores of a row into weights, and bring its sums to their scale."""
        e, b, tiling = self.e, self.b, self.tiling
        at = tile.times(tiling.height).plus(r)
        begin = r.times(self.score_stride).plus(tiling.width)
        before = b.load(self.largest, e.scalar(at))

        def fold(k: Affine, width: int, most: Value) -> Value:
            return b.binary("maximum", most, self._score_row(m.plus(r), low, begin, k, width))

        largest = self._runs(size, "maximum", -inf, fold)
        largest = b.binary("maximum", before, largest)
        self._put(self.largest, at, largest)
        # Rows masked whole so far have no largest score: their weights are 0, not NaN.
        none = b.compare("EQ", largest, b.constant(F32, -inf))
        largest = b.select(none, b.constant(F32, 0), largest)
        scale = b.unary("exponential", b.binary("subtract", before, largest))
        self._put(self.scale, r, scale)

        def weigh(k: Affine, width: int, total: Value) -> Value:
            x = self._row(begin.plus(k), width)
            x = b.unary("exponential", b.binary("subtract", x, b.broadcast(largest, x.shape)))
            self._put_weights(r, k, x)
            return b.binary("add", total, x)

        total = self._runs(size, "add", 0.0, weigh)
        before = b.binary("multiply", b.load(self.total, e.scalar(at)), scale)
        self._put(self.total, at, b.binary("add", before, total))

    def _score_row(self, row: Affine, low: Affine, begin: Affine, k: Affine, width: int) -> Value:
        """The scores of a row for some keys of the block that begins with the key `low`."""
        return self._row(begin.plus(k), width)

    def _put_weights(self, r: Affine, k: Affine, weights: Value) -> None:
        begin = r.times(self.score_stride).plus(self.tiling.width)
        self._put(self.s, begin.plus(k), weights)

    def _row(self, at: Affine, width: int) -> Value:
        return self.b.load(self.s, self.e.scalar(at), (width,), (1,))

    def _runs(
        self, size: int, kind: str, begin: float, fold: Callable[[Affine, int, Value], Value]
    ) -> Value:
        """Fold the scores of a row, in wide tiles, then what is left; a scalar."""
        b, width = self.b, self.tiling.width
        whole = size - size % width
        folded: list[Value] = []
        if whole:
            first = b.constant(F32, begin, (width,))
            folded += self.e.loop(whole, (first,), lambda k, x: (fold(k, width, x),), step=width)
        if size % width:
            first = b.constant(F32, begin, (size % width,))
            folded.append(fold(constant(whole), size % width, first))
        results = [b.reduce(x, 0, kind) for x in folded]
        return results[0] if len(results) == 1 else b.binary(kind, results[0], results[1])

    def _add_values(self, tile: Affine, j: Affine, size: int) -> None:
        """Scale the sums of a tile of rows, and add the weighted values of the block."""
        e, b, tiling = self.e, self.b, self.tiling
        shape = (tiling.height, self.tile_columns)
        at = tile.times(tiling.height * self.out_stride).plus(j.times(tiling.width))
        place = e.scalar(at)
        panel = j.times(self.values_packer.panel)

        def step(k: Affine, acc: Value) -> tuple[Value, ...]:
            weights = e.scalar(k.plus(tiling.width))
            left = b.load(self.s, weights, (shape[0], 1), (self.score_stride, 1))
            where = e.scalar(panel.plus(k.times(tiling.width)))
            right = b.load(self.v_panels, where, (1, shape[1]), (tiling.width, 1))
            return (b.dot(acc, left, right),)

        [acc] = e.loop(size, (b.constant(F32, 0, shape),), step)
        before = b.load(self.out, place, shape, (self.out_stride, 1))
        scale = b.load(self.scale, b.index(0), (shape[0], 1), (1, 1))
        acc = b.fma(before, b.broadcast(scale, shape), acc)
        b.store(self.out, place, acc, (self.out_stride, 1))

    # -- after the keys

    def _finish(self, tile: Affine) -> None:
        """Divide by the sums of weights, and store."""
        e, b, tiling, p = self.e, self.b, self.tiling, self.values
        m, skipped = self._first_row(tile)
        width = self.tile_columns

        def row(r: Affine) -> None:
            at = tile.times(tiling.height).plus(r)
            total = b.load(self.total, e.scalar(at))
            if self.form.least_total:
                total = b.binary("maximum", total, b.constant(F32, self.form.least_total))

            def columns(j: Affine) -> tuple[Value, ...]:
                e.tile = (width,) if width > 1 else ()
                place = e.scalar(at.times(self.out_stride).plus(j.times(tiling.width)))
                value = b.load(self.out, place, e.tile, (1,) * len(e.tile))
                value = b.binary("divide", value, b.broadcast(total, e.tile))
                n = self.values_packer.first_column(j).plus(e.indices.lane(0, width, 1))
                self.finish_at(value, p.index(e, self.batch, m.plus(r), n))
                return ()

            e.loop(self.column_tiles, (), columns)

        self.keys_packer.each(skipped, constant(tiling.height), 1, row)


def placed(e: Elements, map_: IndexMap, space: Sequence[Affine]) -> Index:
    """The index that a map of digits gives for values of the dimensions of its space."""
    index: list[Affine] = []
    for expression in map_:
        at = ZERO
        for k, stride, n in expression:
            at = at.times(n).plus(e.indices.remainder(e.indices.quotient(space[k], stride), n))
        index.append(at)
    return tuple(index)
