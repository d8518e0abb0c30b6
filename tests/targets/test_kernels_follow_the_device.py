"""The same program for 2, 8 and 64 cores, and for vectors of 16 and of 64 bytes: grids, parts and
tiles follow the device; values are the same."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import hloom
from hloom.codegen.depthwise_shape import DepthwiseTiling, geometry
from hloom.codegen.gemm_tiling import GemmTiling
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.product import dot_product
from hloom.device.costs import Costs
from hloom.device.device import Device
from hloom.executable import Executable
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import Thunk, walk
from hloom.targets.cpu.device import device_of
from hloom.targets.cpu.pipeline import cpu_pipeline
from hloom.targets.cpu.target import CpuTarget

ADD = "f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }"
LESS = (
    "f { a = f32[] parameter(0) b = f32[] parameter(1)"
    " ROOT r = pred[] compare(a, b), direction=LT }"
)
TEXTS = {
    "product": """ENTRY e {
  x = f32[1024,512] parameter(0)
  y = f32[512,768] parameter(1)
  ROOT r = f32[1024,768] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "row of a matrix": """ENTRY e {
  x = f32[4,2048] parameter(0)
  y = f32[2048,3000] parameter(1)
  ROOT r = f32[4,3000] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "sum": f"""{ADD}
ENTRY e {{
  x = f32[2048,1024] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(x, z), dimensions={{0,1}}, to_apply=f }}""",
    "columns": f"""{ADD}
ENTRY e {{
  x = f32[512,8192] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[8192] reduce(x, z), dimensions={{0}}, to_apply=f }}""",
    "transpose": """ENTRY e {
  x = f32[2048,1024] parameter(0)
  ROOT r = f32[1024,2048] transpose(x), dimensions={1,0} }""",
    "elementwise": """ENTRY e {
  x = f32[2000000] parameter(0)
  a = f32[2000000] exponential(x)
  ROOT r = f32[2000000] multiply(a, x) }""",
    "convolution": """ENTRY e {
  x = f32[4,32,32,32] parameter(0)
  w = f32[3,3,32,64] parameter(1)
  ROOT r = f32[4,32,32,64] convolution(x, w), window={size=3x3 pad=1_1x1_1},
    dim_labels=b01f_01io->b01f }""",
    "depthwise": """ENTRY e {
  x = f32[8,56,56,64] parameter(0)
  w = f32[3,3,1,64] parameter(1)
  ROOT r = f32[8,56,56,64] convolution(x, w), window={size=3x3 pad=1_1x1_1},
    dim_labels=b01f_01io->b01f, feature_group_count=64 }""",
    "sort": f"""{LESS}
ENTRY e {{
  x = f32[512,1000] parameter(0)
  ROOT r = f32[512,1000] sort(x), dimensions={{1}}, to_apply=f }}""",
    "fft": """ENTRY e {
  x = c64[512,1024] parameter(0)
  ROOT r = c64[512,1024] fft(x), fft_type=FFT, fft_length={1024} }""",
}
CORES = (2, 8, 64)
NARROW = "SSE4_2"


def machine(isa: str) -> Machine:
    if isa and not Machine.host().is_x86:
        pytest.skip("this processor has vectors of one size only")
    return Machine.host(isa) if isa else Machine.host()


@cache
def compiled(name: str, cores: int, isa: str = "") -> tuple[Executable, Device]:
    device = device_of(machine(isa), cores)
    target = CpuTarget(machine(isa), kernel_device=device)
    stages = target.compile(hloom.parse(f"HloModule t\n{TEXTS[name]}"))
    return Executable(stages, 2), device


@cache
def arguments(name: str) -> list[Any]:
    return hloom.random_arguments(hloom.parse(f"HloModule t\n{TEXTS[name]}"), seed=0)


@cache
def expected(name: str) -> np.ndarray:
    return np.asarray(compiled(name, 2)[0](*arguments(name), donate=False))


def thunks(name: str, cores: int, isa: str = "") -> list[Thunk]:
    return list(walk(compiled(name, cores, isa)[0].thunks))


def parts(t: Thunk, device: Device) -> int:
    """Into how many a thunk is cut for threads."""
    if isinstance(t, Routine):
        return t.parts()
    assert isinstance(t, Kernel)
    grain = device.costs.grain(t.steps, t.cost_ns, device.compute.units)
    return -(-t.steps // grain) if grain else 1


def kernel_text(name: str, cores: int = 2, isa: str = "") -> str:
    return compiled(name, cores, isa)[0].as_text("kernels")


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_each_core_has_a_part(name: str) -> None:
    # Parts of 10 us each: what is short is not cut in 64 parts of less.
    for cores in CORES:
        _, device = compiled(name, cores)
        first = thunks(name, cores)[0]
        enough = min(cores, first.elapsed_ns(device.costs, 1) // (2 * device.costs.chunk_ns))
        wanted = min(enough, 16) if name == "fft" else enough  # rows of 256 KB each
        assert parts(first, device) >= wanted, cores


@pytest.mark.parametrize("name", ["product", "row of a matrix", "convolution", "sum", "columns"])
def test_steps_grow_with_the_cores(name: str) -> None:
    steps = [sum(t.steps for t in thunks(name, n) if isinstance(t, Kernel)) for n in CORES]
    assert steps[0] < steps[1] < steps[2]


@pytest.mark.parametrize("name", ["product", "convolution", "sum", "columns", "sort", "fft"])
def test_expected_times_shrink_with_the_cores(name: str) -> None:
    times = []
    for cores in CORES:
        _, device = compiled(name, cores)
        times.append(sum(t.elapsed_ns(device.costs, cores) for t in thunks(name, cores)))
    assert times[0] > 2 * times[1] > 2 * times[2]


@pytest.mark.parametrize("isa", ["", NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_values_are_the_same(name: str, isa: str) -> None:
    for cores in CORES if not isa else (2, 64):
        result = compiled(name, cores, isa)[0](*arguments(name), donate=False)
        scale = float(np.abs(expected(name)).max())
        np.testing.assert_allclose(
            np.asarray(result), expected(name), rtol=1e-4, atol=2e-6 * max(scale, 1.0)
        )


def tiles(text: str) -> set[tuple[int, ...]]:
    """The shapes of what is loaded and stored at once."""
    return {
        tuple(map(int, dims.split(",")))
        for dims in re.findall(r"(?:load|transpose) .*: f32\[([\d,]+)\]$", text, re.M)
    }


def test_tiles_of_a_transpose_follow_the_vectors() -> None:
    for isa in ("", NARROW):
        lanes = compiled("transpose", 2, isa)[1].compute.vector_floats
        # As many rows as lanes; and whole lines of what is written.
        assert tiles(kernel_text("transpose", 2, isa)) == {(16, lanes), (lanes, 16)}


def test_sums_side_by_side_follow_the_registers() -> None:
    """A product's tile has at most three quarters of the registers for sums, and most of those."""
    for isa in ("", NARROW):
        _, device = compiled("product", 2, isa)
        [dims] = re.findall(r"= dot .*: f32\[(\d+,\d+)\]$", kernel_text("product", 2, isa), re.M)
        rows, columns = map(int, dims.split(","))
        sums = rows * columns // device.compute.vector_floats
        assert device.compute.vector_registers / 2 <= sums
        assert sums <= device.compute.vector_registers * 3 / 4


def test_steps_of_a_product_follow_the_rate() -> None:
    """A core that is faster takes more at a time."""
    text = TEXTS["product"].replace("1024", "256").replace("768", "256").replace("512", "64")
    dot = hloom.parse(f"HloModule t\n{text}").entry.root
    device = device_of(machine(""), 8)
    rates = tuple([(name, 16 * rate) for name, rate in device.compute.operations_per_cycle])
    fast = replace(device, compute=replace(device.compute, operations_per_cycle=rates))
    slow, quick = (
        GemmTiling.of(dot_product(dot, set(dot.operands), device=d), d) for d in (device, fast)
    )
    assert slow.blocks * slow.chunks > quick.blocks * quick.chunks


@pytest.mark.parametrize("contracted", [0, 1])
def test_steps_of_a_product_count_what_is_computed_where_it_is_read(contracted: int) -> None:
    """Two cores share a product that multiplies little, if its operand is dear."""
    dot = hloom.parse(
        f"""HloModule t
        ENTRY e {{
          x = f32[1,128] parameter(0)
          y = f32[128,128] parameter(1)
          t = f32[128,128] tanh(y)
          ROOT r = f32[1,128] dot(x, t), lhs_contracting_dims={{1}},
            rhs_contracting_dims={{{contracted}}} }}"""
    ).entry.root
    [x, t], device = dot.operands, device_of(machine(""), 2)
    dear = replace(device, costs=replace(device.costs, operation_ns=5.0))
    read, computed = (
        GemmTiling.of(dot_product(dot, leaves, device=dear), dear)
        for leaves in ({x, t}, {x, *t.operands})
    )
    assert read.blocks * read.chunks == 1
    assert computed.blocks * computed.chunks >= 2


@pytest.mark.parametrize(("steps", "one_ns", "cores"), [(15, 1577, 2), (8, 2728, 2), (9, 3000, 3)])
def test_each_core_has_as_many_parts(steps: int, one_ns: float, cores: int) -> None:
    grain = Costs().grain(steps, one_ns, cores)
    assert -(-steps // grain) % cores == 0


@pytest.mark.parametrize("cores", [2, 4])
def test_each_core_has_rows_of_its_own(cores: int) -> None:
    """So that it finds what it wrote before in its cache, where columns save no more."""
    rows = TEXTS["product"].replace("1024", "784").replace("768", "192").replace("512", "32")
    dot = hloom.parse(f"HloModule t\n{rows}").entry.root
    device = device_of(machine(""), cores)
    assert GemmTiling.of(dot_product(dot, set(dot.operands), device=device), device).chunks >= cores
    text = TEXTS["depthwise"].replace("8,56,56,64", "1,14,14,384").replace("64", "384")
    image = geometry(hloom.parse(f"HloModule t\n{text}").entry.root, device)
    assert image is not None
    blocks = DepthwiseTiling.of(image, 16, 4, False, device_of(machine(""), 2)).row_blocks
    assert blocks >= 2


def test_costs_of_a_device_decide() -> None:
    """What a file says of its costs reaches kernels and passes."""
    dot = hloom.parse(f"HloModule t\n{TEXTS['row of a matrix']}").entry.root
    device = device_of(machine(""), 8)
    product = dot_product(dot, set(dot.operands), device=device)
    assert GemmTiling.of(product, device).form == "direct"
    none = replace(device, costs=Costs(direct_rows=0, few_direct_rows=0))
    assert GemmTiling.of(product, none).form == "packed"
    reduces = {}
    for least in (1 << 10, 1 << 30):
        costly = replace(device, costs=Costs(parallel_bytes=least))
        module = hloom.parse(f"HloModule t\n{TEXTS['sum']}")
        cpu_pipeline(costly).run(module)
        reduces[least] = sum(i.opcode == "reduce" for i in module.instructions())
    assert reduces[1 << 10] == 2 and reduces[1 << 30] == 1
