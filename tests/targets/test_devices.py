"""Kernels are cut for a device: more cores have more steps, smaller caches smaller blocks; results
are the same."""

from dataclasses import replace

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import UsageError
from hloom.device.device import Cache
from hloom.device.known import known_device
from hloom.device.text import show_device
from hloom.program.thunks.kernel import Kernel

PRODUCT = """HloModule m
ENTRY e {
  a = f32[512,512] parameter(0)
  b = f32[512,512] parameter(1)
  ROOT d = f32[512,512] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
SMALL = """HloModule m
ENTRY e { a = f32[7,13] parameter(0) ROOT d = f32[7,13] add(a, a) }"""


@pytest.fixture
def described(tmp_path):
    """Gives a target for a machine of so many cores, each with so large a second-level cache."""

    def make(units: int, near_bytes: int = 1 << 20) -> str:
        known = known_device("x86-64-v4")
        device = replace(
            known,
            compute=replace(known.compute, units=units),
            caches=(known.caches[0], Cache(level=2, size_bytes=near_bytes)),
        )
        file = tmp_path / f"{units}_{near_bytes}.toml"
        file.write_text(show_device(device))
        return f"cpu:{file}"

    return make


def steps(executable) -> int:
    return max(t.steps for t in executable.thunks if isinstance(t, Kernel))


def test_every_core_has_steps(described):
    x, y = np.random.default_rng(0).normal(size=(2, 512, 512)).astype(np.float32)
    found = {}
    for units in (1, 2, 8, 64):
        executable = hloom.compile(PRODUCT, target=described(units))
        found[units] = steps(executable)
        np.testing.assert_allclose(np.asarray(executable(x, y)), x @ y, rtol=1e-4, atol=1e-3)
    assert found[1] <= found[2] < found[8] < found[64]
    assert all(found[units] >= units for units in found)


def test_blocks_fit_the_cache(described):
    texts = [
        hloom.compile(PRODUCT, target=described(2, n)).as_text("kernels")
        for n in (1 << 18, 1 << 20)
    ]
    assert texts[0] != texts[1]


def test_what_one_core_does_in_no_time_stays_whole(described):
    assert steps(hloom.compile(SMALL, target=described(64))) == 1


def test_the_machine_at_hand_is_the_default():
    executable = hloom.compile(SMALL)
    assert executable.target.device == hloom.api.host_device()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("cpu:h100", "h100 is a GPU"),
        ("cpu:x86-64-v5", "no device 'x86-64-v5'"),
        ("cpu:nowhere.toml", "cannot read nowhere.toml"),
        ("tpu", "no target 'tpu'"),
    ],
)
def test_what_is_no_target_is_said(target, words):
    with pytest.raises(UsageError, match=words):
        hloom.compile(SMALL, target=target)
