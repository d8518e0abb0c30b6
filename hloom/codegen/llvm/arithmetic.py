"""The builder of LLVM text: one method per instruction, values in, value out.

Nothing of LLVM is called: an instruction is a formatted string, so a kernel of a thousand
instructions is built in a few milliseconds. Equal pure instructions become one and loop invariants
move out of loops (`lines`), and integer arithmetic on constants is done here.

Rounding is exact IEEE unless `flags` says otherwise: `e.flags = "contract "` lets LLVM fuse the
multiplications and additions emitted from then on. What a machine lacks is replaced by
instructions that compute the same, never by a call into a library.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.lines import Lines
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.values import (
    BITS,
    FLOATS,
    INTEGER_OF_BITS,
    V,
    constant,
    constant_vector,
    type_text,
)

SUFFIX = {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64"}
_FROM_INTEGER_MAGIC = {"f32": 2.0**23, "f64": 2.0**52}


def deepest(*values: V) -> int:
    """The largest depth of some values."""
    depth = 0
    for v in values:
        if v.depth > depth:
            depth = v.depth
    return depth


def suffix(a: V) -> str:
    """How the name of an intrinsic ends for this type: `.v16f32`, `.i64`."""
    kind = "p0" if a.kind == "ptr" else a.kind
    return f".{kind}" if a.lanes == 1 else f".v{a.lanes}{kind}"


class Arithmetic(Lines):
    """Instructions that compute; see `Emit`."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.flags = ""
        """Fast-math flags of fadd, fsub and fmul: empty, or words with a space after each."""
        self._chosen: dict[str, tuple[str, str]] = {}
        """By name, the condition of values that are known where it fails, and what they are there:
        choices, masked loads."""

    # Constants

    def const(self, kind: str, value: int | float, lanes: int = 1) -> V:
        """A number in every lane, rounded to nearest even."""
        return constant(kind, value, lanes)

    def vector(self, kind: str, values: Sequence[int | float]) -> V:
        """One number per lane."""
        return constant_vector(kind, values)

    def like(self, a: V, value: int | float) -> V:
        """A number in every lane of a value of a's type."""
        return constant(a.kind, value, a.lanes)

    # Shapes of instructions

    def _binary(self, word: str, a: V, b: V) -> V:
        depth = a.depth if a.depth > b.depth else b.depth
        return self.pure(f"{word} {a.type} {a.name}, {b.name}", a.kind, a.lanes, depth, a.type)

    def _commutative(self, word: str, a: V, b: V) -> V:
        if a.name > b.name:
            a, b = b, a
        depth = a.depth if a.depth > b.depth else b.depth
        return self.pure(f"{word} {a.type} {a.name}, {b.name}", a.kind, a.lanes, depth, a.type)

    def _cast(self, word: str, a: V, kind: str) -> V:
        result = type_text(kind, a.lanes)
        return self.pure(f"{word} {a.type} {a.name} to {result}", kind, a.lanes, a.depth, result)

    def intrinsic(self, name: str, *args: V, flags: str = "") -> V:
        """A pure LLVM intrinsic whose result has the type of its first operand."""
        a = args[0]
        operands = ", ".join(f"{v.type} {v.name}" for v in args)
        text = f"call {flags}{a.type} @llvm.{name}{suffix(a)}({operands})"
        return self.pure(text, a.kind, a.lanes, deepest(*args), a.type)

    # Integers

    def add(self, a: V, b: V) -> V:
        """a + b, wrapping."""
        if a.value is not None and b.value is not None:
            return constant(a.kind, int(a.value) + int(b.value), a.lanes)
        if b.value == 0:
            return a
        if a.value == 0:
            return b
        return self._commutative("add", a, b)

    def sub(self, a: V, b: V) -> V:
        """a - b, wrapping."""
        if a.value is not None and b.value is not None:
            return constant(a.kind, int(a.value) - int(b.value), a.lanes)
        return a if b.value == 0 else self._binary("sub", a, b)

    def mul(self, a: V, b: V) -> V:
        """a * b, wrapping."""
        if a.value is not None and b.value is not None:
            return constant(a.kind, int(a.value) * int(b.value), a.lanes)
        if b.value == 1 or a.value == 0:
            return a
        if a.value == 1 or b.value == 0:
            return b
        return self._commutative("mul", a, b)

    def sdiv(self, a: V, b: V) -> V:
        """Signed quotient, truncated; b may be neither 0 nor -1 beside the smallest a."""
        return a if b.value == 1 else self._divided("sdiv", a, b)

    def udiv(self, a: V, b: V) -> V:
        """Unsigned quotient; b may not be 0."""
        return a if b.value == 1 else self._divided("udiv", a, b)

    def srem(self, a: V, b: V) -> V:
        """What `sdiv` leaves."""
        return self._divided("srem", a, b)

    def urem(self, a: V, b: V) -> V:
        """What `udiv` leaves."""
        return self._divided("urem", a, b)

    def _divided(self, word: str, a: V, b: V) -> V:
        if b.value is not None and b.value not in (0, -1):
            return self._binary(word, a, b)
        return self.numbered(f"{word} {a.type} {a.name}, {b.name}", a.kind, a.lanes)

    def and_(self, a: V, b: V) -> V:
        """Bitwise and."""
        return self._commutative("and", a, b)

    def or_(self, a: V, b: V) -> V:
        """Bitwise or."""
        return self._commutative("or", a, b)

    def xor(self, a: V, b: V) -> V:
        """Bitwise exclusive or."""
        return self._commutative("xor", a, b)

    def not_(self, a: V) -> V:
        """All bits turned."""
        return self._commutative("xor", a, constant(a.kind, -1, a.lanes))

    def neg(self, a: V) -> V:
        """0 - a, wrapping."""
        return self.sub(constant(a.kind, 0, a.lanes), a)

    def shl(self, a: V, b: V) -> V:
        """a << b; b below the width."""
        return a if b.value == 0 else self._binary("shl", a, b)

    def lshr(self, a: V, b: V) -> V:
        """a >> b filled with zeros; b below the width."""
        return a if b.value == 0 else self._binary("lshr", a, b)

    def ashr(self, a: V, b: V) -> V:
        """a >> b filled with the sign; b below the width."""
        return a if b.value == 0 else self._binary("ashr", a, b)

    def smin(self, a: V, b: V) -> V:
        """The smaller, signed."""
        return self.intrinsic("smin", a, b)

    def smax(self, a: V, b: V) -> V:
        """The larger, signed."""
        return self.intrinsic("smax", a, b)

    def umin(self, a: V, b: V) -> V:
        """The smaller, unsigned."""
        return self.intrinsic("umin", a, b)

    def umax(self, a: V, b: V) -> V:
        """The larger, unsigned."""
        return self.intrinsic("umax", a, b)

    def popcnt(self, a: V) -> V:
        """How many bits are one."""
        return self.intrinsic("ctpop", a)

    def clz(self, a: V) -> V:
        """How many zero bits stand above the highest one; the width for 0."""
        text = f"call {a.type} @llvm.ctlz{suffix(a)}({a.type} {a.name}, i1 false)"
        return self.pure(text, a.kind, a.lanes, a.depth, a.type)

    # Floats

    def fadd(self, a: V, b: V) -> V:
        """a + b."""
        return self._commutative(f"fadd {self.flags}".rstrip() if self.flags else "fadd", a, b)

    def fsub(self, a: V, b: V) -> V:
        """a - b."""
        return self._binary(f"fsub {self.flags}".rstrip() if self.flags else "fsub", a, b)

    def fmul(self, a: V, b: V) -> V:
        """a * b."""
        return self._commutative(f"fmul {self.flags}".rstrip() if self.flags else "fmul", a, b)

    def fdiv(self, a: V, b: V) -> V:
        """a / b."""
        return self._binary("fdiv", a, b)

    def fneg(self, a: V) -> V:
        """a with its sign turned, of NaN and zero too."""
        text = f"fneg {a.type} {a.name}"
        return self.pure(text, a.kind, a.lanes, a.depth, a.type)

    def fma(self, a: V, b: V, c: V) -> V:
        """a * b + c, rounded once where the machine can (`has_fma`), twice where it cannot."""
        if self.machine.has_fma:
            return self.intrinsic("fma", a, b, c)
        return self._commutative("fadd", self._commutative("fmul", a, b), c)

    def fabs(self, a: V) -> V:
        """|a|."""
        return self.intrinsic("fabs", a)

    def copysign(self, a: V, b: V) -> V:
        """|a| with the sign of b."""
        return self.intrinsic("copysign", a, b)

    def fsqrt(self, a: V) -> V:
        """The square root, correctly rounded."""
        return self.intrinsic("sqrt", a)

    def ftrunc(self, a: V) -> V:
        """The integer part, keeping the sign of zero."""
        if self.machine.has_round:
            return self.intrinsic("trunc", a)
        near = self.fround_even(a)
        over = self.fcmp("ogt", self.fabs(near), self.fabs(a))
        one = self.select(over, self.like(a, 1.0), self.like(a, 0.0))
        return self.copysign(self._binary("fsub", self.fabs(near), one), a)

    def ffloor(self, a: V) -> V:
        """The largest integer not above a, keeping the sign of zero."""
        if self.machine.has_round:
            return self.intrinsic("floor", a)
        near = self.fround_even(a)
        one = self.select(self.fcmp("ogt", near, a), self.like(a, 1.0), self.like(a, 0.0))
        return self.copysign(self._binary("fsub", near, one), a)

    def fceil(self, a: V) -> V:
        """The smallest integer not below a, keeping the sign of zero."""
        if self.machine.has_round:
            return self.intrinsic("ceil", a)
        return self.fneg(self.ffloor(self.fneg(a)))

    def fround_even(self, a: V) -> V:
        """The nearest integer, halves to even, keeping the sign of zero."""
        if self.machine.has_round:
            return self.intrinsic("roundeven", a)
        # Above 2**23 (2**52) there are no fractions, so adding that much rounds at the unit.
        magic = _FROM_INTEGER_MAGIC.get(a.kind)
        if magic is None:
            raise HloError(f"{a.kind} is rounded in f32", rule="llvm-kind")
        large = self.like(a, magic)
        size = self.fabs(a)
        rounded = self._binary("fsub", self._commutative("fadd", size, large), large)
        small = self.fcmp("olt", size, large)
        return self.copysign(self.select(small, rounded, size), a)

    def fmin_raw(self, a: V, b: V) -> V:
        """a if a < b, else b: b where either is NaN (x86's minps)."""
        return self.select(self.fcmp("olt", a, b), a, b)

    def fmax_raw(self, a: V, b: V) -> V:
        """a if a > b, else b: b where either is NaN (x86's maxps)."""
        return self.select(self.fcmp("ogt", a, b), a, b)

    def fminimum(self, a: V, b: V) -> V:
        """HLO's minimum: NaN if either is, and -0 is below 0."""
        if not self._has_raw_extremes(a, b):
            return self.intrinsic("minimum", a, b)
        both = self.or_(self.bits(self.fmin_raw(a, b)), self.bits(self.fmin_raw(b, a)))
        return self._with_nan(a, b, self.bitcast(both, a.kind))

    def fmaximum(self, a: V, b: V) -> V:
        """HLO's maximum: NaN if either is, and 0 is above -0."""
        if not self._has_raw_extremes(a, b):
            return self.intrinsic("maximum", a, b)
        both = self.and_(self.bits(self.fmax_raw(a, b)), self.bits(self.fmax_raw(b, a)))
        return self._with_nan(a, b, self.bitcast(both, a.kind))

    def _has_raw_extremes(self, a: V, b: V) -> bool:
        """Whether the instructions, in both orders, are better than what LLVM writes: with masks it
        brings a sign to an integer register first, in the middle of a loop's chain of dependences
        (a running maximum: 0.4 of the time). Of constants it knows what they are not."""
        if a.value is not None or b.value is not None:
            return False
        return a.kind in ("f32", "f64") and self.machine.has_avx512

    def _with_nan(self, a: V, b: V, extreme: V) -> V:
        """The extreme of two numbers; NaN where either is."""
        return self.select(self.fcmp("uno", a, b), self.like(a, float("nan")), extreme)

    # Choice

    def icmp(self, predicate: str, a: V, b: V) -> V:
        """i1 per lane: eq ne slt sle sgt sge ult ule ugt uge."""
        text = f"icmp {predicate} {a.type} {a.name}, {b.name}"
        return self.pure(text, "i1", a.lanes, deepest(a, b))

    def fcmp(self, predicate: str, a: V, b: V) -> V:
        """i1 per lane: oeq one olt ole ogt oge ord, and ueq une .. uno, true beside a NaN."""
        text = f"fcmp {predicate} {a.type} {a.name}, {b.name}"
        return self.pure(text, "i1", a.lanes, deepest(a, b))

    def select(self, condition: V, a: V, b: V) -> V:
        """a where the condition holds, else b; the condition per lane, or one i1 scalar."""
        if a is b or a.name == b.name:
            return a
        if condition.value is not None:
            return a if condition.value else b
        chosen = (condition.name, b.name)
        if self._chosen.get(a.name) == chosen:
            return a
        text = f"select {condition.typed}, {a.typed}, {b.typed}"
        result = self.pure(text, a.kind, a.lanes, deepest(condition, a, b), a.type)
        self._chosen[result.name] = chosen
        return result

    # Conversions

    def sitofp(self, a: V, kind: str) -> V:
        """A signed integer as a float, rounded to nearest even."""
        return self._cast("sitofp", a, kind)

    def uitofp(self, a: V, kind: str) -> V:
        """An unsigned integer as a float, rounded to nearest even."""
        return self._cast("uitofp", a, kind)

    def fptosi(self, a: V, kind: str) -> V:
        """The integer part; a must be in range. What HLO converts is `convert.float_to_integer`."""
        return self._cast("fptosi", a, kind)

    def fptoui(self, a: V, kind: str) -> V:
        """As `fptosi`, unsigned."""
        return self._cast("fptoui", a, kind)

    def fpext(self, a: V, kind: str) -> V:
        """A wider float. Below f32 use `convert`, which works on every machine."""
        return a if a.kind == kind else self._cast("fpext", a, kind)

    def fptrunc(self, a: V, kind: str) -> V:
        """A narrower float, rounded to nearest even. Below f32 use `convert`."""
        return a if a.kind == kind else self._cast("fptrunc", a, kind)

    def zext(self, a: V, kind: str) -> V:
        """A wider integer, zeros above."""
        return a if a.kind == kind else self._integer("zext", a, kind)

    def sext(self, a: V, kind: str) -> V:
        """A wider integer, the sign above."""
        return a if a.kind == kind else self._integer("sext", a, kind)

    def trunc(self, a: V, kind: str) -> V:
        """The low bits."""
        return a if a.kind == kind else self._integer("trunc", a, kind)

    def _integer(self, word: str, a: V, kind: str) -> V:
        if a.value is None:
            return self._cast(word, a, kind)
        value = int(a.value)
        if word == "zext":
            value &= (1 << BITS[a.kind]) - 1
        elif a.kind == "i1" and word == "sext":
            value = -value
        return constant(kind, value, a.lanes)

    def bitcast(self, a: V, kind: str, lanes: int | None = None) -> V:
        """The same bits as another kind, or as another number of lanes of another width."""
        lanes = a.lanes * BITS[a.kind] // BITS[kind] if lanes is None else lanes
        result = type_text(kind, lanes)
        if result == a.type:
            return a
        return self.pure(f"bitcast {a.type} {a.name} to {result}", kind, lanes, a.depth, result)

    def bits(self, a: V) -> V:
        """The bits of floats as integers of their width."""
        return self.bitcast(a, INTEGER_OF_BITS[BITS[a.kind]]) if a.kind in FLOATS else a
