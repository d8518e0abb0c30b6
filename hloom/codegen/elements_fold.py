"""Folds as loops: reduce, reduce-window, map.

A fold whose index has lanes carries a tile and walks the folded dimensions one by one; one whose
index is a scalar puts lanes along the fastest dimension of what it folds, and joins them at the
end. Known folds (add, multiply, minimum, maximum, and, or, xor) start from their own identity and
take the given initial value once; others start from the first tile, so that a value which is no
identity is not counted twice. Long sums are cut in blocks (`blocked_fold.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from hloom.base.diagnostics import UnsupportedError
from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.blocked_fold import (
    Restart,
    blocked_loop,
    chain_of,
    fold_kinds,
    identity,
    restart_of,
)
from hloom.codegen.elements import (
    ELEMENT,
    SIMPLE,
    Elements,
    Index,
    Result,
    common_shape,
    strides_of,
)
from hloom.codegen.elements_data import lanes_of
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value

# Loops shorter than this are written out.
UNROLL = 4
# Wider elements are rare beside those of this many bytes: they take two registers.
WORD = 4
# The most lanes of a folded row, in vectors of the machine.
ROW_VECTORS = 4


def apply(e: Elements, computation: Computation, arguments: Sequence[Value]) -> list[Value]:
    """What a computation of scalars gives for tiles: its results, a tuple's elements in order, of
    the shape of the tiles also where they are the same for all elements."""
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
    results = [known[x] for x in root.operands] if root.opcode == "tuple" else [known[root]]
    shape = common_shape([x.shape for x in (*arguments, *results)])
    return [e.builder.broadcast(x, shape) for x in results]


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


@ELEMENT.of("map")
def map_(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Result:
    [mapped] = apply(e, i.called[0], e.matched([e.value(x, index, mask) for x in i.operands]))
    return mapped


@ELEMENT.of("get-tuple-element")
def get_tuple_element(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Result:
    operand_result = e.result(i.operands[0], index, mask)
    return operand_result[i.attrs.index] if isinstance(operand_result, tuple) else operand_result


# -- reduce


@ELEMENT.of("reduce")
def reduce(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Result:
    count = len(i.operands) // 2
    inputs, inits = i.operands[:count], i.operands[count:]
    sizes = inputs[0].shape.dims
    folded = list(i.attrs.dimensions)
    kept_dims = [d for d in range(len(sizes)) if d not in folded]
    at: list[Affine] = [ZERO] * len(sizes)
    for d, x in zip(kept_dims, index):
        at[d] = x

    def elements(position: Sequence[Affine]) -> list[Value]:
        for group, x in zip(groups, position):
            for d, digit in zip(group, e.indices.digits(x, [sizes[d] for d in group])):
                at[d] = digit
        here = tuple(at)
        return [e.value(x, here, mask) for x in inputs]

    order = _memory_order(inputs[0], folded)
    initial = initial_values(e, i.called[0], inits)
    kinds = fold_kinds(i.called[0])
    if 0 in [sizes[d] for d in folded]:
        results = initial
    elif folded and not any(x.axes for x in index) and mask is None:
        groups = _merged(inputs[0], order)
        extents = [prod(sizes[d] for d in group) for group in groups]
        fold = _Fold(e, i.called[0], kinds, elements)
        results = fold.row(initial, extents, max([_widest(e, x) for x in inputs]))
    else:
        groups = [[d] for d in order]
        extents = [sizes[d] for d in order]
        shape = lanes_of(e, index, mask)
        fold = _Fold(e, i.called[0], kinds, elements)
        results = fold.tiles(initial, extents, shape)
    return tuple(results) if count > 1 else results[0]


def initial_values(e: Elements, c: Computation, inits: Sequence[Instruction]) -> list[Value]:
    """The initial values of a fold in the types that it folds in."""
    return [e.builder.convert(e.value(x, ()), p.shape.dtype) for x, p in zip(inits, c.parameters)]


def folds_own_types(x: Instruction) -> bool:
    """Whether a fold's computation takes its operands in their own types."""
    return all(y.shape.dtype is p.shape.dtype for y, p in zip(x.operands, x.called[0].parameters))


