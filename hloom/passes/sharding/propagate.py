"""From the shardings that a program says to those of all its values.

Each instruction is looked at again whenever one of its values gets to be cut further. What is cut
along a factor (`factors.py`) in one value is cut so in the others, and an axis serves one factor
of an instruction only. Where values disagree, that factor wins whose values are larger: the
others are what is moved. Axes are only ever added, so that this ends.

What costs nothing comes first: values that are only handed on and elementwise operations, then
instructions forward, then backward, then what needs neighbours' elements (`Phase`). `LoopOrder`
says whether what is said inside of loops spreads before what is said around them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE, FORWARDS, RESHAPES
from hloom.ir.values.sharding_sdy import BARRIER, DIRECTION, allowed_directions
from hloom.passes.sharding.axes import Axes
from hloom.passes.sharding.factors import Dimensions, Factor, Factors, Kind, factors
from hloom.passes.sharding.manual_values import crossed, spread_manual
from hloom.passes.sharding.nodes import Node, Nodes


class Phase(IntEnum):
    """What may be done; the earlier ones are done to the end first."""

    SAME = 0
    """Between values of one form: elementwise, transposed, reshaped, handed on."""
    FORWARD = 1
    """From the operands of any instruction to its results."""
    BACKWARD = 2
    """To operands too: dots, broadcasts, folds."""
    MOVING = 3
    """Along dimensions whose elements move: slices, padding, windows."""


class LoopOrder(IntEnum):
    """When what is said inside of loops spreads."""

    LATE = 0
    """Together with all else."""
    FIRST = 1
    """Before what is said around them, the innermost ones' first."""
    FIRST_AND_ALONE = 2
    """And what is around a loop cuts its state no further."""


BORDERS = ("SPMDFullToShardShape", "SPMDShardToFullShape")
"""Calls that give the part of a value inside of a region, and the value of its parts."""

_SPREAD = "broadcast"
"""To its result as early as those below, so that all operands of elementwise operations say what
they have to say before one of them is taken for all."""
_EARLY = opcodes(ELEMENTWISE, RESHAPES, FORWARDS, also=("transpose", "copy", _SPREAD))


@dataclass(slots=True, eq=False)
class Step:
    """An instruction (or a handing on) as factors over nodes."""

    at: Instruction
    table: Factors
    nodes: list[Node]
    """One for each of `table.tensors`."""
    is_early: bool
    extends: tuple[bool, bool] = (True, True)
    """Whether operands may be cut further, and whether results may."""
    is_border: bool = False
    """Whether the nodes are a value outside of a region that the program partitions itself, and
    its part inside."""
    phases: tuple[Phase, ...] = field(init=False)
    """In which something is done that an earlier one does not do."""

    def __post_init__(self) -> None:
        self.phases = tuple(Phase)[0 if self.is_early else 1 :]
        if self.is_border or any(f.kind == Kind.PERMUTE for f in self.table.factors):
            return
        if _joins_spread(self.at):
            self.phases = Phase.SAME, Phase.MOVING
        elif self.is_early:
            is_spread = self.at.opcode == _SPREAD
            self.phases = (Phase.SAME, Phase.BACKWARD) if is_spread else (Phase.SAME,)
        else:
            self.phases = Phase.FORWARD, Phase.BACKWARD


