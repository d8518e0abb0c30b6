"""What was fused, what was not, and why: one line for each edge between a producer and a kernel."""

from __future__ import annotations

from collections import Counter

from hloom.ir.module import Module
from hloom.passes.fuse.fusion import Fusion
from hloom.passes.fuse.fusion_plan import Decision, is_sequential


def fusion_decisions(module: Module, options: Fusion | None = None) -> list[Decision]:
    """What `fusion` decides about every edge of a module; changes nothing."""
    step = options or Fusion()
    return [
        decision
        for c in module.computations_in_order()
        if is_sequential(c)
        for decision in step.plan(c).decisions()
    ]


def explained(module: Module, options: Fusion | None = None, only: str | None = None) -> str:
    """The decisions as text, with a count of the reasons; `only`: about this instruction."""
    lines: list[str] = []
    reasons: Counter[str] = Counter()
    for d in fusion_decisions(module, options):
        if only is not None and only not in (d.producer.name, d.consumer.name):
            continue
        verdict = "fused" if d.reason is None else f"declined: {d.reason}"
        reasons[verdict] += 1
        lines.append(
            f"%{d.producer.name} ({d.producer.opcode}) -> %{d.consumer.name} "
            f"({d.consumer.opcode}): {verdict}"
        )
    counts = [f"{count:6} {verdict}" for verdict, count in reasons.most_common()]
    return "\n".join([*lines, "", *counts])
