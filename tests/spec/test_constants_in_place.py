"""Constants are used where they stand, without copies."""

from __future__ import annotations

import resource
from dataclasses import replace

import numpy as np

import hloom
from hloom.program.saved import program_from_bytes, program_to_bytes
from hloom.runtime.executor import Executor
from hloom.types.literal import Literal

COUNT = 1 << 24
TEXT = f"""HloModule large
ENTRY main {{
  x = f32[] parameter(0)
  c = f32[{COUNT}] constant({{...}})
  many = f32[{COUNT}] broadcast(x), dimensions={{}}
  ROOT y = f32[{COUNT}] add(c, many)
}}
"""


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def saved() -> tuple[bytes, np.ndarray]:
    """A program with a constant of 64 MB, as bytes, and the constant."""
    module = hloom.parse(TEXT)
    values = np.arange(COUNT, dtype=np.float32)
    constant = next(i for i in module.instructions() if i.opcode == "constant")
    constant.attrs = replace(constant.attrs, literal=Literal.of(values))
    return program_to_bytes(hloom.compile(module).program), values


def test_loading_takes_less_memory_than_the_constant():
    data, values = saved()
    before = resident_bytes()
    program = program_from_bytes(data)
    executor = Executor(program, 1)
    assert resident_bytes() - before < values.nbytes // 2
    (found,) = executor.run([np.float32(2)])
    assert found is not None
    assert np.array_equal(found.numpy(), values + 2)


def test_constants_stand_where_the_program_has_them():
    data, _ = saved()
    program = program_from_bytes(data)
    (constant,) = [a for a in program.allocations if a.kind == "constant"]
    assert constant.data is not None
    array = np.frombuffer(constant.data, np.uint8)
    assert array.ctypes.data % 16 == 0
    assert Executor(program, 1).loaded.constant(constant.index) == array.ctypes.data


def test_constants_that_are_not_aligned_are_copied():
    data, values = saved()
    shifted = memoryview(b"x" + data)[1:]
    if np.frombuffer(shifted, np.uint8).ctypes.data % 16 == 0:
        shifted = memoryview(b"xy" + data)[2:]
    (found,) = Executor(program_from_bytes(shifted), 1).run([np.float32(0)])
    assert found is not None
    assert np.array_equal(found.numpy(), values)
