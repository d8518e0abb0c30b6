"""What passes share that move work from one side of a collective to the other."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from typing import ClassVar, NamedTuple

from hloom.analysis.replication import ReplicationAnalysis
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE
from hloom.ir.values.group_modes import Groups
from hloom.passes.collectives.groups import module_of
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.expand.expansion import Combiners, Expansion, put_in_place
from hloom.passes.facts import no_dead_code
from hloom.types.shape import Shape, shape

BY_ELEMENT = opcodes(ELEMENTWISE, also=("copy",))


class CollectiveMove(NamedTuple):
    """What takes the place of an instruction, and collectives that go with it."""

    old: Instruction
    new: Instruction
    dead: Sequence[Instruction]


class CollectiveMotion(ComputationPass):
    """Rewrites around collectives, until there is none left to do."""

    breaks = (no_dead_code,)
    opcodes: ClassVar[Set[str]]
    what: ClassVar[str] = "moved"

    @abstractmethod
    def move(self, b: Expansion, i: Instruction) -> CollectiveMove | None:
        """What to do about an instruction of `opcodes`; builds nothing where it gives None."""

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        count, combiners = fired.total(), Combiners()
        is_new = True
        while is_new:
            is_new = False
            for i in [i for i in c.in_order() if i.opcode in self.opcodes]:
                if i.parent is not c or i not in c.instructions:
                    continue
                b = Expansion(c, combiners)
                moved = self.move(b, i)
                if moved is None:
                    continue
                put_in_place(b, moved.old, moved.new)
                for x in moved.dead:
                    if x in c.instructions and not x.users and not x.is_root:
                        c.erase(x)
                fired[self.what] += 1
                is_new = True
        return [c] if fired.total() > count else []


def again(b: Expansion, i: Instruction, x: Instruction, of: Shape, **new) -> Instruction:
    """The collective `i` of another operand, with other attributes where they are given."""
    attributes = {f.name: getattr(i.attrs, f.name) for f in i.op.fields} | new
    moved = b.emit(i.opcode, x, called=i.called, shape=of, **attributes)
    moved.copy_annotations(i)
    moved.sharding = None
    return moved


def varying_operand(i: Instruction, groups: Groups) -> Instruction | None:
    """The one operand of an operation by element that is not one number on all devices of a
    group, repeated; None where there are several, or it is no such operation."""
    if i.opcode not in BY_ELEMENT or i.has_control_edges or not i.shape.is_array:
        return None
    if i.shape.is_dynamic:
        return None
    rest = [x for x in i.operands if not is_one_number(x, groups)]
    if len(rest) != 1 or rest[0].shape.dims != i.shape.dims:
        return None
    return rest[0]


def is_one_number(i: Instruction, groups: Groups) -> bool:
    """Whether a value is a number, maybe repeated, that all devices of each group have."""
    if i.opcode == "broadcast":
        i = i.operands[0]
    if i.shape.size != 1 or i.shape.rank:
        return False
    if i.opcode == "constant":
        return True
    return ReplicationAnalysis(module_of(i)).is_same_within(i, groups)


def applied(
    b: Expansion, form: Instruction, was: Instruction, x: Instruction, dims: Sequence[int]
) -> Instruction:
    """An operation by element on an array of other sizes."""
    operands = []
    for o in form.operands:
        if o is was:
            operands.append(x)
        elif o.shape.rank == 0:
            operands.append(o)
        else:
            operands.append(b.spread(o.operands[0], dims))
    of = shape(form.shape.dtype, dims)
    attributes = {f.name: getattr(form.attrs, f.name) for f in form.op.fields}
    new = b.emit(form.opcode, *operands, shape=of, **attributes)
    new.metadata, new.frontend_attributes = form.metadata, form.frontend_attributes
    return new
