"""Convolutions whose rows are read where the image lies: edges, chunks of lines, parts of K."""

from __future__ import annotations

import re

import pytest

import hloom
from hloom.api import host_device
from hloom.codegen.gemm_tiling import GemmTiling
from hloom.codegen.product_convolution import convolution_product
from hloom.device.device import Device
from hloom.kernel.kernel import SCRATCH_BYTES
from tests.codegen.products import agrees
from tests.codegen.test_convolution import NHWC, module

SPACE = "b012f_012io->b012f"
CASES = {
    "lines of several images": ("5,6,9,24", "3,3,24,40", "5,6,9,40", "size=3x3 pad=1_1x1_1", NHWC),
    "several chunks": ("2,40,33,64", "3,3,64,64", "2,40,33,64", "size=3x3 pad=1_1x1_1", NHWC),
    "strided chunks": (
        "3,61,45,32",
        "5,3,32,48",
        "3,31,15,48",
        "size=5x3 stride=2x3 pad=2_2x0_0",
        NHWC,
    ),
    "parts of K": ("1,7,7,512", "3,3,512,64", "1,7,7,64", "size=3x3 pad=1_1x1_1", NHWC),
    "uneven parts": ("1,5,6,700", "2,5,700,96", "1,5,6,96", "size=2x5 pad=1_0x2_2", NHWC),
    "parts of features": ("1,6,6,3000", "1,2,3000,64", "1,6,6,64", "size=1x2 pad=0_0x1_0", NHWC),
    "nothing outside": ("2,17,19,48", "3,3,48,64", "2,15,17,64", "size=3x3", NHWC),
    "cropped": ("2,17,19,20", "3,3,20,64", "2,13,14,64", "size=3x3 pad=-1_-1x-2_-1", NHWC),
    "far outside": ("2,3,4,24", "3,5,24,64", "2,11,12,64", "size=3x5 pad=5_5x6_6", NHWC),
    "edges only": ("3,8,1,16", "3,1,16,64", "3,4,1,64", "size=3x1 stride=2x2 pad=1_1x1_0", NHWC),
    "dilated": (
        "2,15,13,24",
        "3,3,24,64",
        "2,15,13,64",
        "size=3x3 pad=2_2x3_3 rhs_dilate=2x3",
        NHWC,
    ),
    "line": ("3,200,10", "9,10,64", "3,200,64", "size=9 pad=4_4", "b0f_0io->b0f"),
    "space": ("1,7,6,5,16", "3,3,3,16,64", "1,5,4,3,64", "size=3x3x3", SPACE),
    "space, padded": (
        "2,5,9,7,24",
        "3,3,3,24,40",
        "2,5,9,7,40",
        "size=3x3x3 pad=1_1x1_1x1_1",
        SPACE,
    ),
    "space, strided": (
        "1,9,21,16,32",
        "5,3,3,32,48",
        "1,4,10,16,48",
        "size=5x3x3 stride=2x2x1 pad=2_1x0_1x1_1",
        SPACE,
    ),
    "space, dilated": (
        "3,4,6,5,16",
        "3,2,3,16,64",
        "3,2,8,5,64",
        "size=3x2x3 pad=2_2x3_3x2_2 rhs_dilate=3x4x2",
        SPACE,
    ),
    "space, far outside": (
        "2,2,3,4,20",
        "2,3,2,20,64",
        "2,8,3,9,64",
        "size=2x3x2 pad=4_3x1_1x3_3",
        SPACE,
    ),
    "space, cropped": (
        "2,6,7,9,24",
        "3,3,3,24,64",
        "2,3,7,7,64",
        "size=3x3x3 pad=-1_0x1_1x0_0",
        SPACE,
    ),
    "through pictures": (
        "2,7,5,9,64",
        "3,3,1,64,64",
        "2,7,5,9,64",
        "size=3x3x1 pad=1_1x1_1x0_0",
        SPACE,
    ),
    "four dimensions": (
        "1,3,4,5,6,16",
        "2,3,3,3,16,64",
        "1,2,4,5,6,64",
        "size=2x3x3x3 pad=0_0x1_1x1_1x1_1",
        "b0123f_0123io->b0123f",
    ),
    "space, parts of K": (
        "1,3,4,4,512",
        "3,3,3,512,64",
        "1,3,4,4,64",
        "size=3x3x3 pad=1_1x1_1x1_1",
        SPACE,
    ),
    "few features": (
        "2,40,41,3",
        "7,7,3,64",
        "2,20,21,64",
        "size=7x7 stride=2x2 pad=3_3x3_3",
        NHWC,
    ),
    "one column": ("1,90,1,32", "3,3,32,64", "1,90,1,64", "size=3x3 pad=1_1x1_1", NHWC),
}


