"""One all-reduce after a loop in the place of one in each step.

Two forms. *Accumulation*: `acc = acc + f(all-reduce(x))`, f linear: each device adds up its own
f(x), and the sums are reduced afterwards and added to what the accumulator began as. *Stacking*:
`out[i] = all-reduce(x)`, where step i writes slot i (or slot n - i) and nothing reads it: each
device stacks its own, and the stack is reduced afterwards (`stacked_updates.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from hloom.analysis.replication import ReplicationAnalysis
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import RESHAPES
from hloom.ir.values.group_modes import Groups
from hloom.passes.collectives.groups import devices_of, is_plain, reduction_of, widens
from hloom.passes.collectives.loop_results import (
    element_readers,
    initial_element,
    is_read_by_conditions,
    is_taken_apart,
    loops_of,
    retype,
    set_initial,
    set_result,
    unread_element,
)
from hloom.passes.collectives.moving import applied
from hloom.passes.collectives.stacked_updates import move_stacked, stacked_update
from hloom.passes.computation_pass import settle
from hloom.passes.expand.expansion import Combiners, Expansion
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace
from hloom.types.shape import Shape

_LINEAR = opcodes(RESHAPES, also=("transpose", "slice", "copy"))
"""What a sum may be taken through, whatever else they read."""


class Alike:
    """Whether devices hold the same values; the module is only looked through when that is asked.
    What was made since is taken to differ."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.analysis: ReplicationAnalysis | None = None

    def __call__(self, values: Sequence[Instruction], groups: Groups | None) -> bool:
        if all(v.opcode == "constant" for v in values):
            return True
        if groups is None:
            return False
        if self.analysis is None:
            self.analysis = ReplicationAnalysis(self.module)
        return all(self.analysis.is_same_within(v, groups) for v in values)


class Accumulation(NamedTuple):
    """`add`: the accumulator of one step, element `k` of the state, plus what becomes of
    `collective`."""

    k: int
    add: Instruction
    collective: Instruction
    forms: list[Instruction]
    """What stands between the two, in order."""


