"""Simulated devices: values are those of the CPU, whatever is delayed; a missing wait is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError, UsageError
from hloom.ir.copy import copy_module
from hloom.targets.sim.races import RaceError
from tests.memory.drawn_modules import Drawn
from tests.memory.marked import mark

EXAMPLES = Path(__file__).parents[3] / "examples"
SMALL = ["collatz", "layer", "resnet_step", "softmax", "softmax_optimized", "transformer_block"]

TWO_BRANCHES = """HloModule m
ENTRY e {
  a = f32[256,256] parameter(0)
  b = f32[256,256] parameter(1)
  near = f32[256,256]{1,0:S(1)} copy(b)
  x = f32[256,256] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[256,256] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[256,256]{1,0:S(1)} dot(x, near), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  back = f32[256,256] copy(z)
  ROOT r = (f32[256,256], f32[256,256]) tuple(back, y)
}"""


def arrays(value) -> list[np.ndarray]:
    """The arrays of a result."""
    if isinstance(value, tuple):
        return [x for part in value for x in arrays(part)]
    return [np.array(value)]


def plain(literal):
    """A literal as nested tuples of arrays."""
    if literal.is_tuple:
        return tuple([plain(part) for part in literal.elements])
    return literal.array.copy()


def assert_same(found, expected) -> None:
    for x, y in zip(arrays(found), arrays(expected), strict=True):
        np.testing.assert_allclose(
            x.astype(np.float64), y.astype(np.float64), rtol=2e-4, atol=1e-5, equal_nan=True
        )


def check(module, target: str = "sim", seeds=(0, 1)) -> int:
    """Values on simulated devices, delayed and not, are those of the CPU; how many waits."""
    arguments = [plain(x) for x in hloom.random_arguments(module, seed=0)]
    plain_module = copy_module(module)
    cpu = hloom.compile(_without_spaces(plain_module))
    expected = cpu(*arguments, donate=False)
    sim = hloom.compile(module, target=target)
    (first,), timeline = sim.simulate([arguments])
    assert_same(first, expected)
    for seed in seeds:
        (delayed,), late = sim.simulate([arguments], delays=seed)
        for x, y in zip(arrays(delayed), arrays(first), strict=True):
            assert x.tobytes() == y.tobytes()
        assert late.total_ns >= timeline.total_ns
    return timeline.waits


def _without_spaces(module):
    from hloom.memory.spaces import _plain

    for i in module.instructions():
        i.shape = _plain(i.shape)
    return module


@pytest.mark.parametrize("name", SMALL)
def test_examples_give_what_they_give_on_the_cpu(name):
    check(hloom.load(EXAMPLES / f"{name}.hlo"))


@pytest.mark.parametrize("seed", range(12))
def test_drawn_programs_with_memory_spaces_do_too(seed):
    module = Drawn(seed, 6).module()
    mark(module, seed, (1,))
    check(module, seeds=(seed,))


def waits_of(text_or_module):
    module = hloom.parse(text_or_module) if isinstance(text_or_module, str) else text_or_module
    arguments = [plain(x) for x in hloom.random_arguments(module, seed=0)]
    sim = hloom.compile(module, target="sim")
    return sim, arguments, sim.simulate([arguments])[1]


@pytest.mark.parametrize("name", ["resnet_step", "spaces"])
def test_every_wait_that_is_left_out_is_found(name):
    program = TWO_BRANCHES if name == "spaces" else hloom.load(EXAMPLES / "resnet_step.hlo")
    sim, arguments, timeline = waits_of(program)
    assert timeline.waits >= (10 if name == "resnet_step" else 2)
    for k in range(timeline.waits):
        with pytest.raises(RaceError, match="neither waits for the other") as caught:
            sim.simulate([arguments], leave_out_wait=k)
        assert "bytes from" in str(caught.value)
    with pytest.raises(UsageError, match="there is no wait"):
        sim.simulate([arguments], leave_out_wait=timeline.waits)


def test_independent_work_is_done_at_the_same_time_and_copies_beside_it():
    sim, _, timeline = waits_of(TWO_BRANCHES)
    spans = {s.name: s for s in timeline.spans}
    assert {s.stream for s in spans.values()} == {"compute0", "compute1", "copy0"}
    x, y = spans["x"], spans["y"]
    assert x.stream != y.stream and x.start_ns < y.end_ns and y.start_ns < x.end_ns
    copy = spans["near"]
    assert copy.stream == "copy0" and copy.start_ns < x.end_ns
    assert timeline.total_ns < sum(s.end_ns - s.start_ns for s in timeline.spans)
    assert {a.space for a in sim.program.allocations} == {0, 1}


def test_one_module_on_three_devices():
    """Streams, grids and times differ as the devices do; values do not."""
    module = hloom.parse(TWO_BRANCHES.replace("{1,0:S(1)}", ""))
    a, b = np.random.default_rng(0).normal(size=(2, 256, 256)).astype(np.float32)
    here = hloom.compile(module)
    large = hloom.compile(module, target="cpu:neoverse-v2")
    sim = hloom.compile(hloom.parse(TWO_BRANCHES), target="sim")
    for other in (large, sim):
        for x, y in zip(arrays(other(a, b)), arrays(here(a, b)), strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-2)
    steps = [max(getattr(t, "steps", 0) for t in x.thunks) for x in (large, sim)]
    assert steps[0] > steps[1]


def test_a_topology_of_gpus_runs_what_is_for_several_devices():
    text = "HloModule m, replica_count=2\nENTRY e {\n  p = f32[4096] parameter(0)\n" \
           "  ROOT n = f32[4096] cosine(p)\n}"  # fmt: skip
    sim = hloom.compile(text, target="sim:two-gpus")
    x = np.linspace(0, 1, 4096, dtype=np.float32)
    (result, _), timeline = sim.simulate([[x], [x]])
    np.testing.assert_allclose(np.asarray(result), np.cos(x), rtol=1e-5)
    assert sorted(s.device for s in timeline.spans) == [0, 1]
    assert 3000 < timeline.total_ns < 10_000  # what starting a kernel takes there
    with pytest.raises(UsageError, match="is for 2 devices, and sim has 1"):
        hloom.compile(text, target="sim")


def test_a_memory_space_that_is_full_is_refused():
    text = TWO_BRANCHES.replace("256,256", "1024,1024")
    with pytest.raises(HloError, match=r"memory space S\(1\) fast has 1,048,576 bytes"):
        hloom.compile(text, target="sim")


def test_a_loop_that_does_not_run_its_wait_says_so():
    text = """HloModule m
