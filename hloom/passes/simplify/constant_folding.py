"""Evaluate what depends on constants alone.

The interpreter computes the value, so a folded program means what it meant. A budget bounds both
the size of results and the work of one evaluation: folding must not make a program larger or
compiling slow (a reduce-window over a million elements is left to run time).
"""

from __future__ import annotations

from collections import Counter
from math import prod

from hloom.base.diagnostics import EvalError
from hloom.interp import EvalOptions, evaluate_partially
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS, opcodes
from hloom.ir.order import repair_schedules
from hloom.ir.traits import (
    ASYNC,
    COLLECTIVE,
    CONTRACTS,
    CONTROL_FLOW,
    DEVICE_ID,
    FORWARDS,
    PLUMBING,
    RANDOM,
    SIDE_EFFECT,
)
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace, is_removable

NEVER = opcodes(
    PLUMBING,
    FORWARDS,
    RANDOM,
    SIDE_EFFECT,
    ASYNC,
    COLLECTIVE,
    DEVICE_ID,
    also=("iota", "bitcast", "copy", "after-all", "custom-call"),
)
"""Operations that are no function of their operands, or that must stay where they are."""

SPREADING = frozenset(["broadcast", "pad", "iota"])
"""Operations that make much out of little: folded only where the result is small."""

CALLERS = opcodes(CONTROL_FLOW, also=("fusion",), without=("async-start",))
"""Operations whose work is that of what they call."""


