"""Meanings of infeed, outfeed, send and recv.

Infeed reads `EvalOptions.infeed`, outfeed writes `EvalOptions.outfeed`. A send between devices
names its source-target pairs in the frontend attribute `_xla_send_recv_source_target_pairs`; its
data waits in a mailbox of the target until the recv-done there takes it, so that sends never
block. A recv-done on a device that is no target gives zeros, as a collective-permute does. A send
without pairs reaches the recv on the same channel of the same device. Host transfers go to and
come from the host's queues, and from the program itself where the host says nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.arguments import as_value
from hloom.interp.context import EvalContext, Receive
from hloom.interp.registry import MEANING
from hloom.interp.values import TOKEN, EvalValue, zero
from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import transfer_pairs


@MEANING.of("infeed")
def infeed(i: Instruction, context: EvalContext, token: EvalValue) -> EvalValue:
    """(data, token)."""
    if not context.infeed:
        raise EvalError(
            "the infeed queue is empty", hint="give what infeeds read as EvalOptions.infeed"
        )
    return (as_value(context.infeed.popleft(), i.shape.elements[0], "the infeed's data"), TOKEN)


@MEANING.of("outfeed")
def outfeed(i: Instruction, context: EvalContext, x: EvalValue, token: EvalValue) -> EvalValue:
    if context.options.outfeed is not None:
        context.options.outfeed(x)
    return TOKEN


@dataclass(frozen=True, slots=True)
class Pending:
    """What recv returns in place of data: from where recv-done is to take it."""

    key: Any
    """The mailbox's key; None when nobody sends to this device."""


@MEANING.of("send")
def send(i: Instruction, context: EvalContext, x: EvalValue, token: EvalValue) -> EvalValue:
    """(x, context, token)."""
    channel = i.attrs.channel_id
    if i.attrs.is_host_transfer:
        if context.options.host_send is not None:
            context.options.host_send(channel, x)
        else:
            context.post(context.device.global_id, ("host", channel), x)
    else:
        pairs = source_target_pairs(i, context)
        me = context.device.global_id
        if pairs is None:
            context.post(me, (channel, me), x)
        else:
            for source, target in pairs:
                if source == me:
                    context.post(target, (channel, me), x)
    return (x, np.zeros((), np.uint32), TOKEN)


@MEANING.of("send-done")
def send_done(i: Instruction, context: EvalContext, x: EvalValue) -> EvalValue:
    return TOKEN


@MEANING.of("recv")
def recv(i: Instruction, context: EvalContext, token: EvalValue) -> EvalValue:
    """(where the data will come from, context, token)."""
    me = context.device.global_id
    key: Any = (i.attrs.channel_id, me)
    if i.attrs.is_host_transfer:
        key = ("host", i.attrs.channel_id)
    elif (pairs := source_target_pairs(i, context)) is not None:
        key = None
        for source, target in pairs:
            if target == me:
                key = (i.attrs.channel_id, source)
    return (Pending(key), np.zeros((), np.uint32), TOKEN)


@MEANING.of("recv-done")
def recv_done(
    i: Instruction, context: EvalContext, x: EvalValue
) -> Generator[Receive, Any, EvalValue]:
    """(data, token)."""
    if not isinstance(x, tuple) or not x or not isinstance(x[0], Pending):
        raise EvalError("the operand is not the value of a recv")
    key, shape = x[0].key, i.shape.elements[0]
    if key is None:
        return (zero(shape), TOKEN)
    if key[0] == "host" and (queue := context.host_receive.get(key[1])):
        return (as_value(queue.popleft(), shape, "what the host sends"), TOKEN)
    return ((yield Receive(i, key)), TOKEN)


def source_target_pairs(i: Instruction, context: EvalContext) -> list[tuple[int, int]] | None:
    """The pairs in global ids, each device's own copy included; None when none are given.

    The numbers are partitions when there are several, else replicas.
    """
    pairs = transfer_pairs(i)
    if pairs is None:
        return None
    device = context.device
    if device.partition_count > 1:
        first = device.replica * device.partition_count
        return [(first + s, first + t) for s, t in pairs]
    return list(pairs)
