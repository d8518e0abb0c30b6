"""Windows over cut dimensions: each part gets the elements beside it that its windows cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloom.ir.instruction import Instruction
from hloom.ir.values.window import Window, WindowDimension
from hloom.passes.partition.assignment import Chosen, Loops, by_factors
from hloom.passes.partition.halo import Halo, read
from hloom.passes.partition.moves import cut_halos, local
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.reduce import fold_of, is_idempotent
from hloom.passes.partition.reshard import neutral_number
from hloom.passes.partition.running import running, running_dimension
from hloom.passes.partition.value import TiledValue


def window_halo(operand: int, d: int, size: int, count: int, w: WindowDimension) -> Halo:
    """What windows at `count` positions over a dimension read of it."""
    return Halo(
        operand, d, size, count, w.stride, -w.padding_low, w.dilated_size(), w.base_dilation
    )


def local_window(w: WindowDimension, halo: Halo, tiles: int) -> WindowDimension:
    """The window over what a part reads: nothing is missing at its ends, but where elements stand
    apart."""
    need = halo.need(tiles)
    assert need is not None, "only what can be cut is emitted"
    return replace(w, padding_low=need.phase, padding_high=need.rest)


@partitions("reduce-window")
def reduce_window(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    f, of = Loops.of(i), i.operands[0].shape
    n = len(i.operands) // 2
    out = next(iter(i.shape.leaves())).dims
    windows = i.attrs.window.dimensions
    fills = _fills(walk, i)
    runs = running_dimension(i) if fold_of(i.called[0]) and n == 1 else None
    for d, w in enumerate(windows):
        if d == runs:
            halo = Halo(0, d, of.dims[d], out[d], is_running=True)
            f.moves(_shared(f, d, n), halo)
        elif fills and not w.is_trivial and w.base_dilation == 1:
            halos = [window_halo(k, d, of.dims[d], out[d], w) for k in range(n)]
            f.moves(_shared(f, d, n), *halos)

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        parts, left = list(parts), list(windows)
        for h, axes in cut_halos(walk, f, chosen):
            if h.is_running:
                return [running(walk, i, parts, chosen, h.dimension)]
            k, d = h.operand, h.dimension
            parts[k] = read(walk.b, parts[k], h, axes, fills[k] or parts[n + k])
            left[d] = local_window(windows[d], h, walk.mesh.count(axes))
        reduced = walk.b.emit_like(i, parts, local(walk, i, chosen), window=Window(tuple(left)))
        return [reduced] if n == 1 else [walk.b.element(reduced, k) for k in range(n)]

    return by_factors(walk, i, f, emit)


def _fills(walk: Walk, i: Instruction) -> list[Instruction | None]:
    """What changes no window, for each input; None: its initial value. Nothing where windows over
    the ends have to leave elements out."""
    n = len(i.operands) // 2
    opcode = fold_of(i.called[0]) if n == 1 else None
    if opcode is not None:
        dtype = i.operands[0].shape.dtype
        return [walk.b.scalar(neutral_number(opcode, dtype), dtype)]
    return [None] * n if is_idempotent(i) else []


def _shared(f: Loops, d: int, n: int) -> int:
    """The factor of a dimension of all inputs and results: a new one where each has its own."""
    if all(dims[d] == f.results[0][d] for dims in (*f.operands[:n], *f.results)):
        return f.of_result(d)
    f.sizes.append(f.sizes[f.of_result(d)])
    new = (len(f.sizes) - 1,)
    for k in range(n):
        f.operands[k] = (*f.operands[k][:d], new, *f.operands[k][d + 1 :])
    for k, dims in enumerate(f.results):
        f.results[k] = (*dims[:d], new, *dims[d + 1 :])
    return new[0]
