"""Attention whose products are by the device's tiles of matrices (AMX), of bf16.

Scores of a tile of rows and keys go from tile registers to memory as they are; masks are applied
row by row, where the largest score is looked for. Weights are rounded to bf16, as the program's
probabilities are, before they are divided by their sum, which is of those that are not rounded.
Where its probabilities are of f32 and values of bf16, a weight is the sum of three numbers of bf16,
multiplied one after the other: all digits count, in 0.6 to 0.75 of the time that vectors take.
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

A_LITTLE_LESS = 1 - 2.0**-8
"""Of a weight, or of what its parts leave of it, what is rounded to be the next part: so each part
is less than what there was (a rounding adds 2 ** -9 of it at most), the rest is exact and above
zero, and none of a weight's parts is zero, whose product with an infinite value would be NaN."""


def parts_of_weights(body: Body, form: AttentionForm, device: Device) -> int:
    """How many numbers of bf16 stand for each weight, if both products of an attention fill tiles
    of floats; else 0."""
    products = products_of(form, {x for x, _ in body.leaves}, device)
    if min(form.keys, form.columns) < 2 * TILE_LINES:
        return 0
    are_tiled = all(p.packing.tile_depth and p.of is F32 and not p.b_panels for p in products)
    return products[1].packing.parts if are_tiled else 0


class TiledAttentionWriter(AttentionWriter):
    """Writes one step of such an attention."""

    def __init__(
        self, emitter: KernelEmitter, form: AttentionForm, tiling: AttentionTiling
    ) -> None:
        super().__init__(emitter, form, tiling)
        self.parts = tiling.parts
        self.weight_stride = (tiling.block + tiling.width) * self.parts
        self.weights = self.b.alloc(self.values.a_type, tiling.height * self.weight_stride)
        self.sums = self.b.alloc(F32, tiling.height * tiling.width)

    def _multiply(
        self,
        left: Value,
        at: Affine,
        stride: int,
        panels: Value,
        base: Affine,
        depth: int,
        parts: int = 1,
    ) -> Value:
        """The sums of a tile of rows and a panel; of each step of K the rows have several parts."""
        e, b, tiling, packing = self.e, self.b, self.tiling, self.scores.packing
        one, group, width = packing.tile_depth, packing.group, tiling.width

        def step(x: Affine, acc: Value) -> tuple[Value, ...]:
            place = e.scalar(at.plus(x.times(one)))
            a = b.load(left, place, (tiling.height, one), (stride, 1))
            k = e.indices.quotient(x, parts)
            place = e.scalar(base.plus(k.times(one * width)))
            y = b.load(panels, place, (one // group, group, width), (group * width, 1, group))
            return (b.dot(acc, a, y),)

        zero = b.constant(F32, 0, (tiling.height, width))
        [acc] = e.loop(-(-depth // one) * parts, (zero,), step)
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
            for part in range(self.parts):
                place = self._weight_place(r, constant(size - size % step), part)
                self._put(self.weights, place, zeros)
        super()._weigh(tile, m, r, low, size)

    def _weight_place(self, r: Affine, k: Affine, part: int) -> Affine:
        """Where weights of a row begin that are for a whole number of steps of K."""
        within = k.times(self.parts).plus(part * self.values.packing.tile_depth)
        return r.times(self.weight_stride).plus(within)

    def _put_weights(self, r: Affine, k: Affine, weights: Value) -> None:
        b = self.b
        for part in range(self.parts):
            is_last = part + 1 == self.parts
            less = weights
            if not is_last:
                less = b.binary("multiply", weights, b.constant(F32, A_LITTLE_LESS, weights.shape))
            narrow = b.convert(less, self.values.a_type)
            self._put(self.weights, self._weight_place(r, k, part), narrow)
            if not is_last:
                weights = b.binary("subtract", weights, b.convert(narrow, F32))

    def _add_values(self, tile: Affine, j: Affine, size: int) -> None:
        e, b, tiling = self.e, self.b, self.tiling
        panel = j.times(self.values_packer.panel)
        stride, parts = self.weight_stride, self.parts
        acc = self._multiply(self.weights, constant(0), stride, self.v_panels, panel, size, parts)
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
