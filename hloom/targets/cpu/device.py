"""The processor at hand as a device: what LLVM says of its registers, the system of the rest."""

from __future__ import annotations

from functools import lru_cache

from hloom.codegen.llvm.dot_products import dot_products
from hloom.codegen.llvm.machine import Machine
from hloom.device.device import Device
from hloom.device.probe import probed_cpu
from hloom.runtime.processors import granted_threads

HALF_WIDTH = ("znver4",)
"""Processors whose pipes are half as wide as their widest registers."""


@lru_cache(maxsize=16)
def device_of(machine: Machine, threads: int) -> Device:
    """A machine of which so many cores may be used, described as the system describes this one."""
    registers = 32 if machine.has_avx512 or not machine.is_x86 else 16
    operations = 4.0 if machine.has_fma else 2.0
    if machine.has_avx512 and machine.cpu in HALF_WIDTH:
        operations /= 2
    return probed_cpu(
        threads,
        machine.vector_bytes,
        registers,
        name=machine.cpu,
        operations_per_lane=operations,
        dot_products=tuple([(d.a, d.b, d.group) for d in dot_products(machine)]),
    )


def host_device() -> Device:
    """This machine, and as many of its cores as this process may use."""
    return device_of(Machine.host(), granted_threads())
