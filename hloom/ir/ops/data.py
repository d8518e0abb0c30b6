"""Operations that bring data in, move it, or name parts of it without computing on it."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.kinds import Dims, Int, LiteralKind, PaddingKind, SlicesKind
from hloom.ir.op import Operand, Operands, op


@op("bitcast")
class Bitcast:
    """The bytes of x read as another shape; layouts decide the meaning. Never moves data."""

    x: Operand


@op("broadcast")
class Broadcast:
    """out[...] = x[...]; dimension k of x is dimension dimensions[k] of out, the others repeat."""

    x: Operand
    dimensions: Dims = ()


@op("concatenate")
class Concatenate:
    """The inputs one behind the other along dimension dimensions[0]."""

    inputs: Operands
    dimensions: Dims


@op("copy")
class Copy:
    """x, in a buffer of its own; the result may have another layout."""

    x: Operand


@op("dynamic-reshape")
class DynamicReshape:
    """x with another shape whose bounded dynamic dimensions have run-time sizes (s32 scalars, one a dimension)."""

    x: Operand
    sizes: Operands


@op("dynamic-slice")
class DynamicSlice:
    """out[i] = x[s + i], s the starts clamped so that the slice lies inside x."""

    x: Operand
    starts: Operands
    dynamic_slice_sizes: Dims


@op("dynamic-update-slice")
class DynamicUpdateSlice:
    """x with update written at the starts, clamped so that it lies inside x."""

    x: Operand
    update: Operand
    starts: Operands


@op("pad")
class Pad:
    """x with value around (edge padding, negative crops) and between (interior padding) its elements."""

    x: Operand
    value: Operand
    padding: PaddingKind


@op("reshape")
class Reshape:
    """The elements of x in row-major order under other dimensions."""

    x: Operand
    inferred_dimension: Int = None


@op("reverse")
class Reverse:
    """x with the order of elements reversed along some dimensions."""

    x: Operand
    dimensions: Dims = ()


@op("slice")
class Slice:
    """out[i] = x[start + i * stride], start <= ... < limit in each dimension."""

    x: Operand
    slice: SlicesKind


@op("transpose")
class Transpose:
    """Dimension k of out is dimension dimensions[k] of x."""

    x: Operand
    dimensions: Dims = ()


@op("constant")
class Constant:
    """A value known when compiling."""

    literal: LiteralKind


@op("iota")
class Iota:
    """out[i] = i[iota_dimension]."""

    iota_dimension: Int


@op("parameter")
class Parameter:
    """The number-th argument of the computation."""

    number: Int


@op("get-dimension-size")
class GetDimensionSize:
    """The run-time size of dimension dimensions[0] of x, as s32."""

    x: Operand
    dimensions: Dims


@op("set-dimension-size")
class SetDimensionSize:
    """x, of which dimension dimensions[0] now has the run-time size given (an s32 scalar)."""

    x: Operand
    size: Operand
    dimensions: Dims


@op("get-tuple-element")
class GetTupleElement:
    """Element index of the tuple x."""

    x: Operand
    index: Int


@op("tuple")
class Tuple:
    """The inputs as one tuple."""

    inputs: Operands
