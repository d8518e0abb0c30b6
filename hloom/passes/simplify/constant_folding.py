"""Evaluate what depends on constants alone (PS-08).

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
from hloom.ir.op import OPS
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace, is_removable

NEVER = frozenset(
    "constant parameter iota tuple get-tuple-element opt-barrier add-dependency after-all domain "
    "rng rng-get-and-update-state rng-bit-generator infeed outfeed send send-done recv recv-done "
    "custom-call partition-id replica-id copy copy-start copy-done async-start async-update "
    "async-done all-gather all-gather-start all-gather-done all-reduce all-reduce-start "
    "all-reduce-done all-to-all collective-broadcast collective-permute collective-permute-start "
    "collective-permute-done ragged-all-to-all reduce-scatter bitcast".split()
)
"""Operations that are no function of their operands, or that must stay where they are."""

SPREADING = frozenset(["broadcast", "pad", "iota"])
"""Operations that make much out of little: folded only where the result is small."""


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
            if module.schedule is not None and c in module.schedule:
                continue
            folding.propagate_into(c)
            folding.fold(c)
        return PassResult.of(+folding.fired)


class _Folding:
    """One run: what was folded, and which called computations can be."""

    def __init__(self, options: ConstantFolding) -> None:
        self.options = options
        self.fired: Counter[str] = Counter()
        self.foldable_bodies: dict[Computation, bool] = {}

    def propagate_into(self, c: Computation) -> None:
        """Where every call passes the identical constant for a parameter, use it in the body."""
        callers = list(c.callers)
        if not callers or any(i.opcode != "call" for i in callers):
            return
        same: dict[int, Instruction] = {}
        for number, p in enumerate(c.parameters):
            given = [i.operands[number] for i in callers]
            first = given[0]
            if first.opcode != "constant" or first.attrs.literal.is_elided or not p.users:
                continue
            if all(
                x.opcode == "constant" and x.attrs.literal == first.attrs.literal for x in given
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
                literal = evaluate_partially(
                    i, options=EvalOptions(while_iteration_limit=self.options.work_limit >> 10)
                )
            except EvalError:
                continue
            attrs = OPS["constant"].attrs(literal=literal.with_shape(i.shape))
            made = c.append("constant", attrs, (), i.shape, i.name)
            made.metadata = i.metadata
            operands = i.operands
            c.replace(i, made)
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
        if estimated_work(i) > self.options.work_limit:
            return False
        return all(self.is_foldable_body(x) for x in i.called)

    def may_spread(self, i: Instruction) -> bool:
        """Broadcasts and pads stay cheap to compute; as constants they would fill memory."""
        level = self.options.level
        return level >= 2 or (level == 1 and i.shape.size <= 1)

    def is_foldable_body(self, c: Computation) -> bool:
        """Whether everything a called computation holds may be evaluated; asked once."""
        known = self.foldable_bodies.get(c)
        if known is None:
            known = self.foldable_bodies[c] = all(
                (i.opcode not in NEVER or i.opcode in _HARMLESS)
                and (i.opcode not in SPREADING or self.options.level >= 2 or i.shape.rank == 0)
                and not i.has_control_edges
                and all(map(self.is_foldable_body, i.called))
                for i in c.instructions
            )
        return known


_HARMLESS = frozenset(["constant", "parameter", "tuple", "get-tuple-element", "iota"])


def estimated_work(i: Instruction) -> int:
    """A coarse count of steps: elements of the result times what each one costs."""
    size = max(i.shape.size, *(x.shape.size for x in i.operands))
    if i.opcode in ("dot", "scaled-dot", "ragged-dot"):
        lhs = i.operands[0].shape
        return i.shape.size * prod(lhs.dims[d] for d in i.attrs.lhs_contracting_dims)
    if i.opcode == "convolution":
        return i.shape.size * max(1, i.operands[1].shape.size)
    if i.opcode in ("reduce-window", "select-and-scatter"):
        return size * prod(d.size for d in i.attrs.window.dimensions)
    if i.opcode in ("while", "call", "conditional", "sort"):
        return size * 64
    return size
