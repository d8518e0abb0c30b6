"""Operations on each element, of StableHLO and CHLO."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.stablehlo.sketch import (
    ANY,
    COMPLEX,
    F8,
    FLOATS,
    INTS,
    NARROWEST,
    NUMBERS,
    PRED,
    SIGNED,
    Sketch,
    family,
    tensor,
)

REAL = FLOATS + F8
_UNARY = {
    "abs": SIGNED + REAL + COMPLEX,
    "ceil": REAL,
    "count_leading_zeros": INTS,
    "floor": REAL,
    "is_finite": REAL,
    "negate": INTS + REAL + COMPLEX,
    "not": INTS + PRED,
    "popcnt": INTS,
    "round_nearest_afz": REAL,
    "round_nearest_even": REAL,
    "sign": SIGNED + REAL + COMPLEX,
    "real": REAL + COMPLEX,
    "imag": REAL + COMPLEX,
}
_FLOATING = FLOATS + F8 + COMPLEX
_ACCURATE = dict.fromkeys(
    "cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan "
    "tanh".split(),
    _FLOATING,
) | {"cbrt": REAL}
_BINARY = {
    "add": ANY,
    "and": INTS + PRED,
    "divide": NUMBERS + COMPLEX,
    "maximum": ANY,
    "minimum": ANY,
    "multiply": ANY,
    "or": INTS + PRED,
    "remainder": NUMBERS,
    "shift_left": INTS,
    "shift_right_arithmetic": INTS,
    "shift_right_logical": INTS,
    "subtract": NUMBERS + COMPLEX,
    "xor": INTS + PRED,
}
_INEXACT_BINARY = {"atan2": FLOATS + F8 + COMPLEX, "power": INTS + FLOATS + F8 + COMPLEX}
_CHLO_UNARY = {
    **dict.fromkeys("acos acosh asin asinh atan atanh cosh sinh tan square".split(), _FLOATING),
    **dict.fromkeys(
        "bessel_i1e digamma erf erf_inv erfc is_inf is_neg_inf is_pos_inf lgamma".split(), REAL
    ),
    "conj": FLOATS + COMPLEX,
}
_CHLO_BINARY = {
    "next_after": FLOATS,
    "polygamma": ["f16", "bf16", "f32", "f64"],
    "zeta": ["f16", "bf16", "f32", "f64"],
    "mulhi": [x for x in INTS if int(x.lstrip("ui")) >= 8],  # XLA gives 0 for narrower ones
}
_BROADCAST = {
    **{f"broadcast_{k}": v for k, v in _BINARY.items()},
    "broadcast_atan2": FLOATS,
    "broadcast_power": FLOATS + ["i32"],
    "broadcast_next_after": FLOATS,
    "broadcast_polygamma": ["f32", "f64"],
    "broadcast_zeta": ["f32", "f64"],
    "broadcast_complex": ["f32", "f64"],
}


def _accuracy(s: Sketch) -> str:
    """A `result_accuracy` at times."""
    if not s.chance(0.2):
        return ""
    mode = s.pick(["HIGHEST", "DEFAULT", "TOLERANCE"])
    if mode == "TOLERANCE":
        atol, rtol, ulps = s.pick([(0.0, 1e-3, 10), (1e-5, 0.0, 1), (1e-6, 1e-6, 2**40)])
        inside = f"atol = {atol:e}, rtol = {rtol:e}, ulps = {ulps}, "
    else:
        inside = ""
    return (
        f"result_accuracy = #stablehlo.result_accuracy<{inside}mode = "
        f"#stablehlo.result_accuracy_mode<{mode}>>"
    )


@family(*_UNARY)
def unary(s: Sketch, name: str) -> Sequence[str]:
    dims, element = s.dims(), s.element(_UNARY[name])
    result = element
    if name in ("abs", "real", "imag") and element in COMPLEX:
        result = element[8:-1]
        s.is_exact = name != "abs"
    if name == "sign" and element in COMPLEX:
        s.is_exact = False
    if name == "is_finite":
        result = "i1"
    return s.op(name, [s.argument(dims, element)], tensor(dims, result))


@family(*_ACCURATE)
def accurate(s: Sketch, name: str) -> Sequence[str]:
    dims, element = s.dims(), s.element(_ACCURATE[name])
    s.is_exact = False
    x = s.argument(dims, element)
    return s.op(name, [x], tensor(dims, element), _accuracy(s))


@family(*_BINARY, *_INEXACT_BINARY)
def binary(s: Sketch, name: str) -> Sequence[str]:
    allowed = _BINARY.get(name) or _INEXACT_BINARY[name]
    dims, element = s.dims(), s.element(allowed)
    if element in COMPLEX and name in ("maximum", "minimum"):
        element = s.pick(FLOATS)  # XLA looks at the real parts only
    complex_product = element in COMPLEX and name in ("multiply", "divide")
    s.is_exact = name in _BINARY and not complex_product and name != "remainder"
    if element in FLOATS + F8 and name == "power":
        s.is_exact = False
    a = s.argument(dims, element)
    b = a if s.chance(0.1) else s.argument(dims, element)
    return s.op(name, [a, b], tensor(dims, element))


@family("compare")
def compare(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(), s.element(ANY)
    direction = s.pick(["EQ", "NE", "LT", "LE", "GT", "GE"])
    kinds = ["", "FLOAT"]
    if element in FLOATS + F8:
        kinds.append("TOTALORDER")
    elif element in COMPLEX:
        direction = s.pick(["EQ", "NE"])
    else:
        kinds = ["", "SIGNED" if element in SIGNED else "UNSIGNED"]
    kind = s.pick(kinds)
    more = f", compare_type = #stablehlo<comparison_type {kind}>" if kind else ""
    a, b = s.argument(dims, element), s.argument(dims, element)
    return s.op(
        "compare",
        [a, b],
        tensor(dims, "i1"),
        f"comparison_direction = #stablehlo<comparison_direction {direction}>{more}",
    )


@family("select")
def select(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(), s.element(ANY + NARROWEST)
    which = s.argument([] if s.chance(0.4) else dims, "i1")
    kind = tensor(dims, element)
    return s.op("select", [which, s.argument(dims, element), s.argument(dims, element)], kind)


@family("clamp")
def clamp(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(), s.element(NUMBERS + PRED)
    ends = [s.argument([] if s.chance(0.4) else dims, element) for _ in range(2)]
    return s.op("clamp", [ends[0], s.argument(dims, element), ends[1]], tensor(dims, element))


@family("convert")
def convert(s: Sketch) -> Sequence[str]:
    dims = s.dims()
    from_, to = s.element(ANY + NARROWEST), s.element(ANY + NARROWEST)
    return s.op("convert", [s.argument(dims, from_)], tensor(dims, to))


_BITS = {
    8: ["i8", "ui8", *F8],
    16: ["i16", "ui16", "f16", "bf16"],
    32: ["i32", "ui32", "f32"],
    64: ["i64", "ui64", "f64", "complex<f32>"],
    4: ["i4", "ui4"],
    2: ["i2", "ui2"],
}


@family("bitcast_convert")
def bitcast_convert(s: Sketch) -> Sequence[str]:
    a, b = s.pick(list(_BITS)), s.pick(list(_BITS))
    from_, to = s.pick(_BITS[a]), s.pick(_BITS[b])
    if "complex<f32>" in (from_, to):
        from_ = to = "complex<f32>"
        a = b = 64
    dims = s.dims(0, 3)
    wide, narrow = max(a, b), min(a, b)
    split = [wide // narrow] if a != b else []
    x = s.argument(dims + (split if a < b else []), from_)
    return s.op("bitcast_convert", [x], tensor(dims + (split if a > b else []), to))


@family("reduce_precision")
def reduce_precision(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(), s.element(FLOATS + F8)
    attributes = (
        f"exponent_bits = {s.pick([1, 2, 4, 5, 8, 11, 15])} : i32, "
        f"mantissa_bits = {s.pick([0, 1, 2, 3, 7, 10, 23, 52, 60])} : i32"
    )
    return s.op("reduce_precision", [s.argument(dims, element)], tensor(dims, element), attributes)


@family("complex")
def complex_(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(), s.pick(["f32", "f64"])
    parts = [s.argument(dims, element), s.argument(dims, element)]
    return s.op("complex", parts, tensor(dims, f"complex<{element}>"))


@family(*(f"chlo.{name}" for name in _CHLO_UNARY))
def chlo_unary(s: Sketch, name: str) -> Sequence[str]:
    dims, element = s.dims(), s.element(_CHLO_UNARY[name[5:]])
    s.is_exact = "is_" in name or "conj" in name
    result = "i1" if "is_" in name else element
    return s.op(name, [s.argument(dims, element)], tensor(dims, result))


@family(*(f"chlo.{name}" for name in _CHLO_BINARY))
def chlo_binary(s: Sketch, name: str) -> Sequence[str]:
    dims, element = s.dims(), s.element(_CHLO_BINARY[name[5:]])
    s.is_exact = name in ("chlo.next_after", "chlo.mulhi")
    parts = [s.argument(dims, element), s.argument(dims, element)]
    return s.op(name, parts, tensor(dims, element))


@family(*(f"chlo.{name}" for name in _BROADCAST))
def chlo_broadcast(s: Sketch, name: str) -> Sequence[str]:
    """The smaller shape goes along the last dimensions of the larger one, or as it says."""
    element = s.element(_BROADCAST[name[5:]])
    if element in COMPLEX and name.endswith("imum"):
        element = s.pick(FLOATS)  # XLA looks at the real parts only
    s.is_exact = name[15:] in _BINARY and element not in COMPLEX and "remainder" not in name
    whole = s.dims(1, 4)
    part = [d if s.chance(0.6) else 1 for d in whole[s.whole(0, len(whole)) :]]
    attributes = ""
    if s.chance(0.4):
        first = len(whole) - len(part)
        attributes = "broadcast_dimensions = array<i64: " + ", ".join(
            str(first + k) for k in range(len(part))
        )
        attributes = attributes.rstrip(": ") + ">"
    sides = [s.argument(whole, element), s.argument(part, element)]
    if s.chance(0.5):
        sides.reverse()
    result = f"complex<{element}>" if "complex" in name else element
    return s.op(name, sides, tensor(whole, result), attributes)


@family("chlo.broadcast_compare")
def broadcast_compare(s: Sketch) -> Sequence[str]:
    whole, element = s.dims(1, 3), s.element(NUMBERS)
    part = whole[1:]
    direction = s.pick(["EQ", "NE", "LT", "LE", "GT", "GE"])
    sides = [s.argument(whole, element), s.argument(part, element)]
    return s.op(
        "chlo.broadcast_compare",
        sides,
        tensor(whole, "i1"),
        f"comparison_direction = #chlo<comparison_direction {direction}>",
    )


@family("chlo.broadcast_select")
def broadcast_select(s: Sketch) -> Sequence[str]:
    whole, element = s.dims(1, 3), s.element(ANY)
    parts = [whole[s.whole(0, len(whole)) :] for _ in range(3)]
    parts[s.whole(0, 2)] = whole
    which = s.argument(parts[0], "i1")
    sides = [s.argument(parts[1], element), s.argument(parts[2], element)]
    return s.op("chlo.broadcast_select", [which, *sides], tensor(whole, element))


@family("chlo.constant_like")
def constant_like(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(), s.element(NUMBERS)
    value = f"1.5 : {element}" if element[0] in "fb" else f"1 : {element}"
    x = s.argument(dims, element)
    return s.op("chlo.constant_like", [x], tensor(dims, element), f"value = {value}")