class Propagation:
    """Runs until nothing changes, or `limit` steps; `steps` is how many there were."""

    def __init__(self, nodes: Nodes, limit: int, loops: LoopOrder = LoopOrder.LATE) -> None:
        self.nodes, self.limit, self.steps = nodes, limit, 0
        self.loops, self.depths, self._depth = loops, nodes.flow.depths, 0
        self.is_stopped = False
        self.steps_of: dict[Node, list[int]] = defaultdict(list)
        self.all_steps: list[Step] = []
        self._queue: list[tuple[int, int]] = []
        self._waiting: set[tuple[int, int]] = set()
        self._sizes: dict[tuple[int, Axes], int] = {}
        self._collect()

    def _collect(self) -> None:
        for c in reversed(self.nodes.flow.computations):
            for i in c.in_order():
                table = factors(i)
                if table is not None:
                    operands = [self._operand(x) for x in i.operands]
                    results = [self.nodes.of(i, k) for k in range(len(table.results))]
                    self._add(Step(i, table, [*operands, *results], i.opcode in _EARLY))
                elif i.opcode == "custom-call" and i.attrs.custom_call_target == BARRIER:
                    self._barrier(i)
                elif i.opcode == "custom-call" and i.attrs.custom_call_target in BORDERS:
                    self._border(i)
        handed = [(h.at, h.source, h.target) for h in self.nodes.flow.handed]
        alike = [(target[0], source, target) for source, target in self.nodes.alike]
        for at, source, target in [*handed, *alike]:
            a, b = self.nodes.of(*source), self.nodes.of(*target)
            if a is not b and a.shape.is_array and a.shape.dims == b.shape.dims:
                self._add(Step(at, _identity(a), [a, b], True))

    def _barrier(self, i: Instruction) -> None:
        """What a barrier of Shardy lets through goes one way only, if any."""
        allowed = allowed_directions((i.frontend_attributes or {}).get(DIRECTION, ""))
        if "forward" not in allowed and i.shape.is_array:
            self.nodes.of(i).why.append("a barrier that lets no sharding of its operand through")
        if not allowed or not i.shape.is_array or len(i.operands) != 1:
            return
        a, b = self._operand(i.operands[0]), self.nodes.of(i)
        ways = "backward" in allowed, "forward" in allowed
        self._add(Step(i, _identity(b), [a, b], True, ways))

    def _border(self, i: Instruction) -> None:
        """Axes that a region leaves to us go on through its border."""
        if len(i.operands) != 1 or not i.shape.is_array or not i.operands[0].shape.is_array:
            return
        nodes = [self._operand(i.operands[0]), self.nodes.of(i)]
        if i.attrs.custom_call_target == BORDERS[1]:
            nodes.reverse()
        self._add(Step(i, _identity(nodes[0]), nodes, True, is_border=True))

    def _operand(self, x: Instruction) -> Node:
        """A tuple's node is never cut: its factors are none."""
        return self.nodes.of(x) if x.shape.leaf_count else Node(x.shape)

    def _add(self, step: Step) -> None:
        number = len(self.all_steps)
        self.all_steps.append(step)
        for node in dict.fromkeys(step.nodes):
            self.steps_of[node].append(number)

    def run(self) -> None:
        spread_manual(self.nodes, self.all_steps)
        deepest = max(self.depths.values()) if self.loops else 0
        for depth in range(deepest, -1, -1):
            self._depth = depth
            for node in self.nodes.nodes:
                if node.is_cut:
                    self._push(node)
            self._settle()
            if depth and self.loops == LoopOrder.FIRST_AND_ALONE:
                self._close_states(depth)
        for priority in self.nodes.priorities:
            for node in self.nodes.release(priority):
                self._push(node)
            self._settle()

    def _close_states(self, depth: int) -> None:
        """Let nothing around a loop cut further what its steps have cut."""
        for c, own in self.depths.items():
            for i in c.instructions if own == depth - 1 else ():
                for k in range(i.shape.leaf_count if i.opcode == "while" else 0):
                    node = self.nodes.of(i, k)
                    if node.is_cut:
                        node.is_open = [False] * len(node.is_open)

    def _settle(self) -> None:
        """Work until nothing waits."""
        while self._queue:
            if self.steps >= self.limit:
                self.is_stopped = True
                return
            entry = heappop(self._queue)
            self._waiting.discard(entry)
            self.steps += 1
            phase, number = entry
            for changed in self._step(self.all_steps[number], Phase(phase)):
                self._push(changed)

    def _push(self, node: Node) -> None:
        for number in self.steps_of[node]:
            step = self.all_steps[number]
            if self.depths[step.at.parent] < self._depth:
                continue
            for phase in step.phases:
                if (phase, number) not in self._waiting:
                    self._waiting.add((phase, number))
                    heappush(self._queue, (phase, number))

    def _step(self, step: Step, phase: Phase) -> list[Node]:
        """Cut the values of one instruction as the largest of them are; those that changed."""
        if step.is_border:
            return crossed(step, self.nodes)
        cut = [n for n in step.nodes if n.is_cut]
        if not cut:
            return []
        lead = max(cut, key=lambda n: n.size_bytes)
        wanted = self._wanted(step, phase, lead)
        changed: dict[Node, None] = {}
        count = len(step.table.operands)
        is_spread = phase == Phase.SAME and step.at.opcode == _SPREAD
        is_forward = phase == Phase.FORWARD or is_spread
        first = count if is_forward or not step.extends[0] else 0
        last = len(step.nodes) if step.extends[1] else count
        for node, dims in list(zip(step.nodes, step.table.tensors))[first:last]:
            if _joinable(node, lead) and self._extend(step, node, dims, wanted, lead):
                changed[node] = None
        return list(changed)

    def _wanted(self, step: Step, phase: Phase, lead: Node) -> dict[int, Axes]:
        """The axes of each factor; of two that disagree, those of more bytes."""
        proposals: dict[tuple[int, Axes], list[Node]] = {}
        for node, dims in zip(step.nodes, step.table.tensors):
            if node.space == lead.space and node.manual == lead.manual:
                for factor, axes in self._projected(step.table, node, dims).items():
                    if axes and _may(step.table.factors[factor].kind, phase):
                        proposals.setdefault((factor, axes), []).append(node)
        wanted = dict(proposals.keys())
        axes = [a for own in wanted.values() for a in own]
        if len(wanted) == len(proposals) and len(set(axes)) == len(axes):
            return wanted  # nothing disagrees
        kept_bytes = {key: sum(n.size_bytes for n in held) for key, held in proposals.items()}
        wanted = {}
        owner: dict[int, int] = {}
        winners: dict[int, list[Node]] = {}
        kinds = step.table.factors

        def rank(key: tuple[int, Axes]) -> tuple[bool, int, int]:
            """An axis that cuts a result is worth more than one that is summed over: the other
            operand would have to be whole, and so would the result. Of as many bytes, those in
            more parts are worth more: a device has less."""
            is_summed = kinds[key[0]].kind == Kind.REDUCE
            return is_summed, -kept_bytes[key], -self._size(lead, key[1])

        ranks = {key: rank(key) for key in proposals}
        is_open = phase < Phase.MOVING and _joins_spread(step.at)
        for factor, axes in sorted(proposals, key=ranks.__getitem__):
            if is_open and _is_draw(ranks, (factor, axes)):
                continue
            have = wanted.get(factor, ())
            if axes[: len(have)] != have:
                if have[: len(axes)] != axes:
                    why = f"factor {factor} is cut along other axes there"
                    self._declined(step, proposals[factor, axes], why, winners[factor])
                continue
            for axis in axes[len(have) :]:
                if owner.setdefault(axis, factor) != factor:
                    why = f"an axis of factor {factor} cuts factor {owner[axis]} there"
                    self._declined(step, proposals[factor, axes], why, winners[owner[axis]])
                    break
                have += (axis,)
            wanted[factor] = have
            winners.setdefault(factor, proposals[factor, axes])
        return wanted

    def _declined(self, step: Step, held: list[Node], why: str, winners: list[Node]) -> None:
        size = sum(n.size_bytes for n in held)
        names = ", ".join(dict.fromkeys([f"%{n.places[0][0].name}" for n in winners if n.places]))
        text = (
            f"not carried on at %{step.at.name} ({step.at.opcode}): {why}, as "
            f"{names or 'others'} say; {size} bytes may move"
        )
        for node in held:
            if text not in node.why:
                node.why.append(text)

    def _projected(self, table: Factors, node: Node, dims: Dimensions) -> dict[int, Axes]:
        """The axes that each factor of a value is cut along."""
        result: dict[int, Axes] = {}
        for axes, numbers, size in zip(node.dims, dims, node.shape.dims):
            if len(numbers) == 1:
                result[numbers[0]] = axes
                continue
            if size % self._size(node, axes):
                continue  # parts that are not even are no parts of the factors
            for k, number in enumerate(numbers):
                taken = self._fitting(node, axes, table.factors[number], k == len(numbers) - 1)
                result[number], axes = taken, axes[len(taken) :]
                if axes and self._size(node, taken) != table.factors[number].size:
                    break
        return result

    def _size(self, node: Node, axes: Axes) -> int:
        if node.space is None or not axes:
            return 1
        key = node.space, axes
        known = self._sizes.get(key)
        if known is None:
            known = self._sizes[key] = self.nodes.spaces.spaces[node.space].size(axes)
        return known

    def _fitting(self, node: Node, axes: Axes, factor: Factor, is_last: bool) -> Axes:
        """As many axes from the front as cut the factor into equal parts; of the last all."""
        if is_last:
            return axes
        for count in range(len(axes), 0, -1):
            if factor.size % self._size(node, axes[:count]) == 0:
                return axes[:count]
        return ()

    def _extend(
        self, step: Step, node: Node, dims: Dimensions, wanted: dict[int, Axes], lead: Node
    ) -> bool:
        """Cut a value further where it agrees so far; whether that changed anything."""
        now = self._projected(step.table, node, dims)
        space = node.space
        node.space = lead.space
        changed = False
        for d, numbers in enumerate(dims):
            if node.is_open[d] and any(n in wanted and wanted[n] != now.get(n) for n in numbers):
                new = self._new_axes(step.table, node, d, numbers, now, wanted)
                if new != node.dims[d] and new[: len(node.dims[d])] == node.dims[d]:
                    node.dims[d], changed = new, True
        if not changed:
            node.space = space
            return False
        node.source = step.at.name
        node.why.append(f"from dimensions that go together at %{step.at.name} ({step.at.opcode})")
        return True

    def _new_axes(
        self,
        table: Factors,
        node: Node,
        d: int,
        numbers: tuple[int, ...],
        now: dict[int, Axes],
        wanted: dict[int, Axes],
    ) -> Axes:
        """What dimension d would be cut along."""
        taken: Axes = ()
        elsewhere = node.used - set(node.dims[d])
        for number in numbers:
            have = now.get(number, ())
            want = wanted.get(number, have)
            if want[: len(have)] != have:
                want = have
            for axis in want[len(have) :]:
                if axis in elsewhere or axis in taken:
                    break
                have += (axis,)
            factor = table.factors[number]
            size = node.shape.dims[d] if factor.kind == Kind.PERMUTE else factor.size
            if factor.kind == Kind.PERMUTE:
                have = self._fitting(node, have, Factor(size), False)
            elif len(numbers) > 1 and size % self._size(node, have):
                break
            taken += have
            if self._size(node, have) != factor.size:
                break
        return taken


def _joins_spread(i: Instruction) -> bool:
    """Whether an operation on elements is of spread arrays alone, as all pairs of points are."""
    is_pairs = i.opcode in _EARLY and len(i.operands) > 1
    return is_pairs and all(x.opcode == _SPREAD for x in i.operands)


def _is_draw(ranks: Mapping[tuple[int, Axes], object], key: tuple[int, Axes]) -> bool:
    """Whether another dimension has the same claim to an axis: what is around an instruction says
    which it is to be, if it comes to say anything."""
    return any(
        other[0] != key[0] and rank == ranks[key] and not set(other[1]).isdisjoint(key[1])
        for other, rank in ranks.items()
    )


def _may(kind: Kind, phase: Phase) -> bool:
    if kind == Kind.WHOLE:
        return False
    return kind != Kind.PERMUTE or phase == Phase.MOVING


def _joinable(node: Node, lead: Node) -> bool:
    """Whether a value may be cut along the same axes as another."""
    if node.manual != lead.manual or node.all_manual:
        return False
    return node.space is None or node.space == lead.space


def _identity(node: Node) -> Factors:
    dims = tuple((d,) for d in range(node.shape.rank))
    return Factors(tuple(map(Factor, node.shape.dims)), (dims,), (dims,))
