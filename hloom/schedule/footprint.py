"""What one computation needs of memory, as far as an order of its instructions can change it.

A `Footprint` numbers the buffers that the instructions of a computation make, and says for each
instruction which it makes, which it reads and how many bytes it needs for itself while it runs
(the peak of what it calls). Parameters and constants are not counted: no order frees them.

`wishes` are edges that are no dependencies: what reads a buffer had better run before that buffer
is overwritten in place (by a dynamic-update-slice, or by the next state of a loop), or a copy
will be needed. Of many that overwrite one buffer, all but one copy it whatever the order: there
are no wishes then, whose number would be that of readers times writers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hloom.analysis.alias import IN_PLACE_OPCODES, in_place_pairs
from hloom.analysis.alias_fusion import is_elementwise
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcode_table, opcodes
from hloom.ir.traits import FORWARDS
from hloom.types.shape import Shape
from hloom.types.sizes import size_bytes

Tree = Any
"""The number of a buffer, a tuple of trees, or None for what has no bytes."""
# A bitcast stands in the memory of its operand; an update has all that its start has.
_FORWARDS = opcodes(FORWARDS, also=("bitcast", "async-update"))
_MANY_WRITERS = 8
_PARTS = opcode_table(lambda op: op.result_index[0] if op.result_index else None)
"""Which element of the shape of its start a done gives."""


@dataclass(slots=True)
class Footprint:
    """See the module docstring. Lists are by position in `instructions`, or by buffer."""

    computation: Computation
    instructions: list[Instruction]
    """In a topological order."""
    sizes: list[int] = field(default_factory=list)
    makes: list[list[int]] = field(default_factory=list)
    reads: list[list[int]] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    over: list[bool] = field(default_factory=list)
    """Whether the results may overwrite what is read for the last time."""
    live_out: set[int] = field(default_factory=set)
    """Buffers that the result holds: nothing frees them."""
    wishes: list[list[int]] = field(default_factory=list)
    """By position: what had better wait for it."""
    follows: list[list[int]] = field(default_factory=list)
    """By position: what must wait for it."""
    needs: list[list[int]] = field(default_factory=list)
    """By position: for what it must wait."""

    @property
    def waits(self) -> list[int]:
        """By position: for how many it must wait."""
        return [len(n) for n in self.needs]


class _Numbering:
    """Builds a footprint."""

    def __init__(self, c: Computation, peaks: dict[Computation, int]) -> None:
        self.footprint = Footprint(c, c.in_order())
        self.peaks = peaks
        self.trees: dict[Instruction, Tree] = {}
        self.position = {i: k for k, i in enumerate(self.footprint.instructions)}
        self.readers: list[list[int]] = []

    def build(self) -> Footprint:
        f = self.footprint
        overwrites: list[tuple[int, int]] = []
        for k, i in enumerate(f.instructions):
            first = len(f.sizes)
            reads = self._place(k, i, overwrites)
            f.makes.append(list(range(first, len(f.sizes))))
            f.reads.append(reads)
            f.own.append(max((self.peaks.get(c, 0) for c in i.called), default=0))
            f.over.append(i.opcode in IN_PLACE_OPCODES or is_elementwise(i.opcode))
        f.live_out = set(_buffers(self.trees[f.computation.root]))
        self._edges()
        self._wishes(overwrites)
        return f

    def _place(self, k: int, i: Instruction, overwrites: list[tuple[int, int]]) -> list[int]:
        """Give an instruction its tree; the buffers that it reads."""
        trees, opcode = self.trees, i.opcode
        if opcode == "tuple":
            trees[i] = tuple([trees[x] for x in i.operands])
            return []
        if opcode == "get-tuple-element":
            trees[i] = trees[i.operands[0]][i.attrs.index]
            return []
        if opcode in _FORWARDS:
            trees[i] = trees[i.operands[0]]
            return []
        free = opcode in ("parameter", "constant")
        reads = list(dict.fromkeys(b for x in i.operands for b in _buffers(trees[x])))
        for b in reads:
            self.readers[b].append(k)
        if opcode in _PARTS:
            trees[i] = trees[i.operands[0]][_PARTS[opcode]]
            return reads
        trees[i] = self._new(i.shape, free)
        if opcode == "while":
            overwrites += [(b, k) for b in _buffers(trees[i.operands[0]])]
        elif opcode in IN_PLACE_OPCODES:
            for pair in in_place_pairs(i):
                tree = trees[i.operands[pair.operand]]
                for part in pair.operand_index:
                    tree = tree[part]
                overwrites += [(b, k) for b in _buffers(tree)]
        return reads

    def _new(self, shape: Shape, free: bool) -> Tree:
        if shape.is_tuple:
            return tuple([self._new(part, free) for part in shape.elements])
        if not (shape.is_array or shape.is_buffer):
            return None
        self.footprint.sizes.append(0 if free else size_bytes(shape))
        self.readers.append([])
        return len(self.footprint.sizes) - 1

    def _edges(self) -> None:
        f, position = self.footprint, self.position
        f.follows = [[] for _ in f.instructions]
        f.needs = [[] for _ in f.instructions]
        for k, i in enumerate(f.instructions):
            before = i.operands + i.control_predecessors
            for x in dict.fromkeys(before) if len(before) > 1 else before:
                f.follows[position[x]].append(k)
                f.needs[k].append(position[x])
        self._send_first()

    def _send_first(self) -> None:
        """What sends stays before what awaits the same channel, as the program has it: nothing
        else joins the two, and if all devices await first, none ever sends."""
        f = self.footprint
        sends = [(k, i) for k, i in enumerate(f.instructions) if i.opcode == "send"]
        if not sends:
            return
        for k, i in enumerate(f.instructions):
            awaited = _awaited_channels(i)
            for s, send in sends if awaited else ():
                if s < k and send.attrs.channel_id in awaited and s not in f.needs[k]:
                    f.follows[s].append(k)
                    f.needs[k].append(s)

    def _wishes(self, overwrites: list[tuple[int, int]]) -> None:
        f = self.footprint
        f.wishes = [[] for _ in f.instructions]
        makers = {b: k for k, buffers in enumerate(f.makes) for b in buffers}
        if self._is_body():
            state = self.trees[f.computation.parameters[0]]
            pairs = zip(_places(state), _places(self.trees[f.computation.root]))
            overwrites += [(a, makers[b]) for a, b in pairs if a is not None and b not in (a, None)]
        wished: set[tuple[int, int]] = set()
        writers = Counter([b for b, _ in overwrites])
        for b, k in overwrites:
            if writers[b] > _MANY_WRITERS:
                continue
            for reader in self.readers[b]:
                if reader != k and (reader, k) not in wished:
                    wished.add((reader, k))
                    f.wishes[reader].append(k)

    def _is_body(self) -> bool:
        c = self.footprint.computation
        return any(i.opcode == "while" and i.called[1] is c for i in c.callers)


def footprint(c: Computation, peaks: dict[Computation, int]) -> Footprint:
    """The footprint of a computation; `peaks` are those of the computations that it calls."""
    return _Numbering(c, peaks).build()


def _awaited_channels(i: Instruction) -> set[int | None]:
    """The channels of what an instruction, or something inside it, receives."""
    if i.opcode == "recv-done":
        return {i.attrs.channel_id}
    channels: set[int | None] = set()
    if i.opcode != "fusion":
        for c in i.called:
            for x in c.instructions:
                channels |= _awaited_channels(x)
    return channels


def _places(tree: Tree) -> list[int | None]:
    """The buffer at each leaf, None where there are no bytes."""
    if type(tree) is not tuple:
        return [tree]
    return [b for part in tree for b in _places(part)]


def _buffers(tree: Tree) -> list[int]:
    if type(tree) is int:
        return [tree]
    return [b for b in _places(tree) if b is not None]


def peak_bytes(f: Footprint, order: list[int]) -> int:
    """The most bytes alive at one time when the instructions run in this order (positions)."""
    sizes, makes, reads = f.sizes, f.makes, f.reads
    left = [0] * len(sizes)
    for r in reads:
        for b in r:
            left[b] += 1
    for b in f.live_out:
        left[b] += 1
    now = most = 0
    for k in order:
        new_bytes = sum([sizes[b] for b in makes[k]])
        freed_bytes = 0
        for b in reads[k]:
            left[b] -= 1
            if not left[b]:
                freed_bytes += sizes[b]
        shared_bytes = min(freed_bytes, new_bytes) if f.over[k] else 0
        most = max(most, now + new_bytes - shared_bytes + f.own[k])
        now += new_bytes - freed_bytes - sum([sizes[b] for b in makes[k] if not left[b]])
    return most
