"""How an operation is declared: one class gives its text, builder, pattern, checks and stub.

    @op("transpose")
    class Transpose:
        '''out[i0, i1, ...] = x[...], dimension k of out being dimension dimensions[k] of x.'''

        x: Operand
        dimensions: Dims

        def shape(self, x: Shape) -> Shape: ...

Fields annotated `Operand` (exactly one value) or `Operands` (any number of values; at most one
such field) are the inputs; `Called` and `CalledMany` are called computations; every other field
is an attribute whose annotation is an attribute kind (`ir/kinds.py`) that knows its text. What
remains becomes a frozen dataclass: an instruction's `attrs` is an instance of it. Attribute
names are those of HLO text.

The shape rule is one of two methods:

* `shape(self, *operand_shapes)` returns the result's shape (layout-free), or
* `check(self, given, *operand_shapes)` for operations whose result shape is part of the
  instruction (reshape, custom-call, ...): it raises `ShapeError` when `declared` is impossible.

For an operation with called computations both also receive `called=`, a tuple of their
`ProgramShape`s. Both raise `ShapeError(message)`; who calls them adds the place.

What else is known of an opcode are traits (`ir/traits.py`): `@op("add", ELEMENTWISE)`. Tables of
opcodes are derived from them: `opcodes(ELEMENTWISE)`.
"""

import dataclasses
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, get_type_hints

from hloom.base.registry import Registry
from hloom.ir.kinds import AttributeKind
from hloom.ir.traits import Trait
from hloom.types.shape import Shape


class ShapeError(Exception):
    """A shape rule is broken; caught and given a place by parser, builder and verifier."""


class Operand:
    """Marks a field as one input value."""


class Operands:
    """Marks a field as any number of input values."""


class Called:
    """Marks a field as one called computation."""


class CalledMany:
    """Marks a field as any number of called computations."""


@dataclass(frozen=True, slots=True)
class Field:
    """One attribute of an operation."""

    name: str
    kind: AttributeKind
    default: Any
    """What it is when not written; `REQUIRED` when it must be."""

    @property
    def required(self) -> bool:
        return self.default is REQUIRED


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


@dataclass(frozen=True, eq=False)
class OpDef:
    """All that is declared of one operation."""

    name: str
    family: str
    """The file in `ir/ops/` that declares it; the same file name serves it in every room."""
    operands: tuple[str, ...]
    variadic: str | None
    """The name of the operand field that takes any number of values."""
    called: tuple[str, ...]
    called_variadic: bool
    fields: tuple[Field, ...]
    attrs: type
    infers: bool
    """Whether the result shape follows from the operands (else it must be given)."""
    traits: frozenset[Trait]
    start_of: str | None
    """The opcode that does in one step what this one begins."""
    done_of: str | None
    """The opcode that began what this one waits for."""
    result_index: tuple[int, ...] | None
    """Of a done: where in the shape of its start the result is; None when it computes it."""
    doc: str
    empty: Any
    """The shared attribute instance when nothing is required, else None."""
    field_by_name: dict[str, Field]

    @property
    def operand_count(self) -> int | None:
        """The exact number of operands, or None when it varies."""
        return None if self.variadic else len(self.operands)

    def check_operand_count(self, count: int) -> None:
        fixed = len(self.operands) - (1 if self.variadic else 0)
        if self.variadic is None and count != fixed:
            raise ShapeError(f"{self.name} takes {fixed} operands, got {count}")
        if count < fixed:
            raise ShapeError(f"{self.name} takes at least {fixed} operands, got {count}")

    def infer(self, attrs: Any, operands: tuple[Shape, ...], called: tuple = ()) -> Shape:
        """The result's shape, for an operation whose shape follows from its operands."""
        self.check_operand_count(len(operands))
        if self.called:
            return attrs.shape(*operands, called=called)
        return attrs.shape(*operands)

    def check(
        self, attrs: Any, declared: Shape, operands: tuple[Shape, ...], called: tuple = ()
    ) -> None:
        """Raise `ShapeError` when a written shape cannot be that of this operation.

        Only for operations that do not infer; those are compared with `infer` by the verifier.
        """
        self.check_operand_count(len(operands))
        if self.called:
            attrs.check(declared, *operands, called=called)
        else:
            attrs.check(declared, *operands)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _family(file: str) -> str:
    """`elementwise_pairs` is a part of the family `elementwise`; `async_` is whole."""
    return file if file.endswith("_") else file.split("_")[0]


