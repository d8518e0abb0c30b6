"""Proof that every load and store of a kernel stays inside its buffer.

One walk in program order: `Ranges` says what every index may be, loops and conditions add what
holds inside them, and for each access `0 <= offset` and `offset < size` are proved for every step
of the grid, every iteration and every lane whose mask is true. What cannot be proved is listed,
with the op and the bound that is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import gcd
from typing import NamedTuple

from hloom.kernel.kernel import Block, Kernel, Op, Value
from hloom.kernel.proof.linear import Linear, Symbol, of_symbol
from hloom.kernel.proof.offsets import doubted_bound, unproved_bound
from hloom.kernel.proof.ranges import PLAIN, Ranges
from hloom.kernel.proof.search import Narrowed, at_least_zero, greatest, lowest

MOST_SPLITS = 2
"""Selects in the bounds of one loop that are taken apart."""
NEAR = 1024
"""Elements beside a buffer where other memory most likely is."""
MASK_OPERAND = {"load": 2, "gather": 2, "store": 3, "scatter": 3}


class Access(NamedTuple):
    """A place that a kernel writes: the element of a lane, and what holds there.

    `scope` is what is at least zero where it happens; `always` whether it happens wherever that
    holds, in every iteration of the loops around it. `loops` are those of them that may have none.
    """

    op: Op
    offset: Linear
    scope: tuple[Linear, ...]
    always: bool
    loops: tuple[Symbol, ...]


Doubtful = tuple[int, frozenset[tuple[Symbol, int]], tuple[Linear, ...]]
"""The size of a buffer, the terms of offsets in it, and what holds where those are touched."""


class Unproved(NamedTuple):
    """An access, and the bound that could not be proved of it."""

    op: Op
    why: str


class NeedsSearch(Exception):
    """What intervals of minima and maxima do not say enough of."""


class Bounds:
    """The walk over one kernel. `unproved` is what could not be shown, `stores` every write, `far`
    loads from buffers whose mask may exclude what is far outside.

    Without `searching` it ends by `NeedsSearch` where only more than intervals could say it."""

    def __init__(self, kernel: Kernel, *, searching: bool = True) -> None:
        self.kernel = kernel
        self.searching = searching
        self.ranges = Ranges(kernel, searching=searching)
        self.sizes: dict[Value, int] = {p.value: p.size for p in kernel.params}
        self.scope: list[Linear] = []
        self.always = True
        self.loops: list[Symbol] = []
        self.unproved: list[Unproved] = []
        self.far: list[Op] = []
        self.stores: list[Access] = []
        self.doubtful: dict[Doubtful, list[tuple[Linear, Op]]] = {}
        """Accesses of the block that is walked through of which intervals are not enough, by what
        they have in common: they are proved where it ends."""
        self.address_ops: set[Op | None] = set()
        """From which offsets, masks, bounds of loops and conditions are computed."""
        self.steps: dict[Block, list[Op]] = {}
        collect_steps(kernel.body, self.address_ops, self.steps)

    def run(self) -> None:
        """Prove every access of the kernel."""
        if 0 not in self.kernel.grid:
            self.block(self.kernel.body)

    def block(self, block: Block) -> None:
        ranges, values = self.ranges, self.ranges.values
        doubtful, self.doubtful = self.doubtful, {}
        for op in self.steps[block]:
            opcode = op.opcode
            if opcode in PLAIN and (result := op.results[0]).type.dtype.is_integral:
                values[result] = PLAIN[opcode](ranges, op)  # two of three
            elif opcode in MASK_OPERAND:
                self.access(op)
                if opcode == "load" and op in self.address_ops:
                    ranges.visit(op)
            elif opcode == "for":
                self.for_(op)
            elif opcode == "if":
                self.if_(op)
            elif opcode == "while":
                self.while_(op)
            elif opcode == "alloc":
                self.sizes[op.results[0]] = op.attrs["size"]
            else:
                ranges.visit(op)
        for (size, _, scope), accesses in self.doubtful.items():
            self.prove_all(accesses, size, scope)
        self.doubtful = doubtful

    # -- accesses

    def access(self, op: Op) -> None:
        buffer, where = op.operands[:2]
        offset = self.ranges.known(where)
        if op.opcode in ("load", "store"):
            tile = op.results[0] if op.opcode == "load" else op.operands[2]
            if shape := tile.type.shape:
                offset = self.ranges.tile(offset, shape, op.attrs["strides"])
        scope, always = self.scope, self.always
        at = MASK_OPERAND[op.opcode]
        if len(op.operands) > at:
            truth = self.ranges.truth(op.operands[at])
            scope, always = [*scope, *truth.when], always and truth.exact[0]
        if op.opcode in ("store", "scatter"):
            self.stores.append(Access(op, offset, tuple(scope), always, tuple(self.loops)))
        size = self.sizes.get(buffer)
        if size is None:
            self.unproved.append(Unproved(op, "the buffer's size is not known"))
            return
        low, high = offset.bounds()
        if low >= 0 and high < size:
            return
        if op.opcode == "load" and buffer.op is None and max(-low, high - size) > NEAR:
            if not self.searching:
                raise NeedsSearch
            self.far.append(op)
        key = size, frozenset(offset.terms.items()), tuple(scope)  # the same facts, not equal ones
        self.doubtful.setdefault(key, []).append((offset, op))

    def prove_all(
        self, accesses: list[tuple[Linear, Op]], size: int, scope: Sequence[Linear]
    ) -> None:
        """Prove accesses whose offsets differ by constants: where the least and the greatest are
        inside, all are."""
        ends = sorted({x.const: x for x, _ in accesses}.items())
        if not self.searching:
            if any(doubted_bound(x, size, scope) for x in {ends[0][1], ends[-1][1]}):
                raise NeedsSearch
            return
        if len(ends) > 2 and not any(
            unproved_bound(x, size, scope) for _, x in ends[:: len(ends) - 1]
        ):
            return
        whys = {const: unproved_bound(x, size, scope) for const, x in ends}
        self.unproved += [Unproved(op, why) for x, op in accesses if (why := whys[x.const])]

    # -- blocks

    def for_(self, op: Op) -> None:
        lower, upper = [self.ranges.linear(x) for x in op.operands[:2]]
        self.loop(op, lower, upper, MOST_SPLITS)

    def loop(self, op: Op, lower: Linear, upper: Linear, splits: int) -> None:
        """A loop; one that begins or ends where a select says is looked at for each choice."""
        ends = [s for s in (*lower.terms, *upper.terms) if s.origin[:1] == ("select",)]
        if not ends or not splits:
            self.range_of(op, lower, upper)
            return
        s = ends[0]
        _, truth, *values = s.origin
        for facts, exact, value in zip(truth[:2], truth.exact, values):
            change = value.plus(Linear(0, {s: -1}))
            low, high = [x.plus(change, x.terms.get(s, 0)) for x in (lower, upper)]
            with self.inside(facts, exact) as possible:
                if possible:
                    self.loop(op, low, high, splits - 1)

    def range_of(self, op: Op, lower: Linear, upper: Linear) -> None:
        """A loop over all numbers between two."""
        ranges, block, step = self.ranges, op.blocks[0], op.attrs["step"]
        if not lower.terms and not upper.terms:
            if lower.const < upper.const:
                symbol = Symbol(lower.const, upper.const - 1, step, ("loop", lower, upper, step))
                ranges.values[block.arguments[0]] = of_symbol(symbol)
                self.carried(op.operands[2:], block.arguments[1:], [block])
                self.entered(block)
            return
        entered = at_least_zero(upper.plus(lower, -1).shifted(-1), self.scope)
        if not entered and at_least_zero(lower.plus(upper, -1), self.scope):
            return  # never entered
        rest, modulus = lower.residue()
        modulus = gcd(modulus, step)
        low, high = lowest(lower, self.scope), greatest(upper, self.scope) - 1
        low += (rest - low) % modulus
        if high < low:
            return  # never entered
        symbol = Symbol(low, high, modulus, ("loop", lower, upper, step))
        itself = Linear(0, {symbol: 1})
        if lower.terms:
            symbol.facts.append(itself.plus(lower, -1))
        for most in self.all_of(upper, lower):
            gap, by = most.plus(lower, -1).residue()
            exact = by % step == 0 and gap % step == 0
            symbol.facts.append(most.plus(itself, -1).shifted(-step if exact else -1))
        ranges.values[block.arguments[0]] = of_symbol(symbol)
        self.carried(op.operands[2:], block.arguments[1:], [block])
        if not entered:
            self.loops.append(symbol)
        if symbol.count > 1:
            self.entered(block)
        else:
            self.only_once(block, symbol)
        if not entered:
            self.loops.pop()

    def only_once(self, block: Block, symbol: Symbol) -> None:
        """Walk through the block of a loop of one iteration or none. Indices have a number where
        the loop has one, so that what its symbol says is told as of a condition."""
        change = Linear(symbol.low, {symbol: -1})
        facts = tuple([x.plus(change, x.terms.get(symbol, 0)) for x in symbol.facts])
        with self.inside(facts, True) as possible:
            if possible:
                self.block(block)

    def entered(self, block: Block) -> None:
        """Walk through a block of which no more is known than of the one around it."""
        divisions = self.ranges.divisions
        self.ranges.divisions = dict(divisions)
        self.block(block)
        self.ranges.divisions = divisions

    def all_of(self, upper: Linear, lower: Linear) -> list[Linear]:
        """What a number from `lower` on that is below `upper` is below: all that a minimum in it
        is of, and of a maximum the one part, where the number is not below the other."""
        for s, c in upper.terms.items():
            if c == 1 and s.origin[:1] == ("extreme",):
                rest = upper.plus(Linear(0, {s: -1}))
                parts = [rest.plus(x) for x in s.origin[2:]]
                if s.origin[1] < 0:
                    passed = [at_least_zero(lower.plus(y, -1), self.scope) for y in parts]
                    parts = [y for y, other in zip(parts, reversed(passed)) if other]
                return [upper, *[z for y in parts for z in self.all_of(y, lower)]]
        return [upper] if upper.terms else []

    def while_(self, op: Op) -> None:
        for block in op.blocks:
            self.carried(op.operands, block.arguments, [op.blocks[1]])
            with self.inside((), False):
                self.block(block)

    def carried(
        self, init: tuple[Value, ...], arguments: tuple[Value, ...], blocks: list[Block]
    ) -> None:
        """Buffers and values that no iteration changes are what they were before the loop."""
        last = blocks[0].ops[-1].operands
        for k, (x, argument) in enumerate(zip(init, arguments)):
            if last[k] is argument or last[k] is blocks[0].arguments[-len(arguments) :][k]:
                known = self.ranges.values.get(x)
                if known is not None:
                    self.ranges.values[argument] = known

    def if_(self, op: Op) -> None:
        truth = self.ranges.truth(op.operands[0])
        for facts, exact, block in zip(truth[:2], truth.exact, op.blocks):
            with self.inside(facts, exact) as possible:
                if possible:
                    self.block(block)

    @contextmanager
    def inside(self, facts: tuple[Linear, ...], always: bool) -> Iterator[bool]:
        """What a block knows more than the one around it; False if it is never entered.

        `always` says whether it is entered wherever the facts hold.
        """
        saved, divisions, before = len(self.scope), self.ranges.divisions, self.always
        self.always = before and always
        self.ranges.divisions = dict(divisions)
        self.scope += facts
        narrowed = Narrowed(facts)
        try:
            yield narrowed.possible
        finally:
            narrowed.undo()
            del self.scope[saved:]
            self.ranges.divisions, self.always = divisions, before


def collect_steps(block: Block, seen_ops: set[Op | None], steps: dict[Block, list[Op]]) -> None:
    """The ops of a block and of those in it that the walk looks at, in order: accesses, those with
    blocks, and those that are asked for, about a third of a kernel's.

    From the end, since what is asked for stands before who asks. Of what stands in memory or was
    carried by a loop, no more is known.
    """
    own_steps = steps[block] = []
    for op in reversed(block.ops):
        opcode, operands = op.opcode, op.operands
        at = MASK_OPERAND.get(opcode)
        if at is not None:
            seen_ops.add(operands[1].op)
            if len(operands) > at:
                seen_ops.add(operands[at].op)
        elif op.blocks:
            for inner in reversed(op.blocks):
                collect_steps(inner, seen_ops, steps)
            if opcode == "for":
                seen_ops.add(operands[0].op)
                seen_ops.add(operands[1].op)
            elif opcode == "if":
                seen_ops.add(operands[0].op)
        elif op in seen_ops:
            for x in operands:
                seen_ops.add(x.op)
        elif opcode != "alloc":
            continue
        own_steps.append(op)
    own_steps.reverse()
