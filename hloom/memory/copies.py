"""Copy insertion: the fewest copies with which everything that must share a buffer can.

Loop state, branches, in-place operations, outputs and donated parameters say which values must be
one buffer (the edges of `analysis/alias_values.py`). First all are joined without any copy; where
two values would be alive together, one copy goes in at that very edge, and all is joined anew. At
the end, each copy of the module is taken out whose source and target can share a buffer after all.

Copies that several parts of one state need at one moment are ordered so that none overwrites what
another still reads; a ring of them gets one more. The order is kept, with the copies in it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hloom.analysis.alias import in_place_pairs
from hloom.analysis.alias_share import CanShare, DefaultShare
from hloom.analysis.alias_spaces import NO_SPACES, EntrySpaces, moved_to
from hloom.analysis.alias_tree import FOREVER, Edge, LogicalBuffer
from hloom.analysis.alias_values import HANDS_ON, Dataflow, PairRule
from hloom.base.diagnostics import HloError
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS, opcodes
from hloom.ir.traits import FORWARDS
from hloom.memory.flat import flatten, laid_out
from hloom.memory.groups import Groups
from hloom.plan.branches import BranchPlan
from hloom.plan.order import Order
from hloom.types.shape import tuple_shape

Index = tuple[int, ...]
Demand = Callable[[Instruction, int, Instruction], bool]
"""(user, operand number, what computes that operand) -> must it be a copy?"""
ROUNDS = 30
APART_ROUNDS = 3
"""For so long copies go in so that branches need not wait. What still would then is one buffer."""
REMOVALS = 3


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """How copies are inserted.

    `demand` lets a target have a copy of an operand whatever the buffers (a parameter that feeds a
    collective in special memory); one copy serves all who demand one of the same value.
    `remove_existing`: copies that the module came with go too where they do nothing.
    """

    can_share: CanShare | None = None
    pairs: PairRule = in_place_pairs
    demand: Demand | None = None
    remove_existing: bool = True
    spaces: EntrySpaces = NO_SPACES
    """Of the caller's arrays."""
    branches: BranchPlan | None = None
    """What is to run side by side, and overwrites nothing of the other's."""


@dataclass(frozen=True, slots=True)
class CopyResult:
    """How many copies were put in and stayed, and how many that were there went."""

    inserted: int = 0
    removed: int = 0


def insert_copies(module: Module, order: Order, options: CopyOptions | None = None) -> CopyResult:
    """Make the buffers of a module that runs in an order possible, by copies, which are added to
    both. Flattens the call graph.

    Raises `HloError` when something that runs has no order.
    """
    options = options or CopyOptions()
    flatten(module, order)
    share = options.can_share or DefaultShare()
    before = {i for c in laid_out(module) for i in c.instructions if i.opcode == "copy"}
    demanded = _demanded_copies(module, order, options.demand) if options.demand else set()
    kept_copies = demanded if options.remove_existing else demanded | before
    for _ in range(REMOVALS):
        groups = _converged(module, order, options, share)
        if not _remove_copies(groups.flow, groups, kept_copies):
            break
    else:
        _converged(module, order, options, share)
    after = {i for c in laid_out(module) for i in c.instructions if i.opcode == "copy"}
    return CopyResult(len(after - before), len(before - after))


def _converged(module: Module, order: Order, options: CopyOptions, share: CanShare) -> Groups:
    """Put copies in until every edge can join; the groups then."""
    failed: list[Edge] = []
    for number in range(ROUNDS):
        flow = Dataflow(module, order, options.pairs, options.spaces)
        groups = Groups(flow, share, options.spaces, options.branches)
        failed = groups.join_edges(apart=number < APART_ROUNDS)
        if not failed:
            return groups
        _put_copies(groups, failed)
    raise HloError(
        f"copies of module {module.name} do not come to an end at %{failed[0].site.name}",
        rule="copy-insertion",
        hint="this is a fault of hloom: please report it with the module",
    )


# -- putting copies in -----------------------------------------------------------------------


