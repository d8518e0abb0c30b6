"""Which collectives a GPU does in one kernel that reads its peers' memory, and in how many rounds.

Of few bytes every device reads all of its peers' operands and reduces them (one shot: one meeting,
n times the bytes); of more each reduces its part first and reads the parts of the others (two
shots). Of many bytes, or over the links between hosts, a library does better.
"""

from __future__ import annotations

from collections import Counter
from math import prod

from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.passes.collectives.collective_config import set_said
from hloom.passes.collectives.groups import (
    devices_of,
    group_size,
    is_plain,
    reduction_of,
    share_host,
)
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.rewrite.driver import Trace

FIELD = "kernel_strategy"
ONE_SHOT, TWO_SHOT = "KERNEL_STRATEGY_TRITON_ONE_SHOT", "KERNEL_STRATEGY_TRITON_TWO_SHOT"


@register
class CollectiveKernelStrategyAnnotator(Pass):
    """Say in the configs of small all-reduces inside of hosts in which kind of kernel they are
    done."""

    name = "collective-kernel-strategy-annotator"

    one_shot_bytes: int = 256 * 1024
    """At most so many bytes are reduced by every device."""
    two_shot_bytes: int = 4 * 1024 * 1024
    """At most so many in parts."""
    num_devices_per_host: int = 8
    """Devices of consecutive ids that can read each other's memory."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        for i in module.instructions():
            if i.opcode == "all-reduce" and (not threads or i.parent.execution_thread in threads):
                strategy = self.strategy(i)
                if strategy is not None and set_said(i, FIELD, strategy):
                    fired["one shot" if strategy == ONE_SHOT else "two shots"] += 1
        return PassResult.of(+fired)

    def strategy(self, i: Instruction) -> str | None:
        """The kind of kernel; None where it is left to a library."""
        groups = devices_of(i) if is_plain(i) and reduction_of(i) is not None else None
        size = None if groups is None else group_size(groups)
        if groups is None or size is None or size < 2:
            return None
        if not all(share_host(group, self.num_devices_per_host) for group in groups):
            return None
        count = i.shape.size_bytes
        if count <= self.one_shot_bytes:
            return ONE_SHOT
        is_even = prod(i.shape.dims) % size == 0
        return TWO_SHOT if count <= self.two_shot_bytes and is_even else None