less { x = f32[] parameter(0) y = f32[] parameter(1) ROOT c = pred[] compare(x, y), direction=LT }
yes { p = (f32[64], f32[64]) parameter(0) a = f32[64] get-tuple-element(p), index=0
  b = f32[64] get-tuple-element(p), index=1 s = f32[64] sort(a), dimensions={0}, to_apply=less
  t = f32[64] sort(b), dimensions={0}, to_apply=less ROOT r = f32[64] add(s, t) }
no { p = (f32[64], f32[64]) parameter(0) ROOT a = f32[64] get-tuple-element(p), index=0 }
ENTRY e { q = pred[] parameter(0) a = f32[64] parameter(1) b = f32[64] parameter(2)
  t = (f32[64], f32[64]) tuple(a, b)
  ROOT c = f32[64] conditional(q, t, t), true_computation=yes, false_computation=no }"""
    sim = hloom.compile(text, target="sim")
    x = np.arange(64, dtype=np.float32)[::-1].copy()
    (result,), timeline = sim.simulate([[np.True_, x, x]])
    np.testing.assert_array_equal(np.asarray(result), 2 * np.sort(x))
    inside = timeline.waits - 1
    assert inside >= 0
    with pytest.raises(RaceError):
        sim.simulate([[np.True_, x, x]], leave_out_wait=inside)
    with pytest.raises(UsageError, match="was never come to"):
        sim.simulate([[np.False_, x, x]], leave_out_wait=inside)


def test_only_simulated_devices_are_simulated():
    with pytest.raises(UsageError, match="compiled for cpu, which is not simulated"):
        hloom.compile(EXAMPLES / "softmax.hlo").simulate([])
