"""Write the names and stack frames of calls into the bodies they call.

After it a profile of a program whose calls were never inlined says where each operation comes
from; and when the calls are inlined later, no name is added twice.
"""

from __future__ import annotations

from collections import Counter

from hloom.ir.module import Module
from hloom.ir.values.stack_frames import FrameJoiner
from hloom.passes.control.call_inliner import metadata_from_call
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace


@register
class PropagateCallMetadata(Pass):
    """Prefix the names in a called body by that of its call, callers first.

    Bodies with several call sites are left alone: there is no one name for them.
    """

    name = "propagate-call-metadata"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        frames = FrameJoiner(module.stack_frames)
        for c in reversed(list(on_threads(module, threads))):
            callers = list(c.callers)
            if len(callers) != 1 or callers[0].opcode != "call" or callers[0].metadata is None:
                continue
            for i in c.instructions:
                if i.opcode == "parameter":
                    continue
                metadata = metadata_from_call(i.metadata, callers[0].metadata, frames)
                if metadata != i.metadata:
                    i.metadata = metadata
                    fired["instructions"] += 1
        module.stack_frames = frames.index
        return PassResult.of(+fired)
