"""Attention whose products are by the device's tiles of matrices (AMX), of bf16.

Scores of a tile of rows and keys go from tile registers to memory as they are; masks are applied
row by row, where the largest score is looked for. Weights are rounded to bf16, as the program's
probabilities are, before they are divided by their sum, which is of those that are not rounded.
"""

from __future__ import annotations

from hloom.analysis.attention_form import AttentionForm
from hloom.codegen.affine import Affine, constant
from hloom.codegen.attention import F32, AttentionWriter, products_of
from hloom.codegen.attention_tiling import AttentionTiling
from hloom.codegen.packing import TILE_LINES
from hloom.codegen.tile import Body, KernelEmitter
from hloom.device.device import Device
from hloom.kernel.kernel import Value


def has_tiles(body: Body, form: AttentionForm, device: Device) -> bool:
    """Whether both products of an attention fill tiles of floats."""
    products = products_of(form, {x for x, _ in body.leaves}, device)
    if min(form.keys, form.columns) < 2 * TILE_LINES:
        return False
    return all(p.packing.tile_depth and p.of is F32 and not p.b_panels for p in products)


class TiledAttentionWriter(AttentionWriter):
    """Writes one step of such an attention."""

    def __init__(
        self, emitter: KernelEmitter, form: AttentionForm, tiling: AttentionTiling
    ) -> None:
        super().__init__(emitter, form, tiling)
        self.weight_stride = tiling.block + tiling.width
        self.weights = self.b.alloc(self.values.a_type, tiling.height * self.weight_stride)
        self.sums = self.b.alloc(F32, tiling.height * tiling.width)

    def _multiply(
        self, left: Value, at: Affine, stride: int, panels: Value, base: Affine, depth: int
    ) -> Value:
        """The sums of a tile of rows and a panel."""
        e, b, tiling, packing = self.e, self.b, self.tiling, self.scores.packing
        one, group, width = packing.tile_depth, packing.group, tiling.width

        def step(x: Affine, acc: Value) -> tuple[Value, ...]:
            place = e.scalar(at.plus(x.times(one)))
            a = b.load(left, place, (tiling.height, one), (stride, 1))
            place = e.scalar(base.plus(x.times(one * width)))
            y = b.load(panels, place, (one // group, group, width), (group * width, 1, group))
            return (b.dot(acc, a, y),)

        zero = b.constant(F32, 0, (tiling.height, width))
        [acc] = e.loop(-(-depth // one), (zero,), step)
        return acc

    def _score(self, tile: Affine, m: Affine, keys: Affine, t: Affine, low: Affine) -> None:
        e, tiling = self.e, self.tiling
        rows = tile.times(tiling.height * self.depth_stride)
        panel = t.times(self.keys_packer.panel)
        depth = self.scores.depth
        acc = self._multiply(self.q, rows, self.depth_stride, self.k_panels, panel, depth)
        n = self.keys_packer.first_column(keys)
        at = n.plus(low.times(-1)).plus(tiling.width)
        self.b.store(self.s, e.scalar(at), acc, (self.score_stride, 1))

    def _score_row(self, row: Affine, low: Affine, begin: Affine, k: Affine, width: int) -> Value:
        e = self.e
        sums = self._row(begin.plus(k), width)
        e.tile = (width,)
        value = self._masked(sums, row, low.plus(k).plus(e.indices.lane(0, width, 1)))
        self._put(self.s, begin.plus(k), value)
        return value

    def _weigh(self, tile: Affine, m: Affine, r: Affine, low: Affine, size: int) -> None:
        step = self.values.packing.tile_depth
        if size % step:
            zeros = self.b.constant(self.values.a_type, 0, (step,))
            self._put(self.weights, self._weight_place(r, constant(size - size % step)), zeros)
        super()._weigh(tile, m, r, low, size)

    def _weight_place(self, r: Affine, k: Affine) -> Affine:
        return r.times(self.weight_stride).plus(k)

    def _put_weights(self, r: Affine, k: Affine, weights: Value) -> None:
        narrow = self.b.convert(weights, self.values.a_type)
        self._put(self.weights, self._weight_place(r, k), narrow)

    def _add_values(self, tile: Affine, j: Affine, size: int) -> None:
        e, b, tiling = self.e, self.b, self.tiling
        panel = j.times(self.values_packer.panel)
        acc = self._multiply(
            self.weights, constant(0), self.weight_stride, self.v_panels, panel, size
        )
        b.store(self.sums, b.index(0), acc, (tiling.width, 1))
        width = (tiling.width,)

        def row(r: Affine) -> None:
            at = tile.times(tiling.height).plus(r).times(self.out_stride)
            place = e.scalar(at.plus(j.times(tiling.width)))
            new = b.load(self.sums, e.scalar(r.times(tiling.width)), width, (1,))
            scale = b.broadcast(b.load(self.scale, e.scalar(r)), width)
            new = b.fma(b.load(self.out, place, width, (1,)), scale, new)
            b.store(self.out, place, new, (1,))

        self.keys_packer.each(constant(0), constant(tiling.height), 1, row)
