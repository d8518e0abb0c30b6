"""Random kernels (hloom/interp/draw_kernel.py) as machine code against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from hloom.interp.draw_kernel import draw_kernel
from hloom.interp.kernel import run_kernel
from tests.codegen.llvm.lowering import (
    Array,
    Native,
    assert_same,
    is_allowed,
    machines,
    undefined_symbols,
)


def assert_near(want: Array, got: Array, tolerance: float, what: str) -> None:
    """Complex sums, which may cancel: close for the size of the array's numbers."""
    finite = np.isfinite(want) & np.isfinite(got)
    size = np.abs(want[finite]).max(initial=0.0)
    with np.errstate(all="ignore"):
        apart = np.abs(want - got)[finite].max(initial=0.0)
    assert apart <= 100 * tolerance * size, f"{what}: {apart} apart where numbers are {size}"


@pytest.mark.parametrize("machine", machines())
def test_drawn_kernels(machine: str) -> None:
    first = 40 * list(machines()).index(machine)
    drawn = [draw_kernel(seed) for seed in range(first, first + 40)]
    for number, one in enumerate(drawn):
        one.kernel.name = f"drawn{number}"
    code = Native([one.kernel for one in drawn], machines()[machine])
    assert not [s for s in undefined_symbols(code.object) if not is_allowed(s)]
    for number, (kernel, buffers, loose) in enumerate(drawn):
        want, got = ([x.copy() for x in buffers] for _ in range(2))
        run_kernel(kernel, want)
        cut = kernel.steps // 2
        code.run(number, got, 0, cut)
        code.run(number, got, cut, kernel.steps)
        for param, a, b in zip(kernel.params, want, got):
            what = f"seed {first + number}, {param.name}"
            dtype, tolerance = param.value.dtype, loose.get(param.name, 0.0)
            if dtype.is_complex and tolerance:
                assert_near(a, b, tolerance, what)
            else:
                assert_same(a, b, dtype, tolerance, what)
