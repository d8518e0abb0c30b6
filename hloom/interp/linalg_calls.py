"""What custom calls for linear algebra mean: `lapack_{s,d,c,z}*_ffi`, `Qr` and its like.

Operands, results and attributes are those of the native handlers (`runtime/native/linalg_calls.cc`,
which JAX 0.10 calls): dimensions before the last two are batch, attributes are LAPACK's letters,
info is an s32 for each matrix. Memory is taken column by column, as it lies: in the layouts that a
call states, or else row-major, which a call that wants matrices as they are written does not say
(`lapack_layouts.py`). The trick: the routines take one matrix in double precision; this file
unpacks batches, checks what came and rounds what is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp import linalg_factors as factors
from hloom.interp import linalg_free_signs as signs
from hloom.interp import linalg_spectra as spectra
from hloom.interp.call import TARGETS
from hloom.interp.context import EvalContext
from hloom.interp.elementwise_number import Array, narrowed
from hloom.interp.lapack_layouts import operands_seen, results_left
from hloom.interp.linalg import triangular_solution
from hloom.interp.values import EvalValue
from hloom.ir.eigh_call import TARGET, reads_lower, words
from hloom.ir.instruction import Instruction
from hloom.ir.lapack_calls import TYPES
from hloom.ir.settled_signs import SETTLED
from hloom.types.attributes import Attribute, Typed, parsed_attributes
from hloom.types.dtype import BY_NAME
from hloom.types.shape import Shape


class Attributes:
    """The attributes of one call; what is missing or out of range is an `EvalError`."""

    def __init__(self, attributes: Mapping[str, Attribute], kind: str | None) -> None:
        self.attributes = attributes
        self.kind = kind

    def number(self, name: str) -> int:
        value = self.attributes.get(name)
        if not isinstance(value, Typed) or np.ndim(value.value) or value.dtype.is_floating:
            raise EvalError(f"attribute {name!r} of the custom call is missing or no number")
        return int(value.value)

    def letter(self, name: str, allowed: str) -> str:
        letter = chr(self.number(name) & 0xFF)
        if letter not in allowed:
            raise EvalError(f"attribute {name!r} is {letter!r}, not one of {', '.join(allowed)}")
        return letter

    @property
    def is_settled(self) -> bool:
        """Whether signs and phases are to be settled, which are free."""
        return "settled" in self.attributes

    def narrowed(self, a: Array) -> Array:
        """A matrix in the precision that it had, as far as routines know it."""
        if self.kind is None or self.kind not in TYPES.values():
            return a
        return narrowed(a, BY_NAME[self.kind])

    def is_lower(self) -> bool:
        return self.letter("uplo", "LU") == "L"


Results = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Routine:
    """What one matrix of the batch becomes."""

    compute: Callable[..., Results]
    """From the attributes and one array for each operand to one array for each result; None for
    what the call did not ask for, which is zeros of any size."""
    operands: tuple[int, ...]
    """The rank of each operand without its batch dimensions."""
    results: int


def call(
    i: Instruction, routine: Routine, kind: str | None, inputs: tuple[EvalValue, ...]
) -> EvalValue:
    """The results of a batch of matrices of element type `kind` (any of `TYPES` if None)."""
    leaves = i.shape.elements if i.shape.is_tuple else (i.shape,)
    batch = _checked_batch(i, routine, kind, leaves)
    raw = i.backend_config.raw if i.backend_config is not None else ""
    typed = i.attrs.api_version == "API_VERSION_TYPED_FFI"
    attributes = Attributes(parsed_attributes(raw) if typed else {}, kind)
    in_memory = i.attrs.custom_call_target.startswith("lapack_")
    seen = operands_seen(i, routine.operands, inputs) if in_memory else inputs
    wide = [_widened(x) for x in seen]
    results = [np.zeros(leaf.dims, leaf.dtype.numpy) for leaf in leaves]
    for at in np.ndindex(*batch):
        outcome = routine.compute(attributes, *[x[at] for x in wide])
        for k, (result, leaf, x) in enumerate(zip(results, leaves, outcome, strict=True)):
            if x is None:
                continue
            if np.shape(x) != result[at].shape:
                raise _wrong(i, f"result {k} is of {list(np.shape(x))}, not {list(leaf.dims)}")
            result[at] = narrowed(x, leaf.dtype)
    results = results_left(i, len(batch), leaves, results) if in_memory else results
    return tuple(results) if i.shape.is_tuple else results[0]


def _widened(x: Array) -> Array:
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def _checked_batch(
    i: Instruction, routine: Routine, kind: str | None, leaves: tuple[Shape, ...]
) -> tuple[int, ...]:
    """The batch dimensions; `EvalError` where operands or results are not the routine's."""
    shapes = [x.shape for x in i.operands]
    if len(shapes) != len(routine.operands) or len(leaves) != routine.results:
        counts = f"{len(routine.operands)} operands and {routine.results} results"
        raise _wrong(i, f"it has {counts}, not {len(shapes)} and {len(leaves)}")
    if any(not s.is_array for s in (*shapes, *leaves)):
        raise _wrong(i, "operands and results are arrays")
    type_names = [kind] if kind else list(TYPES.values())
    if shapes[0].dtype.name not in type_names:
        raise _wrong(i, f"operand 0 is {shapes[0].bare}, not of {' or '.join(type_names)}")
    depth = shapes[0].rank - routine.operands[0]
    batch = shapes[0].dims[: max(depth, 0)]
    for k, (s, rank) in enumerate(zip(shapes, routine.operands)):
        if s.rank - rank != len(batch) or depth < 0 or s.dims[: len(batch)] != batch:
            raise _wrong(i, f"operand {k} of {s.bare} is no batch {list(batch)} of rank {rank}")
        if s.dtype is not shapes[0].dtype and not s.dtype.is_integral:
            raise _wrong(i, f"operand {k} is {s.bare}, but operand 0 {shapes[0].bare}")
    for k, s in enumerate(leaves):
        if s.dims[: len(batch)] != batch:
            raise _wrong(i, f"result {k} of {s.bare} does not begin with the batch {list(batch)}")
    return batch


