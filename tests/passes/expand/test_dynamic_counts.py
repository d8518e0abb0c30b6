"""Arrays of run-time size beside dimensions, and of elements, that 32 bits do not count."""

from __future__ import annotations

import pytest

from hloom.base.diagnostics import UnsupportedError
from hloom.ir.text import parse_module
from hloom.ir.verify import verify
from hloom.passes import pass_named

JOINED = """ENTRY e {
  x = f32[<=2,SIZE] parameter(0)
  y = f32[4,SIZE] parameter(1)
  ROOT a = f32[<=6,SIZE] concatenate(x, y), dimensions={0}
}
"""


@pytest.mark.parametrize(("size", "is_counted"), [(2**31 - 1, True), (2**31, False)])
def test_a_size_that_32_bits_do_not_count_is_refused_by_name(size: int, is_counted: bool) -> None:
    module = parse_module(JOINED.replace("SIZE", str(size)))
    if is_counted:
        assert pass_named("dynamic-padder").run(module).changed
        verify(module)
        return
    with pytest.raises(UnsupportedError, match=r"dimension 1 of .*2,147,483,647"):
        pass_named("dynamic-padder").run(module)


@pytest.mark.parametrize(("rows", "counted"), [(1 << 15, "s32"), (1 << 16, "s64")])
@pytest.mark.parametrize(("opcode", "sizes"), [("reshape", ""), ("dynamic-reshape", ", n, n")])
def test_elements_are_counted_in_a_type_that_holds_them(
    rows: int, counted: str, opcode: str, sizes: str
) -> None:
    module = parse_module(
        f"ENTRY e {{\n  x = pred[<={rows},{rows}] parameter(0)\n  n = s32[] parameter(1)\n"
        f"  ROOT r = pred[{rows * 4},<={rows // 4}] {opcode}(x{sizes})\n}}\n"
    )
    assert pass_named("dynamic-padder").run(module).changed
    verify(module)
    [gather] = [i for i in module.instructions() if i.opcode == "gather"]
    assert gather.operands[1].shape.dtype.name == counted
