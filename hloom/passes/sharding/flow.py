"""Which leaves of which values are the same array under other names, or handed on as it is.

A *place* is one leaf of one instruction. Some places cannot differ in sharding: the state of a
loop before, in and after its body, the results of branches. They are one `Node`. Others are
handed on as they are but may be sharded anew on the way: operand and parameter, tuple and
element. Those are pairs of nodes: `Flow.handed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import CONTROL_FLOW, HANDS_OPERANDS
from hloom.types.shape import Shape

IDENTITIES = frozenset(
    """Sharding annotate_device_placement MoveToHost MoveToDevice LayoutConstraint
    AssumeGatherIndicesInBound""".split()
)
"""Custom calls whose result is their operand."""
CALLS = opcodes(CONTROL_FLOW, HANDS_OPERANDS)

Place = tuple[Instruction, int]


@dataclass(slots=True)
class Handed:
    """Two places that hold the same array, and the instruction that hands it on."""

    at: Instruction
    source: Place
    target: Place


@dataclass(slots=True)
class Flow:
    """The computations that a program runs, and how arrays go between places."""

    computations: list[Computation] = field(default_factory=list)
    depths: dict[Computation, int] = field(default_factory=dict)
    """In how many loops, one in another, each computation runs."""
    same: list[tuple[Place, Place]] = field(default_factory=list)
    """Places that have one sharding."""
    handed: list[Handed] = field(default_factory=list)


def flow_of(module: Module) -> Flow:
    """Of everything that the entry runs; computations that fold or compare scalars are none."""
    flow = Flow()
    flow.depths[module.entry] = 0
    stack = [module.entry]
    while stack:
        c = stack.pop()
        flow.computations.append(c)
        for i in c.in_order():
            _add(flow, i)
            if i.opcode in CALLS:
                for called in i.called:
                    if called not in flow.depths:
                        flow.depths[called] = flow.depths[c] + (i.opcode == "while")
                        stack.append(called)
    return flow


def _add(flow: Flow, i: Instruction) -> None:
    adder = _ADDERS.get(i.opcode)
    if adder is not None:
        adder(flow, i)
    elif i.opcode == "custom-call" and i.attrs.custom_call_target in IDENTITIES:
        if len(i.operands) == 1 and _alike(i.operands[0].shape, i.shape):
            _hand(flow, i, i.operands[0], 0, i, 0, i.shape.leaf_count)


def _alike(a: Shape, b: Shape) -> bool:
    leaves = list(zip(a.leaves(), b.leaves()))
    return a.leaf_count == b.leaf_count and all(x.dims == y.dims for x, y in leaves if x.is_array)


def _hand(
    flow: Flow, at: Instruction, x: Instruction, start: int, y: Instruction, to: int, count: int
) -> None:
    """Leaves start, start + 1, ... of x are leaves to, to + 1, ... of y."""
    for k in range(count):
        flow.handed.append(Handed(at, (x, start + k), (y, to + k)))


def _offset(shape: Shape, index: int) -> int:
    """Which leaf the element of a tuple begins with."""
    return sum(e.leaf_count for e in shape.elements[:index])


def _tuple(flow: Flow, i: Instruction) -> None:
    at = 0
    for x in i.operands:
        _hand(flow, i, x, 0, i, at, x.shape.leaf_count)
        at += x.shape.leaf_count


def _element(flow: Flow, i: Instruction) -> None:
    x = i.operands[0]
    _hand(flow, i, x, _offset(x.shape, i.attrs.index), i, 0, i.shape.leaf_count)


def _through(flow: Flow, i: Instruction) -> None:
    """A barrier or its like around a tuple; arrays have factors."""
    if i.shape.is_tuple:
        _hand(flow, i, i.operands[0], 0, i, 0, i.shape.leaf_count)


def _call(flow: Flow, i: Instruction) -> None:
    (called,) = i.called
    for x, p in zip(i.operands, called.parameters):
        _hand(flow, i, x, 0, p, 0, x.shape.leaf_count)
    _hand(flow, i, called.root, 0, i, 0, i.shape.leaf_count)


def _while(flow: Flow, i: Instruction) -> None:
    condition, body = i.called
    for k in range(i.shape.leaf_count):
        for x in (condition.parameters[0], body.parameters[0], body.root):
            flow.same.append(((i, k), (x, k)))
    _hand(flow, i, i.operands[0], 0, i, 0, i.shape.leaf_count)


def _conditional(flow: Flow, i: Instruction) -> None:
    for x, branch in zip(i.operands[1:], i.called):
        _hand(flow, i, x, 0, branch.parameters[0], 0, x.shape.leaf_count)
        for k in range(i.shape.leaf_count):
            flow.same.append(((i, k), (branch.root, k)))


def _async_start(flow: Flow, i: Instruction) -> None:
    """The shape is (operands, result, ...)."""
    (called,) = i.called
    at = 0
    for x, p in zip(i.operands, called.parameters):
        _hand(flow, i, x, 0, p, 0, x.shape.leaf_count)
        _hand(flow, i, x, 0, i, at, x.shape.leaf_count)
        at += x.shape.leaf_count
    root = called.root
    if len(i.shape.elements) > 1:
        _hand(flow, i, root, 0, i, _offset(i.shape, 1), root.shape.leaf_count)


def _async_update(flow: Flow, i: Instruction) -> None:
    if i.operands[0].shape.leaf_count == i.shape.leaf_count:
        _hand(flow, i, i.operands[0], 0, i, 0, i.shape.leaf_count)


def _async_done(flow: Flow, i: Instruction) -> None:
    x = i.operands[0]
    if len(x.shape.elements) > 1:
        _hand(flow, i, x, _offset(x.shape, 1), i, 0, i.shape.leaf_count)


def _copy_start(flow: Flow, i: Instruction) -> None:
    """The shape is (target, source, context)."""
    for k in (0, 1):
        _hand(flow, i, i.operands[0], 0, i, k, 1)


def _copy_done(flow: Flow, i: Instruction) -> None:
    _hand(flow, i, i.operands[0], 0, i, 0, 1)


_ADDERS = {
    "tuple": _tuple,
    "get-tuple-element": _element,
    "opt-barrier": _through,
    "domain": _through,
    "add-dependency": _through,
    "call": _call,
    "fusion": _call,
    "while": _while,
    "conditional": _conditional,
    "async-start": _async_start,
    "async-update": _async_update,
    "async-done": _async_done,
    "copy-start": _copy_start,
    "copy-done": _copy_done,
}


def leaf_places(i: Instruction) -> Iterator[Place]:
    """One place for each leaf of a value."""
    for k in range(i.shape.leaf_count):
        yield i, k
