"""Which kernels can be tried for an instruction, the one that would be written anyway first."""

from __future__ import annotations

from collections.abc import Iterator

from hloom.analysis.cost import instruction_cost
from hloom.codegen.gemm_candidates import tilings
from hloom.codegen.product import Product
from hloom.codegen.tile import Body
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.targets.cpu.lower.families import FAMILIES, anchor_of
from hloom.targets.cpu.tuning.choice import Choice

MOST_LOOP_FLOPS = 1 << 24
"""Larger products are never faster as loops over their results, and take long to find that out."""
TRIED = ("depthwise", "grouped", "narrow", "product", "loops")


def candidates(i: Instruction, device: Device, is_thorough: bool) -> list[Choice]:
    """For an instruction with one product or convolution in it; empty for every other, and for one
    that is too short for a difference to show."""
    if i.opcode not in ("fusion", "dot", "convolution"):
        return []
    body = Body.of(i)
    anchor = anchor_of(body)
    if anchor is None:
        return []
    first = next(f for f in FAMILIES if f.form(body, device) is not None)
    if first.name not in TRIED:
        return []
    choices: list[Choice] = []
    for name, form in _forms(body, device):
        if name == "loops" != first.name and instruction_cost(anchor, {}).flops > MOST_LOOP_FLOPS:
            continue
        choices += _of_family(name, form, device, is_thorough)
    choices.sort(key=lambda c: c.family != first.name)
    return choices if len(choices) > 1 else []


def _forms(body: Body, device: Device) -> Iterator[tuple[str, object]]:
    for family in FAMILIES:
        if family.name in TRIED and (form := family.form(body, device)) is not None:
            yield family.name, form


def _of_family(name: str, form: object, device: Device, is_thorough: bool) -> list[Choice]:
    if isinstance(form, Product):
        return [Choice(name, tiling) for tiling in tilings(form, device, is_thorough)]
    return [Choice(name)]
