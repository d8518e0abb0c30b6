"""Convolutions as native code, in every form, against the interpreter."""

from __future__ import annotations

import pytest

import hloom
from hloom import api
from hloom.analysis.shared_window import shared_parts
from tests.codegen.products import agrees


def module(
    lhs: str, rhs: str, out: str, window: str, labels: str, groups: str = "", of: str = "f32"
) -> str:
    """One convolution; dimensions as text."""
    return f"""HloModule conv
ENTRY %main {{
  %x = {of}[{lhs}] parameter(0)
  %w = {of}[{rhs}] parameter(1)
  ROOT %y = {of}[{out}] convolution(%x, %w), window={{{window}}}, dim_labels={labels}{groups}
}}
"""


NHWC = "b01f_01io->b01f"

FORWARD = {
    "same": ("2,9,7,20", "3,3,20,24", "2,9,7,24", "size=3x3 pad=1_1x1_1", NHWC),
    "wide": ("1,8,6,40", "3,2,40,70", "1,6,5,70", "size=3x2", NHWC),
    "stem": ("2,17,15,3", "7,5,3,18", "2,9,8,18", "size=7x5 stride=2x2 pad=3_3x2_2", NHWC),
    "dilated": ("1,11,9,8", "3,3,8,9", "1,7,5,9", "size=3x3 rhs_dilate=2x2", NHWC),
    "dilated few": ("1,11,9,3", "3,3,3,9", "1,7,5,9", "size=3x3 rhs_dilate=2x2", NHWC),
    "uneven": ("1,5,6,17", "3,3,17,33", "1,6,4,33", "size=3x3 pad=2_1x0_0", NHWC),
    "negative padding": ("1,9,9,16", "3,3,16,16", "1,5,6,16", "size=3x3 pad=-1_-1x-1_0", NHWC),
    "base dilated": (
        "1,5,4,12",
        "3,3,12,20",
        "1,9,7,20",
        "size=3x3 pad=1_1x1_1 lhs_dilate=2x2",
        NHWC,
    ),
    "base dilated, strided": (
        "1,5,4,12",
        "3,3,12,20",
        "1,3,3,20",
        "size=3x3 stride=3x3 pad=1_1x1_1 lhs_dilate=2x2",
        NHWC,
    ),
    "reversed": (
        "1,6,6,10",
        "3,3,10,20",
        "1,6,6,20",
        "size=3x3 pad=1_1x1_1 rhs_reversal=1x1",
        NHWC,
    ),
    "filter, short rows": ("3,9,11,1", "5,5,1,6", "3,9,11,6", "size=5x5 pad=2_2x2_2", NHWC),
    "filter of 2, strided": (
        "2,7,33,2",
        "3,3,2,4",
        "2,4,17,4",
        "size=3x3 stride=2x2 pad=1_1x1_1",
        NHWC,
    ),
    "one": ("2,6,5,30", "1,1,30,19", "2,6,5,19", "size=1x1", NHWC),
    "one, strided": ("2,6,5,30", "1,1,30,19", "2,3,3,19", "size=1x1 stride=2x2", NHWC),
    "channels first": (
        "2,12,7,6",
        "18,12,3,3",
        "2,18,7,6",
        "size=3x3 pad=1_1x1_1",
        "bf01_oi01->bf01",
    ),
    "kernel turned": (
        "1,7,6,20",
        "3,3,24,20",
        "1,7,6,24",
        "size=3x3 pad=1_1x1_1",
        "b01f_01oi->b01f",
    ),
    "line": ("3,29,10", "4,10,17", "3,26,17", "size=4", "b0f_0io->b0f"),
    "space": ("1,5,6,4,9", "2,3,2,9,16", "1,4,4,3,16", "size=2x3x2", "b012f_012io->b012f"),
    "deep": ("1,4,4,1200", "3,3,1200,20", "1,4,4,20", "size=3x3 pad=1_1x1_1", NHWC),
}


