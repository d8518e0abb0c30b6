"""Convolution against its definition, written as loops over positions, window and features."""

import itertools
from typing import Any

import numpy as np
import pytest

from hloom.base.diagnostics import EvalError
from hloom.ir.values.conv_dims import ConvolutionDimensions
from hloom.ir.values.window import Window, WindowDimension
from hloom.types.dtype import BY_NAME, FLOAT_TYPES, INTEGER_TYPES
from tests.interp.one_op import drawn, run, wrapped


def labels(text: str) -> ConvolutionDimensions:
    """`b01f_01io->b01f` as dimension numbers."""
    lhs, rest = text.split("_")
    rhs, out = rest.split("->")

    def of(word: str, first: str, second: str) -> tuple[int, int, tuple[int, ...]]:
        spatial = tuple(word.index(str(k)) for k in range(len(word) - 2))
        return word.index(first), word.index(second), spatial

    return ConvolutionDimensions(*of(lhs, "b", "f"), *of(rhs, "i", "o"), *of(out, "b", "f"))


def naive(
    lhs: Any,
    rhs: Any,
    window: tuple[WindowDimension, ...],
    numbers: ConvolutionDimensions,
    features: int = 1,
    batches: int = 1,
) -> Any:
    """The definition, in the arithmetic of the arrays' elements."""
    n = numbers
    x = lhs.transpose(
        n.input_batch_dimension, n.input_feature_dimension, *n.input_spatial_dimensions
    )
    w = rhs.transpose(
        n.kernel_output_feature_dimension,
        n.kernel_input_feature_dimension,
        *n.kernel_spatial_dimensions,
    )
    outputs, channels = w.shape[:2]
    batch = x.shape[0] // batches
    spatial = tuple(d.output_size(size) for d, size in zip(window, x.shape[2:]))
    made = np.zeros((batch, outputs, *spatial), x.dtype)
    for b, o in itertools.product(range(batch), range(outputs)):
        row = b + (o // (outputs // batches)) * batch
        first = (o // (outputs // features)) * channels
        for place in np.ndindex(*spatial):
            total = x.dtype.type(0) if x.dtype != object else 0
            for offset in np.ndindex(*w.shape[2:]):
                at, tap = [], []
                for d, p, k, size in zip(window, place, offset, x.shape[2:]):
                    where = p * d.stride + k * d.window_dilation - d.padding_low
                    inside = where % d.base_dilation == 0 and 0 <= where // d.base_dilation < size
                    at.append(where // d.base_dilation if inside else None)
                    tap.append(d.size - 1 - k if d.window_reversal else k)
                if None in at:
                    continue
                for c in range(channels):
                    total = total + x[(row, first + c, *at)] * w[(o, c, *tap)]
            made[(b, o, *place)] = total
    order = np.empty(made.ndim, int)
    order[n.output_batch_dimension], order[n.output_feature_dimension] = 0, 1
    for k, d in enumerate(n.output_spatial_dimensions):
        order[d] = k + 2
    return made.transpose(order)


def convolve(
    lhs: Any, rhs: Any, window: tuple[WindowDimension, ...], text: str, **options: Any
) -> Any:
    return run("convolution", lhs, rhs, window=Window(window), dim_labels=labels(text), **options)


D = WindowDimension
PLAIN = (D(2), D(3))
WINDOWS = {
    "plain": PLAIN,
    "strided": (D(2, stride=2), D(3, stride=3)),
    "padded": (D(2, padding_low=1, padding_high=2), D(3, padding_low=2)),
    "negative padding": (D(2, padding_low=-2, padding_high=1), D(3, padding_high=-1)),
    "atrous": (D(2, window_dilation=2), D(3, window_dilation=2, padding_low=1, padding_high=1)),
    "transposed": (D(2, base_dilation=2, padding_low=1, padding_high=1), D(3, base_dilation=3)),
    "reversed": (D(2, window_reversal=True), D(3, window_reversal=True)),
    "dilated and cut": (
        D(2, base_dilation=3, padding_low=-4, padding_high=-1),
        D(3, 2, -1, 2, 2, 2, True),
    ),
    "window larger than base": (D(2, padding_low=-5), D(3)),
    "padding beyond the base": (D(2, padding_low=-20, padding_high=20), D(3)),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str) -> None:
    x, w = drawn((2, 5, 7, 3), "f64"), drawn((2, 3, 3, 4), "f64", 1)
    text = "b01f_01io->b01f"
    got = convolve(x, w, WINDOWS[name], text)
    wanted = naive(x, w, WINDOWS[name], labels(text))
    assert got.shape == wanted.shape
    assert np.allclose(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "text", ["bf01_oi01->bf01", "f01b_i01o->0b1f", "01bf_1o0i->10fb", "b0f1_0o1i->fb01"]
)
def test_dimension_labels(text: str) -> None:
    numbers = labels(text)
    lhs, rhs = np.zeros(4, int), np.zeros(4, int)
    lhs[numbers.input_batch_dimension], lhs[numbers.input_feature_dimension] = 2, 3
    lhs[list(numbers.input_spatial_dimensions)] = 5, 7
    rhs[numbers.kernel_output_feature_dimension] = 4
    rhs[numbers.kernel_input_feature_dimension] = 3
    rhs[list(numbers.kernel_spatial_dimensions)] = 2, 3
    x, w = drawn(tuple(lhs), "f64"), drawn(tuple(rhs), "f64", 1)
    got, wanted = convolve(x, w, PLAIN, text), naive(x, w, PLAIN, numbers)
    assert got.shape == wanted.shape
    assert np.allclose(got, wanted)


@pytest.mark.parametrize(("features", "batches"), [(3, 1), (6, 1), (1, 2), (1, 4)])
def test_groups(features: int, batches: int) -> None:
    x = drawn((4, 4, 5, 6), "f64")
    w = drawn((2, 3, 6 // features, 12), "f64", 1)
    text = "b01f_01io->b01f"
    groups = {"feature_group_count": features, "batch_group_count": batches}
    got = convolve(x, w, PLAIN, text, **groups)
    assert np.allclose(got, naive(x, w, PLAIN, labels(text), features, batches))


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_other_ranks(rank: int) -> None:
    window = tuple(D(2, padding_low=k) for k in range(rank))
    digits = "012"[:rank]
    text = f"b{digits}f_{digits}io->b{digits}f"
    x, w = drawn((2, *(4, 3, 5)[:rank], 3), "f64"), drawn((*(2,) * rank, 3, 4), "f64", 1)
    got, wanted = convolve(x, w, window, text), naive(x, w, window, labels(text))
    assert got.shape == wanted.shape
    assert np.allclose(got, wanted)


@pytest.mark.parametrize("type_name", [t.name for t in INTEGER_TYPES])
def test_integers_wrap(type_name: str) -> None:
    x, w = drawn((2, 5, 5, 3), type_name), drawn((2, 3, 3, 2), type_name, 1)
    text = "b01f_01io->b01f"
    as_objects = [np.vectorize(int, otypes=[object])(a) for a in (x, w)]
    wanted = naive(*as_objects, PLAIN, labels(text))
    got = convolve(x, w, PLAIN, text)
    assert got.dtype == x.dtype
    assert [int(v) for v in got.ravel()] == wrapped(wanted, type_name)


@pytest.mark.parametrize("type_name", [*(t.name for t in FLOAT_TYPES), "c64", "c128"])
def test_floats(type_name: str) -> None:
    x, w = drawn((1, 4, 5, 2), type_name), drawn((2, 3, 2, 2), type_name, 1)
    wide = np.complex128 if BY_NAME[type_name].is_complex else np.float64
    text = "b01f_01io->b01f"
    wanted = naive(x.astype(wide), w.astype(wide), PLAIN, labels(text))
    got = convolve(x, w, PLAIN, text)
    assert got.dtype == x.dtype
    if BY_NAME[type_name].bits < 16:
        wanted = wanted.astype(np.float32).astype(x.dtype).astype(float)
        assert np.array_equal(got.astype(float), wanted, equal_nan=True)
    else:
        tolerance = {"bf16": 2e-2, "f16": 2e-3}.get(type_name, 1e-5)
        assert np.allclose(got.astype(wide), wanted, rtol=tolerance, atol=tolerance)


def test_wider_result() -> None:
    x, w = drawn((1, 4, 5, 2), "s8"), drawn((2, 3, 2, 2), "s8", 1)
    got = convolve(x, w, PLAIN, "b01f_01io->b01f", result="s32")
    wanted = naive(x.astype(np.int64), w.astype(np.int64), PLAIN, labels("b01f_01io->b01f"))
    assert got.dtype == np.int32
    assert (got == wanted).all()


@pytest.mark.parametrize("shape_of", [(0, 5, 5, 3), (2, 0, 5, 3), (2, 5, 5, 0)])
def test_empty(shape_of: tuple[int, ...]) -> None:
    x, w = np.ones(shape_of, np.float32), np.ones((2, 3, shape_of[3], 4), np.float32)
    got = convolve(x, w, PLAIN, "b01f_01io->b01f")
    wanted = naive(x, w, PLAIN, labels("b01f_01io->b01f"))
    assert got.shape == wanted.shape
    assert (got == 0).all()


@pytest.mark.parametrize("chunk", [1, 40, 300, 2000])
def test_cutting_the_work_changes_nothing(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = drawn((3, 6, 7, 4), "s32"), drawn((2, 3, 2, 4), "s32", 1)
    whole = convolve(x, w, PLAIN, "b01f_01io->b01f", feature_group_count=2)
    monkeypatch.setattr("hloom.interp.conv._CHUNK", chunk)
    assert (convolve(x, w, PLAIN, "b01f_01io->b01f", feature_group_count=2) == whole).all()


def test_groups_that_do_not_fit() -> None:
    x, w = drawn((2, 5, 5, 3), "f32"), drawn((2, 3, 3, 4), "f32")
    with pytest.raises(EvalError, match="groups do not fit"):
        convolve(x, w, PLAIN, "b01f_01io->b01f", feature_group_count=2)
