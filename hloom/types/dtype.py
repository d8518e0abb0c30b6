"""Element types: one immutable object for each row of the type table.

A `DType` answers every question about a type (number in the protobuf, width, which special
values it has) so that nothing else in hloom switches on names. numpy and ml_dtypes are only
imported when `DType.numpy` is first asked for: reading and printing programs needs neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hloom.base.diagnostics import UsageError

if TYPE_CHECKING:
    import numpy as np


class DType:
    """One element type; there is exactly one object per type, so compare with `is`.

    `bits` is the packed width (4 for `s4`, 8 for `pred`, 64 for `c64`, 0 for tuple, token,
    opaque and buffer). `size_bytes` is the width of one unpacked element. The float fields
    (`exponent_bits`, `mantissa_bits` without the hidden bit, `exponent_bias`) are 0 for types
    that are not floats; a complex type answers for its component.
    """

    __slots__ = (
        "_numpy",
        "_numpy_name",
        "bits",
        "component",
        "enum_name",
        "exponent_bias",
        "exponent_bits",
        "has_infinity",
        "has_nan",
        "has_negative_zero",
        "is_array_element",
        "is_complex",
        "is_floating",
        "is_fp8",
        "is_half",
        "is_integral",
        "is_pred",
        "is_signed",
        "is_signed_int",
        "is_sub_byte",
        "is_unsigned_int",
        "mantissa_bits",
        "name",
        "number",
        "size_bytes",
    )

    _numpy: np.dtype[Any] | None
    _numpy_name: str
    name: str
    """As in text: `f32`."""
    enum_name: str
    """As in the protobuf enum: `F32`."""
    number: int
    """The value in the protobuf enum."""
    bits: int
    size_bytes: int
    is_array_element: bool
    """Whether an array can have this type: false for tuple, opaque, token and buffer."""
    is_pred: bool
    is_signed_int: bool
    is_unsigned_int: bool
    is_integral: bool
    """Signed or unsigned integer; `pred` is not integral."""
    is_floating: bool
    is_complex: bool
    is_fp8: bool
    is_half: bool
    """A float of 16 bits, which kernels compute with more digits."""
    is_sub_byte: bool
    """Narrower than a byte: the integers of 1, 2 and 4 bits and the floats of 4 and 6."""
    is_signed: bool
    """Whether the type has negative values."""
    exponent_bits: int
    mantissa_bits: int
    exponent_bias: int
    has_infinity: bool
    has_nan: bool
    has_negative_zero: bool
    component: DType
    """The type of the real part of a complex type; any other type itself."""

    def __init__(self, name: str, number: int, kind: str, bits: int, numpy_name: str) -> None:
        assign = object.__setattr__
        assign(self, "name", name)
        assign(self, "number", number)
        assign(self, "enum_name", "OPAQUE_TYPE" if name == "opaque" else name.upper())
        assign(self, "bits", bits)
        assign(self, "size_bytes", (bits + 7) // 8)
        assign(self, "is_array_element", kind != "other")
        assign(self, "is_pred", kind == "pred")
        assign(self, "is_signed_int", kind == "signed")
        assign(self, "is_unsigned_int", kind == "unsigned")
        assign(self, "is_integral", kind in ("signed", "unsigned"))
        assign(self, "is_floating", kind == "float")
        assign(self, "is_complex", kind == "complex")
        assign(self, "is_fp8", kind == "float" and bits == 8)
        assign(self, "is_half", kind == "float" and bits == 16)
        assign(self, "is_sub_byte", 0 < bits < 8)
        assign(self, "is_signed", kind == "signed")
        for field in ("exponent_bits", "mantissa_bits", "exponent_bias"):
            assign(self, field, 0)
        for field in ("has_infinity", "has_nan", "has_negative_zero"):
            assign(self, field, False)
        assign(self, "component", self)
        assign(self, "_numpy_name", numpy_name)
        assign(self, "_numpy", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a DType never changes; {name!r} of {self.name} was assigned to")

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type of one unpacked element; `UsageError` for tuple, token and the like."""
        numpy_type = self._numpy
        if numpy_type is None:
            if not self.is_array_element:
                raise UsageError(f"type {self.name} has no elements, so no numpy type")
            numpy_type = _numpy_dtype(self._numpy_name)
            object.__setattr__(self, "_numpy", numpy_type)
        return numpy_type

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"dtype({self.name!r})"

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: object) -> DType:
        return self

    def __reduce__(self):
        return dtype, (self.name,)