@pytest.mark.parametrize("name", FORWARD)
def test_forward(name: str) -> None:
    agrees(module(*FORWARD[name]), "f32")


@pytest.mark.parametrize("of", ["bf16", "f16", "f64", "s32", "s8", "c64"])
def test_types(of: str) -> None:
    case = ("1,6,5,12", "3,3,12,20", "1,6,5,20", "size=3x3 pad=1_1x1_1", NHWC)
    agrees(module(*case, of=of), of)


@pytest.mark.parametrize("isa", ["AVX2", "SSE4_2"])
def test_other_vectors(isa: str) -> None:
    for name in ("same", "stem", "kernel turned"):
        agrees(module(*FORWARD[name]), "f32", isa)


NARROW = {
    "one output": ("2,9,7,24", "3,3,24,1", "2,9,7,1", "size=3x3 pad=1_1x1_1", NHWC),
    "three": ("1,13,35,32", "5,4,32,3", "1,11,33,3", "size=5x4 pad=1_1x0_1", NHWC),
    "strided": ("2,17,15,16", "7,5,16,2", "2,9,8,2", "size=7x5 stride=2x2 pad=3_3x2_2", NHWC),
    "dilated": ("1,11,9,40", "3,3,40,5", "1,7,5,5", "size=3x3 rhs_dilate=2x2", NHWC),
    "odd features": ("1,6,23,63", "3,3,63,4", "1,4,21,4", "size=3x3", NHWC),
    "far outside": ("1,3,4,24", "3,5,24,2", "1,11,12,2", "size=3x5 pad=5_5x6_6", NHWC),
    "negative padding": ("1,9,9,16", "3,3,16,7", "1,5,6,7", "size=3x3 pad=-1_-1x-1_0", NHWC),
    "line": ("3,29,64", "4,64,8", "3,26,8", "size=4", "b0f_0io->b0f"),
    "phases": ("1,7,6,32", "5,5,32,3", "1,13,11,3", "size=5x5 pad=2_2x2_2 lhs_dilate=2x2", NHWC),
    "many rows": ("1,300,9,64", "3,3,64,1", "1,300,9,1", "size=3x3 pad=1_1x1_1", NHWC),
    "one column": ("1,90,3,64", "3,3,64,3", "1,88,1,3", "size=3x3", NHWC),
    "two columns": ("1,90,4,64", "3,3,64,1", "1,88,2,1", "size=3x3", NHWC),
}


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("isa", ["", "AVX2"])
def test_few_outputs(name: str, isa: str) -> None:
    agrees(module(*NARROW[name]), "f32", *([isa] if isa else []))


@pytest.mark.parametrize("of", ["bf16", "f64"])
def test_few_outputs_of_other_types(of: str) -> None:
    agrees(module(*NARROW["odd features"], of=of), of)


@pytest.mark.parametrize("name", NARROW)
def test_few_outputs_go_along_the_features(name: str) -> None:
    """Where they fill the vectors; the family is chosen and its kernel is proved."""
    compiled = hloom.compile(module(*NARROW[name]))
    chosen = {c.name for c in compiled.stages.lowering.families.values()}
    lanes = api.host_device().compute.vector_floats
    if lanes in (8, 16) and name != "far outside":
        assert "narrow" in chosen


def test_few_outputs_with_what_follows() -> None:
    agrees(
        """HloModule m
ENTRY %main {
  %x = f32[1,9,11,48] parameter(0)
  %w = f32[3,3,48,3] parameter(1)
  %b = f32[3] parameter(2)
  %r = f32[1,9,11,3] parameter(3)
  %d = f32[1,9,11,48] add(%x, %x)
  %y = f32[1,9,11,3] convolution(%d, %w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  %s = f32[1,9,11,3] broadcast(%b), dimensions={3}
  %t = f32[1,9,11,3] add(%y, %s)
  ROOT %u = f32[1,9,11,3] multiply(%t, %r)
}
""",
        "f32",
    )


