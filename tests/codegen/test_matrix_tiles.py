"""Products by whole tiles (AMX), with the instructions written out where the processor has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloom
from hloom.codegen import gemm_tiling, matrix_tiling
from hloom.codegen.llvm import machine as machines
from hloom.codegen.llvm.machine import Machine, assembly_text
from hloom.codegen.llvm.matrix_tiles import configuration, matrix_tiles
from hloom.device.device import Device
from hloom.executable import Executable
from hloom.ir.copy import copy_module
from hloom.targets.cpu.device import device_of
from hloom.targets.cpu.target import CpuTarget
from hloom.types.dtype import BY_NAME
from tests.codegen.emulated_tiles import machine_with_tiles, tiles_emulated
from tests.codegen.products import TOLERANCE, distinct
from tests.codegen.test_narrow_products import ORDERS, module
from tests.covering import covering

pytestmark = pytest.mark.skipif(
    not (Machine.host().is_x86 and Machine.host().has_avx512), reason="for vectors of 64 bytes"
)


def compiled(text: str, is_ahead: bool = False) -> tuple[Executable, hloom.Module]:
    parsed = hloom.parse(text)
    with tiles_emulated() as machine:
        target = CpuTarget(machine, is_ahead=is_ahead)
        return Executable(target.compile(copy_module(parsed)), threads=2), parsed


def is_tiled(executable: Executable) -> bool:
    kernels = executable.as_text("kernels")
    return any(
        f" : {of}[16,{group}," in kernels for of, group in (("bf16", 2), ("s8", 4), ("u8", 4))
    )


def agrees(text: str, of: str, tiled: bool = True) -> None:
    """Compiled with tiles (or not) and run, it gives what the interpreter gives."""
    executable, parsed = compiled(text)
    assert is_tiled(executable) == tiled
    parameters = [i for i in parsed.entry.instructions if i.opcode == "parameter"]
    arguments = [distinct(p.shape.dtype.numpy, p.shape.dims, n) for n, p in enumerate(parameters)]
    found = np.asarray(executable(*arguments))
    wanted = np.asarray(hloom.evaluate(parsed, *arguments).array)
    if of not in TOLERANCE:
        np.testing.assert_array_equal(found, wanted)
        return
    error = np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max()
    assert error <= TOLERANCE[of] * np.abs(wanted.astype(np.float64)).max()


SIZES = [
    (16, 32, 16),  # one tile
    (32, 64, 32),
    (31, 33, 17),  # K is filled up, tiles are moved back
    (33, 83, 49),
    (64, 40, 64),
    (129, 4096, 65),  # sums in blocks
    (1030, 3001, 47),  # K in parts, the last one shorter
    (300, 777, 123),
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_bf16(size: tuple[int, int, int], order: str) -> None:
    agrees(module(size, order, ("bf16", "bf16", "f32")), "f32")


def test_operands_that_are_moved_behind_their_conversion() -> None:
    """Heads between rows and depth: f32 of bf16 has no digits that tiles leave out."""
    agrees(
        """HloModule m
