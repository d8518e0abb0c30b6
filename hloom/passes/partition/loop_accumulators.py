"""Sums that a loop carries stay parts of sums until it ends.

Gradients of weights that a loop uses in every step (a recurrence, microbatches) are products over
what is cut, added to what the loop carries. To bring each to every device takes an all-reduce, or
the operands of the product, in every step. Adding is linear: here the state of the loop is the sum
of what each device has added up (`Tiling.partial`), and the one all-reduce comes after the loop.

What adds to the state may have gone through operations that are linear too (`_is_linear`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hloom.analysis.trip_count import trip_count
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import CONTRACTS, RESHAPES
from hloom.passes.partition.assignment import PRODUCTS, Loops
from hloom.passes.partition.factor_axes import pulled, pushed, settled
from hloom.passes.partition.reshard_plan import plan
from hloom.passes.partition.tiling import Axes, Tiling
from hloom.passes.partition.work_price import multiply_bytes
from hloom.passes.sharding.factors import Kind, factors

if TYPE_CHECKING:
    from hloom.passes.partition.partitioner import Walk
    from hloom.passes.partition.value import TiledValue

_SUMS = opcodes(CONTRACTS, without=("ragged-dot", "scaled-dot"))
_LINKS = opcodes(
    RESHAPES, also=("add", "convert", "copy", "negate", "transpose"), without=("bitcast",)
)
MOST_LINKS = 16
"""Looked at behind one sum."""


def accumulated(walk: Walk, loop: Instruction, state: Sequence[Tiling]) -> list[Tiling]:
    """How the state of a loop stands with its sums in parts, where that is fewer bytes."""
    tilings, body = list(state), loop.called[1]
    steps = trip_count(loop).count
    if steps is None or steps < 2 or len(body.parameters[0].shape.elements) != len(tilings):
        return tilings
    for k, add in _sums(loop):
        t = tilings[k]
        if t.partial or t.manual:
            continue
        axes = tuple(sorted(_summed_axes(walk, add) - t.used - walk.region))
        own = Tiling(t.dims, axes, "add")
        if axes and plan(walk.b.array(add.shape), own, t)[0] < steps * _bytes_each(walk, add, own):
            tilings[k] = _widened(walk, add, own, steps)
    return tilings


def _widened(walk: Walk, add: Instruction, own: Tiling, steps: int) -> Tiling:
    """In parts along axes, too, along which devices would all multiply the same, where the work
    that this saves is more than putting more parts together."""
    more, work, is_even = {a for a in walk.of.cutting if a not in own.used | walk.region}, 0.0, True
    terms = [x for x in _terms(add) if x.opcode in PRODUCTS]
    for x in terms:
        more -= {
            a for y in x.operands for t in walk.of.tilings(y.sharding, y.shape) if t for a in t.used
        }
    for x in terms:
        work += _work(x) / walk.mesh.count(tuple(own.used))
        sizes = Loops.of(x).sizes
        cut = _cuts(walk, x).items()
        is_even &= any(sizes[k] % walk.mesh.count((*axes, *more)) == 0 for k, axes in cut)
    if not more or not terms or not is_even:
        return own
    wide = Tiling(own.dims, tuple(sorted({*own.partial, *more})), own.reduction)
    array, whole = walk.b.array(add.shape), own.whole()
    saved = steps * work * (1 - 1 / walk.mesh.count(tuple(more))) * multiply_bytes()
    is_less = plan(array, wide, whole)[0] - plan(array, own, whole)[0] < saved
    return wide if is_less else own


def mark_partial(walk: Walk, parameter: Instruction, tilings: Sequence[Tiling]) -> None:
    """In the body of a loop whose state has sums in parts: say what is to stand in parts too."""
    for k, t in enumerate(tilings):
        add = _sum_of(parameter, parameter.parent.root, k) if t.partial else None
        stack = [] if add is None else [(add, t)]
        while stack:
            x, own = stack.pop()
            if _is_linear(x):
                ins = _operands(walk, x, own)
                if ins is None:
                    continue
                before = zip([_behind(y) for y in x.operands], ins, strict=True)
                stack += [(y, t) for y, t in before if _readers(y) == [x]]
            elif not _is_sum(x):
                continue
            walk.partial_links[x] = own


def _sums(loop: Instruction) -> Iterator[tuple[int, Instruction]]:
    """The elements of a state that a step only adds to."""
    condition, body = loop.called
    read = {x.attrs.index for x in condition.parameters[0].users if x.opcode == "get-tuple-element"}
    for k in range(len(body.parameters[0].shape.elements)):
        add = None if k in read else _sum_of(body.parameters[0], body.root, k)
        if add is not None:
            yield k, add


def _sum_of(parameter: Instruction, root: Instruction, k: int) -> Instruction | None:
    """What an element of the state becomes, if that is itself and something."""
    if root.opcode != "tuple" or any(x.opcode != "get-tuple-element" for x in parameter.users):
        return None
    add = _behind(root.operands[k])
    if add.opcode != "add" or add.shape.dtype.is_pred or add.has_control_edges:
        return None
    own = [x for x in parameter.users if x.attrs.index == k]
    is_own = len(own) == 1 and [_behind(x) for x in add.operands].count(own[0]) == 1
    return add if is_own and _readers(own[0]) == [add] and _readers(add) == [root] else None


def _behind(x: Instruction) -> Instruction:
    """What an element of a tuple is."""
    while x.opcode == "get-tuple-element" and x.operands[0].opcode == "tuple":
        x = x.operands[0].operands[x.attrs.index]
    return x


def _readers(x: Instruction) -> list[Instruction]:
    """Who reads a value, also as an element of a tuple that is taken apart again."""
    readers: list[Instruction] = []
    for u in x.users:
        if u.opcode != "tuple" or u.is_root:
            readers.append(u)
            continue
        for e in u.users:
            if e.opcode != "get-tuple-element":
                readers.append(u)
            elif u.operands[e.attrs.index] is x:
                readers += _readers(e)
    return readers


def _terms(add: Instruction) -> list[Instruction]:
    """The products that are summed, behind what is linear."""
    terms, stack = [], [_behind(x) for x in add.operands]
    for _ in range(MOST_LINKS):
        if not stack:
            break
        x = stack.pop()
        if len(_readers(x)) == 1 and _is_sum(x):
            terms.append(x)
        elif len(_readers(x)) == 1 and _is_linear(x):
            stack += [_behind(y) for y in x.operands]
    return terms


def _summed_axes(walk: Walk, add: Instruction) -> frozenset[int]:
    """The axes along which shardings cut what the terms sum over."""
    return frozenset(a for x in _terms(add) for axes in _cuts(walk, x).values() for a in axes)


def _cuts(walk: Walk, x: Instruction) -> dict[int, Axes]:
    """The axes along which shardings cut the summed factors of a product."""
    table = factors(x)
    assert table is not None, "products have factors"
    cut: dict[int, Axes] = {}
    for operand, dims in zip(x.operands, table.operands, strict=True):
        (t,) = walk.of.tilings(operand.sharding, operand.shape)
        for numbers, axes in zip(dims, t.dims if t else ()):
            for k in numbers:
                if len(numbers) == 1 and table.factors[k].kind == Kind.REDUCE and axes:
                    cut.setdefault(k, axes)
    return cut


def _bytes_each(walk: Walk, add: Instruction, own: Tiling) -> float:
    """What a step would receive otherwise: sums, or what they are sums of, of which all devices
    would then make the same."""
    total = 0.0
    for x in _terms(add):
        summed = {a for axes in _cuts(walk, x).values() for a in axes} & set(own.partial)
        if not summed:
            continue
        as_sum = plan(walk.b.array(add.shape), own, Tiling(own.dims))[0]
        operands = 0.0
        for operand in x.operands:
            (t,) = walk.of.tilings(operand.sharding, operand.shape)
            if t is not None:
                kept = Tiling(t.dims).without(frozenset(summed))
                operands += plan(walk.b.array(operand.shape), t, kept)[0]
        repeated = _work(x) / walk.mesh.count(sum(own.dims, ())) if x.opcode in PRODUCTS else 0.0
        repeated *= (1 - 1 / walk.mesh.count(tuple(summed))) * multiply_bytes()
        total += min(as_sum, operands + repeated)
    return total


def _work(x: Instruction) -> float:
    """The multiplications of a product."""
    return math.prod(Loops.of(x).sizes)


def linked(walk: Walk, i: Instruction) -> TiledValue | None:
    """A linear operation on parts of sums; None where it is none of those."""
    t = walk.partial_links.get(i)
    if t is None or not _is_linear(i):
        return None
    ins = _operands(walk, i, t)
    assert ins is not None, "what is marked can be cut so"
    parts = [v.get(own) for v, own in zip(walk.operands(i), ins, strict=True)]
    shape = walk.local_shape(i.shape, [t])
    is_reshape = i.opcode == "reshape"
    part = (
        walk.b.reshaped(parts[0], shape.dims) if is_reshape else walk.b.emit_like(i, parts, shape)
    )
    return walk.result(i.shape, t, part, t)


def _operands(walk: Walk, i: Instruction, t: Tiling) -> list[Tiling] | None:
    """How the operands of a linear operation stand for a result that does so; None: not at all."""
    f = Loops.of(i)
    axes = pulled(walk, f, f.results[0], t)
    if pushed(f, f.results[0], axes) != Tiling(t.dims) or settled(walk, f, axes) != axes:
        return None
    whole = [pushed(f, dims, axes) for dims in f.operands]
    return [replace(own, partial=t.partial, reduction=t.reduction) for own in whole]


def _is_linear(x: Instruction) -> bool:
    """Whether a sum of what it gives for parts is what it gives for their sum. Conversions are not
    where digits are cut, or where integers that have wrapped would be seen to have."""
    if x.opcode != "convert":
        return x.opcode in _LINKS and not x.shape.dtype.is_pred
    before, after = x.operands[0].shape.dtype, x.shape.dtype
    if before.is_floating and after.is_floating:
        digits = after.mantissa_bits >= before.mantissa_bits
        return digits and after.exponent_bits >= before.exponent_bits
    return before.is_integral and after.is_integral and after.bits <= before.bits


def _is_sum(x: Instruction) -> bool:
    """Whether devices that have parts of what it counts have parts of a sum."""
    if x.opcode == "reduce":
        return len(x.operands) == 2 and x.called[0].root.opcode == "add" and x.shape.is_array
    return x.opcode in _SUMS
