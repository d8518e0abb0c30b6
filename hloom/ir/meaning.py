"""What obeys the rules of the language, which are XLA's, and still means nothing.

The verifier admits these, so that it says what XLA's says; compilers refuse them, and the
interpreter refuses their values.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.base.diagnostics import HloError, UnsupportedError
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.types.shape import Shape
from hloom.types.tiles import is_tiled


def check_meaning(module: Module) -> None:
    """Raise `HloError` for the first instruction that means nothing."""
    for i in module.instructions():
        if (error := without_meaning(i)) is not None:
            raise error


def without_meaning(i: Instruction) -> HloError | None:
    """Why an instruction that verifies means nothing; None for all others."""
    check = _CHECKS.get(i.opcode)
    why = check(i) if check is not None else None
    if why is None:
        return None
    return UnsupportedError(why, instruction=f"{i.parent.name}/%{i.name}", rule="no-meaning")


def _bitcast(i: Instruction) -> str | None:
    """It must not read more than is there, nor elements in fewer bits than they have. Padding of
    tiles is not counted."""
    x, declared = i.operands[0].shape, i.shape
    for s in (x, declared):
        if s.is_tuple or s.is_token:
            return f"a bitcast reads the memory of an array as an array, not {s.text}"
    if not (x.is_array and declared.is_array) or is_tiled(x) or is_tiled(declared):
        return None
    if x.dtype is not declared.dtype or _stored_bits(x) != _stored_bits(declared):
        for s in (x, declared):
            if _stored_bits(s) < s.dtype.bits:
                return f"{_stored_bits(s)} bits in memory hold no element of {s.text}"
    there, needed = (s.size * _stored_bits(s) for s in (x, declared))
    there += -there % 8  # packed elements end with a whole byte
    if needed <= there:
        return None
    return f"a bitcast to {declared.text} reads {needed} bits, but {x.text} has {there}"


def _stored_bits(x: Shape) -> int:
    """Bits from one element to the next; fewer than a byte only where the layout says so."""
    packed = x.layout.element_size_in_bits if x.layout is not None else 0
    return packed or 8 * x.dtype.size_bytes


def _ragged_dot(i: Instruction) -> str | None:
    sizes = i.operands[2].shape
    if not sizes.dtype.is_complex:
        return None
    return f"the group sizes of ragged-dot are complex: {sizes.text_without_layout}"


def _stochastic_convert(i: Instruction) -> str | None:
    if i.shape.dtype.is_floating or i.shape.dtype.is_integral:
        return None
    return f"stochastic-convert makes floats or integers, not {i.shape.text_without_layout}"


def _rng_bits(i: Instruction) -> str | None:
    bits = i.shape.elements[1] if i.shape.is_tuple else i.shape
    if not (bits.dtype.is_complex or bits.dtype.is_pred):
        return None
    return f"there are no random bits of type {bits.text_without_layout}"


def _integers(i: Instruction) -> str | None:
    x = i.operands[0].shape
    if x.dtype.is_integral:
        return None
    return f"{i.opcode} is a function of integers, not of {x.text_without_layout}"


def _remainder(i: Instruction) -> str | None:
    x = i.operands[0].shape
    if not x.dtype.is_complex:
        return None
    return f"complex numbers have no remainder: {x.text_without_layout}"


def _ragged_all_to_all(i: Instruction) -> str | None:
    x, output = i.operands[0].shape, i.operands[1].shape
    if x.dtype is output.dtype and 0 < x.rank == output.rank and x.dims[1:] == output.dims[1:]:
        return None
    return f"rows of {x.bare} cannot be rows of the output {output.bare}"


_CHECKS: dict[str, Callable[[Instruction], str | None]] = {
    "bitcast": _bitcast,
    "mulhi": _integers,
    "remainder": _remainder,
    "rng-bit-generator": _rng_bits,
    "ragged-all-to-all": _ragged_all_to_all,
    "ragged-dot": _ragged_dot,
    "shift-left": _integers,
    "shift-right-arithmetic": _integers,
    "shift-right-logical": _integers,
    "stochastic-convert": _stochastic_convert,
}
