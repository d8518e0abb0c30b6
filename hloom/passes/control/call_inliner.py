"""Replace calls by the bodies they call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from hloom.analysis.call_graph import expanded_size
from hloom.base.diagnostics import UsageError
from hloom.ir.computation import Computation
from hloom.ir.copy import Replacement, copy_computation, copy_instructions
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import ASYNC_CHAIN, CONTROL_FLOW, HOST, PLUMBING
from hloom.ir.values.frontend import FrontendAttributes
from hloom.ir.values.metadata import OpMetadata
from hloom.ir.values.stack_frames import FrameJoiner
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace
from hloom.rewrite.laid_out import laid_out

SEVERAL = 4
"""Times as large a program may become by inlining, however large it is."""
Answer = Literal["allow", "prohibit", "allow ignoring attributes"] | bool
ANSWERS: dict[Any, str] = {True: "allow", False: "prohibit"}
ANSWERS |= {x: x for x in ("allow", "prohibit", "allow ignoring attributes")}
FUSE_ATTRIBUTES = ("MUST_FUSE", "MAXIMAL_FUSE", "FUSE_LIMIT")
NOT_FUSIBLE = opcodes(
    PLUMBING, CONTROL_FLOW, ASYNC_CHAIN, HOST, also=("custom-call", "after-all", "domain")
)


def inline_call(call: Instruction, *, propagate_metadata: bool = True) -> Replacement:
    """Replace one call by a copy of its callee's body; return which instruction became which.

    The call's control predecessors come before every inlined instruction, its control successors
    after the new root; the schedule, if there is one, gets the inlined instructions where the
    call stood. Channel ids stay as they are. The inlined instructions stand at the end of the
    program order: call `sort()` when done. Raises `UsageError` for another opcode.
    """
    if call.opcode != "call":
        raise UsageError("it is no call", instruction=f"%{call.name}", rule="inline")
    inlining = _Inlining(call.parent, propagate_metadata)
    new_for_old = inlining.inline(call)
    inlining.finish()
    return new_for_old


class _Inlining:
    """Inlines calls of one computation; what costs its whole length is done once, at the end."""

    def __init__(self, computation: Computation, propagate_metadata: bool) -> None:
        self.computation = computation
        self.module = computation.module
        self.propagate_metadata = propagate_metadata
        self.frames = FrameJoiner(self.module.stack_frames if self.module else None)
        schedule = self.module.schedule if self.module else None
        self.schedule = schedule if schedule is not None and computation in schedule else None
        self.in_place_of: dict[Instruction, list[Instruction]] = {}
        """For each call that went, in a scheduled computation, what runs instead."""
        self.before: list[Instruction] = []
        """What brings the operands of a call into the layouts that its callee states."""
        self.after: list[Instruction] = []
        """The same of its result."""

    def inline(self, call: Instruction) -> Replacement:
        computation, body = self.computation, call.called[0]
        self.before, self.after = [], []
        operands = [
            laid_out(computation, x, p.shape, self.before)
            for x, p in zip(call.operands, body.parameters, strict=True)
        ]
        new_for_old: Replacement = dict(zip(body.parameters, operands, strict=True))
        order = [i for i in body.in_order() if i.opcode != "parameter"]
        copy_instructions(order, computation, new_for_old)
        for i in order:
            new = new_for_old[i]
            for before in call.control_predecessors:
                new.add_control_predecessor(before)
            self.annotate(new, call)
        root = self.result(call, new_for_old[body.root])
        root = laid_out(computation, root, call.shape, self.after)
        for after in call.control_successors:
            after.add_control_predecessor(root)
            if body.root.opcode == "parameter":  # nothing inlined hands the order on
                for before in call.control_predecessors:
                    after.add_control_predecessor(before)
        if self.schedule is not None:
            steps = self.schedule.get(body, order)
            inlined = [new_for_old[i] for i in steps if i.opcode != "parameter"]
            self.in_place_of[call] = [*self.before, *inlined, *self.after]
        computation.replace(call, root)
        computation.erase(call)
        return new_for_old

    def result(self, call: Instruction, root: Instruction) -> Instruction:
        """What readers of the call read. The result of the program keeps its own layout, and what
        it says of run-time sizes, where the callee's root has others."""
        if root.shape is call.shape or not (call.is_root and call.parent.is_entry):
            return root
        copy = self.computation.add("copy", root, shape=call.shape)
        self.annotate(copy, call)
        self.after.append(copy)
        return copy

    def finish(self) -> None:
        """Write the schedule and the stack frames."""
        if self.schedule is not None and self.in_place_of:
            order: list[Instruction] = []
            for i in self.schedule[self.computation]:
                order.extend(self.in_place_of.get(i, (i,)))
            self.schedule[self.computation] = order
        if self.module is not None:
            self.module.stack_frames = self.frames.index

    def annotate(self, i: Instruction, call: Instruction) -> None:
        """Say in metadata, original value and attributes where the instruction came from."""
        if self.propagate_metadata and call.metadata is not None:
            i.metadata = metadata_from_call(i.metadata, call.metadata, self.frames)
        if i.extra and "original_value" in i.extra:
            _prefix_original_value(i, call)
        attributes = call.frontend_attributes
        if attributes and i.opcode not in NOT_FUSIBLE:
            fuse = {k: attributes[k] for k in FUSE_ATTRIBUTES if k in attributes}
            if fuse:
                own_attributes = i.frontend_attributes or {}
                i.frontend_attributes = FrontendAttributes.of({**fuse, **own_attributes})


