"""What a program does: arithmetic, transcendental functions, bytes read and written.

Counts follow from shapes alone. A multiply-add is two operations; every elementwise operation
counts one an element, whatever its type, and the transcendental ones are counted apart; products
with a convolution's padding count nothing. Bytes are
those of operands and results, a fusion's inner values being free; slices and gathers, also those of
parameters inside a fusion, read what they take and not all they take it from, and updates in place
write what is new. A loop counts as often as it runs (`trip_count.py`), once where
that is unknown, and the unknown loops are named; of branches the dearest counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, log2, prod

from hloom.analysis.shared_window import shared_parts
from hloom.analysis.trip_count import TripCount, trip_count
from hloom.device.costs import Costs
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes, opcodes_where
from hloom.ir.traits import (
    COLLECTIVE,
    CONTRACTS,
    CONTROL_FLOW,
    ELEMENTWISE,
    FREE,
    READS_PART,
    RETYPES,
    TRANSCENDENTAL,
)
from hloom.ir.values.window import WindowDimension
from hloom.types.sizes import element_count, moved_bytes

NO_WORK = opcodes(FREE)
_CONTROL = opcodes(CONTROL_FLOW)
# What waits has been counted where it began.
_WAITS = opcodes_where(lambda op: bool(op.done_of) or op.name == "async-update")
_TRANSCENDENTAL = opcodes(TRANSCENDENTAL)
_ELEMENTWISE = opcodes(ELEMENTWISE)
_CONTRACTS = opcodes(CONTRACTS, without=("convolution",))
_RETYPES = opcodes(RETYPES)
_APPLIED_TO_ALL = opcodes_where(
    lambda op: (
        op.name == "map"
        or (COLLECTIVE in op.traits and bool(op.called) and op.name != "reduce-scatter")
    )
)
_READS_PART = opcodes(READS_PART)


@dataclass(frozen=True)
class Cost:
    """Operations, transcendental functions and bytes."""

    flops: float = 0
    transcendentals: float = 0
    bytes: float = 0
    functions: float = 0
    """Elementwise operations that are dearer than an addition, in cheap ones (`Costs.weight`)."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            self.bytes + other.bytes,
            self.functions + other.functions,
        )

    def times(self, n: float) -> Cost:
        return Cost(self.flops * n, self.transcendentals * n, self.bytes * n, self.functions * n)


NOTHING = Cost()
COSTS = Costs()


@dataclass
class ModuleCost:
    """The cost of a module, of each computation run once, and how often each runs."""

    total: Cost
    per_computation: dict[Computation, Cost]
    """One run of each, with all it calls."""
    executions: dict[Computation, float]
    """How often each runs as the module runs once; bodies of fusions and reducers count 0."""
    loops: dict[Instruction, TripCount] = field(default_factory=dict)


def module_cost(module: Module, costs: Costs = COSTS) -> ModuleCost:
    """The cost of one run of a module, its functions weighed by these costs. Linear in its
    instructions."""
    order = module.computations_in_order()
    per: dict[Computation, Cost] = {}
    loops: dict[Instruction, TripCount] = {}
    for c in order:
        total = NOTHING
        for i in c.instructions:
            if i.opcode == "while":
                loops[i] = trip_count(i)
            total += instruction_cost(i, per, loops.get(i), costs)
        per[c] = total
    executions = dict.fromkeys(order, 0.0)
    executions[module.entry] = 1.0
    for c in reversed(order):
        times = executions[c]
        for i in c.instructions if times else ():
            if i.opcode == "while":
                known = loops[i].count
                n = 1 if known is None else known
                condition, body = i.called
                executions[condition] += times * (n + 1)
                executions[body] += times * n
            elif i.opcode in _CONTROL:
                for called in i.called:
                    executions[called] += times
    return ModuleCost(per[module.entry], per, executions, loops)


def instruction_cost(
    i: Instruction,
    per_computation: dict[Computation, Cost],
    trips: TripCount | None = None,
    costs: Costs = COSTS,
) -> Cost:
    """One run of an instruction, given the costs of what it calls."""
    if i.opcode in NO_WORK or i.opcode in _WAITS:
        return NOTHING
    called = [per_computation.get(c, NOTHING) for c in i.called]
    if i.opcode == "while":
        trips = trips or trip_count(i)
        n = 1 if trips.count is None else trips.count
        condition, body = called
        return body.times(n) + condition.times(n + 1)
    if i.opcode in ("call", "async-start"):
        return called[0]
    if i.opcode == "conditional":
        return max(called, key=lambda c: (c.flops, c.bytes), default=NOTHING)
    inner = called[0] if called else NOTHING
    if i.opcode == "fusion":
        return Cost(inner.flops, inner.transcendentals, bytes_moved(i), inner.functions)
    flops, transcendentals = arithmetic(i, inner)
    return Cost(flops, transcendentals, bytes_moved(i), _functions(i, inner, costs))


def _functions(i: Instruction, inner: Cost, costs: Costs) -> float:
    """What the dear operations of an instruction are worth."""
    if i.opcode in _ELEMENTWISE:
        weight = costs.weight(i.opcode)
        return element_count(i.shape) * weight if weight > 1 else 0
    return (_applications(i) or 0) * inner.functions if inner.functions else 0


