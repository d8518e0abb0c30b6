"""Elements below a byte: packed in what programs take and give, by any door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloom
from hloom.base.faults import CompilerFaultWarning
from hloom.passes.layout.sub_byte_normalization import SubByteNormalization
from hloom.types.dtype import dtype

TYPES = ("s4", "u4", "f4e2m1fn", "s2", "u2")


def drawn(name: str, dims: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    t = dtype(name)
    return np.random.default_rng(seed).integers(0, 1 << t.bits, dims).astype(np.uint8).view(t.numpy)


def bits(x: Any) -> bytes:
    return np.ascontiguousarray(np.asarray(x)).tobytes()


def sizes(program: hloom.Executable, kind: str) -> list[int]:
    return [a.size_bytes for a in program.program.allocations if a.kind == kind]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    ("dims", "layout"),
    [
        ((), ""),
        ((1,), "{0}"),
        ((15,), "{0}"),
        ((0,), "{0}"),
        ((3, 5), "{1,0}"),
        ((3, 5), "{0,1}"),
        ((4, 6), "{0,1}"),
        ((6, 1), "{1,0}"),
        ((0, 3), "{0,1}"),
        ((2, 3, 4), "{1,2,0}"),
        ((8193,), "{0}"),
        ((100, 333), "{0,1}"),
    ],
)
def test_arrays_in_and_out(name: str, dims: tuple[int, ...], layout: str) -> None:
    """Values are the interpreter's, and parameters and results take the bytes that they need."""
    a = f"{name}[{','.join(map(str, dims))}]"
    f = "f32" + a[len(name) :]
    module = hloom.parse(
        f"""HloModule m, entry_computation_layout={{({a}{layout}, {a})->({a}{layout}, {f}, {a})}}
ENTRY e {{
 p = {a}{layout} parameter(0)
 q = {a} parameter(1)
 sum = {a} add(p, q)
 wide = {f} convert(p)
 ROOT t = ({a}{layout}, {f}, {a}) tuple(sum, wide, q)
}}"""
    )
    exe = hloom.compile(module)
    x, y = drawn(name, dims), drawn(name, dims, 1)
    expected = hloom.evaluate(module, x, y).elements
    for found, wanted in zip(exe(x, y), expected, strict=True):
        assert bits(found) == bits(wanted.array)
    needed = (int(np.prod(dims)) * dtype(name).bits + 7) // 8
    assert sum(sizes(exe, "parameter")) == 2 * needed
    assert [r.nbytes for r in exe(x, y)] == [needed, 4 * int(np.prod(dims)), needed]


def test_packed_as_xla_has_them() -> None:
    """The first element in the lowest bits; what is left of the last byte is zero."""
    exe = hloom.compile(
        hloom.parse("HloModule m\nENTRY e {\n p = s4[5] parameter(0)\n ROOT n = s4[5] negate(p)\n}")
    )
    x = drawn("s4", (5,))
    given = np.zeros(16, np.uint8)
    values = x.view(np.uint8)
    given[:3] = [values[0] | values[1] << 4, values[2] | values[3] << 4, values[4] | 0xF0]
    result = np.full(16, 99, np.uint8)
    exe.run_at([_aligned(given)], [_aligned(result)])
    negated = (-x.astype(np.int8)).astype(np.uint8) & 15
    expected = [negated[0] | negated[1] << 4, negated[2] | negated[3] << 4, negated[4]]
    assert result.tolist() == [*expected, *[99] * 13]


def _aligned(array: np.ndarray[Any, Any]) -> int:
    address = array.ctypes.data
    assert address % 16 == 0, "numpy aligns to 16 bytes"
    return address


def test_returned_in_place() -> None:
    """A donated packed buffer is written where it stands, and what it was packed from is not."""
    exe = hloom.compile(
        hloom.parse(
            """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e {
 p = s4[15] parameter(0)
 one = s4[] constant(1)
 ones = s4[15] broadcast(one), dimensions={}
 ROOT a = s4[15] add(p, ones)
}"""
        )
    )
    x = drawn("s4", (15,))
    kept = x.copy()
    first = exe(x)
    assert (x == kept).all()
    expected = np.asarray(first) + np.ones(15, x.dtype)
    again = exe(first)
    assert first.is_deleted and bits(again) == bits(expected)


