"""Constants in panels: products and convolutions of any size, layout and type compute what the
interpreter computes, pack nothing, and no constant is in memory twice."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hloom
from hloom.analysis.panels import GROUPED_WIDTHS, WIDTHS, panel_width
from hloom.codegen.llvm.machine import Machine
from hloom.executable import Executable
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.targets.cpu.target import CpuTarget
from hloom.types.literal import Literal
from tests.codegen.products import TOLERANCE, distinct

SIZES = [
    (1, 333, 1000),
    (3, 50, 144),
    (5, 70, 47),  # less than a panel
    (8, 1024, 320),
    (100, 5000, 95),  # K in parts
    (13, 300, 144),
    (40, 3, 128),
    (49, 516, 512),
    (130, 300, 1000),
]
CONVOLUTIONS = [(7, 64, 96, 3, 1), (14, 48, 94, 3, 2), (9, 32, 64, 1, 1), (5, 33, 63, 2, 1)]
INSTRUCTION_SETS = ["", "AVX2"]


def with_constant(text: str, number: int = 1) -> tuple[Module, list[np.ndarray]]:
    """A module whose parameter `number`, the last, is a constant; and arguments for the others."""
    module = hloom.parse(text)
    entry, parameters = module.entry, list(module.entry.parameters)
    values = [distinct(p.shape.dtype.numpy, p.shape.dims, k) for k, p in enumerate(parameters)]
    p = parameters[number]
    attrs = OPS["constant"].attrs(literal=Literal.of(values[number], p.shape))
    entry.replace(p, entry.append("constant", attrs, (), p.shape, "weights"))
    entry.erase(p)
    entry.reorder(entry.in_order())
    module.entry_layout = None
    return module, values[:number]


def compiled(module: Module, isa: str = "") -> Executable:
    return Executable(CpuTarget(Machine.host(isa)).compile(copy_module(module)), threads=2)


def check(text: str, of: str, isa: str = "") -> Executable:
    """The program, once it computes what the interpreter does."""
    module, arguments = with_constant(text)
    run = compiled(module, isa)
    result = np.asarray(run(*arguments))
    expected = hloom.evaluate(module, *arguments).array
    if of not in TOLERANCE:
        np.testing.assert_array_equal(result, expected)
        return run
    wide = np.complex128 if of.startswith("c") else np.float64
    error = np.abs(result.astype(wide) - expected.astype(wide)).max()
    assert error <= TOLERANCE[of] * np.abs(expected.astype(wide)).max()
    return run


def dot(size: tuple[int, int, int], order: str, types: tuple[str, str]) -> str:
    m, k, n = size
    of, result = types
    rhs, d = (f"{k},{n}", 0) if order == "n" else (f"{n},{k}", 1)
    return f"""HloModule m
ENTRY e {{
  x = {of}[{m},{k}] parameter(0)
  w = {of}[{rhs}] parameter(1)
  d = {result}[{m},{n}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{d}}}
  ROOT y = {result}[{m},{n}] negate(d) }}"""


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
@pytest.mark.parametrize("order", ["n", "t"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_product_reads_the_panels_of_its_constant(
    size: tuple[int, int, int], order: str, isa: str
):
    run = check(dot(size, order, ("f32", "f32")), "f32", isa)
    width = panel_width(size[2], 1)
    assert width
    assert f"f32[{-(-size[2] // width)},{size[1]},{width}]" in run.as_text("hlo")


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
@pytest.mark.parametrize(
    ("of", "to"), [("bf16", "f32"), ("bf16", "bf16"), ("s8", "s32"), ("u8", "s32")]
)
@pytest.mark.parametrize("size", [(49, 516, 512), (50, 38, 100), (64, 513, 47), (4, 64, 96)])
def test_narrow_products_read_panels_in_groups(
    size: tuple[int, int, int], of: str, to: str, isa: str
):
    check(dot(size, "n", (of, to)), to, isa)
    check(dot(size, "t", (of, to)), to, isa)


@pytest.mark.parametrize("of", ["f64", "c64", "f16", "s32"])
def test_other_types_are_right_too(of: str):
    check(dot((20, 45, 96), "n", (of, of)), of)
    check(dot((2, 1, 64), "n", (of, of)), of)


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
@pytest.mark.parametrize("filters", ["01io", "01oi", "oi01", "io01"])
@pytest.mark.parametrize("size", CONVOLUTIONS, ids=str)
def test_a_convolution_reads_the_panels_of_its_filter(
    size: tuple[int, int, int, int, int], filters: str, isa: str
):
    places, features, outputs, window, stride = size
    made = (places + stride - 1) // stride
    pad = max((made - 1) * stride + window - places, 0)
    pads = f"{pad // 2}_{pad - pad // 2}"
    dims = {"0": window, "1": window, "i": features, "o": outputs}
    of_filter = ",".join(str(dims[d]) for d in filters)
    run = check(
        f"""HloModule m
