"""Operations that bring data in, move it, or name parts of it without computing on it."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import data as infer
from hloom.ir.infer.compare import scalar
from hloom.ir.kinds import Dims, Int, LiteralKind, PaddingKind, SlicesKind, enumeration
from hloom.ir.op import Operand, Operands, ShapeError, op
from hloom.ir.traits import (
    ANY_PRECISION,
    CHANGES_LAYOUT,
    CHECKED_TYPE,
    CHOOSES,
    FREE,
    JOINS,
    LAYOUT_OF_OPERAND,
    MIXES_FLOATS,
    MOVES,
    PLUMBING,
    READS_PART,
    RESHAPES,
    RUN_TIME_SIZE,
    SAME_TYPE,
    SHAPE_IN_TEXT,
    STRIDED,
)
from hloom.types.dtype import S32
from hloom.types.shape import Shape, tuple_shape

ShuffleMode = enumeration("shuffle mode", "rotate")


@op("bitcast", RESHAPES, FREE, CHANGES_LAYOUT, MIXES_FLOATS, SAME_TYPE, ANY_PRECISION)
class Bitcast:
    """The bytes of x read as another shape; layouts decide the meaning. Never moves data."""

    x: Operand

    def check(self, declared: Shape, x: Shape) -> None:
        """Any shape will do; sizes are compared by the verifier where layouts count."""


@op("broadcast", STRIDED, MOVES, CHANGES_LAYOUT, MIXES_FLOATS, CHECKED_TYPE)
class Broadcast:
    """out[...] = x[...]; dimension k of x is dimension dimensions[k] of out, the others repeat."""

    x: Operand
    dimensions: Dims = ()

    def check(self, declared: Shape, x: Shape) -> None:
        """As written: dimension dimensions[k] is as large as dimension k of x, the others as you
        like.
        """
        infer.check_broadcast(declared, x, self.dimensions)


@op("concatenate", CHOOSES, JOINS)
class Concatenate:
    """The inputs one behind the other along dimension dimensions[0]."""

    inputs: Operands
    dimensions: Dims

    def shape(self, *inputs: Shape) -> Shape:
        """The inputs' common shape with the sum of their sizes in dimensions[0]."""
        return infer.concatenate(inputs, self.dimensions)


@op("copy", MOVES, LAYOUT_OF_OPERAND, CHANGES_LAYOUT)
class Copy:
    """x, in a buffer of its own; the result may have another layout."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The shape of x."""
        return x.bare


@op("dynamic-reshape", RUN_TIME_SIZE, MOVES, CHANGES_LAYOUT, MIXES_FLOATS, CHECKED_TYPE)
class DynamicReshape:
    """x with another shape whose bounded dynamic dimensions have run-time sizes (s32 scalars,
    one a dimension).
    """

    x: Operand
    sizes: Operands

    def check(self, declared: Shape, x: Shape, *sizes: Shape) -> None:
        """As written: as many elements as x, and one of the sizes for each dimension."""
        infer.check_dynamic_reshape(declared, x, sizes)


@op("dynamic-slice", READS_PART, STRIDED, MOVES, SHAPE_IN_TEXT)
class DynamicSlice:
    """out[i] = x[s + i], s the starts clamped so that the slice lies inside x."""

    x: Operand
    starts: Operands
    dynamic_slice_sizes: Dims

    def shape(self, x: Shape, *starts: Shape) -> Shape:
        """The element type of x, with dimensions dynamic_slice_sizes, none above x's; one integer
        scalar a dimension says where it starts.
        """
        return infer.dynamic_slice(x, starts, self.dynamic_slice_sizes)


@op("dynamic-update-slice", JOINS, SHAPE_IN_TEXT, SAME_TYPE)
class DynamicUpdateSlice:
    """x with update written at the starts, clamped so that it lies inside x."""

    x: Operand
    update: Operand
    starts: Operands

    def shape(self, x: Shape, update: Shape, *starts: Shape) -> Shape:
        """The shape of x; update has its rank and is nowhere larger."""
        return infer.dynamic_update_slice(x, update, starts)


@op("pad", CHOOSES, JOINS, CHANGES_LAYOUT)
class Pad:
    """x with value around (edge padding, negative crops) and between (interior padding) its
    elements.
    """

    x: Operand
    value: Operand
    padding: PaddingKind

    def shape(self, x: Shape, value: Shape) -> Shape:
        """In each dimension low + size + high + (size - 1) * interior; the value is a scalar."""
        return infer.pad(x, value, self.padding)


