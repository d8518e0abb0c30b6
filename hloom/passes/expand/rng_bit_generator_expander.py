"""rng-bit-generator as elementwise operations on iota counters, bit-exact with its definition.

A state is a 64-bit key and a counter: of 64 bits, or of 128 with the low word first (Philox with
a state of two words has the key as the high word of the counter). Words of a block stand side by
side in a new minor dimension, so the array of all bits is a reshape of them.
"""

from __future__ import annotations

from math import prod

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expander, Expansion, refuse
from hloom.passes.expand.random_bits import joined_halves, philox, threefry
from hloom.passes.facts import without
from hloom.passes.pass_ import register
from hloom.types.dtype import S2, S4, U2, U4, U8, U16, U32, U64, DType
from hloom.types.shape import Shape, shape

WORDS = {8: U8, 16: U16, 32: U32, 64: U64}


MOST_STATE_WORDS = 64
"""Generators read three at most."""


def state_words(b: Expansion, i: Instruction, state: Instruction) -> list[Instruction]:
    """The 64-bit words of a state as u64 scalars."""
    of = state.shape
    if of.dtype is not U64:
        if of.dtype.bits != 32:
            raise refuse(i, f"a random state is u64 or u32, not {of.dtype}", "rng-state")
        if of.size % 2:
            raise refuse(i, f"{of.size} words of 32 bits are no random state", "rng-state")
        pairs = b.reshaped(state, (of.size // 2, 2))
        state = b.emit("bitcast-convert", pairs, shape=shape(U64, (of.size // 2,)))
    count = state.shape.size
    if count > MOST_STATE_WORDS:
        raise refuse(i, f"no generator has a state of {count} words", "rng-state")
    flat = b.reshaped(state, (count,))
    if count < 2:
        raise refuse(i, "a random state has at least 128 bits", "rng-state")
    return [b.reshaped(b.sliced(flat, 0, k, k + 1), ()) for k in range(count)]


def new_state(b: Expansion, words: list[Instruction], of: Shape) -> Instruction:
    """The words as a state of this shape."""
    state = b.joined([b.reshaped(w, (1,)) for w in words], 0)
    if of.dtype is not U64:
        state = b.emit("bitcast-convert", state, shape=shape(of.dtype, (len(words), 2)))
    return b.reshaped(state, of.dims)


def philox_bits(
    b: Expansion, key: Instruction, low: Instruction, high: Instruction, dims, width: int
) -> tuple[Instruction, int]:
    """Unsigned values of 64 or 32 bits (the low ones are meant) and how many blocks were used."""
    count = prod(dims)
    blocks = -(-count * (2 if width == 64 else 1) // 4)
    words = philox(b, key, low, high, blocks)
    if width == 64:
        words = [joined_halves(b, *words[:2]), joined_halves(b, *words[2:])]
    columns = b.joined([b.reshaped(w, (blocks, 1)) for w in words], 1)
    flat = b.reshaped(columns, (blocks * len(words),))
    return b.reshaped(b.sliced(flat, 0, 0, count), dims), blocks


def threefry_bits(b: Expansion, key: Instruction, counter: Instruction, dims, width: int):
    """As `philox_bits`; the second result is how far the counter moves."""
    if width == 64:
        return joined_halves(b, *threefry(b, key, counter, dims)), prod(dims)
    if not dims:
        return threefry(b, key, counter, ())[0], 1
    even = [d for d, size in enumerate(dims) if size % 2 == 0]
    split = even[0] if even else dims.index(max(dims))
    half = (*dims[:split], -(-dims[split] // 2), *dims[split + 1 :])
    apart = (*half[: split + 1], 1, *half[split + 1 :])
    words = threefry(b, key, counter, half)
    both = b.joined([b.reshaped(w, apart) for w in words], split + 1)
    whole = b.reshaped(both, (*dims[:split], 2 * half[split], *dims[split + 1 :]))
    return b.sliced(whole, split, 0, dims[split]), prod(half)


def as_bits_of(b: Expansion, words: Instruction, dtype: DType) -> Instruction:
    """The low bits of unsigned values as values of a type."""
    if dtype in (U2, U4, S2, S4):
        return b.converted(words, dtype)
    narrow = b.converted(words, WORDS[dtype.bits])
    if narrow.shape.dtype is dtype:
        return narrow
    return b.emit("bitcast-convert", narrow, shape=shape(dtype, words.shape.dims))


@register
class RngBitGeneratorExpander(Expander):
    """Write Philox and Threefry generators as integer arithmetic on counters."""

    name = "rng-bit-generator-expander"
    gives = (without("rng-bit-generator"),)
    opcodes = frozenset(["rng-bit-generator"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        of = i.shape.elements[1] if i.shape.is_tuple else i.shape
        dtype, dims = of.dtype, of.dims
        if (dtype.bits not in WORDS and dtype not in (U2, U4, S2, S4)) or dtype.is_pred:
            raise refuse(i, f"no random bits of type {dtype}", "rng-type")
        words = state_words(b, i, i.operands[0])
        key = words[0]
        if i.attrs.algorithm == "rng_three_fry":
            bits, used = threefry_bits(b, key, words[1], dims, dtype.bits)
            after = [key, b.add(words[1], b.scalar(used, U64)), *words[2:]]
        else:
            high = words[2] if len(words) > 2 else key
            bits, used = philox_bits(b, key, words[1], high, dims, dtype.bits)
            step = b.scalar(used, U64)
            low = b.add(words[1], step)
            after = [key, low]
            if len(words) > 2:
                carry = b.converted(b.compared(low, step, "LT"), U64)
                after += [b.add(high, carry), *words[3:]]
        numbers = as_bits_of(b, bits, dtype)
        if not i.shape.is_tuple:
            return numbers
        return b.tuple(new_state(b, after, i.operands[0].shape), numbers)
