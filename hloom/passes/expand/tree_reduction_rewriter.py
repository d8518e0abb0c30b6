"""Large reductions to few values, in two stages that threads can share.

A kernel gives each of its results to one thread, so the mean over a whole image batch for 96
channels, or the sum of all elements, is work for one thread alone. Reducing parts first and the
partial results afterwards is the same sum in another order, the same for any number of threads;
what is kept in between is small.

    reduce(x: [k, c], over k)  =>  reduce(reduce(reshape(x): [s, k/s, c], over k/s), over s)

Where no number of parts divides the length, what equal parts leave is folded by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloom.analysis.fusible import is_row_major
from hloom.device.costs import Costs
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.layout.layout_normalization import row_major_inside
from hloom.passes.pass_ import register
from hloom.types.dtype import DType
from hloom.types.limits import max_value, min_value
from hloom.types.shape import shape

# Parts, by what is enough: at best, at most.
WANTED, MOST = 2, 16
COSTS = Costs()


@register
class TreeReductionRewriter(Expander):
    """Reduce large arrays to few values in two stages."""

    name = "tree-reduction-rewriter"
    needs = (row_major_inside,)
    opcodes = frozenset(["reduce"])

    enough_steps: int = 8
    """With so many results that different threads compute there is no need; else so many parts."""
    block_bytes: int = 8192
    """Of columns that one thread takes at once."""
    least_bytes: int = COSTS.parallel_bytes
    """Less is done before other threads have woken up."""
    least_columns_bytes: int = 32
    """Fewer columns are no kernel of columns, and their parts would all be in one step again."""
    least_row: int = COSTS.parallel_bytes // 4
    """Shorter rows are kept whole: they often share a kernel with what reads their results."""

    def wants(self, i: Instruction) -> bool:
        large = len(i.operands) == 2 and i.operands[0].shape.size_bytes >= self.least_bytes
        # In a fusion (of attention) all is one kernel already, known by its form.
        return large and bool(i.attrs.dimensions) and not i.parent.is_fusion

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x, initial = i.operands
        kind = _kind(i.called[0])
        neutral = None if kind is None else _neutral(kind, x.shape.dtype)
        if neutral is None or not _is_plain(x) or not _is_plain(i) or i.has_control_edges:
            return None
        folded = sorted(i.attrs.dimensions)
        if not self._is_narrow(x.shape.dims, folded, x.shape.dtype.size_bytes):
            return None
        dims = list(x.shape.dims)
        at, behind = _run(dims, folded)
        run = dims[at:behind]
        ones = [d for d in folded if d < at]
        tail: Instruction | None = None
        is_cut = self.enough_steps <= run[0] <= MOST * self.enough_steps
        if is_cut and prod([dims[d] for d in folded]) > run[0]:
            inner, left = x, [d for d in folded if d != at]
        else:
            total = prod(run)
            parts = part_count(total, self.enough_steps)
            whole = x
            if parts is None:  # the parts are equal, and what is left is folded by itself
                parts = WANTED * self.enough_steps
                rest = total % parts
                flat = b.reshaped(x, [*dims[:at], total, *dims[behind:]])
                whole, tail = (
                    b.sliced(flat, at, 0, total - rest),
                    b.sliced(flat, at, total - rest, total),
                )
                total -= rest
            inner = b.reshaped(whole, [*dims[:at], parts, total // parts, *dims[behind:]])
            left = [*ones, at + 1, *[d + 2 - len(run) for d in folded if d >= behind]]
        start = b.scalar(neutral, x.shape.dtype)
        sizes = [n for d, n in enumerate(inner.shape.dims) if d not in left]
        partial = b.emit(
            "reduce",
            inner,
            start,
            dimensions=tuple(left),
            called=(i.called[0],),
            shape=shape(x.shape.dtype, sizes),
        )
        joined = (at - len(ones),)
        y = b.emit(
            "reduce", partial, initial, dimensions=joined, called=(i.called[0],), shape=i.shape
        )
        if tail is None:
            return y
        behind_run = [d + 1 - len(run) for d in folded if d >= behind]
        tail_dims = (*ones, at, *behind_run)
        z = b.emit(
            "reduce", tail, start, dimensions=tail_dims, called=(i.called[0],), shape=i.shape
        )
        return b.emit(i.called[0].root.opcode, y, z, shape=i.shape)

    def _is_narrow(self, dims: Sequence[int], folded: Sequence[int], element: int) -> bool:
        """Whether a reduction has too few results for several threads."""
        solid = [d for d in range(len(dims)) if dims[d] != 1]
        kept_size = prod([n for d, n in enumerate(dims) if d not in folded])
        if not solid or not kept_size or solid[-1] in folded:
            return 0 < kept_size < self.enough_steps and prod(dims) >= kept_size * self.least_row
        columns = prod(dims[folded[-1] + 1 :])
        if columns * element < self.least_columns_bytes:
            return False
        blocks = -(-columns * element // self.block_bytes)
        return kept_size // columns * blocks < self.enough_steps


def fold_opcode(combiner: Computation) -> str | None:
    """The operation of a combiner that may be applied in any order."""
    root = combiner.root
    if root.opcode not in ("add", "multiply", "maximum", "minimum") or len(root.operands) != 2:
        return None
    return root.opcode if set(root.operands) == set(combiner.parameters) else None


def _kind(combiner: Computation) -> str | None:
    """The same, of masks, too."""
    root = combiner.root
    if root.opcode in ("and", "or") and set(root.operands) == set(combiner.parameters):
        return root.opcode
    return fold_opcode(combiner)


def _neutral(kind: str, of: DType) -> int | float | None:
    """What changes nothing; None for types whose partial results would be rounded."""
    if kind in ("and", "or"):
        return int(kind == "and") if of.is_pred else None
    if of.is_complex or of.is_pred or not (of.is_floating or of.is_integral):
        return None
    if of.bits < (32 if kind in ("add", "multiply") else 8):
        return None
    if kind == "add":
        # 0 + -0 is 0.
        return -0.0 if of.is_floating else 0
    if kind == "multiply":
        return 1
    return min_value(of) if kind == "maximum" else max_value(of)


def _is_plain(i: Instruction) -> bool:
    s = i.shape
    return s.is_array and s.is_static and s.has_layout and is_row_major(s)


def _run(dims: Sequence[int], folded: Sequence[int]) -> tuple[int, int]:
    """The first folded dimensions that are neighbours: where they begin and end.

    Those before them have size 1.
    """
    large = [d for d in folded if dims[d] != 1] or list(folded)
    at = behind = large[0]
    while behind in folded:
        behind += 1
    return at, behind


def part_count(length: int, enough: int) -> int | None:
    """In how many equal parts to cut, where so many are enough; None if no number does."""
    counts = [n for n in range(enough, MOST * enough + 1) if length % n == 0]
    return min(counts, key=lambda n: abs(n - WANTED * enough), default=None)