def _widest(e: Elements, x: Instruction) -> int:
    """The bytes of the widest element that one of an array is made of, in registers."""
    seen: set[Instruction] = set()
    work, widest = [x], 1
    while work:
        y = work.pop()
        if y in seen or not y.shape.is_array:
            continue
        seen.add(y)
        if y.shape.rank:
            widest = max(widest, min(y.shape.dtype.size_bytes, WORD))
        if y not in e.sources and y.opcode in SIMPLE:
            work += y.operands
    return widest


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
    restart: Restart | None = None,
    chain: int = 1,
) -> tuple[Value, ...]:
    """Loops over all positions; `body(position, *carried)` gives the next carried values. With a
    restart they are sums that are cut in blocks; `chain` are the additions in a row in a body."""
    chains = [chain]
    for n in reversed(extents):
        chains.insert(0, n * chains[0] if restart is None else chain_of(n, chains[0]))

    def level(k: int, position: tuple[Affine, ...], *values: Value) -> tuple[Value, ...]:
        if k == len(extents):
            return tuple(body(position, *values))
        if extents[k] <= UNROLL and k == len(extents) - 1 and chain == 1:
            for n in range(extents[k]):
                values = level(k + 1, (*position, constant(n)), *values)
            return values
        return blocked_loop(
            e,
            extents[k],
            values,
            lambda x, *v: level(k + 1, (*position, x), *v),
            restart,
            chain=chains[k + 1],
        )

    return level(0, (), *carried)


def combined(
    e: Elements, c: Computation, kinds: list[str] | None, x: Sequence[Value], y: Sequence[Value]
) -> list[Value]:
    if kinds is not None:
        pairs = [e.matched(pair) for pair in zip(x, y)]
        return [e.builder.binary(kind, a, b) for kind, (a, b) in zip(kinds, pairs)]
    return apply(e, c, e.matched([*x, *y]))


