"""The state of the stateful random operations."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.program.thunks.random import RngGetAndUpdateState
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering


@CPU_LOWERS.of("rng-get-and-update-state")
def state(cpu: Lowering, i: Instruction) -> list[Thunk]:
    target = cpu.slice(i)
    delta = i.attrs.delta
    low, high = delta & (2**64 - 1), (delta >> 64) & (2**64 - 1)
    arguments = (target, low, high)
    symbol = "hl_rng_get_and_update_state"
    return [RngGetAndUpdateState(i.name, symbol, arguments, (), (target,))]