class _Inserter:
    """Adds instructions to a computation and, all together, to the order before `insertion_point`
    (None: at the end)."""

    def __init__(self, order: Order, c: Computation, insertion_point: Instruction | None) -> None:
        self.order = order
        self.computation = c
        self.insertion_point = insertion_point
        self.added: list[Instruction] = []

    def put(self, opcode: str, *operands: Instruction, **attributes: Any) -> Instruction:
        c = self.computation
        if opcode == "copy":
            x = operands[0]
            i = c.append("copy", OPS["copy"].empty, operands, x.shape, f"{x.name}.copy")
            i.metadata = x.metadata
        else:
            i = c.add(opcode, *operands, **attributes)
            if opcode == "tuple":
                i.shape = tuple_shape(x.shape for x in operands)
        self.added.append(i)
        return i

    def leaf(self, x: Instruction, index: Index) -> Instruction:
        """The instruction that is one part of x."""
        for depth, k in enumerate(index):
            if x.opcode == "tuple":
                x = x.operands[k]
                continue
            shape = x.shape.subshape(index[depth : depth + 1])
            part = self.put("get-tuple-element", x, index=k)
            part.shape = shape
            x = part
        return x

    def rebuilt(self, x: Instruction, index: Index, new: dict[Index, Instruction]) -> Instruction:
        """x with some of its parts replaced; `index` is where x itself stands."""
        if index in new:
            return new[index]
        n = len(index)
        touched = {p[n] for p in new if p[:n] == index and len(p) > n}
        if not touched:
            return x
        count = len(x.shape.elements)
        parts = []
        for k in range(count):
            part = self.leaf(x, (k,)) if (*index, k) not in new else x
            parts.append(self.rebuilt(part, (*index, k), new))
        return self.put("tuple", *parts)

    def done(self) -> None:
        self.order.insert(self.computation, self.added, self.insertion_point)


def _put_copies(groups: Groups, failed: list[Edge]) -> None:
    """One copy for each edge that failed, those of one moment together.

    Where what stands in the way is another part of the same state, that part is copied too.
    """
    sites: dict[tuple[object, ...], list[Edge]] = {}
    for e in failed:
        sites.setdefault(_site(e), []).append(e)
    others: dict[tuple[object, ...], list[Edge]] = {key: [] for key in sites}
    wrong = set(map(id, failed))
    for e in groups.flow.edges:
        if e.kind != "in-place" and id(e) not in wrong and _site(e) in others:
            others[_site(e)].append(e)
    for key, edges in sites.items():
        blocked = {id(groups.group[e.target or groups.outputs[e.index]]) for e in edges}
        edges += [e for e in others[key] if id(groups.group[e.source]) in blocked]
        _put_at(groups, edges)


def _site(e: Edge) -> tuple[object, ...]:
    """The moment of an edge: copies of one moment are put in together."""
    return e.kind, e.site, e.branch, e.pair.operand if e.pair else 0


def _put_at(groups: Groups, edges: list[Edge]) -> None:
    e = edges[0]
    order, site = groups.flow.order, e.site
    moves = e.target is not None and e.source.space != e.target.space
    if e.kind == "in-place" and len(edges) == 1 and not moves and _save_for_later(groups, e):
        return
    if e.kind in ("in-place", "init"):
        site, number = _outside(site, e.pair.operand if e.pair else 0)
        inserter = _Inserter(order, site.parent, site)
        old = site.operands[number]
        new = _with_copies(groups, inserter, old, edges)
        site.set_operands(tuple(new if k == number else x for k, x in enumerate(site.operands)))
    else:
        c = site.parent if e.kind == "output" else site.called[1 if e.kind == "carry" else e.branch]
        inserter = _Inserter(order, c, None)
        c.root = _with_copies(groups, inserter, c.root, edges)
    inserter.done()


def _outside(site: Instruction, number: int) -> tuple[Instruction, int]:
    """Where to copy an operand: an asynchronous computation holds one operation and nothing else,
    so what its operation overwrites is copied before the start."""
    x = site.operands[number]
    if x.opcode == "parameter" and site.is_root:
        for caller in site.parent.callers:
            if caller.opcode == "async-start":
                return caller, x.attrs.number
    return site, number


def _save_for_later(groups: Groups, e: Edge) -> bool:
    """Copy what an operation overwrites for those who read it later, so that it can be overwritten
    in place; False where that does not help."""
    flow, site, pair = groups.flow, e.site, e.pair
    if pair is None or groups.group[e.source].read_only:
        return False
    x = site.operands[pair.operand]
    if not x.shape.is_array or sum(flow.trees.get(o) is e.source for o in site.operands) != 1:
        return False
    if any(u not in flow.time_of for u in x.users):
        return False  # Another copy was made of it just now: see what that one does.
    later = [u for u in x.users if flow.time_of[u] > e.time]
    times = {flow.time_of[u] for u in later}
    if not later or any(u.opcode in HANDS_ON for u in later) or x.is_root:
        return False
    uses, births = e.source.uses, e.source.births
    until = min((b for b, _ in births if b > e.time), default=FOREVER)
    if times != set(uses[bisect_right(uses, e.time) : bisect_left(uses, until)]):
        return False
    inserter = _Inserter(flow.order, site.parent, site)
    saved = inserter.put("copy", x)
    inserter.done()
    for u in later:
        u.replace_operand(x, saved)
    return True