@op("reshape", RESHAPES, MOVES, CHANGES_LAYOUT, MIXES_FLOATS, CHECKED_TYPE)
class Reshape:
    """The elements of x in row-major order under other dimensions."""

    x: Operand
    inferred_dimension: Int = None

    def check(self, declared: Shape, x: Shape) -> None:
        """As written: as many elements as x, of the same type."""
        infer.check_reshape(declared, x)


@op("reverse", STRIDED, MOVES, LAYOUT_OF_OPERAND)
class Reverse:
    """x with the order of elements reversed along some dimensions."""

    x: Operand
    dimensions: Dims = ()

    def shape(self, x: Shape) -> Shape:
        """The shape of x."""
        return infer.reverse(x, self.dimensions)


@op("shuffle", MOVES)
class Shuffle:
    """out[..., i, ...] = x[..., (i + shifts[k]) mod size, ...] along each dimensions[k]; `rotate`
    is the only mode.
    """

    x: Operand
    dimensions: Dims
    mode: ShuffleMode
    shifts: Dims

    def shape(self, x: Shape) -> Shape:
        """The shape of x; dimensions are one or more, and have one shift each."""
        return infer.shuffle(x, self.dimensions, self.shifts)


@op("slice", READS_PART, STRIDED, MOVES, SHAPE_IN_TEXT)
class Slice:
    """out[i] = x[start + i * stride], start <= ... < limit in each dimension."""

    x: Operand
    slice: SlicesKind

    def shape(self, x: Shape) -> Shape:
        """ceil((limit - start) / stride) in each dimension."""
        return infer.slice_(x, self.slice)


@op("transpose", STRIDED, MOVES, CHANGES_LAYOUT)
class Transpose:
    """Dimension k of out is dimension dimensions[k] of x."""

    x: Operand
    dimensions: Dims = ()

    def shape(self, x: Shape) -> Shape:
        """Dimension k is as large as dimension dimensions[k] of x."""
        return infer.transpose(x, self.dimensions)


@op("constant", PLUMBING, FREE, CHANGES_LAYOUT, MIXES_FLOATS, SAME_TYPE, ANY_PRECISION)
class Constant:
    """A value known when compiling."""

    literal: LiteralKind

    def shape(self) -> Shape:
        """The shape of the literal."""
        return self.literal.shape.bare


@op("iota", STRIDED, CHANGES_LAYOUT, MIXES_FLOATS, ANY_PRECISION)
class Iota:
    """out[i] = i[iota_dimension]."""

    iota_dimension: Int

    def check(self, declared: Shape) -> None:
        """As written, of a number type; iota_dimension is one of its dimensions."""
        infer.check_iota(declared, self.iota_dimension)


@op("parameter", PLUMBING, FREE, CHANGES_LAYOUT, MIXES_FLOATS, SAME_TYPE, ANY_PRECISION)
class Parameter:
    """The number-th argument of the computation."""

    number: Int

    def check(self, declared: Shape) -> None:
        """As written."""
        if self.number < 0:
            raise ShapeError(f"parameter numbers start at 0, not at {self.number}")


@op("get-dimension-size", RUN_TIME_SIZE, FREE, CHANGES_LAYOUT, ANY_PRECISION)
class GetDimensionSize:
    """The run-time size of dimension dimensions[0] of x, as s32."""

    x: Operand
    dimensions: Dims

    def shape(self, x: Shape) -> Shape:
        """s32[]."""
        infer.dimension_size(x, self.dimensions)
        return scalar(S32)


@op("set-dimension-size", RUN_TIME_SIZE, MOVES, FREE, LAYOUT_OF_OPERAND)
class SetDimensionSize:
    """x, of which dimension dimensions[0] now has the run-time size given (an s32 scalar)."""

    x: Operand
    size: Operand
    dimensions: Dims

    def shape(self, x: Shape, size: Shape) -> Shape:
        """The shape of x, in which dimension dimensions[0] is dynamic."""
        return infer.set_dimension_size(x, size, self.dimensions)


@op("get-tuple-element", PLUMBING, FREE, CHANGES_LAYOUT, MIXES_FLOATS, SAME_TYPE, ANY_PRECISION)
class GetTupleElement:
    """Element index of the tuple x."""

    x: Operand
    index: Int

    def shape(self, x: Shape) -> Shape:
        """Element index of the tuple's shape."""
        return infer.tuple_element(x, self.index)


@op("tuple", PLUMBING, FREE, CHANGES_LAYOUT, MIXES_FLOATS, SAME_TYPE, ANY_PRECISION)
class Tuple:
    """The inputs as one tuple."""

    inputs: Operands

    def shape(self, *inputs: Shape) -> Shape:
        """The tuple of the inputs' shapes."""
        return tuple_shape(x.bare for x in inputs)
