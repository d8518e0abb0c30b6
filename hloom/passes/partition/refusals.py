"""What cannot be partitioned, and is said so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hloom.base.diagnostics import UnsupportedError
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import COLLECTIVE, DEVICE_ID

if TYPE_CHECKING:
    from hloom.passes.partition.partitioner import Walk
    from hloom.passes.partition.value import TiledValue

MEETING = opcodes(COLLECTIVE, DEVICE_ID)
"""What means something else on each device: only regions that the program cut have them."""


def refused(i: Instruction, why: str, hint: str | None = None) -> UnsupportedError:
    """The error for what cannot be partitioned."""
    where = f"{i.parent.name}/%{i.name}"
    return UnsupportedError(
        f"{i.opcode} cannot be partitioned: {why}", instruction=where, rule="partition", hint=hint
    )


def refused_effect(walk: Walk, i: Instruction) -> list[TiledValue]:
    """Refuse what would be done once for each device, or means something else on each of them."""
    if i.opcode in MEETING:
        raise refused(
            i,
            "outside of a region that the program cuts by itself nothing says what it means",
            "put it between SPMDFullToShardShape and SPMDShardToFullShape (shard_map), and run "
            "sharding-propagation before; or leave the shardings out of what each device runs",
        )
    raise refused(i, "it has side effects, and every device would have them")
