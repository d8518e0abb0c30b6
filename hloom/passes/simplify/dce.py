"""Remove what nothing reads: instructions, tuple outputs of fusions, computations."""

from __future__ import annotations

from collections import Counter

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.order import repair_schedules
from hloom.ir.values.sharding import Sharding
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace, is_removable
from hloom.rewrite.fusion import drop_unread_operands
from hloom.types.shape import Shape, tuple_shape


def remove_dead_instructions(computation: Computation) -> int:
    """Erase what nothing reads, in one sweep from readers to operands; return how many went.

    May run on one computation alone, after a rewrite that stopped half-way.
    """
    stack = [i for i in computation.instructions if not i.users]
    erased = 0
    while stack:
        i = stack.pop()
        if i not in computation.instructions or i.users or i.is_root or not is_removable(i):
            continue
        stack.extend(computation.erase(i))
        erased += 1
    return erased


def remove_dead_computations(module: Module) -> int:
    """Remove computations nobody calls, callers first so that chains go in one sweep."""
    removed = 0
    for c in reversed(module.computations_in_order()):
        if not c.callers and not c.is_entry:
            module.remove_computation(c)
            removed += 1
    return removed


def narrowed_sharding(s: Sharding | None, of: Shape, kept_elements: list[int]) -> Sharding | None:
    """What a sharding of a tuple says of the elements that are kept, of one of them alone."""
    if s is None or (s.is_tuple and len(s.elements) != of.leaf_count):
        return None
    starts = [sum([e.leaf_count for e in of.elements[:k]]) for k in kept_elements]
    leaves = [
        s.for_leaf(start + k)
        for start, element in zip(starts, kept_elements)
        for k in range(of.elements[element].leaf_count)
    ]
    if len(kept_elements) == 1 and not of.elements[kept_elements[0]].is_tuple:
        return leaves[0] if leaves else None
    return Sharding.tuple_of(*leaves)


def narrow_annotations(i: Instruction, kept_elements: list[int], of: Shape) -> None:
    """Fit what is said of a tuple, which had a shape, to the elements that are kept."""
    s = narrowed_sharding(i.sharding, of, kept_elements)
    i.sharding = Sharding.tuple_of(s) if s is not None and i.shape.is_tuple else s
    if not i.extra:
        return
    extra = dict(i.extra)
    extra.pop("parameter_replication", None)
    original = extra.pop("original_value", None)
    if original is not None:
        original = (
            original.elements(kept_elements)
            if i.shape.is_tuple
            else original.element(kept_elements[0])
        )
    if original is not None:
        extra["original_value"] = original
    i.extra = extra or None


def narrow_fusion(fusion: Instruction) -> bool:
    """Drop the tuple outputs of a fusion that nobody reads; True if something went."""
    body = fusion.called[0]
    if body.root.opcode != "tuple" or sum(body.callers.values()) != 1 or fusion.is_root:
        return False
    if fusion.has_control_edges or fusion.attrs.output_to_operand_aliasing:
        return False
    if not fusion.users or any(
        u.opcode != "get-tuple-element" or u.has_control_edges for u in fusion.users
    ):
        return False
    if any(i.has_control_edges for i in body.instructions):
        return False
    live = sorted({u.attrs.index for u in fusion.users})
    outputs = body.root.operands
    if len(live) == len(outputs):
        return False
    old_root, of = body.root, fusion.shape
    if len(live) == 1:
        body.root = outputs[live[0]]
        fusion.shape = fusion.shape.elements[live[0]]
        for user in list(fusion.users):
            fusion.parent.replace(user, fusion)
            fusion.parent.erase(user)
    else:
        shape = tuple_shape(tuple(fusion.shape.elements[k] for k in live))
        live_outputs = tuple(outputs[k] for k in live)
        body.root = body.append("tuple", OPS["tuple"].empty, live_outputs, shape, old_root.name)
        schedule = body.module.schedule if body.module is not None else None
        if schedule is not None and body in schedule:
            schedule[body] = [body.root if i is old_root else i for i in schedule[body]]
        fusion.shape = shape
        for user in fusion.users:
            user.attrs = OPS["get-tuple-element"].attrs(index=live.index(user.attrs.index))
    narrow_annotations(fusion, live, of)
    body.erase(old_root)
    return True


@register
class DeadCodeElimination(Pass):
    """Remove dead instructions without side effects, dead fusion outputs, dead computations."""

    name = "dce"
    gives = (no_dead_code,)

    remove_dead_fusion_outputs: bool = True

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        for c in reversed(list(on_threads(module, threads))):
            if not c.callers and not c.is_entry:
                continue
            erased = remove_dead_instructions(c)
            if self.remove_dead_fusion_outputs:
                fusions = [i for i in c.instructions if i.opcode == "fusion"]
                narrowed = [i for i in fusions if narrow_fusion(i)]
                fired["fusion outputs"] += len(narrowed)
            fired["instructions"] += erased
        for c in on_threads(module, threads):
            bodies = [i.called[0] for i in c.instructions if i.opcode == "fusion"]
            if dropped := sum(drop_unread_operands(body) for body in bodies):
                fired["fusion operands"] += dropped
                fired["instructions"] += remove_dead_instructions(c)
        if removed := remove_dead_computations(module):
            fired["computations"] += removed
        if fired.total():
            repair_schedules(module)
        return PassResult.of(+fired)