def _numpy_dtype(name: str) -> np.dtype[Any]:
    import numpy as np

    if hasattr(np, name):
        return np.dtype(getattr(np, name))
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


# Name, enum number, kind, bits, numpy name (of numpy where numpy has it, else of ml_dtypes).
_TABLE = (
    ("pred", 1, "pred", 8, "bool_"),
    ("s1", 30, "signed", 1, "int1"),
    ("s2", 26, "signed", 2, "int2"),
    ("s4", 21, "signed", 4, "int4"),
    ("s8", 2, "signed", 8, "int8"),
    ("s16", 3, "signed", 16, "int16"),
    ("s32", 4, "signed", 32, "int32"),
    ("s64", 5, "signed", 64, "int64"),
    ("u1", 31, "unsigned", 1, "uint1"),
    ("u2", 27, "unsigned", 2, "uint2"),
    ("u4", 22, "unsigned", 4, "uint4"),
    ("u8", 6, "unsigned", 8, "uint8"),
    ("u16", 7, "unsigned", 16, "uint16"),
    ("u32", 8, "unsigned", 32, "uint32"),
    ("u64", 9, "unsigned", 64, "uint64"),
    ("f16", 10, "float", 16, "float16"),
    ("f32", 11, "float", 32, "float32"),
    ("f64", 12, "float", 64, "float64"),
    ("bf16", 16, "float", 16, "bfloat16"),
    ("f8e5m2", 19, "float", 8, "float8_e5m2"),
    ("f8e4m3", 28, "float", 8, "float8_e4m3"),
    ("f8e4m3fn", 20, "float", 8, "float8_e4m3fn"),
    ("f8e4m3b11fnuz", 23, "float", 8, "float8_e4m3b11fnuz"),
    ("f8e3m4", 29, "float", 8, "float8_e3m4"),
    ("f8e5m2fnuz", 24, "float", 8, "float8_e5m2fnuz"),
    ("f8e4m3fnuz", 25, "float", 8, "float8_e4m3fnuz"),
    ("f4e2m1fn", 32, "float", 4, "float4_e2m1fn"),
    ("f8e8m0fnu", 33, "float", 8, "float8_e8m0fnu"),
    ("f6e3m2fn", 35, "float", 6, "float6_e3m2fn"),
    ("f6e2m3fn", 36, "float", 6, "float6_e2m3fn"),
    ("c64", 15, "complex", 64, "complex64"),
    ("c128", 18, "complex", 128, "complex128"),
    ("tuple", 13, "other", 0, ""),
    ("opaque", 14, "other", 0, ""),
    ("token", 17, "other", 0, ""),
    ("buffer", 34, "other", 0, ""),
)

# Exponent bits, stored mantissa bits, bias, then: i has infinity, n has NaN, z has -0, - signed.
_FLOATS = {
    "f16": (5, 10, 15, "inz-"),
    "f32": (8, 23, 127, "inz-"),
    "f64": (11, 52, 1023, "inz-"),
    "bf16": (8, 7, 127, "inz-"),
    "f8e5m2": (5, 2, 15, "inz-"),
    "f8e4m3": (4, 3, 7, "inz-"),
    "f8e4m3fn": (4, 3, 7, "nz-"),
    "f8e4m3b11fnuz": (4, 3, 11, "n-"),
    "f8e3m4": (3, 4, 3, "inz-"),
    "f8e5m2fnuz": (5, 2, 16, "n-"),
    "f8e4m3fnuz": (4, 3, 8, "n-"),
    "f4e2m1fn": (2, 1, 1, "z-"),
    "f8e8m0fnu": (8, 0, 127, "n"),
    "f6e3m2fn": (3, 2, 3, "z-"),
    "f6e2m3fn": (2, 3, 1, "z-"),
}


def _build_table() -> dict[str, DType]:
    table = {row[0]: DType(*row) for row in _TABLE}
    assign = object.__setattr__
    for name, (exponent, mantissa, bias, has) in _FLOATS.items():
        for owner in (name, {"f32": "c64", "f64": "c128"}.get(name, name)):
            assign(table[owner], "exponent_bits", exponent)
            assign(table[owner], "mantissa_bits", mantissa)
            assign(table[owner], "exponent_bias", bias)
            assign(table[owner], "has_infinity", "i" in has)
            assign(table[owner], "has_nan", "n" in has)
            assign(table[owner], "has_negative_zero", "z" in has)
            assign(table[owner], "is_signed", "-" in has)
    assign(table["c64"], "component", table["f32"])
    assign(table["c128"], "component", table["f64"])
    return table