GROUPED = {
    "groups": ("2,6,5,24", "3,3,8,27", "2,6,5,27", "size=3x3 pad=1_1x1_1", 3),
    "depthwise": ("2,8,7,24", "3,3,1,24", "2,8,7,24", "size=3x3 pad=1_1x1_1", 24),
    "depthwise, odd": ("1,9,8,37", "3,3,1,37", "1,9,8,37", "size=3x3 pad=1_1x1_1", 37),
    "depthwise, strided": (
        "1,9,8,32",
        "3,3,1,32",
        "1,5,4,32",
        "size=3x3 stride=2x2 pad=1_1x1_1",
        32,
    ),
    "depthwise, dilated": ("1,9,8,16", "3,3,1,16", "1,5,4,16", "size=3x3 rhs_dilate=2x2", 16),
    "depthwise, no padding": ("1,9,8,16", "3,2,1,16", "1,7,7,16", "size=3x2", 16),
    "depthwise, multiplied": ("1,6,5,8", "3,3,1,16", "1,6,5,16", "size=3x3 pad=1_1x1_1", 8),
    "depthwise, wide": ("1,4,40,130", "3,3,1,130", "1,4,40,130", "size=3x3 pad=1_1x1_1", 130),
    "depthwise, five": ("1,9,10,16", "5,5,1,16", "1,9,10,16", "size=5x5 pad=2_2x2_2", 16),
    "depthwise, few": ("2,7,9,3", "3,3,1,3", "2,7,9,3", "size=3x3 pad=1_1x1_1", 3),
}


def grouped(case: tuple[str, str, str, str, int], of: str = "f32") -> str:
    """A convolution of groups, the number of which is the last of a case."""
    *sizes, groups = case
    return module(*sizes, NHWC, f", feature_group_count={groups}", of)


@pytest.mark.parametrize("of", ["f32", "bf16"])
@pytest.mark.parametrize("name", GROUPED)
def test_grouped(name: str, of: str) -> None:
    agrees(grouped(GROUPED[name], of), of)


def test_depthwise_line_and_space() -> None:
    group = ", feature_group_count=20"
    agrees(module("2,19,20", "4,1,20", "2,16,20", "size=4", "b0f_0io->b0f", group), "f32")
    space = ("1,4,5,6,20", "2,3,3,1,20", "1,3,5,6,20", "size=2x3x3 pad=0_0x1_1x1_1")
    agrees(module(*space, "b012f_012io->b012f", group), "f32")


def test_depthwise_channels_first() -> None:
    for of in ("f32", "bf16"):
        agrees(
            module(
                "1,24,9,8",
                "24,1,3,3",
                "1,24,9,8",
                "size=3x3 pad=1_1x1_1",
                "bf01_oi01->bf01",
                ", feature_group_count=24",
                of,
            ),
            of,
        )


GRADIENTS = "f01b_i01o->01bf"
WEIGHTS = {
    "same": ("3,9,7,20", "3,9,7,24", "3,3,20,24", "size=9x7 pad=1_1x1_1"),
    "stem": ("2,17,15,3", "2,9,8,18", "7,5,3,18", "size=9x8 pad=3_3x2_2 rhs_dilate=2x2"),
    "strided": ("2,8,8,20", "2,4,4,30", "3,3,20,30", "size=4x4 pad=0_1x0_1 rhs_dilate=2x2"),
    "one": ("2,6,6,20", "2,6,6,33", "1,1,20,33", "size=6x6"),
    "large": ("2,40,39,17", "2,40,39,20", "3,3,17,20", "size=40x39 pad=1_1x1_1"),
}