@pytest.mark.parametrize("isa", ["", "AVX2"])
@pytest.mark.parametrize("name", CASES)
def test_rows(name: str, isa: str) -> None:
    agrees(module(*CASES[name]), "f32", isa)


@pytest.mark.parametrize("of", ["f64", "s32", "bf16", "f16"])
def test_types(of: str) -> None:
    agrees(module(*CASES["lines of several images"], of=of), of)


def test_image_that_is_computed() -> None:
    """The image is made as its lines are copied."""
    text = module(*CASES["several chunks"]).replace(
        "ROOT %y = f32[2,40,33,64] convolution(%x,",
        "%z = f32[2,40,33,64] exponential(%x)\n  ROOT %y = f32[2,40,33,64] convolution(%z,",
    )
    agrees(text, "f32")


def test_lines_that_are_too_long_are_packed() -> None:
    """Where few lines fill the cache already, or a step would copy far more than it uses."""
    text = module("2,64,512,64", "3,3,64,64", "2,64,512,64", "size=3x3 pad=1_1x1_1", NHWC)
    convolution = hloom.parse(text).entry.root
    p = convolution_product(convolution, set(convolution.operands), host_device())
    assert p is not None and p.window is None


def test_pictures_that_are_copied_as_often_as_rows_are_packed() -> None:
    """Of a window along the outer dimension only a copy is no less than the rows."""
    text = module("1,8,7,7,64", "3,1,1,64,64", "1,8,7,7,64", "size=3x1x1 pad=1_1x0_0x0_0", SPACE)
    convolution = hloom.parse(text).entry.root
    p = convolution_product(convolution, set(convolution.operands), host_device())
    assert p is not None and p.window is None


@pytest.mark.parametrize("name", CASES)
def test_is_read_where_it_lies(name: str) -> None:
    """The form is chosen, and copies less than the rows are; none of its accesses need a mask."""
    convolution = hloom.parse(module(*CASES[name])).entry.root
    p = convolution_product(convolution, set(convolution.operands), host_device())
    assert p is not None and p.window is not None
    assert p.window.stands == (name in ("nothing outside", "cropped", "space"))
    kernels = hloom.compile(module(*CASES[name])).as_text("kernels")
    columns = re.findall(r"concatenate", kernels)
    assert columns and " mask" not in kernels


def test_lines_of_a_step_have_their_share_of_a_large_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = module("1,112,112,64", "3,3,64,64", "1,112,112,64", "size=3x3 pad=1_1x1_1", NHWC)
    convolution, device, lines = hloom.parse(text).entry.root, host_device(), []
    for near in (1 << 20, 1 << 21):
        monkeypatch.setattr(Device, "near_bytes", near)
        p = convolution_product(convolution, set(convolution.operands), device)
        assert p is not None and p.window is not None
        tiling = GemmTiling.of(p, device)
        assert tiling.scratch_bytes(p) <= SCRATCH_BYTES and tiling.piece == p.depths[0]
        lines.append(
            p.window.scratch_elements(p.rows, tiling.height, tiling.row_tiles, tiling.split)
        )
    assert 1.5 * lines[0] < lines[1] < 2.5 * lines[0]
