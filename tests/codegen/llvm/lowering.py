"""Runs kernels as machine code and as numpy (hloom/interp/kernel.py), and compares.

Machine code is loaded as programs are. (LLVM's own JIT linker ends the process where a long one has
so little memory left in one piece that constants lie too far from code.)
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np

from hloom.base.guarding import GUARDING
from hloom.codegen.llvm.machine import Machine, object_bytes
from hloom.codegen.llvm.module import KernelOptions, kernel_module
from hloom.interp.kernel import run_kernel
from hloom.kernel.kernel import Kernel
from hloom.kernel.verify import verify_kernel
from hloom.runtime.library import library
from hloom.types.dtype import DType
from tests.runtime.native_parts import LoadedObjects

Array = np.ndarray[Any, Any]


@lru_cache(maxsize=1)
def machines() -> dict[str, Machine]:
    """This machine, and what it is without newer instructions."""
    host = Machine.host()
    found = {"host": host}
    if host.is_x86:
        found["avx2"] = host.capped("AVX2")
        found["sse2"] = Machine.of(host.triple, "x86-64")
    return found


class Native:
    """Machine code of kernels, as long as this object lives."""

    def __init__(self, kernels: list[Kernel], machine: Machine, options: Any = None) -> None:
        module = kernel_module(kernels, machine, options)
        self.object = object_bytes(module.text, machine, 1)
        self.code = LoadedObjects([self.object])
        make = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self.functions = [make(self.code.symbol(s)) for s in module.symbols]

    def run(self, number: int, arrays: list[Array], begin: int, end: int) -> None:
        """Runs steps of one kernel on arrays, in place."""
        run = self._run_guarded if GUARDING else self._run
        run(number, arrays, begin, end)

    def _run(self, number: int, arrays: list[Array], begin: int, end: int) -> None:
        pointers = (ctypes.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])
        self.functions[number](ctypes.addressof(pointers), begin, end)

    def _run_guarded(self, number: int, arrays: list[Array], begin: int, end: int) -> None:
        native = library()
        by_place = {a.ctypes.data: a for a in arrays}  # one block where two are the same memory
        blocks = {p: native.hl_guard_alloc(a.nbytes, 0, 0) for p, a in by_place.items()}
        for place, a in by_place.items():
            ctypes.memmove(blocks[place], place, a.nbytes)
        given = [blocks[a.ctypes.data] for a in arrays]
        pointers = (ctypes.c_void_p * max(1, len(given)))(*given)
        self.functions[number](ctypes.addressof(pointers), begin, end)
        native.hl_guard_check(pointers, len(given))
        for place, block in blocks.items():
            ctypes.memmove(place, block, by_place[place].nbytes)
            native.hl_guard_free(block)


def undefined_symbols(data: bytes) -> set[str]:
    """The names that an ELF object of 64 bits expects from elsewhere."""
    at = int.from_bytes(data[40:48], "little")
    size, count = (int.from_bytes(data[i : i + 2], "little") for i in (58, 60))

    def number(start: int, width: int) -> int:
        return int.from_bytes(data[start : start + width], "little")

    names: set[str] = set()
    for k in range(count):
        head = at + k * size
        if number(head + 4, 4) != 2:  # SHT_SYMTAB
            continue
        start, length = number(head + 24, 8), number(head + 32, 8)
        strings = number(at + number(head + 40, 4) * size + 24, 8)
        for entry in range(start + 24, start + length, 24):
            if number(entry + 6, 2) == 0:
                name = strings + number(entry, 4)
                names.add(data[name : data.index(b"\0", name)].decode())
    return names - {"_GLOBAL_OFFSET_TABLE_"}


def is_allowed(symbol: str) -> bool:
    """Whether an object may expect this name from elsewhere."""
    return symbol.startswith("hl_") or symbol in ("memcpy", "memset", "memmove")


def check_all(
    kernels: list[Kernel],
    arguments: list[list[Array]],
    machine: str = "host",
    tolerances: list[float] | None = None,
    options: list[KernelOptions] | None = None,
) -> list[list[Array]]:
    """Runs kernels both ways on copies of their arrays, in two parts of their steps.

    Raises an error for the first few that differ; what machine code made of the arrays.
    """
    code = Native(kernels, machines()[machine], options)
    called = [s for s in undefined_symbols(code.object) if not is_allowed(s)]
    assert not called, f"the object calls {called}"
    wrong: list[str] = []
    results = []
    for k, (kernel, arrays) in enumerate(zip(kernels, arguments, strict=True)):
        verify_kernel(kernel)
        expected, made = ([a.copy() for a in arrays] for _ in range(2))
        run_kernel(kernel, expected)
        cut = kernel.steps // 3
        code.run(k, made, 0, cut)
        code.run(k, made, cut, kernel.steps)
        limit = tolerances[k] if tolerances else 0.0
        for param, want, got in zip(kernel.params, expected, made):
            try:
                assert_same(want, got, param.value.dtype, limit, f"{kernel.name} {param.name}")
            except AssertionError as error:
                wrong.append(str(error))
        results.append(made)
    assert not wrong, "\n".join([f"{len(wrong)} differ on {machine}", *wrong[:12]])
    return results


def check(
    kernel: Kernel, arrays: list[Array], machine: str = "host", tolerance: float = 0.0
) -> list[Array]:
    """As `check_all`, of one kernel."""
    return check_all([kernel], [arrays], machine, [tolerance])[0]


def assert_same(want: Array, got: Array, dtype: DType, tolerance: float, what: str) -> None:
    """Equal bits but for NaN, or floats within a relative tolerance."""
    if dtype.is_complex:
        part = dtype.component
        view = part.numpy
        assert_same(want.view(view), got.view(view), part, tolerance, what)
        return
    if not dtype.is_floating:
        bits = (1 << min(dtype.bits, 64)) - 1
        a, b = (x.view(f"u{x.dtype.itemsize}") & bits for x in (want, got))
        bad = np.flatnonzero(a != b)
    else:
        wide = np.float64 if dtype.bits == 64 else np.float32
        a, b = want.astype(wide), got.astype(wide)
        with np.errstate(all="ignore"):
            close = np.abs(a - b) <= tolerance * np.abs(a)
        same = (a == b) & (np.signbit(a) == np.signbit(b))
        bad = np.flatnonzero(~(same | close | (np.isnan(a) & np.isnan(b))))
    if bad.size:
        k = int(bad[0])
        raise AssertionError(f"{what}: {bad.size} wrong; [{k}] is {got[k]}, not {want[k]}")


def drawn(dtype: DType, count: int, seed: int = 0) -> Array:
    """Values that can go wrong: the ends of the range and zeros first, then any."""
    rng = np.random.default_rng(seed + dtype.number)
    if dtype.is_pred:
        return rng.random(count) < 0.5
    if dtype.is_integral:
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed_int else 0
        high = low + (1 << dtype.bits) - 1
        made = rng.integers(low, high, count, np.int64 if low else np.uint64, endpoint=True)
        small = rng.random(count) < 0.3
        made[small] = np.clip(made[small] % 5, low, high)
        special = np.array([low, high, 0, -1, 1] if low else [0, high, 0, 1, high - 1], made.dtype)
        at = rng.permutation(count)[: len(special)]
        made[at] = np.clip(special[: len(at)], low, high)
        return (made.astype(np.int8) if dtype.is_sub_byte else made).astype(dtype.numpy)
    if dtype.is_complex:
        part = dtype.component
        both = np.stack([drawn(part, count, seed), drawn(part, count, seed + 1)], -1)
        return both.view(dtype.numpy).reshape(count)
    made = rng.normal(size=count) * 2.0 ** rng.integers(-3, 4, count)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -2.5]
    at = rng.permutation(count)[: len(special)]
    made[at] = special[: len(at)]
    return made.astype(np.float32).astype(dtype.numpy)
