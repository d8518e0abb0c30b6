"""How many steps a product of matrices is wanted in: enough for the cores, none too small to be
handed out, by what multiplying takes and by what reading and computing its operands takes."""

from __future__ import annotations

from hloom.codegen.product import Product
from hloom.device.device import Device

# Steps for each core, where there is work enough: what one core finishes late the others take.
STEPS_PER_UNIT = 8
# Steps of the direct form for each core.
DIRECT_STEPS_PER_UNIT = 2


def wanted_steps(p: Product, device: Device) -> int:
    """Of forms that take as long for a narrow step as for a wide one, but for its part."""
    work_ns = max(_multiplying_ns(p, device), p.reading_ns)
    return _steps(work_ns, STEPS_PER_UNIT * device.compute.units, device)


def wanted_direct_steps(p: Product, device: Device) -> int:
    """Of the direct form, which reads memory best in long rows: one for each core where that keeps
    it busy, more only where multiplying does."""
    units = device.compute.units
    multiplying = _steps(_multiplying_ns(p, device), DIRECT_STEPS_PER_UNIT * units, device)
    return max(multiplying, _steps(p.reading_ns, units, device))


def _multiplying_ns(p: Product, device: Device) -> float:
    return p.flops * device.compute.flop_ns("f32")


def _steps(work_ns: float, most: int, device: Device) -> int:
    least_ns = device.costs.least_step_cycles * device.compute.cycle_ns
    return max(1, min(most, int(work_ns // least_ns)))
