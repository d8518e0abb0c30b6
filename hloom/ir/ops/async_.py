"""Operations in two halves, so that others run in between."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.kinds import Aliasing, Int, String
from hloom.ir.op import Called, Operand, Operands, op


@op("async-start")
class AsyncStart:
    """Starts calls(inputs...); shape ((inputs), outputs, contexts...)."""

    inputs: Operands
    output_to_operand_aliasing: Aliasing = None
    async_execution_thread: String = "main"
    calls: Called


@op("async-update")
class AsyncUpdate:
    """The same asynchronous operation, a step later."""

    x: Operand


@op("async-done")
class AsyncDone:
    """The result of an asynchronous operation."""

    x: Operand


@op("copy-start")
class CopyStart:
    """Starts a copy of x; shape (destination, source, context)."""

    x: Operand
    cross_program_prefetch_index: Int = None


@op("copy-done")
class CopyDone:
    """The destination of the copy-start x."""

    x: Operand
