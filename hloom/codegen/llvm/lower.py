"""A kernel of tiles as one LLVM function: `void @name(ptr %args, i64 %begin, i64 %end)`.

The function runs the steps begin .. end of the linearised grid. The last axis of the grid is the
inner loop; the indices of the axes before are counted up with carry once for each row of steps, so
nothing is divided per step. What depends on no index is emitted before both loops, what depends on
outer ones before the inner loop; the builder of the text sees to that (`lines`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.computed import computed_values
from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.lower_control import for_, if_, while_
from hloom.codegen.llvm.lower_dot import DOT, find_deferred
from hloom.codegen.llvm.lower_element import ELEMENT
from hloom.codegen.llvm.lower_fold import FOLD
from hloom.codegen.llvm.lower_gather import GATHER
from hloom.codegen.llvm.lower_memory import MEMORY, planes_of_scratch
from hloom.codegen.llvm.lower_shape import SHAPE
from hloom.codegen.llvm.lower_state import Freedom, Handler, KernelLowering
from hloom.codegen.llvm.lower_tiles import configure, find_stored, has_tiles, release
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.moved import moved_as_bits
from hloom.codegen.llvm.values import V
from hloom.kernel.kernel import Block, Kernel, Value
from hloom.types.dtype import BF16

STRICT = Freedom()


def lower_kernel(kernel: Kernel, machine: Machine) -> str:
    """The definition of the kernel's function, as LLVM text."""
    return lower_function(kernel, machine).whole_text()


def lower_function(
    kernel: Kernel, machine: Machine, freedom: Freedom = STRICT, name: str = ""
) -> Emit:
    """The kernel's function, as `emit.module_text` takes it; `name` if not the kernel's own."""
    kernel = moved_as_bits(kernel)
    arguments = [("ptr", "args"), ("i64", "begin"), ("i64", "end")]
    e = Emit(name or kernel.name, machine, arguments)
    low = KernelLowering(kernel, machine, e, freedom)
    args, begin, end = e.args
    size = machine.address_bytes
    for number, param in enumerate(kernel.params):
        place = e.gep(args, size * number)
        low.rows[param.value] = [e.load(place, "ptr", align=size, invariant=True)]
    is_tiled = has_tiles(kernel)
    _look_ahead(low, is_tiled)
    if is_tiled:
        configure(low, kernel)
    with _steps(e, kernel.grid, begin, end) as indices:
        for value, index in zip(kernel.body.arguments, indices):
            low.rows[value] = [index]
        lower_block(low, kernel.body)
    if is_tiled:
        release(low)
    if low.nontemporal and machine.is_x86:
        e.line("call void @llvm.x86.sse.sfence()")
    e.ret()
    return e


def lower_block(low: KernelLowering, block: Block) -> tuple[Value, ...]:
    """Emits the ops of a block; the values it yields."""
    rows = low.rows
    for op in block.ops:
        handler = HANDLERS.get(op.opcode)
        if handler is None:
            if op.opcode == "yield":
                return op.operands
            raise HloError(
                f"unknown op {op.opcode!r}", instruction=low.kernel.name, rule="llvm-lower"
            )
        results = handler(low, op)
        if results:
            rows[op.results[0]] = results
    return ()


def _look_ahead(low: KernelLowering, is_tiled: bool) -> None:
    """Looks in every block for loads that dots emit themselves, for sums of tiles that are only
    stored, for results of arithmetic, and for what it yields."""
    uses: dict[Value, int] = {}
    blocks: set[Block] = set()
    low.planes = planes_of_scratch(low.kernel)
    if low.machine.has_bf16 and any(p.value.dtype is BF16 for p in low.kernel.params):
        low.computed = computed_values(low.kernel)
    for block in _blocks(low.kernel.body):
        for op in block.ops:
            for x in op.operands:
                uses[x] = uses.get(x, 0) + 1
            if op.opcode == "dot":
                blocks.add(block)
            elif op.opcode == "yield":
                low.yielded.update(op.operands)
    for block in blocks:
        low.deferred.update(find_deferred(block, uses))
    if is_tiled:
        for block in _blocks(low.kernel.body):
            low.stored |= find_stored(block, uses)


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for inner in op.blocks:
            yield from _blocks(inner)


@contextmanager
def _steps(e: Emit, grid: tuple[int, ...], begin: V, end: V) -> Iterator[list[V]]:
    """The loops over the steps begin .. end; yields the index along each axis."""
    zero, one = e.const("i64", 0), e.const("i64", 1)
    axes = [axis for axis, extent in enumerate(grid) if extent != 1]
    indices = [zero] * len(grid)
    if len(axes) <= 1:
        with e.loop(begin, end, one) as loop:
            for axis in axes:
                indices[axis] = loop.index
            yield indices
        return
    *outer, inner = axes
    extent = e.const("i64", grid[inner])
    rest = e.udiv(begin, extent)
    column = e.sub(begin, e.mul(rest, extent))
    starts: list[V] = []
    for axis in reversed(outer[1:]):
        size = e.const("i64", grid[axis])
        quotient = e.udiv(rest, size)
        starts.insert(0, e.sub(rest, e.mul(quotient, size)))
        rest = quotient
    starts.insert(0, rest)
    # The loop over rows of steps counts rows; the first and the last may be shorter.
    rows = e.udiv(e.sub(e.add(column, e.sub(end, begin)), one), extent)
    count = e.select(e.icmp("slt", begin, end), e.add(rows, one), zero)
    with e.loop(zero, count, one, [begin, column, *starts]) as loop:
        position, column, *now = loop.carried
        for axis, index in zip(outer, now):
            indices[axis] = index
        length = e.smin(e.sub(extent, column), e.sub(end, position))
        with e.loop(column, e.add(column, length), one, nonempty=True) as steps:
            indices[inner] = steps.index
            yield indices
        loop.next([e.add(position, length), zero, *_counted_up(e, grid, outer, now)])


def _counted_up(e: Emit, grid: tuple[int, ...], outer: list[int], now: list[V]) -> list[V]:
    """The outer indices of the next row of steps."""
    zero, carry = e.const("i64", 0), e.const("i64", 1)
    following: list[V] = []
    for position in range(len(outer) - 1, -1, -1):
        raised = e.add(now[position], carry)
        if position:
            full = e.icmp("eq", raised, e.const("i64", grid[outer[position]]))
            carry = e.zext(full, "i64")
            raised = e.select(full, zero, raised)
        following.insert(0, raised)
    return following


HANDLERS: dict[str, Handler] = {
    **SHAPE,
    **ELEMENT,
    **MEMORY,
    **GATHER,
    **FOLD,
    **DOT,
    "for": for_(lower_block),
    "if": if_(lower_block),
    "while": while_(lower_block),
}
"""What lowers each opcode: registers of the result, or nothing where it binds them itself."""
