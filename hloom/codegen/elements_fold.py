"""Folds as loops: reduce, reduce-window, map.

A fold whose index has lanes carries a tile and walks the folded dimensions one by one; one whose
index is a scalar puts lanes along the fastest dimension of what it folds, and joins them at the
end. Known folds (add, multiply, minimum, maximum, and, or, xor) start from their own identity and
take the given initial value once; others start from the first tile, so that a value which is no
identity is not counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from hloom.base.diagnostics import UnsupportedError
from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.elements import ELEMENT, SIMPLE, Elements, Index, Result, strides_of
from hloom.codegen.elements_data import lanes_of
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import FOLDS, Value
from hloom.types.dtype import DType
from hloom.types.limits import max_value, min_value

# Loops shorter than this are written out.
UNROLL = 4
# The most lanes of a folded row, in vectors of the machine.
ROW_VECTORS = 4


def apply(e: Elements, computation: Computation, arguments: Sequence[Value]) -> list[Value]:
    """What a computation of scalars gives for tiles: its results, a tuple's elements in order."""
    known: dict[Instruction, Value] = {}
    for i in computation.in_order():
        opcode = i.opcode
        if opcode == "parameter":
            known[i] = arguments[i.attrs.number]
        elif opcode == "constant":
            known[i] = e.builder.constant(i.shape.dtype, i.attrs.literal.array.flat[0])
        elif opcode in SIMPLE:
            known[i] = e.elementwise(i, [known[x] for x in i.operands])
        elif opcode in ("copy", "reshape", "broadcast", "bitcast", "transpose"):
            known[i] = known[i.operands[0]]
        elif opcode == "bitcast-convert":
            known[i] = e.builder.unary("bitcast-convert", known[i.operands[0]], i.shape.dtype)
        elif opcode == "call":
            [known[i]] = apply(e, i.called[0], [known[x] for x in i.operands])
        elif opcode != "tuple":
            raise UnsupportedError(
                f"%{computation.name}/%{i.name}: {opcode} in what combines or compares elements "
                "has no code",
                rule="cpu-unsupported",
                hint="write it with operations on single elements, or what calls it as a while",
            )
    root = computation.root
    if root.opcode == "tuple":
        return [known[x] for x in root.operands]
    return [known[root]]


def is_applicable(computation: Computation) -> bool:
    """Whether `apply` can write the computation."""
    plain = {"parameter", "constant", "tuple", "copy", "reshape", "broadcast", "bitcast"}
    plain |= {"transpose", "bitcast-convert"}
    for i in computation.instructions:
        if i.opcode == "call":
            if i.called[0].root.opcode == "tuple" or not is_applicable(i.called[0]):
                return False
        elif i.opcode not in SIMPLE | plain or (i.opcode != "tuple" and i.shape.size != 1):
            return False
    return True


def fold_kind(computation: Computation) -> str | None:
    """The opcode of a computation that folds two scalars by one commutative operation."""
    root = computation.root
    if root.opcode not in FOLDS or len(root.operands) != 2:
        return None
    numbers = [x.attrs.number for x in root.operands if x.opcode == "parameter"]
    return root.opcode if sorted(numbers) == [0, 1] else None


def identity(kind: str, of: DType) -> object:
    """The value that changes nothing in a fold of this kind."""
    if kind in ("add", "or", "xor"):
        return 0
    if kind == "multiply":
        return 1
    if kind == "and":
        return 1 if of.is_pred else (-1 if of.is_signed_int else (1 << of.bits) - 1)
    if of.is_pred:
        return 0 if kind == "maximum" else 1
    return min_value(of) if kind == "maximum" else max_value(of)


