"""Operations in two halves, so that others run in between."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import control as infer
from hloom.ir.kinds import Aliasing, Int, String
from hloom.ir.op import Called, Operand, Operands, op
from hloom.ir.traits import (
    ANY_PRECISION,
    ASYNC,
    ASYNC_CHAIN,
    CHANGES_LAYOUT,
    CONTROL_FLOW,
    HANDS_OPERANDS,
    MIXES_FLOATS,
    SAME_TYPE,
    SHAPE_IN_TEXT,
)
from hloom.types.shape import Shape


@op(
    "async-start",
    CONTROL_FLOW,
    HANDS_OPERANDS,
    ASYNC,
    ASYNC_CHAIN,
    SHAPE_IN_TEXT,
    CHANGES_LAYOUT,
    MIXES_FLOATS,
    SAME_TYPE,
    ANY_PRECISION,
)
class AsyncStart:
    """Starts calls(inputs...); shape ((inputs), outputs, contexts...).

    The inputs may be the first few of what the computation takes, and the outputs () or the first
    few of its results: updates bind the rest.
    """

    inputs: Operands
    output_to_operand_aliasing: Aliasing = None
    async_execution_thread: String = "main"
    calls: Called

    def shape(self, *inputs: Shape, called: tuple) -> Shape:
        """((operands), result of the body, contexts...), the body taking the operands."""
        return infer.async_start(inputs, called)

    def check(self, declared: Shape, *inputs: Shape, called: tuple) -> None:
        infer.check_async_start(declared, inputs, called)


@op(
    "async-update",
    ASYNC,
    ASYNC_CHAIN,
    SHAPE_IN_TEXT,
    CHANGES_LAYOUT,
    MIXES_FLOATS,
    SAME_TYPE,
    ANY_PRECISION,
)
class AsyncUpdate:
    """The same asynchronous operation, a step later; inputs are further ones of its computation."""

    x: Operand
    inputs: Operands

    def shape(self, x: Shape, *inputs: Shape) -> Shape:
        """The shape of x, its first element followed by the inputs."""
        return infer.async_update(x, inputs)

    def check(self, declared: Shape, x: Shape, *inputs: Shape) -> None:
        infer.check_async_update(declared, x, inputs)


@op(
    "async-done",
    ASYNC,
    ASYNC_CHAIN,
    SHAPE_IN_TEXT,
    CHANGES_LAYOUT,
    MIXES_FLOATS,
    SAME_TYPE,
    ANY_PRECISION,
    done_of="async-start",
    result_index=(1,),
)
class AsyncDone:
    """The result of an asynchronous operation."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The second element of the start's shape."""
        return infer.async_done(x)

    def check(self, declared: Shape, x: Shape) -> None:
        infer.check_async_done(declared, x)


@op(
    "copy-start",
    ASYNC,
    SHAPE_IN_TEXT,
    CHANGES_LAYOUT,
    MIXES_FLOATS,
    SAME_TYPE,
    ANY_PRECISION,
    start_of="copy",
)
class CopyStart:
    """Starts a copy of x; shape (destination, source, context)."""

    x: Operand
    cross_program_prefetch_index: Int = None

    def shape(self, x: Shape) -> Shape:
        """(shape of x, shape of x, u32[])."""
        return infer.copy_start(x)


@op(
    "copy-done",
    ASYNC,
    SHAPE_IN_TEXT,
    CHANGES_LAYOUT,
    MIXES_FLOATS,
    SAME_TYPE,
    ANY_PRECISION,
    done_of="copy-start",
    result_index=(0,),
)
class CopyDone:
    """The destination of the copy-start x."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The first element of the start's shape."""
        return infer.copy_done(x)
