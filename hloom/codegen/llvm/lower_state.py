"""What the lowering of one kernel knows while it goes: the function, and each value's registers.

A tile is a list of rows, all axes but the last in row-major order; a row is one LLVM vector of the
last axis (a scalar where that has one element). A complex tile is the list of the rows' real
parts followed by the list of their imaginary parts, so control flow and data movement treat all
tiles alike. A buffer is its address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.convert import computed_half, high_half, narrowed, rounded_half, widened
from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.known_offsets import Known
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.values import V, float_bits, type_text
from hloom.kernel.kernel import Block, Kernel, Op, Value
from hloom.types.dtype import DType

MOST_WRITTEN_OUT = 1500
"""Instructions of functions of `math` that a kernel has of its own; from then on functions are
called. Machine code for 48 sines written out takes 0.6 s to make, for 1,000 calls half of that;
for a kernel with 62 complex quotients 2.9 s, with calls 1.4."""

Rows = list[V]
Handler = Callable[["KernelLowering", Op], Any]


class Freedom(NamedTuple):
    """What the lowering may do beyond the letter of the kernel."""

    flags: str = ""
    """Fast-math flags of sums, differences, products and quotients, a space after each."""
    unroll: bool = True
    """Whether loops of few known steps may be written out."""
    split_addresses: bool = False
    """Whether what stays of an address while a loop turns is added to the buffer before it."""


class Joined(V):
    """A row that is known by its parts; it becomes one vector only where one is asked for."""

    __slots__ = ("e", "parts")

    def __init__(self, e: Emit, parts: Sequence[V]) -> None:
        first = parts[0]
        self.e, self.parts = e, list(parts)
        self.kind, self.lanes = first.kind, sum([part.lanes for part in parts])
        self.depth, self.value = max([part.depth for part in parts]), None
        self.type = type_text(self.kind, self.lanes)

    @property
    def name(self) -> str:  # type: ignore[override]
        # Not kept: what is joined in one branch is not there in the next. Equal text is shared.
        return self.e.concat(self.parts).name


class KernelLowering:
    """The lowering of one kernel to one function."""

    __slots__ = (
        "computed",
        "deferred",
        "e",
        "freedom",
        "kernel",
        "known_numbers",
        "known_widths",
        "machine",
        "nontemporal",
        "planes",
        "rows",
        "stack",
        "stored",
        "tiles",
        "waiting",
        "written_out",
        "yielded",
    )

    def __init__(self, kernel: Kernel, machine: Machine, e: Emit, freedom: Freedom) -> None:
        self.kernel, self.machine, self.e, self.freedom = kernel, machine, e, freedom
        self.rows: dict[Value, Rows] = {}
        self.computed: set[Value] = set()
        """Results of arithmetic, where a machine has a use for knowing them."""
        self.deferred: dict[Value, Op] = {}
        """Loads that are emitted where the one dot that uses them is."""
        self.planes: dict[Value, int] = {}
        """Scratch of complex numbers whose parts lie apart: bytes from a real part to the other."""
        self.yielded: set[Value] = set()
        """What blocks yield: sums that loops carry, which keep their excess precision."""
        self.known_numbers: Known = {}
        self.known_widths: dict[int, tuple[int, ...]] = {}
        self.tiles: dict[Op, Any] = {}
        """Dots whose sums the loop around them holds in tile registers."""
        self.stored: set[Value] = set()
        """Sums of whole tiles that are only stored."""
        self.waiting: dict[Value, Any] = {}
        """Those that are in tile registers now."""
        self.written_out = 0
        """Instructions that were written for functions of `math`."""
        self.stack = 0
        self.nontemporal = False

    @property
    def is_long(self) -> bool:
        """Whether functions of `math` are to be called from here on."""
        return self.written_out > MOST_WRITTEN_OUT

    def written_here(self, compute: Callable[..., Any], *x: Any) -> Any:
        """What a function of `math` computes, its code being part of this kernel's."""
        before = self.e.written
        result = compute(self.e, *x)
        self.written_out += self.e.written - before
        return result

    def of(self, value: Value) -> Rows:
        """The registers of a tile."""
        return self.rows[value]

    def joined(self, parts: Sequence[V]) -> V:
        """One row of all parts' lanes."""
        return parts[0] if len(parts) == 1 else Joined(self.e, parts)

    def split(self, row: V, width: int) -> Rows:
        """The row in parts of `width` lanes, which divides its own."""
        if row.lanes == width:
            return [row]
        if isinstance(row, Joined) and all(part.lanes % width == 0 for part in row.parts):
            return [piece for part in row.parts for piece in self.split(part, width)]
        e = self.e
        if row.value is not None:
            return [e.const(row.kind, row.value, width)] * (row.lanes // width)
        return [e.slice(row, at, width) for at in range(0, row.lanes, width)]

    def cut(self, row: V, start: int, width: int) -> V:
        """Some lanes in a row, from the part that holds them if one does."""
        if row.lanes == width:
            return row
        if row.value is not None:
            return self.e.const(row.kind, row.value, width)
        if isinstance(row, Joined):
            at = start
            for part in row.parts:
                if at < part.lanes:
                    if at + width <= part.lanes:
                        return self.cut(part, at, width)
                    break
                at -= part.lanes
        return self.e.slice(row, start, width)

    def widths(self, lanes: int) -> tuple[int, ...]:
        """The parts in which rows of so many lanes are computed; none if as a whole.

        LLVM computes vectors of 48 lanes as 64, and keeps them in memory. So rows that are wider
        than a register and no power of two are powers of two of registers, and what is left.
        """
        known = self.known_widths.get(lanes)
        if known is None:
            known = self.known_widths[lanes] = _widths(lanes, self.machine.lanes(32))
        return known

    def parts(self, row: V) -> Rows:
        """The row in the parts that `widths` says."""
        widths = self.widths(row.lanes)
        if not widths:
            return [row]
        if isinstance(row, Joined) and tuple([part.lanes for part in row.parts]) == widths:
            return row.parts
        pieces, at = [], 0
        for width in widths:
            pieces.append(self.cut(row, at, width))
            at += width
        return pieces

    def each(self, function: Callable[..., V], *rows: V) -> V:
        """A function of lanes, applied to the parts of rows."""
        if not self.widths(rows[0].lanes):
            return function(*rows)
        columns = [self.parts(row) for row in rows]
        return self.joined([function(*part) for part in zip(*columns)])

    def rounded(self, x: V, dtype: DType) -> V:
        """A result of narrow float arithmetic, rounded to its type unless excess is allowed."""
        if dtype.bits >= 32 or self.kernel.excess_precision:
            return x
        return rounded_through(self.e, x, dtype, is_result=True)

    def refuse(self, op: Op, why: str, hint: str | None = None) -> HloError:
        """The error for an op that cannot be lowered."""
        return HloError(
            f"{op.opcode} {why}", instruction=self.kernel.name, rule="llvm-lower", hint=hint
        )


def _widths(lanes: int, register: int) -> tuple[int, ...]:
    """Powers of two of registers, the largest first, and the lanes that fill none."""
    if lanes <= register or lanes & (lanes - 1) == 0:
        return ()
    widths = []
    whole, rest = divmod(lanes, register)
    while whole:
        size = 1 << (whole.bit_length() - 1)
        widths.append(size * register)
        whole -= size
    return tuple([*widths, rest] if rest else widths)


def kind_of(dtype: DType) -> str:
    """The kind of register that an element (a part of a complex one) is computed in."""
    if dtype.is_pred:
        return "i1"
    if dtype.is_complex:
        return dtype.component.name
    if dtype.is_floating:
        return "f64" if dtype.bits == 64 else "f32"
    return f"i{max(8, dtype.bits)}"


def storage_of(dtype: DType) -> str:
    """The kind that one element (a part of a complex one) has in memory."""
    if dtype.is_pred or dtype.is_sub_byte:
        return "i8"
    if dtype.is_floating and dtype.bits < 32:
        return f"i{dtype.size_bytes * 8}"
    return kind_of(dtype)


def count_of(shape: tuple[int, ...]) -> int:
    """How many rows a tile has."""
    count = 1
    for extent in shape[:-1]:
        count *= extent
    return count


def lanes_of(shape: tuple[int, ...]) -> int:
    """How many lanes each row has."""
    return shape[-1] if shape else 1


def planes_of(dtype: DType) -> int:
    """How many lists of rows make up a tile."""
    return 2 if dtype.is_complex else 1


def row_offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """Where each row begins, in elements from the first."""
    offsets = [0]
    for extent, stride in zip(shape[:-1], strides[:-1]):
        offsets = [at + i * stride for at in offsets for i in range(extent)]
    return offsets


def rounded_through(e: Emit, x: V, dtype: DType, *, is_result: bool = False) -> V:
    """x (f32 or f64) rounded to a narrow float type, as the f32 that it is computed with. What is
    rounded once need not be again. `is_result`: of arithmetic (`computed.py`)."""
    if known_bits(e, x, dtype) is not None:
        return x
    if dtype.name == "bf16" and not (is_result and e.machine.has_bf16):
        whole = rounded_half(e, x)
        bits, result = high_half(e, whole), e.bitcast(whole, "f32")
    else:
        bits = computed_half(e, x) if dtype.name == "bf16" else narrowed(e, x, dtype)
        result = widened(e, bits, dtype)
    if result.value is None:
        e.narrow[result.name] = (dtype, bits)
    return result


def known_bits(e: Emit, x: V, dtype: DType) -> V | None:
    """The bits in a narrow float type of what was read or rounded as one; None of what was not."""
    known = e.narrow.get(x.name)
    return known[1] if known is not None and known[0] is dtype else None


def as_narrow(e: Emit, x: V, dtype: DType, operands: Sequence[V]) -> V:
    """x, which is one of the operands or one of them with another sign: where all of these are bf16
    it is, too, and need not be rounded to be stored."""
    if dtype.name == "bf16" and x.value is None and x.name not in e.narrow:
        if all(_is_narrow(e, y, dtype) for y in operands):
            e.narrow[x.name] = (dtype, high_half(e, e.bits(x)))
    return x


def _is_narrow(e: Emit, x: V, dtype: DType) -> bool:
    """Whether x is known to be a number of bf16."""
    if x.value is None:
        return known_bits(e, x, dtype) is not None
    number = float(x.value)
    return float_bits("bf16", number) << 16 == float_bits("f32", number)


def wrapped(e: Emit, x: V, dtype: DType) -> V:
    """The result of integer arithmetic in a wider register, as its type."""
    if not dtype.is_sub_byte:
        return x
    if not dtype.is_signed_int:
        return e.and_(x, e.like(x, (1 << dtype.bits) - 1))
    return e.sign_extended(x, dtype.bits)


def raw(e: Emit, x: V, dtype: DType) -> V:
    """The integer's own bits, zeros above."""
    return e.and_(x, e.like(x, (1 << dtype.bits) - 1)) if dtype.is_sub_byte else x


__all__ = ["Block", "Handler", "KernelLowering", "Rows"]
