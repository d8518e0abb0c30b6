"""Counted loops over arrays, for expansions whose work depends on run-time sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expansion
from hloom.types.dtype import PRED, S32
from hloom.types.shape import Shape, shape, tuple_shape

State = list[Instruction]
Step = Callable[[Expansion, Instruction, State, State], State]


def _computation(
    b: Expansion, name: str, state: Shape
) -> tuple[Expansion, Computation, Instruction]:
    computation = b.module.add_computation(name, thread=b.computation.execution_thread)
    parameter = computation.add("parameter", shape=state, number=0, name="state")
    return Expansion(computation, b.combiners), computation, parameter


def counted_loop(
    b: Expansion,
    name: str,
    trips: Instruction,
    state: Sequence[Instruction],
    fixed: Sequence[Instruction],
    step: Step,
) -> State:
    """The state after `trips` (s32 scalar) steps.

    `step(b, k, state, fixed)` builds, in the body, the state after step number k; `fixed` are
    values that every step reads.
    """
    zero = b.scalar(0, S32)
    start = b.tuple(zero, trips, *state, *fixed)
    whole = tuple_shape([o.shape for o in start.operands])
    start.shape = whole
    inner, condition, parameter = _computation(b, f"{name}_condition", whole)
    k, limit = (inner.element(parameter, n) for n in (0, 1))
    condition.root = inner.emit("compare", k, limit, direction="LT", shape=shape(PRED))
    inner, body, parameter = _computation(b, f"{name}_body", whole)
    parts = [inner.element(parameter, n) for n in range(len(whole.elements))]
    for part, of in zip(parts, whole.elements, strict=True):
        part.shape = of
    count = len(state)
    k, limit = parts[:2]
    after = step(inner, k, parts[2 : 2 + count], parts[2 + count :])
    after_k = inner.add(k, inner.scalar(1, S32))
    root = inner.tuple(after_k, limit, *after, *parts[2 + count :])
    root.shape = whole
    body.root = root
    if b.module.schedule is not None:
        b.module.schedule.update({c: c.in_order() for c in (condition, body)})
    loop = b.emit("while", start, called=(condition, body), shape=whole)
    return [b.element(loop, 2 + n) for n in range(count)]


def rows_from(b: Expansion, x: Instruction, axis: int, start: Instruction, count: int):
    """`count` consecutive elements along one dimension from a run-time start (clamped)."""
    sizes = list(x.shape.dims)
    sizes[axis] = count
    return b.emit(
        "dynamic-slice", x, *starts_at(b, x, axis, start), dynamic_slice_sizes=tuple(sizes)
    )


def with_rows(b: Expansion, x: Instruction, part: Instruction, axis: int, start: Instruction):
    """`x` with `part` written from a run-time start along one dimension (clamped)."""
    return b.emit("dynamic-update-slice", x, part, *starts_at(b, x, axis, start))


def starts_at(b: Expansion, x: Instruction, axis: int, start: Instruction) -> State:
    """Starts that are 0 but along one dimension."""
    zero = b.scalar(0, start.shape.dtype)
    return [start if d == axis else zero for d in range(x.shape.rank)]
