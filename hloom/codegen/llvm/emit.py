"""Instructions on lanes and on memory, and the finished function and module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.arithmetic import deepest, suffix
from hloom.codegen.llvm.codes import KnownCodes
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.values import BITS, INTEGER_OF_BITS, V, constant, type_text
from hloom.types.dtype import DType

_REDUCTIONS = frozenset("fadd fmul fmin fmax fminimum fmaximum".split()) | frozenset(
    "add mul and or xor smin smax umin umax".split()
)

HALVES = (8, 16, 32)
"""Widths of the upper halves of products that LLVM looks for."""


@lru_cache(maxsize=1024)
def _mask_text(mask: tuple[int, ...]) -> str:
    """The lanes that a shuffle picks: 92 different masks among 6,220 shuffles of 19 programs."""
    picked = ", ".join(["i32 poison" if m < 0 else f"i32 {m}" for m in mask])
    return f"<{len(mask)} x i32> {f'<{picked}>' if any(mask) else 'zeroinitializer'}"


class Emit(KnownCodes):
    """One LLVM function while it is written.

    `e = Emit("name", machine, [("ptr", "args"), ("i64", "begin")])`, then `e.args[0]` and the
    methods; `e.text()` is the definition. Values may be used in any scope below the one where
    they are made. Constants cost nothing: make them where they are used.
    """

    def __init__(
        self,
        name: str,
        machine: Machine,
        args: Sequence[tuple[str, str]] = (),
        ret: str = "void",
        attributes: str = "nounwind",
    ) -> None:
        super().__init__(machine)
        self.name, self.ret_type, self.attributes = name, ret, attributes
        self.args = [V(f"%{word}", kind) for kind, word in args]
        self.ret_lanes = 1
        self.linkage = ""
        self.declared: dict[str, str] = {}
        """Declarations of the functions that are called, by name."""
        self.inner: dict[str, Emit] = {}
        """Functions that only this one calls, by what they compute."""
        self.common: dict[str, Callable[[], Emit]] = {}
        """What writes functions that others of the program call, too, by name; each stands there
        once."""
        self.tables: list[str] = []
        """Definitions of constant arrays."""
        self._lent: dict[int, V] = {}
        self.products: set[str] = set()
        """Vectors of integers that are products, by name."""
        self.narrow: dict[str, tuple[DType, V]] = {}
        """By name, values that were read or rounded as a narrow float type, and their bits."""

    # Products

    def mul(self, a: V, b: V) -> V:
        """a * b, wrapping."""
        product = super().mul(a, b)
        if product.lanes > 1 and product is not a and product is not b:
            self.products.add(product.name)
        return product

    def lshr(self, a: V, b: V) -> V:
        """a >> b filled with zeros; b below the width."""
        if not self._is_half(a, b):
            return super().lshr(a, b)
        return self._upper_part(a, int(b.value or 0))

    def ashr(self, a: V, b: V) -> V:
        """a >> b filled with the sign; b below the width."""
        if not self._is_half(a, b):
            return super().ashr(a, b)
        # With the sign turned round it is a number of no sign, less as much as that adds.
        top, by = BITS[a.kind] - 1, int(b.value or 0)
        turned = self.xor(a, self.like(a, -(1 << top)))
        return self.sub(self._upper_part(turned, by), self.like(a, 1 << (top - by)))

    def _is_half(self, a: V, b: V) -> bool:
        """Whether LLVM may take this for the upper half of a product of narrower numbers. Of such
        by 1 in all lanes of a register it makes a shift by the whole width, which is any number
        (LLVM 22); it does not look for halves that are shuffles, and shifts for them all the same.
        """
        return a.name in self.products and b.value in HALVES and b.value < BITS[a.kind]

    def _upper_part(self, a: V, by: int) -> V:
        """`lshr` by a number of whole lanes of a narrower kind, as a shuffle of those."""
        count = BITS[a.kind] // by
        parts = self.bitcast(a, INTEGER_OF_BITS[by])
        picked = [k + 1 if (k + 1) % count else parts.lanes for k in range(parts.lanes)]
        return self.bitcast(self.shuffle(parts, self.like(parts, 0), picked), a.kind)

    # Lanes

    def splat(self, a: V, lanes: int) -> V:
        """A scalar in every lane."""
        if lanes == 1:
            return a
        if a.value is not None:
            return constant(a.kind, a.value, lanes)
        one = self.insert(V("poison", a.kind, lanes), a, 0)
        return self.shuffle(one, V("poison", a.kind, lanes), [0] * lanes)

    def iota(self, kind: str, lanes: int) -> V:
        """0, 1, 2, .."""
        return self.vector(kind, range(lanes))

    def extract(self, a: V, lane: int | V) -> V:
        """One lane; the value itself if it is a scalar."""
        if a.lanes == 1:
            return a
        if a.value is not None:
            return constant(a.kind, a.value)
        at, depth = (lane.typed, deepest(a, lane)) if isinstance(lane, V) else (None, a.depth)
        text = f"extractelement {a.typed}, {at or f'i32 {lane}'}"
        return self.pure(text, a.kind, 1, depth)

    def insert(self, a: V, value: V, lane: int | V) -> V:
        """a with one lane replaced."""
        if a.lanes == 1:
            return value
        at, depth = (lane.typed, lane.depth) if isinstance(lane, V) else (f"i32 {lane}", 0)
        text = f"insertelement {a.typed}, {value.typed}, {at}"
        return self.pure(text, a.kind, a.lanes, max(deepest(a, value), depth), a.type)

    def shuffle(self, a: V, b: V | None, mask: Sequence[int]) -> V:
        """Lanes of a, then of b, picked by number (-1: any); a scalar if one is picked."""
        if a.lanes == 1:
            a, b = self.insert(V("poison", a.kind, 2), a, 0), None
        if len(mask) == 1:
            if b is None or mask[0] < a.lanes:
                return self.extract(a, mask[0])
            return self.extract(b, mask[0] - a.lanes)
        if b is None and list(mask) == list(range(a.lanes)):
            return a
        other = b.name if b is not None else "poison"
        depth = a.depth if b is None else deepest(a, b)
        text = f"shufflevector {a.typed}, {a.type} {other}, {_mask_text(tuple(mask))}"
        return self.pure(text, a.kind, len(mask), depth)

    def concat(self, parts: Sequence[V]) -> V:
        """The lanes of all parts (of one kind), in order."""
        parts = list(parts)
        while len(parts) > 1:
            paired = [self._joined(a, b) for a, b in zip(parts[::2], parts[1::2])]
            parts = paired + parts[len(paired) * 2 :]
        return parts[0]

    def _joined(self, a: V, b: V) -> V:
        n, m = a.lanes, b.lanes
        if n == m == 1:
            return self.insert(self.insert(V("poison", a.kind, 2), a, 0), b, 1)
        width = max(n, m)
        first, second = (self._widened(v, width) for v in (a, b))
        return self.shuffle(first, second, [*range(n), *range(width, width + m)])

    def _widened(self, a: V, lanes: int) -> V:
        if a.lanes == lanes:
            return a
        if a.lanes == 1:
            return self.insert(V("poison", a.kind, lanes), a, 0)
        return self.shuffle(a, None, [*range(a.lanes), *[-1] * (lanes - a.lanes)])

    def slice(self, a: V, start: int, lanes: int) -> V:
        """Some lanes in a row."""
        return self.shuffle(a, None, range(start, start + lanes))

    def reduce(self, kind: str, a: V) -> V:
        """All lanes to one scalar: fadd fmul (in any order) fmin fmax fminimum fmaximum, add mul
        and or xor smin smax umin umax."""
        if kind not in _REDUCTIONS:
            raise HloError(f"no reduction {kind!r}", rule="llvm-reduce")
        if a.lanes == 1:
            return a
        flags, start = "", ""
        if kind in ("fadd", "fmul"):
            identity = constant(a.kind, -0.0 if kind == "fadd" else 1.0)
            flags, start = "reassoc ", f"{identity.typed}, "
        one = type_text(a.kind, 1)
        text = f"call {flags}{one} @llvm.vector.reduce.{kind}{suffix(a)}({start}{a.typed})"
        return self.pure(text, a.kind, 1, a.depth)

    # Memory

    def gep(self, pointer: V, offset: V | int) -> V:
        """The address (or one per lane) some bytes further; offsets are i64."""
        if isinstance(offset, int):
            offset = constant("i64", offset)
        if offset.value == 0 and offset.lanes == 1:
            return pointer
        lanes = max(pointer.lanes, offset.lanes)
        text = f"getelementptr i8, {pointer.typed}, {offset.typed}"
        return self.pure(text, "ptr", lanes, deepest(pointer, offset))

    def load(
        self,
        pointer: V,
        kind: str,
        lanes: int = 1,
        align: int | None = None,
        invariant: bool = False,
        flags: str = "",
    ) -> V:
        """What lies at the address; `align` in bytes, the kind's own if not given.

        `invariant`: nobody writes there while the function runs and reading it is always safe, so
        equal loads are shared and leave loops. `flags` is metadata text such as
        `, !nontemporal !0`.
        """
        align = align or max(1, BITS[kind] // 8)
        result = type_text(kind, lanes)
        text = f"load {result}, {pointer.typed}, align {align}{flags}"
        if invariant:
            return self.pure(text, kind, lanes, pointer.depth, result)
        return self.effect(text, kind, lanes)

    def store(self, value: V, pointer: V, align: int | None = None, flags: str = "") -> None:
        """Writes a value to the address."""
        align = align or max(1, BITS[value.kind] // 8)
        self.line(f"store {value.typed}, {pointer.typed}, align {align}{flags}")

    def prefetch(self, pointer: V, *, nearest: bool = False) -> None:
        """Asks for the line at the address, for the second-level cache or the nearest one."""
        locality = 3 if nearest else 2
        self.declared["llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        self.line(f"call void @llvm.prefetch.p0({pointer.typed}, i32 0, i32 {locality}, i32 1)")

    def masked_load(self, pointer: V, mask: V, other: V, align: int | None = None) -> V:
        """Lanes from memory where the mask holds (only those are read), else of `other`."""
        align = align or max(1, BITS[other.kind] // 8)
        text = (
            f"call {other.type} @llvm.masked.load{suffix(other)}.p0("
            f"ptr align {align} {pointer.name}, {mask.typed}, {other.typed})"
        )
        value = self.effect(text, other.kind, other.lanes)
        self._chosen[value.name] = (mask.name, other.name)
        return value

    def masked_store(self, value: V, pointer: V, mask: V, align: int | None = None) -> None:
        """Writes the lanes where the mask holds."""
        align = align or max(1, BITS[value.kind] // 8)
        self.line(
            f"call void @llvm.masked.store{suffix(value)}.p0({value.typed}, "
            f"ptr align {align} {pointer.name}, {mask.typed})"
        )

    def gather(self, pointers: V, mask: V, other: V, align: int | None = None) -> V:
        """Each lane from its own address where the mask holds, else of `other`."""
        align = align or max(1, BITS[other.kind] // 8)
        text = (
            f"call {other.type} @llvm.masked.gather{suffix(other)}{suffix(pointers)}("
            f"{pointers.type} align {align} {pointers.name}, {mask.typed}, {other.typed})"
        )
        return self.effect(text, other.kind, other.lanes)

    def scatter(self, value: V, pointers: V, mask: V, align: int | None = None) -> None:
        """Writes each lane to its own address where the mask holds, lane 0 first."""
        align = align or max(1, BITS[value.kind] // 8)
        self.line(
            f"call void @llvm.masked.scatter{suffix(value)}{suffix(pointers)}({value.typed}, "
            f"{pointers.type} align {align} {pointers.name}, {mask.typed})"
        )

    def alloca(self, size_bytes: int, align: int = 64) -> V:
        """The address of bytes on the stack, reserved when the function is entered."""
        name = "%" + self.fresh("stack")
        self.lines.insert(0, f"  {name} = alloca [{size_bytes} x i8], align {align}")
        return V(name, "ptr")

    def lent(self, size_bytes: int) -> V:
        """The address of bytes on the stack that hold nothing for longer than a call takes: the
        same for all who ask for so many."""
        if size_bytes not in self._lent:
            self._lent[size_bytes] = self.alloca(size_bytes)
        return self._lent[size_bytes]

    def table(self, numbers: Sequence[int]) -> V:
        """The address of constant words of 64 bits."""
        name = f"@{self.name}.table{len(self.tables)}"
        inside = ", ".join([constant("i64", n).typed for n in numbers])
        array = f"[{len(numbers)} x i64] [{inside}]"
        self.tables.append(f"{name} = private unnamed_addr constant {array}, align 8")
        return V(name, "ptr")

    def guarded(self, number: int, size_bytes: int) -> V:
        """The address of bytes before a protected page, the same in every call of a thread."""
        name = "%" + self.fresh("guarded")
        self.declared["hl_guard_scratch"] = "declare ptr @hl_guard_scratch(i64, i64)"
        call = f"call ptr @hl_guard_scratch(i64 {number}, i64 {size_bytes})"
        self.lines.insert(0, f"  {name} = {call}")
        return V(name, "ptr")

    def call(self, name: str, ret: str, args: Sequence[V]) -> V | None:
        """Calls an external function with C's conventions; `ret` is a kind or void."""
        types = ", ".join(a.type for a in args)
        result = ret if ret == "void" else type_text(ret, 1)
        self.declared[name] = f"declare {result} @{name}({types})"
        text = f"call {result} @{name}({', '.join(a.typed for a in args)})"
        if ret != "void":
            return self.effect(text, ret)
        self.line(text)
        return None

    def call_inner(self, what: str, write: Callable[..., V], values: Sequence[V]) -> V:
        """`write(e, *values)` in a function of its own, written once for values of these types;
        `what` names it. It must depend on nothing but the values."""
        name = "_".join([what.replace("-", "_"), *[f"{x.kind}x{x.lanes}" for x in values]])
        inner = self.inner.get(name)
        if inner is None:
            inner = self.inner[name] = Emit(
                f"{self.name}_{name}", self.machine, attributes="nounwind noinline"
            )
            inner.linkage = "internal "
            inner.args = [V(f"%x{k}", x.kind, x.lanes) for k, x in enumerate(values)]
            result = write(inner, *inner.args)
            inner.ret_type, inner.ret_lanes = result.kind, result.lanes
            inner.ret(result)
            self.declared |= inner.declared
            self.common |= inner.common
        text = f"call {type_text(inner.ret_type, inner.ret_lanes)} @{inner.name}("
        text += ", ".join([x.typed for x in values]) + ")"
        return self.pure(text, inner.ret_type, inner.ret_lanes, deepest(*values))

    def call_common(
        self, name: str, write: Callable[[Emit, str], None], args: Sequence[V], kind: str
    ) -> None:
        """`write(e, kind)` as a function of the program, which is called here: for long code that
        hardly ever runs. It must depend on nothing but its arguments and the kind."""
        machine, words = self.machine, [(a.kind, f"x{k}") for k, a in enumerate(args)]

        def written() -> Emit:
            function = Emit(name, machine, words)
            write(function, kind)
            return function

        self.common.setdefault(name, written)
        types = ", ".join(a.type for a in args)
        self.declared[name] = f"declare void @{name}({types}) cold nounwind"
        self.line(f"call void @{name}({', '.join(a.typed for a in args)}) cold nounwind")

    # The whole

    def text(self) -> str:
        """The definition of the function, and of those that only it calls."""
        params = ", ".join(a.typed for a in self.args)
        ret = self.ret_type
        if ret != "void":
            ret = type_text(ret, self.ret_lanes)
        head = f"define {self.linkage}{ret} @{self.name}({params}) {self.attributes} {{\nentry:\n"
        inner = "".join([f.text() for f in self.inner.values()])
        tables = "".join([f"{line}\n" for line in self.tables])
        return f"{tables}{head}{self.body_text()}\n}}\n{inner}"

    def whole_text(self) -> str:
        """The definition behind declarations of what it calls, that of `common` not among them."""
        return "\n".join([*self.declared.values(), self.text()])


def module_text(functions: Iterable[Emit], machine: Machine, globals_: Sequence[str] = ()) -> str:
    """A module of these functions for a machine: layout, declarations and metadata included.

    `globals_` are further lines, such as constant tables; `!0` is the node `!{i32 1}` that
    nontemporal stores name.
    """
    functions = list(functions)
    common = {name: write for f in functions for name, write in f.common.items()}
    functions += [write() for write in common.values()]
    defined = {f.name for f in functions}
    declared = {n: d for f in functions for n, d in f.declared.items() if n not in defined}
    parts = [
        f'target datalayout = "{machine.data_layout}"',
        f'target triple = "{machine.full_triple}"',
        *globals_,
        *(declared[name] for name in sorted(declared)),
        "",
        *(f.text() for f in functions),
        "!0 = !{i32 1}\n",
    ]
    return "\n".join(parts)
