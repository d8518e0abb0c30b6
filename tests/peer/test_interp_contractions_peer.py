"""Contractions, transforms, factorisations and random bits compared with XLA on the CPU."""

import pytest

pytest.importorskip("jax")
pytest.importorskip("jaxlib")

from typing import Any

import jax
import numpy as np
from jax import lax

from hloom.ir.values.window import Window, WindowDimension
from hloom.types.dtype import BY_NAME
from tests.interp.one_op import drawn, run, shape, tuple_shape
from tests.interp.test_conv import labels
from tests.peer.xla_op import run_op

# -- contractions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x_type", "y_type", "result"),
    [
        ("f32", "f32", "f32"),
        ("f64", "f64", "f64"),
        ("bf16", "bf16", "f32"),
        ("bf16", "bf16", "bf16"),
        ("f16", "f16", "f16"),
        ("s8", "s8", "s32"),
        ("s32", "s32", "s32"),
        ("u8", "u8", "u8"),
        ("s64", "s64", "s64"),
        ("c64", "c64", "c64"),
        ("c128", "c128", "c128"),
    ],
)
def test_dot(x_type: str, y_type: str, result: str) -> None:
    x, y = drawn((2, 5, 3, 4), x_type), drawn((4, 6, 2, 3), y_type, 1)
    dims = {
        "lhs_batch_dims": (0,),
        "rhs_batch_dims": (2,),
        "lhs_contracting_dims": (3, 2),
        "rhs_contracting_dims": (0, 3),
    }
    text = ", ".join(f"{k}={{{','.join(map(str, v))}}}" for k, v in dims.items())
    xla = run_op("dot", x, y, result=f"{result}[2,5,6]", attributes=text)
    got = run("dot", x, y, result=result, dims=(2, 5, 6), **dims)
    assert got.dtype == xla.dtype
    if BY_NAME[result].is_integral:
        assert (got == xla).all()
    else:
        wide = np.complex128
        tolerance = {"bf16": 1e-2, "f16": 2e-3, "f64": 1e-14, "c128": 1e-14}.get(result, 1e-5)
        assert np.allclose(got.astype(wide), xla.astype(wide), rtol=tolerance, atol=tolerance)


RAGGED = {
    "free": ((2, 6, 4), (3, 2, 4, 5), (0,), (1,), (2,), (2,), (1,), (0,), (2, 6, 5)),
    "outer free": ((3, 6, 4), (2, 4, 5), (), (), (2,), (1,), (1,), (0,), (3, 6, 5)),
    "contracting": ((2, 4, 7), (2, 7, 3), (0,), (0,), (2,), (1,), (2,), (), (3, 2, 4, 3)),
    "batch": ((4, 3, 2), (4, 2, 5), (0,), (0,), (2,), (1,), (0,), (), (4, 3, 5)),
}


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("name", RAGGED)
def test_ragged_dot(name: str, flat: bool) -> None:
    lhs, rhs, lb, rb, lc, rc, ragged, group, dims = RAGGED[name]
    groups = rhs[group[0]] if group else 3
    sizes = np.random.default_rng(1).integers(0, 3, (lhs[0], groups)).astype(np.int32)
    sizes = sizes[0] if flat or name == "batch" else sizes
    x, y = drawn(lhs, "f32"), drawn(rhs, "f32", 1)
    numbers = lax.RaggedDotDimensionNumbers(((lc, rc), (lb, rb)), ragged, group)
    xla = np.asarray(lax.ragged_dot_general(x, y, sizes, numbers))
    got = run(
        "ragged-dot",
        x,
        y,
        sizes,
        dims=dims,
        lhs_batch_dims=lb,
        rhs_batch_dims=rb,
        lhs_contracting_dims=lc,
        rhs_contracting_dims=rc,
        lhs_ragged_dims=ragged,
        rhs_group_dims=group,
    )
    assert got.shape == xla.shape
    assert np.allclose(got, xla, rtol=1e-5, atol=1e-5)