class _Fold:
    """A fold by a computation; `elements(position)` are its terms at a place of what is folded."""

    def __init__(
        self,
        e: Elements,
        computation: Computation,
        kinds: list[str] | None,
        elements: Reader,
    ) -> None:
        self.e = e
        self.computation = computation
        self.kinds = kinds
        self.elements = elements

    def combine(self, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        return combined(self.e, self.computation, self.kinds, x, y)

    def restart(self, carried: Sequence[Value]) -> Restart | None:
        return restart_of(self.e, self.kinds, carried)

    def tiles(
        self, initial: Sequence[Value], extents: Sequence[int], shape: tuple[int, ...]
    ) -> list[Value]:
        """Fold element by element, in all lanes at once."""
        e, b = self.e, self.e.builder
        carried = [b.broadcast(x, shape) for x in initial]

        def step(position: Sequence[Affine], *values: Value) -> Sequence[Value]:
            return self.combine(values, [b.broadcast(x, shape) for x in self.elements(position)])

        return list(nest(e, extents, carried, step, self.restart(carried)))

    def row(self, initial: Sequence[Value], extents: Sequence[int], widest: int) -> list[Value]:
        """Fold to scalars, with lanes along the fastest folded dimension; the terms are made of
        elements of so many bytes at most."""
        e = self.e
        size = extents[-1]
        widths = [max(x.dtype.size_bytes, 1 if x.dtype.is_pred else 4) for x in initial]
        widths.append(widest)
        lanes = (
            e.device.compute.vector_bytes // max(widths) * (ROW_VECTORS if len(initial) == 1 else 1)
        )
        while lanes > size:
            lanes //= 2
        if lanes < 2:
            return self.tiles(initial, extents, ())
        full = size - size % lanes
        saved, e.tile = e.tile, (lanes,)
        if self.kinds is not None:
            results = self._full_tiles(initial, extents, full, lanes)
        else:
            results = self._from_first(extents, full, lanes)
        final = self._joined(results, lanes)
        e.tile = saved
        if size % lanes:
            final = self._tail(final, extents, full)
        return self.combine(list(initial), final)

    def _line(self, outer: Sequence[Affine], lanes: int) -> Callable[..., Sequence[Value]]:
        """The body of a loop along the last dimension, which folds a tile of so many lanes."""
        return lambda k, *values: self.combine(values, self._terms(outer, k, lanes))

    def _terms(self, outer: Sequence[Affine], k: Affine, lanes: int) -> list[Value]:
        """The terms of a tile of so many lanes that begins at k in the last dimension."""
        e = self.e
        here = [*outer, k.plus(e.indices.lane(0, lanes, 1))]
        return [e.builder.broadcast(x, (lanes,)) for x in self.elements(here)]

    def _full_tiles(
        self, initial: Sequence[Value], extents: Sequence[int], full: int, lanes: int
    ) -> Sequence[Value]:
        """What each lane folds, of a fold whose identities are known."""
        e, b, kinds = self.e, self.e.builder, self.kinds
        assert kinds is not None
        types = [x.dtype for x in initial]
        carried = [b.constant(t, identity(k, t), (lanes,)) for k, t in zip(kinds, types)]
        restart = self.restart(carried)

        def row(outer: Sequence[Affine], *values: Value) -> Sequence[Value]:
            return blocked_loop(e, full, values, self._line(outer, lanes), restart, lanes)

        chain = chain_of(full // lanes) if restart else 1
        return nest(e, extents[:-1], carried, row, restart, chain)

    def _from_first(self, extents: Sequence[int], full: int, lanes: int) -> Sequence[Value]:
        """What each lane folds, beginning with the first tile."""
        e, outer = self.e, extents[:-1]
        carried = self._terms([ZERO] * len(outer), ZERO, lanes)

        def row(outer: Sequence[Affine], *values: Value, lower: int = 0) -> Sequence[Value]:
            return e.loop(full, values, self._line(outer, lanes), lanes, lower)

        ones = [1] * len(outer)
        results = nest(e, ones, carried, lambda p, *v: row(p, *v, lower=lanes))
        if prod(outer) == 1:
            return results
        # All rows but the first from their beginning.
        return e.loop(
            prod(outer), results, lambda k, *v: row(e.indices.digits(k, outer), *v), lower=1
        )

    def _tail(self, carried: Sequence[Value], extents: Sequence[int], full: int) -> list[Value]:
        """What is left of each row after the full tiles: in a smaller tile, or several."""
        e = self.e
        rest, begin = extents[-1] - full, full
        values = list(carried)
        saved = e.tile
        while rest:
            # What is known to be a sum or the like is joined whatever the number of lanes.
            lanes = rest if self.kinds is not None else 1 << (rest.bit_length() - 1)
            e.tile = (lanes,) if lanes > 1 else ()

            def step(
                position: Sequence[Affine], *v: Value, at: int = begin, lanes: int = lanes
            ) -> Sequence[Value]:
                if lanes == 1:
                    return self.combine(v, self.elements([*position, constant(at)]))
                terms = self._terms(position, constant(at), lanes)
                return self.combine(v, self._joined(terms, lanes))

            values = list(nest(e, extents[:-1], values, step, self.restart(values)))
            begin += lanes
            rest -= lanes
        e.tile = saved
        return values

    def _joined(self, values: Sequence[Value], lanes: int) -> list[Value]:
        """The lanes folded into scalars."""
        b = self.e.builder
        if self.kinds is not None:
            return [b.reduce(x, 0, kind) for x, kind in zip(values, self.kinds)]
        parts = list(values)
        while lanes > 1:
            lanes //= 2
            low = [b.slice(x, 0, 0, lanes) for x in parts]
            high = [b.slice(x, 0, lanes, lanes) for x in parts]
            parts = apply(self.e, self.computation, [*low, *high])
        return [b.reshape(x, ()) for x in parts]
