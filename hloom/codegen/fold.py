"""Folds as loops over what they fold: element by element, or along rows.

Known folds (add, multiply, minimum, maximum, and, or, xor) start from their own identity and take
the given initial value once; others start from the first tile, so that a value which is no identity
is not counted twice. Long sums are cut in blocks (`blocked_fold.py`), extremes of floats are those
of integers (`extreme_keys.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.blocked_fold import (
    Restart,
    blocked_loop,
    chain_of,
    identity,
    neutral,
    restart_of,
)
from hloom.codegen.combiner import apply, combined
from hloom.codegen.elements import Elements
from hloom.codegen.extreme_keys import ExtremeKeys, extreme_keys
from hloom.ir.computation import Computation
from hloom.ir.op import opcodes
from hloom.ir.traits import IDEMPOTENT
from hloom.kernel.kernel import Value

# Loops shorter than this are written out.
UNROLL = 4
# Wider elements are rare beside those of this many bytes: they take two registers.
WORD = 4
# The most lanes of a folded row, in vectors of the machine.
ROW_VECTORS = 4
# Folds in which a term may be counted twice.
TWICE = opcodes(IDEMPOTENT)

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


def _is_plain(kind: str, initial: Value) -> bool:
    """Whether an initial value is known to change nothing; 0 changes a sum of -0."""
    if initial.op is None or initial.op.opcode != "constant":
        return False
    value = initial.op.attrs["value"]
    return kind in ("maximum", "minimum") and bool(value == identity(kind, initial.dtype))


class Fold:
    """A fold by a computation; `read(position)` are its terms at a place of what is folded."""

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
        self.read = elements
        self.keys: ExtremeKeys | None = None
        self.is_read = False
        """Whether all terms are in memory."""
        self.begins_plainly = False
        """Whether its initial values leave every term as it is."""

    def elements(self, position: Sequence[Affine]) -> list[Value]:
        """The terms at a place of what is folded."""
        terms = self.read(position)
        return terms if self.keys is None else self.keys.keys(self.e, terms)

    def combine(self, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        return combined(self.e, self.computation, self.kinds, x, y)

    def restart(self, carried: Sequence[Value]) -> Restart | None:
        return restart_of(self.e, self.kinds, carried)

    def tiles(
        self, initial: Sequence[Value], extents: Sequence[int], shape: tuple[int, ...]
    ) -> list[Value]:
        """Fold element by element, in all lanes at once."""
        return self._as_integers(initial, lambda first: self._tiles(first, extents, shape))

    def _as_integers(
        self, initial: Sequence[Value], fold: Callable[[Sequence[Value]], list[Value]]
    ) -> list[Value]:
        """What a fold gives from its initial values, extremes of floats as those of integers."""
        self.begins_plainly = self.kinds is not None and all(map(_is_plain, self.kinds, initial))
        self.keys = extreme_keys(self.e.device, self.kinds, [x.dtype for x in initial])
        if self.keys is None:
            return fold(initial)
        results = fold(self.keys.keys(self.e, initial))
        return self.keys.floats_of(self.e, results)

    def _tiles(
        self, initial: Sequence[Value], extents: Sequence[int], shape: tuple[int, ...]
    ) -> list[Value]:
        e, b = self.e, self.e.builder
        carried = [b.broadcast(x, shape) for x in initial]

        def step(position: Sequence[Affine], *values: Value) -> Sequence[Value]:
            return self.combine(values, [b.broadcast(x, shape) for x in self.elements(position)])

        return list(nest(e, extents, carried, step, self.restart(carried)))

    def row(self, initial: Sequence[Value], extents: Sequence[int], widest: int) -> list[Value]:
        """Fold to scalars, with lanes along the fastest folded dimension; the terms are made of
        elements of so many bytes at most."""
        return self._as_integers(initial, lambda first: self._row(first, extents, widest))

    def _row(self, initial: Sequence[Value], extents: Sequence[int], widest: int) -> list[Value]:
        e = self.e
        size = extents[-1]
        floats = self.keys.floats if self.keys is not None and self.is_read else [None]
        least = 1 if all(floats) else WORD
        widths = [max(x.dtype.size_bytes, 1 if x.dtype.is_pred else least) for x in initial]
        widths.append(widest)
        lanes = (
            e.device.compute.vector_bytes // max(widths) * (ROW_VECTORS if len(initial) == 1 else 1)
        )
        while lanes > size:
            lanes //= 2
        if lanes < 2:
            return self._tiles(initial, extents, ())
        full = size - size % lanes
        rest = size - full
        is_padded = self.kinds is not None and rest > 1 and len(extents) == 1
        saved, e.tile = e.tile, (lanes,)
        if self.kinds is not None:
            results = self._full_tiles(initial, extents, full, lanes)
        else:
            results = self._from_first(extents, full, lanes)
        final = self._joined(
            *self._with_rest(results, full, rest, lanes) if is_padded else (results, lanes)
        )
        e.tile = saved
        if rest and not is_padded:
            final = self._tail(final, extents, full)
        return final if self.begins_plainly else self.combine(list(initial), final)

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

    def _with_rest(
        self, values: Sequence[Value], full: int, rest: int, lanes: int
    ) -> tuple[Sequence[Value], int]:
        """What the lanes folded of a row with what is left of it after the full tiles, in as many
        lanes as that needs: joining them by themselves would take as long again. What may be
        folded twice is read again from before; else lanes that are left over change nothing."""
        e, b, kinds = self.e, self.e.builder, self.kinds
        assert kinds is not None
        while lanes // 2 >= rest:
            lanes //= 2
            values = self.combine(*[[b.slice(x, 0, k, lanes) for x in values] for k in (0, lanes)])
        is_again = self.is_read and set(kinds) <= TWICE
        begin, count = (full + rest - lanes, lanes) if is_again else (full, rest)
        saved, e.tile = e.tile, (count,)
        terms = self._terms([], constant(begin), count)
        e.tile = saved
        if count < lanes:
            types = [x.dtype for x in terms]
            blanks = [b.constant(t, neutral(k, t), (lanes - count,)) for k, t in zip(kinds, types)]
            terms = [b.concatenate([x, blank], 0) for x, blank in zip(terms, blanks)]
        return self.combine(values, terms), lanes

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
        if self.kinds is not None and rest > 1 and prod(extents[:-1]) > 1:
            e.tile = (rest,)
            results = self._rest_of_all(values, extents, full, rest)
            e.tile = saved
            return self.combine(values, self._joined(results, rest))
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

    def _rest_of_all(
        self, values: Sequence[Value], extents: Sequence[int], full: int, rest: int
    ) -> Sequence[Value]:
        """What each lane folds of what is left of all rows: joined once, not row by row."""
        e, b, kinds = self.e, self.e.builder, self.kinds
        assert kinds is not None
        types = [x.dtype for x in values]
        blank = [b.constant(t, neutral(k, t), (rest,)) for k, t in zip(kinds, types)]

        def step(position: Sequence[Affine], *v: Value) -> Sequence[Value]:
            return self.combine(v, self._terms(position, constant(full), rest))

        return nest(e, extents[:-1], blank, step, self.restart(blank))

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