def drawn_convolution(seed: int) -> tuple[Any, ...]:
    """Random sizes, window, labels and groups, all of them valid."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    window = tuple(
        WindowDimension(
            size=int(rng.integers(1, 4)),
            stride=int(rng.integers(1, 4)),
            padding_low=int(rng.integers(-1, 4)),
            padding_high=int(rng.integers(-1, 4)),
            window_dilation=int(rng.integers(1, 3)),
            base_dilation=int(rng.integers(1, 3)),
            window_reversal=bool(rng.integers(0, 2)),
        )
        for _ in range(rank)
    )
    groups = int(rng.integers(1, 4))
    features, batches = (groups, 1) if rng.random() < 0.5 else (1, groups)
    channels = int(rng.integers(1, 4))
    sizes = {"b": 2 * batches, "f": channels * features, "i": channels, "o": 2 * groups}
    digits = [str(k) for k in range(rank)]
    words = ["".join(rng.permutation([*pair, *digits])) for pair in ("bf", "io", "bf")]
    base = {d: int(rng.integers(6, 9)) for d in digits}
    taps = {d: w.size for d, w in zip(digits, window)}
    lhs = tuple(sizes[c] if c in sizes else base[c] for c in words[0])
    rhs = tuple(sizes[c] if c in sizes else taps[c] for c in words[1])
    out = {"b": sizes["b"] // batches, "f": sizes["o"]}
    out |= {d: w.output_size(base[d]) for d, w in zip(digits, window)}
    result = tuple(out[c] for c in words[2])
    return lhs, rhs, result, Window(window), f"{words[0]}_{words[1]}->{words[2]}", features, batches


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("type_name", ["f32", "s32"])
def test_convolution(type_name: str, seed: int) -> None:
    lhs, rhs, dims, window, text, features, batches = drawn_convolution(seed)
    x, w = drawn(lhs, type_name), drawn(rhs, type_name, 1)
    attributes = (
        f"window={window.text}, dim_labels={text}, feature_group_count={features}, "
        f"batch_group_count={batches}"
    )
    result = f"{type_name}[{','.join(map(str, dims))}]"
    xla = run_op("convolution", x, w, result=result, attributes=attributes)
    got = run(
        "convolution",
        x,
        w,
        dims=dims,
        window=window,
        dim_labels=labels(text),
        feature_group_count=features,
        batch_group_count=batches,
    )
    assert got.shape == xla.shape
    if type_name == "s32":
        assert (got == xla).all()
    else:
        assert np.allclose(got, xla, rtol=1e-4, atol=1e-5)


# -- transforms and factorisations ---------------------------------------------------------


@pytest.mark.parametrize("lengths", [(8,), (7,), (4, 6), (3, 4, 5)])
@pytest.mark.parametrize("fft_type", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("wide", [False, True])
def test_fft(fft_type: str, lengths: tuple[int, ...], wide: bool) -> None:
    half = (*lengths[:-1], lengths[-1] // 2 + 1)
    real, complex_ = ("f64", "c128") if wide else ("f32", "c64")
    source = real if fft_type == "RFFT" else complex_
    target = real if fft_type == "IRFFT" else complex_
    x = drawn((2, *(half if fft_type == "IRFFT" else lengths)), source)
    dims = (2, *(half if fft_type == "RFFT" else lengths))
    xla = run_op(
        "fft",
        x,
        result=f"{target}[{','.join(map(str, dims))}]",
        attributes=f"fft_type={fft_type}, fft_length={{{','.join(map(str, lengths))}}}",
    )
    got = run("fft", x, result=target, dims=dims, fft_type=fft_type, fft_length=lengths)
    assert got.dtype == xla.dtype
    assert np.allclose(got, xla, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("type_name", ["f32", "f64", "c64"])
def test_cholesky(type_name: str, lower: bool) -> None:
    b = drawn((3, 5, 5), type_name)
    a = b @ np.conj(np.swapaxes(b, 1, 2)) + np.eye(5, dtype=b.dtype)
    a[1] = -a[1]
    xla = run_op("cholesky", a, attributes=f"lower={str(lower).lower()}")
    got = run("cholesky", a, lower=lower)
    read = np.tril(np.ones((5, 5), bool)) if lower else np.triu(np.ones((5, 5), bool))
    assert np.isnan(xla[1][read]).any()
    assert np.isnan(got[1]).all()
    assert np.allclose(got[[0, 2]][:, read], xla[[0, 2]][:, read], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve(unit: bool, lower: bool, left: bool, transpose: str) -> None:
    a = drawn((2, 4, 4), "c64") / 4 + 2 * np.eye(4, dtype=np.complex64)
    b = drawn((2, 4, 3) if left else (2, 3, 4), "c64", 1)
    flags = {"left_side": left, "lower": lower, "unit_diagonal": unit}
    text = ", ".join(f"{k}={str(v).lower()}" for k, v in flags.items())
    xla = run_op(
        "triangular-solve",
        a,
        b,
        result=f"c64[{','.join(map(str, b.shape))}]",
        attributes=f"{text}, transpose_a={transpose}",
    )
    got = run("triangular-solve", a, b, dims=b.shape, transpose_a=transpose, **flags)
    assert np.allclose(got, xla, rtol=1e-4, atol=1e-5)


# -- random bits ---------------------------------------------------------------------------

STATES = {"short": [12345, 2**63 + 7], "carry": [1, 2**64 - 2], "long": [9, 2**64 - 1, 5]}


@pytest.mark.parametrize("dims", [(), (1,), (4,), (7,), (3, 5), (3, 4), (5, 2, 3), (0,), (1, 1)])
@pytest.mark.parametrize("type_name", ["u32", "u64", "u8", "s16", "s64", "f32", "f16", "f64"])
@pytest.mark.parametrize("algorithm", ["rng_philox", "rng_three_fry", "rng_default"])
@pytest.mark.parametrize("state", STATES)
def test_random_bits(state: str, algorithm: str, type_name: str, dims: tuple[int, ...]) -> None:
    if state == "long" and algorithm == "rng_three_fry":
        return  # Threefry has no long state
    if (state != "short" or type_name[0] != "u") and dims not in ((7,), (3, 5)):
        return  # state and kind of type do not change how an array is filled
    given = np.array(STATES[state], np.uint64)
    text = f"{type_name}[{','.join(map(str, dims))}]"
    xla_state, xla = run_op(
        "rng-bit-generator",
        given,
        result=f"(u64[{len(given)}], {text})",
        attributes=f"algorithm={algorithm}",
    )
    result = tuple_shape([shape("u64", given.shape), shape(type_name, dims)])
    new_state, got = run("rng-bit-generator", given, result=result, algorithm=algorithm)
    assert new_state.tolist() == xla_state.tolist()
    assert got.dtype == BY_NAME[type_name].numpy  # XLA hands out the unsigned type of that width
    assert got.shape == xla.shape
    assert got.tobytes() == xla.tobytes()


@pytest.mark.parametrize("implementation", ["rbg", "unsafe_rbg"])
def test_keys_of_jax(implementation: str) -> None:
    """JAX's generator keeps four 32-bit words; it calls ours by lax.rng_bit_generator."""
    key = jax.random.key_data(jax.random.key(42, impl=implementation))
    new, xla = lax.rng_bit_generator(key, (5, 3), np.uint32)
    result = tuple_shape([shape("u32", (4,)), shape("u32", (5, 3))])
    new_state, got = run(
        "rng-bit-generator", np.asarray(key), result=result, algorithm="rng_default"
    )
    assert (got == np.asarray(xla)).all()
    assert (new_state == np.asarray(new)).all()
