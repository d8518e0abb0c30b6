"""Collectives that are done in one kernel, as fusions of their own.

What `collective-kernel-strategy-annotator`, or the program, says of an all-reduce becomes a fusion
whose kernel of tiles meets the other devices. Where there is no such kernel, the fusion is taken
apart again (`defuser`), and the collective is what it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.ir.values.backend_config import BackendConfig
from hloom.passes.collectives.collective_config import said_of
from hloom.passes.collectives.collective_kernel_strategy_annotator import FIELD, ONE_SHOT, TWO_SHOT
from hloom.passes.collectives.groups import is_plain
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.pass_ import register

KIND = "__triton_collective"
CUSTOM = OPS["fusion"].attrs(kind="kCustom")


@register
class CollectiveFusion(ComputationPass):
    """Put each all-reduce whose config names a kernel into a fusion of its own."""

    name = "collective-fusion"

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        if c.is_fusion:
            return []
        chosen = [i for i in c.instructions if i.opcode == "all-reduce" and is_plain(i)]
        chosen = [i for i in chosen if said_of(i, FIELD) in (ONE_SHOT, TWO_SHOT)]
        for i in chosen:
            _fuse(c, i)
        fired["all-reduce"] += len(chosen)
        return [c] if chosen else []


def _fuse(c: Computation, i: Instruction) -> None:
    """A fusion of one collective in its place, with what its config says of it."""
    assert c.module is not None, "passes run on modules"
    body = c.module.add_computation(f"fused_{i.name}")
    (x,) = i.operands
    parameter = body.add("parameter", shape=x.shape, number=0)
    body.root = body.append(i.opcode, i.attrs, (parameter,), i.shape, i.name, i.called)
    body.root.copy_annotations(i)
    fusion = c.append("fusion", CUSTOM, (x,), i.shape, "fusion", (body,))
    fusion.copy_annotations(i)
    said = dict((i.backend_config.json if i.backend_config else None) or {})
    fusion.backend_config = BackendConfig.from_json(
        said | {"fusion_backend_config": {"kind": KIND}}
    )
    c.replace(i, fusion)
    c.erase(i)
