"""Layouts, where they count: who may change one, who must pass it on unchanged.

A shape without a layout counts as having the row-major one.
"""

from collections.abc import Iterator
from typing import Any

from hloom.base.diagnostics import VerifyError
from hloom.ir.infer.compare import compatible
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS, opcodes
from hloom.ir.traits import CHANGES_LAYOUT
from hloom.ir.verify.rules import VerifyOptions, broken
from hloom.types.dtype import PRED
from hloom.types.shape import Shape, tuple_shape

HOST_MEMORY = 5
ORDER_ONLY = {"minor_to_major_only": True}
_CHANGES_LAYOUT = opcodes(CHANGES_LAYOUT)
# These may change how many bits an element takes.
CHANGES_ELEMENTS = frozenset(("convert", "compare", "is-finite", "scatter"))
MOVES_MEMORY = frozenset(("dynamic-slice", "dynamic-update-slice", "copy"))


def check_layouts(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    """Only asked with `layout_sensitive`."""
    if not options.layout_sensitive:
        return
    for c in module.computations:
        for i in c.instructions:
            check = _PASSED_ON.get(i.opcode)
            if check is not None:
                for declared, expected, how in check(i):
                    if declared is not expected and not _same(declared, expected, how):
                        yield broken("layout-same", f"{declared} must be {expected}", i)
                        break
            if i.opcode == "bitcast":
                operand = i.operands[0].shape
                if i.shape.is_static and operand.is_static:
                    if i.shape.size_bytes != operand.size_bytes:
                        yield broken(
                            "bitcast-size",
                            f"{operand} has {operand.size_bytes} bytes but {i.shape} "
                            f"{i.shape.size_bytes}",
                            i,
                        )
            elif i.opcode == "copy":
                yield from _check_host_copy(i)
            if options.check_layout_changes and i.opcode not in _CHANGES_LAYOUT:
                yield from _check_change(i)


def _same(a: Shape, b: Shape, how: dict[str, Any]) -> bool:
    return a.with_default_layouts().same(b.with_default_layouts(), ignore_dynamic=True, **how)


Pair = tuple[Shape, Shape, dict[str, Any]]


def _of_element(i: Instruction) -> Iterator[Pair]:
    yield i.shape, i.operands[0].shape.elements[i.attrs.index], {}


def _of_tuple(i: Instruction) -> Iterator[Pair]:
    for part, x in zip(i.shape.elements, i.operands):
        yield part, x.shape, {}


def _of_operand(i: Instruction) -> Iterator[Pair]:
    yield i.shape, i.operands[0].shape, {}


def _of_while(i: Instruction) -> Iterator[Pair]:
    state = i.operands[0].shape
    yield i.shape, i.called[1].root.shape, {}
    for c in i.called:
        yield c.parameters[0].shape, state, {}


def _of_call(i: Instruction) -> Iterator[Pair]:
    yield i.shape, i.called[0].root.shape, {}
    for p, x in zip(i.called[0].parameters, i.operands):
        yield p.shape, x.shape, {}


def _of_conditional(i: Instruction) -> Iterator[Pair]:
    for c, x in zip(i.called, i.operands[1:]):
        yield c.parameters[0].shape, x.shape, {}
        yield i.shape, c.root.shape, {}


def _of_async_start(i: Instruction) -> Iterator[Pair]:
    body = i.called[0]
    for part, p, x in zip(i.shape.elements[0].elements, body.parameters, i.operands):
        yield part, p.shape, {}
        yield part, x.shape, {}
    if compatible(i.shape.elements[1], body.root.shape):
        yield i.shape.elements[1], body.root.shape, {}


def _of_async_update(i: Instruction) -> Iterator[Pair]:
    before = i.operands[0].shape
    bound = (*before.elements[0].elements, *(x.shape for x in i.operands[1:]))
    for part, expected in zip(i.shape.elements[0].elements, bound):
        yield part, expected, {}
    yield tuple_shape(i.shape.elements[2:]), tuple_shape(before.elements[2:]), {}


def _of_async_done(i: Instruction) -> Iterator[Pair]:
    declared = i.operands[0].shape.elements[1]
    if compatible(declared, i.shape):  # else the result was left open until here
        yield i.shape, declared, {}


def _of_copy_start(i: Instruction) -> Iterator[Pair]:
    for part in i.shape.elements[:2]:
        yield part, i.operands[0].shape, ORDER_ONLY


def _of_copy_done(i: Instruction) -> Iterator[Pair]:
    destination, source = i.operands[0].shape.elements[:2]
    yield destination, source, {"ignore_memory_space": True, "ignore_tiles": True}
    yield i.shape, destination, {}


def _of_send(i: Instruction) -> Iterator[Pair]:
    yield i.shape.elements[0], i.operands[0].shape, ORDER_ONLY


def _of_recv_done(i: Instruction) -> Iterator[Pair]:
    yield i.shape.elements[0], i.operands[0].shape.elements[0], {}


def _of_update(i: Instruction) -> Iterator[Pair]:
    fused = {"ignore_memory_space": True, "ignore_tiles": True} if i.parent.is_fusion else {}
    yield i.shape, i.operands[0].shape, fused


def _of_outfeed(i: Instruction) -> Iterator[Pair]:
    if i.attrs.outfeed_shape is not None:
        yield i.attrs.outfeed_shape, i.operands[0].shape, {}


_PASSED_ON = {
    "get-tuple-element": _of_element,
    "tuple": _of_tuple,
    "opt-barrier": _of_operand,
    "async-update": _of_async_update,
    "while": _of_while,
    "call": _of_call,
    "fusion": _of_call,
    "conditional": _of_conditional,
    "async-start": _of_async_start,
    "async-done": _of_async_done,
    "copy-start": _of_copy_start,
    "copy-done": _of_copy_done,
    "send": _of_send,
    "recv-done": _of_recv_done,
    "dynamic-update-slice": _of_update,
    "outfeed": _of_outfeed,
}


def handed_on(i: Instruction) -> list[tuple[Shape, Shape]]:
    """The shapes that an instruction which hands values on says of them, beside those they have."""
    pairs = _PASSED_ON.get(i.opcode)
    return [] if pairs is None else [(declared, had) for declared, had, _ in pairs(i)]


def _check_host_copy(i: Instruction) -> Iterator[VerifyError]:
    declared, source = i.shape, i.operands[0].shape
    if declared.layout is None or source.layout is None:
        return
    spaces = declared.layout.memory_space, source.layout.memory_space
    if spaces[0] == spaces[1] or HOST_MEMORY not in spaces:
        return
    # Towards the host it may still be a copy within the host, whose space is not yet known.
    if spaces[0] == HOST_MEMORY:
        good = declared.dtype is source.dtype
    else:
        good = declared.same(source, ignore_memory_space=True)
    if not good:
        yield broken(
            "host-copy", f"a copy between memories cannot turn {source} into {declared}", i
        )


def _check_change(i: Instruction) -> Iterator[VerifyError]:
    declared = i.shape
    if not declared.is_array or declared.layout is None or i.opcode not in OPS:
        return
    for x in i.operands:
        s = x.shape
        if not s.is_array or s.layout is None or s.rank != declared.rank:
            continue
        bits = i.opcode in CHANGES_ELEMENTS or (i.opcode == "select" and s.dtype is PRED)
        if not declared.layout.same(
            s.layout, ignore_tiles=True, ignore_memory_space=True, ignore_element_size=bits
        ):
            yield broken("layout-change", f"{i.opcode} turns {s} into {declared}", i)
            return
        spaces = s.layout.memory_space, declared.layout.memory_space
        if i.opcode in MOVES_MEMORY and spaces == _FORBIDDEN_MOVE.get(i.opcode):
            yield broken("layout-change", f"{i.opcode} moves {s} into {declared}", i)
            return


# (from, to): a slice is not taken to the host, an update not brought to the device.
_FORBIDDEN_MOVE = {"dynamic-slice": (0, HOST_MEMORY), "dynamic-update-slice": (HOST_MEMORY, 0)}
