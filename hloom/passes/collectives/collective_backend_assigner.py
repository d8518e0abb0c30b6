"""Which library a collective goes through: a heap that all devices of a host share, or the default.

A symmetric heap (NVSHMEM) has less to do before the first byte moves, and works among devices that
are near to each other; of many bytes it is none the faster.
"""

from __future__ import annotations

from collections import Counter

from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS, opcodes
from hloom.ir.traits import ASSOCIATIVE
from hloom.ir.values.group_modes import device_pairs, group_mode
from hloom.passes.collectives.collective_config import said_of, set_said
from hloom.passes.collectives.groups import devices_of, module_of, reduction_of, share_host
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.rewrite.driver import Trace

REDUCED = frozenset("f16 bf16 f32 f64 s32 s64 u32 u64 pred u8 s8 c64 c128".split())
"""Types that the heap's library reduces."""
SUMS = opcodes(ASSOCIATIVE, without=("and", "or", "xor"))
FIELD = "backend"


@register
class CollectiveBackendAssigner(Pass):
    """Say NVSHMEM in the configs of small all-reduces and permutes inside of hosts, and DEFAULT
    where another backend was said of larger ones."""

    name = "collective-backend-assigner"

    threshold_in_bytes: int = 16 * 1024 * 1024
    """Collectives of fewer bytes go through the heap."""
    num_devices_per_host: int = 8
    """Devices of consecutive ids that share it."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        for i in module.instructions():
            kind = OPS[i.opcode].start_of or i.opcode
            if kind not in ("all-reduce", "collective-permute") or not i.operands:
                continue
            if threads and i.parent.execution_thread not in threads:
                continue
            backend = "NVSHMEM" if self.is_near(i, kind) else "DEFAULT"
            if said_of(i, FIELD) is None and backend == "DEFAULT":
                continue
            fired[backend] += set_said(i, FIELD, backend)
        return PassResult.of(+fired)

    def is_near(self, i: Instruction, kind: str) -> bool:
        """Whether a collective is small, stays on its hosts, and is one that the heap has."""
        if sum(x.shape.size_bytes for x in i.operands) >= self.threshold_in_bytes:
            return False
        if kind == "collective-permute":
            module, mode = module_of(i), group_mode(i.attrs)
            pairs = i.attrs.source_target_pairs
            if mode is None:
                return False
            pairs = device_pairs(pairs, mode, module.replica_count, module.num_partitions)
            return all(share_host(pair, self.num_devices_per_host) for pair in pairs)
        groups = devices_of(i)
        types = {x.shape.dtype.name for x in i.operands}
        if groups is None or not types <= REDUCED or reduction_of(i) not in SUMS:
            return False
        return all(share_host(group, self.num_devices_per_host) for group in groups)
