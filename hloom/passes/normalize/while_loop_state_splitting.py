"""Arrays of a loop's state that each step stacks from a few parts are carried as those parts.

A system of equations is written as one array of its unknowns: a step takes it apart, computes each
part in its own way and stacks the parts again. Carried as an array it has to be in memory after
every stage of a step, and each element of a stack asks which part it is of; carried as parts, a
step is one pass over them, and scalars stay in registers.

    step: y = concatenate(f(slice of y), g(slice of y))  =>  step: a = f(a), b = g(b)
    step: y + h * concatenate(f, g)                      =>  step: a + h * f, b + h * g
    step: Y[i] = y                                       =>  step: Y[i, 0] = a, Y[i, 1] = b
    after: y                                             =>  after: concatenate(a, b)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes_where
from hloom.ir.traits import ELEMENTWISE
from hloom.passes.collectives.loop_results import element_readers
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.expand.expansion import Expansion
from hloom.passes.facts import loops_own_bodies
from hloom.passes.normalize.loop_state import can_carry_more
from hloom.passes.pass_ import register
from hloom.passes.simplify.dce import remove_dead_instructions
from hloom.types.shape import Shape, shape, tuple_shape

SPLITS = opcodes_where(
    lambda op: ELEMENTWISE in op.traits and op.name not in ("stochastic-convert", "map")
)


@register
class WhileLoopStateSplitting(ComputationPass):
    """Carry the parts of small stacks instead of the stacks."""

    name = "while-loop-state-splitting"
    opcodes = frozenset(["while"])
    needs = (loops_own_bodies,)

    most_parts: int = 4
    """Parts of one stack."""
    most_scalars: int = 8
    """Parts of a stack of scalars: all of them are in registers."""
    most_instructions: int = 400
    """That the elementwise operations of a step become, at most."""

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        changed: dict[Computation, None] = {}
        for loop in [i for i in c.instructions if i.opcode == "while"]:
            if loop.has_control_edges or not can_carry_more(loop):
                continue
            splits = Stacks(self, loop).chosen()
            if splits:
                fired["split"] += len(splits)
                _Rewriting(loop, splits).run()
                changed.update(dict.fromkeys((c, *loop.called)))
        for x in changed:
            remove_dead_instructions(x)
        return changed


class Stacks:
    """What of one loop's state can be carried as parts: elements, each with a dimension."""

    def __init__(self, options: WhileLoopStateSplitting, loop: Instruction) -> None:
        self.options, self.loop = options, loop
        self.body = loop.called[1]
        self.state = self.body.parameters[0]
        self.work = 0

    def chosen(self) -> dict[int, int]:
        """The dimension along which each element is split."""
        condition = self.loop.called[0].parameters[0]
        splits: dict[int, int] = {}
        for k, root in enumerate(self.body.root.operands):
            if element_readers(condition, k) or list(self.body.root.operands).count(root) > 1:
                continue
            for d in self._dimensions(root.shape):
                if is_stack(root, d):
                    splits[k] = d
                    break
        # One that cannot be split may be read by others of its shape.
        while bad := [k for k, d in splits.items() if not self._can_be_split(k, d, splits)]:
            for k in bad:
                del splits[k]
        parts = max([self.loop.shape.elements[k].dims[d] for k, d in splits.items()], default=0)
        return splits if self.work * parts <= self.options.most_instructions else {}

    def _dimensions(self, s: Shape) -> list[int]:
        if not s.is_array or not s.is_static or s.dtype.bits < 8:
            return []
        most = self.options
        return [
            d
            for d, n in enumerate(s.dims)
            if 2 <= n <= (most.most_scalars if s.size == n else most.most_parts)
        ]

    def _can_be_split(self, k: int, d: int, splits: dict[int, int]) -> bool:
        """Whether all that is computed of the element is read part by part."""
        root = self.body.root.operands[k]
        seen: set[Instruction] = set()
        stack = [*element_readers(self.state, k), root]
        while stack:
            x = stack.pop()
            if x in seen:
                continue
            seen.add(x)
            if x.has_control_edges or x.is_root:
                return False
            for u in x.users:
                if u is self.body.root:
                    places = [n for n, y in enumerate(u.operands) if y is x]
                    if any(splits.get(n) != d for n in places):
                        return False
                elif is_elementwise_of(u, x):
                    stack.append(u)
                elif not reads_part(u, x, d) and not updates(u, d):
                    return False
        self.work = max(self.work, len(seen))
        return True


def is_stack(root: Instruction, d: int) -> bool:
    """Whether elementwise operations lead from parts of size 1, concatenated, to `root`."""
    seen: set[Instruction] = set()
    stack = [root]
    while stack:
        x = stack.pop()
        if x in seen or x.shape.dims != root.shape.dims:
            continue
        seen.add(x)
        if is_concatenation(x, d):
            return True
        if x.opcode in SPLITS:
            stack += x.operands
    return False


