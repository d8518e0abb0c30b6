"""Every elementwise operation behind a product of matrices leaves it one: tiles, and no sums of
rows, which take five times as long (exact gelu, whose erfc reads its argument's bits, did)."""

from __future__ import annotations

import pytest

import hloom
from hloom.ir.elementwise import BINARY, UNARY

# What each opcode is tried on where it does not take f32.
OF = dict.fromkeys(["not", "and", "or", "xor", "mulhi", "popcnt", "count-leading-zeros"], "s32")
OF |= dict.fromkeys(["shift-left", "shift-right-arithmetic", "shift-right-logical"], "s32")
RESULTS = {"is-finite": "pred"}
OTHERS = {
    "compare": "ROOT %r = pred[64,96] compare(%d, %y), direction=LT",
    "select": "%c = pred[64,96] compare(%d, %y), direction=LT\n"
    "  ROOT %r = f32[64,96] select(%c, %d, %y)",
    "clamp": "ROOT %r = f32[64,96] clamp(%y, %d, %y)",
    "convert": "ROOT %r = bf16[64,96] convert(%d)",
    "reduce-precision": "ROOT %r = f32[64,96] reduce-precision(%d), exponent_bits=5, "
    "mantissa_bits=7",
    "bitcast-convert": "%i = s32[64,96] bitcast-convert(%d)\n"
    "  %n = s32[64,96] negate(%i)\n  ROOT %r = f32[64,96] bitcast-convert(%n)",
    "complex": "%z = c64[64,96] complex(%d, %y)\n  ROOT %r = f32[64,96] real(%z)",
}


def behind(opcode: str) -> str:
    """The instructions behind a product `%d` of f32."""
    if opcode in OTHERS:
        return OTHERS[opcode]
    of = OF.get(opcode, "f32")
    lines = []
    x, y = "%d", "%y"
    if of == "s32":
        lines += ["%s = s32[64,96] convert(%d)", "%t = s32[64,96] convert(%y)"]
        x, y = "%s", "%t"
    operands = f"{x}, {y}" if opcode in BINARY else x
    lines.append(f"ROOT %r = {RESULTS.get(opcode, of)}[64,96] {opcode}({operands})")
    return "\n  ".join(lines)


@pytest.mark.parametrize("opcode", sorted({*UNARY, *BINARY, *OTHERS}))
def test_behind_a_product(opcode: str) -> None:
    text = f"""HloModule m
ENTRY %main {{
  %a = f32[64,64] parameter(0)
  %b = f32[64,96] parameter(1)
  %y = f32[64,96] parameter(2)
  %d = f32[64,96] dot(%a, %b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {behind(opcode)}
}}
"""
    kernels = hloom.compile(hloom.parse(text)).as_text("kernels")
    assert " = dot " in kernels
