"""The rules of single ops: from an op whose operands are well-formed tiles and buffers to the
type that its result must have.

A rule is a function of the op. It returns the type of the result, or None for an op without one,
and raises `BrokenRule` with one sentence otherwise; `verify.py` adds where.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from hloom.ir.elementwise import BINARY, CLASSES, OF_CLASS, UNARY, result_type
from hloom.ir.op import ShapeError
from hloom.kernel.kernel import PRED, S32, S64, BufferType, Op, TileType, Type, Value
from hloom.types.dtype import ALL, DType

SCALAR_INDEX = TileType(S64)
CLASS: dict[DType, str] = {
    t: "f"
    if t.is_floating
    else "c"
    if t.is_complex
    else "i"
    if t.is_integral
    else "p"
    if t.is_pred
    else "-"
    for t in ALL
}
"""f(loat), c(omplex), i(nteger) or p(red)."""


class BrokenRule(Exception):
    """What is wrong with an op: one sentence, and the name of the rule."""

    def __init__(self, message: str, rule: str) -> None:
        super().__init__(message)
        self.message, self.rule = message, rule


def _admits(words: str, classes: str) -> dict[str, str]:
    return dict.fromkeys(words.split(), classes)


_WIDER = {"cbrt": "fc", "subtract": "fcip"}
"""What front ends and expansions need in kernels, though no shape rule admits it in a module."""
ADMITS: dict[str, str] = {
    **CLASSES,
    **_WIDER,
    # Complex ones are written out before there are kernels (complex-order-expander).
    **_admits("maximum minimum", "fip"),
    # Shape rules admit more, as XLA's do; nobody says what it would mean.
    **_admits("mulhi shift-left shift-right-arithmetic shift-right-logical", "i"),
    **_admits("remainder", "fi"),
}
"""The classes of element types that each elementwise opcode, and each fold, is defined for."""


def require_class(opcode: str, dtype: DType) -> None:
    """Refuse an opcode on a type that HLO does not define it for."""
    if CLASS[dtype] not in ADMITS[opcode]:
        raise BrokenRule(f"{opcode} is not defined for {dtype}", "kernel-element-type")


def _same(op: Op, operands: tuple[Value, ...]) -> TileType:
    """The one type of some operands."""
    type = operands[0].type
    for x in operands[1:]:
        if x.type != type:
            raise BrokenRule(f"operands of types {type} and {x.type} differ", "kernel-same-type")
    return type


def _elementwise(op: Op) -> Type:
    opcode = op.opcode
    type = _same(op, op.operands)
    if CLASS[type.dtype] not in ADMITS[opcode]:
        require_class(opcode, type.dtype)
    try:
        return TileType(_result_type(opcode, type.dtype), type.shape)
    except ShapeError as error:
        raise BrokenRule(str(error), "kernel-element-type") from None


def _result_type(opcode: str, dtype: DType) -> DType:
    """As HLO has it; of a type that only kernels admit, itself where that holds for its class."""
    try:
        return result_type(opcode, dtype)
    except ShapeError:
        example = OF_CLASS[CLASS[dtype]]
        if opcode in _WIDER or (example != dtype and result_type(opcode, example) == example):
            return dtype
        raise


def _declared(op: Op) -> TileType:
    """The result's own type, which must be a tile."""
    type = op.results[0].type
    if not isinstance(type, TileType):
        raise BrokenRule(f"the result is a {type}, not a tile", "kernel-result-type")
    return type


def _constant(op: Op) -> Type:
    type = _declared(op)
    value: Any = op.attrs["value"]
    if hasattr(value, "item"):
        value = value.item()
    dtype = type.dtype
    allowed: tuple[type, ...] = (int, float)
    if dtype.is_complex:
        allowed = (int, float, complex)
    elif not dtype.is_floating:
        allowed = (int,)
    if not isinstance(value, allowed):
        raise BrokenRule(f"{value!r} is no number of type {dtype}", "kernel-constant")
    if dtype.is_integral:
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed_int else 0
        high = low + (1 << dtype.bits) - 1
        if isinstance(value, complex) or not low <= value <= high:
            raise BrokenRule(f"{value} is outside of {dtype}", "kernel-constant")
    elif dtype.is_pred and value not in (0, 1):
        raise BrokenRule(f"{value} is neither true nor false", "kernel-constant")
    return type


def axis_of(op: Op, type: TileType) -> int:
    """The attribute `axis`, which must be one of the tile's."""
    axis = op.attrs["axis"]
    if not 0 <= axis < len(type.shape):
        raise BrokenRule(f"a tile {type} has no axis {axis}", "kernel-axis")
    return axis


def _iota(op: Op) -> Type:
    type = _declared(op)
    axis_of(op, type)
    if CLASS[type.dtype] == "p":
        raise BrokenRule("iota is not defined for pred", "kernel-element-type")
    return type


