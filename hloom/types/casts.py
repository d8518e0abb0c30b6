"""Whether converting to a type and back gives the same values."""

from hloom.types.dtype import DType


def preserves_values(source: DType, target: DType) -> bool:
    """Whether every value of `source` is a value of `target` (special ones included).

    Nothing converts into f8e8m0fnu safely, since it has no zero.
    """
    if source is target:
        return True
    if target.name == "f8e8m0fnu" or not (source.is_array_element and target.is_array_element):
        return False
    if target.is_pred:
        return False
    if source.is_complex:
        return target.is_complex and preserves_values(source.component, target.component)
    if target.is_complex:
        return preserves_values(source, target.component)
    if source.is_pred:
        return target.name != "s1"
    if target.is_integral:
        return _integer_fits(source, target)
    if source.is_integral:
        bits = source.bits - (1 if source.is_signed_int else 0)
        return _holds_integers(target, bits, bits if source.is_signed_int else bits - 1)
    return _float_fits(source, target)


def _integer_fits(source: DType, target: DType) -> bool:
    if not source.is_integral:
        return False
    if source.is_signed_int:
        return target.is_signed_int and target.bits >= source.bits
    return target.bits > source.bits if target.is_signed_int else target.bits >= source.bits


def _largest_exponent(t: DType) -> int:
    """The exponent of the largest finite value."""
    special = t.has_infinity or t.mantissa_bits == 0
    return 2**t.exponent_bits - 1 - t.exponent_bias - (1 if special else 0)


def _holds_integers(target: DType, bits: int, exponent: int) -> bool:
    """Whether a float type holds every integer of so many bits, up to 2**exponent."""
    return target.mantissa_bits + 1 >= bits and _largest_exponent(target) >= exponent


def _float_fits(source: DType, target: DType) -> bool:
    if source.has_infinity and not target.has_infinity:
        return False
    if source.has_nan and not target.has_nan:
        return False
    if source.has_negative_zero and not target.has_negative_zero:
        return False
    lowest = [1 - t.exponent_bias - t.mantissa_bits for t in (source, target)]
    fits = _largest_exponent(target) >= _largest_exponent(source)
    return fits and target.mantissa_bits >= source.mantissa_bits and lowest[1] <= lowest[0]
