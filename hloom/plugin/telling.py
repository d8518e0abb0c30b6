"""The HLO of a compiled program, for those who ask for its text.

What one device runs (`shard_map`, `pmap`, `custom_partitioning`) is compiled by itself; it is told
as a computation that its call has, with the collectives it was written with.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hloom.api import Computation, Module, copy_computation, copy_module

_REGION = re.compile(r"\{.*\bregion = (\d+) : i64\}")


def with_manual_computations(module: Module, programs: Sequence[Module]) -> Module:
    """A copy of the module in which each call of a manual computation names its computation."""
    whole = copy_module(module)
    entries = [_added(whole, program, k) for k, program in enumerate(programs)]
    for i in [i for c in whole.computations for i in c.instructions]:
        if i.opcode != "custom-call" or i.backend_config is None or i.called:
            continue
        match = _REGION.fullmatch(i.backend_config.raw)
        if match is not None and int(match[1]) < len(entries):
            i.set_called((entries[int(match[1])],))
    return whole


def _added(into: Module, program: Module, number: int) -> Computation:
    """The entry of another module, copied with all it calls; its stack frames mean nothing here."""
    copies: dict[Computation, Computation] = {}
    for c in program.computations_in_order():
        name = f"device_{number}" if c is program.entry else c.name
        copies[c], _ = copy_computation(c, into, name, copies)
        for i in copies[c].instructions:
            if i.metadata is not None:
                i.metadata = replace(i.metadata, stack_frame_id=0)
        if into.schedule is not None:
            into.schedule[copies[c]] = copies[c].in_order()
    return copies[program.entry]
