"""Merge kernels into kernels of several results.

Three reasons, in this order: a kernel reads what another makes, at the same indices (the value is
still kept for others, but this reader need not read it); two kernels read the same large input; in
the body of a loop, kernels are so small that starting them is most of their time. The last makes
sequences, whose results may have different shapes.
"""

from __future__ import annotations

from collections.abc import Iterable

from hloom.analysis.fusion_buffers import buffer_key
from hloom.analysis.fusion_form import (
    COLUMN,
    LOOP,
    OUTPUT,
    READS_TARGET,
    ROW,
    Form,
    derived,
)
from hloom.device.costs import Costs
from hloom.ir.instruction import Instruction
from hloom.passes.fuse import cost
from hloom.passes.fuse.fusion_plan import FusionPlan
from hloom.passes.fuse.group import (
    DEEP,
    OPERANDS,
    TOO_DEAR,
    TOO_MANY,
    FusionGroup,
    count_moves,
)
from hloom.passes.fuse.order import KernelOrder
from hloom.types.sizes import top_bytes

MOST_RESULTS = 24
MOST_READERS = 12
MOST_OPEN = 6
"""With how many sequences a further small kernel is tried."""
ACROSS = "a reduce reads its rows in order"
OVERWRITTEN = "a buffer would be read after it is overwritten"