@register
class ConstantFolding(Pass):
    """Replace operations on constants by their value."""

    name = "constant-folding"

    level: int = 1
    """0 folds no broadcast, pad or iota; 1 small ones; 2 within the general budget."""
    result_limit_bytes: int = 45 * 2**20
    """Larger results are left alone (XLA's limit)."""
    work_limit: int = 2**26
    """Elementary steps that one evaluation may take, by a coarse estimate."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        folding = _Folding(self)
        for c in reversed(list(on_threads(module, threads))):
            folding.propagate_into(c)
            folding.fold(c)
        if folding.fired:
            repair_schedules(module)
        return PassResult.of(+folding.fired)


class _Folding:
    """One run: what was folded, and which called computations can be."""

    def __init__(self, options: ConstantFolding) -> None:
        self.options = options
        self.fired: Counter[str] = Counter()
        self.foldable_bodies: dict[Computation, bool] = {}
        self.works: dict[Computation, int] = {}

    def propagate_into(self, c: Computation) -> None:
        """Where every call passes the identical constant for a parameter, use it in the body."""
        callers = list(c.callers)
        if c.is_entry or not callers or any(i.opcode != "call" for i in callers):
            return
        same: dict[int, Instruction] = {}
        for number, p in enumerate(c.parameters):
            arguments = [i.operands[number] for i in callers]
            first = arguments[0]
            if first.opcode != "constant" or first.attrs.literal.is_elided or not p.users:
                continue
            if all(
                x.opcode == "constant" and x.attrs.literal == first.attrs.literal for x in arguments
            ):
                same[number] = first
        if not same or len(same) == len(c.parameters):
            return
        for number, value in same.items():
            p = c.parameters[number]
            c.replace(p, c.append("constant", value.attrs, (), p.shape, value.name))
            self.fired["parameter"] += 1

    def fold(self, c: Computation) -> None:
        if c.is_fusion:
            return
        for i in c.in_order():
            if i not in c.instructions or not self.is_foldable(i):
                continue
            try:
                literal = evaluate_partially(i, options=self.limits(i))
            except EvalError:
                continue
            attrs = OPS["constant"].attrs(literal=literal.with_shape(i.shape))
            constant = c.append("constant", attrs, (), i.shape, i.name)
            constant.metadata = i.metadata
            operands = i.operands
            c.replace(i, constant)
            c.erase(i)
            self.fired[i.opcode] += 1
            for x in operands:
                if x in c.instructions and not x.users and is_removable(x) and not x.is_root:
                    c.erase(x)

    def is_foldable(self, i: Instruction) -> bool:
        """Whether to evaluate this: allowed, all operands constant, and worth it."""
        if i.opcode in NEVER or not i.operands or i.has_control_edges or not i.shape.is_array:
            return False
        if i.shape.is_dynamic or i.sharding is not None:
            return False
        if any(x.opcode != "constant" or x.attrs.literal.is_elided for x in i.operands):
            return False
        if i.opcode in SPREADING and not self.may_spread(i):
            return False
        if i.shape.size_bytes > self.options.result_limit_bytes:
            return False
        if not all(self.is_foldable_body(x) for x in i.called):
            return False
        return self.work(i) <= self.options.work_limit

    def may_spread(self, i: Instruction) -> bool:
        """Broadcasts and pads stay cheap to compute; as constants they would fill memory."""
        level = self.options.level
        return level >= 2 or (level == 1 and i.shape.size <= 1)

    def is_foldable_body(self, c: Computation) -> bool:
        """Whether everything a called computation holds may be evaluated; asked once."""
        if c not in self.foldable_bodies:
            for x in c.module.computations_in_order([c]) if c.module else [c]:
                if x not in self.foldable_bodies:
                    self.foldable_bodies[x] = all(map(self.is_foldable_inside, x.instructions))
        return self.foldable_bodies[c]

    def is_foldable_inside(self, i: Instruction) -> bool:
        """Whether an instruction of a called computation may be evaluated."""
        return (
            (i.opcode not in NEVER or i.opcode in _HARMLESS)
            and (i.opcode not in SPREADING or self.options.level >= 2 or i.shape.rank == 0)
            and not i.has_control_edges
            and all(self.foldable_bodies[x] for x in i.called)
        )

    def work(self, i: Instruction) -> int:
        """Elementary steps that evaluating this takes, with one iteration of each loop."""
        if i.opcode not in CALLERS:
            return estimated_work(i)
        return sum(map(self.body_work, i.called))

    def body_work(self, c: Computation) -> int:
        """The work of all that a computation holds; asked once."""
        if c not in self.works:
            for x in c.module.computations_in_order([c]) if c.module else [c]:
                if x not in self.works:
                    self.works[x] = 1 + sum(map(self.work, x.instructions))
        return self.works[c]

    def limits(self, i: Instruction) -> EvalOptions:
        """What evaluating may take: as many iterations of loops as the work leaves room for."""
        if not i.called:
            return EvalOptions()
        iterations = (self.options.work_limit >> 10) // max(1, self.work(i))
        depth = max(1, self.loop_depth(i))
        return EvalOptions(while_iteration_limit=max(1, int(iterations ** (1 / depth))))

    def loop_depth(self, i: Instruction) -> int:
        """How many loops stand inside one another, at most."""
        depths: dict[Computation, int] = {}
        module = i.parent.module
        for c in module.computations_in_order(i.called) if module else ():
            depths[c] = max(
                ((x.opcode == "while") + max(map(depths.__getitem__, x.called), default=0))
                for x in c.instructions
            )
        return (i.opcode == "while") + max(map(depths.__getitem__, i.called), default=0)


_DOTS = opcodes(CONTRACTS, without=("convolution",))
_HARMLESS = opcodes(PLUMBING, also=("iota",))


def estimated_work(i: Instruction) -> int:
    """A coarse count of steps: elements of the result times what each one costs."""
    size = max([x.shape.size for x in (i, *i.operands) if x.shape.is_array], default=1)
    if i.opcode in _DOTS:
        lhs = i.operands[0].shape
        return i.shape.size * prod(lhs.dims[d] for d in i.attrs.lhs_contracting_dims)
    if i.opcode == "convolution":
        return i.shape.size * max(1, i.operands[1].shape.size)
    if i.opcode in ("reduce-window", "select-and-scatter"):
        return size * prod(d.size for d in i.attrs.window.dimensions)
    if i.opcode == "sort":
        return size * 64
    return size
