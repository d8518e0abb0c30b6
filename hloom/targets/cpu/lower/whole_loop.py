"""Small while loops as one kernel: what runs thousands of times must not be called thousands of
times.

The loop, its condition and all inside it become control flow of a kernel. Carried scalars stay in
registers, short rows too (carried_rows.py), other arrays in memory, where writers of kernels write
loops in line. What does not fit (products, sorts, ..) raises `Decline`: it runs step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloom.codegen.affine import ZERO
from hloom.codegen.cumulative import is_cumulative, write_cumulative
from hloom.codegen.elements import Elements, Source, strides_of
from hloom.codegen.loops import LoopWriter, one_nest, write_sequence
from hloom.codegen.tile import Body, BodyEmitter, is_update
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import S32, Value
from hloom.program.slice import BufferSlice
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import Thunk
from hloom.program.thunks.while_ import While
from hloom.targets.cpu.lower.carried_rows import carry_rows
from hloom.targets.cpu.lower.loop_steps import (
    LOOPS,
    Decline,
    Overlap,
    body_element_work,
    body_ns,
    fits_register,
    is_huge,
    is_matrix_product,
    last_step,
    loop_ns,
    spare_byte,
    steps_at_once,
)
from hloom.targets.cpu.lowering import Lowering
from hloom.types.dtype import PRED, DType
from hloom.types.shape import Shape

Index = tuple[int, ...]

# A value of the loop: in a register, or in memory.
Slot = Value | BufferSlice


def whole_loop(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """What runs a while loop in one kernel; `Decline` if it is no loop of small operations.

    A kernel cannot be told to stop. One that may run for long returns after some steps, its state
    in memory, and a loop around it calls it again: there the program looks whether to stop.
    """
    if is_huge(i.called):
        raise Decline("it has too many instructions for one function")
    steps, pred = steps_at_once(i, cpu.device.costs), cpu.slice(i.called[0].root)
    if pred.allocation.kind == "constant":
        raise Decline("its condition is a constant, which no kernel may write")
    try:
        whole = _written(cpu, i, steps, pred)
    except Overlap:
        pred = spare_byte(cpu.slice(i, x) for x, s in i.shape.subshapes() if s.is_array) or pred
        try:
            whole = _written(cpu, i, steps, pred)
        except Overlap:
            steps, whole = None, _written(cpu, i, None, pred)
    if steps is None:
        return [whole]
    return [While(i.name, (whole,), pred, ())]


def _written(cpu: Lowering, i: Instruction, steps: int | None, pred: BufferSlice) -> Kernel:
    """The thunk of the kernel, which says at `pred` whether to call it again."""
    writer = _Writer(cpu, i, steps)
    writer.write(pred)
    kernel = writer.builder.finish()
    kernel.cost_ns = loop_ns(i, cpu.device.costs)
    places = {value: place for (place, _), value in writer.params.items()}
    carry_rows(kernel, places, cpu.device.compute.vector_bytes)
    used = {x for op in kernel.ops() for x in op.operands}
    kernel.params = [p for p in kernel.params if p.value in used]
    cpu.admit([kernel])
    arguments = tuple([places[p.value] for p in kernel.params])
    writes = tuple([p.role != "in" for p in kernel.params])
    return Kernel(i.name, cpu.shared(kernel, i.name), arguments, writes, 1, kernel.cost_ns)


class _Writer:
    """Writes the kernel of one loop; `slots` says where each value is."""

    def __init__(self, cpu: Lowering, i: Instruction, steps: int | None) -> None:
        self.cpu = cpu
        self.loop = i
        self.steps = steps
        self.builder = KernelBuilder(i.name, (1,))
        self.elements = Elements(self.builder, cpu.device)
        self.params: dict[tuple[BufferSlice, DType], Value] = {}
        self.slots: dict[tuple[Instruction, Index], Slot] = {}
        self.ended_early: Value | None = None
        self.unchanged: set[Index] = set()
        """Parts of the loop's state that every iteration hands on as they are."""

    # -- places

    def buffer(self, place: BufferSlice, dtype: DType) -> Value:
        """The parameter for a place in memory."""
        key = (place, dtype)
        buffer_ = self.params.get(key)
        if buffer_ is None:
            role = "in" if place.allocation.kind == "constant" else "inout"
            size = place.size_bytes // max(dtype.size_bytes, 1)
            buffer_ = self.builder.param(f"p{len(self.params)}", dtype, size, role)
            self.params[key] = buffer_
        return buffer_

    def slot(self, i: Instruction, index: Index = ()) -> Slot:
        """Where a part of a value is."""
        while i.opcode in ("get-tuple-element", "tuple"):
            if i.opcode == "tuple":
                if not index:
                    raise Decline("a whole tuple is used")
                i, index = i.operands[index[0]], index[1:]
            else:
                i, index = i.operands[0], (i.attrs.index, *index)
        slot_ = self.slots.get((i, index))
        if slot_ is None:
            raise Decline(f"%{i.name} is not known")
        return slot_

    def _leaves(self, s: Shape) -> list[tuple[Index, Shape]]:
        leaves_ = []
        for index, leaf in s.subshapes():
            if leaf.is_array:
                if leaf.dynamic:
                    raise Decline("a dynamic size")
                leaves_.append((index, leaf))
            elif not leaf.is_tuple:
                raise Decline("a token")
        return leaves_

    # -- control

    def write(self, pred: BufferSlice) -> None:
        """The loop, with what it carries in registers read before it and stored after it; at
        `pred` whether it goes on after `steps` steps, where there is such a number."""
        i, e = self.loop, self.elements
        leaves = self._leaves(i.shape)
        results = []
        for index, leaf in leaves:
            place = self.cpu.slice(i, index)
            if fits_register(leaf):
                value = self.builder.load(self.buffer(place, leaf.dtype), self.builder.index(0))
                results.append((index, leaf, place))
                self.slots[i.operands[0], index] = value
            else:
                self.slots[i.operands[0], index] = place
        start = dict(self.slots)
        self._while(i, lambda index: start[i.operands[0], index])
        e.restart()
        for index, leaf, place in results:
            value = self.slots[i, index]
            assert isinstance(value, Value)
            if index not in self.unchanged:  # whose memory may be an argument's
                self.builder.store(self.buffer(place, leaf.dtype), self.builder.index(0), value)
        if self.ended_early is not None:
            if any(place.overlaps(pred) for place, _ in self.params):
                raise Overlap
            self.builder.store(self.buffer(pred, PRED), self.builder.index(0), self.ended_early)

    def _while(self, i: Instruction, initial: Callable[[Index], Slot]) -> None:
        condition, body = i.called
        leaves = self._leaves(i.shape)
        register_leaves = [(index, leaf) for index, leaf in leaves if fits_register(leaf)]
        places = {x: self.cpu.slice(i, x) for x, leaf in leaves if not fits_register(leaf)}
        if any(initial(index) != place for index, place in places.items()):
            raise Decline("a carried array is not where it began")
        init = [x for x in [initial(index) for index, _ in register_leaves] if isinstance(x, Value)]
        if len(init) < len(register_leaves):
            raise Decline("a carried scalar begins in memory")

        def bind(c: Computation, values: Sequence[Value]) -> None:
            [p] = c.parameters
            for (index, _), value in zip(register_leaves, values):
                self.slots[p, index] = value
            for index, place in places.items():
                self.slots[p, index] = place

        b = self.builder
        steps = self.steps if i is self.loop else None
        carried = dict(zip([index for index, _ in register_leaves], init))
        last = last_step(b, i, carried, steps) if steps else None
        counted = bool(steps) and last is None
        if counted:
            init.append(b.constant(S32, steps))

        def check(*values: Value) -> Value:
            if last is not None:
                return b.compare("LT", values[last.number], last.end)
            bind(condition, values)
            self._sequence(condition)
            pred = self.slot(condition.root)
            if not isinstance(pred, Value):
                raise Decline("the condition is in memory")
            left = b.compare("NE", values[-1], b.constant(S32, 0)) if counted else None
            return pred if left is None else b.binary("and", pred, left)

        def step(*values: Value) -> Sequence[Value]:
            bind(body, values)
            self._sequence(body)
            if any(self.slot(body.root, index) != place for index, place in places.items()):
                raise Decline("a carried array ends elsewhere")
            following = [self._register(body.root, index) for index, _ in register_leaves]
            if i is self.loop:
                pairs = zip(register_leaves, values, following)
                self.unchanged = {index for (index, _), old, new in pairs if new is old}
            if counted:
                following.append(b.binary("subtract", values[-1], b.constant(S32, 1)))
            return following

        results = b.while_(init, check, step)
        if counted:
            self.ended_early = b.compare("EQ", results[-1], b.constant(S32, 0))
        if last is not None:
            self.ended_early = b.compare("LT", results[last.number], last.bound)
        for (index, _), value in zip(register_leaves, results):
            self.slots[i, index] = value
        for index, place in places.items():
            self.slots[i, index] = place

    def _register(self, i: Instruction, index: Index) -> Value:
        value = self.slot(i, index)
        if not isinstance(value, Value):
            raise Decline("a carried scalar is in memory")
        return value

    def _conditional(self, i: Instruction) -> None:
        selector = self._register(i.operands[0], ())
        leaves = self._leaves(i.shape)
        register_indices = [index for index, leaf in leaves if fits_register(leaf)]
        places = {x: self.cpu.slice(i, x) for x, leaf in leaves if not fits_register(leaf)}

        def branch(number: int) -> Sequence[Value]:
            c, operand = i.called[number], i.operands[1 + number]
            [p] = c.parameters
            for index, _ in self._leaves(p.shape):
                self.slots[p, index] = self.slot(operand, index)
            self._sequence(c)
            if any(self.slot(c.root, index) != place for index, place in places.items()):
                raise Decline("a branch's array is elsewhere")
            return [self._register(c.root, index) for index in register_indices]

        def choose(number: int) -> Sequence[Value]:
            if number == len(i.called) - 1:
                return branch(number)
            b = self.builder
            takes = selector
            if not takes.dtype.is_pred:
                takes = b.compare("EQ", takes, b.constant(S32, number))
            return b.if_(takes, lambda: branch(number), lambda: choose(number + 1))

        results = choose(0)
        for index, value in zip(register_indices, results):
            self.slots[i, index] = value
        for index, place in places.items():
            self.slots[i, index] = place

    def _sequence(self, c: Computation) -> None:
        for i in self.cpu.order.of(c):
            self._instruction(i)

    # -- instructions

    def _instruction(self, i: Instruction) -> None:
        opcode = i.opcode
        if opcode in ("parameter", "tuple", "get-tuple-element"):
            return
        if opcode == "while":
            self._while(i, lambda index: self.slot(i.operands[0], index))
        elif opcode == "conditional":
            self._conditional(i)
        elif opcode == "constant":
            self._constant(i)
        elif opcode == "bitcast":
            self._bitcast(i)
        elif opcode == "copy":
            self._copy(i)
        elif opcode in LOOPS:
            self._body(i, Body.of(i))
        else:
            raise Decline(f"a {opcode}")

    def _constant(self, i: Instruction) -> None:
        if fits_register(i.shape):
            value = i.attrs.literal.array.flat[0]
            self.slots[i, ()] = self.builder.constant(i.shape.dtype, value)
        else:
            self._leaves(i.shape)
            self.slots[i, ()] = self.cpu.slice(i)

    def _bitcast(self, i: Instruction) -> None:
        x = i.operands[0]
        if x.shape.dtype is not i.shape.dtype:
            raise Decline("a bitcast to another type")
        self.slots[i, ()] = self.slot(x)

    def _copy(self, i: Instruction) -> None:
        x = i.operands[0]
        if not i.shape.is_array or not x.shape.is_array:
            raise Decline("a copy of a tuple")
        slot_ = self.slot(x)
        if isinstance(slot_, Value) or slot_ == self.cpu.slice(i):
            self.slots[i, ()] = slot_
        else:
            self._body(i, Body.of(i))

    def _body(self, i: Instruction, body: Body) -> None:
        """What a kernel of its own would compute, written here."""
        e = self.elements
        if any(x.opcode in ("scatter", "convolution") for x in body.instructions):
            raise Decline("a scatter or convolution")
        costs = self.cpu.device.costs
        if body_ns(body, costs) > costs.serial_ns:  # it gets threads and a kernel of its own
            raise Decline(f"%{i.name} has much to do")
        if any(is_matrix_product(x, self.cpu.device) for x in body.instructions):
            raise Decline(f"%{i.name} multiplies matrices")
        e.restart()
        e.sources.clear()
        for leaf, number in body.leaves:
            slot_ = self.slot(i.operands[number])
            if isinstance(slot_, Value):
                e.supplied[leaf] = slot_
            else:
                buffer = self.buffer(slot_, leaf.shape.dtype)
                e.sources[leaf] = Source(buffer, strides_of(leaf.shape))
        registers: list[tuple[Index, Value]] = []
        roots, outputs = [], []
        for number, (root, part) in enumerate(body.roots):
            where = (number,) if body.several else ()
            shape = root.shape.subshape(part)
            if shape.dynamic:
                raise Decline("a dynamic size")
            if fits_register(shape):
                registers.append((where, self._scalar(root, part, shape)))
                continue
            place = self.cpu.slice(i, where)
            if is_update(root) and self._updated(i, root) != place:
                raise Decline("an update of an array that stands elsewhere")
            roots.append((root, part))
            outputs.append(Source(self.buffer(place, shape.dtype), strides_of(shape)))
            self.slots[i, where] = place
        self._write(body, roots, outputs)
        for where, value in registers:
            self.slots[i, where] = value
        e.restart()

    def _updated(self, i: Instruction, root: Instruction) -> Slot | None:
        """Where the array is that a root updates; None for one that is computed in the body."""
        x = root.operands[0]
        while x.opcode in ("bitcast", "reshape"):
            x = x.operands[0]
        if x.opcode == "parameter":
            return self.slot(i.operands[x.attrs.number])
        return self.slot(x) if i.opcode == "dynamic-update-slice" else None

    def _scalar(self, root: Instruction, part: Index, shape: Shape) -> Value:
        """The single element of a root."""
        e = self.elements
        at = (ZERO,) * shape.rank
        if is_update(root):
            root, part = root.operands[1], ()
        value = e.result(root, at)
        if isinstance(value, tuple):
            value = value[part[0] if part else 0]
        return self.builder.reshape(value, ()) if value.shape else value

    def _write(
        self, body: Body, roots: list[tuple[Instruction, Index]], outputs: list[Source]
    ) -> None:
        """The loops of the roots that are stored, in the form that their own kernel would have."""
        if not roots:
            return
        e, device = self.elements, self.cpu.device
        work = body_element_work(body, device.costs)
        if is_cumulative(body) and len(roots) == len(body.roots):
            write_cumulative(BodyEmitter(body, e, outputs), device)
            return
        nest = one_nest(body, device, work)
        rest = Body(body.name, body.several, body.leaves, roots, body.instructions)
        if nest is not None and len(roots) != len(body.roots):  # the scalars are known by now
            if (nest := one_nest(rest, device, work)) is None:
                raise Decline("rows of several sizes beside scalars")
        place = BodyEmitter(rest, e, outputs)
        if nest is None:
            write_sequence(place, device, work)
        else:
            LoopWriter(place, nest).write_here()
