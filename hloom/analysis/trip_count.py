"""How often a loop runs, where that can be told from the program.

The condition compares a value that the body steps by a constant with one that the body does not
change; both start as constants. Values are followed through tuples, copies, fusions and calls with
one caller, so that this works before and after optimisation. Where the pattern is not met the
answer says what is in the way. A count that the compiler wrote into the backend config is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import FORWARDS, RESHAPES
from hloom.types.dtype import DType

MOST_STEPS = 1000
"""Instructions that one value is followed through."""
SEE_THROUGH = opcodes(FORWARDS, RESHAPES, also=("copy",))
MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "EQ": "EQ", "NE": "NE"}


@dataclass(frozen=True)
class Counter:
    """An element of a loop's state that rises until it is no longer below a bound: the loop's
    condition says nothing else."""

    element: int
    """Its index in the state; `WHOLE` where the state is no tuple."""
    start: int
    step: int
    """Above 0."""
    bound: int


@dataclass(frozen=True)
class TripCount:
    """How often a while runs its body."""

    count: int | None
    """None: not known."""
    why: str
    """How it is known, or why not: `state#0 from 0 by 1 while LT 24`."""
    counter: Counter | None = None
    """What counts, where the loop ends by `counter < bound` and it does not wrap around."""


def trip_count(loop: Instruction) -> TripCount:
    """The trip count of a while instruction."""
    stated, read = _stated(loop), _read(loop)
    if stated is None:
        return read
    return TripCount(stated, "stated in the backend config", read.counter)


def _read(loop: Instruction) -> TripCount:
    """What the condition and the body say."""
    condition = loop.called[0]
    test = source(condition.root)
    if test.opcode != "compare":
        return TripCount(None, f"the condition is {test.opcode}, not a comparison")
    direction = test.attrs.direction
    sides = [_Side(loop, source(x)) for x in test.operands]
    if sides[0].step is None and sides[1].step is not None:
        sides.reverse()
        direction = MIRRORED[direction]
    counter, bound = sides
    if counter.step is None:
        return TripCount(None, "no side of the condition is stepped by a constant")
    if counter.start is None:
        return TripCount(None, "the counter does not start at a constant")
    if bound.constant is None:
        return TripCount(None, "the bound is not a constant")
    count = steps(counter.start, bound.constant, counter.step, direction)
    why = f"{counter.start} by {counter.step} while {direction} {bound.constant}"
    if count is None:
        return TripCount(None, f"{why} does not end")
    last = counter.start + count * counter.step
    if direction != "EQ" and not _holds(test.operands[0].shape.dtype, last):
        return TripCount(None, f"{why}: the counter wraps around before that")
    counter_ = None
    if direction == "LT" and counter.element is not None and counter.step > 0:
        counter_ = Counter(counter.element, counter.start, counter.step, bound.constant)
    return TripCount(count, why, counter_)


def _holds(dtype: DType, value: int) -> bool:
    """Whether an integer type has this value."""
    if dtype.is_signed_int:
        return -(1 << (dtype.bits - 1)) <= value < 1 << (dtype.bits - 1)
    return 0 <= value < 1 << dtype.bits


def steps(start: int, bound: int, step: int, direction: str) -> int | None:
    """How often `x += step` runs while `x <direction> bound`; None when it does not end."""
    if direction == "EQ":
        return None if start == bound and step == 0 else int(start == bound)
    if direction == "NE":
        if start == bound:
            return 0
        distance = bound - start
        return distance // step if step and distance % step == 0 and distance // step > 0 else None
    if direction in ("GT", "GE"):
        start, bound, step = -start, -bound, -step
    if direction in ("LE", "GE"):
        bound += 1
    if start >= bound:
        return 0
    return -(-(bound - start) // step) if step > 0 else None


def source(i: Instruction) -> Instruction:
    """Where a value really comes from: through copies, tuples, and computations with one caller.

    Stops at parameters of loops and of what several callers share.
    """
    path: list[int] = []
    for _ in range(MOST_STEPS):
        step = _one_step(i, path)
        if step is None:
            break
        i = step
    return i if not path else _unresolved(i, path)


def _one_step(i: Instruction, path: list[int]) -> Instruction | None:
    """The value that `i` passes on; `path` holds the elements that are still to be taken."""
    if i.opcode in SEE_THROUGH and i.operands:
        return i.operands[0]
    if i.opcode == "get-tuple-element":
        path.append(i.attrs.index)
        return i.operands[0]
    if i.opcode == "tuple" and path:
        index = path.pop()
        return i.operands[index] if index < len(i.operands) else None
    if i.opcode in ("fusion", "call") and i.called[0]._root is not None:
        return i.called[0].root
    if i.opcode == "parameter":
        return _argument(i)
    return None


def _argument(parameter: Instruction) -> Instruction | None:
    """What the only caller passes for this parameter."""
    callers = parameter.parent.callers
    if len(callers) != 1:
        return None
    caller, times = next(iter(callers.items()))
    number = parameter.attrs.number
    if caller.opcode in ("fusion", "call") and times == 1 and number < len(caller.operands):
        return caller.operands[number]
    return None


def _unresolved(i: Instruction, path: list[int]) -> Instruction:
    """The get-tuple-element that takes the last open element of `i`, or `i` itself."""
    for user in i.users:
        if user.opcode == "get-tuple-element" and user.attrs.index == path[-1] and len(path) == 1:
            return user
    return i


class _Side:
    """One side of the comparison: a constant, or an element of the loop's state."""

    def __init__(self, loop: Instruction, value: Instruction) -> None:
        self.loop = loop
        self.constant = _integer(value)
        self.start: int | None = None
        self.step: int | None = None
        condition, body = loop.called
        self.element = element = _state_element(value, condition.parameters[0])
        if element is None:
            return
        self.start = _integer(source(_tuple_element(loop.operands[0], element)))
        after = source(_tuple_element(body.root, element))
        state = body.parameters[0]
        if _state_element(after, state) == element:
            self.constant = self.start
        elif after.opcode in ("add", "subtract"):
            self.step = _step(after, state, element)


