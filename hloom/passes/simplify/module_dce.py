"""Remove the elements of a while's state, and of a barrier's operand, that nothing needs.

An element is live when it is read after the loop, by the condition, by an instruction of the
body with an effect, or by what computes another live element in the body. The least such set is
found by walking back from what is live until nothing is added.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.order import repair_schedules
from hloom.ir.values.backend_config import BackendConfig
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.passes.simplify.dce import (
    narrow_annotations,
    remove_dead_computations,
    remove_dead_instructions,
)
from hloom.rewrite.driver import Trace, is_removable
from hloom.types.shape import tuple_shape


def live_elements(loop: Instruction) -> set[int] | None:
    """Which elements of the state matter; None when the loop cannot be taken apart."""
    condition, body = loop.called
    if not loop.shape.is_tuple or body.root.opcode != "tuple" or loop.has_control_edges:
        return None
    if any(sum(c.callers.values()) != 1 or c.is_entry for c in (condition, body)):
        return None
    if loop.operands[0].opcode != "tuple" or loop.is_root:
        return None
    readers = [*loop.users, *condition.parameters[0].users, *body.parameters[0].users]
    if any(u.opcode != "get-tuple-element" for u in readers):
        return None
    if body.root is body.parameters[0] or condition.root.shape.is_tuple or body.root.users:
        return None
    live = {u.attrs.index for u in (*loop.users, *condition.parameters[0].users)}
    needed = _needed_from([i for i in body.instructions if _has_effect(i)])
    while True:
        live |= {i.attrs.index for i in needed if _is_element(i, body)}
        grown = _needed_from([body.root.operands[k] for k in live], needed)
        more = {i.attrs.index for i in grown if _is_element(i, body)} - live
        needed = grown
        if not more:
            return live
        live |= more


def _has_effect(i: Instruction) -> bool:
    return not i.is_root and i.opcode != "parameter" and not is_removable(i)


def _is_element(i: Instruction, body: Computation) -> bool:
    return i.opcode == "get-tuple-element" and i.operands[0] is body.parameters[0]


def _needed_from(
    starts: list[Instruction], known: set[Instruction] | None = None
) -> set[Instruction]:
    """Everything the starts depend on, themselves included."""
    seen = set(known or ())
    stack = [i for i in starts if i not in seen]
    seen.update(stack)
    while stack:
        i = stack.pop()
        for x in (*i.operands, *i.control_predecessors):
            if x not in seen:
                seen.add(x)
                stack.append(x)
    return seen


def _narrowed_tuple(t: Instruction, kept_elements: list[int], name: str) -> Instruction:
    operands = tuple(t.operands[k] for k in kept_elements)
    shape = tuple_shape(tuple(x.shape for x in operands))
    narrowed = t.parent.append("tuple", OPS["tuple"].empty, operands, shape, name)
    narrowed.sharding = t.sharding
    narrow_annotations(narrowed, kept_elements, t.shape)
    return narrowed


def narrow_loop(loop: Instruction, live: set[int]) -> None:
    """Rebuild the state of a loop from the live elements only."""
    kept_elements = sorted(live)
    place = {old: new for new, old in enumerate(kept_elements)}
    condition, body = loop.called
    of = loop.shape
    shape = tuple_shape(tuple(of.elements[k] for k in kept_elements))
    init = _narrowed_tuple(loop.operands[0], kept_elements, loop.operands[0].name)
    root = _narrowed_tuple(body.root, kept_elements, body.root.name)
    old_root, body.root = body.root, root
    body.erase(old_root)
    for c in (condition, body):
        remove_dead_instructions(c)
        c.parameters[0].shape = shape
        narrow_annotations(c.parameters[0], kept_elements, of)
        _renumber(c.parameters[0], place)
    old_init = loop.operands[0]
    loop.set_operands((init,))
    loop.shape = shape
    narrow_annotations(loop, kept_elements, of)
    if loop.backend_config is not None:
        loop.backend_config = renumbered_config(loop.backend_config, place)
    _renumber(loop, place)
    if not old_init.users and not old_init.is_root:
        loop.parent.erase(old_init)


def renumbered_config(config: BackendConfig, place: dict[int, int]) -> BackendConfig:
    """What is known of a loop, with the new numbers of the elements it speaks of.

    What is known of an element that went is left out.
    """
    if config.json is None:
        return config
    renumbered: dict[str, Any] = {}
    for key, value in config.json.items():
        if key in ("known_induction_variable", "knownInductionVariable"):
            value = _moved(value, place)
        elif key in ("dynamic_variables", "dynamicVariables") and isinstance(value, list):
            value = [new for x in value if (new := _moved(x, place)) is not None]
        if value is not None:
            renumbered[key] = value
    return config if renumbered == config.json else BackendConfig.from_json(renumbered)


def _moved(record: Any, place: dict[int, int]) -> Any:
    """A JSON record with a `tuple_index` (0 where it has none), renumbered; None if that went."""
    if not isinstance(record, dict):
        return record
    key = "tupleIndex" if "tupleIndex" in record else "tuple_index"
    old = record.get(key, 0)
    try:
        new = place.get(int(old))
    except (TypeError, ValueError):
        return record
    if new is None:
        return None
    return {**record, key: str(new) if isinstance(old, str) else new}


def _renumber(source: Instruction, place: dict[int, int]) -> None:
    element = OPS["get-tuple-element"].attrs
    for user in source.users:
        user.attrs = element(index=place[user.attrs.index])


def narrow_barrier(i: Instruction) -> int:
    """Let a barrier wait for those elements alone that are read behind it; how many it had more."""
    (t,) = i.operands
    if t.opcode != "tuple" or i.is_root or i.has_control_edges or not i.users:
        return 0
    if any(u.opcode != "get-tuple-element" for u in i.users):
        return 0
    live = sorted({u.attrs.index for u in i.users})
    dead = len(i.shape.elements) - len(live)
    if dead:
        of, i.shape = i.shape, tuple_shape(tuple(i.shape.elements[k] for k in live))
        i.set_operands((_narrowed_tuple(t, live, t.name),))
        narrow_annotations(i, live, of)
        _renumber(i, {old: new for new, old in enumerate(live)})
    return dead


@register
class ModuleDeadCodeElimination(Pass):
    """Remove loop state, and what barriers hand on, that nothing needs, and what computed it."""

    name = "module-dce"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        for c in reversed(list(on_threads(module, threads))):
            fired["instructions"] += remove_dead_instructions(c)
            while narrowed := _narrowed(c):
                fired += narrowed
                fired["instructions"] += remove_dead_instructions(c)
                c.sort()
        fired["computations"] += remove_dead_computations(module)
        if +fired:
            repair_schedules(module)
        return PassResult.of(+fired)


def _narrowed(c: Computation) -> Counter[str]:
    """How many elements of which loops and barriers went."""
    fired: Counter[str] = Counter()
    for i in list(c.instructions):
        if i.opcode == "while":
            live = live_elements(i)
            if live and len(live) < len(i.shape.elements):
                fired["loop elements"] += len(i.shape.elements) - len(live)
                narrow_loop(i, live)
        elif i.opcode == "opt-barrier":
            fired["barrier elements"] += narrow_barrier(i)
    return +fired
