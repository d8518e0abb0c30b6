"""Scratch of complex numbers, whose real and imaginary parts lie apart, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from hloom.codegen.llvm.lower_memory import planes_of_scratch
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import PRED, Kernel
from hloom.types.dtype import BY_NAME
from tests.codegen.llvm.lowering import check_all, machines
from tests.codegen.llvm.test_lower_memory import LAYOUTS, arguments, span
from tests.codegen.products import agrees
from tests.codegen.test_gemm import module

TYPES = ("c64", "c128")


def through_scratch(
    name: str, shape: tuple[int, ...], strides: tuple[int, ...], masked: bool
) -> Kernel:
    """A tile that is stored to scratch with strides, read again, and doubled."""
    first, size = span(shape, strides)
    count = int(np.prod(shape, dtype=int))
    dense = tuple(int(np.prod(shape[k + 1 :], dtype=int)) for k in range(len(shape)))
    t = BY_NAME[name]
    b = KernelBuilder(f"{name}_{shape}_{strides}_{masked}", ())
    x = b.param("x", t, count, "in")
    m = b.param("m", PRED, count, "in")
    out = b.param("out", t, count, "inout")
    scratch = b.alloc(t, first + size + 3)
    at = b.index(first + 3)
    tile = b.load(x, b.index(0), shape, dense)
    b.store(scratch, at, tile, strides)
    if masked:
        mask = b.load(m, b.index(0), shape, dense)
        b.store(scratch, at, b.binary("add", tile, tile), strides, mask)
    again = b.load(scratch, at, shape, strides)
    b.store(out, b.index(0), b.binary("add", again, again), dense)
    return b.finish()


@pytest.mark.parametrize("machine", machines())
@pytest.mark.parametrize("masked", [False, True])
def test_tiles_go_through_scratch(machine: str, masked: bool) -> None:
    cases = [(t, *layout) for t in TYPES for layout in LAYOUTS]
    kernels = [through_scratch(t, shape, strides, masked) for t, shape, strides in cases]
    # What is stored under a mask lies as in arrays.
    assert all(bool(planes_of_scratch(k)) != masked for k in kernels)
    check_all(kernels, [arguments(k) for k in kernels], machine)


def test_arrays_are_left_as_they_are() -> None:
    kernel = through_scratch("c64", (16,), (1,), False)
    [(scratch, distance)] = planes_of_scratch(kernel).items()
    assert scratch.op is not None and scratch.op.opcode == "alloc"
    assert distance == 4 * scratch.op.attrs["size"]


@pytest.mark.parametrize("of", TYPES)
@pytest.mark.parametrize("order", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("size", [(1, 70, 9), (4, 300, 13), (65, 70, 50), (40, 700, 33)])
def test_products(of: str, order: str, size: tuple[int, int, int]) -> None:
    agrees(module(*size, order, of), of)
