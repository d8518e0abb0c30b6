"""Long chains of elementwise operations: several vectors take turns, at any length and type."""

from __future__ import annotations

import platform
import re

import pytest

import hloom
from hloom.codegen.llvm.machine import Machine
from hloom.executable import Executable
from hloom.ir.copy import copy_module
from hloom.targets.cpu.target import CpuTarget
from tests.codegen.test_loops import agree

LENGTHS = [1, 7, 16, 33, 63, 64, 65, 127, 128, 129, 255, 257, 1000, 4099, 70001]


def chain(n: int, of: str, steps: int, each: str = "multiply") -> str:
    """`z = z * z' + x` written out, z' the z before."""
    lines = [f"  x = {of}[{n}] parameter(0)", f"  z0 = {of}[{n}] negate(x)"]
    for k in range(steps):
        lines.append(f"  m{k} = {of}[{n}] {each}(z{k}, z{k})")
        lines.append(f"  h{k} = {of}[{n}] multiply(m{k}, x)")
        lines.append(f"  z{k + 1} = {of}[{n}] add(h{k}, x)")
    lines.append(f"  ROOT r = {of}[{n}] add(z{steps}, x)")
    return "ENTRY e {\n" + "\n".join(lines) + "\n}"


def of_functions(n: int, steps: int) -> str:
    lines = [f"  z0 = f32[{n}] parameter(0)"]
    lines += [f"  z{k + 1} = f32[{n}] sine(z{k})" for k in range(steps)]
    return "ENTRY e {\n" + "\n".join(lines) + f"\n  ROOT r = f32[{n}] negate(z{steps})\n}}"


@pytest.mark.parametrize("of", ["f32", "f64", "s32", "u8", "c64"])
@pytest.mark.parametrize("n", LENGTHS)
def test_chains_of_any_length_and_type(n: int, of: str):
    # Few steps of what grows: numbers stay in the range of their types.
    agree(chain(n, of, 12 if of in ("s32", "u8") else 8, "minimum" if of != "c64" else "subtract"))
    agree(of_functions(n, 3))


def _lanes(text: str) -> int:
    kernels = hloom.compile(hloom.parse("HloModule m\n" + text)).as_text("kernels")
    return max(int(n) for n in re.findall(r"f32\[(\d+)\]", kernels))


def test_chains_have_more_vectors_than_what_is_side_by_side():
    short, long = (_lanes(chain(4096, "f32", n)) for n in (4, 20))
    assert long == 2 * short
    one, two = (_lanes(of_functions(4096, n)) for n in (1, 2))
    assert two == 2 * one
    lines = [f"  v{k} = f32[4096] sine(p{k})" for k in range(8)]
    lines += [f"  p{k} = f32[4096] parameter({k})" for k in range(8)]
    sums = "  a0 = f32[4096] add(v0, v1)\n" + "\n".join(
        f"  a{k} = f32[4096] add(a{k - 1}, v{k + 1})" for k in range(1, 7)
    )
    beside = (
        "ENTRY e {\n" + "\n".join(sorted(lines)) + f"\n{sums}\n  ROOT r = f32[4096] negate(a6)\n}}"
    )
    assert _lanes(beside) == one


def two_chains(n: int) -> str:
    """Nine steps beside twelve."""
    lines = [
        f"  x = f32[{n}] parameter(0)",
        f"  y0 = f32[{n}] negate(x)",
        f"  z0 = f32[{n}] abs(x)",
    ]
    for z, steps in (("y", 9), ("z", 12)):
        for k in range(steps):
            lines.append(f"  {z}m{k} = f32[{n}] minimum({z}{k}, x)")
            lines.append(f"  {z}h{k} = f32[{n}] multiply({z}m{k}, x)")
            lines.append(f"  {z}{k + 1} = f32[{n}] add({z}h{k}, x)")
    return "ENTRY e {\n" + "\n".join(lines) + f"\n  ROOT r = f32[{n}] add(y9, z12)\n}}"


@pytest.mark.parametrize("n", [63, 4099])
def test_two_chains_fit_the_registers(n: int):
    agree(two_chains(n))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="counts the registers of x86")
def test_two_chains_have_fewer_vectors_where_registers_are_few():
    module = hloom.parse("HloModule m\n" + two_chains(4096))
    for isa, vectors in (("SSE4_2", 4), ("AVX2", 4), ("AVX512", 8)):
        machine = Machine.host(isa)
        device = CpuTarget(machine).device
        if device.compute.vector_registers != (32 if isa == "AVX512" else 16):
            continue  # less than was asked for
        run = Executable(CpuTarget(machine).compile(copy_module(module)), threads=2)
        text = run.as_text("kernels")
        assert f"f32[{vectors * device.compute.vector_floats}]" in text
