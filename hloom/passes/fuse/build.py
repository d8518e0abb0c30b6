"""Puts a plan into the graph: a body and a fusion for each group of more than one instruction.

Bodies are written in one canonical way (values in post order from the results, parameters in the
order they are met, names from opcodes), so that equal kernels have equal bodies.
"""

from __future__ import annotations

from collections.abc import Iterable

from hloom.analysis.fusion_form import OUTPUT
from hloom.base.faults import blamed
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.values.backend_config import BackendConfig
from hloom.passes.fuse.fusion_plan import FusionPlan
from hloom.passes.fuse.group import FusionGroup
from hloom.types.shape import tuple_shape

CONFIGS: dict[str, BackendConfig] = {
    kind: BackendConfig.from_json({"fusion_config": {"kind": kind}})
    for kind in ("loop", "row", "column", "output", "sequence")
}


def apply_plan(plan: FusionPlan, module: Module) -> int:
    """Replace the members of every group by a fusion; how many fusions were made."""
    c = plan.computation
    fusions: list[tuple[list[Instruction], Instruction]] = []
    gone: dict[Instruction, None] = {}
    for g in plan.groups:
        if g.dead:
            continue
        g.trim()
        kind = group_kind(g)
        if len(g.members) < 2 or kind in plan.limits.without:
            continue
        roots = list(g.roots)
        with blamed("fusion", kind):
            fusions.append((roots, _fusion(c, module, g, roots)))
        gone.update(g.members)
    if not fusions:
        return 0
    new_for_old: dict[Instruction, Instruction] = {}
    for roots, fusion in fusions:
        new_for_old |= _results(c, roots, fusion)
    c.replace_all(new_for_old)
    _erase(c, gone)
    c.sort()
    return len(fusions)


def group_kind(g: FusionGroup) -> str:
    """`loop`, `row`, `column`, `output`, or `sequence` for results of several shapes."""
    return "sequence" if g.is_sequence else g.form.kind


def _fusion(
    c: Computation, module: Module, g: FusionGroup, roots: list[Instruction]
) -> Instruction:
    kind = group_kind(g)
    fused = {"row": "kInput", "column": "kInput", OUTPUT: "kOutput"}.get(kind, "kLoop")
    return _appended(c, module, g.members, roots, fused, CONFIGS[kind])


def fuse_members(
    c: Computation,
    module: Module,
    members: dict[Instruction, None],
    root: Instruction,
    kind: str,
    config: BackendConfig,
) -> Instruction:
    """Replace some instructions with one result by a fusion of this kind, and return it."""
    fusion = _appended(c, module, members, [root], kind, config)
    c.replace(root, fusion)
    _erase(c, members)
    return fusion


def _appended(
    c: Computation,
    module: Module,
    members: dict[Instruction, None],
    roots: list[Instruction],
    kind: str,
    config: BackendConfig,
) -> Instruction:
    body = module.add_computation("fused_computation", thread=c.execution_thread)
    inputs = _fill(body, members, roots)
    attrs = OPS["fusion"].attrs(kind=kind)
    name = f"{roots[0].name}.fusion" if len(roots) == 1 else "multi_output.fusion"
    fusion = c.append("fusion", attrs, tuple(inputs), body.root.shape, name, (body,))
    fusion.metadata = roots[0].metadata
    fusion.frontend_attributes = roots[0].frontend_attributes
    fusion.sharding = roots[0].sharding if len(roots) == 1 else None
    fusion.backend_config = config
    return fusion


def _fill(
    body: Computation, members: dict[Instruction, None], roots: list[Instruction]
) -> list[Instruction]:
    """Copy members into a body; return what the parameters stand for, in their order."""
    inside: dict[Instruction, Instruction] = {}
    inputs: list[Instruction] = []
    for p in _post_order(members, roots):
        if p in members:
            operands = tuple([inside[x] for x in p.operands])
            copy = body.append(p.opcode, p.attrs, operands, p.shape, p.opcode, p.called)
            copy.metadata = p.metadata
            copy.frontend_attributes = p.frontend_attributes
        else:
            number = len(inputs)
            attrs = OPS["parameter"].attrs(number=number)
            copy = body.append("parameter", attrs, (), p.shape, f"param_{number}")
            inputs.append(p)
        inside[p] = copy
    if len(roots) == 1:
        body.root = inside[roots[0]]
    else:
        results = tuple([inside[r] for r in roots])
        shape = tuple_shape([r.shape for r in results])
        body.root = body.append("tuple", OPS["tuple"].empty, results, shape, "tuple")
    return inputs


def _post_order(
    members: dict[Instruction, None], roots: Iterable[Instruction]
) -> dict[Instruction, None]:
    """Members and inputs, operands first."""
    done: dict[Instruction, None] = {}
    for root in roots:
        stack = [root]
        while stack:
            p = stack[-1]
            if p in done:
                stack.pop()
                continue
            waiting = [x for x in p.operands if x not in done] if p in members else []
            if waiting:
                stack.extend(reversed(waiting))
            else:
                done[p] = None
                stack.pop()
    return done


def _results(
    c: Computation, roots: list[Instruction], fusion: Instruction
) -> dict[Instruction, Instruction]:
    """What readers of the results are to read of the fusion."""
    if len(roots) == 1:
        return {roots[0]: fusion}
    attrs = OPS["get-tuple-element"].attrs
    parts: dict[Instruction, Instruction] = {}
    for k, r in enumerate(roots):
        part = c.append("get-tuple-element", attrs(index=k), (fusion,), r.shape, r.name)
        part.sharding = r.sharding
        parts[r] = part
    return parts


def _erase(c: Computation, gone: dict[Instruction, None]) -> None:
    """Erase what is computed in fusions now, and the constants and views only that read."""
    stack = [p for p in gone if not p.users]
    while stack:
        p = stack.pop()
        if p not in c.instructions or p.users or p is c._root or p.opcode == "parameter":
            continue
        if p in gone or p.opcode in ("reshape", "bitcast", "constant"):
            stack.extend(c.erase(p))
