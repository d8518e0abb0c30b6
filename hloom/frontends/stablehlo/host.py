"""Transfers to and from the host or another device."""

from __future__ import annotations

from typing import Any

from hloom.frontends.stablehlo.attributes import boolean, text
from hloom.frontends.stablehlo.bindings import viewed
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction
from hloom.types.dtype import U32
from hloom.types.layout import layout
from hloom.types.shape import TOKEN_SHAPE, Shape, shape, tuple_shape

DEVICE_TO_HOST, HOST_TO_DEVICE = 2, 3
"""Sorts of channels that reach the host."""


@IMPORT.of("stablehlo.infeed")
def infeed(scope: Scope, op: Any) -> list[Instruction]:
    """The data is a tuple even where there is one piece; the last result is the token."""
    pieces = [scope.shape(r) for r in list(op.results)[:-1]]
    if "layout" in op.attributes:
        orders = [tuple(n.value for n in order) for order in op.attributes["layout"]]
        pieces = [s.with_layout(layout(o)) for s, o in zip(pieces, orders, strict=True)]
    data = tuple_shape(pieces)
    infeed_ = scope.emit(
        "infeed",
        scope.operands(op),
        tuple_shape([data, TOKEN_SHAPE]),
        infeed_config=text(op, "infeed_config"),
    )
    whole = scope.element(infeed_, 0)
    return [*(scope.element(whole, k) for k in range(len(pieces))), scope.element(infeed_, 1)]


@IMPORT.of("stablehlo.outfeed")
def outfeed(scope: Scope, op: Any) -> Instruction:
    *data, token = scope.operands(op)
    whole = scope.emit("tuple", tuple(data), tuple_shape([x.shape for x in data]))
    return scope.emit(
        "outfeed",
        (whole, token),
        TOKEN_SHAPE,
        outfeed_shape=whole.shape,
        outfeed_config=text(op, "outfeed_config"),
    )


def _channel(op: Any) -> dict[str, Any]:
    handle = viewed(op.attributes["channel_handle"], "ChannelHandle")
    to_host = boolean(op, "is_host_transfer")
    return {"channel_id": handle.handle, "is_host_transfer": to_host}


@IMPORT.of("stablehlo.send")
def send(scope: Scope, op: Any) -> Instruction:
    *data, token = scope.operands(op)
    whole = scope.tuple_of(data)
    fields = _channel(op)
    state = tuple_shape([whole.shape, shape(U32), TOKEN_SHAPE])
    started = scope.emit("send", (whole, token), state, **fields)
    return scope.emit("send-done", (started,), TOKEN_SHAPE, **fields)


@IMPORT.of("stablehlo.recv")
def recv(scope: Scope, op: Any) -> list[Instruction]:
    pieces = [scope.shape(r) for r in list(op.results)[:-1]]
    data: Shape = pieces[0] if len(pieces) == 1 else tuple_shape(pieces)
    fields = _channel(op)
    state = tuple_shape([data, shape(U32), TOKEN_SHAPE])
    started = scope.emit("recv", scope.operands(op), state, **fields)
    done = scope.emit("recv-done", (started,), tuple_shape([data, TOKEN_SHAPE]), **fields)
    whole, token = scope.element(done, 0), scope.element(done, 1)
    if len(pieces) == 1:
        return [whole, token]
    return [*(scope.element(whole, k) for k in range(len(pieces))), token]
