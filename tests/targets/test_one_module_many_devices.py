"""One module for the processor at hand, for 64 cores, and for a simulated device with two memory
spaces and two streams: grids, splits and orders follow the device; values are the same."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import hloom
from hloom.codegen.llvm.machine import Machine
from hloom.executable import Executable
from hloom.ir.copy import copy_module
from hloom.program.thunks.concurrent import Concurrent
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import walk
from hloom.runtime.processors import granted_threads
from hloom.targets.cpu.device import device_of
from hloom.targets.cpu.target import CpuTarget
from tests.targets.sim.test_sim import EXAMPLES, TWO_BRANCHES, arrays, plain

PROGRAMS = [
    "layer",
    "softmax",
    "softmax_optimized",
    "transformer_block",
    "resnet_step",
    "language_model",
]
CORES = (granted_threads(), 8, 64)


@cache
def module_of(name):
    if name == "two products":
        return hloom.parse(TWO_BRANCHES.replace(":S(1)", ""))
    return hloom.load(EXAMPLES / f"{name}.hlo")


@cache
def for_cores(name, cores):
    machine = Machine.host()
    target = CpuTarget(machine, kernel_device=device_of(machine, cores))
    return Executable(target.compile(copy_module(module_of(name))), 2), target.device


@cache
def simulated(name):
    return hloom.compile(module_of(name), target="sim")


def kernels(exe):
    return [t for t in walk(exe.thunks) if isinstance(t, Kernel)]


def parts(t, device):
    """Into how many a kernel is cut for threads."""
    grain = device.costs.grain(t.steps, t.cost_ns, device.compute.units)
    return -(-t.steps // grain) if grain else 1


def assert_near(found, expected):
    for x, y in zip(arrays(found), arrays(expected), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        a, b = x.astype(np.float64), y.astype(np.float64)
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-5, equal_nan=True)


@pytest.mark.parametrize("name", [*PROGRAMS, "two products"])
def test_values_are_the_same(name):
    arguments = [plain(x) for x in hloom.random_arguments(module_of(name), seed=0)]
    here, _ = for_cores(name, CORES[0])
    expected = here(*arguments, donate=False)
    assert_near(expected, plain(hloom.evaluate(module_of(name), *arguments)))
    for cores in CORES[1:]:
        assert_near(for_cores(name, cores)[0](*arguments, donate=False), expected)
    assert_near(simulated(name)(*arguments, donate=False), expected)


def test_grids_and_splits_follow_the_cores():
    few, some, many = (for_cores("language_model", n) for n in CORES)
    counts = [sum(parts(t, device) for t in kernels(exe)) for exe, device in (few, some, many)]
    steps = [sum(t.steps for t in kernels(exe)) for exe, _ in (few, some, many)]
    if CORES[0] <= 2:
        assert counts[0] * 3 < counts[1] and counts[1] * 2 < counts[2]
        assert steps[0] < steps[1] < steps[2]
    exe, device = many
    long = [t for t in kernels(exe) if t.steps * t.cost_ns > 32 * device.costs.chunk_ns]
    assert len(long) >= 4 and all(parts(t, device) >= 32 for t in long)
    # What is short stays whole, however many cores there are.
    for name in ("softmax", "transformer_block"):
        exe, device = for_cores(name, 64)
        assert all(parts(t, device) == 1 for t in kernels(exe))


PAIR = """HloModule pair
ENTRY main {
  x = f32[256,256] parameter(0)
  a = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[256,256] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ca = f32[256,256] cholesky(a), lower=true
  cb = f32[256,256] cholesky(b), lower=true
  ROOT r = (f32[256,256], f32[256,256]) tuple(ca, cb)
}"""


def test_orders_follow_the_cores_and_the_streams():
    module = hloom.parse(PAIR)
    machine = Machine.host()
    found = {}
    for cores in (1, 2, 64):
        target = CpuTarget(machine, kernel_device=device_of(machine, cores))
        exe = Executable(target.compile(copy_module(module)), 2)
        found[cores] = [t for t in exe.thunks if isinstance(t, Concurrent)]
    assert found[1] == [] and len(found[2]) == len(found[64]) == 1
    sim = hloom.compile(module, target="sim")
    x = np.eye(256, dtype=np.float32) * 2
    one = hloom.compile(module, threads=1)(x)
    assert_near(sim(x), one)
    spans = sim._executor.timeline.spans
    streams = {s.stream for s in spans if s.kind == "Cholesky"}
    assert streams == {"compute0", "compute1"}
    first, second = [s for s in spans if s.kind == "Cholesky"]
    assert first.start_ns < second.end_ns and second.start_ns < first.end_ns


def test_two_memory_spaces_and_a_copy_engine():
    module = hloom.parse(TWO_BRANCHES)
    sim = hloom.compile(module, target="sim")
    arguments = [plain(x) for x in hloom.random_arguments(module, seed=0)]
    here, _ = for_cores("two products", CORES[0])
    assert_near(sim(*arguments), here(*arguments, donate=False))
    spaces = {a.space for a in sim.program.allocations if a.kind == "temp"}
    assert 1 in spaces and {a.space for a in here.program.allocations} == {0}
    assert {"compute0", "copy0"} <= {s.stream for s in sim._executor.timeline.spans}