ENTRY e {
  x = bf16[40,3,64] parameter(0)
  y = bf16[48,3,64] parameter(1)
  x32 = f32[40,3,64] convert(x)
  y32 = f32[48,3,64] convert(y)
  a = f32[3,40,64] transpose(x32), dimensions={1,0,2}
  b = f32[3,48,64] transpose(y32), dimensions={1,0,2}
  ROOT d = f32[3,40,48] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2},
    rhs_batch_dims={0}, rhs_contracting_dims={2}
}""",
        "f32",
    )


@pytest.mark.parametrize("size", [(64, 64, 64), (45, 90, 77)], ids=str)
def test_few_steps_keep_their_sums_in_registers(size: tuple[int, int, int]) -> None:
    """Steps that are written out neither store nor load sums in between; where nothing follows and
    tiles divide the result they go there at once."""
    text = module(size, "nn", ("bf16", "bf16", "f32"))
    agrees(text, "f32")
    words = assembly_text(compiled(text)[0].as_text("llvm"), machine_with_tiles()).split()
    products, stores = words.count("tdpbf16ps"), words.count("tilestored")
    assert products == stores * -(-size[1] // 32)


@pytest.mark.parametrize("types", ["bf16 bf16 bf16", "s8 s8 s32"])
def test_a_far_matrix_is_read_in_long_rows(types: str) -> None:
    a, b, of = types.split()
    k = 2304 // BY_NAME[a].size_bytes
    text = module((33, k, 1100), "nn", (a, b, of))
    asked: list[object] = []

    def long_rows(*of_product: Any) -> tuple[int, int]:
        asked.append(of_product)
        return matrix_tiling.long_rows(*of_product)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Device, "near_bytes", 1 << 19)
        patch.setattr(gemm_tiling, "long_rows", long_rows)
        agrees(text, "bf16" if of == "bf16" else of)
    assert asked


@pytest.mark.parametrize(
    ("size", "order", "signs"), covering(SIZES[3:5], ORDERS, ["ss", "us", "su", "uu"]), ids=str
)
def test_integers(size: tuple[int, int, int], order: str, signs: str) -> None:
    a, b = [sign + "8" for sign in signs]
    agrees(module(size, order, (a, b, "s32")), "s32")


def test_integers_in_parts() -> None:
    agrees(module((1030, 6001, 47), "nn", ("s8", "s8", "s32")), "s32")


@pytest.mark.parametrize("order", ORDERS)
def test_batches(order: str) -> None:
    agrees(module((33, 70, 40), order, ("bf16", "bf16", "bf16"), batch=3), "bf16")


def test_converted_on_the_way() -> None:
    agrees(module((40, 96, 48), "nn", ("f8e4m3fn", "bf16", "f32"), "f32"), "f32")
    agrees(module((40, 96, 48), "nn", ("s4", "s8", "s32"), "s32"), "s32")


@pytest.mark.parametrize(
    ("rows", "order", "types"),
    [
        *covering((7, 8, 12, 15), ORDERS, ("bf16 bf16 f32", "s8 s8 s32")),
        *[(rows, order, "s8 s8 s32") for rows, order in ((4, "nn"), (5, "nt"), (6, "nn"))],
    ],
)
def test_few_rows_are_a_tile_of_as_many(rows: int, order: str, types: str) -> None:
    a, b, of = types.split()
    for depth, columns in ((64, 64), (77, 50)):
        agrees(module((rows, depth, columns), order, (a, b, of)), of)


def test_few_rows_of_weights_that_are_converted() -> None:
    agrees(module((9, 96, 48), "nn", ("f8e4m3fn", "bf16", "f32"), "f32"), "f32")
    agrees(module((9, 96, 48), "nn", ("s8", "s4", "s32"), "s32"), "s32")


@pytest.mark.parametrize("size", [(6, 64, 64), (64, 64, 15), (64, 15, 64)], ids=str)
def test_what_fills_no_tile_is_left_to_vectors(size: tuple[int, int, int]) -> None:
    agrees(module(size, "nn", ("bf16", "bf16", "f32")), "f32", tiled=False)


def test_undefined_numbers_stay_in_their_row() -> None:
    """What is behind the last element of K is zero on both sides, not what somebody left there."""
    executable, _ = compiled(module((40, 33, 40), "nn", ("bf16", "bf16", "f32")))
    bf16 = BY_NAME["bf16"].numpy
    a, b = np.ones((40, 33), bf16), np.ones((33, 40), bf16)
    a[3], b[:, 7] = np.nan, np.inf
    found = np.asarray(executable(a, b))
    assert np.isnan(found[3]).all()
    assert np.isinf(np.delete(found, 3, 0)[:, 7]).all()
    assert (np.delete(np.delete(found, 3, 0), 7, 1) == 33).all()


FUSED = """HloModule m
ENTRY e {
  x = bf16[70,96] parameter(0)
  w = bf16[96,64] constant({...})
  b = f32[64] parameter(1)
  r = f32[70,64] parameter(2)
  d = f32[70,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[70,64] broadcast(b), dimensions={1}
  s = f32[70,64] add(d, bb)
  t = f32[70,64] tanh(s)
  ROOT o = f32[70,64] add(t, r)
}
"""


def test_weights_in_panels_and_what_follows() -> None:
    weights = ", ".join(
        "{" + ", ".join(f"{(7 * k + 3 * n) % 13 / 8 - 0.75}" for n in range(64)) + "}"
        for k in range(96)
    )
    agrees(FUSED.replace("{...}", "{ " + weights + " }"), "f32")


def convolution(features: int, types: str = "bf16 f32", window: str = "3x3 pad=1_1x1_1") -> str:
    narrow, of = types.split()
    return f"""HloModule m
ENTRY e {{
  x = {narrow}[2,9,11,{features}] parameter(0)
  k = {narrow}[3,3,{features},40] parameter(1)
  ROOT c = {of}[2,9,11,40] convolution(x, k), \
window={{size={window}}}, dim_labels=b01f_01io->b01f
}}
"""


@pytest.mark.parametrize("features, tiled", [(32, True), (64, True), (48, True), (2, False)])
def test_convolutions(features: int, tiled: bool) -> None:
    agrees(convolution(features), "f32", tiled)


@pytest.mark.parametrize("features", [20, 48])
def test_tiles_across_places_of_a_window(features: int) -> None:
    """What sees no padding is copied without asking at each element whether it is."""
    text = convolution(features, "s8 s32")
    agrees(text, "s32")
    whole, masked = compiled(text)[0].as_text("kernels").split("  if ")[1].split("} else {")
    assert "mask(" not in whole
    assert "mask(" in masked


@pytest.mark.parametrize("types", ["bf16 f32", "s8 s32"])
def test_parts_of_windows_that_end_within_a_tile(types: str) -> None:
    """Behind each of them are zeros, not what an earlier one left there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Device, "near_bytes", 1 << 14)
        text = convolution(80, types)
        agrees(text, types.split()[1])