def _step(after: Instruction, state: Instruction, element: int) -> int | None:
    """By how much the body moves an element that it adds a constant to."""
    x, y = (source(o) for o in after.operands)
    if after.opcode == "add" and _state_element(y, state) == element:
        x, y = y, x
    by = _integer(y)
    if by is None or _state_element(x, state) != element:
        return None
    return by if after.opcode == "add" else -by


WHOLE = -1
"""The state as a whole, where it is no tuple."""


def _state_element(value: Instruction, state: Instruction) -> int | None:
    """Which element of the loop's state this is; None when it is none."""
    if value is state:
        return WHOLE
    if value.opcode == "get-tuple-element" and source(value.operands[0]) is state:
        return value.attrs.index
    return None


def _tuple_element(value: Instruction, element: int) -> Instruction:
    """An element of a tuple; the value itself for `WHOLE`, or where no tuple is found."""
    if element == WHOLE:
        return value
    producer = source(value)
    if producer.opcode == "tuple" and element < len(producer.operands):
        return producer.operands[element]
    return producer


def counters(loop: Instruction) -> dict[int, tuple[int, int]]:
    """The elements of the state that begin at a constant and are stepped by one: both, by
    index. Their values in each step are known, but for wrapping around."""
    body, steps = loop.called[1], {}
    state = body.parameters[0]
    for k in range(len(loop.shape.elements)):
        after = source(_tuple_element(body.root, k))
        if after.opcode not in ("add", "subtract") or not after.shape.is_scalar:
            continue
        start, by = _integer(source(_tuple_element(loop.operands[0], k))), _step(after, state, k)
        if start is not None and by is not None:
            steps[k] = start, by
    return steps


def _integer(i: Instruction) -> int | None:
    """The value of an integer scalar constant."""
    if i.opcode == "broadcast" and not i.attrs.dimensions:
        i = source(i.operands[0])
    if i.opcode != "constant" or not i.shape.is_array or not i.shape.dtype.is_integral:
        return None
    literal = i.attrs.literal
    return None if literal.is_elided or i.shape.size != 1 else int(literal.first())


def _stated(loop: Instruction) -> int | None:
    """What XLA's own analysis wrote: `{"known_trip_count": {"n": "24"}}`."""
    config = loop.backend_config.json if loop.backend_config is not None else None
    known = config.get("known_trip_count") if isinstance(config, dict) else None
    try:
        return int(known["n"]) if isinstance(known, dict) else None
    except (KeyError, TypeError, ValueError):
        return None
