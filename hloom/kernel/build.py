"""Writing kernels: a builder with a current block, and value numbering as it goes.

Equal pure ops in the current block or one around it are the same value, so those who write
kernels need not remember what they have computed. Ops whose operands are all defined outside of a
loop are put before it (`hoist`), since LLVM's optimizer, which would do that, is not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hloom.base.diagnostics import VerifyError
from hloom.kernel.kernel import (
    PRED,
    S64,
    Block,
    BufferType,
    Kernel,
    Op,
    Param,
    TileType,
    Type,
    Value,
)
from hloom.kernel.verify_ops import BrokenRule, require_size, require_stretch
from hloom.types.dtype import DType


class OpenBlock:
    """A block being written: what is known in it, and where its values were made."""

    __slots__ = ("block", "known", "level")

    def __init__(self, block: Block, level: int) -> None:
        self.block = block
        self.level = level
        self.known: dict[tuple, Value] = {}


class KernelBuilder:
    """Writes one kernel from top to bottom."""

    def __init__(self, name: str, grid: tuple[int, ...] = ()) -> None:
        self.kernel = Kernel(name, grid)
        self.scopes = [OpenBlock(self.kernel.body, 0)]
        self._level: dict[Value, int] = dict.fromkeys(self.kernel.body.arguments, 0)
        self._branch: int | None = None
        """The level at which an arm was opened that keeps what is computed in it."""

    @property
    def grid_indices(self) -> tuple[Value, ...]:
        return self.kernel.body.arguments

    @property
    def depth(self) -> int:
        """How many blocks are open around the current one."""
        return len(self.scopes) - 1

    def param(self, name: str, dtype: DType, size: int, role: str) -> Value:
        """A new parameter; its value is a buffer."""
        value = Value(BufferType(dtype))
        self._level[value] = 0
        self.kernel.params.append(Param(name, value, size, role))
        return value

    def level(self, value: Value) -> int:
        """How deep the block is in which a value was made."""
        return self._level[value]

    @contextmanager
    def at(self, level: int) -> Iterator[None]:
        """Write into an outer block, before the op whose block is open in it."""
        saved = self.scopes
        self.scopes = saved[: level + 1]
        try:
            yield
        finally:
            self.scopes = saved

    # -- adding ops

    def add(
        self,
        opcode: str,
        operands: tuple[Value, ...],
        type: Type,
        attrs: dict[str, Any] | None = None,
    ) -> Value:
        """A pure op, shared with an equal one and put as far out as its operands allow."""
        # By its text, since 0.0 == -0.0 and nan != nan.
        constant_key = repr(attrs) if attrs and opcode == "constant" else None
        key = (opcode, operands, type, constant_key or (tuple(attrs.items()) if attrs else ()))
        levels = self._level
        level = 0
        for x in operands:
            if levels[x] > level:
                level = levels[x]
        scope = self.scopes[level]
        known_value = scope.known.get(key)
        if known_value is None and self._branch is not None and level >= self._branch:
            while known_value is None and level + 1 < len(self.scopes):
                level += 1
                scope = self.scopes[level]
                known_value = scope.known.get(key)
        if known_value is not None:
            return known_value
        op = Op(opcode, operands, (type,), attrs or {})
        scope.block.ops.append(op)
        result = op.results[0]
        levels[result] = level
        scope.known[key] = result
        return result

    def anchored(
        self,
        opcode: str,
        operands: tuple[Value, ...],
        types: tuple[Type, ...],
        attrs: dict[str, Any] | None = None,
        blocks: tuple[Block, ...] = (),
    ) -> Op:
        """An op that stays where it is written."""
        op = Op(opcode, operands, types, attrs or {}, blocks)
        self.scopes[-1].block.ops.append(op)
        for result in op.results:
            self._level[result] = len(self.scopes) - 1
        return op

    # -- values

    def constant(self, dtype: DType, value: Any, shape: tuple[int, ...] = ()) -> Value:
        return self.add("constant", (), TileType(dtype, shape), {"value": value})

    def index(self, value: int) -> Value:
        """An s64 scalar."""
        return self.constant(S64, value)

    def iota(self, dtype: DType, shape: tuple[int, ...], axis: int) -> Value:
        return self.add("iota", (), TileType(dtype, shape), {"axis": axis})

    def unary(self, opcode: str, x: Value, dtype: DType | None = None) -> Value:
        return self.add(opcode, (x,), TileType(dtype or x.dtype, x.shape))

    def binary(self, opcode: str, x: Value, y: Value, dtype: DType | None = None) -> Value:
        return self.add(opcode, (x, y), TileType(dtype or x.dtype, x.shape))

    def compare(self, direction: str, x: Value, y: Value, order: str = "") -> Value:
        """EQ, NE, LT, LE, GT or GE; `order` is 'total' for the total order of floats."""
        attrs = {"direction": direction, "order": order}
        return self.add("compare", (x, y), TileType(PRED, x.shape), attrs)

    def select(self, mask: Value, x: Value, y: Value) -> Value:
        return self.add("select", (mask, x, y), x.type)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.add("fma", (a, b, c), c.type)

    def convert(self, x: Value, dtype: DType) -> Value:
        return x if x.dtype is dtype else self.unary("convert", x, dtype)

    def bitcast_convert(self, x: Value, dtype: DType) -> Value:
        return self.add("bitcast-convert", (x,), TileType(dtype, x.shape))

    def broadcast(self, x: Value, shape: tuple[int, ...]) -> Value:
        """The tile repeated along new first axes, and along its own of size 1; `VerifyError` where
        the shapes do not fit."""
        return x if x.shape == shape else self._restated("broadcast", x, shape, require_stretch)

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        """The same elements in row-major order; `VerifyError` where their number is another."""
        return x if x.shape == shape else self._restated("reshape", x, shape, require_size)

    def _restated(
        self,
        opcode: str,
        x: Value,
        shape: tuple[int, ...],
        require: Callable[[Any, TileType], None],
    ) -> Value:
        """An op whose shape is what the writer says: asked here, as it follows from no operand."""
        type = TileType(x.dtype, shape)
        try:
            require(x.type, type)
        except BrokenRule as broken:
            message = f"{opcode}: {broken.message}"
            name = f"@{self.kernel.name}"
            raise VerifyError(message, instruction=name, rule=broken.rule) from None
        return self.add(opcode, (x,), type)

    def transpose(self, x: Value, permutation: tuple[int, ...]) -> Value:
        shape = tuple([x.shape[d] for d in permutation])
        return self.add("transpose", (x,), TileType(x.dtype, shape), {"permutation": permutation})

    def slice(self, x: Value, axis: int, start: int, size: int) -> Value:
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        attrs = {"axis": axis, "start": start, "size": size}
        return self.add("slice", (x,), TileType(x.dtype, shape), attrs)

    def concatenate(self, parts: Sequence[Value], axis: int) -> Value:
        first = parts[0]
        size = sum(x.shape[axis] for x in parts)
        shape = (*first.shape[:axis], size, *first.shape[axis + 1 :])
        return self.add("concatenate", tuple(parts), TileType(first.dtype, shape), {"axis": axis})

    def reduce(self, x: Value, axis: int, kind: str) -> Value:
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        return self.add("reduce", (x,), TileType(x.dtype, shape), {"axis": axis, "kind": kind})

    def scan(self, x: Value, axis: int, kind: str, reverse: bool = False) -> Value:
        return self.add("scan", (x,), x.type, {"axis": axis, "kind": kind, "reverse": reverse})

    def dot(self, acc: Value, a: Value, b: Value) -> Value:
        return self.add("dot", (acc, a, b), acc.type)

    # -- memory

    def load(
        self,
        buffer: Value,
        offset: Value,
        shape: tuple[int, ...] = (),
        strides: tuple[int, ...] = (),
        mask: Value | None = None,
        other: Value | None = None,
    ) -> Value:
        """A tile from memory; strides are in elements, one for each axis of the tile."""
        operands = (buffer, offset) if mask is None else (buffer, offset, mask, other)
        type = TileType(buffer.dtype, shape)
        attrs = {"strides": strides, "far": False}
        return self.anchored("load", operands, (type,), attrs).result  # type: ignore[arg-type]

    def store(
        self,
        buffer: Value,
        offset: Value,
        value: Value,
        strides: tuple[int, ...] = (),
        mask: Value | None = None,
        nontemporal: bool = False,
    ) -> None:
        """Writes a tile; `nontemporal` past the caches, which rows must be aligned for."""
        operands = (buffer, offset, value) if mask is None else (buffer, offset, value, mask)
        attrs = {"strides": strides, "nontemporal": nontemporal}
        self.anchored("store", operands, (), attrs)

    def prefetch(
        self, buffer: Value, offset: Value, ahead: tuple[int, ...] = (0,), *, nearest: bool = False
    ) -> None:
        """Asks for lines of memory so many elements behind an offset, which may be outside of the
        buffer: for the second-level cache, or the nearest one."""
        self.anchored("prefetch", (buffer, offset), (), {"ahead": ahead, "nearest": nearest})

    def gather(
        self,
        buffer: Value,
        offsets: Value,
        mask: Value | None = None,
        other: Value | None = None,
    ) -> Value:
        operands = (buffer, offsets) if mask is None else (buffer, offsets, mask, other)
        type = TileType(buffer.dtype, offsets.shape)
        return self.anchored("gather", operands, (type,)).result  # type: ignore[arg-type]

    def scatter(
        self, buffer: Value, offsets: Value, value: Value, mask: Value | None = None
    ) -> None:
        operands = (buffer, offsets, value) if mask is None else (buffer, offsets, value, mask)
        self.anchored("scatter", operands, ())

    def alloc(self, dtype: DType, size: int) -> Value:
        return self.anchored("alloc", (), (BufferType(dtype),), {"size": size}).result

    # -- control

    def _block(self, types: tuple[Type, ...], write: Callable[..., Sequence[Value]]) -> Block:
        block = Block(types)
        self.scopes.append(OpenBlock(block, len(self.scopes)))
        for x in block.arguments:
            self._level[x] = len(self.scopes) - 1
        results = write(*block.arguments)
        self.anchored("yield", tuple(results), ())
        self.scopes.pop()
        return block

    def for_(
        self,
        lower: Value | int,
        upper: Value | int,
        step: int,
        init: Sequence[Value],
        body: Callable[..., Sequence[Value]],
    ) -> tuple[Value, ...]:
        """A counted loop; `body(iv, *carried)` writes it and returns the next carried values."""
        low = self.index(lower) if isinstance(lower, int) else lower
        high = self.index(upper) if isinstance(upper, int) else upper
        types = tuple([x.type for x in init])
        block = self._block((TileType(S64), *types), body)
        return self.anchored("for", (low, high, *init), types, {"step": step}, (block,)).results

    def while_(
        self,
        init: Sequence[Value],
        condition: Callable[..., Value],
        body: Callable[..., Sequence[Value]],
    ) -> tuple[Value, ...]:
        types = tuple([x.type for x in init])
        first = self._block(types, lambda *x: (condition(*x),))
        second = self._block(types, body)
        return self.anchored("while", tuple(init), types, {}, (first, second)).results

    def if_apart(
        self,
        pred: Value,
        then: Callable[[], Sequence[Value]],
        otherwise: Callable[[], Sequence[Value]],
    ) -> tuple[Value, ...]:
        """As `if_`; what depends on values of the current block is computed in the arms that ask
        for it, where its operands would allow it before them."""
        saved, self._branch = self._branch, self.depth if self._branch is None else self._branch
        results = self.if_(pred, then, otherwise)
        self._branch = saved
        return results

    def if_(
        self,
        pred: Value,
        then: Callable[[], Sequence[Value]],
        otherwise: Callable[[], Sequence[Value]],
    ) -> tuple[Value, ...]:
        first = self._block((), then)
        second = self._block((), otherwise)
        types = tuple([x.type for x in first.ops[-1].operands])
        return self.anchored("if", (pred,), types, {}, (first, second)).results

    def finish(self) -> Kernel:
        """The kernel; its body is closed."""
        self.anchored("yield", (), ())
        return self.kernel
