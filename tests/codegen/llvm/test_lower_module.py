"""Modules of several kernels: names, options, and machines that are not this one."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.lower import lower_kernel
from hloom.codegen.llvm.machine import Machine, assembly_text, object_bytes
from hloom.codegen.llvm.module import KernelOptions, kernel_module, symbol_names
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import Kernel, Op, TileType, Value
from hloom.kernel.verify import verify_kernel
from hloom.types.dtype import BY_NAME
from tests.codegen.llvm.lowering import Native, check_all, is_allowed, machines, undefined_symbols
from tests.codegen.llvm.test_lower_elementwise import of_opcode, opcodes_of
from tests.processor_time import at_most

F32 = BY_NAME["f32"]


def three_steps(name: str) -> Kernel:
    """x * 1.1 + x three times, in a loop."""
    b = KernelBuilder(name, ())
    x, out = b.param("x", F32, 16, "in"), b.param("out", F32, 16, "out")

    def body(i: Value, tile: Value) -> list[Value]:
        number = b.constant(F32, 1.1, (16,))
        return [b.fma(tile, number, b.binary("divide", tile, number))]

    (made,) = b.for_(0, 3, 1, [b.load(x, b.index(0), (16,), (1,))], body)
    b.store(out, b.index(0), made, (1,))
    return b.finish()


def function_text(text: str, name: str) -> str:
    """The definition of one function in a module's text."""
    start = text.index(f"@{name}(")
    return text[start : text.index("\n}", start)]


def test_symbols_are_identifiers_that_name_their_module() -> None:
    names = symbol_names(["add.1", "add-1", "2nd", "add.1"], "my-module")
    assert names == ["my_module_add_1", "my_module_add_1_1", "my_module_2nd", "my_module_add_1_2"]
    assert not set(names) & set(symbol_names(["add.1", "2nd"], "other"))
    assert all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", n) for n in symbol_names(["1", "a b", ""]))


def test_kernels_with_different_options_in_one_module() -> None:
    kernels = [three_steps(n) for n in ("rolled", "unrolled", "small", "fast", "portable")]
    options = [
        KernelOptions(disable_loop_unrolling=True, slp_vectorizer_disabled=True),
        KernelOptions(),
        KernelOptions(optimize_for_size=True),
        KernelOptions(
            fast_math=True,
            honor_nans=False,
            honor_infs=False,
            honor_division=False,
            honor_functions=False,
        ),
        KernelOptions(disable_platform_dependent_math=True),
    ]
    machine = machines()["host"]
    module = kernel_module(kernels, machine, options)
    texts = [function_text(module.text, s) for s in module.symbols]
    assert [t.count("\nloop") for t in texts] == [2, 1, 2, 1, 1]  # one is the grid's
    assert "slp-vectorizer-disabled" in texts[0]
    assert "optsize" in texts[2]
    assert "fdiv fast" in texts[3]
    assert not any("fast" in t for k, t in enumerate(texts) if k != 3)
    assert "llvm.fma" not in texts[4]
    assert ("llvm.fma" in texts[1]) == machine.has_fma
    given = [[np.linspace(1, 2, 16, dtype=np.float32), np.zeros(16, np.float32)] for _ in kernels]
    check_all(kernels, given, "host", [1e-6] * 5, options)


def test_nothing_is_fast_unless_asked() -> None:
    only_nans = KernelOptions(fast_math=True, honor_nans=False)
    assert KernelOptions(honor_nans=False).flags == ""
    assert only_nans.flags.split() == ["reassoc", "nsz", "contract", "nnan"]


def test_platform_dependent_math_gives_the_same_bits_on_all_machines() -> None:
    options = [KernelOptions(disable_platform_dependent_math=True)]
    results = []
    for machine in machines().values():
        arrays = [np.linspace(1, 2, 16, dtype=np.float32), np.zeros(16, np.float32)]
        Native([three_steps("k")], machine, options).run(0, arrays, 0, 1)
        results.append(arrays[1].tobytes())
    assert len(set(results)) == 1


ARM = Machine.of("aarch64-unknown-linux-gnu", "generic")


@pytest.mark.parametrize("name", ["f32", "s32", "s64", "bf16", "c64"])
def test_another_machine_needs_no_library(name: str) -> None:
    t = BY_NAME[name]
    kernels = [of_opcode(o, t, 5) for o in opcodes_of(t)]
    data = object_bytes(kernel_module(kernels, ARM).text, ARM, 1)
    assert not [s for s in undefined_symbols(data) if not is_allowed(s)]


def test_nontemporal_stores_are_fenced() -> None:
    b = KernelBuilder("stream", (4,))
    x, out = b.param("x", F32, 64, "in"), b.param("out", F32, 64, "out")
    at = b.binary("multiply", b.grid_indices[0], b.index(16))
    b.store(out, at, b.load(x, at, (16,), (1,)), (1,), nontemporal=True)
    kernel = b.finish()
    verify_kernel(kernel)
    machine = machines()["host"]
    module = kernel_module([kernel], machine)
    assembly = assembly_text(module.text, machine)
    if machine.is_x86:
        assert "movnt" in assembly
        assert "sfence" in assembly


def test_an_op_without_meaning_is_refused() -> None:
    b = KernelBuilder("wrong", ())
    x = b.param("x", BY_NAME["pred"], 4, "in")
    tile = b.load(x, b.index(0), (4,), (1,))
    b.add("divide", (tile, tile), tile.type)
    kernel = b.finish()
    with pytest.raises(HloError, match="divide is not defined for pred"):
        lower_kernel(kernel, machines()["host"])
    kernel.body.ops.insert(0, Op("frobnicate", (), (TileType(F32),), {}))
    with pytest.raises(HloError, match="unknown op 'frobnicate'"):
        lower_kernel(kernel, machines()["host"])


def test_lowering_is_quick() -> None:

    b = KernelBuilder("long", (1000,))
    x, out = b.param("x", F32, 16000, "in"), b.param("out", F32, 16000, "out")
    at = b.binary("multiply", b.grid_indices[0], b.index(16))
    tile = b.load(x, at, (16,), (1,))
    for k in range(2000):
        number = b.constant(F32, 1.0 + k / 1000, (16,))
        tile = b.binary("add" if k % 2 else "multiply", tile, number)
    b.store(out, at, tile, (1,))
    kernel = b.finish()
    machine = machines()["host"]
    with at_most(60e-6 * len(kernel.body.ops)):  # about 10 us are spent
        lower_kernel(kernel, machine)