def bytes_moved(i: Instruction) -> float:
    """Bytes of operands and results; for what takes or changes a part, of the part."""
    if i.opcode == "fusion":
        return _fusion_bytes(i)
    result = moved_bytes(i.shape)
    if i.opcode in _READS_PART:
        return 2 * result + sum(moved_bytes(x.shape) for x in i.operands[1:])
    if i.opcode == "dynamic-update-slice":
        return 2 * moved_bytes(i.operands[1].shape)
    if i.opcode == "scatter":
        n = (len(i.operands) - 1) // 2
        rest = sum(moved_bytes(x.shape) for x in i.operands[n:])
        return rest + sum(moved_bytes(x.shape) for x in i.operands[n + 1 :])
    return result + sum(moved_bytes(x.shape) for x in i.operands)


def _fusion_bytes(i: Instruction) -> float:
    """What a fusion reads of each parameter, and what it writes of each result."""
    body = i.called[0]
    root = body.root
    roots = root.operands if root.opcode == "tuple" else (root,)
    total = 0.0
    in_place = set()
    for r in roots:
        if r.opcode == "dynamic-update-slice":
            total += moved_bytes(r.operands[1].shape)
            in_place.add((r.operands[0], r))
        else:
            total += moved_bytes(r.shape)
    for p in body.parameters:
        size = moved_bytes(p.shape)
        parts = 0.0
        for user in p.users:
            if (p, user) in in_place and user.operands.count(p) == 1:
                continue
            is_part = user.opcode in _READS_PART and p not in user.operands[1:]
            parts += moved_bytes(user.shape) if is_part else size
        total += min(size, parts)
    return total


def arithmetic(i: Instruction, inner: Cost) -> tuple[float, float]:
    """Operations and transcendental functions; `inner` is one run of what it applies."""
    opcode, out = i.opcode, element_count(i.shape)
    if opcode in _ELEMENTWISE:
        if opcode in _TRANSCENDENTAL:
            return 0, out
        return (0, 0) if opcode in _RETYPES else (out, 0)
    if opcode in _CONTRACTS:
        return 2 * out * _contracted(i), 0
    if opcode == "convolution":
        inside, all_ = _products_inside(i)
        return 2 * out * _kernel_size(i) * inside / all_, 0
    times = _applications(i)
    if times is not None:
        return times * inner.flops, times * inner.transcendentals
    n = element_count(i.operands[0].shape) if i.operands else 0
    if opcode in ("sort", "topk"):
        return (n * max(1.0, log2(max(n, 2))), 0)
    if opcode == "fft":
        return 5 * n * log2(max(2, prod(i.attrs.fft_length) or 2)), 0
    if opcode == "cholesky":
        return n * i.shape.dims[-1] / 3 if i.shape.is_array and i.shape.dims else 0, 0
    if opcode == "triangular-solve":
        return out * i.operands[0].shape.dims[-1] if i.operands[0].shape.dims else 0, 0
    if opcode.startswith("batch-norm"):
        return 8 * n, 0
    return 0, 0


def _applications(i: Instruction) -> float | None:
    """How often an operation applies its computation; None where it applies none."""
    opcode = i.opcode
    if not i.called or opcode in ("sort", "custom-call"):
        return None
    first = element_count(i.operands[0].shape) if i.operands else 0
    if opcode == "reduce":
        count = len(i.operands) // 2 or 1
        return max(0, first - element_count(i.shape) // count)
    if opcode == "reduce-window":
        window = prod(d.size for d in i.attrs.window.dimensions)
        return element_count(i.shape) * max(0, window - 1) / max(1, len(i.operands) // 2)
    if opcode == "scatter":
        return element_count(i.operands[-1].shape)
    if opcode == "select-and-scatter":
        return first
    if opcode == "reduce-scatter":
        return first
    return element_count(i.shape) if opcode in _APPLIED_TO_ALL else first


def _contracted(i: Instruction) -> int:
    dims = getattr(i.attrs, "lhs_contracting_dims", ())
    shape = i.operands[0].shape
    return prod(shape.dims[d] for d in dims if d < len(shape.dims))


def _kernel_size(i: Instruction) -> float:
    """Multiplications for one element of a convolution's result."""
    d, kernel = i.attrs.dim_labels, i.operands[1].shape.dims
    spatial = prod(kernel[k] for k in d.kernel_spatial_dimensions if k < len(kernel))
    inputs = kernel[d.kernel_input_feature_dimension] if kernel else 1
    return spatial * inputs / shared_parts(i)


def _products_inside(i: Instruction) -> tuple[int, int]:
    """Of how many of a convolution's products both factors are elements, not padding or holes."""
    labels, window = i.attrs.dim_labels, i.attrs.window.dimensions
    inside, all_ = 1, 1
    spatial = zip(window, labels.input_spatial_dimensions, labels.output_spatial_dimensions)
    for d, input_dim, output_dim in spatial:
        size, count = i.operands[0].shape.dims[input_dim], i.shape.dims[output_dim]
        if i.shape.is_dynamic or i.operands[0].shape.is_dynamic or not (size and count and d.size):
            return 1, 1
        inside *= sum(_steps_inside(d, k, size, count) for k in range(d.size))
        all_ *= count * d.size
    return inside, all_


def _steps_inside(d: WindowDimension, k: int, size: int, count: int) -> int:
    """At how many of `count` steps element `k` of the window meets one of `size` elements."""
    at = k * d.window_dilation - d.padding_low
    last = (size - 1) * d.base_dilation
    first_step = max(0, -(at // d.stride))
    last_step = min(count - 1, (last - at) // d.stride)
    steps = range(first_step, last_step + 1)
    if d.base_dilation == 1:
        return len(steps)
    period = d.base_dilation // gcd(d.stride, d.base_dilation)
    for first in steps[:period]:
        if (at + first * d.stride) % d.base_dilation == 0:
            return len(range(first, last_step + 1, period))
    return 0
