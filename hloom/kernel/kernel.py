"""What a kernel is: a grid of independent steps, each a small program on tiles.

A tile is a dense array with static shape that lives in registers; a buffer is memory that was
handed in. Loads and stores move tiles between the two at `offset + sum(stride * index)`, counted
in elements, so layouts are nothing but strides. Index arithmetic is ordinary ops on s64 scalars
(tiles of rank 0). Static shapes are the trick: a lowering knows every vector it needs, and tails
are separate code with a smaller tile, not masks.

Operations (`OPCODES` lists them with operand and block counts):

| op | operands | attributes | result |
|---|---|---|---|
| constant | | value | the number in every place of the tile |
| iota | | axis | 0, 1, 2 ... along an axis |
| HLO's elementwise opcodes | tiles | compare: direction, order | a tile of the same shape |
| reduce-precision | x | exponent_bits, mantissa_bits | x rounded to fewer bits |
| fma | a b c | | a * b + c, rounded once or twice |
| convert, bitcast-convert | x | | the tile in the result's type |
| broadcast | x | | x stretched where its size is 1; missing leading axes added |
| reshape | x | | the same elements in row-major order |
| transpose | x | permutation | axis i of the result is axis permutation[i] |
| slice | x | axis, start, size | a static part of the tile |
| concatenate | x... | axis | tiles joined |
| reduce | x | axis, kind | the axis folded by add, multiply, minimum, maximum, and, or, xor |
| scan | x | axis, kind, reverse | inclusive running fold along the axis |
| dot | acc a b | | acc[M,N] + a[M,K] b[K,N], in the type of acc; b also as [K/g,g,N] |
| load | buffer offset [mask other] | strides, far | the tile at offset; `other` where not mask |
| store | buffer offset value [mask] | strides, nontemporal | nothing |
| gather | buffer offsets [mask other] | | elements at a tile of offsets |
| prefetch | buffer offset | ahead, nearest | nothing; asks for lines so far behind the offset |
| scatter | buffer offsets value [mask] | | nothing; the last lane wins where offsets are equal |
| alloc | | size | a private scratch buffer of `size` elements, 64-byte aligned |
| for | lower upper init... | step | carried tiles; block(iv, carried...) yields the next ones |
| while | init... | | carried tiles; block 0 yields a pred, block 1 the next ones |
| if | pred | | what the chosen of two blocks yields |
| yield | values... | | ends a block |

A load is `far` if its mask may exclude tiles far outside of the buffer, which are not asked for.
Complex tiles are tiles of c64 or c128. Narrow floats are computed in f32; with `excess_precision`
only stores, bitcasts, explicit converts and reduce-precision round to types of 16 bits, and all but
dots, folds and what blocks yield to narrower ones; without it every op does.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from hloom.ir.elementwise import BINARY, UNARY
from hloom.types.dtype import DType, dtype

S64 = dtype("s64")
S32 = dtype("s32")
PRED = dtype("pred")

STACK_LIMIT = 1 << 20
"""Bytes that the `alloc`s of one kernel may take together: they stand on a thread's stack."""
SCRATCH_BYTES = STACK_LIMIT - 4096
"""The same, with room for rounding up each of them."""


class TileType(NamedTuple):
    """The type of a tile; rank 0 is a scalar."""

    dtype: DType
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


class BufferType(NamedTuple):
    """The type of memory that holds elements of one type."""

    dtype: DType

    def __str__(self) -> str:
        return f"buffer<{self.dtype}>"


Type = TileType | BufferType


class Value:
    """One SSA value: a result of an op or an argument of a block."""

    __slots__ = ("op", "type")

    def __init__(self, type: Type, op: Op | None = None) -> None:
        self.type: Any = type
        self.op = op

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tile."""
        return self.type.shape


class Op:
    """One operation of a block. `blocks` are those of for, while and if."""

    __slots__ = ("attrs", "blocks", "opcode", "operands", "results")

    def __init__(
        self,
        opcode: str,
        operands: tuple[Value, ...],
        types: tuple[Type, ...],
        attrs: dict[str, Any],
        blocks: tuple[Block, ...] = (),
    ) -> None:
        self.opcode = opcode
        self.operands = operands
        self.attrs = attrs
        self.blocks = blocks
        self.results = tuple([Value(t, self) for t in types])

    @property
    def result(self) -> Value:
        return self.results[0]


class Block:
    """Straight-line ops, the last of which is a yield; the body of a kernel yields nothing."""

    __slots__ = ("arguments", "ops")

    def __init__(self, types: tuple[Type, ...] = ()) -> None:
        self.arguments = tuple([Value(t) for t in types])
        self.ops: list[Op] = []


class Param(NamedTuple):
    """A buffer that a kernel reads or writes.

    `role` is 'in'; 'out', all of which it writes; 'part', of which it writes some, and other
    kernels the rest; or 'inout', which holds something before.
    """

    name: str
    value: Value
    size: int  # elements
    role: str


class Kernel:
    """A grid of independent steps over buffers.

    `grid` are extents; the body's arguments are the indices of a step. Steps may run in any order
    and at once. `cost_ns` is a guess of what one step takes, from which the runtime chooses how
    many steps a thread takes at a time.
    """

    __slots__ = ("body", "cost_ns", "excess_precision", "grid", "name", "params")

    def __init__(self, name: str, grid: tuple[int, ...] = ()) -> None:
        self.name = name
        self.grid = grid
        self.params: list[Param] = []
        self.body = Block((TileType(S64),) * len(grid))
        self.excess_precision = True
        self.cost_ns = 0.0

    @property
    def steps(self) -> int:
        """How many steps the grid has."""
        count = 1
        for extent in self.grid:
            count *= extent
        return count

    def ops(self) -> list[Op]:
        """Every op, outer ones before those of their blocks."""
        return ops_of(self.body)


def ops_of(block: Block) -> list[Op]:
    """Every op of a block and of the blocks inside it."""
    ops: list[Op] = []
    for op in block.ops:
        ops.append(op)
        for inner in op.blocks:
            ops += ops_of(inner)
    return ops


FOLDS = frozenset("add multiply minimum maximum and or xor".split())


class OpRule(NamedTuple):
    """How many operands (least, most) and blocks an op has; most is None for any number."""

    least: int
    most: int | None
    blocks: int = 0


@cache
def op_rules() -> dict[str, OpRule]:
    """Every opcode of the language."""
    rules = {o: OpRule(1, 1) for o in UNARY} | {o: OpRule(2, 2) for o in BINARY}
    one = "convert bitcast-convert broadcast reshape transpose slice reduce scan reduce-precision"
    return {
        **rules,
        **{o: OpRule(1, 1) for o in one.split()},
        "constant": OpRule(0, 0),
        "iota": OpRule(0, 0),
        "alloc": OpRule(0, 0),
        "compare": OpRule(2, 2),
        "select": OpRule(3, 3),
        "clamp": OpRule(3, 3),
        "fma": OpRule(3, 3),
        "dot": OpRule(3, 3),
        "concatenate": OpRule(1, None),
        "load": OpRule(2, 4),
        "store": OpRule(3, 4),
        "gather": OpRule(2, 4),
        "prefetch": OpRule(2, 2),
        "scatter": OpRule(3, 4),
        "for": OpRule(2, None, 1),
        "while": OpRule(0, None, 2),
        "if": OpRule(1, 1, 2),
        "yield": OpRule(0, None),
    }