class Merger:
    """Merges the groups of one plan."""

    def __init__(self, plan: FusionPlan) -> None:
        self.plan = plan
        self.order = KernelOrder(plan)

    # -- reasons to merge

    def into_readers(self) -> None:
        """Merge kernels with those that read their results at the same indices."""
        for g in sorted(self.plan.groups, key=self.order.number.__getitem__):
            if g.dead or g.form.kind == OUTPUT:
                continue
            for r in list(g.roots):
                for reader in self.readers(r):
                    if reader.dead or g.dead or r in reader.members:
                        continue
                    merged = self.merge(g, reader, r)
                    if isinstance(merged, FusionGroup):
                        g = merged

    def siblings(self) -> None:
        """Merge kernels that read the same large input."""
        cached_bytes = self.plan.limits.cached_bytes
        for x in self.plan.position:
            if len(x.users) < 2 or not x.shape.is_array or top_bytes(x.shape) <= cached_bytes:
                continue
            by_space: dict[object, list[FusionGroup]] = {}
            for g in self.readers(x)[:MOST_READERS]:
                if g.dead or x not in g.form.accesses or g.form.kind == OUTPUT:
                    continue
                for other in by_space.setdefault(_space(g), []):
                    merged = self.merge(other, g, x)
                    if isinstance(merged, FusionGroup):
                        by_space[_space(g)].remove(other)
                        g = merged
                        break
                by_space.setdefault(_space(g), []).append(g)

    def sequences(self) -> None:
        """Merge the small kernels of a loop's body."""
        most = self.plan.limits.sequence_elements
        small = [
            g
            for g in self.plan.groups
            if not g.dead and g.form.kind == LOOP and _steps(g.form) <= most
        ]
        small.sort(key=self.order.number.__getitem__)
        done: list[FusionGroup] = []
        for g in small:
            for k in range(len(done) - 1, max(-1, len(done) - 1 - MOST_OPEN), -1):
                other = done[k]
                merged = self.merge(other, g, next(iter(other.roots)), sequence=True)
                if isinstance(merged, FusionGroup):
                    done[k] = merged
                    break
            else:
                done.append(g)

    # -- how

    def readers(self, x: Instruction) -> list[FusionGroup]:
        """The kernels that read a value from memory, in their order."""
        where = self.plan.where
        groups = {
            g: None for u in x.users for g in where.get(u, ()) if x not in g.members and not g.dead
        }
        return sorted(groups, key=self.order.number.__getitem__)

    def merge(
        self, a: FusionGroup, b: FusionGroup, because: Instruction, sequence: bool = False
    ) -> FusionGroup | str:
        """Make two groups one; why not, when they cannot be."""
        merged: FusionGroup | str = "results of another shape"
        if sequence or _compatible(a, b):
            merged = self._unsafe(a, b) or self._combined(a, b, sequence)
        why = merged if isinstance(merged, str) else None
        edge = (because, next(iter(b.roots)), why)
        if not sequence or why is None:
            self.plan.edges.append(edge)
        if isinstance(merged, FusionGroup):
            self._replace(a, b, merged)
        return merged

    def _combined(self, a: FusionGroup, b: FusionGroup, sequence: bool) -> FusionGroup | str:
        limits = self.plan.limits
        members = a.members | b.members
        if limits.full(members):
            return TOO_MANY
        updated = [t.operands[0] for f in (*a.forms, *b.forms) for t in f.targets.values()]
        if any(x in members for x in updated):
            return "the buffer that is updated is made in the fusion"
        roots = self._results(a, b)
        if not roots:  # all that read them compute them again
            return "nothing reads their results"
        if len(roots) > MOST_RESULTS:
            return "too many results"
        ordered = sorted(members, key=self.plan.position.__getitem__, reverse=True)
        moves: dict[Instruction, int] = {}
        if max([count_moves(p, moves) for p in ordered], default=0) > limits.moves:
            return DEEP
        form: Form | str = "results of another shape"
        if _compatible(a, b):
            form = derived(roots, ordered, self.plan.roles)
            if isinstance(form, Form):
                form = self._refusal(form, a, b) or form
        if isinstance(form, str):
            return self._sequence(a, b, roots, ordered) if sequence else form
        if len(form.inputs()) > limits.operands:
            return OPERANDS
        group = FusionGroup(form, 0)
        group.account = _joined(a, b)
        return group

    def _sequence(
        self,
        a: FusionGroup,
        b: FusionGroup,
        roots: list[Instruction],
        ordered: list[Instruction],
    ) -> FusionGroup | str:
        """Both, one after the other, in one kernel."""
        forms: list[Form] = []
        limits = self.plan.limits
        spent = 0.0
        for old in (*a.forms, *b.forms):
            own = [r for r in old.roots if r in roots]
            if not own:
                continue
            form = Form(own, self.plan.roles)
            why = form.start()
            if why is not None:
                return why
            for p in ordered:
                if p in form.accesses:
                    if (why := form.admit(p)) is not None:
                        return why
                    spent += _again(form, p, limits.costs)
            if (why := form.finish()) is not None:
                return why
            forms.append(form)
        if spent > _worth_a_kernel(limits.costs):
            return TOO_DEAR
        group = FusionGroup(forms[0], 0)
        group.forms = forms
        group.roots = dict.fromkeys(roots)
        group.members = {p: None for p in ordered if any(p in f.members for f in forms)}
        group.account = _joined(a, b)
        targets = {key: f for f in forms for key in f.targets}
        if sum(len(f.targets) for f in forms) != len(targets):
            return "two updates of one buffer"
        for f in forms:
            if any(targets.get(buffer_key(x), f) is not f for x in f.inputs()):
                return READS_TARGET
        return OPERANDS if len(group.inputs()) > limits.operands else group

    def _results(self, a: FusionGroup, b: FusionGroup) -> list[Instruction]:
        """The results of both that are still wanted outside, in program order."""
        plan = self.plan
        results = [
            r
            for r in (*a.roots, *b.roots)
            if r is plan.computation._root or any(self._reads(u, r, a, b) for u in r.users)
        ]
        return sorted(dict.fromkeys(results), key=plan.position.__getitem__)

    def _reads(self, u: Instruction, r: Instruction, a: FusionGroup, b: FusionGroup) -> bool:
        """Whether a reader of `r` reads it from memory once `a` and `b` are one."""
        groups = self.plan.where.get(u)
        if groups is None or u in self.plan.standing:
            return True
        return any(g is not a and g is not b and r not in g.members for g in groups)

    def _refusal(self, form: Form, a: FusionGroup, b: FusionGroup) -> str | None:
        """Why a legal kernel is not a good one."""
        for r in form.roots:
            if len(form.accesses[r]) > 1:
                return "it reads the result at other indices"
        limits = self.plan.limits
        if form.kind in (ROW, COLUMN) and _reads_across(form, limits.cached_bytes):
            return ACROSS
        if form.kind == ROW and not (a.form.kind == b.form.kind == ROW and self._apart(a, b)):
            sizes = form.space.sizes
            columns = form.space.steps[-1] // (form.space.steps[form.lead - 1] if form.lead else 1)
            rows = form.space.steps[-1] // columns
            if len(sizes) == form.outer or form.waiting or not self._apart(a, b):
                if columns * 8 > limits.row_bytes:
                    return "its rows do not fit the cache"
                if columns > limits.row_parallel // 4 and rows < limits.least_rows:
                    return "too few rows for threads"
        spent = 0.0
        for p in form.members:
            spent += _again(form, p, limits.costs) if p not in form.prologue else 0.0
        most = sum(x.account.again for x in (a, b))
        return TOO_DEAR if spent > most * 1.01 + _worth_a_kernel(limits.costs) else None

    def _apart(self, a: FusionGroup, b: FusionGroup) -> bool:
        return not any(r in b.form.accesses for r in a.roots) and not any(
            r in a.form.accesses for r in b.roots
        )

    def _unsafe(self, a: FusionGroup, b: FusionGroup) -> str | None:
        """Why one kernel would run in the wrong order with others."""
        why = self.order.obstacle(a, b)
        if why is not None:
            return why
        first = min(self.order.number[a], self.order.number[b])
        for group in (a, b):
            for f in group.forms:
                for target in f.targets.values():
                    for u in target.operands[0].users:
                        for node in self._nodes(u):
                            if node is not a and node is not b and self.order.number[node] > first:
                                return OVERWRITTEN
        return None

    def _nodes(self, u: Instruction) -> Iterable[FusionGroup | Instruction]:
        return self.plan.where.get(u, (u,))

    def _replace(self, a: FusionGroup, b: FusionGroup, merged: FusionGroup) -> None:
        plan = self.plan
        self.order.merged(a, b, merged)
        a.dead = b.dead = True
        plan.groups.append(merged)
        for old in (a, b):
            for p in old.members:
                groups = plan.where.setdefault(p, {})
                groups.pop(old, None)
                if p in merged.members:
                    groups[merged] = None
            for r in old.roots:
                if r in merged.roots:
                    plan.owner[r] = merged
                else:
                    del plan.owner[r]