def _wrong(i: Instruction, what: str) -> EvalError:
    return EvalError(f"custom call {i.attrs.custom_call_target}: {what}", instruction=f"%{i.name}")


def _register(target: str, routine: Routine, kind: str | None) -> None:
    @TARGETS.of(target)
    def meaning(i: Instruction, context: EvalContext, *inputs: EvalValue) -> EvalValue:
        return call(i, routine, kind, inputs)


def lapack(
    real: str,
    operands: tuple[int, ...],
    results: int,
    is_complex: str | None = None,
    extra: int = 0,
) -> Callable[[Callable[..., Results]], Callable[..., Results]]:
    """Registers a function for the four types of a LAPACK routine.

    `is_complex` is the name for complex types where it is another one; `extra` is how many more
    results there are for real types.
    """

    def registered(compute: Callable[..., Results]) -> Callable[..., Results]:
        for letter, kind in TYPES.items():
            name = real if letter in "sd" else is_complex or real
            count = results + (extra if letter in "sd" else 0)
            _register(f"lapack_{letter}{name}_ffi", Routine(compute, operands, count), kind)
        return compute

    return registered


# -- factors


@lapack("potrf", (2,), 2)
def potrf(attributes: Attributes, a: Array) -> Results:
    return factors.potrf(a, attributes.is_lower())


@lapack("getrf", (2,), 3)
def getrf(attributes: Attributes, a: Array) -> Results:
    return factors.getrf(a)


@lapack("geqrf", (2,), 2)
def geqrf(attributes: Attributes, a: Array) -> Results:
    return factors.geqrf(a)


@lapack("geqp3", (2, 1), 3)
def geqp3(attributes: Attributes, a: Array, chosen: Array) -> Results:
    return factors.geqp3(a, chosen)


@lapack("orgqr", (2, 1), 1, "ungqr")
def orgqr(attributes: Attributes, packed: Array, taus: Array) -> Results:
    return (factors.orgqr(packed, taus),)


@lapack("ormqr", (2, 1, 2), 1, "unmqr")
def ormqr(attributes: Attributes, packed: Array, taus: Array, c: Array) -> Results:
    left, adjoined = attributes.number("left") != 0, attributes.number("transpose") != 0
    return (factors.ormqr(packed, taus, c, left, adjoined),)


