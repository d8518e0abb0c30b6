"""Dots as native products of matrices, in every form, against the interpreter."""

from __future__ import annotations

import pytest

from tests.codegen.products import agrees

ORDERS = ["nn", "nt", "tn", "tt"]
ISAS = ["", "AVX2"]


def module(m: int, k: int, n: int, order: str, of: str, batch: str = "", after: str = "") -> str:
    """A dot of operands that lie transposed ('t') or not, and what follows it."""
    at = batch.count(",")
    lhs = f"{batch}{k},{m}" if order[0] == "t" else f"{batch}{m},{k}"
    rhs = f"{batch}{n},{k}" if order[1] == "t" else f"{batch}{k},{n}"
    dims = ",".join(str(d) for d in range(at))
    batches = f"lhs_batch_dims={{{dims}}}, rhs_batch_dims={{{dims}}}, " if at else ""
    left, right = at + (order[0] != "t"), at + (order[1] == "t")
    return f"""HloModule dot
ENTRY %main {{
  %a = {of}[{lhs}] parameter(0)
  %b = {of}[{rhs}] parameter(1)
  {"" if after else "ROOT "}%d = {of}[{batch}{m},{n}] dot(%a, %b), {batches}\
lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}
  {after}
}}
"""


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "size",
    [
        (64, 64, 64),  # whole tiles, finished from registers
        (37, 83, 101),  # last tiles moved back in both directions
        (9, 17, 15),  # fewer columns than a vector
        (41, 3, 70),  # K shorter than any vector
        (130, 40, 1),  # one column: computed transposed
        (50, 31, 5),
    ],
    ids=str,
)
def test_packed(size: tuple[int, int, int], order: str, isa: str) -> None:
    agrees(module(*size, order, "f32"), "f32", isa)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "size", [(1, 131, 77), (3, 64, 40), (5, 100, 333), (8, 70, 20), (12, 130, 33)], ids=str
)
def test_few_rows(size: tuple[int, int, int], order: str) -> None:
    agrees(module(*size, order, "f32"), "f32")


@pytest.mark.parametrize("order", ["nn", "nt"])
def test_tiles_of_few_rows(order: str) -> None:
    """More rows than one tile has, B read where it stands."""
    size = (19, 40, 1100) if order == "nn" else (29, 1061, 31)
    agrees(module(*size, order, "f32"), "f32")


@pytest.mark.parametrize("order", ORDERS)
def test_depth_in_parts(order: str) -> None:
    """So deep that K is cut, with a last part that is no multiple of anything."""
    agrees(module(50, 9001, 21, order, "f32"), "f32")


@pytest.mark.parametrize("of", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("batch", ["", "3,"])
@pytest.mark.parametrize("size", [(48, 700, 22), (32, 531, 17), (144, 600, 24)], ids=str)
def test_long_products_of_columns_that_fill_no_vector(
    size: tuple[int, int, int], batch: str, of: str
) -> None:
    """The second operand's columns are the rows of the tiles then."""
    agrees(module(*size, "tn", of, batch), of)
    m, _, n = size
    if of == "f32" and not batch:
        agrees(module(*size, "tn", of, after=EPILOGUE.format(m=m, n=n)), of)


@pytest.mark.parametrize("order", ["nn", "nt", "tn"])
@pytest.mark.parametrize("of", ["f64", "bf16", "f16", "s32", "u8", "s8", "s64", "c64", "c128"])
def test_types(of: str, order: str) -> None:
    agrees(module(23, 45, 37, order, of), of)
    agrees(module(2, 45, 37, order, of), of)


def test_narrow_integers_into_wide_sums() -> None:
    agrees(
        """HloModule dot
ENTRY %main {
  %a = s8[33,70] parameter(0)
  %b = s8[70,29] parameter(1)
  ROOT %d = s32[33,29] dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""",
        "s32",
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("batch", ["3,", "2,3,"])
def test_batches(batch: str, order: str) -> None:
    agrees(module(33, 20, 35, order, "f32", batch), "f32")


EPILOGUE = """%c = f32[{n}] parameter(2)
  %r = f32[{m},{n}] parameter(3)
  %cb = f32[{m},{n}] broadcast(%c), dimensions={{1}}
  %s = f32[{m},{n}] add(%d, %cb)
  %t = f32[{m},{n}] tanh(%s)
  %u = f32[{m},{n}] multiply(%t, %r)
  %v = f32[{m},{n}] negate(%u)
  ROOT %w = f32[{m},{n}] add(%v, %r)"""


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("size", [(64, 32, 64), (61, 30, 67), (4, 30, 67), (5, 64, 18)], ids=str)
def test_epilogue(size: tuple[int, int, int], isa: str) -> None:
    m, _, n = size
    for order in ("nn", "nt"):
        agrees(module(*size, order, "f32", after=EPILOGUE.format(m=m, n=n)), "f32", isa)


def test_result_may_overwrite_what_the_epilogue_reads() -> None:
    """Moved-back tiles must not store twice: the second time they would read the result."""
    agrees(
        """HloModule dot
ENTRY %main {
  %a = f32[61,30] parameter(0)
  %b = f32[30,67] parameter(1)
  %c = f32[61,67] parameter(2)
  %e = f32[61,67] exponential(%c)
  %e2 = (f32[61,67]) tuple(%e)
  %e3 = (f32[61,67]) opt-barrier(%e2)
  %e4 = f32[61,67] get-tuple-element(%e3), index=0
  %d = f32[61,67] dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %w = f32[61,67] add(%e4, %d)
}
""",
        "f32",
    )


def test_prologue_and_transposed_operands() -> None:
    """Operands that are converted, scaled and transposed on the way into the packing."""
    agrees(
        """HloModule dot
ENTRY %main {
  %a = s8[40,3,50] parameter(0)
  %s = f32[50] parameter(1)
  %b = f32[30,50,3] parameter(2)
  %f = f32[40,3,50] convert(%a)
  %sb = f32[40,3,50] broadcast(%s), dimensions={2}
  %g = f32[40,3,50] multiply(%f, %sb)
  %gt = f32[3,40,50] transpose(%g), dimensions={1,0,2}
  %bt = f32[3,50,30] transpose(%b), dimensions={2,1,0}
  ROOT %d = f32[3,40,30] dot(%gt, %bt), lhs_batch_dims={0}, rhs_batch_dims={0}, \
lhs_contracting_dims={2}, rhs_contracting_dims={1}
}
""",
        "f32",
    )
