"""The plan of a computation's fusions: every producer into its readers, or a kernel of its own.

Readers come first (the order of instructions backwards), so that when a producer's turn comes all
its readers are placed and it is known at which indices they want it. It then goes into all of
them, or into the only one, or starts a group that its readers read from memory. A value that is
kept has one group; a cheap one may be in several. Such groups never make a cycle: what joins has
no reader outside, or is computed once more.

Each edge leaves a decision: the producer, a result of the reader's kernel, and why not (or None).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hloom.analysis.fusible import ALONE, RENAMES, role
from hloom.analysis.fusion_form import Form, Roles
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import PLUMBING
from hloom.passes.fuse import cost
from hloom.passes.fuse.group import SCALARS, FusionGroup, Limits

FUSED = None
QUIET = opcodes(PLUMBING)
OUTSIDE = "it is read outside of kernels"
KEPT = "it is kept for another reader, and dear to compute twice"
MANY = "it has too many readers to be computed in each"


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one edge. `reason` None: fused."""

    producer: Instruction
    consumer: Instruction
    reason: str | None

    @property
    def is_fused(self) -> bool:
        return self.reason is None


@dataclass
class FusionPlan:
    """The groups of a computation, in no order, and where each instruction is."""

    computation: Computation
    limits: Limits
    groups: list[FusionGroup] = field(default_factory=list)
    where: dict[Instruction, dict[FusionGroup, None]] = field(default_factory=dict)
    """The groups an instruction is computed in."""
    owner: dict[Instruction, FusionGroup] = field(default_factory=dict)
    """The group of which an instruction is a result."""
    standing: set[Instruction] = field(default_factory=set)
    """Views and constants that are computed in groups and stand in the graph as well."""
    roles: Roles = field(default_factory=Roles)
    position: dict[Instruction, int] = field(default_factory=dict)
    """Program order."""
    edges: list[tuple[Instruction, Instruction, str | None]] = field(default_factory=list)

    def decisions(self) -> list[Decision]:
        """What became of every edge that was looked at: the last word on each."""
        last = {(producer, consumer): reason for producer, consumer, reason in self.edges}
        return [Decision(*edge, reason) for edge, reason in last.items()]

    def declined(self, p: Instruction, groups: Iterable[FusionGroup], reason: str) -> None:
        for g in groups:
            self.edges.append((p, next(iter(g.roots)), reason))


def planned(computation: Computation, limits: Limits) -> FusionPlan:
    """Producers into readers. Changes nothing."""
    plan = FusionPlan(computation, limits)
    plan.roles.inner_flops = limits.costs.inner_product_flops
    order = computation.in_order()
    plan.position = {p: at for at, p in enumerate(order)}
    for at in range(len(order) - 1, -1, -1):
        _place(plan, order[at], at)
    return plan


def _place(plan: FusionPlan, p: Instruction, at: int) -> None:
    plan.roles[p] = kind, why = role(p)
    groups, outside = _readers(plan, p)
    if kind == ALONE:
        if p.opcode not in QUIET:
            plan.declined(p, groups, why)
        return
    view = cost.is_view(p, plan.limits.costs, plan.limits.cached_bytes)
    view = view or any(g.reads_components(p) for g in groups)
    if groups:
        why = _join(plan, p, groups, outside, view)
        if why is None:
            return
    if p.opcode in RENAMES or p.opcode == "constant":
        if p in plan.where:
            plan.standing.add(p)
        return
    if not p.users and p is not plan.computation._root:
        return
    if not _start(plan, p, at) and p in plan.where:
        plan.standing.add(p)


def _readers(plan: FusionPlan, p: Instruction) -> tuple[list[FusionGroup], bool]:
    """The groups that read it, and whether anything else does."""
    where = plan.where
    outside = p is plan.computation._root
    groups: dict[FusionGroup, None] = {}
    for u in p.users:
        holders = where.get(u)
        if holders is None or u in plan.standing:
            outside = True
        for g in holders or ():
            if p in g.form.accesses:
                groups[g] = None
            else:  # written in place
                outside = True
    return list(groups), outside


def _join(
    plan: FusionPlan, p: Instruction, groups: list[FusionGroup], outside: bool, view: bool
) -> str | None:
    """Put a producer into the groups that read it; None when it needs no group of its own."""
    limits = plan.limits
    refusals = [g.refuses(p, limits) for g in groups]
    if len(groups) > 1 and not p.shape.dims and cost.weight(p, limits.costs):
        most = limits.scalar_copies
        refusals = [
            why or (SCALARS if g.account.scalar_copies >= most else None)
            for g, why in zip(groups, refusals)
        ]
    willing = [g for g, why in zip(groups, refusals) if why is None]
    everywhere = not outside and len(willing) == len(groups)
    if everywhere and len(groups) > 1 and not view:
        everywhere = p.opcode not in ("reduce", "dot", "convolution") and _is_copied(
            plan, p, groups
        )
    if everywhere or view:
        for g in willing:
            g.admit(p, len(groups), limits.costs)
            plan.edges.append((p, next(iter(g.roots)), FUSED))
        if willing:
            plan.where[p] = dict.fromkeys(willing)
        if everywhere:
            return None
    for g, why in zip(groups, refusals):
        if why is None and view:
            continue
        if why is None:
            why = OUTSIDE if outside else (MANY if len(groups) > limits.copies else KEPT)
        plan.edges.append((p, next(iter(g.roots)), why))
    return KEPT


def _is_copied(plan: FusionPlan, p: Instruction, groups: list[FusionGroup]) -> bool:
    """Whether a value is computed in each of several kernels."""
    limits = plan.limits
    if len(groups) > limits.copies and (
        len(groups) > limits.plain_copies
        or not (
            cost.is_tiny(p, limits.costs, limits.vector_floats)
            or cost.reads_no_more(p, limits.costs)
        )
    ):
        return False
    costs, floats = limits.costs, limits.vector_floats
    if not cost.is_cheap_twice(p, len(groups), limits.copy_weight, costs, floats):
        return False
    w = cost.weight(p, limits.costs)
    return all(g.account.copies + w <= limits.copies_weight for g in groups)


def _start(plan: FusionPlan, p: Instruction, at: int) -> bool:
    """Make a group whose result is `p`; whether it can be one."""
    form = Form([p], plan.roles)
    if form.start() is not None or form.refuses(p) is not None:
        return False
    g = FusionGroup(form, at)
    form.admit(p)
    plan.groups.append(g)
    plan.owner[p] = g
    plan.where.setdefault(p, {})[g] = None
    return True


def is_sequential(c: Computation) -> bool:
    """Whether a computation runs as a program: the entry, bodies of loops, branches, callees."""
    if c.is_entry:
        return True
    return bool(c.callers) and all(i.opcode in ("while", "conditional", "call") for i in c.callers)


def is_loop_body(c: Computation) -> bool:
    """Whether it runs once for each turn of a loop."""
    return any(i.opcode == "while" for i in c.callers)
