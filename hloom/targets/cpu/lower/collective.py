"""Collectives among several devices, for which there is no native code yet.

Those of one device never come here: passes have taken them away.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering, unsupported


@CPU_LOWERS.of(
    "all-gather",
    "all-gather-start",
    "all-gather-done",
    "all-reduce",
    "all-reduce-start",
    "all-reduce-done",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "collective-permute-start",
    "collective-permute-done",
    "collective-reduce",
    "partition-id",
    "ragged-all-to-all",
    "reduce-scatter",
    "replica-id",
)
def among_devices(cpu: Lowering, i: Instruction) -> list[Thunk]:
    m = cpu.module
    raise unsupported(
        i,
        f"is among {m.replica_count} replicas of {m.num_partitions} partitions; native programs"
        " run on one device and have nothing to talk to others with",
        "`hloom eval` runs it in the interpreter, all devices in lockstep",
    )


@CPU_LOWERS.of("async-start", "async-update", "async-done", "copy-start", "copy-done")
def in_two_halves(cpu: Lowering, i: Instruction) -> list[Thunk]:
    raise unsupported(
        i,
        "is one half of an operation whose other half stands in another computation, or which"
        " several instructions read",
        "let start and done stand in one computation, with one reader each",
    )
