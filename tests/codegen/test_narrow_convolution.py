"""Convolutions of integers that make few features of many, against the interpreter."""

from __future__ import annotations

import pytest

import hloom
from hloom import api
from tests.codegen.products import agrees
from tests.codegen.test_convolution import NARROW, NHWC, module
from tests.covering import covering


@pytest.mark.parametrize("isa", ["", "AVX2", "SSE4_2"])
@pytest.mark.parametrize("of", ["s8", "u8", "s16", "s32", "u32", "s64", "s4", "pred"])
def test_few_outputs_of_integers(of: str, isa: str) -> None:
    """Of 8 bits 64 features fill a vector: 65 are two, mostly empty."""
    agrees(module(*NARROW["three"], of=of), of, isa)
    full = ("2,7,9,64", "3,3,64,3", "2,7,9,3", "size=3x3 pad=1_1x1_1", NHWC)
    agrees(module(*full, of=of), of, isa)
    agrees(module(*[x.replace("64", "65") for x in full], of=of), of, isa)


@pytest.mark.parametrize(("name", "of", "isa"), covering(list(NARROW), ["s8", "u8"], ["", "AVX2"]))
def test_few_outputs_of_widened_integers(of: str, name: str, isa: str) -> None:
    text = module(*NARROW[name], of="s32")
    for k, x in enumerate(("x", "w")):
        dims = NARROW[name][k]
        text = text.replace(
            f"%{x} = s32[{dims}] parameter({k})",
            f"%{x}8 = {of}[{dims}] parameter({k})\n  %{x} = s32[{dims}] convert(%{x}8)",
        )
    agrees(text, "s32", isa)


@pytest.mark.parametrize(
    ("features", "outputs", "is_narrow"), [(32, 6, True), (32, 7, False), (24, 4, True)]
)
@pytest.mark.parametrize("of", ["s8", "s32"])
def test_integers_in_groups_are_products_from_fewer_outputs_on(
    features: int, outputs: int, is_narrow: bool, of: str
) -> None:
    """Where the device multiplies four of 8 bits at once; those of 32 bits are no groups."""
    case = f"2,9,9,{features}", f"3,3,{features},{outputs}", f"2,7,7,{outputs}", "size=3x3", NHWC
    text = module(*case, of="s32")
    if of == "s8":
        for k, x in enumerate(("x", "w")):
            text = text.replace(
                f"%{x} = s32[{case[k]}] parameter({k})",
                f"%{x}8 = s8[{case[k]}] parameter({k})\n  %{x} = s32[{case[k]}] convert(%{x}8)",
            )
    compiled = hloom.compile(text)
    chosen = {c.name for c in compiled.stages.lowering.families.values()}
    compute = api.host_device().compute
    in_groups = of == "s8" and any(group == 4 for *_, group in compute.dot_products)
    if compute.vector_floats in (8, 16) and not compute.matrix_tiles:
        assert ("narrow" in chosen) is (is_narrow or not in_groups)
