"""Convolutions whose groups make few features, and the gradients of their weights."""

from __future__ import annotations

import pytest

import hloom
from hloom import api
from tests.codegen.products import agrees
from tests.codegen.test_convolution import grouped, module

# Groups of fewer features than half a vector: several of them side by side.
SMALL_GROUPS = {
    "four": ("2,9,11,32", "3,3,4,32", "2,9,11,32", "size=3x3 pad=1_1x1_1", 8),
    "four, not whole vectors": ("1,9,11,20", "3,3,4,20", "1,9,11,20", "size=3x3 pad=1_1x1_1", 5),
    "four, few": ("1,7,5,8", "3,3,4,8", "1,7,5,8", "size=3x3 pad=1_1x1_1", 2),
    "eight": ("1,14,14,40", "3,3,8,40", "1,14,14,40", "size=3x3 pad=1_1x1_1", 5),
    "strided": ("1,17,13,48", "3,3,4,48", "1,9,7,48", "size=3x3 stride=2x2 pad=1_1x1_1", 12),
    "dilated": ("1,11,9,24", "3,3,2,24", "1,7,5,24", "size=3x3 rhs_dilate=2x2", 12),
    "three to five": ("1,8,9,21", "3,2,3,35", "1,6,8,35", "size=3x2", 7),
    "twelve to one": ("1,6,19,36", "3,3,12,3", "1,6,19,3", "size=3x3 pad=1_1x1_1", 3),
    "one to two": ("2,6,5,9", "3,3,1,18", "2,6,5,18", "size=3x3 pad=1_1x1_1", 9),
    "one to nine": ("1,6,5,4", "3,3,1,36", "1,6,5,36", "size=3x3 pad=1_1x1_1", 4),
    "two to twenty": ("1,5,9,6", "3,2,2,60", "1,3,8,60", "size=3x2", 3),
    "large window": ("1,12,13,12", "7,7,4,12", "1,12,13,12", "size=7x7 pad=3_3x3_3", 3),
    "deep": ("1,5,6,400", "3,3,100,8", "1,5,6,8", "size=3x3 pad=1_1x1_1", 4),
    "padded beyond": ("1,3,4,16", "2,2,4,16", "1,8,9,16", "size=2x2 pad=3_3x3_3", 4),
    "negative padding": ("1,9,9,16", "3,3,4,16", "1,5,6,16", "size=3x3 pad=-1_-1x-1_0", 4),
}


@pytest.mark.parametrize("isa", ["", "avx2"])
@pytest.mark.parametrize("of", ["f32", "bf16", "f64", "s32"])
@pytest.mark.parametrize("name", SMALL_GROUPS)
def test_small_groups(name: str, of: str, isa: str) -> None:
    agrees(grouped(SMALL_GROUPS[name], of), of, isa)


SMALL_GROUPS_GRADIENTS = {
    "four": ("2,9,8,32", "2,9,8,32", "3,3,4,32", "size=9x8 pad=1_1x1_1", 8),
    "four, not whole vectors": ("3,9,8,20", "3,9,8,20", "3,3,4,20", "size=9x8 pad=1_1x1_1", 5),
    "strided": ("2,8,8,24", "2,4,4,24", "3,3,4,24", "size=4x4 pad=0_1x0_1 rhs_dilate=2x2", 6),
    "two to five": ("1,30,70,6", "1,30,70,15", "3,2,2,15", "size=30x70 pad=1_1x0_1", 3),
    "eight to three": ("2,14,9,40", "2,14,9,15", "1,5,8,15", "size=14x9 pad=0_0x2_2", 5),
    "one to two": ("2,7,6,9", "2,5,4,18", "3,3,1,18", "size=5x4", 9),
    "one to nine": ("2,7,6,3", "2,5,4,27", "3,3,1,27", "size=5x4", 3),
}


@pytest.mark.parametrize("isa", ["", "avx2"])
@pytest.mark.parametrize("of", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("name", SMALL_GROUPS_GRADIENTS)
def test_weight_gradients_of_small_groups(name: str, of: str, isa: str) -> None:
    lhs, rhs, out, window, groups = SMALL_GROUPS_GRADIENTS[name]
    text = module(lhs, rhs, out, window, "f01b_i01o->01bf", f", batch_group_count={groups}", of)
    chosen = {c.name for c in hloom.compile(text).stages.lowering.families.values()}
    if api.host_device().compute.vector_floats >= 16 and of != "f64":
        assert chosen == {"grouped"}
    agrees(text, of, isa)


@pytest.mark.parametrize(
    "name", ["four", "eight", "three to five", "strided", "one to two", "one to nine"]
)
def test_small_groups_share_vectors(name: str) -> None:
    """Where several fit into a vector; the family is chosen and its kernel is proved."""
    text = grouped(SMALL_GROUPS[name])
    chosen = {c.name for c in hloom.compile(text).stages.lowering.families.values()}
    if api.host_device().compute.vector_floats >= 16:
        assert "grouped" in chosen


def test_small_groups_channels_first() -> None:
    for of in ("f32", "bf16"):
        shapes = ("2,20,9,8", "20,4,3,3", "2,20,9,8", "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01")
        agrees(module(*shapes, ", feature_group_count=5", of), of)


def test_small_groups_of_lines() -> None:
    group = ", feature_group_count=5"
    agrees(module("2,29,20", "4,4,20", "2,26,20", "size=4", "b0f_0io->b0f", group), "f32")


def test_small_groups_before_what_overwrites_their_operand() -> None:
    """The last block has groups of the one before, whose results are there already."""
    agrees(
        """HloModule conv
ENTRY %main {
  %x = f32[1,9,11,20] parameter(0)
  %w = f32[3,3,4,20] parameter(1)
  %r = f32[1,9,11,20] parameter(2)
  %one = f32[] constant(1)
  %ones = f32[1,9,11,20] broadcast(%one), dimensions={}
  %s = f32[1,9,11,20] add(%r, %ones)
  %t = f32[1,9,11,20] tanh(%s)
  %y = f32[1,9,11,20] convolution(%x, %w), window={size=3x3 pad=1_1x1_1}, \
dim_labels=b01f_01io->b01f, feature_group_count=5
  ROOT %u = f32[1,9,11,20] add(%t, %y)
}
""",
        "f32",
    )