ENTRY e {{
  x = f32[2,{places},{places},{features}] parameter(0)
  w = f32[{of_filter}] parameter(1)
  c = f32[2,{made},{made},{outputs}] convolution(x, w), dim_labels=b01f_{filters}->b01f, \
window={{size={window}x{window} stride={stride}x{stride} pad={pads}x{pads}}}
  ROOT y = f32[2,{made},{made},{outputs}] negate(c) }}""",
        "f32",
        isa,
    )
    width = panel_width(outputs, 1)
    assert width
    assert f"f32[{-(-outputs // width)},{features * window**2},{width}]" in run.as_text("hlo")


def test_a_reversed_window_is_right():
    check(
        """HloModule m
ENTRY e {
  x = f32[2,9,9,32] parameter(0)
  w = f32[3,3,32,64] parameter(1)
  ROOT c = f32[2,7,7,64] convolution(x, w), dim_labels=b01f_01io->b01f, \
window={size=3x3 rhs_reversal=1x1} }""",
        "f32",
    )


def test_panels_are_no_more_memory_and_nothing_is_packed():
    text = dot((64, 512, 1024), "n", ("f32", "f32"))
    run = check(text, "f32")
    assert run.memory.constants == 512 * 1024 * 4
    scratch = re.findall(r"alloc size\((\d+)\)", run.as_text("kernels"))
    assert sum(map(int, scratch)) <= 12 * 64  # a tile of results, no panel
    # Somebody else reads the constant: it stays, once.
    shared = text.replace("ROOT y =", "y =").replace(
        "negate(d) }",
        """negate(d)
  s = f32[64,512] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT t = (f32[64,1024], f32[64,512]) tuple(y, s) }""",
    )
    module, arguments = with_constant(shared)
    run = compiled(module)
    assert run.memory.constants == 512 * 1024 * 4
    results = hloom.evaluate(module, *arguments)
    for a, b in zip(run(*arguments), results.elements):
        np.testing.assert_allclose(
            np.asarray(a), b.array, rtol=1e-3, atol=1e-3 * np.abs(b.array).max()
        )


def test_a_saved_program_keeps_the_panels(tmp_path):
    module, arguments = with_constant(dot((16, 100, 1000), "t", ("f32", "f32")))
    run = hloom.compile(module)
    run.save(tmp_path / "program.hloom")
    again = hloom.load_compiled(tmp_path / "program.hloom")
    np.testing.assert_array_equal(np.asarray(again(*arguments)), np.asarray(run(*arguments)))


@pytest.mark.parametrize("columns", [1, 29, 30, 31, 32, 33, 45, 46, 48, 49, 64, 95, 97, 1000, 4096])
@pytest.mark.parametrize("group", [1, 2])
def test_panels_leave_little_empty(columns: int, group: int):
    width = panel_width(columns, group)
    empty = [-columns % w / (columns + -columns % w) for w in WIDTHS]
    if width is None:
        assert min(empty) > 1 / 16
    else:
        assert width in WIDTHS and -columns % width <= (columns + -columns % width) / 16


def test_panels_of_neighbours_along_k_are_two_tiles_wide():
    """Tiles of matrices are 16 columns wide, two of them share what they load; 48 would be three
    times one. Of vectors three are best."""
    assert set(GROUPED_WIDTHS) == set(WIDTHS)  # products find panels of either kind
    for columns in (32, 64, 96, 192, 384, 768, 3072):
        assert panel_width(columns, 2) == panel_width(columns, 4) == 32
    assert panel_width(96, 1) == panel_width(48, 2) == 48
