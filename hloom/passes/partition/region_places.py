"""Where each value stands along the axes by which the program itself cuts, without the partitioner.

Between `SPMDFullToShardShape` and `SPMDShardToFullShape` devices have values of their own; those at
one *place* along the manual axes have the same. A place is said by one number for each device.
What an instruction reads, and what its sharding says, decides where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.sharding import Sharding

Places = tuple[int, ...]
"""The place of each device; devices with the same number are together."""


class RegionPlaces:
    """The places of the leaves of all values of a module."""

    def __init__(self, module: Module) -> None:
        self.devices = module.num_partitions
        self.together: Places = (0,) * self.devices
        self._of: dict[Instruction, list[Places]] = {}
        computations = module.computations_in_order()
        order = [i for c in reversed(computations) for i in c.in_order()]
        is_new = True
        while is_new:  # loops hand on what they make
            is_new = sum(self._refine(i) for i in order) > 0

    def of(self, i: Instruction) -> Places:
        """Where an instruction is run: the places of all that it reads and gives."""
        read = [p for x in i.operands for p in self._leaves(x)]
        return self._refined((*read, *self._leaves(i)))

    def _leaves(self, i: Instruction) -> list[Places]:
        if i not in self._of:
            self._of[i] = [self.together] * len(list(i.shape.leaves()))
        return self._of[i]

    def _refine(self, i: Instruction) -> bool:
        """Let what is known of operands reach the result; whether that was new."""
        before = self._leaves(i)
        after = [self._refined((a, b)) for a, b in zip(before, self._found(i), strict=True)]
        self._of[i] = after
        return after != before

    def _found(self, i: Instruction) -> list[Places]:
        own = self._said(i)
        if i.opcode == "custom-call" and i.attrs.custom_call_target == "SPMDShardToFullShape":
            return own
        operands = [self._leaves(x) for x in i.operands]
        match i.opcode:
            case "parameter":
                places = self._handed(i)
            case "tuple":
                places = [p for leaves in operands for p in leaves]
            case "get-tuple-element":
                places = _element(i, operands[0])
            case "call" | "while" | "conditional":
                places = self._returned(i, operands)
            case _:
                places = [self._refined([p for leaves in operands for p in leaves])] * len(own)
        return [self._refined((a, b)) for a, b in zip(places, own, strict=True)]

    def _handed(self, p: Instruction) -> list[Places]:
        """What the callers of a computation hand over."""
        together = [self.together] * len(list(p.shape.leaves()))
        handed = [together]
        for caller in p.parent.callers:
            if caller.opcode == "conditional":
                of = [x for x, c in zip(caller.operands[1:], caller.called) if c is p.parent]
                handed += [self._leaves(x) for x in of]
            elif caller.opcode == "while":
                handed.append(self._leaves(caller))
            elif caller.opcode == "call":
                handed.append(self._leaves(caller.operands[p.attrs.number]))
        return [self._refined(same) for same in zip(*handed)]

    def _returned(self, i: Instruction, operands: Sequence[list[Places]]) -> list[Places]:
        """What calls give back: branches by how was chosen among them, loops by when they end."""
        if i.opcode == "while":
            test, body = i.called
            ends = self._refined(self._leaves(test.root))
            leaves = [operands[0], self._leaves(body.root)]
            return [self._refined((*same, ends)) for same in zip(*leaves)]
        chosen = operands[0][0] if i.opcode == "conditional" else self.together
        leaves = [self._leaves(c.root) for c in i.called]
        return [self._refined((*same, chosen)) for same in zip(*leaves)]

    def _said(self, i: Instruction) -> list[Places]:
        leaves = list(i.shape.leaves())
        s = i.sharding
        if s is None or (s.is_tuple and len(s.elements) < len(leaves)):
            return [self.together] * len(leaves)
        return [self._manual(s.for_leaf(k)) for k in range(len(leaves))]

    def _manual(self, sharding: Sharding) -> Places:
        s = sharding.tiled()
        if s.kind == "manual":
            return tuple(range(self.devices))
        if s.kind != "tiled" or "manual" not in s.subgroup_types:
            return self.together
        along = s.data_rank + s.subgroup_types.index("manual")
        places = np.zeros(self.devices, np.int64)
        for at, device in np.ndenumerate(s.tile_assignment()):
            places[device] = at[along]
        return self._refined([tuple(places.tolist())])

    def _refined(self, several: Iterable[Places]) -> Places:
        """Devices that are together in all of them."""
        different = set(several) - {self.together}
        if not different:
            return self.together
        numbers: dict[tuple[int, ...], int] = {}
        return tuple([numbers.setdefault(at, len(numbers)) for at in zip(*sorted(different))])


def _element(i: Instruction, leaves: list[Places]) -> list[Places]:
    """The leaves of one element of a tuple."""
    counts = [len(list(e.leaves())) for e in i.operands[0].shape.elements]
    first = sum(counts[: i.attrs.index])
    return leaves[first : first + counts[i.attrs.index]]
