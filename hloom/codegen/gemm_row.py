"""Packing a row of A, in vectors along the digits of K that are contiguous.

Of a convolution these are the windows of a row of the image, of which few see padding: whether one
does is asked once for each, and those that do not are copied in vectors as wide as the machine has,
without a mask for each element.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.kernel.kernel import Value

if TYPE_CHECKING:
    from hloom.codegen.gemm_pack import Packer, Part
    from hloom.codegen.product import Read


def pack_row(packer: Packer, scratch: Value, r: Affine, m: Affine, part: Part) -> None:
    """Row `m` of A, as row `r` of the scratch."""
    p, e = packer.p, packer.e
    split = len(part.prefix)
    first = max(len(p.depths) - p.a_merged, split)
    if first == split and part.unit * p.depths[split] != packer.depth:
        # The part does not hold all of the digit: only what is behind it is joined.
        first = split if split == len(p.depths) - 1 else split + 1
    sizes = p.depths[first:]
    run = prod(sizes)
    low, high = ZERO, constant(run)
    if first == split:
        unit = prod(sizes[1:])
        low, high = part.low.times(unit), part.high.times(unit)
    length = run if first != split else packer.depth

    def outer(digits: list[Affine], position: Affine) -> None:
        def copy(read: Read, lanes: int) -> None:
            def some(k: Affine) -> None:
                e.tile = (lanes,) if lanes > 1 else ()
                within = k.plus(e.indices.lane(0, lanes, 1))
                inner = e.indices.digits(within, sizes)
                value = p.packed(e, read(e, packer.batch, m, [*digits, *inner]))
                at = r.times(packer.a_stride).plus(k.plus(low.times(-1)))
                if first != split:
                    at = at.plus(position.times(run))
                value = packer.b.broadcast(value, e.tile)
                packer.b.store(scratch, e.scalar(at), value, (1,) if lanes > 1 else ())

            packer.each(low, high, lanes, some)

        narrow, wide = _lanes(packer, length)
        if p.inside is None:
            copy(p.a, wide if len(p.depths) == 1 else narrow)
            return
        # One condition for all lanes costs next to nothing, unless there are more vectors for it.
        asks_once = p.depths[-1] % narrow == 0 and (wide == narrow or len(sizes) == 1)
        inside = None if asks_once else p.inside.holds(e, m, digits)
        if inside is None:
            copy(p.a, narrow if asks_once else wide)
            return
        read = p.inside.read
        _either(packer, inside, lambda: copy(read, wide), lambda: copy(p.a, narrow))

    packer.walk(part, first, outer)


def _lanes(packer: Packer, length: int) -> tuple[int, int]:
    """Lanes for a run of so many elements: those that may ask where they are, and those of a run
    that is only copied. The former stay within one place of the window where they can."""
    p, usual = packer.p, packer.tiling.lanes
    lanes = min(2 * usual, length)
    if lanes > usual and length % lanes and length % usual == 0:
        lanes = usual
    whole = packer.e.device.compute.vector_bytes // max(p.a_type.size_bytes, 1)
    wide = min(whole, length) if whole > 2 * usual else lanes
    return (wide if p.depths[-1] % wide == 0 else lanes), wide


def _either(packer: Packer, condition: Value, first, second) -> None:
    """What `first` writes, or what `second` does. What is read in one is not read before both."""
    e, b = packer.e, packer.b

    def alone(write) -> tuple[Value, ...]:
        floor, e.floor = e.floor, b.depth
        write()
        e.forget(b.depth)
        e.floor = floor
        return ()

    b.if_(condition, lambda: alone(first), lambda: alone(second))
