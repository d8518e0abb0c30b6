"""Computations that call one another twice: native code where copies fit, a clear answer else."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.analysis.call_graph import expanded_size
from hloom.ir.module import Module
from hloom.targets.cpu.lowering import UnsupportedError
from tests.processor_time import at_most


def nested(depth: int) -> Module:
    """`depth` computations, each of which calls the next one twice."""
    text = f"HloModule calls\ng{depth} {{ x = f32[8] parameter(0) ROOT r = f32[8] sine(x) }}\n"
    for k in range(depth - 1, 0, -1):
        text += f"""g{k} {{ x = f32[8] parameter(0)
  a = f32[8] call(x), to_apply=g{k + 1}
  b = f32[8] call(a), to_apply=g{k + 1}
  ROOT r = f32[8] subtract(a, b) }}
"""
    return hloom.parse(
        f"{text}ENTRY e {{ x = f32[8] parameter(0) ROOT r = f32[8] call(x), to_apply=g1 }}"
    )


def test_expanded_size() -> None:
    module = nested(3)
    assert expanded_size(module) == 2 + 4 + 2 * 4 + 4 * 2
    assert expanded_size(module, ()) == 2
    assert expanded_size(nested(26)) > 1 << 26


def test_what_is_called_again_and_again_is_refused_at_once() -> None:
    message = r"104 instructions, and .*e\+08 where each call has"
    with at_most(20), pytest.raises(UnsupportedError, match=message):
        hloom.compile(nested(26))


def test_calls_that_are_kept_run() -> None:
    x = np.linspace(-1, 1, 8).astype(np.float32)
    wanted = np.asarray(hloom.evaluate(nested(5), x).array)
    run = hloom.compile(nested(5), options={"xla_disable_hlo_passes": "call-inliner"})
    np.testing.assert_allclose(np.asarray(run(x)), wanted, rtol=1e-5)
