"""What partitioning keeps for those who ask: collectives brought in, work that is repeated."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import COLLECTIVE

COMMUNICATES = opcodes(COLLECTIVE)
WHYS = {
    "all-gather": "its parts read more of one another than they have themselves",
    "collective-broadcast": "most devices have nothing of it",
    "all-reduce": "each device has computed a part of it",
    "reduce-scatter": "each device has computed a part of it, and keeps a part of the sum",
    "all-to-all": "what each device needs is spread over the others",
    "collective-permute": "its parts read elements that other devices have",
}
"""What collectives are for that do not bring a value from one tiling to another."""


@dataclass(frozen=True)
class Replicated:
    """An operation that is computed whole on every device, and why; what it takes to bring its
    operands there, in bytes that each device receives."""

    name: str
    opcode: str
    reason: str
    bytes: int


@dataclass(frozen=True)
class Inserted:
    """A collective that partitioning brought in: for which instruction of the program, and why."""

    collective: Instruction
    name: str
    opcode: str
    why: str