def _joined(a: FusionGroup, b: FusionGroup) -> cost.Account:
    return cost.Account(a.account.again + b.account.again, a.account.copies + b.account.copies)


def _worth_a_kernel(costs: Costs) -> float:
    """How many cheap operations take as long as the start of a kernel."""
    return costs.kernel_ns / costs.operation_ns


def _again(form: Form, p: Instruction, costs: Costs) -> float:
    """Weighted operations beyond computing each element once."""
    w = cost.read_weight(p, costs)
    if w == 0 or p.opcode in ("reduce", "dot", "convolution", "dynamic-update-slice"):
        return 0.0
    evaluations = sum(form.space.evaluations(m) for m in form.accesses[p])
    return max(0.0, evaluations - p.shape.size) * w


def _reads_across(form: Form, cached_bytes: int) -> bool:
    """Whether long rows of a large array, which are folded, would be read from columns: a line of
    memory for each element. Turned by itself it is read and written in tiles."""
    return any(
        p.opcode == "transpose"
        and top_bytes(p.shape) > cached_bytes
        and cost.moves_minor(p)
        and cost.has_long_rows(p)
        for p in form.members
    )


def _steps(form: Form) -> int:
    return form.space.steps[form.outer - 1] if form.outer else 1


def _space(g: FusionGroup) -> object:
    """Groups that can be one have the same."""
    form = g.form
    if form.kind == COLUMN:
        return (COLUMN, form.pattern)
    return tuple(form.space.sizes[: max(form.outer, form.lead + len(form.columns))])


def _compatible(a: FusionGroup, b: FusionGroup) -> bool:
    """A quick first question before the form of both is derived."""
    if a.is_sequence or b.is_sequence:
        return False
    x, y = a.form, b.form
    if OUTPUT in (x.kind, y.kind):
        return False
    if COLUMN in (x.kind, y.kind):
        if x.kind == y.kind:
            return x.pattern == y.pattern
        column, loop = (x, y) if x.kind == COLUMN else (y, x)
        kept_sizes = column.space.sizes[: column.lead]
        return loop.kind == LOOP and loop.space.sizes[: loop.outer] == kept_sizes
    if x.kind == y.kind == LOOP:
        return x.space.sizes[: x.outer] == y.space.sizes[: y.outer]
    if x.kind == y.kind == ROW:
        return _space(a) == _space(b)
    row, loop = (x, y) if x.kind == ROW else (y, x)
    outer = loop.space.sizes[: loop.outer]
    return outer in (row.space.sizes[: row.lead], row.space.sizes)


def merged(plan: FusionPlan, in_loop: bool) -> None:
    """Merge the groups of a plan; `in_loop`: it is of the body of a loop."""
    merger = Merger(plan)
    merger.into_readers()
    merger.siblings()
    if in_loop and plan.limits.sequence_elements:
        merger.sequences()
