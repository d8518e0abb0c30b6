"""Products of a loop's steps are made for all steps at once, where no step waits for another's.

What a step multiplies by weights may be known before the loop (its slice of a stack: the inputs of
a recurrent network), and what it adds to a sum of products may as well be added after it (the
gradients of weights). A product of all steps is one of many rows: a step's few rows by a large
matrix run at the speed of memory, all rows at that of multiply-adds, and on every core.

    step: dot(slice of S, W)         =>  before: P = dot(S, W);     step: slice of P
    step: dot(concatenate(x, h), W)  =>  step: dot(x, first rows of W) + dot(h, the others)
    step: sum += dot(a, b)           =>  step: A[i] = a, B[i] = b;  after: sum += dot(A, B)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from hloom.analysis.trip_count import trip_count
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.passes.collectives.loop_results import (
    element_readers,
    is_read_by_conditions,
    set_result,
    unread_element,
)
from hloom.passes.collectives.stacked_updates import common_steps, span_of
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.expand.dot_decomposer import canonical_dots
from hloom.passes.expand.expansion import Expansion, put_in_place
from hloom.passes.facts import loops_own_bodies
from hloom.passes.normalize.loop_state import can_carry_more, unchanged_elements
from hloom.passes.normalize.while_loop_invariant_code_motion import grow
from hloom.passes.pass_ import register
from hloom.passes.simplify.dce import remove_dead_instructions
from hloom.types.shape import shape


@register
class WhileLoopProductMotion(ComputationPass):
    """Make products of all steps of a loop at once, before or after it."""

    name = "while-loop-product-motion"
    opcodes = frozenset(["while"])
    needs = (loops_own_bodies,)
    breaks = (canonical_dots,)

    least_weights: int = 1024
    """Elements of a matrix: products of smaller ones take no longer in a step."""
    least_steps: int = 4
    most_growth: int = 8
    """How many times what the loop carries anyway the stacks of products or operands may take."""
    few_rows: int = 16
    """So many rows at most are summed over in a step; sums over more are fast as they are."""

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        changed: dict[Computation, None] = {}
        for loop in [i for i in c.instructions if i.opcode == "while"]:
            if loop.has_control_edges or not can_carry_more(loop):
                continue
            count = trip_count(loop).count or 0
            if count < self.least_steps:
                continue
            before = fired.total()
            motion = Motion(self, loop, count, fired)
            motion.split_concatenations()
            motion.hoist()
            motion.sum_afterwards()
            if fired.total() > before:
                changed.update(dict.fromkeys((c, *loop.called)))
        for x in changed:
            remove_dead_instructions(x)
        return changed


class StepSlice(NamedTuple):
    """What a step takes of a stack: element `element` of the state, at `index` of its first
    dimension."""

    element: int
    index: Instruction


class Motion:
    """What is moved out of one loop that runs `count` times."""

    def __init__(
        self, options: WhileLoopProductMotion, loop: Instruction, count: int, fired: Counter[str]
    ) -> None:
        self.options, self.loop, self.count, self.fired = options, loop, count, fired
        self.body = loop.called[1]
        self.outside, self.inside = Expansion(loop.parent, {}), Expansion(self.body, {})
        self.same = set(unchanged_elements(loop))
        self.bytes_left = options.most_growth * loop.shape.size_bytes
        self.stacks: dict[tuple[Instruction, Instruction], int] = {}
        """Elements of the state, by what is stacked and at which index."""

    # -- what is known of the body

    def dots(self) -> list[Instruction]:
        """Products of two matrices, whose results are whole floats."""
        return [
            i
            for i in self.body.in_order()
            if i.opcode == "dot"
            and len(i.operands) == 2
            and not i.has_control_edges
            and not i.attrs.lhs_batch_dims
            and i.shape.is_static
            and i.shape.dtype.is_floating
        ]

    def element(self, i: Instruction) -> int | None:
        """Which unchanged element of the state this is."""
        if i.opcode != "get-tuple-element" or i.operands[0] is not self.body.parameters[0]:
            return None
        return i.attrs.index if i.attrs.index in self.same else None

    def step_slice(self, x: Instruction) -> StepSlice | None:
        """What `x` is of a stack that does not change: all of it at one place of the first
        dimension."""
        if x.opcode != "reshape" or x.operands[0].opcode != "dynamic-slice":
            return None
        part = x.operands[0]
        element = self.element(part.operands[0])
        whole = part.operands[0].shape
        if element is None or part.shape.dims != (1, *whole.dims[1:]):
            return None
        if x.shape.dims != whole.dims[1:] or not whole.is_static:
            return None
        return StepSlice(element, part.operands[1])

    # -- products of slices, before

    def split_concatenations(self) -> None:
        """A product of values side by side as a sum of products, where one is a step's slice."""
        for i in self.dots():
            x, w = i.operands
            if x.opcode != "concatenate" or len(i.attrs.lhs_contracting_dims) != 1:
                continue
            if i.attrs.lhs_contracting_dims != x.attrs.dimensions or not self._are_weights(w):
                continue
            if not any(self.step_slice(part) for part in x.operands):
                continue
            self._split(i)
            self.fired["split"] += 1

    def _split(self, i: Instruction) -> None:
        x, w = i.operands
        element = self.element(w)
        assert element is not None
        weights = self.loop.operands[0].operands[element]
        axis, depth = i.attrs.rhs_contracting_dims[0], i.attrs.lhs_contracting_dims[0]
        start, cut = 0, []
        for part in x.operands:
            limit = start + part.shape.dims[depth]
            cut.append(self.outside.sliced(weights, axis, start, limit))
            start = limit
        places = self.carry(cut)
        b = Expansion(self.body, {})
        total: Instruction | None = None
        for part, own in zip(x.operands, places, strict=True):
            product = b.like(i, part, self.read(own))
            total = product if total is None else b.emit("add", total, product)
        assert total is not None
        put_in_place(b, i, total)

    def _are_weights(self, w: Instruction) -> bool:
        return self.element(w) is not None and w.shape.size >= self.options.least_weights

    def hoist(self) -> None:
        """Products of a step's slice and of what does not change, as slices of one product."""
        for i in self.dots():
            for side in (0, 1):
                x, w = i.operands[side], i.operands[1 - side]
                part = self.step_slice(x)
                if part is None or not self._are_weights(w):
                    continue
                steps = self.stack_dims(part)[0]
                size = steps * i.shape.size_bytes
                if size > self.bytes_left or 2 * self.count < steps:
                    continue
                self.bytes_left -= size
                self._hoist(i, side, part, steps)
                self.fired["hoisted"] += 1
                break

    def stack_dims(self, part: StepSlice) -> tuple[int, ...]:
        return self.loop.shape.elements[part.element].dims

    def _hoist(self, i: Instruction, side: int, part: StepSlice, steps: int) -> None:
        of_x, of_w = i.attrs.lhs_contracting_dims, i.attrs.rhs_contracting_dims
        if side:
            of_x, of_w = of_w, of_x
        x, w = i.operands[side], i.operands[1 - side]
        element = self.element(w)
        assert element is not None
        init = self.loop.operands[0].operands
        rows = [n for d, n in enumerate(x.shape.dims) if d not in of_x]
        columns = [n for d, n in enumerate(w.shape.dims) if d not in of_w]
        precision = i.attrs.operand_precision
        whole = shape(i.shape.dtype, (steps, *rows, *columns)).with_default_layouts()
        product = self.outside.like(i, init[part.element], init[element], shape=whole)
        product.attrs = replace(
            i.attrs,
            lhs_contracting_dims=tuple([d + 1 for d in of_x]),
            rhs_contracting_dims=tuple(of_w),
            operand_precision=tuple(reversed(precision)) if side else precision,
        )
        [place] = self.carry([product])
        b = Expansion(self.body, {})
        value = self._at(b, place, part.index)
        if side:
            order = (*range(len(rows), len(rows) + len(columns)), *range(len(rows)))
            value = b.transposed(value, order)
        put_in_place(b, i, value)

    def _at(self, b: Expansion, place: int, index: Instruction) -> Instruction:
        stack = self.read(place)
        sizes = (1, *stack.shape.dims[1:])
        zero = b.scalar(0, index.shape.dtype)
        starts = [index, *[zero] * (len(sizes) - 1)]
        part = b.emit("dynamic-slice", stack, *starts, dynamic_slice_sizes=sizes)
        return b.reshaped(part, sizes[1:])

    # -- sums of products, after

    def sum_afterwards(self) -> None:
        steps = common_steps([self.loop])
        if steps is None:
            return
        for i in self.dots():
            add = self._added(i)
            if add is None:
                continue
            k = unread_element(self.body, add)
            if k is None or is_read_by_conditions([self.loop], k):
                continue
            readers = element_readers(self.body.parameters[0], k)
            if len(readers) != 1 or set(readers[0].users) != {add} or readers[0].is_root:
                continue
            if list(add.operands).count(readers[0]) == 1 and self._is_worth_it(i):
                self._sum(i, add, k, readers[0], steps[0])
                self.fired["summed"] += 1

    def _added(self, i: Instruction) -> Instruction | None:
        """The addition that alone reads a product, in some order of its dimensions."""
        while not i.is_root and len(i.users) == 1:
            [reader] = i.users
            if reader.has_control_edges or list(reader.operands).count(i) != 1:
                return None
            if reader.opcode == "add":
                return reader
            if reader.opcode not in ("transpose", "reshape"):
                return None
            i = reader
        return None

    def _is_worth_it(self, i: Instruction) -> bool:
        x = i.operands[0]
        depth = 1
        for d in i.attrs.lhs_contracting_dims:
            depth *= x.shape.dims[d]
        if depth > self.options.few_rows or i.shape.dtype.bits < 32:
            return False
        size = self.count * sum([o.shape.size_bytes for o in i.operands])
        if i.shape.size < self.options.least_weights or size > self.bytes_left:
            return False
        self.bytes_left -= size
        return True

    def _sum(
        self, i: Instruction, add: Instruction, k: int, reader: Instruction, counters: set[int]
    ) -> None:
        index = self._index(i, counters)
        places = [self._stack(x, index) for x in i.operands]
        b = Expansion(self.loop.parent, {})
        stacks = [b.emit("get-tuple-element", self.loop, index=p) for p in places]
        total = b.like(i, *stacks)
        total.attrs = replace(
            i.attrs,
            lhs_contracting_dims=(0, *[d + 1 for d in i.attrs.lhs_contracting_dims]),
            rhs_contracting_dims=(0, *[d + 1 for d in i.attrs.rhs_contracting_dims]),
        )
        form = i
        while add not in form.users:
            [form] = form.users
            total = self.loop.parent.append(
                form.opcode, form.attrs, (total,), form.shape, form.name
            )
        element = b.emit("get-tuple-element", self.loop, index=k)
        total = self.loop.parent.append("add", add.attrs, (element, total), add.shape, add.name)
        set_result(self.loop, k, element, total)
        self.body.replace(add, reader)
        self.same.add(k)

    def _index(self, i: Instruction, counters: set[int]) -> Instruction:
        """Where a step stacks its operands: where one of them is a slice already, or else the
        number of the step."""
        for x in i.operands:
            part = self.step_slice(x)
            if part is None or self.stack_dims(part)[0] != self.count:
                continue
            if span_of(part.index, self.body, counters, self.count) == (0, self.count, True):
                return part.index
        state = self.body.parameters[0]
        counter = min(counters)
        readers = element_readers(state, counter)
        return (
            readers[0] if readers else self.inside.emit("get-tuple-element", state, index=counter)
        )

    def _stack(self, x: Instruction, index: Instruction) -> int:
        """The element of the state that has `x` of every step, at `index`."""
        part = self.step_slice(x)
        if part is not None and part.index is index:
            return part.element
        if (x, index) in self.stacks:
            return self.stacks[x, index]
        dims = (self.count, *x.shape.dims)
        begin = self.outside.full(0, x.shape.dtype, dims)
        b = Expansion(self.body, {})
        zero = b.scalar(0, index.shape.dtype)
        row = b.reshaped(x, (1, *x.shape.dims))

        def written(stack: Instruction) -> Instruction:
            starts = [index, *[zero] * (len(dims) - 1)]
            return b.emit("dynamic-update-slice", stack, row, *starts)

        place = self._extend([begin], written)[0]
        self.stacks[x, index] = place
        return place

    # -- the state

    def carry(self, values: list[Instruction]) -> list[int]:
        """Hand values of outside to every step; the elements of the state that they are."""
        places = self._extend(values, lambda x: x)
        self.same.update(places)
        return places

    def _extend(
        self,
        values: list[Instruction],
        following: Callable[[Instruction], Instruction],
    ) -> list[int]:
        """Elements of the state that begin as `values`; `following` makes a step's of the last."""
        first = len(self.loop.operands[0].operands)
        grow(self.loop, values)
        places = list(range(first, first + len(values)))
        more = [following(self.read(place)) for place in places]
        root = self.body.root
        operands = (*root.operands, *more)
        whole = self.body.parameters[0].shape
        self.body.root = self.body.append("tuple", root.attrs, operands, whole, root.name)
        self.body.erase(root)
        return places

    def read(self, place: int) -> Instruction:
        state = self.body.parameters[0]
        of = state.shape.elements[place]
        attrs = OPS["get-tuple-element"].attrs(index=place)
        return self.body.append("get-tuple-element", attrs, (state,), of, "carried")
