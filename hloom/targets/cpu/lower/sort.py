"""Sorting and the largest few: routines of the runtime, with keys where the comparator allows.

A comparator is recognised by what it says, not by how it is spelled: a comparison of one operand
with itself at two places, or several of them one after the other; then keys are sorted by their
bits. Any other comparator is compiled and called.
"""

from __future__ import annotations

from math import prod

from hloom.base.faults import Culprit, blame
from hloom.codegen.combiner import is_applicable
from hloom.codegen.loops import loop_kernel
from hloom.codegen.tile import Body
from hloom.ir.instruction import Instruction
from hloom.program.thunks.routine import Function, Numbers, Pointers
from hloom.program.thunks.sort import Sort, TopK
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lower.sort_keys import Key, sort_keys
from hloom.targets.cpu.lowering import (
    CPU_LOWERS,
    LeftOut,
    Lowering,
    unsupported,
)

STABLE = 1
MOST_OPERANDS = 1024
"""Arrays that the runtime's routines sort together."""


def require_row_major(i: Instruction) -> None:
    """Raise where an operand or a result is not laid out row by row."""
    for x in (*i.operands, i):
        for leaf in x.shape.leaves():
            if leaf.is_array and leaf.layout is not None and not leaf.layout.is_default:
                order = leaf.layout.minor_to_major
                solid = [d for d in order if leaf.dims[d] != 1]
                if solid != sorted(solid, reverse=True):
                    raise unsupported(i, f"wants row-major arrays, %{x.name} is {leaf.text}")


@CPU_LOWERS.of("sort")
def sort(cpu: Lowering, i: Instruction) -> list[Thunk]:
    require_row_major(i)
    count = len(i.operands)
    if count > MOST_OPERANDS:
        why = f"has {count} operands; {MOST_OPERANDS} can be sorted together"
        raise unsupported(i, why, "sort their keys with an iota, and gather the others by it")
    dims = i.operands[0].shape.dims
    d = i.attrs.dimensions[0] if i.attrs.dimensions else 0
    outer, n, inner = prod(dims[:d]), dims[d] if dims else 1, prod(dims[d + 1 :])
    sources = tuple([cpu.slice(x) for x in i.operands])
    targets = tuple([cpu.slice(i, (k,) if i.shape.is_tuple else ()) for k in range(count)])
    sizes = Numbers(tuple([max(x.shape.dtype.size_bytes, 1) for x in i.operands]))
    if not prod(dims):
        return []
    shape = (outer, n, inner, count, Pointers(sources), Pointers(targets), sizes)
    keys = sort_keys(i.called[0], count)
    if keys is not None:
        flat = tuple([x for k in keys for x in key_words(k, i)])
        stable = STABLE if i.attrs.is_stable else 0
        arguments = (*shape, len(keys), Numbers(flat), stable)
        return [Sort(i.name, "hl_sort_keys", arguments, sources, targets)]
    less = Function(comparator(cpu, i))
    arguments = (*shape, less, STABLE)
    return [Sort(i.name, "hl_sort_compare", arguments, sources, targets)]


def key_words(k: Key, i: Instruction) -> tuple[int, int, int]:
    """A key as the routine wants it: operand, type, flags."""
    return (k.operand, i.operands[k.operand].shape.dtype.number, k.flags)


def comparator(cpu: Lowering, i: Instruction) -> str:
    """Compile the comparator; the symbol of a function on pointers to elements."""
    c = i.called[0]
    if not is_applicable(c):
        raise unsupported(i, f"has a comparator, {c.name}, that is not made of scalar operations")
    if cpu.is_left_out("comparator", i):
        raise LeftOut("comparator")
    try:
        emitted = loop_kernel(Body.of_computation(c), cpu.device)
        cpu.admit([emitted.kernel])
    except Exception as error:
        blame(error, Culprit("kernel", "comparator", i.name))
        raise
    kernel = cpu.symbol(f"{i.name}.compare")
    cpu.add_kernel(kernel, emitted.kernel, Culprit("kernel", "comparator", i.name))
    less = cpu.symbol(f"{i.name}.less")
    lines = [
        f"declare void @{kernel}(ptr, i64, i64)",
        f"define i8 @{less}(ptr %elements) {{",
        f"  %args = alloca [{len(emitted.arguments)} x ptr]",
        "  %result = alloca i8",
    ]
    for place, what in enumerate(emitted.arguments):
        value = "%result"
        if isinstance(what, int):
            lines.append(f"  %p{place} = getelementptr ptr, ptr %elements, i64 {what}")
            lines.append(f"  %v{place} = load ptr, ptr %p{place}")
            value = f"%v{place}"
        lines.append(f"  %s{place} = getelementptr ptr, ptr %args, i64 {place}")
        lines.append(f"  store ptr {value}, ptr %s{place}")
    lines += [
        f"  call void @{kernel}(ptr %args, i64 0, i64 1)",
        "  %answer = load i8, ptr %result",
        "  ret i8 %answer",
        "}",
    ]
    cpu.functions[less] = "\n".join(lines)
    return less


@CPU_LOWERS.of("topk")
def topk(cpu: Lowering, i: Instruction) -> list[Thunk]:
    require_row_major(i)
    x = i.operands[0]
    n = x.shape.dims[-1]
    rows = prod(x.shape.dims[:-1])
    values, indices = cpu.slice(i, (0,)), cpu.slice(i, (1,))
    if not rows or not i.attrs.k:
        return []
    flags = 1 if i.attrs.largest else 0
    source = cpu.slice(x)
    written = (values,) if are_places_unread(i) else (values, indices)
    places = None if len(written) == 1 else indices
    arguments = (rows, n, i.attrs.k, x.shape.dtype.number, flags, source, values, places)
    return [TopK(i.name, "hl_topk", arguments, (source,), written)]


def are_places_unread(i: Instruction) -> bool:
    """Whether all that is read of a topk is its values, which are then found without places."""
    if i.is_root or not i.users:
        return False
    return all(u.opcode == "get-tuple-element" and u.attrs.index == 0 for u in i.users)
