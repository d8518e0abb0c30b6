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
FOLD = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[SHAPE] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[KEPT] reduce(x, z), dimensions={0}, to_apply=add
}"""
SUM = FOLD.replace("SHAPE", "1048576").replace("KEPT", "")
COLUMNS = FOLD.replace("SHAPE", "300,KEPT").replace("KEPT", "2500")
LONG = """HloModule m
ENTRY e { x = f32[65521] parameter(0) ROOT r = f32[65521] add(x, x) }"""
SMALL = """HloModule m
ENTRY e { a = f32[7,13] parameter(0) ROOT d = f32[7,13] add(a, a) }"""


@pytest.fixture
def described(tmp_path):
    """Gives a target for a machine of so many cores, each with so large caches of the second level
    and the first."""

    def make(units: int, near_bytes: int = 1 << 20, nearest_bytes: int = 1 << 15) -> str:
        known = known_device("x86-64-v4")
        device = replace(
            known,
            compute=replace(known.compute, units=units),
            caches=(
                Cache(level=1, size_bytes=nearest_bytes),
                Cache(level=2, size_bytes=near_bytes),
            ),
        )
        file = tmp_path / f"{units}_{near_bytes}_{nearest_bytes}.toml"
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


@pytest.mark.parametrize("text", [SUM, COLUMNS, LONG], ids=["sum", "columns", "long row"])
def test_reductions_and_rows_are_cut_for_cores_and_caches(described, text: str):
    module = hloom.parse(text)
    shape = module.entry.parameters[0].shape
    x = np.random.default_rng(0).integers(-4, 5, shape.dims).astype(np.float32)
    exact = x + x if len(shape.dims) == 1 and text == LONG else x.sum(axis=0)
    texts, counts = {}, {}
    for units in (1, 2, 8, 64):
        for nearest_bytes in (1 << 14, 48 << 10, 1 << 17):
            target = described(units, nearest_bytes=nearest_bytes)
            executable = hloom.compile(module, target=target)
            np.testing.assert_array_equal(np.asarray(executable(x)), exact)
            texts[units, nearest_bytes] = executable.as_text("kernels")
            counts[units, nearest_bytes] = steps(executable)
    if text == SUM:
        assert counts[2, 1 << 14] < counts[8, 1 << 14] < counts[64, 1 << 14] <= 128
    elif text == COLUMNS:
        assert counts[1, 1 << 17] < counts[2, 1 << 17] < counts[8, 1 << 17]
    else:
        assert counts[2, 1 << 17] < counts[2, 48 << 10] < counts[2, 1 << 14]


@pytest.mark.parametrize("units", [2, 3, 7, 16])
def test_cores_have_as_many_blocks_of_a_long_row(described, units: int):
    """With 17 blocks for 16 cores one would have two, and the others would wait."""
    for n in (65_003, 100_000, 131_071):
        text = LONG.replace("65521", str(n)).replace("add(x, x)", "exponential(x)")
        executable = hloom.compile(hloom.parse(text), target=described(units))
        assert steps(executable) % units == 0, n
        x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        np.testing.assert_allclose(np.asarray(executable(x)), np.exp(x), rtol=1e-6)


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
