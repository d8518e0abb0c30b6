"""Which dimensions of operands and results go together: the loops that an instruction is.

An instruction is a nest of loops, its *factors*. `dot(lhs[b, m, k], rhs[b, k, n])` has four: `b`,
`m` and `n` walk over the result, `k` is summed over. Who knows them knows which shardings fit:
when each device takes a part of a factor, it needs that part of every operand that the factor
walks over, and gives that part of the results.

A dimension may be several factors, the major first: `reshape f32[8,4] -> f32[32]` has factors of 8
and 4, and its result dimension is `(0, 1)`. Of a device that has the first half of factor 0 the
operand has the first four rows, the result the first sixteen elements.

`factors(instruction)` gives them; `kind` says what it costs to cut a factor (`Kind`). Control flow
(`while`, `call`, ...) and tuples have none: `None`. They are only names for values; `flow.py`
says which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import prod

from hloom.base.registry import Registry, load_room
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE
from hloom.types.shape import Shape


class Kind(StrEnum):
    """What cutting a factor asks for."""

    PASS = "pass"
    """Nothing: parts of the results follow from the same parts of the operands."""
    REDUCE = "reduce"
    """Parts give partial results, which are then put together across devices (by an all-reduce);
    results that the factor walks over themselves need no more than that."""
    PERMUTE = "permute"
    """Elements at the edges of a part (or all of them) come from other devices. The dimensions
    may differ in size between operands and results."""
    WHOLE = "whole"
    """Cannot be cut: whoever has a part needs the rest first."""


@dataclass(frozen=True, slots=True)
class Factor:
    """One loop: how many steps, and what cutting it asks for."""

    size: int
    kind: Kind = Kind.PASS


Dimensions = tuple[tuple[int, ...], ...]
"""Of one value: the factors of each of its dimensions by number, the major first."""


@dataclass(frozen=True, slots=True)
class Factors:
    """All factors of an instruction, and where each stands."""

    factors: tuple[Factor, ...]
    operands: tuple[Dimensions, ...]
    """One for each operand; of a tuple or token `()`."""
    results: tuple[Dimensions, ...]
    """One for each leaf of the shape."""

    @property
    def tensors(self) -> tuple[Dimensions, ...]:
        """Operands, then results."""
        return self.operands + self.results

    def is_reduced(self, factor: int, result: int) -> bool:
        """Whether cutting a factor leaves partial values in a result."""
        if self.factors[factor].kind != Kind.REDUCE:
            return False
        return all(factor not in dimension for dimension in self.results[result])


Rule = Callable[["FactorTable", Instruction], None]
RULES: Registry[str, Rule] = Registry("factors")
"""By opcode: adds its factors to a table. Elementwise opcodes need none of their own."""


class FactorTable:
    """Collects the factors of one instruction; dimensions that no rule names are WHOLE."""

    def __init__(self, i: Instruction) -> None:
        self.operand_dims = [_dims(x.shape) for x in i.operands]
        self.result_dims = [_dims(leaf) for leaf in i.shape.leaves()]
        self.factors: list[Factor] = []
        self.operands: list[list[list[int]]] = [[[] for _ in d] for d in self.operand_dims]
        self.results: list[list[list[int]]] = [[[] for _ in d] for d in self.result_dims]
        self.alone = set[int]()
        """Factors that are all there is of their dimensions, of whatever sizes these are."""

    def add(
        self,
        size: int,
        operands: Mapping[int, int] | None = None,
        results: Mapping[int, int] | None = None,
        kind: Kind = Kind.PASS,
    ) -> None:
        """A factor that walks over dimension `operands[k]` of operand k, and so on; in a
        dimension that has some already it is the next minor one."""
        number = len(self.factors)
        self.factors.append(Factor(size, kind))
        if kind == Kind.PERMUTE:
            self.alone.add(number)
        for tensors, places in ((self.operands, operands), (self.results, results)):
            for k, d in (places or {}).items():
                tensors[k][d].append(number)

    def same(
        self,
        operands: Sequence[int],
        results: Sequence[int],
        dimensions: Sequence[int],
        kind: Kind = Kind.PASS,
    ) -> None:
        """One factor for each of these dimensions, which all these values share."""
        values = [(self.operand_dims, k) for k in operands] + [
            (self.result_dims, k) for k in results
        ]
        dims, first = values[0]
        for d in dimensions:
            self.add(dims[first][d], dict.fromkeys(operands, d), dict.fromkeys(results, d), kind)

    def finished(self) -> Factors:
        """The table; what no rule names of a dimension is a WHOLE factor."""
        for tensors, sizes in (
            (self.operands, self.operand_dims),
            (self.results, self.result_dims),
        ):
            for k, tensor in enumerate(tensors):
                for d, numbers in enumerate(tensor):
                    rest = self._rest(sizes[k][d], numbers)
                    if rest != 1 or not numbers:
                        numbers.append(len(self.factors))
                        self.factors.append(Factor(rest, Kind.WHOLE))
        return Factors(
            tuple(self.factors),
            tuple(tuple(map(tuple, t)) for t in self.operands),
            tuple(tuple(map(tuple, t)) for t in self.results),
        )

    def _rest(self, size: int, numbers: list[int]) -> int:
        """What a dimension is besides its factors."""
        if not self.alone.isdisjoint(numbers):
            return 1
        product = prod(self.factors[n].size for n in numbers)
        return size // product if product else 1


def _dims(shape: Shape) -> tuple[int, ...]:
    return tuple(shape.dims) if shape.is_array else ()


_ELEMENTWISE = opcodes(ELEMENTWISE)


def factors(i: Instruction) -> Factors | None:
    """The factors of an instruction; None where values only go through under other names
    (tuples, loops, calls) and where nothing is known (custom calls without a rule)."""
    _load()
    if i.opcode in _ELEMENTWISE and i.opcode != "bitcast-convert":
        dims = i.shape.dims
        if all(x.shape.dims == dims for x in i.operands):
            return _alike(dims, len(i.operands))
        rule: Rule | None = elementwise
    elif i.opcode == "custom-call":
        rule = batched_call if batch_dimensions(i) else None
    else:
        rule = RULES.get(i.opcode)
    if rule is None:
        return None
    table = FactorTable(i)
    rule(table, i)
    return table.finished()


def batch_dimensions(i: Instruction) -> int:
    """How many first dimensions all operands and results of a custom call share, each of which is
    computed for itself: its frontend attribute `num_batch_dims`, which JAX writes. 0 where nothing
    is said, or what is said does not fit."""
    said = i.frontend_attributes.get("num_batch_dims") if i.frontend_attributes else None
    if said is None or not said.isdigit() or i.has_side_effect:
        return 0
    shapes = [*[x.shape for x in i.operands], *i.shape.leaves()]
    count = int(said)
    if not shapes or any(not s.is_array or s.is_dynamic or s.rank < count for s in shapes):
        return 0
    return count if len({s.dims[:count] for s in shapes}) == 1 else 0


def batched_call(table: FactorTable, i: Instruction) -> None:
    """The batches of a call: all other dimensions are its own."""
    operands, results = range(len(table.operand_dims)), range(len(table.result_dims))
    table.same(operands, results, range(batch_dimensions(i)))


@lru_cache(maxsize=1024)
def _alike(dims: tuple[int, ...], operands: int) -> Factors:
    """The factors of an operation on elements whose operands all have the dimensions of the
    result: most instructions of most programs."""
    own = tuple([(k,) for k in range(len(dims))])
    passed = tuple([Factor(n, Kind.PASS) for n in dims])
    return Factors(passed, (own,) * operands, (own,))


def elementwise(table: FactorTable, i: Instruction) -> None:
    """Each dimension of the result, and of every operand of its rank (others are scalars)."""
    rank = i.shape.rank
    like = [k for k, dims in enumerate(table.operand_dims) if len(dims) == rank]
    table.same(like, [0], range(rank))


def _load() -> None:
    if not RULES:
        load_room("hloom.passes.sharding.rules")
