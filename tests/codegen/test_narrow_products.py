"""Products of bf16 and 8-bit integers by the instructions for them, against the interpreter."""

from __future__ import annotations

import re

import pytest

import hloom
from hloom.codegen.packing import holds
from hloom.device.probe import probed_cpu
from hloom.ir.text import parse_module
from hloom.targets.cpu.device import host_device
from hloom.targets.cpu.lower.families import product_of
from hloom.types.dtype import BY_NAME
from tests.codegen.products import agrees
from tests.covering import covering

ORDERS = ["nn", "nt", "tn", "tt"]
SIZES = [
    (64, 64, 64),
    (37, 83, 101),  # K is no multiple of a group, tiles are moved back
    (40, 2, 70),  # less than a group of four
    (40, 3, 70),
    (40, 1, 70),
    (33, 2051, 49),
    (1030, 3001, 47),  # K in parts, the last one shorter
    (48, 72, 15),  # fewer columns than a vector
]


def module(
    size: tuple[int, int, int],
    order: str,
    types: tuple[str, str, str],
    through: str = "",
    batch: int = 0,
) -> str:
    """A dot whose operands lie transposed ('t') or not; `through`: the type that they are converted
    to before."""
    m, k, n = size
    head = f"{batch}," if batch else ""
    lhs = head + (f"{k},{m}" if order[0] == "t" else f"{m},{k}")
    rhs = head + (f"{n},{k}" if order[1] == "t" else f"{k},{n}")
    at = 1 if batch else 0
    batches = "lhs_batch_dims={0}, rhs_batch_dims={0}, " if batch else ""
    left, right = at + (order[0] != "t"), at + (order[1] == "t")
    convert = (
        through
        and f"""
  x = {through}[{lhs}] convert(a)
  y = {through}[{rhs}] convert(b)"""
    )
    return f"""HloModule dot
ENTRY main {{
  a = {types[0]}[{lhs}] parameter(0)
  b = {types[1]}[{rhs}] parameter(1){convert}
  ROOT d = {types[2]}[{head}{m},{n}] dot({"x, y" if through else "a, b"}), {batches}\
lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}
}}
"""


@pytest.mark.parametrize(("size", "order", "isa"), covering(SIZES, ORDERS, ["", "AVX2"]), ids=str)
def test_bf16(size: tuple[int, int, int], order: str, isa: str) -> None:
    agrees(module(size, order, ("bf16", "bf16", "bf16")), "bf16", isa)


@pytest.mark.parametrize(
    ("size", "order", "signs"), covering(SIZES[1:], ORDERS, ["ss", "us", "su", "uu"]), ids=str
)
def test_integers(size: tuple[int, int, int], order: str, signs: str) -> None:
    a, b = [sign + "8" for sign in signs]
    agrees(module(size, order, (a, b, "s32")), "s32")


@pytest.mark.parametrize("isa", ["", "AVX2"])
@pytest.mark.parametrize("types", [("s16", "s16"), ("s16", "u8"), ("u8", "u8"), ("s8", "s8")])
def test_pairs_of_integers(types: tuple[str, str], isa: str) -> None:
    for size, order in (((37, 83, 101), "nt"), ((1030, 3001, 47), "nn"), ((40, 1, 70), "tn")):
        agrees(module(size, order, (*types, "s32")), "s32", isa)


@pytest.mark.parametrize(
    "types, through",
    [
        (("s8", "s8", "s32"), "s32"),
        (("s8", "u8", "s32"), "s32"),
        (("s4", "s8", "s32"), "s32"),
        (("bf16", "bf16", "f32"), "f32"),
        (("f8e4m3fn", "bf16", "f32"), "f32"),
        (("f8e5m2", "f8e4m3fn", "bf16"), "bf16"),
        (("s8", "bf16", "bf16"), "bf16"),
        (("f16", "bf16", "f32"), "f32"),  # no type of an instruction holds f16
    ],
    ids=str,
)
def test_converted(types: tuple[str, str, str], through: str) -> None:
    for size in ((37, 83, 101), (64, 1024, 48)):
        agrees(module(size, "nn", types, through), types[2] if types[2] != "s32" else "s32")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("of, to", [("bf16", "bf16"), ("s8", "s32")])
def test_few_rows(of: str, to: str, order: str) -> None:
    """On both sides of the number of rows from which on they are packed."""
    for rows in (1, 3, 4, 6, 7):
        agrees(module((rows, 131, 75), order, (of, of, to)), to)


@pytest.mark.parametrize("size", [(8, 8192, 2048), (7, 8200, 2050)])
def test_parts_of_a_long_sum_that_differ(size: tuple[int, int, int]) -> None:
    """Rows that are read where they stand are not read behind their end by the last, shorter part:
    such a kernel is not proved, and was left out."""
    agrees(module(size, "nn", ("bf16", "bf16", "f32")), "f32")


def test_batches() -> None:
    for of, to in (("bf16", "f32"), ("s8", "s32")):
        agrees(module((50, 33, 40), "nt", (of, of, to), batch=3), to)


def test_extremes_of_integers_wrap_around_nowhere() -> None:
    # -128 is 0 once 128 has been added, and 127 * 255: neither saturates in between.
    text = module((40, 64, 40), "nn", ("s8", "s8", "s32"))
    import numpy as np

    import hloom

    run = hloom.compile(hloom.parse(text))
    for x in (-128, 127):
        for y in (-128, 127):
            found = run(np.full((40, 64), x, np.int8), np.full((64, 40), y, np.int8))
            assert (np.asarray(found) == 64 * x * y).all()
    # Two products of -32768 by itself are one more than s32 has: they wrap as any sum does.
    run = hloom.compile(hloom.parse(module((40, 66, 40), "nn", ("s16", "s16", "s32"))))
    lowest = np.full((40, 66), -32768, np.int16)
    found = np.asarray(run(lowest, np.ascontiguousarray(lowest.T)))
    assert (found == np.int64(66 * 2**30).astype(np.int32)).all()