@ELEMENT.of("map")
def map_(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Result:
    [found] = apply(e, i.called[0], e.matched([e.value(x, index, mask) for x in i.operands]))
    return found


@ELEMENT.of("get-tuple-element")
def get_tuple_element(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Result:
    found = e.result(i.operands[0], index, mask)
    return found[i.attrs.index] if isinstance(found, tuple) else found


# -- reduce


@ELEMENT.of("reduce")
def reduce(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Result:
    count = len(i.operands) // 2
    inputs, inits = i.operands[:count], i.operands[count:]
    sizes = inputs[0].shape.dims
    folded = list(i.attrs.dimensions)
    kept = [d for d in range(len(sizes)) if d not in folded]
    at: list[Affine] = [ZERO] * len(sizes)
    for d, x in zip(kept, index):
        at[d] = x

    def elements(position: Sequence[Affine]) -> list[Value]:
        for group, x in zip(groups, position):
            for d, digit in zip(group, e.indices.digits(x, [sizes[d] for d in group])):
                at[d] = digit
        here = tuple(at)
        return [e.value(x, here, mask) for x in inputs]

    order = _memory_order(inputs[0], folded)
    initial = initial_values(e, i.called[0], inits)
    kinds = fold_kind(i.called[0]) if count == 1 else None
    if 0 in [sizes[d] for d in folded]:
        results = initial
    elif folded and not any(x.axes for x in index) and mask is None:
        groups = _merged(inputs[0], order)
        extents = [prod(sizes[d] for d in group) for group in groups]
        results = _fold_row(e, i.called[0], kinds, initial, extents, elements)
    else:
        groups = [[d] for d in order]
        extents = [sizes[d] for d in order]
        shape = lanes_of(e, index, mask)
        results = _fold_tiles(e, i.called[0], kinds, initial, extents, elements, shape)
    return tuple(results) if count > 1 else results[0]


def initial_values(e: Elements, c: Computation, inits: Sequence[Instruction]) -> list[Value]:
    """The initial values of a fold in the types that it folds in."""
    return [e.builder.convert(e.value(x, ()), p.shape.dtype) for x, p in zip(inits, c.parameters)]


def folds_own_types(x: Instruction) -> bool:
    """Whether a fold's computation takes its operands in their own types."""
    return all(y.shape.dtype is p.shape.dtype for y, p in zip(x.operands, x.called[0].parameters))


def _memory_order(x: Instruction, folded: Sequence[int]) -> list[int]:
    """The folded dimensions from slowest to fastest in memory."""
    layout = x.shape.layout
    if layout is None:
        return sorted(folded)
    return [d for d in layout.minor_to_major[::-1] if d in folded]


# Dimensions of rows shorter than this are walked together with the next slower one.
SHORT_ROW = 64


def _merged(x: Instruction, order: Sequence[int]) -> list[list[int]]:
    """The folded dimensions in groups, slowest first: a short fastest one is joined with others
    that follow it in memory without a gap."""
    strides, sizes = strides_of(x.shape), x.shape.dims
    solid = [d for d in order if sizes[d] != 1] or list(order[-1:])
    groups = [[solid[-1]]]
    for d in reversed(solid[:-1]):
        first = groups[0][0]
        length = prod(sizes[k] for k in groups[0])
        is_next = strides[d] == strides[first] * sizes[first]
        if len(groups) == 1 and length < SHORT_ROW and is_next:
            groups[0].insert(0, d)
        else:
            groups.insert(0, [d])
    return groups


Reader = Callable[[Sequence[Affine]], list[Value]]


def nest(
    e: Elements,
    extents: Sequence[int],
    carried: Sequence[Value],
    body: Callable[..., Sequence[Value]],
) -> tuple[Value, ...]:
    """Loops over all positions; `body(position, *carried)` gives the next carried values."""

    def level(k: int, position: tuple[Affine, ...], *values: Value) -> tuple[Value, ...]:
        if k == len(extents):
            return tuple(body(position, *values))
        if extents[k] <= UNROLL and k == len(extents) - 1:
            for n in range(extents[k]):
                values = level(k + 1, (*position, constant(n)), *values)
            return values
        return e.loop(extents[k], values, lambda x, *v: level(k + 1, (*position, x), *v))

    return level(0, (), *carried)


def combined(
    e: Elements, c: Computation, kind: str | None, x: Sequence[Value], y: Sequence[Value]
) -> list[Value]:
    if kind is not None:
        a, b = e.matched([x[0], y[0]])
        return [e.builder.binary(kind, a, b)]
    pairs = e.matched([*x, *y])
    return apply(e, c, pairs)


def _fold_tiles(
    e: Elements,
    c: Computation,
    kind: str | None,
    initial: Sequence[Value],
    extents: Sequence[int],
    elements: Reader,
    shape: tuple[int, ...],
) -> list[Value]:
    """Fold element by element, in all lanes at once."""
    carried = [e.builder.broadcast(x, shape) for x in initial]

    def step(position: Sequence[Affine], *values: Value) -> Sequence[Value]:
        found = [e.builder.broadcast(x, shape) for x in elements(position)]
        return combined(e, c, kind, values, found)

    return list(nest(e, extents, carried, step))


def _fold_row(
    e: Elements,
    c: Computation,
    kind: str | None,
    initial: Sequence[Value],
    extents: Sequence[int],
    elements: Reader,
) -> list[Value]:
    """Fold to scalars, with lanes along the fastest folded dimension."""
    b = e.builder
    size = extents[-1]
    widths = [max(x.dtype.size_bytes, 1 if x.dtype.is_pred else 4) for x in initial]
    lanes = e.vector_bytes // max(widths) * (ROW_VECTORS if len(initial) == 1 else 1)
    while lanes > size:
        lanes //= 2
    if lanes < 2:
        return _fold_tiles(e, c, kind, initial, extents, elements, ())
    full = size - size % lanes
    saved, e.tile = e.tile, (lanes,)
    lane = e.indices.lane(0, lanes, 1)
    if kind is not None:
        of = initial[0].dtype
        carried = [b.constant(of, identity(kind, of), (lanes,))]
        first = 0
    else:
        start = [ZERO] * (len(extents) - 1)
        carried = [b.broadcast(x, (lanes,)) for x in elements([*start, lane])]
        first = lanes

    def step(position: Sequence[Affine], *values: Value) -> Sequence[Value]:
        found = [b.broadcast(x, (lanes,)) for x in elements(position)]
        return combined(e, c, kind, values, found)

    def row(outer: Sequence[Affine], *values: Value, lower: int = 0) -> Sequence[Value]:
        return e.loop(
            full, values, lambda k, *v: step([*outer, k.plus(lane)], *v), step=lanes, lower=lower
        )

    outer = extents[:-1]
    if kind is not None or all(n == 1 for n in outer):
        results = nest(e, outer, carried, lambda p, *v: row(p, *v, lower=first))
    else:
        raise_rows = [1] * len(outer)
        results = nest(e, raise_rows, carried, lambda p, *v: row(p, *v, lower=first))
        # All rows but the first from their beginning.
        results = _remaining_rows(e, outer, results, row)
    final = _joined(e, c, kind, results, lanes)
    e.tile = saved
    if size % lanes:
        final = _tail(e, c, kind, final, extents, full, elements)
    return combined(e, c, kind, list(initial), final)


def _remaining_rows(
    e: Elements, outer: Sequence[int], carried: Sequence[Value], row: Callable[..., Sequence[Value]]
) -> Sequence[Value]:
    """Rows of every outer position but the first, as one loop over their number."""
    total = 1
    for n in outer:
        total *= n
    return e.loop(total, carried, lambda k, *v: row(e.indices.digits(k, outer), *v), lower=1)


def _tail(
    e: Elements,
    c: Computation,
    kind: str | None,
    carried: Sequence[Value],
    extents: Sequence[int],
    full: int,
    elements: Reader,
) -> list[Value]:
    """What is left of each row after the full tiles: in smaller tiles, then one by one."""
    size = extents[-1]
    rest = size - full
    values = list(carried)
    begin = full
    saved = e.tile
    while rest:
        lanes = 1 << (rest.bit_length() - 1)
        e.tile = (lanes,) if lanes > 1 else ()
        lane = e.indices.lane(0, lanes, 1)

        def step(
            position: Sequence[Affine],
            *v: Value,
            at: int = begin,
            lane: Affine = lane,
            lanes: int = lanes,
        ) -> Sequence[Value]:
            found = elements([*position, lane.plus(at)])
            if lanes > 1:
                found = [e.builder.broadcast(x, (lanes,)) for x in found]
                found = _joined(e, c, kind, found, lanes)
            return combined(e, c, kind, v, found)

        values = list(nest(e, extents[:-1], values, step))
        begin += lanes
        rest -= lanes
    e.tile = saved
    return values


def _joined(
    e: Elements, c: Computation, kind: str | None, values: Sequence[Value], lanes: int
) -> list[Value]:
    """The lanes folded into scalars."""
    b = e.builder
    if kind is not None:
        return [b.reduce(values[0], 0, kind)]
    parts = list(values)
    while lanes > 1:
        lanes //= 2
        low = [b.slice(x, 0, 0, lanes) for x in parts]
        high = [b.slice(x, 0, lanes, lanes) for x in parts]
        parts = apply(e, c, [*low, *high])
    return [b.reshape(x, ()) for x in parts]
