"""Making a kernel smaller while something stays true of it, such as that it is lowered wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hloom.base.diagnostics import HloError
from hloom.interp.draw_kernel import DrawnKernel
from hloom.kernel.kernel import Block, Kernel, Op, TileType, Value
from hloom.kernel.text import parse_kernel, show_kernel
from hloom.kernel.verify import verify_kernel


def shrunk(
    drawn: DrawnKernel, still: Callable[[DrawnKernel], bool], patience: int = 400
) -> DrawnKernel:
    """The smallest kernel found of which `still` holds, by at most `patience` tries.

    Ops are dropped from the last to the first, or give way to an operand or a constant.
    """
    best, again = drawn, True
    while again and patience > 0:
        again = False
        at = 0
        while patience > 0:
            candidate = None
            for way in range(4):
                candidate = _without(best, at, way)
                if candidate is None:
                    continue
                patience -= 1
                if _valid(candidate) and still(candidate):
                    best, again = candidate, True
                    break
                candidate = None
            if candidate is None:
                at += 1
                if at >= sum(1 for _ in best.kernel.ops()):
                    break
    return best


def _valid(drawn: DrawnKernel) -> bool:
    try:
        verify_kernel(drawn.kernel)
    except HloError:
        return False
    return True


def _without(drawn: DrawnKernel, at: int, way: int) -> DrawnKernel | None:
    """A copy that lacks op `at` from the end, done in one of four ways; None if it cannot be."""
    kernel = parse_kernel(show_kernel(drawn.kernel))
    found = list(kernel.ops())
    op = found[len(found) - 1 - at]
    if op.opcode == "yield":
        return None
    used = {x for o in found for x in o.operands}
    if way == 0:
        if any(r in used for r in op.results):
            return None
        _remove(kernel.body, op)
    elif any(not isinstance(r.type, TileType) for r in op.results) or not op.results:
        return None
    elif way == 1:
        taken = list(_stand_ins(op))
        if len(taken) != len(op.results):
            return None
        for old, new in zip(op.results, taken):
            _replace(kernel, old, new)
        if op.blocks:
            _remove(kernel.body, op)
    elif way == 2:
        if op.opcode == "constant" or (op.opcode in ("load", "gather") and not op.result.shape):
            return None
        for result in op.results:
            value = False if result.dtype.is_pred else 1
            new = Op("constant", (), (result.type,), {"value": value})
            _insert_before(kernel.body, op, result, new)
    elif op.blocks:
        return _inlined(drawn, kernel, op)
    else:
        return None
    _sweep(kernel)
    return _with_buffers(drawn, kernel)


def _stand_ins(op: Op) -> Iterator[Value]:
    """For each result an operand of its type: what a loop carries in, else any."""
    carried = {"for": 2, "while": 0}.get(op.opcode)
    for k, result in enumerate(op.results):
        if carried is not None:
            yield op.operands[carried + k]
        else:
            yield from [x for x in op.operands if x.type == result.type][:1]


def _inlined(drawn: DrawnKernel, kernel: Kernel, op: Op) -> DrawnKernel | None:
    """Without an if, but with its first block in its place."""
    if op.opcode != "if":
        return None
    block, position = _home(kernel.body, op)
    *inner, last = op.blocks[0].ops
    block.ops[position : position + 1] = inner
    for old, new in zip(op.results, last.operands):
        _replace(kernel, old, new)
    _sweep(kernel)
    return _with_buffers(drawn, kernel)


def _home(block: Block, op: Op) -> tuple[Block, int]:
    for b in _blocks(block):
        if op in b.ops:
            return b, b.ops.index(op)
    raise KeyError(op.opcode)


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for inner in op.blocks:
            yield from _blocks(inner)


def _remove(block: Block, op: Op) -> None:
    home, position = _home(block, op)
    del home.ops[position]


def _insert_before(block: Block, op: Op, result: Value, new: Op) -> None:
    home, position = _home(block, op)
    home.ops.insert(position, new)
    for b in _blocks(block):
        for other in b.ops:
            other.operands = tuple(new.result if x is result else x for x in other.operands)


def _replace(kernel: Kernel, old: Value, new: Value) -> None:
    for op in kernel.ops():
        op.operands = tuple(new if x is old else x for x in op.operands)


def _sweep(kernel: Kernel) -> None:
    """Remove pure ops and loads that nobody uses."""
    while True:
        used = {x for op in kernel.ops() for x in op.operands}
        gone = False
        for block in _blocks(kernel.body):
            kept = [
                op
                for op in block.ops
                if not op.results or op.blocks or any(r in used for r in op.results)
            ]
            gone |= len(kept) != len(block.ops)
            block.ops[:] = kept
        if not gone:
            return


def _with_buffers(drawn: DrawnKernel, kernel: Kernel) -> DrawnKernel:
    """The kernel without parameters that nobody uses, and the buffers of the others."""
    used = {x for op in kernel.ops() for x in op.operands}
    buffers = {p.name: b for p, b in zip(drawn.kernel.params, drawn.buffers)}
    kernel.params[:] = [p for p in kernel.params if p.value in used]
    return DrawnKernel(kernel, [buffers[p.name] for p in kernel.params], drawn.loose)