def _alloc(op: Op) -> Type:
    type = op.results[0].type
    if not isinstance(type, BufferType):
        raise BrokenRule(f"alloc makes a buffer, not a {type}", "kernel-result-type")
    if op.attrs["size"] < 0:
        raise BrokenRule(f"a buffer cannot have {op.attrs['size']} elements", "kernel-size")
    return type


def _compare(op: Op) -> Type:
    type = _same(op, op.operands)
    kind = CLASS[type.dtype]
    if kind == "c" and op.attrs["direction"] not in ("EQ", "NE"):
        raise BrokenRule(f"complex numbers ({type}) have no order", "kernel-compare")
    if op.attrs["order"] == "total" and kind != "f":
        raise BrokenRule(f"the total order is one of floats, not of {type}", "kernel-compare")
    return TileType(PRED, type.shape)


def _require_mask(mask: Value, shape: tuple[int, ...]) -> None:
    if mask.type != TileType(PRED, shape):
        sizes = ",".join(map(str, shape))
        raise BrokenRule(f"the mask is {mask.type}, not pred[{sizes}]", "kernel-mask")


def _select(op: Op) -> Type:
    mask, x, y = op.operands
    _require_mask(mask, x.shape)
    return _same(op, (x, y))


def _clamp(op: Op) -> Type:
    type = _same(op, op.operands)
    require_class("maximum", type.dtype)
    return type


def _fma(op: Op) -> Type:
    type = _same(op, op.operands)
    if not type.dtype.is_floating:
        raise BrokenRule(f"fma is not defined for {type.dtype}", "kernel-element-type")
    return type


def _reduce_precision(op: Op) -> Type:
    type = op.operands[0].type
    if not type.dtype.is_floating:
        raise BrokenRule(f"reduce-precision is not defined for {type.dtype}", "kernel-element-type")
    if op.attrs["exponent_bits"] < 1 or op.attrs["mantissa_bits"] < 0:
        raise BrokenRule("at least 1 exponent bit and 0 mantissa bits are needed", "kernel-bits")
    return type


def _convert(op: Op) -> Type:
    return TileType(_declared(op).dtype, op.operands[0].shape)


def _bitcast_convert(op: Op) -> Type:
    before, after = op.operands[0].dtype, _declared(op).dtype
    if before.bits != after.bits:
        raise BrokenRule(f"{before} and {after} differ in width", "kernel-bits")
    return TileType(after, op.operands[0].shape)


def _broadcast(op: Op) -> Type:
    x, type = op.operands[0].type, _declared(op)
    require_stretch(x, type)
    return TileType(x.dtype, type.shape)


def require_stretch(x: TileType, type: TileType) -> None:
    """Refuse to broadcast a tile to one whose last axes are not its own, or of its own size 1."""
    tail = type.shape[len(type.shape) - len(x.shape) :] if len(x.shape) <= len(type.shape) else ()
    if len(tail) != len(x.shape) or any(n not in (1, m) for n, m in zip(x.shape, tail)):
        raise BrokenRule(f"{x} does not stretch to {type}", "kernel-shape")


def _reshape(op: Op) -> Type:
    x, type = op.operands[0].type, _declared(op)
    require_size(x, type)
    return TileType(x.dtype, type.shape)


def require_size(x: TileType, type: TileType) -> None:
    """Refuse to make a tile of one of another number of elements."""
    if prod(x.shape) != prod(type.shape):
        raise BrokenRule(f"{x} and {type} differ in size", "kernel-shape")


def _transpose(op: Op) -> Type:
    x, order = op.operands[0].type, op.attrs["permutation"]
    if sorted(order) != list(range(len(x.shape))):
        raise BrokenRule(f"{order} does not permute the axes of {x}", "kernel-axis")
    return TileType(x.dtype, tuple([x.shape[d] for d in order]))


def _slice(op: Op) -> Type:
    x = op.operands[0].type
    axis, start, size = axis_of(op, x), op.attrs["start"], op.attrs["size"]
    if start < 0 or size < 1 or start + size > x.shape[axis]:
        raise BrokenRule(f"{x} has no elements {start} to {start + size}", "kernel-shape")
    return TileType(x.dtype, (*x.shape[:axis], size, *x.shape[axis + 1 :]))


def _concatenate(op: Op) -> Type:
    first = op.operands[0].type
    axis = axis_of(op, first)
    total = 0
    for x in op.operands:
        total += x.shape[axis] if axis < len(x.shape) else 0
        rest = (*x.shape[:axis], first.shape[axis], *x.shape[axis + 1 :])
        if x.dtype is not first.dtype or rest != first.shape:
            raise BrokenRule(f"{first} and {x.type} cannot be joined", "kernel-shape")
    return TileType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _reduce(op: Op) -> Type:
    x = op.operands[0].type
    axis = axis_of(op, x)
    require_class(op.attrs["kind"], x.dtype)
    return TileType(x.dtype, (*x.shape[:axis], *x.shape[axis + 1 :]))


