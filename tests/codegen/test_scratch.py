"""No kernel takes more scratch than a thread's stack has room for, whatever the sizes.

Kernels are written for drawn extreme shapes, for each width of vectors, and their scratch counted;
nothing of such a size is computed.
"""

from __future__ import annotations

import random

import pytest

import hloom
from hloom.analysis.attention_form import MOST_WIDE
from hloom.codegen.attention import attention_kernel, body_attention
from hloom.codegen.tile import Body, Emitted
from hloom.device.device import Device
from hloom.device.probe import probed_cpu
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import STACK_LIMIT
from hloom.targets.cpu.lower.families import family_of
from tests.codegen.products import agrees
from tests.codegen.test_attention import module as attention_module
from tests.codegen.test_gemm import module as dot_module

DEVICES = [probed_cpu(2, n, 16 if n < 64 else 32) for n in (16, 32, 64)]
SHORT = (1, 2, 3, 5, 7, 8, 11, 13, 16, 17, 31, 32, 33, 48, 49, 64, 100)
LONG = (255, 256, 257, 1000, 1024, 5000, 9215, 9217, 40_000, 293_751, 1_000_000)
TYPES = ("f32", "f32", "f64", "c64", "c128", "bf16", "s8", "s32")
MOST_ELEMENTS = 1 << 40


def scratch_bytes(emitted: Emitted) -> int:
    """As the lowering counts it."""
    found = [o for o in emitted.kernel.ops() if o.opcode == "alloc"]
    sizes = [o.attrs["size"] * o.result.dtype.size_bytes for o in found]
    return sum(-(-n // 64) * 64 for n in sizes)


def kernel_of(i: Instruction, device: Device) -> Emitted:
    """The kernel of a product that stands alone."""
    body = Body.of(i)
    family, form = family_of(body, device)
    [emitted] = family.write(body, form, device)
    return emitted


def anchor(text: str) -> Instruction:
    return hloom.parse(text).entry.root


@pytest.mark.parametrize("number", range(60))
def test_products(number: int) -> None:
    rng = random.Random(number)
    sizes = [rng.choice(rng.choice((SHORT, LONG))) for _ in range(3)]
    while sizes[0] * sizes[1] * sizes[2] > MOST_ELEMENTS:
        sizes[sizes.index(max(sizes))] //= 100
    m, k, n = sizes
    order, of = rng.choice(("nn", "nt", "tn", "tt")), rng.choice(TYPES)
    batch = rng.choice(("", "", "1,", "3,"))
    i = anchor(dot_module(m, k, n, order, of, batch))
    for device in DEVICES:
        taken = scratch_bytes(kernel_of(i, device))
        assert taken <= STACK_LIMIT, (m, k, n, order, of, batch, device)


@pytest.mark.parametrize("depth", [3, 256, 512, 1000])
@pytest.mark.parametrize("rows", [48, 1000])
def test_attention_up_to_the_widest(depth: int, rows: int) -> None:
    for keys in (50, 255, 256, 3000):
        for columns in (1, min(65, MOST_WIDE - depth), MOST_WIDE - depth):
            module = hloom.parse(attention_module(2, rows, keys, depth, columns))
            hloom.pass_named("attention-fusion", min_scores=0, min_rows=0).run(module)
            [fusion] = [i for i in module.entry.instructions if i.opcode == "fusion"]
            body = Body.of(fusion)
            form = body_attention(body)
            assert form is not None
            for device in DEVICES:
                taken = scratch_bytes(attention_kernel(body, form, device))
                assert taken <= STACK_LIMIT, (keys, columns, device)


def depthwise(image: str, kernel: str, window: str) -> str:
    """A depthwise convolution of 16 channels."""
    return f"""HloModule depthwise
ENTRY %main {{
  %x = f32[1,{image},16] parameter(0)
  %w = f32[{kernel},1,16] parameter(1)
  ROOT %y = f32[1,OUT,16] convolution(%x, %w), window={{{window}}}, dim_labels=b01f_01io->b01f, \
feature_group_count=16
}}
"""


@pytest.mark.parametrize(
    "image, kernel, dilation",
    [
        *[((300, width), (5, 5), 1) for width in (1600, 1604, 1640, 1642, 1700, 4000, 5000)],
        *[((300, 900), (5, 5), dilation) for dilation in (1, 2, 3, 60)],
        ((1, 4100), (1, 5), 1),
    ],
)
def test_depthwise(image: tuple[int, int], kernel: tuple[int, int], dilation: int) -> None:
    out = [n - (k - 1) * dilation for n, k in zip(image, kernel)]
    text = depthwise(
        f"{image[0]},{image[1]}",
        f"{kernel[0]},{kernel[1]}",
        f"size={kernel[0]}x{kernel[1]} rhs_dilate={dilation}x{dilation}",
    )
    i = anchor(text.replace("OUT", f"{out[0]},{out[1]}"))
    for device in DEVICES:
        assert scratch_bytes(kernel_of(i, device)) <= STACK_LIMIT


@pytest.mark.parametrize(
    "m, k, n, of",
    [
        (1, 1, 293_751, "f32"),  # sums of one step took more than the stack
        (8, 3, 70_001, "f32"),
        (11, 9217, 7, "c64"),  # what is packed of A did
    ],
)
def test_what_was_refused_is_right(m: int, k: int, n: int, of: str) -> None:
    agrees(dot_module(m, k, n, "nn", of), of)


def test_long_heads_are_right() -> None:
    text = attention_module(1, 600, 700, 512, 512)
    assert "constant(3)" in text
    # Scores of so long a sum are rounded: large ones would say more of that than of the kernel.
    agrees(text.replace("constant(3)", "constant(0.1)"), "f32")
