"""The processor at hand as a device: what LLVM says of its registers, the system of the rest."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from hloom.codegen.llvm.dot_products import dot_products
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.matrix_tiles import matrix_tiles
from hloom.device.device import Device
from hloom.device.known import known_device, known_names
from hloom.device.probe import probed_cpu
from hloom.runtime.processors import granted_threads

HALF_WIDTH = ("znver4",)
"""Processors whose pipes are half as wide as their widest registers."""


@lru_cache(maxsize=16)
def device_of(machine: Machine, threads: int) -> Device:
    """A machine of which so many cores may be used, described as the system describes this one."""
    return _described(machine, threads, Path("/"))


def _described(machine: Machine, cores: int, root: Path) -> Device:
    """`root` holds the system's words for cores and caches."""
    registers = 32 if machine.has_avx512 or not machine.is_x86 else 16
    operations = 4.0 if machine.has_fma else 2.0
    if machine.has_avx512 and machine.cpu in HALF_WIDTH:
        operations /= 2
    return probed_cpu(
        cores,
        machine.vector_bytes,
        registers,
        name=machine.cpu or machine.architecture,
        operations_per_lane=operations,
        dot_products=tuple([(d.a, d.b, d.group) for d in dot_products(machine)]),
        matrix_tiles=tuple([(t.a, t.b, t.depth) for t in matrix_tiles(machine)]),
        root=root,
    )


@lru_cache(maxsize=16)
def without_tiles(device: Device) -> Device:
    """The same device for code that others load, who may not have asked the system for its tile
    registers."""
    compute = replace(device.compute, matrix_tiles=(), matrix_operations_per_cycle=())
    return replace(device, compute=compute)


ELSEWHERE = Path("/nonexistent")
"""A system that tells nothing of cores and caches."""
UNKNOWN_CORES = 4


@lru_cache(maxsize=16)
def described(machine: Machine) -> Device:
    """A machine that is not here: as `device/known/` describes its processor, or else one of four
    cores with caches of the usual sizes."""
    if machine.cpu in known_names() and known_device(machine.cpu).kind == "cpu":
        return known_device(machine.cpu)
    return _described(machine, UNKNOWN_CORES, ELSEWHERE)


def host_device() -> Device:
    """This machine, and as many of its cores as this process may use."""
    return device_of(Machine.host(), granted_threads())