CONVOLUTION = """HloModule conv
ENTRY main {{
  x = {of}[{n},{size},{size},{ci}] parameter(0)
  w = {of}[3,3,{ci},{co}] parameter(1)
  ROOT y = {to}[{n},{out},{out},{co}] convolution(x, w), \
window={{size=3x3 stride={s}x{s} pad=1_1x1_1}}, \
dim_labels=b01f_01io->b01f
}}
"""


@pytest.mark.parametrize("of, to", [("bf16", "bf16"), ("s8", "s32"), ("u8", "s32")])
@pytest.mark.parametrize(
    "n, size, ci, co, s",
    [(2, 9, 8, 24, 1), (1, 14, 64, 70, 2), (1, 9, 6, 40, 1), (2, 8, 3, 16, 1), (1, 7, 132, 33, 1)],
)
def test_convolutions(of: str, to: str, n: int, size: int, ci: int, co: int, s: int) -> None:
    out = -(-size // s)
    agrees(CONVOLUTION.format(of=of, to=to, n=n, size=size, ci=ci, co=co, s=s, out=out), to)


def test_a_device_without_such_instructions_packs_wide() -> None:
    dot = parse_module(module((64, 64, 64), "nn", ("bf16", "bf16", "f32"))).entry.root
    leaves = set(dot.operands)
    plain = probed_cpu(2, 64, 32)
    wide = probed_cpu(2, 64, 32, dot_products=(("bf16", "bf16", 2),))
    assert product_of(dot, leaves, plain).packing.group == 1  # type: ignore[union-attr]
    assert product_of(dot, leaves, wide).packing.group == 2  # type: ignore[union-attr]
    assert wide.compute.flop_ns("bf16") == plain.compute.flop_ns("bf16") / 2
    rates = dict(host_device().compute.operations_per_cycle)
    for a, b, group in host_device().compute.dot_products:
        assert rates[a] == rates[b] == rates["f32"] * group


def test_which_type_holds_which() -> None:
    def said(wide: str, narrow: str) -> bool:
        return holds(BY_NAME[wide], BY_NAME[narrow])

    for narrow in ("bf16", "f8e4m3fn", "f8e5m2", "s8", "u8", "s4"):
        assert said("bf16", narrow), narrow
    for narrow in ("f16", "f32", "s16", "f8e8m0fnu", "pred", "c64"):
        assert not said("bf16", narrow), narrow
    assert said("s8", "s4")
    assert said("s8", "u4")
    assert not said("s8", "u8")
    assert not said("u8", "s4")
    assert said("s32", "u8")


WEIGHTS = """HloModule weights
ENTRY %main {{
  %x = bf16[{m},{k}] parameter(0)
  %w = {of}[{rows},{columns}] parameter(1)
  %c = bf16[{rows},{columns}] convert(%w)
  ROOT %d = bf16[{m},{n}] dot(%x, %c), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{along}}}
}}
"""


@pytest.mark.parametrize("of", ["s4", "u4", "s2"])
@pytest.mark.parametrize("along", [0, 1])
@pytest.mark.parametrize("size", [(8, 64, 200), (9, 70, 198), (40, 130, 102), (8, 66, 101)])
def test_weights_of_less_than_a_byte(of: str, along: int, size: tuple[int, int, int]) -> None:
    m, k, n = size
    rows, columns = (n, k) if along else (k, n)
    text = WEIGHTS.format(m=m, k=k, n=n, of=of, rows=rows, columns=columns, along=along)
    agrees(text, "bf16")


@pytest.mark.parametrize("along", [0, 1])
def test_weights_of_four_bits_are_read_as_whole_rows_of_bytes(along: int) -> None:
    # 200 columns are no whole tiles: the last one is moved back, by whole bytes.
    k, n = 64, 200
    rows, columns = (n, k) if along else (k, n)
    text = WEIGHTS.format(m=8, k=k, n=n, of="s4", rows=rows, columns=columns, along=along)
    kernels = hloom.compile(hloom.parse(text)).as_text("kernels")
    divided = re.findall(r"divide (%\d+), %\d+ : s32\[", kernels)
    assert all(re.search(rf"{x} = iota", kernels) for x in divided)
    assert along == 0 or "gather %in1" not in kernels


@pytest.mark.parametrize(
    "image, window, out, how",
    [
        ("1,13,27,8", "3,5,8,16", "1,12,13,16", "size=3x5 stride=1x2 pad=0_1x0_3"),
        ("2,5,56,8", "3,7,8,16", "2,3,51,16", "size=3x7 stride=2x1 pad=2_1x0_1"),
        ("1,35,7,16", "7,3,16,33", "1,29,2,33", "size=7x3 stride=1x3 pad=-1_1x-1_1"),
    ],
)
def test_few_features_across_an_edge(image: str, window: str, out: str, how: str) -> None:
    """Runs along a row of the window end beyond the image; each access is proved to stay inside."""
    text = f"""HloModule m
ENTRY e {{
  x = bf16[{image}] parameter(0)
  k = bf16[{window}] parameter(1)
  ROOT c = bf16[{out}] convolution(x, k), window={{{how}}}, dim_labels=b01f_01io->b01f
}}
"""
    agrees(text, "bf16")