@pytest.mark.parametrize(
    "a, b, word", [("bf16", "bf16", "tdpbf16ps"), ("s8", "s8", "tdpbssd"), ("u8", "s8", "tdpbusd")]
)
def test_the_instructions_are_in_the_code(a: str, b: str, word: str) -> None:
    of = "f32" if a == "bf16" else "s32"
    executable, _ = compiled(module((64, 512, 64), "nn", (a, b, of)))
    text = assembly_text(executable.as_text("llvm"), machine_with_tiles())
    words = text.split()
    assert words.count(word) == 4  # two by two tiles
    assert words.count("ldtilecfg") == words.count("tilerelease") == 1
    assert next(t.intrinsic for t in matrix_tiles(machine_with_tiles())) == "x86.tdpbf16ps"


def test_code_for_libraries_has_none() -> None:
    """Nobody asks the system for tile registers in the programs that call them."""
    executable, _ = compiled(module((64, 64, 64), "nn", ("bf16", "bf16", "f32")), is_ahead=True)
    assert not is_tiled(executable)


def test_a_device_has_them_where_its_machine_has() -> None:
    machine = machine_with_tiles()
    compute = device_of(machine, 2).compute
    assert ("bf16", "bf16", 32) in compute.matrix_tiles
    assert dict(compute.matrix_operations_per_cycle)["s8"] == 2048
    for less in (machine.capped("AVX2"), machine.capped("AVX512_BF16")):
        assert device_of(less, 2).compute.matrix_tiles == ()


def test_a_system_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the machine has no tile registers, whatever the processor says."""

    class Names(dict[str, bool]):
        def flatten(self, sort: bool) -> str:
            return ",".join(sorted(("+" if on else "-") + name for name, on in self.items()))

    class Binding:
        def get_host_cpu_features(self) -> Names:
            return Names({"amx-tile": True, "amx-bf16": True, "avx512f": True})

        def get_default_triple(self) -> str:
            return "x86_64-unknown-linux-gnu"

        def get_host_cpu_name(self) -> str:
            return "sapphirerapids"

    monkeypatch.setattr(machines, "_llvm", Binding)
    monkeypatch.setattr(machines, "may_use_tiles", lambda: False)
    assert machines._host.__wrapped__()[2] == "+avx512f,-amx-bf16,-amx-tile"
    monkeypatch.setattr(machines, "may_use_tiles", lambda: True)
    assert machines._host.__wrapped__()[2] == "+amx-bf16,+amx-tile,+avx512f"


def test_configuration() -> None:
    """Eight registers of 16 rows of 64 bytes, in the first palette."""
    text = b"".join(word.to_bytes(8, "little", signed=True) for word in configuration())
    assert text[:16] == bytes([1]) + bytes(15)
    assert text[16:32] == b"\x40\x00" * 8
    assert text[32:48] == bytes(16)
    assert text[48:56] == bytes([16]) * 8
    assert text[56:] == bytes(8)
    fewer = b"".join(word.to_bytes(8, "little", signed=True) for word in configuration(7))
    assert fewer[48:56] == bytes([7] * 6 + [16, 16]) and fewer[:48] == text[:48]
