"""Transfers to and from the host or another device."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.kinds import Bool, Int, ShapeKind, String
from hloom.ir.op import Operand, op


@op("infeed", side_effect=True)
class Infeed:
    """(data from the host's queue, token)."""

    token: Operand
    infeed_config: String = ""


@op("outfeed", side_effect=True)
class Outfeed:
    """A token; x goes to the host's queue."""

    x: Operand
    token: Operand
    outfeed_shape: ShapeKind = None
    outfeed_config: String = ""


@op("send", side_effect=True)
class Send:
    """Starts sending x; shape (x, u32 context, token)."""

    x: Operand
    token: Operand
    channel_id: Int = None
    is_host_transfer: Bool = False


@op("send-done", side_effect=True)
class SendDone:
    """A token, when the send x is done."""

    x: Operand
    channel_id: Int = None
    is_host_transfer: Bool = False


@op("recv", side_effect=True)
class Recv:
    """Starts receiving; shape (data, u32 context, token)."""

    token: Operand
    channel_id: Int = None
    is_host_transfer: Bool = False


@op("recv-done", side_effect=True)
class RecvDone:
    """(data, token), when the recv x is done."""

    x: Operand
    channel_id: Int = None
    is_host_transfer: Bool = False
