"""The two counter-based generators of rng-bit-generator, and how their words fill an array.

Philox 4x32-10 and Threefry 2x32-20 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
3", SC 2011) hash a counter with a key. Which counter gives which element is XLA's choice, and so
part of what "bit-exact" means here:

* Philox: block k, four words, hashes counter + k; the words follow each other in row-major order.
* Threefry, 64 bits: element k is both words of counter + k, the first one low.
* Threefry, up to 32 bits: the first even dimension (else the largest) is halved; position k of
  the half-size array hashes counter + k and gives the two neighbours along that dimension.

Types below 32 bits take the low bits of 32 random ones.
"""

import math

import numpy as np

from hloom.interp.elementwise_number import Array

_PHILOX_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_PHILOX_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_PHILOX_ROUNDS = 10
_THREEFRY_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_THREEFRY_PARITY = 0x1BD11BDA
_THREEFRY_ROUNDS = 20
_WORD = (1 << 32) - 1


def philox_words(counter: int, key: int, blocks: int) -> Array:
    """u32[blocks, 4]: the hashes of counter, counter + 1, ... (128 bits, wrapping)."""
    index = np.arange(blocks, dtype=np.uint64)
    low = np.uint64(counter & (2**64 - 1)) + index
    high = np.uint64(counter >> 64) + (low < index).astype(np.uint64)
    word, by = np.uint64(_WORD), np.uint64(32)
    x = [low & word, low >> by, high & word, high >> by]  # 32-bit values in 64-bit lanes
    keys = [key & _WORD, key >> 32]
    for _ in range(_PHILOX_ROUNDS):
        first, second = x[0] * _PHILOX_MULTIPLIERS[0], x[2] * _PHILOX_MULTIPLIERS[1]
        x = [
            (second >> by) ^ x[1] ^ np.uint64(keys[0]),
            second & word,
            (first >> by) ^ x[3] ^ np.uint64(keys[1]),
            first & word,
        ]
        keys = [(k + step) & _WORD for k, step in zip(keys, _PHILOX_KEY_STEPS)]
    return np.stack(x, axis=1).astype(np.uint32)


def threefry_words(counter: int, key: int, count: int) -> tuple[Array, Array]:
    """Two u32[count]: the hashes of counter, counter + 1, ... (64 bits, wrapping)."""
    index = np.uint64(counter & (2**64 - 1)) + np.arange(count, dtype=np.uint64)
    keys = [key & _WORD, key >> 32]
    keys.append(_THREEFRY_PARITY ^ keys[0] ^ keys[1])
    x = index.astype(np.uint32) + np.uint32(keys[0])
    y = (index >> np.uint64(32)).astype(np.uint32) + np.uint32(keys[1])
    for turn in range(_THREEFRY_ROUNDS):
        by = _THREEFRY_ROTATIONS[turn % 8]
        x = x + y
        y = ((y << np.uint32(by)) | (y >> np.uint32(32 - by))) ^ x
        if turn % 4 == 3:  # mix the key in again after each four rounds
            step = turn // 4 + 1
            x = x + np.uint32(keys[step % 3])
            y = y + np.uint32((keys[(step + 1) % 3] + step) & _WORD)
    return x, y


def philox_bits(counter: int, key: int, dims: tuple[int, ...], width: int) -> tuple[Array, int]:
    """Unsigned integers of `width` bits (at least 8) in shape `dims`, and the blocks used."""
    count = math.prod(dims)
    words_each = 2 if width == 64 else 1
    blocks = -(-count * words_each // 4)
    words = philox_words(counter, key, blocks).reshape(-1)
    if words_each == 2:
        pairs = words.reshape(-1, 2).astype(np.uint64)
        values = pairs[:, 0] | (pairs[:, 1] << np.uint64(32))
    else:
        values = words
    return values[:count].reshape(dims), blocks


def threefry_bits(counter: int, key: int, dims: tuple[int, ...], width: int) -> tuple[Array, int]:
    """As `philox_bits`; the second result is how far the counter moves."""
    if width == 64:
        count = math.prod(dims)
        x, y = threefry_words(counter, key, count)
        return (x.astype(np.uint64) | (y.astype(np.uint64) << np.uint64(32))).reshape(dims), count
    if not dims:
        return threefry_words(counter, key, 1)[0].reshape(()), 1
    even = [d for d, size in enumerate(dims) if size % 2 == 0]
    split = even[0] if even else dims.index(max(dims))
    half = (*dims[:split], -(-dims[split] // 2), *dims[split + 1 :])
    count = math.prod(half)
    x, y = (part.reshape(half) for part in threefry_words(counter, key, count))
    both = np.stack((x, y), axis=split + 1)
    whole = both.reshape(*dims[:split], 2 * half[split], *dims[split + 1 :])
    return whole[(slice(None),) * split + (slice(dims[split]),)], count