@pytest.mark.parametrize("of", ["f32", "bf16"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_weight_gradient(name: str, of: str) -> None:
    agrees(module(*WEIGHTS[name], GRADIENTS, of=of), of)


def test_weight_gradients_of_groups() -> None:
    group = ", batch_group_count=16"
    depthwise = ("2,9,8,16", "2,9,8,16", "3,3,1,16", "size=9x8 pad=1_1x1_1")
    agrees(module(*depthwise, GRADIENTS, group), "f32")
    strided = ("2,8,8,16", "2,4,4,16", "3,3,1,16", "size=4x4 pad=0_1x0_1 rhs_dilate=2x2")
    agrees(module(*strided, GRADIENTS, group), "f32")
    grouped = ("2,6,5,24", "2,6,5,27", "3,3,8,27", "size=6x5 pad=1_1x1_1")
    agrees(module(*grouped, GRADIENTS, ", batch_group_count=3"), "f32")


# Gradients of few weights over so much that the images are cut in parts.
PARTS = {
    "depthwise 48": ("5,31,31,48", "5,31,31,48", "3,3,1,48", "size=31x31 pad=1_1x1_1", 48),
    "depthwise 144": ("6,14,15,144", "6,14,15,144", "3,3,1,144", "size=14x15 pad=1_1x1_1", 144),
    "depthwise 20": ("4,60,40,20", "4,60,40,20", "3,2,1,20", "size=60x40 pad=1_1x0_1", 20),
    "depthwise, strided": (
        "2,64,64,32",
        "2,32,32,32",
        "3,3,1,32",
        "size=32x32 pad=0_1x0_1 rhs_dilate=2x2",
        32,
    ),
    "few features": (
        "4,70,64,3",
        "4,35,32,66",
        "3,3,3,66",
        "size=35x32 pad=0_1x0_1 rhs_dilate=2x2",
        1,
    ),
    "features": ("6,40,31,24", "6,40,31,40", "3,3,24,40", "size=40x31 pad=1_1x1_1", 1),
}


@pytest.mark.parametrize("of", ["f32", "f64"])
@pytest.mark.parametrize("name", PARTS)
def test_weight_gradients_in_parts(name: str, of: str) -> None:
    lhs, rhs, out, window, groups = PARTS[name]
    text = module(lhs, rhs, out, window, GRADIENTS, f", batch_group_count={groups}", of)
    images = int(lhs.split(",")[0])
    found = hloom.compile(text).stages.module
    [conv] = [i for i in found.entry.instructions if i.opcode == "convolution"]
    assert shared_parts(conv) == images
    agrees(text, of)


def test_epilogue_and_prologue() -> None:
    for groups, features in ((1, 20), (20, 1)):
        agrees(
            f"""HloModule conv
ENTRY %main {{
  %x = f32[2,7,6,20] parameter(0)
  %w = f32[3,3,{features},20] parameter(1)
  %c = f32[20] parameter(2)
  %r = f32[2,7,6,20] parameter(3)
  %zero = f32[] constant(0)
  %z = f32[2,7,6,20] broadcast(%zero), dimensions={{}}
  %relu = f32[2,7,6,20] maximum(%x, %z)
  %y = f32[2,7,6,20] convolution(%relu, %w), window={{size=3x3 pad=1_1x1_1}}, \
dim_labels=b01f_01io->b01f, feature_group_count={groups}
  %cb = f32[2,7,6,20] broadcast(%c), dimensions={{3}}
  %s = f32[2,7,6,20] add(%y, %cb)
  ROOT %t = f32[2,7,6,20] multiply(%s, %r)
}}
""",
            "f32",
        )


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("of", ["f32", "s32"])
def test_results_that_lie_wholly_in_the_padding(groups: int, of: str) -> None:
    agrees(
        f"""HloModule conv
ENTRY %main {{
  %x = {of}[2,7,21,4] parameter(0)
  %w = {of}[8,{4 // groups},1,1] parameter(1)
  %zero = {of}[] constant(0)
  %y = {of}[2,10,21,8] convolution(%x, %w), window={{size=1x1 pad=0_3x0_0}}, \
dim_labels=b01f_oi01->b01f, feature_group_count={groups}
  %z = {of}[2,10,21,8] broadcast(%zero), dimensions={{}}
  ROOT %s = {of}[2,10,21,8] add(%y, %z)
}}
""",
        of,
    )