def is_concatenation(x: Instruction, d: int) -> bool:
    """Whether it puts parts of size 1 one behind the other."""
    return (
        x.opcode == "concatenate"
        and x.attrs.dimensions == (d,)
        and all(y.shape.dims[d] == 1 for y in x.operands)
        and not x.has_control_edges
    )


def is_elementwise_of(u: Instruction, x: Instruction) -> bool:
    return u.opcode in SPLITS and u.shape.is_array and u.shape.dims == x.shape.dims


def reads_part(u: Instruction, x: Instruction, d: int) -> bool:
    """Whether `u` reads elements of one part."""
    if u.opcode != "slice":
        return False
    at = u.attrs.slice.dimensions[d]
    return u.shape.dims[d] == 1 and at.start < x.shape.dims[d]


def updates(u: Instruction, d: int) -> bool:
    """Whether all that reads `u`, an operand's elements in another order or with more dimensions
    of size 1, are updates of stacks of such arrays, which write it whole along that dimension."""
    at = moved_dimension(u, d)
    if at is None or u.is_root or u.has_control_edges:
        return False
    return all(
        (
            w.opcode == "dynamic-update-slice"
            and w.operands[1] is u
            and w.operands[0] is not u
            and len(w.operands) == 2 + u.shape.rank
            and w.shape.dims[at] == u.shape.dims[at]
            and not w.has_control_edges
        )
        or (u.opcode == "transpose" and updates(w, at))
        for w in u.users
    )


def moved_dimension(u: Instruction, d: int) -> int | None:
    """Where dimension `d` of the operand of a transpose, or of a reshape to more or fewer
    dimensions of size 1, is in its result."""
    if u.opcode == "transpose":
        return u.attrs.dimensions.index(d)
    x = u.operands[0].shape if u.opcode == "reshape" else None
    if x is None or [n for n in x.dims if n > 1] != [n for n in u.shape.dims if n > 1]:
        return None
    number = sum(n > 1 for n in x.dims[:d])
    return [k for k, n in enumerate(u.shape.dims) if n > 1][number]


def part_shape(s: Shape, d: int) -> Shape:
    dims = tuple([1 if k == d else n for k, n in enumerate(s.dims)])
    return shape(s.dtype, dims).with_default_layouts()