@register
class WhileLoopAllReduceCodeMotion(Pass):
    """Move all-reduces of what a loop adds up or stacks behind the loop."""

    name = "while-loop-all-reduce-code-motion"
    breaks = (no_dead_code,)

    enable_reduce_scatter: bool = False
    """Move reduce-scatters too: the accumulator becomes as large as what they read."""
    max_stacked_size_bytes: int = 10240
    """A stack that is reduced afterwards has at most so many bytes."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        changed: dict[Computation, None] = {}
        combiners: Combiners = {}
        alike = Alike(module)
        for body in on_threads(module, threads):
            loops = loops_of(body)
            if not loops or not is_taken_apart(body, loops):
                continue
            for i in body.in_order():
                if i.opcode not in ("all-reduce", "reduce-scatter") or not is_plain(i):
                    continue
                accumulation = self.accumulation(body, loops, i, alike)
                if accumulation is not None:
                    self.move(body, loops, accumulation, combiners)
                    fired["accumulated"] += 1
                elif self.stacks(body, loops, i):
                    fired["stacked"] += 1
                else:
                    continue
                changed.update(dict.fromkeys((body, *(x.parent for x in loops))))
        settle(module, changed)
        return PassResult.of(fired)

    def stacks(self, body: Computation, loops: list[Instruction], i: Instruction) -> bool:
        """Move an all-reduce whose results are stacked; whether that was possible."""
        update = stacked_update(body, loops, i)
        if update is None or update.size_bytes > self.max_stacked_size_bytes:
            return False
        move_stacked(body, loops, update)
        return True

    def accumulation(
        self, body: Computation, loops: list[Instruction], i: Instruction, alike: Alike
    ) -> Accumulation | None:
        """What a collective of the body is added to, where it can be moved."""
        if i.opcode == "reduce-scatter" and not (self.enable_reduce_scatter and len(loops) == 1):
            return None
        if reduction_of(i) != "add" or i.shape.dtype is not i.operands[0].shape.dtype:
            return None
        added = added_to(i, alike)
        if added is None:
            return None
        add, forms = added
        k = unread_element(body, add)
        if k is None or is_read_by_conditions(loops, k):
            return None
        readers = element_readers(body.parameters[0], k)
        if len(readers) != 1 or set(readers[0].users) != {add} or readers[0].is_root:
            return None
        if list(add.operands).count(readers[0]) != 1:
            return None
        if i.opcode == "reduce-scatter" and not all(is_of_any_size(f, i.shape) for f in forms):
            return None
        return Accumulation(k, add, i, forms)

    def move(
        self,
        body: Computation,
        loops: list[Instruction],
        accumulation: Accumulation,
        combiners: Combiners,
    ) -> None:
        k, add, i, forms = accumulation
        x = i.operands[0]
        result = add.shape
        shape = result if i.opcode == "all-reduce" else x.shape.with_dtype(result.dtype)
        for loop in loops:
            c = loop.parent
            b = Expansion(c, combiners)
            begin = initial_element(loop, k)
            zeros = b.full(0, shape.dtype, shape.dims)
            if shape is not result:
                _grow(body, loop, k, add, shape)
            zeros.shape = shape
            set_initial(loop, k, zeros)
            element = b.emit("get-tuple-element", loop, index=k)
            called = (b.combiner("add", shape.dtype),)
            new = c.append(i.opcode, i.attrs, (element,), result, i.opcode, called)
            new.copy_annotations(i)
            total = c.append("add", add.attrs, (begin, new), result, "add")
            total.metadata, total.sharding = add.metadata, add.sharding
            set_result(loop, k, element, total)
        if i.opcode == "reduce-scatter" and forms:
            _in_another_size(body, i, forms, add)
        body.replace(i, x)
        body.erase(i)


def _in_another_size(
    body: Computation, i: Instruction, forms: list[Instruction], add: Instruction
) -> None:
    """Bring what a reduce-scatter reads, instead of its result, into the forms that are added."""
    b, x, was = Expansion(body, Combiners()), i.operands[0], i
    for f in forms:
        x, was = applied(b, f, was, x, i.operands[0].shape.dims), f
    add.replace_operand(was, x)
    for f in reversed(forms):
        body.erase(f)


def is_of_any_size(f: Instruction, of: Shape) -> bool:
    """Whether a form is one of each element by itself, whatever their number."""
    spread = [o for o in f.operands if is_spread(o)]
    is_by_element = f.opcode in ("convert", "select") and f.shape.dims == of.dims
    return is_by_element and len(spread) == len(f.operands) - 1


def is_spread(i: Instruction) -> bool:
    """Whether a value is a scalar, or one repeated."""
    return not i.shape.rank or (i.opcode == "broadcast" and not i.operands[0].shape.rank)


def _grow(body: Computation, loop: Instruction, k: int, add: Instruction, shape: Shape) -> None:
    """Let an accumulator have the shape of what the collective reads."""
    retype(loop, body, k, shape)
    (reader,) = element_readers(body.parameters[0], k)
    reader.shape = add.shape = shape


def added_to(i: Instruction, alike: Alike) -> tuple[Instruction, list[Instruction]] | None:
    """The addition that the result of a collective reaches, alone, and the linear operations that
    it goes through."""
    groups, forms = devices_of(i), list[Instruction]()
    while True:
        if i.is_root or len(i.users) != 1:
            return None
        (reader,) = i.users
        if reader.has_control_edges or list(reader.operands).count(i) != 1:
            return None
        if reader.opcode == "add":
            return reader, forms
        if not is_linear(reader, i, groups, alike):
            return None
        i = reader
        forms.append(i)


def is_linear(f: Instruction, x: Instruction, groups: Groups | None, alike: Alike) -> bool:
    """Whether f of a sum over devices is the sum of f, in at least the precision of `x`."""
    if f.opcode in _LINEAR:
        return f.shape.dtype is x.shape.dtype
    if f.opcode == "convert":
        return widens(x.shape, f.shape)
    if f.opcode == "dynamic-slice" and f.operands[0] is x:
        return alike(f.operands[1:], groups)
    if f.opcode == "select" and f.operands[0] is not x:
        other = f.operands[1] if f.operands[2] is x else f.operands[2]
        return is_zero(other) and alike(f.operands[:1], groups)
    return False


def is_zero(i: Instruction) -> bool:
    """Whether all elements are the constant 0."""
    if i.opcode == "broadcast":
        i = i.operands[0]
    if i.opcode != "constant" or i.attrs.literal.is_elided:
        return False
    return not i.attrs.literal.array.any()