def _with_copies(
    groups: Groups, inserter: _Inserter, x: Instruction, edges: list[Edge]
) -> Instruction:
    """x with the parts of these edges copied, in an order that loses nothing."""
    parts = {_part(e): inserter.leaf(x, _part(e)) for e in edges}
    new: dict[Index, Instruction] = {}
    saved: dict[Index, Instruction] = {}
    for e, save in _in_order(groups, edges):
        index = _part(e)
        if save:
            saved[index] = inserter.put("copy", parts[index])
        else:
            new[index] = inserter.put("copy", saved.get(index, parts[index]))
    return inserter.rebuilt(x, (), new)


def _part(e: Edge) -> Index:
    """Which part of the operand or root an edge is about."""
    return e.pair.operand_index if e.pair else e.index


def _in_order(groups: Groups, edges: list[Edge]) -> Iterable[tuple[Edge, bool]]:
    """The edges in an order in which no copy overwrites what a later one reads. Where they form
    a ring, one source is saved first: (edge, True)."""
    target = [groups.group[e.target or groups.outputs[e.index]] for e in edges]
    reads: dict[int, list[int]] = {}
    for k, e in enumerate(edges):
        reads.setdefault(id(groups.group[e.source]), []).append(k)
    # blockers[k]: copies that must read before k writes.
    readers = [[j for j in reads.get(id(g), ()) if j != k] for k, g in enumerate(target)]
    writers: list[list[int]] = [[] for _ in edges]
    waiting = [len(r) for r in readers]
    for k, r in enumerate(readers):
        for j in r:
            writers[j].append(k)
    ready = [k for k in range(len(edges)) if not waiting[k]]
    done: set[int] = set()
    saved: set[int] = set()
    rest = iter(range(len(edges)))
    while len(done) < len(edges):
        if not ready:
            k = next(k for k in rest if k not in done)
            for j in readers[k]:
                if j not in done and j not in saved:
                    saved.add(j)
                    yield edges[j], True
            ready.append(k)
        k = ready.pop()
        if k in done:
            continue
        done.add(k)
        yield edges[k], False
        for w in writers[k] if k not in saved else ():
            waiting[w] -= 1
            if not waiting[w] and w not in done:
                ready.append(w)
        if k in saved:
            for w in writers[k]:
                if w not in done and all(j in done or j in saved for j in readers[w]):
                    ready.append(w)


# -- taking copies out -----------------------------------------------------------------------


def _remove_copies(flow: Dataflow, groups: Groups, kept_copies: set[Instruction]) -> int:
    """Take out each copy that can share the buffer of what it copies."""
    removed: list[Instruction] = []
    for i in flow.steps:
        if i is None or i in kept_copies or i.has_control_edges:
            continue
        if i.opcode != "copy" and not _moves_nothing(flow, i):
            continue
        if i.shape is not i.operands[0].shape:
            continue
        source, copy = flow.at(i.operands[0]), flow.at(i)
        if isinstance(source, LogicalBuffer) and groups.join_copy(source, copy):
            removed.append(i)
    touched: dict[Computation, None] = {}
    for i in removed:
        c = i.parent
        c.replace(i, i.operands[0])
        c.erase(i)
        touched[c] = None
    flow.order.drop_erased(touched)
    return len(removed)


def _moves_nothing(flow: Dataflow, i: Instruction) -> bool:
    """Whether a move goes to the memory space where its operand is, and would be without it."""
    space = moved_to(i)
    if space is None or i.opcode == "copy-start":
        return False
    x: LogicalBuffer = flow.trees[i.operands[0]]
    stays = not space or x.kind == "parameter" or moved_to(x.instruction) is not None
    return x.space == space and stays


# -- copies that a target wants --------------------------------------------------------------


def _demanded_copies(module: Module, order: Order, demand: Demand) -> set[Instruction]:
    demanded: set[Instruction] = set()
    for c in laid_out(module):
        copies: dict[Instruction, Instruction] = {}
        for i in list(order.of(c)):
            for number, x in enumerate(i.operands):
                if not x.shape.is_array or not demand(i, number, _source(x)):
                    continue
                copy = copies.get(x)
                if copy is None:
                    inserter = _Inserter(order, c, i)
                    copy = copies[x] = inserter.put("copy", x)
                    inserter.done()
                    demanded.add(copy)
                operands = list(i.operands)
                operands[number] = copy
                i.set_operands(tuple(operands))
    return demanded


_SAME_MEMORY = opcodes(FORWARDS, also=("bitcast",))


def _source(x: Instruction) -> Instruction:
    """What computes a value, behind elements of tuples made here and no-ops."""
    while True:
        if x.opcode == "get-tuple-element" and x.operands[0].opcode == "tuple":
            x = x.operands[0].operands[x.attrs.index]
        elif x.opcode in _SAME_MEMORY and x.shape.is_array:
            x = x.operands[0]
        else:
            return x
