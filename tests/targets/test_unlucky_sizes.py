"""Lengths around multiples of a kernel's block: no step writes outside of its buffers."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.codegen.walk import block_elements
from hloom.device.device import Device
from hloom.targets.cpu.device import host_device

BLOCK = block_elements(host_device())
SIZES = [k * BLOCK + d for k in (1, 2, 3) for d in (-65, -1, 0, 1, 3, 17, 63, 64, 65, 129)]


@pytest.mark.parametrize("size", SIZES)
def test_elementwise_stays_inside(size: int) -> None:
    module = hloom.parse(
        f"HloModule m\nENTRY e {{ x = f32[{size}] parameter(0) ROOT r = f32[{size}] add(x, x) }}"
    )
    x = np.arange(size, dtype=np.float32)
    run = hloom.compile(module, threads=1).debug(x, nan=False, bounds=True)
    assert np.array_equal(np.asarray(run.result), x + x)


def test_pad_of_long_rows_stays_inside() -> None:
    module = hloom.parse(
        "HloModule m\nENTRY e { x = f32[2048,2] parameter(0) z = f32[] constant(0) "
        "ROOT r = f32[2050,4] pad(x, z), padding=1_1x1_1 }"
    )
    x = np.ones((2048, 2), np.float32)
    run = hloom.compile(module, threads=1).debug(x, nan=False, bounds=True)
    assert np.array_equal(np.asarray(run.result), np.pad(x, 1))


@pytest.mark.parametrize("skew", [0, 16, 48])
def test_large_results_may_stand_at_any_allowed_alignment(
    skew: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are stored past the caches, by instructions that want more than callers promise."""
    monkeypatch.setattr(Device, "last_bytes", 1 << 24)  # whatever the processor has
    module = hloom.parse(
        "HloModule m\nENTRY e { x = f32[2048,2112] parameter(0) "
        "ROOT r = f32[2112,2048] transpose(x), dimensions={1,0} }"
    )
    exe = hloom.compile(module, threads=1)
    assert "nontemporal" in exe.as_text("kernels")
    raw = np.zeros(2 * 2048 * 2112 * 4 + 256, np.uint8)
    start = -raw.ctypes.data % 64
    x = raw[start : start + 2048 * 2112 * 4].view(np.float32)
    x[:] = np.arange(x.size)
    start += x.nbytes + skew
    y = raw[start : start + x.nbytes].view(np.float32)
    exe.run_at([x.ctypes.data], [y.ctypes.data])
    assert np.array_equal(y.reshape(2112, 2048), x.reshape(2048, 2112).T)
    assert not raw[start - skew : start].any() and not raw[start + x.nbytes :].any()


def test_concatenations_of_many_operands() -> None:
    """One behind the other in each of two rows: more pieces than the proof once looked at."""
    widths = [1 + k % 3 for k in range(210)]
    starts = [sum(widths[:k]) for k in range(len(widths) + 1)]
    pieces = "".join(
        f"s{k}_ = f32[2,{n}] slice(x), slice={{[0:2], [{starts[k]}:{starts[k + 1]}]}}\n"
        f"n{k}_ = f32[2,{n}] negate(s{k}_)\n"
        for k, n in enumerate(widths)
    )
    backwards = ", ".join(f"n{k}_" for k in reversed(range(len(widths))))
    module = hloom.parse(
        f"HloModule m\nENTRY e {{ x = f32[2,{starts[-1]}] parameter(0)\n{pieces}"
        f"ROOT r = f32[2,{starts[-1]}] concatenate({backwards}), dimensions={{1}} }}"
    )
    x = np.arange(2 * starts[-1], dtype=np.float32).reshape(2, -1)
    parts = [-x[:, starts[k] : starts[k + 1]] for k in reversed(range(len(widths)))]
    assert np.array_equal(np.asarray(hloom.compile(module)(x)), np.concatenate(parts, 1))
