"""What a loop multiplies by in every step is laid out once before it, in the panels that products
read.

A product packs its second operand, B, into panels at every call. Where B is an element of the state
that no step changes (the weights of a recurrent network or of a solver's right-hand side), the
panels are the same in every step: they are made before the loop and carried, and the products of
its body read them where they stand, as `weight-panels` does with constants. Out of nested loops
they move as far as B does not change. The array itself is still carried, for who reads it
otherwise, so the panels are memory more: only as many are laid out as caches hold, and only for
loops of steps enough to pay for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hloom.analysis.panels import Matrix, panel_width
from hloom.analysis.trip_count import trip_count
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.order import repair_schedules
from hloom.ir.values.padding import Padding
from hloom.passes.fuse.build import CONFIGS, fuse_members
from hloom.passes.layout.weight_panels import Weight, plain_matrix, products, read_panels, weight
from hloom.passes.normalize.loop_state import can_carry_more, unchanged_elements
from hloom.passes.normalize.while_loop_invariant_code_motion import hoist
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.passes.simplify.dce import remove_dead_instructions
from hloom.rewrite.driver import Trace
from hloom.types.literal import Literal
from hloom.types.shape import shape


@register
class WhileLoopWeightPanels(Pass):
    """Lay out before a loop, in panels of columns, what its products read as their second operand
    in every step."""

    name = "while-loop-weight-panels"
    opcodes = frozenset(["while"])

    matrix_of: Callable[[Instruction], Matrix | None] | None = None
    """What an instruction packs at every call; None: the second operand of a dot that has one
    contracted dimension and one other."""
    most_bytes: int = 1 << 25
    """Of all matrices that are laid out for a loop, the first ones that it reads."""
    least_steps: int = 16
    """Of a loop and of those around it in which the matrix does not change either; one whose number
    of steps is not known has enough."""
    least_rows: int = 3
    """Of what is multiplied: for one or two, rows of the matrix are read as fast as panels."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        all_panels: set[Instruction] = set()
        for c in on_threads(module, threads):
            for loop in [i for i in c.instructions if i.opcode == "while"]:
                if not can_carry_more(loop):
                    continue
                fired["laid out"] += self._lay_out(loop, module, all_panels)
                _move_out(loop, all_panels)
        if fired["laid out"]:
            repair_schedules(module)
        return PassResult.of(+fired)

    def _lay_out(self, loop: Instruction, module: Module, all_panels: set[Instruction]) -> int:
        """Make the panels that a body's products read, in the body; how many."""
        body = loop.called[1]
        weights: dict[tuple[object, ...], list[Weight]] = {}
        sources = {x: k for x, k in _unchanged(loop).items() if self._is_long(loop, k)}
        left = self.most_bytes
        for i in body.instructions if sources else ():
            dots = products(i)
            matrix = (self.matrix_of or plain_matrix)(i) if dots else None
            if matrix is None or dots[0].shape.size < self.least_rows * matrix.columns:
                continue
            w = weight(i, matrix, sources.__contains__)
            if w is None:
                continue
            key, size = (w.outside[-1], w.arrangement), w.outside[-1].shape.size_bytes
            if key not in weights:
                if size > left:
                    continue
                left -= size
            weights.setdefault(key, []).append(w)
        for same in weights.values():
            panels = _panels(body, same[0], module)
            all_panels.add(panels)
            for w in same:
                read_panels(w, panels, module)
        if weights:
            body.sort()
        return len(weights)

    def _is_long(self, loop: Instruction, index: int) -> bool:
        """Whether an element of the state that no step changes stays the same for steps enough:
        what a loop of few steps inside of another lays out moves out of both."""
        steps: int | None = 1
        while True:
            count = trip_count(loop).count
            steps = None if count is None else steps * count
            if steps is None or steps >= self.least_steps:
                return True
            element, body = loop.operands[0].operands[index], loop.parent
            outer = [i for i in body.callers if i.opcode == "while" and i.called[1] is body]
            if len(outer) != 1 or not can_carry_more(outer[0]):
                return False
            known = _unchanged(outer[0])
            if element not in known:
                return False
            loop, index = outer[0], known[element]


def _unchanged(loop: Instruction) -> dict[Instruction, int]:
    """The arrays of the state that no step changes, as the body reads them, with their indices."""
    same, state = set(unchanged_elements(loop)), loop.called[1].parameters[0]
    return {u: u.attrs.index for u in state.users if u.attrs.index in same and u.shape.is_array}


def _move_out(loop: Instruction, all_panels: set[Instruction]) -> None:
    """Make panels before the loop, if they are made of what no step changes."""
    known = _unchanged(loop)
    worth = [i for i in all_panels if i.parent is loop.called[1] and i.operands[0] in known]
    worth.sort(key=lambda i: i.name)
    if not worth:
        return
    hoist(loop, {**known, **dict.fromkeys(worth)}, worth)
    all_panels.difference_update(worth)
    all_panels.update(loop.operands[0].operands[-len(worth) :])
    for c in (loop.parent, *loop.called):
        remove_dead_instructions(c)
        c.sort()


def _panels(c: Computation, w: Weight, module: Module) -> Instruction:
    """The panels of a source, made of it by one kernel."""
    source, (_, dims, group), columns = w.outside[-1], w.matrix, w.matrix.columns
    moved = _Moved(c, source)
    for move in w.moves:
        if move.opcode == "transpose":
            moved.transpose(move.attrs.dimensions)
        else:
            moved.reshape(move.shape.dims)
    width, groups = panel_width(columns, group), w.matrix.depth // group
    assert width is not None, "there is no weight without panels"
    moved.transpose(dims)
    moved.reshape((groups, group, columns))
    moved.pad(-columns % width)
    count = -(-columns // width)
    moved.reshape((groups, group, count, width))
    moved.transpose((2, 0, 3, 1))
    if group == 1:
        moved.reshape((count, groups, width))
    return fuse_members(c, module, moved.members, moved.x, "kLoop", CONFIGS["loop"])


class _Moved:
    """An array whose elements go through one move after another, `members` in the end."""

    def __init__(self, c: Computation, x: Instruction) -> None:
        self.c, self.x = c, x
        self.members: dict[Instruction, None] = {}

    def _then(self, x: Instruction) -> None:
        self.x = x
        self.members[x] = None

    def transpose(self, order: tuple[int, ...]) -> None:
        if order != tuple(range(len(order))):
            self._then(self.c.add("transpose", self.x, dimensions=order))

    def reshape(self, dims: tuple[int, ...]) -> None:
        if dims != self.x.shape.dims:
            to = shape(self.x.shape.dtype, dims).with_default_layouts()
            self._then(self.c.add("reshape", self.x, shape=to))

    def pad(self, columns: int) -> None:
        """So many columns of zeros behind the last."""
        if not columns:
            return
        zero = self.c.add("constant", literal=Literal.of(0, self.x.shape.dtype))
        self.members[zero] = None
        widths = [(0, 0)] * (self.x.shape.rank - 1) + [(0, columns)]
        self._then(self.c.add("pad", self.x, zero, padding=Padding.of(*widths)))