class _Rewriting:
    """Splits elements of one loop's state: what a step computes first, then the state itself."""

    def __init__(self, loop: Instruction, splits: dict[int, int]) -> None:
        self.loop, self.splits = loop, splits
        self.body = loop.called[1]
        self.state = self.body.parameters[0]
        self.outside, self.inside = Expansion(loop.parent, {}), Expansion(self.body, {})
        self.parts: dict[tuple[Instruction, int], list[Instruction]] = {}
        """What is known part by part, and along which dimension."""

    def run(self) -> None:
        root = self.body.root
        for x, d in self._reached():
            for u in list(x.users):
                if reads_part(u, x, d):
                    self._read_part(u, x, d)
                elif u.opcode in ("reshape", "transpose") and updates(u, d):
                    self._update_parts(u, self._of(x, d), d)
        new: list[list[Instruction]] = [[x] for x in root.operands]
        for k, d in self.splits.items():
            new[k] = self._of(root.operands[k], d)
        before = {k: element_readers(self.state, k) for k in self.splits}
        after = {k: element_readers(self.loop, k) for k in self.splits}
        places = self._carry()
        last = [parts[0] for parts in new]
        last += [x for k in self.splits for x in new[k][1:]]
        self.body.root = self.body.append(
            "tuple", root.attrs, tuple(last), self.state.shape, root.name
        )
        self.body.erase(root)
        for k, d in self.splits.items():
            self._read_elements(before[k], places[k], d)
            self._join_afterwards(after[k], places[k], d)

    def _reached(self) -> list[tuple[Instruction, int]]:
        """What is computed of the elements, and what is stacked like them, operands first, by the
        dimension of the parts."""
        dims = {(self.body.root.operands[k].shape.dims, d) for k, d in self.splits.items()}
        reached: dict[tuple[Instruction, int], None] = {}
        for k, d in self.splits.items():
            reached.update({(x, d): None for x in element_readers(self.state, k)})
        for x in self.body.in_order():
            if not x.shape.is_array or x.has_control_edges:
                continue
            for of, d in dims:
                if x.shape.dims == of and (
                    is_concatenation(x, d)
                    or (x.opcode in SPLITS and any((y, d) in reached for y in x.operands))
                ):
                    reached[x, d] = None
        return list(reached)

    # -- a step

    def _of(self, x: Instruction, d: int) -> list[Instruction]:
        """The parts of a value."""
        parts = self.parts.get((x, d))
        if parts is None:
            todo = [x]
            while todo:
                y = todo[-1]
                missing = [z for z in self._split_operands(y, d) if (z, d) not in self.parts]
                if missing:
                    todo += missing
                    continue
                if (y, d) not in self.parts:
                    self.parts[y, d] = self._parts(y, d)
                todo.pop()
            parts = self.parts[x, d]
        return parts

    def _split_operands(self, x: Instruction, d: int) -> list[Instruction]:
        if x.opcode not in SPLITS or x.has_control_edges:
            return []
        return [y for y in x.operands if y.shape.dims == x.shape.dims]

    def _parts(self, x: Instruction, d: int) -> list[Instruction]:
        b, count = self.inside, x.shape.dims[d]
        if is_concatenation(x, d):
            return list(x.operands)
        of = part_shape(x.shape, d)
        if x.opcode == "broadcast" and d not in x.attrs.dimensions:
            return [b.like(x, *x.operands, shape=of)] * count
        if not self._split_operands(x, d):
            return [b.sliced(x, d, n, n + 1) for n in range(count)]
        return [
            b.like(
                x,
                *[self.parts[y, d][n] if y.shape.dims == x.shape.dims else y for y in x.operands],
                shape=of,
            )
            for n in range(count)
        ]

    def _read_part(self, u: Instruction, x: Instruction, d: int) -> None:
        """A slice of one part, of that part alone."""
        ranges = [(r.start, r.limit, r.stride) for r in u.attrs.slice.dimensions]
        part = self._of(x, d)[ranges[d][0]]
        if part.opcode == "slice" and part.operands[0] is x:
            return  # the part is no other than such a slice
        ranges[d] = (0, 1, 1)
        b = Expansion(self.body, {})
        new = b.cut(part, ranges)
        self._replace(u, new)

    def _update_parts(self, u: Instruction, parts: list[Instruction], d: int) -> None:
        """Updates by a whole array that `u` renames, part after part."""
        b, at = self.inside, moved_dimension(u, d)
        assert at is not None
        of = part_shape(u.shape, at)
        renamed = [b.like(u, part, shape=of) for part in parts]
        for w in list(u.users):
            if w.opcode != "dynamic-update-slice":
                self._update_parts(w, renamed, at)
                continue
            new, starts = w.operands[0], list(w.operands[2:])
            for n, part in enumerate(renamed):
                starts[at] = b.scalar(n, starts[at].shape.dtype)
                new = b.emit("dynamic-update-slice", new, part, *starts)
            self._replace(w, new)

    def _replace(self, old: Instruction, new: Instruction) -> None:
        """What was known of the old one's parts is so of the new one's."""
        self.body.replace(old, new)
        for key, parts in self.parts.items():
            if old in parts:
                self.parts[key] = [new if y is old else y for y in parts]
        self.body.erase(old)

    # -- the state

    def _carry(self) -> dict[int, list[int]]:
        """Widen the state by the parts of the elements, the first of which take their places; where
        the parts of each element are."""
        loop, b = self.loop, self.outside
        shapes = list(loop.shape.elements)
        init = list(loop.operands[0].operands)
        places: dict[int, list[int]] = {}
        for k, d in self.splits.items():
            cut = [b.sliced(init[k], d, n, n + 1) for n in range(shapes[k].dims[d])]
            places[k] = [k, *range(len(init), len(init) + len(cut) - 1)]
            of = part_shape(shapes[k], d)
            init[k], shapes[k] = cut[0], of
            init += cut[1:]
            shapes += [of] * (len(cut) - 1)
        old, whole = loop.operands[0], tuple_shape(shapes)
        loop.set_operands((loop.parent.append("tuple", old.attrs, tuple(init), whole, old.name),))
        if not old.users and not old.is_root and not old.has_control_edges:
            loop.parent.erase(old)
        for x in (loop, *[c.parameters[0] for c in loop.called]):
            x.shape, x.sharding = whole, None
        return places

    def _read_elements(self, readers: list[Instruction], places: list[int], d: int) -> None:
        """Slices of an element are of the part that the state has."""
        b = self.inside
        carried = [b.emit("get-tuple-element", self.state, index=p) for p in places]
        for x in readers:
            for u in list(x.users):
                if u.opcode != "slice":
                    continue  # nothing reads it any more
                ranges = [(r.start, r.limit, r.stride) for r in u.attrs.slice.dimensions]
                part = carried[ranges[d][0]]
                ranges[d] = (0, 1, 1)
                self.body.replace(u, b.cut(part, ranges))
                self.body.erase(u)
        remove_dead_instructions(self.body)

    def _join_afterwards(self, readers: list[Instruction], places: list[int], d: int) -> None:
        """What is behind the loop reads the parts, put together."""
        if not readers:
            return
        b = self.outside
        whole = b.joined([b.emit("get-tuple-element", self.loop, index=p) for p in places], d)
        for x in readers:
            x.parent.replace(x, whole)
            x.parent.erase(x)