def _scan(op: Op) -> Type:
    _reduce(op)
    return op.operands[0].type


def _dot(op: Op) -> Type:
    acc, a, b = (x.type for x in op.operands)
    if [len(t.shape) for t in (acc, a, b)] not in ([2, 2, 2], [2, 2, 3]) or (
        acc.shape != (a.shape[0], b.shape[-1]) or a.shape[1] != prod(b.shape[:-1])
    ):
        raise BrokenRule(f"{acc} + {a} * {b}: the shapes do not fit", "kernel-shape")
    kinds = {CLASS[t.dtype] for t in (acc, a, b)}
    if len(kinds) != 1 or "p" in kinds:
        raise BrokenRule(
            f"{acc.dtype} + {a.dtype} * {b.dtype}: all floats, all integers or all complex",
            "kernel-element-type",
        )
    if "c" in kinds and not acc.dtype is a.dtype is b.dtype:
        raise BrokenRule(f"complex {acc.dtype}, {a.dtype}, {b.dtype} differ", "kernel-same-type")
    return acc


# -- memory


def _require_buffer(op: Op, value_dtype: DType | None = None) -> None:
    buffer = op.operands[0].type
    if value_dtype is not None and value_dtype is not buffer.dtype:
        raise BrokenRule(f"a tile of {value_dtype} does not go to a {buffer}", "kernel-memory")


def _require_offset(op: Op) -> None:
    offset = op.operands[1].type
    if offset != SCALAR_INDEX:
        raise BrokenRule(f"the offset is {offset}, not {SCALAR_INDEX}", "kernel-offset")


def _require_strides(op: Op, shape: tuple[int, ...]) -> None:
    strides = op.attrs["strides"]
    _require_offset(op)
    if len(strides) != len(shape):
        raise BrokenRule(f"{len(strides)} strides for {len(shape)} axes", "kernel-strides")


def _require_offsets(op: Op) -> tuple[int, ...]:
    offsets = op.operands[1].type
    if offsets.dtype is not S64 and offsets.dtype is not S32:
        raise BrokenRule(f"offsets are {offsets}, not s64 or s32", "kernel-offset")
    return offsets.shape


def _require_count(op: Op, *counts: int) -> None:
    if len(op.operands) not in counts:
        words = " or ".join(map(str, counts))
        raise BrokenRule(f"{words} operands, not {len(op.operands)}", "kernel-operands")


def _read(op: Op, shape: tuple[int, ...]) -> Type:
    _require_count(op, 2, 4)
    _require_buffer(op)
    type = TileType(op.operands[0].dtype, shape)
    if len(op.operands) == 4:
        mask, other = op.operands[2:]
        _require_mask(mask, shape)
        if other.type != type:
            raise BrokenRule(f"other is {other.type}, not {type}", "kernel-mask")
    return type


def _load(op: Op) -> Type:
    shape = _declared(op).shape
    _require_strides(op, shape)
    return _read(op, shape)


def _gather(op: Op) -> Type:
    return _read(op, _require_offsets(op))


def _prefetch(op: Op) -> None:
    _require_offset(op)


def _store(op: Op) -> None:
    value = op.operands[2]
    _require_buffer(op, value.dtype)
    _require_strides(op, value.shape)
    if len(op.operands) == 4:
        _require_mask(op.operands[3], value.shape)


def _scatter(op: Op) -> None:
    value, shape = op.operands[2], _require_offsets(op)
    _require_buffer(op, value.dtype)
    if value.shape != shape:
        raise BrokenRule(f"{value.type} at offsets {op.operands[1].type}", "kernel-shape")
    if len(op.operands) == 4:
        _require_mask(op.operands[3], shape)


RULES: dict[str, Callable[[Op], Type | None]] = {
    **dict.fromkeys(UNARY | BINARY, _elementwise),
    "alloc": _alloc,
    "bitcast-convert": _bitcast_convert,
    "broadcast": _broadcast,
    "clamp": _clamp,
    "compare": _compare,
    "concatenate": _concatenate,
    "constant": _constant,
    "convert": _convert,
    "dot": _dot,
    "fma": _fma,
    "gather": _gather,
    "iota": _iota,
    "load": _load,
    "prefetch": _prefetch,
    "reduce": _reduce,
    "reduce-precision": _reduce_precision,
    "reshape": _reshape,
    "scan": _scan,
    "scatter": _scatter,
    "select": _select,
    "slice": _slice,
    "store": _store,
    "transpose": _transpose,
}
"""The rule of every opcode without blocks, but yield."""
