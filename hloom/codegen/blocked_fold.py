"""Long sums in blocks, so that rounding errors grow with the logarithm of their length.

A sum of n numbers one after the other loses up to n/2 units in the last place. Here a long loop is
a nest: a block of `RUN` iterations begins with what changes nothing, and is joined to the sum of
the blocks before it; where there are many blocks they are summed in blocks again. So no number goes
through more than 1.5 `RUN` additions for each factor of `RUN` in the length, and a block costs one
addition more. (Higham 1993, The accuracy of floating point summation.) Only sums are cut: extremes
and integers are exact, and a product of n factors rounds n times in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hloom.codegen.affine import Affine
from hloom.codegen.elements import Elements
from hloom.ir.computation import Computation
from hloom.kernel.kernel import FOLDS, Value
from hloom.types.dtype import DType
from hloom.types.limits import max_value, min_value

# Additions in a row, after which a new block begins.
RUN = 16
# Multiply-adds in a row of a product whose sums fill the registers: what leaves them has a price.
DEEP_RUN = 256
# The same where registers are left for the sums of the blocks before.
FEW_RUN = 32

# The same of products by whole tiles, whose sums go through memory when a block ends.
TILE_RUN = 512


class Restart(NamedTuple):
    """How a fold is cut in blocks: what each begins with, and how two results become one."""

    begin: Callable[[], Sequence[Value]]
    join: Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]


def block_sizes(count: int, chain: int = 1, run: int = RUN) -> list[int]:
    """Iterations of the blocks of each level, the smallest first, of a loop of `count` iterations
    with `chain` additions in a row in each; none where the loop is short enough."""
    sizes: list[int] = []
    size, blocks = 1, count
    while blocks > 1 and 2 * blocks * chain > 3 * run:
        size *= max(1, run // chain)
        sizes.append(size)
        blocks, chain = -(-count // size), 1
    return sizes


def chain_of(count: int, chain: int = 1, run: int = RUN) -> int:
    """Additions in a row that the outermost sum of such a loop goes through."""
    sizes = block_sizes(count, chain, run)
    return -(-count // sizes[-1]) if sizes else count * chain


def blocked_loop(
    e: Elements,
    extent: int,
    carried: Sequence[Value],
    body: Callable[..., Sequence[Value]],
    restart: Restart | None,
    step: int = 1,
    lower: int = 0,
    chain: int = 1,
    run: int = RUN,
    upper: Value | None = None,
) -> tuple[Value, ...]:
    """`Elements.loop`, in blocks; plain where there is no restart. `upper` is where it ends if that
    is known at run time only, at most the extent."""
    count = -(-(extent - lower) // step)
    sizes = block_sizes(count, chain, run) if restart is not None else []
    if upper is None and not sizes:
        return e.loop(extent, carried, body, step, lower)
    b = e.builder
    apart = step if lower % step == 0 else 1

    def index(k: Value, size: int) -> Affine:
        last = lower + (count - 1) // size * size * step
        return e.indices.scalar(k, lower, last, apart * (size if lower == 0 else 1))

    def block(level: int, start: Affine, values: Sequence[Value]) -> Sequence[Value]:
        """The blocks of a level within one of the next level, which begins at `start`."""
        size = sizes[level + 1] * step
        first = e.scalar(start)
        end = b.binary("add", first, b.index(size))
        if upper is not None:
            end = b.binary("minimum", end, upper)
        elif (extent - lower) % size:
            end = b.binary("minimum", end, b.index(extent))
        return loop(level, first, end, values)

    def one(level: int, start: Affine, values: Sequence[Value]) -> Sequence[Value]:
        """One block, joined to what was before it."""
        assert restart is not None
        fresh = tuple(restart.begin())
        if level == 0 and sizes[0] == 1:
            return restart.join(values, body(start, *fresh))
        return restart.join(values, block(level - 1, start, fresh))

    def loop(level: int, first: Value | int, end: Value | int, values: Sequence[Value]):
        size = sizes[level] if level >= 0 else 1

        def write(k: Value, *now: Value) -> Sequence[Value]:
            at = index(k, size)
            return body(at, *now) if level < 0 else one(level, at, now)

        return e.for_(first, end, size * step, values, write)

    return tuple(loop(len(sizes) - 1, lower, extent if upper is None else upper, carried))


# -- folds by operations that are known


def fold_kind(computation: Computation) -> str | None:
    """The opcode of a computation that folds two scalars by one commutative operation."""
    root = computation.root
    if root.opcode not in FOLDS or len(root.operands) != 2:
        return None
    numbers = [x.attrs.number for x in root.operands if x.opcode == "parameter"]
    return root.opcode if sorted(numbers) == [0, 1] else None


def fold_kinds(computation: Computation) -> list[str] | None:
    """The opcodes of a computation that folds each of several values by itself."""
    root = computation.root
    if root.opcode != "tuple":
        kind = fold_kind(computation)
        return None if kind is None else [kind]
    count = len(root.operands)
    kinds = []
    for k, x in enumerate(root.operands):
        numbers = [y.attrs.number for y in x.operands if y.opcode == "parameter"]
        if x.opcode not in FOLDS or len(x.operands) != 2 or sorted(numbers) != [k, k + count]:
            return None
        kinds.append(x.opcode)
    return kinds


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


def rounds(kind: str, of: DType) -> bool:
    """Whether a long fold of this kind loses more, the longer its chains are."""
    return kind == "add" and (of.is_floating or of.is_complex)


def gains(kinds: Sequence[str] | None, types: Sequence[DType]) -> bool:
    """Whether a fold of several values is more exact in blocks, and can be cut."""
    return kinds is not None and any(map(rounds, kinds, types))


def restart_of(e: Elements, kinds: Sequence[str] | None, values: Sequence[Value]) -> Restart | None:
    """How a fold by these operations is cut in blocks, with values of these types; None where
    nothing is gained, or where no value is known that changes nothing."""
    if kinds is None or not gains(kinds, [x.dtype for x in values]):
        return None
    b, types = e.builder, [x.type for x in values]

    def begin() -> list[Value]:
        return [b.constant(t.dtype, neutral(k, t.dtype), t.shape) for k, t in zip(kinds, types)]

    def join(before: Sequence[Value], block: Sequence[Value]) -> list[Value]:
        return [b.binary(k, x, y) for k, x, y in zip(kinds, before, block)]

    return Restart(begin, join)


def neutral(kind: str, of: DType) -> object:
    """The identity; -0 for sums, since 0 + -0 is 0 and a sum of such would lose its sign."""
    return -0.0 if kind == "add" and of.is_floating else identity(kind, of)


def sum_restart(e: Elements, values: Sequence[Value]) -> Restart | None:
    """How sums of these types are cut in blocks; None where they are exact."""
    return restart_of(e, ["add"] * len(values), values)