OPS: Registry[str, OpDef] = Registry("opcode")
Fact = TypeVar("Fact")
_TABLES: list[tuple[Callable[[OpDef], Any], dict[str, Any]]] = []
"""What each derived table says of an opcode, and the table."""


def _declare(declared: OpDef) -> None:
    OPS.add(declared.name, declared)
    for fact, table in _TABLES:
        _enter(fact, table, declared)


def _enter(fact: Callable[[OpDef], Any], table: dict[str, Any], declared: OpDef) -> None:
    value = fact(declared)
    if value is not None:
        table[declared.name] = value


def opcode_table(fact: Callable[[OpDef], Fact | None]) -> Mapping[str, Fact]:
    """What `fact` says of each opcode, without those of which it says None.

    Asked once for each opcode; what is declared later gets in too. Make it where a module is
    loaded, not in a function.
    """
    table: dict[str, Fact] = {}
    for name, declared in OPS.items():
        if (value := fact(declared)) is not None:
            table[name] = value
    _TABLES.append((fact, table))
    return table


def opcodes_where(condition: Callable[[OpDef], bool]) -> AbstractSet[str]:
    """The opcodes of which a condition holds, as `opcode_table` keeps them."""
    return opcode_table(lambda declared: condition(declared) or None).keys()


def opcodes(
    *traits: Trait, also: tuple[str, ...] = (), without: tuple[str, ...] = ()
) -> AbstractSet[str]:
    """The opcodes that have one of these traits or are named in `also`, but not in `without`.

    An exception is for what is meant otherwise in one place only, and says why there.
    """
    return _opcodes(frozenset(traits), also, without)


@cache
def _opcodes(
    traits: frozenset[Trait], also: tuple[str, ...], without: tuple[str, ...]
) -> AbstractSet[str]:
    """As `opcodes`: who asks for the same has the same table."""

    def belongs(declared: OpDef) -> bool:
        name = declared.name
        return name in also or (name not in without and not traits.isdisjoint(declared.traits))

    return opcodes_where(belongs)


Cls = TypeVar("Cls", bound=type)


def _record(fields: tuple[Field, ...]) -> type:
    """The frozen dataclass of these attributes; operations with equal fields share it.

    Making a dataclass compiles source text, which for 133 of them was most of the time it took
    to import hloom.
    """
    key = tuple((f.name, type(f.default), f.default) for f in fields)
    record = _RECORDS.get(key)
    if record is None:
        specs: list[Any] = [
            (f.name, Any) if f.required else (f.name, Any, dataclasses.field(default=f.default))
            for f in fields
        ]
        specs.sort(key=len)
        record = dataclasses.make_dataclass("Attributes", specs, frozen=True, slots=True)
        _RECORDS[key] = record
    return record


_RECORDS: dict[tuple[Any, ...], type] = {}


def op(
    name: str,
    *traits: Trait,
    start_of: str | None = None,
    done_of: str | None = None,
    result_index: tuple[int, ...] | None = None,
) -> Callable[[Cls], Cls]:
    """Declare an operation from a class; see the module docstring."""

    def declare(cls: Cls) -> Cls:
        hints = get_type_hints(cls)
        operands = tuple(k for k, v in hints.items() if v in (Operand, Operands))
        many = [k for k, v in hints.items() if v is Operands]
        called = tuple(k for k, v in hints.items() if v in (Called, CalledMany))
        kinds = {k: v for k, v in hints.items() if k not in operands and k not in called}
        fields = tuple(Field(k, v, cls.__dict__.get(k, REQUIRED)) for k, v in kinds.items())
        left_out = {"__dict__", "__weakref__", "__annotations__", *kinds}
        namespace = {k: v for k, v in vars(cls).items() if k not in left_out}
        namespace["__slots__"] = ()
        bases = tuple(b for b in cls.__bases__ if b is not object)
        attrs: Any = type(cls.__name__, (_record(fields), *bases), namespace)
        empty = None if any(f.required for f in fields) else attrs()
        _declare(
            OpDef(
                name=name,
                family=_family(cls.__module__.rsplit(".", 1)[1]),
                operands=operands,
                variadic=many[0] if many else None,
                called=called,
                called_variadic=any(hints[k] is CalledMany for k in called),
                fields=fields,
                attrs=attrs,
                infers=hasattr(attrs, "shape"),
                traits=frozenset(traits),
                start_of=start_of,
                done_of=done_of,
                result_index=result_index,
                doc=(cls.__doc__ or "").strip(),
                empty=empty,
                field_by_name={f.name: f for f in fields},
            )
        )
        return attrs

    return declare
