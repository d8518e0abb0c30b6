"""Convolutions of few features along long rows: signals and pictures that are filtered."""

from __future__ import annotations

import pytest

from hloom.ir.text import parse_module
from hloom.targets.cpu.lower.families import product_of
from tests.codegen.products import agrees


def line(
    n: int,
    taps: int,
    features: int = 1,
    outputs: int = 1,
    window: str = "",
    of: str = "f32",
    images: int = 2,
    low: int = 0,
    high: int = 0,
    stride: int = 1,
    dilation: int = 1,
) -> str:
    """A filter of a signal; `window`: what else it has."""
    out = (n + low + high - (taps - 1) * dilation - 1) // stride + 1
    return f"""HloModule line
ENTRY main {{
  x = {of}[{images},{n},{features}] parameter(0)
  w = {of}[{taps},{features},{outputs}] parameter(1)
  ROOT y = {of}[{images},{out},{outputs}] convolution(x, w), window={{size={taps} pad={low}_{high} \
stride={stride} rhs_dilate={dilation}{window}}}, dim_labels=b0f_0io->b0f
}}
"""


def picture(h: int, w: int, taps: str, dims: str, out: str, window: str, of: str = "f32") -> str:
    """A filter of two pictures of `dims` features in and out."""
    features, outputs = dims.split(",")
    return f"""HloModule picture
ENTRY main {{
  x = {of}[2,{h},{w},{features}] parameter(0)
  k = {of}[{taps.replace("x", ",")},{features},{outputs}] parameter(1)
  ROOT y = {of}[2,{out},{outputs}] convolution(x, k), window={{size={taps} {window}}}, \
dim_labels=b01f_01io->b01f
}}
"""


def is_filter(text: str) -> bool:
    """Whether it is computed with the places along a row as columns."""
    root = parse_module(text).entry.root
    p = product_of(root, set(root.operands))
    return p is not None and p.columns == root.shape.dims[-2] != p.rows


@pytest.mark.parametrize("n", [31, 32, 33, 63, 64, 65, 1000, 8193])
@pytest.mark.parametrize(
    "taps, low, high", [(1, 0, 0), (4, 0, 0), (31, 15, 15), (5, 7, -2), (9, 0, 8)]
)
def test_lines(n: int, taps: int, low: int, high: int) -> None:
    agrees(line(n, taps, low=low, high=high), "f32")


@pytest.mark.parametrize(
    "features, outputs", [(1, 2), (1, 7), (1, 8), (1, 9), (3, 3), (4, 2), (2, 4), (4, 4), (2, 5)]
)
def test_features(features: int, outputs: int) -> None:
    text = line(201, 7, features, outputs, low=3, high=3)
    few = features * outputs <= 9 and max(features, outputs) <= 4
    assert is_filter(text) == (outputs <= 8 if features == 1 else few)
    agrees(text, "f32")


@pytest.mark.parametrize("n, features, outputs", [(8, 1, 6), (7, 1, 6), (16, 2, 2), (15, 2, 2)])
def test_short_rows(n: int, features: int, outputs: int) -> None:
    text = line(n, 3, features, outputs, low=1, high=1)
    assert is_filter(text) == (n >= 8 * features)
    agrees(text, "f32")


@pytest.mark.parametrize("n", [1023, 1024])
def test_long_rows_have_more_pairs(n: int) -> None:
    text = line(n, 7, 4, 4, low=3, high=3)
    assert is_filter(text) == (n >= 1024)
    agrees(text, "f32")


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("window", ["", " rhs_reversal=1", " lhs_dilate=2"])
def test_steps(stride: int, window: str) -> None:
    if "lhs_dilate" in window:
        out = (2 * 149 + 1 + 6 - 7) // stride + 1
        text = line(150, 7, low=3, high=3, stride=stride, window=window)
        text = text.replace(f"y = f32[2,{149 // stride + 1},1]", f"y = f32[2,{out},1]")
        assert not is_filter(text)
    else:
        text = line(301, 7, low=3, high=3, stride=stride, window=window)
        assert is_filter(text) == (stride <= 4)
    agrees(text, "f32")
    if not window:
        agrees(line(301, 4, 2, 3, stride=stride, dilation=5), "f32")


@pytest.mark.parametrize("of", ["f64", "bf16", "f16", "s32", "s8", "u8", "c64"])
def test_types(of: str) -> None:
    agrees(line(130, 9, 2, 3, of=of, low=4, high=4), of)


@pytest.mark.parametrize("isa", ["AVX2", "SSE4_2"])
def test_other_vectors(isa: str) -> None:
    agrees(line(300, 9, 2, 3, low=4, high=4), "f32", isa)


@pytest.mark.parametrize(
    "text",
    [
        picture(40, 65, "3x3", "1,1", "40,65", "pad=1_1x1_1"),
        picture(9, 128, "5x7", "3,3", "9,128", "pad=2_2x3_3"),
        picture(33, 70, "3x3", "1,8", "17,35", "stride=2x2 pad=1_1x1_1"),
        picture(20, 90, "3x3", "2,2", "16,86", "rhs_dilate=2x2"),
        picture(20, 40, "3x3", "1,1", "39,40", "pad=1_1x1_1 lhs_dilate=2x1"),
        picture(20, 40, "3x3", "3,3", "20,40", "pad=1_1x1_1 rhs_reversal=1x1"),
        picture(1, 500, "1x31", "1,1", "1,500", "pad=0_0x15_15"),
    ],
)
def test_pictures(text: str) -> None:
    assert is_filter(text)
    agrees(text, "f32")


def test_what_follows() -> None:
    text = (
        line(4099, 31, low=15, high=15)
        .replace("ROOT y", "y")
        .replace(
            "\n}\n",
            """
  half = f32[] constant(0.5)
  b = f32[2,4099,1] broadcast(half), dimensions={}
  m = f32[2,4099,1] multiply(y, b)
  ROOT t = f32[2,4099,1] tanh(m)
}
""",
        )
    )
    agrees(text, "f32")