@lapack("trsm", (2, 2), 1)
def trsm(attributes: Attributes, a: Array, b: Array) -> Results:
    solved = triangular_solution(
        a,
        b,
        left=attributes.letter("side", "LR") == "L",
        lower=attributes.is_lower(),
        op=attributes.letter("trans_x", "NTC"),
        unit=attributes.letter("diag", "NU") == "U",
    )
    return (solved,)


@lapack("gtsv", (1, 1, 1, 2), 5)
def gtsv(attributes: Attributes, low: Array, diagonal: Array, up: Array, b: Array) -> Results:
    return factors.gtsv(low, diagonal, up, b)


@lapack("gehrd", (2,), 3)
def gehrd(attributes: Attributes, a: Array) -> Results:
    first, last = attributes.number("low"), attributes.number("high")
    if not (1 <= first <= max(1, last) and min(first, len(a)) <= last <= len(a)):
        raise EvalError(f"gehrd: no rows {first} to {last} of {len(a)}")
    return *factors.gehrd(a, first, last), 0


@lapack("sytrd", (2,), 5, "hetrd")
def hetrd(attributes: Attributes, a: Array) -> Results:
    return *factors.hetrd(a, attributes.is_lower()), 0


# -- eigenvalues and singular values


@lapack("syevd", (2,), 3, "heevd")
def heevd(attributes: Attributes, a: Array) -> Results:
    vectors = attributes.letter("mode", "NV") == "V"
    columns, values, info = spectra.heevd(attributes.narrowed(a), vectors, attributes.is_lower())
    if vectors and attributes.is_settled:
        columns = signs.settled_columns(columns)
    return columns, values, info


@lapack("gesvd", (2,), 5)
@lapack("gesdd", (2,), 5)
def gesdd(attributes: Attributes, a: Array) -> Results:
    mode = attributes.letter("mode", "ANS")
    s, u, v, info = spectra.gesdd(attributes.narrowed(a), mode != "N", mode == "A")
    if u is not None and v is not None and attributes.is_settled:
        u, v = signs.settled_singular(u, v)
    return a, s, u, v, info


@lapack("geev", (2,), 4, extra=1)
def geev(attributes: Attributes, a: Array) -> Results:
    left, right = (attributes.letter(f"compute_{side}", "NV") == "V" for side in ("left", "right"))
    values, *vectors, info = spectra.geev(attributes.narrowed(a), left, right)
    if attributes.is_settled:
        vectors = map(signs.settled_columns, vectors)
    return *_parts(values, a), *vectors, info


@lapack("gees", (2,), 5, extra=1)
def gees(attributes: Attributes, a: Array) -> Results:
    if attributes.letter("sort", "NS") == "S":
        raise EvalError("gees: eigenvalues cannot be sorted")
    t, z, values, info = spectra.gees(attributes.narrowed(a))
    if attributes.is_settled:
        t, z = signs.settled_schur(t, z)
    if attributes.letter("mode", "NV") == "N":
        z = None
    return t, z, *_parts(values, a), 0, info


def _parts(values: Array, a: Array) -> tuple[Array, ...]:
    """Eigenvalues as LAPACK returns those of a real matrix: real and imaginary parts apart."""
    return (values,) if np.iscomplexobj(a) else (values.real, values.imag)


# -- what HLO knows by name


def _qr(attributes: Attributes, a: Array) -> Results:
    return factors.geqrf(a)


def _product(attributes: Attributes, packed: Array, taus: Array) -> Results:
    return (factors.orgqr(packed, taus),)


@TARGETS.of(TARGET)
def eigh(i: Instruction, context: EvalContext, *inputs: EvalValue) -> EvalValue:
    """(eigenvectors as columns, eigenvalues, ascending); NaN where there are none."""

    def compute(attributes: Attributes, a: Array) -> Results:
        columns, values, _ = spectra.heevd(attributes.narrowed(a), True, reads_lower(i))
        return signs.settled_columns(columns) if SETTLED in words(i) else columns, values

    return call(i, Routine(compute, (2,), 2), i.operands[0].shape.dtype.name, inputs)


_register("Qr", Routine(_qr, (2,), 2), None)
_register("ProductOfElementaryHouseholderReflectors", Routine(_product, (2, 1), 1), None)
