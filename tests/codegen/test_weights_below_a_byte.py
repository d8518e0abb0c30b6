"""Products of few rows by weights of four and two bits, which lie several in a byte: the even ones
and the odd ones are read apart, along K and along the columns, and a table says what they are."""

from __future__ import annotations

import re

import pytest

import hloom
from hloom.codegen.byte_parts import byte_parts
from hloom.codegen.llvm.machine import Machine
from hloom.targets.cpu.target import CpuTarget
from tests.codegen.products import agrees
from tests.covering import covering

ALONG_K, ALONG_COLUMNS = "nk", "kn"


def text(of: str, w: str, order: str, rows: int, depth: int, columns: int, group: int = 0) -> str:
    """`x @ w` with weights in an order; a scale for each `group` along K, where that is not 0."""
    along_k = order == ALONG_K
    sizes = f"{columns},{depth}" if along_k else f"{depth},{columns}"
    lines = ["HloModule m", "ENTRY e {", f"  x = {of}[{rows},{depth}] parameter(0)"]
    lines.append(f"  w = {w}[{sizes}] parameter(1)")
    if not group:
        lines.append(f"  q = {of}[{sizes}] convert(w)")
    else:
        groups = depth // group
        parts = f"{columns},{groups},{group}" if along_k else f"{groups},{group},{columns}"
        scales = f"{columns},{groups}" if along_k else f"{groups},{columns}"
        lines += [
            f"  s = {of}[{scales}] parameter(2)",
            f"  v = {w}[{parts}] reshape(w)",
            f"  c = {of}[{parts}] convert(v)",
            f"  b = {of}[{parts}] broadcast(s), dimensions={{{'0,1' if along_k else '0,2'}}}",
            f"  t = {of}[{parts}] multiply(c, b)",
            f"  q = {of}[{sizes}] reshape(t)",
        ]
    sums = "f32" if of in ("bf16", "f16") else of
    dims = f"lhs_contracting_dims={{1}}, rhs_contracting_dims={{{1 if along_k else 0}}}"
    return "\n".join([*lines, f"  ROOT d = {sums}[{rows},{columns}] dot(x, q), {dims}", "}"])


@pytest.mark.parametrize(
    ("w", "isa", "order", "rows", "sizes"),
    covering(
        ("s4", "u4", "s2", "u2", "f4e2m1fn"),
        ("", "AVX2", "SSE4_2"),
        (ALONG_K, ALONG_COLUMNS),
        (1, 3, 8),
        # Vectors and tiles of columns: whole, and one that is moved back.
        ((256, 256), (128, 66), (130, 130), (30, 8), (64, 514)),
    ),
)
def test_types_orders_and_sizes(w, isa, order, rows, sizes):
    agrees(text("f32", w, order, rows, *sizes), "f32", isa)


@pytest.mark.parametrize(
    ("w", "of", "isa", "order", "group"),
    covering(
        ("s4", "u4", "s8"),
        ("f32", "bf16", "f64", "s32"),
        ("", "AVX2"),
        (ALONG_K, ALONG_COLUMNS),
        (0, 6, 8, 32, 64),
    ),
)
def test_scales_of_groups(w, of, isa, order, group):
    agrees(text(of, w, order, 1, 4 * (group or 48), 130, group), of, isa)


@pytest.mark.parametrize("order", [ALONG_K, ALONG_COLUMNS])
def test_weights_are_not_cut_out_of_their_bytes(order):
    """The register of all sixteen numbers is asked with whole bytes, or those moved."""
    module = hloom.parse(text("f32", "s4", order, 1, 512, 1024))
    target = CpuTarget(Machine.of("x86_64-unknown-linux-gnu", "sapphirerapids"))
    texts = target.written(module).texts
    kernel = "\n".join(text for name, text in texts.items() if name != "hloom_main")
    asked = re.findall(r"permvar\.sf\.512\(.*<16 x i32> (%\w+)\)", kernel)
    assert asked
    for name in asked:
        made = re.search(rf"{name} = (.*)", kernel)[1]
        assert made.startswith(("zext <16 x i8>", "lshr <16 x i32>")), made


def parts_of(lines: str, d: int) -> int:
    module = hloom.parse("HloModule m\nENTRY e {\n" + lines + "\n}")
    entry = module.entry
    return byte_parts(entry.root, d, {x for x in entry.instructions if x.opcode == "parameter"})


READ = "  w = u8[6,4] parameter(0)\n  b = s4[6,4,2] bitcast-convert(w)\n"


def test_parts_of_bytes_are_seen_through_what_keeps_neighbours():
    assert parts_of(READ + "  ROOT r = s4[6,8] reshape(b)", 1) == 2
    assert parts_of(READ + "  ROOT r = s4[6,8] reshape(b)", 0) == 1
    one_more = "  r = s4[2,3,8] reshape(b)\n  c = f32[2,3,8] convert(r)\n"
    turned = READ + one_more + "  ROOT t = f32[8,2,3] transpose(c), dimensions={2,0,1}"
    assert parts_of(turned, 0) == 2
    assert parts_of("  w = s32[6] parameter(0)\n  ROOT b = s4[6,8] bitcast-convert(w)", 1) == 8
    assert parts_of("  w = s4[6,8] parameter(0)\n  ROOT c = s8[6,8] convert(w)", 1) == 1
    assert parts_of("  w = s32[6] parameter(0)\n  ROOT b = s8[6,4] bitcast-convert(w)", 1) == 1