def test_carried_and_read_again() -> None:
    """Through loops, branches and tuples, and from one program into another."""
    module = hloom.parse(
        """HloModule m
body { s = (s32[], s4[7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = s4[7] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = s4[7] add(x, x)
  k = s4[7] constant({1, -2, 3, -4, 5, -6, 7})
  z = s4[7] xor(y, k)
  ROOT t = (s32[], s4[7]) tuple(j, z) }
cond { s = (s32[], s4[7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT l = pred[] compare(i, n), direction=LT }
ENTRY e {
  p = (s32[], s4[7]) parameter(0)
  ROOT w = (s32[], s4[7]) while(p), condition=cond, body=body
}"""
    )
    exe = hloom.compile(module)
    x = drawn("s4", (7,))
    zero = np.int32(0)
    expected = hloom.evaluate(module, (zero, x)).elements[1].array
    count, found = exe((zero, x))
    assert int(np.asarray(count)) == 5 and bits(found) == bits(expected)
    further = hloom.evaluate(module, (zero, expected)).elements[1].array
    assert bits(exe((zero, found))[1]) == bits(further)


@pytest.mark.parametrize("count", [2, 8, 4096, 100_001])
def test_bits_of_bytes(count: int) -> None:
    """Bytes read as elements are those elements, and back, in no more than a copy."""
    module = hloom.parse(
        f"""HloModule m
ENTRY e {{
 p = u8[{count}] parameter(0)
 q = s4[{count},2] parameter(1)
 apart = s4[{count},2] bitcast-convert(p)
 joined = u8[{count}] bitcast-convert(q)
 ROOT t = (s4[{count},2], u8[{count}]) tuple(apart, joined)
}}"""
    )
    exe = hloom.compile(module)
    x, y = drawn("u8", (count,)), drawn("s4", (count, 2))
    for found, wanted in zip(exe(x, y), hloom.evaluate(module, x, y).elements, strict=True):
        assert bits(found) == bits(wanted.array)


def test_weights_are_read_packed() -> None:
    """A product reads its weights as they are handed in: nothing of their size is written."""
    k, n = 512, 1024
    module = hloom.parse(
        f"""HloModule m
ENTRY e {{
 x = f32[1,{k}] parameter(0)
 w = s4[{k},{n}] parameter(1)
 c = f32[{k},{n}] convert(w)
 ROOT d = f32[1,{n}] dot(x, c), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}"""
    )
    exe = hloom.compile(module)
    assert exe.memory.arguments == 4 * k + k * n // 2
    assert exe.memory.temp < k * n // 2
    x = np.random.default_rng(0).standard_normal((1, k), np.float32)
    w = drawn("s4", (k, n))
    assert np.allclose(exe(x, w), x @ w.astype(np.float32), rtol=1e-4, atol=1e-3)


def test_saved_and_loaded(tmp_path: Path) -> None:
    exe = hloom.compile(
        hloom.parse(
            "HloModule m\nENTRY e {\n p = u4[3,3] parameter(0)\n ROOT n = u4[3,3] not(p)\n}"
        )
    )
    exe.save(tmp_path / "m.hloom")
    x = drawn("u4", (3, 3))
    assert bits(hloom.load_compiled(tmp_path / "m.hloom")(x)) == bits(exe(x))


def test_at_sixteen_million() -> None:
    n = 16 * 2**20 + 1
    exe = hloom.compile(
        hloom.parse(
            f"HloModule m\nENTRY e {{\n p = s4[{n}] parameter(0)\n ROOT n = s4[{n}] negate(p)\n}}"
        )
    )
    x = drawn("s4", (n,))
    expected = (-x.astype(np.int8)).astype(np.uint8) & 15
    assert (np.asarray(exe(x)).view(np.uint8) == expected).all()


def test_a_fault_of_the_pass_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays stay packed for callers whoever computes them."""

    def fails(*_: Any, **__: Any) -> Any:
        raise KeyError("planted")

    module = hloom.parse(
        "HloModule m\nENTRY e {\n p = s4[7]{0:E(4)} parameter(0)\n ROOT n = s4[7] negate(p)\n}"
    )
    x = drawn("s4", (7,))
    expected = bits(hloom.evaluate(module, x).array)
    monkeypatch.setattr(SubByteNormalization, "run", fails)
    with pytest.warns(CompilerFaultWarning, match="sub-byte-normalization"):
        exe = hloom.compile(module, options={"strict_compilation": False})
    assert bits(exe(x)) == expected
    assert sizes(exe, "parameter") == [4]
