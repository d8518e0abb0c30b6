"""What the custom calls `lapack_{s,d,c,z}*_ffi` take and give, as JAX 0.10 writes them.

Handlers trust the sizes that they are called with, so that a call of other shapes would read and
write past its arrays: `wrong_lapack_call` says what does not fit before anything runs. A form is
written as `T[m,n] I[k]`: T is the type that the name says, R its real one, C its complex one, I
is s32. Before the sizes of each array stand those of the batch, which is the first operand's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.ir.instruction import Instruction
from hloom.types.attributes import Attribute, Typed, parsed_attributes
from hloom.types.dtype import BY_NAME, S32, DType

TYPES = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}
"""LAPACK's letters for element types."""


class CallForm(NamedTuple):
    """What one routine takes, gives and is told."""

    operands: str
    results: str
    letters: Mapping[str, str] = {}
    """The letters that an attribute may be."""
    numbers: tuple[str, ...] = ()
    """Attributes that are numbers or flags."""


_UPLO = {"uplo": "LU"}
_EIGEN = {"compute_left": "NV", "compute_right": "NV"}
_SCHUR = {"mode": "NV", "sort": "N"}
_SIDES = {"side": "LR", "uplo": "LU", "trans_x": "NTC", "diag": "NU"}
_PRODUCT = CallForm("T[m,n] T[t]", "T[m,n]")
_MULTIPLIED = CallForm("T[o,w] T[t] T[m,n]", "T[m,n]", {}, ("left", "transpose"))
_TRIDIAGONAL = CallForm("T[n,n]", "T[n,n] R[n] R[l] T[l] I[]", _UPLO)
_HERMITIAN = CallForm("T[n,n]", "T[n,n] R[n] I[]", {"mode": "NV", **_UPLO})
_SINGULAR = CallForm("T[m,n]", "T[m,n] R[k] T[a,b] T[c,d] I[]", {"mode": "ANS"})
_BOTH = {
    "potrf": CallForm("T[n,n]", "T[n,n] I[]", _UPLO),
    "getrf": CallForm("T[m,n]", "T[m,n] I[k] I[]"),
    "geqrf": CallForm("T[m,n]", "T[m,n] T[k]"),
    "geqp3": CallForm("T[m,n] I[n]", "T[m,n] I[n] T[k]"),
    "trsm": CallForm("T[o,o] T[m,n]", "T[m,n]", _SIDES),
    "gtsv": CallForm("T[n] T[n] T[n] T[n,r]", "T[n] T[n] T[n] T[n,r] I[]"),
    "gehrd": CallForm("T[n,n]", "T[n,n] T[l] I[]", {}, ("low", "high")),
    "gesdd": _SINGULAR,
    "gesvd": _SINGULAR,
}
REAL = _BOTH | {
    "orgqr": _PRODUCT,
    "ormqr": _MULTIPLIED,
    "sytrd": _TRIDIAGONAL,
    "syevd": _HERMITIAN,
    "geev": CallForm("T[n,n]", "T[n] T[n] C[n,n] C[n,n] I[]", _EIGEN),
    "gees": CallForm("T[n,n]", "T[n,n] T[n,n] T[n] T[n] I[] I[]", _SCHUR),
}
COMPLEX = _BOTH | {
    "ungqr": _PRODUCT,
    "unmqr": _MULTIPLIED,
    "hetrd": _TRIDIAGONAL,
    "heevd": _HERMITIAN,
    "geev": CallForm("T[n,n]", "T[n] T[n,n] T[n,n] I[]", _EIGEN),
    "gees": CallForm("T[n,n]", "T[n,n] T[n,n] T[n] I[] I[]", _SCHUR),
}
_NAME = re.compile(r"lapack_([sdcz])(\w+)_ffi")
_ARRAY = re.compile(r"([TRCI])\[([\w,]*)\]")


LIBRARY = {
    "Qr": CallForm("T[m,n]", "T[m,n] T[k]"),
    "ProductOfElementaryHouseholderReflectors": _PRODUCT,
}
"""What XLA's builders ask for by name, on matrices of any of the types."""


def wrong_library_call(i: Instruction) -> str:
    """`wrong_lapack_call` of what XLA's builders ask for by name."""
    target = i.attrs.custom_call_target
    form = LIBRARY.get(target)
    if form is None:
        return ""
    x, sizes = i.operands[0].shape if i.operands else i.shape, dict[str, int]()
    is_known = x.is_array and x.dtype.name in TYPES.values()
    wrong = _wrong_shapes(i, x.dtype if is_known else BY_NAME["f32"], form, sizes)
    said = f"{target} takes {form.operands} and gives {form.results}, behind dimensions of a batch"
    if wrong:
        return f"{wrong}: {said}, where T is {' or '.join(TYPES.values())}{_said_letters(form)}"
    return _wrong_sizes("orgqr", sizes, {}) if form is _PRODUCT else ""