def metadata_from_call(own: OpMetadata | None, call: OpMetadata, frames: FrameJoiner) -> OpMetadata:
    """An instruction's metadata with the name and the frames of the call before its own.

    One without metadata gets the place of the call.
    """
    if own is None:
        own = replace(call, op_name="", stack_frame_id=0)
    frame = frames.joined(own.stack_frame_id, call.stack_frame_id)
    return replace(own.called_from(call), stack_frame_id=frame)


def _prefix_original_value(i: Instruction, call: Instruction) -> None:
    """Name the call in the original value; without a call that is known there is none."""
    assert i.extra is not None
    of_call = (call.extra or {}).get("original_value")
    if of_call is not None and of_call.is_synthetic_call:
        return
    names = {a.instruction_name for _, a in of_call.leaves() if a} if of_call is not None else ()
    own = i.extra.pop("original_value")
    if len(names) == 1:
        (name,) = names
        i.extra["original_value"] = own.prefixed(name)
    if not i.extra:
        i.extra = None


def clone_and_inline(module: Module, call: Instruction) -> Computation:
    """A copy of the call's computation in which this call is inlined; the original stays."""
    source = call.parent
    copied, new_for_old = copy_computation(source, module)
    if module.schedule is not None and source in module.schedule:
        module.schedule[copied] = [new_for_old[i] for i in module.schedule[source]]
    inline_call(new_for_old[call])
    return copied


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
    most_instructions: int = 1 << 17
    """A program that grows beyond this, and to several times its size, keeps calls of what is
    called more than once."""
    allow: Callable[[Instruction], Answer] | None = None
    """Asked for every call; True and False are "allow" and "prohibit"."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        return self.run_with_map(module, threads=threads)[0]

    def run_with_map(
        self, module: Module, *, threads: frozenset[str] = ALL_THREADS
    ) -> tuple[PassResult, Replacement]:
        """Run, and tell which instruction of a callee became which: the last copy of one that was
        inlined several times. Parameters and calls that are gone are left out."""
        fired: Counter[str] = Counter()
        all_inlined: Replacement = {}
        sparing = self.grows_too_much(module)
        for c in on_threads(module, threads):
            if any(i.opcode == "async-start" for i in c.callers):
                continue
            calls = [i for i in c.in_order() if i.opcode == "call" and self.is_inlined(i)]
            if sparing:
                calls = [i for i in calls if sum(i.called[0].callers.values()) == 1]
            if not calls:
                continue
            inlining = _Inlining(c, self.propagate_metadata)
            for call in calls:
                inlined = inlining.inline(call)
                if self.update_domain and call.sharding is not None:
                    self.share(call, inlined)
                all_inlined |= inlined
            fired["inlined"] += len(calls)
            inlining.finish()
            c.sort()
        left = {old: new for old, new in all_inlined.items() if old.opcode != "parameter"}
        left = {old: new for old, new in left.items() if new in new.parent.instructions}
        return PassResult.of(fired), left

    def grows_too_much(self, module: Module) -> bool:
        """Whether inlining every call makes far more instructions than there are."""
        most = max(self.most_instructions, SEVERAL * module.instruction_count)
        return expanded_size(module, ("call",)) > most

    def answer(self, call: Instruction) -> str:
        """What `allow` says of a call; `UsageError` for what is no answer."""
        if self.allow is None:
            return "allow"
        answer_ = self.allow(call)
        word = ANSWERS.get(answer_) if isinstance(answer_, bool | str) else None
        if word is None:
            raise UsageError(
                f"allow answers {answer_!r} for %{call.name}",
                rule="pass-option",
                hint="answer True, False, 'allow', 'prohibit' or 'allow ignoring attributes'",
            )
        return word

    def is_inlined(self, call: Instruction) -> bool:
        """Whether this call is to be inlined."""
        attributes = call.frontend_attributes or {}
        answer = self.answer(call)
        if answer == "prohibit" or call.backend_config is not None:
            return False
        if answer == "allow ignoring attributes":
            return True
        stated = attributes.get("inlineable")
        if stated in ("false", "xla_late"):
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
            return stated in ("true", "xla_early")
        return True

    def share(self, call: Instruction, new_for_old: Replacement) -> None:
        for i in new_for_old.values():
            if i.sharding is None and not i.shape.is_tuple and not call.sharding.is_tuple:
                i.sharding = call.sharding
