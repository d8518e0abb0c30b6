"""Random numbers: bits against the published generators, distributions by what they promise."""

from typing import Any

import numpy as np
import pytest

from hloom.base.diagnostics import EvalError
from hloom.interp.random_bits import philox_words, threefry_words
from hloom.types.dtype import BY_NAME, FLOAT_TYPES, INTEGER_TYPES
from tests.interp.one_op import context, run, shape, tuple_shape

ONES = (1 << 64) - 1


def bits(algorithm: str, state: Any, type_name: str, dims: tuple[int, ...]) -> Any:
    state = np.array(state, np.uint64) if isinstance(state, list) else state
    states = shape("u64" if state.dtype == np.uint64 else "u32", state.shape)
    result = tuple_shape([states, shape(type_name, dims)])
    return run("rng-bit-generator", state, result=result, algorithm=algorithm)


def test_philox_gives_the_published_words() -> None:
    """The known answers that come with the paper's code: zeros, ones, and digits of pi."""
    pi_counter = 0x0370734413198A2E85A308D3243F6A88
    answers = [
        (0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((1 << 128) - 1, ONES, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (pi_counter, 0x299F31D0A4093822, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ]
    for counter, key, words in answers:
        got = philox_words(counter, key, 1)[0]
        assert " ".join(f"{w:08x}" for w in got) == words


def test_threefry_gives_the_published_words() -> None:
    answers = [
        (0, 0, "6b200159 99ba4efe"),
        (ONES, ONES, "1cb996fc bb002be7"),
        (0x85A308D3243F6A88, 0x0370734413198A2E, "c4923a9c 483df7a0"),
    ]
    for counter, key, words in answers:
        x, y = threefry_words(counter, key, 1)
        assert f"{x[0]:08x} {y[0]:08x}" == words


def test_philox_counts_over_the_carry() -> None:
    far = philox_words(ONES - 1, 5, 4)
    for k in range(4):
        assert (far[k] == philox_words(ONES - 1 + k, 5, 1)[0]).all()


@pytest.mark.parametrize("algorithm", ["rng_philox", "rng_default", "rng_three_fry"])
def test_state_moves_past_what_was_used(algorithm: str) -> None:
    """Asking twice goes on where the first answer stopped."""
    state, first = bits(algorithm, [3, 4], "u64", (8,))
    _, second = bits(algorithm, state, "u64", (8,))
    _, both = bits(algorithm, [3, 4], "u64", (16,))
    assert np.concatenate([first, second]).tolist() == both.tolist()
    assert state[0] == 3


def test_long_philox_state_carries_into_the_high_word() -> None:
    state, _ = bits("rng_philox", [7, ONES, 1], "u32", (5,))
    assert state.tolist() == [7, 1, 2]
    short, _ = bits("rng_philox", [7, ONES], "u32", (5,))
    assert short.tolist() == [7, 1]
    wrapped, _ = bits("rng_philox", [7, ONES, ONES], "u32", (4,))
    assert wrapped.tolist() == [7, 0, 0]


def test_state_of_32_bit_words() -> None:
    words = np.array([3, 0, 4, 0], np.uint32)
    state, got = bits("rng_philox", words, "u32", (6,))
    wanted_state, wanted = bits("rng_philox", [3, 4], "u32", (6,))
    assert got.tolist() == wanted.tolist()
    assert state.dtype == np.uint32
    assert state.view(np.uint64).tolist() == wanted_state.tolist()


@pytest.mark.parametrize("algorithm", ["rng_philox", "rng_three_fry"])
@pytest.mark.parametrize("type_name", [t.name for t in (*INTEGER_TYPES, *FLOAT_TYPES)])
def test_narrow_types_take_the_low_bits(type_name: str, algorithm: str) -> None:
    t = BY_NAME[type_name]
    state, got = bits(algorithm, [1, 2], type_name, (3, 5))
    base_state, base = bits(algorithm, [1, 2], "u64" if t.bits == 64 else "u32", (3, 5))
    assert got.dtype == t.numpy
    assert got.shape == (3, 5)
    assert state.tolist() == base_state.tolist()
    stored = np.frombuffer(got.tobytes(), f"u{got.dtype.itemsize}").reshape(3, 5)
    mask = (1 << t.bits) - 1
    assert ((stored & mask) == (base & mask)).all()


@pytest.mark.parametrize("dims", [(), (1,), (7,), (3, 5), (3, 4), (0,), (2, 0)])
def test_threefry_halves_the_first_even_dimension(dims: tuple[int, ...]) -> None:
    state, got = bits("rng_three_fry", [9, 100], "u32", dims)
    assert got.shape == dims
    even = [d for d, n in enumerate(dims) if n % 2 == 0]
    split = even[0] if even else (dims.index(max(dims)) if dims else None)
    half = list(dims) or [1]
    half[split or 0] = -(-half[split or 0] // 2)
    assert state.tolist() == [9, 100 + int(np.prod(half))]
    for index in np.ndindex(*dims):
        place = list(index) or [0]
        which = place[split] % 2 if split is not None else 0
        place[split or 0] //= 2
        counter = 100 + int(np.ravel_multi_index(place, half))
        assert got[index] == threefry_words(counter, 9, 1)[which][0]


def test_bits_of_complex_numbers_do_not_exist() -> None:
    with pytest.raises(EvalError, match="no random bits of type c64"):
        bits("rng_philox", [1, 2], "c64", (2,))


# -- the global state ----------------------------------------------------------------------


def test_global_state_grows_by_delta() -> None:
    here, result = context(), shape("u64", (2,))
    first = run("rng-get-and-update-state", result=result, in_context=here, delta=5)
    second = run("rng-get-and-update-state", result=result, in_context=here, delta=1)
    assert first.dtype == np.uint64
    assert first.tolist() == [0x7012395, 0]
    assert second.tolist() == [0x7012395 + 5, 0]
    here.rng.state = (1 << 128) - 1
    last = run("rng-get-and-update-state", result=result, in_context=here, delta=2)
    assert last.tolist() == [ONES, ONES]
    assert here.rng.state == 1


# -- rng -----------------------------------------------------------------------------------


def uniform(low: Any, high: Any, type_name: str, count: int = 4000, seed: int = 0) -> Any:
    t = BY_NAME[type_name].numpy
    given = [np.array(v, np.float32 if t.kind == "V" else t).astype(t) for v in (low, high)]
    return run(
        "rng",
        *given,
        result=shape(type_name, (count,)),
        distribution="rng_uniform",
        in_context=context(seed),
    )


@pytest.mark.parametrize("type_name", ["f64", "f32", "f16", "bf16", "f8e5m2", "f8e4m3fn"])
def test_uniform_floats(type_name: str) -> None:
    got = uniform(-1, 3, type_name)
    assert got.dtype == BY_NAME[type_name].numpy
    values = got.astype(float)
    assert values.min() >= -1
    assert values.max() < 3
    assert abs(values.mean() - 1) < 0.2
    assert abs(values.std() - 4 / np.sqrt(12)) < 0.1


@pytest.mark.parametrize("type_name", ["s32", "u32", "s64", "u64", "s8", "u8", "s16", "s4"])
def test_uniform_integers(type_name: str) -> None:
    got = uniform(1, 6, type_name)
    assert got.dtype == BY_NAME[type_name].numpy
    values, counts = np.unique(got.astype(int), return_counts=True)
    assert values.tolist() == [1, 2, 3, 4, 5]
    assert (np.abs(counts - 800) < 150).all()


def test_uniform_over_the_whole_range() -> None:
    got = uniform(-(2**63), 2**63 - 1, "s64")
    assert got.min() < -(2**62)
    assert got.max() > 2**62


def test_uniform_pred() -> None:
    got = uniform(False, True, "pred")
    assert got.dtype == np.bool_
    assert 1700 < got.sum() < 2300


@pytest.mark.parametrize("type_name", ["f64", "f32", "bf16"])
def test_normal(type_name: str) -> None:
    t = BY_NAME[type_name].numpy
    given = [np.array(v, np.float32).astype(t) for v in (2, 0.5)]
    result = shape(type_name, (50, 80))
    got = run("rng", *given, result=result, distribution="rng_normal")
    assert got.dtype == t
    assert abs(got.astype(float).mean() - 2) < 0.05
    assert abs(got.astype(float).std() - 0.5) < 0.05


def test_same_seed_same_values() -> None:
    assert (uniform(0, 1, "f32", seed=4) == uniform(0, 1, "f32", seed=4)).all()
    assert (uniform(0, 1, "f32", seed=4) != uniform(0, 1, "f32", seed=5)).any()