def wrong_lapack_call(i: Instruction) -> str:
    """What a custom call has that its routine cannot be called with, and what is expected; nothing
    if it fits, or is none of LAPACK's."""
    target = i.attrs.custom_call_target
    matched = _NAME.fullmatch(target)
    form = (REAL if matched[1] in "sd" else COMPLEX).get(matched[2]) if matched else None
    if matched is None or form is None:
        return ""
    sizes: dict[str, int] = {}
    if wrong := _wrong_shapes(i, BY_NAME[TYPES[matched[1]]], form, sizes):
        said = f"{target} takes {form.operands} and gives {form.results}, behind dimensions of a"
        return f"{wrong}: {said} batch, where T is {TYPES[matched[1]]}{_said_letters(form)}"
    try:
        text = i.backend_config.raw if i.backend_config is not None else ""
        is_typed = i.attrs.api_version == "API_VERSION_TYPED_FFI"
        attributes = parsed_attributes(text) if is_typed else {}
    except UsageError as error:
        return str(error)
    return _wrong_attributes(form, attributes) or _wrong_sizes(matched[2], sizes, attributes)


def _said_letters(form: CallForm) -> str:
    """What the letters of a form stand for that are not sizes of their own."""
    text = form.operands + form.results
    kinds = {
        "I": "I is s32",
        "R": "R its real type",
        "C": "C its complex type",
        "k": "k the lesser of m and n",
        "l": "l is n - 1",
    }
    return "".join([f", {said}" for letter, said in kinds.items() if letter in text])


def _wrong_shapes(i: Instruction, dtype: DType, form: CallForm, sizes: dict[str, int]) -> str:
    """Which operand or result is not of a form; the sizes of its letters are put down."""
    results = i.shape.elements if i.shape.is_tuple else (i.shape,)
    batch: tuple[int, ...] | None = None
    for what, shapes, wanted in (
        ("operand", [x.shape for x in i.operands], form.operands),
        ("result", list(results), form.results),
    ):
        arrays = _ARRAY.findall(wanted)
        if len(arrays) != len(shapes):
            return f"{len(shapes)} {what}s"
        for k, (s, (kind, names)) in enumerate(zip(shapes, arrays)):
            letters = names.split(",") if names else []
            if not s.is_array or s.is_dynamic or s.dtype is not _of_kind(dtype, kind):
                return f"{what} {k} is {s.bare}"
            depth = s.rank - len(letters)
            batch = s.dims[: max(depth, 0)] if batch is None else batch
            if depth != len(batch) or s.dims[:depth] != batch:
                return f"{what} {k} of {s.bare} is no batch {list(batch)}"
            for letter, size in zip(letters, s.dims[depth:]):
                if sizes.setdefault(letter, size) != size:
                    return f"{what} {k} is {s.bare}, where {letter} is {sizes[letter]}"
        if "n" in sizes:
            sizes.setdefault("l", max(sizes["n"] - 1, 0))
            sizes.setdefault("k", min(sizes.get("m", 0), sizes["n"]))
    return ""


def _of_kind(dtype: DType, kind: str) -> DType:
    """The type that a letter of a form stands for."""
    if kind == "I":
        return S32
    if kind == "C":
        return BY_NAME["c64" if dtype.bits == 32 else "c128"]
    return dtype.component if kind == "R" else dtype


def _wrong_attributes(form: CallForm, attributes: Mapping[str, Attribute]) -> str:
    """Which attribute is missing, or none of the letters that a routine knows."""
    for name in (*form.letters, *form.numbers):
        number = _number(attributes, name)
        if number is None:
            return f"attribute {name!r} is missing or no number"
        allowed = form.letters.get(name)
        if allowed is not None and chr(number & 0xFF) not in allowed:
            codes = ", ".join([f"{letter} ({ord(letter)})" for letter in allowed])
            return f"attribute {name!r} is {chr(number & 0xFF)!r} ({number}), not one of {codes}"
    return ""


def _number(attributes: Mapping[str, Attribute], name: str) -> int | None:
    value = attributes.get(name)
    if not isinstance(value, Typed) or np.ndim(value.value) or value.dtype.is_floating:
        return None
    return int(value.value)


def _wrong_sizes(name: str, sizes: Mapping[str, int], attributes: Mapping[str, Attribute]) -> str:
    """Which sizes a routine cannot be called with, together with what it is told."""
    size = sizes.get
    m, n, t, o = size("m", 0), size("n", 0), size("t", 0), size("o", 0)
    if name[2:] == "gqr" and not t <= n <= m:
        return f"{t} reflectors make no {n} columns of {m} rows"
    if name in ("ormqr", "unmqr", "trsm"):
        is_left = _number(attributes, "left" if name != "trsm" else "side") in (1, ord("L"))
        if o != (m if is_left else n):
            rows = "rows" if is_left else "columns"
            return f"operand 0 of {o} rows does not go with {rows} of {[m, n]}"
        if t > min(o, size("w", t)):
            return f"operand 0 of {[o, size('w', t)]} has no {t} reflectors"
    if name == "gehrd":
        first, last = _number(attributes, "low") or 0, _number(attributes, "high") or 0
        if not (1 <= first <= max(1, last) and min(first, n) <= last <= n):
            return f"gehrd: no rows {first} to {last} of {n}"
    if name in ("gesdd", "gesvd") and _number(attributes, "mode") != ord("N"):
        full = _number(attributes, "mode") == ord("A")
        k = size("k", 0)
        u, v = [size("a"), size("b")], [size("c"), size("d")]
        wanted_u, wanted_v = [m, m if full else k], [n if full else k, n]
        if (u, v) != (wanted_u, wanted_v):
            return f"results 2 and 3 are of {u} and {v}, not {wanted_u} and {wanted_v}"
    return ""
