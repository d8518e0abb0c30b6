"""Transfers to and from the host or another device."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import control as infer
from hloom.ir.kinds import Bool, Int, ShapeKind, String
from hloom.ir.op import Operand, op
from hloom.ir.traits import (
    ANY_PRECISION,
    ASYNC,
    CHANGES_LAYOUT,
    HOST,
    MIXES_FLOATS,
    SAME_TYPE,
    SHAPE_IN_TEXT,
    SHAPE_NOT_READ,
    SIDE_EFFECT,
    TRANSFER,
)
from hloom.types.shape import TOKEN_SHAPE, Shape


@op("infeed", SIDE_EFFECT, HOST, CHANGES_LAYOUT, MIXES_FLOATS, SAME_TYPE, ANY_PRECISION)
class Infeed:
    """(data from the host's queue, token)."""

    token: Operand
    infeed_config: String = ""

    def check(self, declared: Shape, token: Shape) -> None:
        """As written: (data, token[])."""
        infer.check_infeed(declared, token)


@op(
    "outfeed",
    SIDE_EFFECT,
    HOST,
    SHAPE_IN_TEXT,
    SHAPE_NOT_READ,
    CHANGES_LAYOUT,
    MIXES_FLOATS,
    SAME_TYPE,
    ANY_PRECISION,
)
class Outfeed:
    """A token; x goes to the host's queue."""

    x: Operand
    token: Operand
    outfeed_shape: ShapeKind = None
    outfeed_config: String = ""

    def shape(self, x: Shape, token: Shape) -> Shape:
        """token[]."""
        return infer.outfeed(x, token, self.outfeed_shape)


@op(
    "send",
    SIDE_EFFECT,
    ASYNC,
    TRANSFER,
    HOST,
    SHAPE_IN_TEXT,
    SHAPE_NOT_READ,
    CHANGES_LAYOUT,
    MIXES_FLOATS,
    SAME_TYPE,
    ANY_PRECISION,
)
class Send:
    """Starts sending x; shape (x, u32 context, token)."""

    x: Operand
    token: Operand
    channel_id: Int = None
    is_host_transfer: Bool = False

    def shape(self, x: Shape, token: Shape) -> Shape:
        """(shape of x, u32[], token[])."""
        return infer.send(x)


@op(
    "send-done",
    SIDE_EFFECT,
    ASYNC,
    TRANSFER,
    HOST,
    SHAPE_IN_TEXT,
    SHAPE_NOT_READ,
    CHANGES_LAYOUT,
    MIXES_FLOATS,
    SAME_TYPE,
    ANY_PRECISION,
    done_of="send",
)
class SendDone:
    """A token, when the send x is done."""

    x: Operand
    channel_id: Int = None
    is_host_transfer: Bool = False

    def shape(self, x: Shape) -> Shape:
        """token[]."""
        return TOKEN_SHAPE


@op(
    "recv",
    SIDE_EFFECT,
    ASYNC,
    TRANSFER,
    HOST,
    CHANGES_LAYOUT,
    MIXES_FLOATS,
    SAME_TYPE,
    ANY_PRECISION,
)
class Recv:
    """Starts receiving; shape (data, u32 context, token)."""

    token: Operand
    channel_id: Int = None
    is_host_transfer: Bool = False

    def check(self, declared: Shape, token: Shape) -> None:
        """As written: (data, u32[], token[])."""
        infer.check_recv(declared)


@op(
    "recv-done",
    SIDE_EFFECT,
    ASYNC,
    TRANSFER,
    HOST,
    SHAPE_IN_TEXT,
    SHAPE_NOT_READ,
    CHANGES_LAYOUT,
    MIXES_FLOATS,
    SAME_TYPE,
    ANY_PRECISION,
    done_of="recv",
)
class RecvDone:
    """(data, token), when the recv x is done."""

    x: Operand
    channel_id: Int = None
    is_host_transfer: Bool = False

    def shape(self, x: Shape) -> Shape:
        """(data, token[])."""
        return infer.recv_done(x)
