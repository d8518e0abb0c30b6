"""Philox 4x32-10 and Threefry 2x32-20 as elementwise operations on counters.

The same words as `interp/random_bits.py`, which says which counter gives which element (Salmon
et al., SC 2011). Counters are 64-bit numbers cut into 32-bit halves, so that all rounds are 32-bit
operations: `mulhi` gives the high half of a product.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expansion
from hloom.types.dtype import U32, U64

PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
PHILOX_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
PHILOX_ROUNDS = 10
THREEFRY_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
THREEFRY_PARITY = 0x1BD11BDA
THREEFRY_ROUNDS = 20

Words = list[Instruction]


def low_half(b: Expansion, x: Instruction) -> Instruction:
    """The low 32 bits of u64 values."""
    return b.converted(x, U32)


def high_half(b: Expansion, x: Instruction) -> Instruction:
    by = b.full(32, U64, x.shape.dims)
    return b.converted(b.shift_right_logical(x, by), U32)


def joined_halves(b: Expansion, low: Instruction, high: Instruction) -> Instruction:
    """u64 values of their u32 halves."""
    by = b.full(32, U64, low.shape.dims)
    return b.or_(b.shift_left(b.converted(high, U64), by), b.converted(low, U64))


def counters(
    b: Expansion, dims: Sequence[int], start: Instruction
) -> tuple[Instruction, Instruction]:
    """start, start + 1, ... in row-major order as u64, and the positions 0, 1, ... themselves."""
    position: Instruction | None = None
    stride = 1
    for axis in range(len(dims) - 1, -1, -1):
        if dims[axis] != 1:
            part = b.iota(U64, dims, axis)
            if stride != 1:
                part = b.multiply(part, b.full(stride, U64, dims))
            position = part if position is None else b.add(position, part)
        stride *= dims[axis]
    if position is None:
        position = b.full(0, U64, dims)
    return b.add(b.spread(start, dims), position), position


def philox(
    b: Expansion, key: Instruction, low: Instruction, high: Instruction, blocks: int
) -> Words:
    """Four u32[blocks]: the hashes of the 128-bit counter (high, low) and those behind it."""
    dims = (blocks,)
    first, position = counters(b, dims, low)
    carry = b.converted(b.compared(first, position, "LT"), U64)
    second = b.add(b.spread(high, dims), carry)
    x = [low_half(b, first), high_half(b, first), low_half(b, second), high_half(b, second)]
    keys = [low_half(b, key), high_half(b, key)]
    factors = [b.full(f, U32, dims) for f in PHILOX_MULTIPLIERS]
    steps = [b.scalar(s, U32) for s in PHILOX_KEY_STEPS]
    for turn in range(PHILOX_ROUNDS):
        if turn:
            keys = [b.add(k, step) for k, step in zip(keys, steps, strict=True)]
        own = [b.spread(k, dims) for k in keys]
        x = [
            b.xor(b.xor(b.mulhi(x[2], factors[1]), x[1]), own[0]),
            b.multiply(x[2], factors[1]),
            b.xor(b.xor(b.mulhi(x[0], factors[0]), x[3]), own[1]),
            b.multiply(x[0], factors[0]),
        ]
    return x


def threefry(b: Expansion, key: Instruction, counter: Instruction, dims: Sequence[int]) -> Words:
    """Two u32 arrays of these sizes: the hashes of the 64-bit counter and those behind it."""
    index, _ = counters(b, dims, counter)
    keys = [low_half(b, key), high_half(b, key)]
    parity = b.scalar(THREEFRY_PARITY, U32)
    keys.append(b.xor(b.xor(parity, keys[0]), keys[1]))
    spread = [b.spread(k, dims) for k in keys]
    x = b.add(low_half(b, index), spread[0])
    y = b.add(high_half(b, index), spread[1])
    for turn in range(THREEFRY_ROUNDS):
        by = THREEFRY_ROTATIONS[turn % 8]
        x = b.add(x, y)
        left = b.shift_left(y, b.full(by, U32, dims))
        right = b.shift_right_logical(y, b.full(32 - by, U32, dims))
        y = b.xor(b.or_(left, right), x)
        if turn % 4 == 3:  # mix the key in again after each four rounds
            step = turn // 4 + 1
            x = b.add(x, spread[step % 3])
            y = b.add(b.add(y, spread[(step + 1) % 3]), b.full(step, U32, dims))
    return [x, y]
