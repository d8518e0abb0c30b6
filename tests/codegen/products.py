"""Modules of one product, and whether native code gives what the interpreter gives."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

import hloom
from hloom.codegen.llvm.machine import Machine
from hloom.executable import Executable
from hloom.ir.copy import copy_module
from hloom.targets.cpu.target import CpuTarget

# The share of the largest result that rounding may take, by the type that is summed.
TOLERANCE = {"f32": 2e-5, "f64": 1e-12, "bf16": 1e-2, "f16": 2e-3, "c64": 2e-5, "c128": 1e-12}


@lru_cache(maxsize=64)
def distinct(dtype: np.dtype, dims: tuple[int, ...], seed: int) -> np.ndarray:
    """Values that differ from each other, as far as the type has so many; not to be written to, as
    many tests ask for the same."""
    values = _distinct(dtype, dims, seed)
    values.flags.writeable = False
    return values


def _distinct(dtype: np.dtype, dims: tuple[int, ...], seed: int) -> np.ndarray:
    size = int(np.prod(dims))
    order = np.random.default_rng(seed).permutation(size)
    if dtype.kind in "iu":
        low = 0 if dtype.kind == "u" else -50
        return (order % 101 + low).astype(dtype).reshape(dims)
    if dtype.kind == "b":
        return (order % 3 == 0).reshape(dims)
    if dtype.name.endswith(("int2", "int4")):
        count = 1 << int(dtype.name[-1])
        low = 0 if dtype.name[0] == "u" else -count // 2
        return (order % count + low).astype(np.int8).astype(dtype).reshape(dims)
    if dtype.name == "float4_e2m1fn":
        return (order % 16).astype(np.uint8).view(dtype).reshape(dims)
    values = (order + 0.5) / size * 2 - 1 if size > 1 else order + 0.5
    if dtype.kind == "c":
        values = values + 1j * values[::-1]
    return values.astype(dtype).reshape(dims)


def agrees(text: str, of: str, isa: str = "") -> None:
    """Run the module natively and in the interpreter, and compare; `isa` caps the machine."""
    module = hloom.parse(text)
    arguments = [
        distinct(p.shape.dtype.numpy, p.shape.dims, n)
        for n, p in enumerate(i for i in module.entry.instructions if i.opcode == "parameter")
    ]
    assert all(np.any(a) for a in arguments if a.size > 1)
    target = CpuTarget(Machine.host(isa))
    run = Executable(target.compile(copy_module(module)), threads=2)
    found = np.asarray(run(*arguments))
    wanted = np.asarray(hloom.evaluate(module, *arguments).array)
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    if of not in TOLERANCE:
        np.testing.assert_array_equal(found, wanted)
        return
    wide = np.complex128 if of.startswith("c") else np.float64
    error = np.abs(found.astype(wide) - wanted.astype(wide)).max()
    assert error <= TOLERANCE[of] * np.abs(wanted.astype(wide)).max()
