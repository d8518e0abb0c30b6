"""Replace calls by the bodies they call (PS-03, PS-04, IR-14, IR-22)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from hloom.ir.computation import Computation
from hloom.ir.copy import Replacement, copy_computation, copy_instructions
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.frontend import FrontendAttributes
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace

Answer = Literal["allow", "prohibit", "allow ignoring attributes"]
FUSE_ATTRIBUTES = ("MUST_FUSE", "MAXIMAL_FUSE", "FUSE_LIMIT")
COMPOSITE_ATTRIBUTES = ("composite.name", "composite.attributes", "composite.version")
NOT_FUSIBLE = frozenset(
    "parameter constant tuple get-tuple-element call while conditional custom-call infeed outfeed "
    "send recv send-done recv-done after-all async-start async-update async-done".split()
)
LONGEST_NAME = 1024


def prefixed_name(caller: str, own: str) -> str:
    """`caller/own`, or `own` where it has that prefix or would become too long (IR-22)."""
    if not caller or own == caller or own.startswith(caller + "/"):
        return own
    joined = f"{caller}/{own}" if own else caller
    return joined if len(joined) <= LONGEST_NAME else own


def inline_call(call: Instruction, *, propagate_metadata: bool = True) -> Replacement:
    """Replace one call by a copy of its callee's body; return which instruction became which.

    The call's control predecessors come before every inlined instruction, its control successors
    after the new root. Channel ids stay as they are. The inlined instructions stand at the end
    of the program order: call `reorder(in_order())` when done.
    """
    computation, body = call.parent, call.called[0]
    new_for_old: Replacement = dict(zip(body.parameters, call.operands, strict=True))
    order = [i for i in body.in_order() if i.opcode != "parameter"]
    copy_instructions(order, computation, new_for_old)
    inlined = [new_for_old[i] for i in order]
    for i in inlined:
        for before in call.control_predecessors:
            i.add_control_predecessor(before)
        _annotate(i, call, propagate_metadata)
    root = new_for_old[body.root]
    for after in call.control_successors:
        after.add_control_predecessor(root)
    module = computation.module
    if module is not None and module.schedule is not None and computation in module.schedule:
        _splice(module, call, body, new_for_old)
    computation.replace(call, root)
    computation.erase(call)
    return new_for_old


def _splice(module: Module, call: Instruction, body: Computation, made: Replacement) -> None:
    """Put the inlined instructions where the call stood in the schedule."""
    schedule = module.schedule
    assert schedule is not None
    inner = [made[i] for i in schedule.get(body, body.in_order()) if i.opcode != "parameter"]
    order: list[Instruction] = []
    for i in schedule[call.parent]:
        order.extend(inner if i is call else (i,))
    schedule[call.parent] = order


def _annotate(i: Instruction, call: Instruction, propagate_metadata: bool) -> None:
    if propagate_metadata and call.metadata is not None and call.metadata.op_name:
        own = i.metadata.op_name if i.metadata is not None else ""
        name = prefixed_name(call.metadata.op_name, own)
        base = i.metadata if i.metadata is not None else call.metadata
        i.metadata = replace(base, op_name=name)
    attributes = call.frontend_attributes
    if attributes and i.opcode not in NOT_FUSIBLE:
        fuse = {k: attributes[k] for k in FUSE_ATTRIBUTES if k in attributes}
        if fuse:
            i.frontend_attributes = FrontendAttributes.of({**(i.frontend_attributes or {}), **fuse})


def clone_and_inline(module: Module, call: Instruction) -> Computation:
    """A copy of the call's computation in which this call is inlined; the original stays."""
    made, new_for_old = copy_computation(call.parent, module)
    inline_call(new_for_old[call])
    return made


@register
class CallInliner(Pass):
    """Inline calls, callees first, so that no call inside an inlined body is left."""

    name = "call-inliner"

    single_call_site: bool = False
    """Only calls whose callee has no other caller (`inlineable` true or xla_early overrides)."""
    update_domain: bool = False
    """Give inlined instructions without a sharding that of the call."""
    composites_to_preserve: frozenset[str] = frozenset()
    uses_shardy: bool = False
    """Keep calls to shard_map bodies, which Shardy needs."""
    propagate_metadata: bool = True
    allow: Callable[[Instruction], Answer] | None = None
    """Asked for every call."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        for c in on_threads(module, threads):
            if any(i.opcode == "async-start" for i in c.callers):
                continue
            calls = [i for i in c.in_order() if i.opcode == "call" and self.is_inlined(i)]
            for call in calls:
                made = inline_call(call, propagate_metadata=self.propagate_metadata)
                if self.update_domain and call.sharding is not None:
                    self.share(call, made)
                fired["inlined"] += 1
            if calls:
                c.reorder(c.in_order())
        return PassResult.of(fired)

    def is_inlined(self, call: Instruction) -> bool:
        """Whether this call is to be inlined (the list in PS-03)."""
        attributes = call.frontend_attributes or {}
        answer = self.allow(call) if self.allow else "allow"
        if answer == "prohibit" or call.backend_config is not None:
            return False
        if answer == "allow ignoring attributes":
            return True
        wanted = attributes.get("inlineable")
        if wanted in ("false", "xla_late"):
            return False
        if (
            call.attrs.is_composite
            and attributes.get("composite.name") in self.composites_to_preserve
        ):
            return False
        callee = call.called[0]
        if self.uses_shardy and "shmap_body" in callee.name:
            return False
        if self.single_call_site and sum(callee.callers.values()) > 1:
            return wanted in ("true", "xla_early")
        return True

    def share(self, call: Instruction, made: Replacement) -> None:
        for i in made.values():
            if i.sharding is None and not i.shape.is_tuple and not call.sharding.is_tuple:
                i.sharding = call.sharding
