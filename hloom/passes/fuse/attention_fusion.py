"""Make one fusion of attention: dot, scale, mask, softmax, dot.

Off unless asked for: a code generator that takes it computes the softmax as the scores come and
never keeps them. The fusion is `kCustom`, with `{"fusion_config":{"kind":"attention"}}`; its body
is the pattern as it was (`analysis/attention.py` finds the parts again from the root).
"""

from __future__ import annotations

from collections import Counter

from hloom.analysis.attention import Attention, attention_pattern
from hloom.ir.module import Module
from hloom.ir.values.backend_config import BackendConfig
from hloom.passes.fuse.build import fuse_members
from hloom.passes.fuse.plan import is_sequential
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.rewrite.driver import Trace

CONFIG = BackendConfig.from_json({"fusion_config": {"kind": "attention"}})


@register
class AttentionFusion(Pass):
    """Fuse dot, softmax, dot into one kCustom fusion."""

    name = "attention-fusion"

    enabled: bool = False
    """Off by default: the pass does nothing."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        if not self.enabled or module.schedule is not None:
            return PassResult()
        for c in module.computations_in_order():
            if not is_sequential(c) or (threads and c.execution_thread not in threads):
                continue
            made = 0
            for i in [i for i in c.instructions if i.opcode == "dot"]:
                if i not in c.instructions:
                    continue
                found = attention_pattern(i)
                if isinstance(found, Attention):
                    fuse_members(c, module, dict.fromkeys(found.members), i, "kCustom", CONFIG)
                    made += 1
                elif trace is not None:
                    trace.declined[self.name, found] += 1
            if made:
                fired["attention"] += made
                c.reorder(c.in_order())
        return PassResult.of(fired)