BY_NAME: Final[dict[str, DType]] = _build_table()
"""Every type under its text name."""
BY_NUMBER: Final[dict[int, DType]] = {t.number: t for t in BY_NAME.values()}
"""Every type under its number in the protobuf enum."""
_BY_ENUM_NAME: Final[dict[str, DType]] = {t.enum_name: t for t in BY_NAME.values()}

PRED: Final = BY_NAME["pred"]
S1: Final = BY_NAME["s1"]
S2: Final = BY_NAME["s2"]
S4: Final = BY_NAME["s4"]
S8: Final = BY_NAME["s8"]
S16: Final = BY_NAME["s16"]
S32: Final = BY_NAME["s32"]
S64: Final = BY_NAME["s64"]
U1: Final = BY_NAME["u1"]
U2: Final = BY_NAME["u2"]
U4: Final = BY_NAME["u4"]
U8: Final = BY_NAME["u8"]
U16: Final = BY_NAME["u16"]
U32: Final = BY_NAME["u32"]
U64: Final = BY_NAME["u64"]
F16: Final = BY_NAME["f16"]
F32: Final = BY_NAME["f32"]
F64: Final = BY_NAME["f64"]
BF16: Final = BY_NAME["bf16"]
F8E5M2: Final = BY_NAME["f8e5m2"]
F8E4M3: Final = BY_NAME["f8e4m3"]
F8E4M3FN: Final = BY_NAME["f8e4m3fn"]
F8E4M3B11FNUZ: Final = BY_NAME["f8e4m3b11fnuz"]
F8E3M4: Final = BY_NAME["f8e3m4"]
F8E5M2FNUZ: Final = BY_NAME["f8e5m2fnuz"]
F8E4M3FNUZ: Final = BY_NAME["f8e4m3fnuz"]
F4E2M1FN: Final = BY_NAME["f4e2m1fn"]
F8E8M0FNU: Final = BY_NAME["f8e8m0fnu"]
F6E3M2FN: Final = BY_NAME["f6e3m2fn"]
F6E2M3FN: Final = BY_NAME["f6e2m3fn"]
C64: Final = BY_NAME["c64"]
C128: Final = BY_NAME["c128"]
TUPLE: Final = BY_NAME["tuple"]
OPAQUE: Final = BY_NAME["opaque"]
TOKEN: Final = BY_NAME["token"]
BUFFER: Final = BY_NAME["buffer"]

ALL: Final[tuple[DType, ...]] = tuple(BY_NAME.values())
ARRAY_TYPES: Final[tuple[DType, ...]] = tuple(t for t in ALL if t.is_array_element)
FLOAT_TYPES: Final[tuple[DType, ...]] = tuple(t for t in ALL if t.is_floating)
INTEGER_TYPES: Final[tuple[DType, ...]] = tuple(t for t in ALL if t.is_integral)


def dtype(which: str | int | DType | np.dtype[Any] | type) -> DType:
    """The type with this text name, enum name, enum number or numpy type; else `UsageError`."""
    if type(which) is DType:
        return which
    if isinstance(which, str):
        dtype_ = BY_NAME.get(which) or _BY_ENUM_NAME.get(which)
    elif isinstance(which, int) and not isinstance(which, bool):
        dtype_ = BY_NUMBER.get(which)
    else:
        return from_numpy(which)
    if dtype_ is None:
        raise UsageError(f"no element type {which!r}", hint=f"known types: {', '.join(BY_NAME)}")
    return dtype_


def from_numpy(numpy_dtype: Any) -> DType:
    """The type whose elements numpy (or ml_dtypes) calls `numpy_dtype`; else `UsageError`."""
    import numpy as np

    try:
        name = np.dtype(numpy_dtype).name
    except TypeError:
        name = str(numpy_dtype)
    for candidate in ARRAY_TYPES:
        if candidate._numpy_name.rstrip("_") == name:
            return candidate
    raise UsageError(f"numpy type {name} has no HLO type", hint=f"known: {', '.join(BY_NAME)}")
