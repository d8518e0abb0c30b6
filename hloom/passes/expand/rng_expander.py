"""rng as bits of Philox, keyed for each instruction and counted by the device's random state.

HLO leaves open which values `rng` gives: the evaluator takes them from numpy's generator, whose
stream no program could reproduce, so only ranges and distributions stay the same here, not the
values. The key of the k-th rng of a module is word k of a fixed sequence (splitmix64), never 0
, so that two instructions give independent values though they share a state.

Uniform floats are multiples of 2^-24 (f64: 2^-53) in [0, 1), scaled; a result that rounding would
lift to the upper end becomes the value below it. Normal ones come from pairs by Box and Muller
(1958). Uniform integers are low + bits mod (high - low) in 64 bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, prod

from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.passes.computation_pass import settle
from hloom.passes.expand.expansion import Expansion, put_in_place, refuse
from hloom.passes.expand.rng_bit_generator_expander import philox_bits
from hloom.passes.facts import without
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace
from hloom.types.dtype import F32, F64, PRED, S64, U32, U64, DType
from hloom.types.shape import Shape, shape

SEED = 0x3C6EF372FE94F82B
_WORDS = (1 << 64) - 1


def key_of(number: int) -> int:
    """The Philox key of the `number`-th rng instruction: splitmix64 (Steele et al., 2014)."""
    z = (SEED + (number + 1) * 0x9E3779B97F4A7C15) & _WORDS
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORDS
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORDS
    return (z ^ (z >> 31)) or 1


@dataclass(frozen=True)
class Words:
    """Where the random bits of one instruction come from."""

    b: Expansion
    key: int

    def draw(self, count: int, width: int) -> Instruction:
        """u64 or u32 `[count]` of random bits; moves the device's random state on."""
        b = self.b
        blocks = -(-count * (2 if width == 64 else 1) // 4)
        state = self.state(max(1, blocks))
        low, high = (b.reshaped(b.sliced(state, 0, k, k + 1), ()) for k in range(2))
        return philox_bits(b, self.key_here(), low, high, (count,), width)[0]

    def state(self, blocks: int) -> Instruction:
        """The state from which on so many blocks are drawn."""
        return self.b.emit("rng-get-and-update-state", delta=blocks)

    def key_here(self) -> Instruction:
        """The key, u64."""
        return self.b.scalar(self.key, U64)


def unit_floats(b: Expansion, words: Instruction, dtype: DType) -> Instruction:
    """Random words as floats in [0, 1), all multiples of the spacing below 1."""
    digits = 53 if dtype is F64 else 24
    word = words.shape.dtype
    cut = b.full(word.bits - digits, word, words.shape.dims)
    whole = b.converted(b.shift_right_logical(words, cut), dtype)
    return b.multiply(whole, b.full(2.0**-digits, dtype, words.shape.dims))


def uniform(b: Expansion, of: Shape, bounds: Sequence[Instruction], random: Words) -> Instruction:
    """Values in [low, high) of any type but complex."""
    dtype, dims = of.dtype, of.dims
    if dtype.is_floating:
        wide = F64 if dtype is F64 else F32
        words = random.draw(prod(dims), wide.bits)
        unit = b.reshaped(unit_floats(b, words, wide), dims)
        low, high = (b.spread(b.converted(o, wide), dims) for o in bounds)
        number = b.converted(b.add(low, b.multiply(unit, b.subtract(high, low))), dtype)
        ends = [b.spread(o, dims) for o in bounds]
        reached = b.and_(b.compared(number, ends[1], "GE"), b.compared(ends[0], ends[1], "LT"))
        return b.select(reached, _below(b, ends[1]), number)
    words = random.draw(prod(dims), 64 if not dtype.is_pred else 32)
    words = b.reshaped(words, dims)
    if dtype.is_pred:
        half = b.full(1 << 31, U32, dims)
        return b.compared(words, half, "LT")
    wide = U64 if dtype.is_unsigned_int else S64
    low, high = (b.spread(b.converted(o, wide), dims) for o in bounds)
    empty = b.compared(high, low, "LE")
    ends = [b.converted(x, U64) for x in (low, high)]
    count = b.select(empty, b.full(1, U64, dims), b.subtract(ends[1], ends[0]))
    return b.converted(b.add(ends[0], b.remainder(words, count)), dtype)


def _below(b: Expansion, x: Instruction) -> Instruction:
    """The next value below finite floats, by their bits: one less above zero, else one more."""
    dtype, dims = x.shape.dtype, x.shape.dims
    word = shape(f"s{dtype.bits}", dims)
    bits = b.emit("bitcast-convert", x, shape=word)
    zero = b.full(0, dtype, dims)
    one = b.full(1, word.dtype, dims)
    moved = b.select(b.compared(x, zero, "GT"), b.subtract(bits, one), b.add(bits, one))
    tiny = b.full(1, word.dtype, dims)  # below zero stands the smallest negative number
    sign = b.full(-(1 << (dtype.bits - 1)), word.dtype, dims)
    moved = b.select(b.compared(x, zero, "EQ"), b.or_(tiny, sign), moved)
    return b.emit("bitcast-convert", moved, shape=shape(dtype, dims))


def normal(b: Expansion, of: Shape, bounds: Sequence[Instruction], random: Words) -> Instruction:
    """mean + deviation * normal values, two of each pair of uniform ones."""
    dtype, dims = of.dtype, of.dims
    wide = F64 if dtype is F64 else F32
    count = prod(dims)
    pairs = -(-count // 2)
    words = random.draw(2 * pairs, wide.bits)
    first, second = (
        unit_floats(b, b.sliced(words, 0, k * pairs, (k + 1) * pairs), wide) for k in range(2)
    )
    # 1 - u is in (0, 1], so that the logarithm is finite.
    one = b.full(1, wide, (pairs,))
    radius = b.multiply(b.log(b.subtract(one, first)), b.full(-2, wide, (pairs,)))
    radius = b.sqrt(radius)
    angle = b.multiply(second, b.full(2 * pi, wide, (pairs,)))
    parts = [b.multiply(radius, b.cosine(angle)), b.multiply(radius, b.sine(angle))]
    flat = b.sliced(b.joined(parts, 0), 0, 0, count)
    mean, deviation = (b.spread(b.converted(o, wide), dims) for o in bounds)
    number = b.add(mean, b.multiply(deviation, b.reshaped(flat, dims)))
    return b.converted(number, dtype)


def drawn(
    b: Expansion, i: Instruction, of: Shape, bounds: Sequence[Instruction], random: Words
) -> Instruction:
    """Values as an rng instruction has them, of a shape and between bounds of its own;
    `ExpandError` for types that have none."""
    dtype, kind = of.dtype, i.attrs.distribution
    if kind == "rng_uniform" and not dtype.is_complex:
        if dtype is PRED or dtype.is_integral or dtype.bits >= 16:
            return uniform(b, of, bounds, random)
    if kind == "rng_normal" and dtype.is_floating:
        return normal(b, of, bounds, random)
    raise refuse(
        i,
        f"no values of type {dtype} are known for the distribution {kind}",
        "rng-type",
        "draw f32 values and convert them",
    )


@register
class RngExpander(Pass):
    """Write rng with the bits of Philox, counted by rng-get-and-update-state.

    Values differ from those the evaluator draws, which HLO leaves open; ranges and distributions
    are the same.
    """

    name = "rng-expander"
    opcodes = frozenset(["rng"])
    gives = (without("rng"),)

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        generators = [
            i for c in on_threads(module, threads) for i in c.in_order() if i.opcode == "rng"
        ]
        for number, i in enumerate(generators):
            b = Expansion(i.parent, {})
            random = Words(b, key_of(number))
            put_in_place(b, i, drawn(b, i, i.shape, i.operands, random))
        settle(module, dict.fromkeys(i.parent for i in generators))
        return PassResult.of(+Counter(rng=len(generators)))
