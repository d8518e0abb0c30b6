"""Transfers to and from the host: the queues of an executable."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import transfer_pairs
from hloom.program.thunks.host_transfer import HostRecv, HostSend
from hloom.program.thunks.infeed import Infeed
from hloom.program.thunks.outfeed import Outfeed
from hloom.program.thunks.routine import Numbers, Pointers
from hloom.program.thunks.thunk import Thunk
from hloom.program.thunks.transfer import Pair, Recv, Send
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering, unsupported
from hloom.types.shape import Shape
from hloom.types.sizes import size_bytes


@CPU_LOWERS.of("infeed")
def infeed(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """The next item, which has to have a buffer of the right size for each array."""
    data = i.shape.elements[0]
    pieces = [(index, s) for index, s in data.subshapes() if s.is_array]
    slices = tuple([cpu.slice(i, (0, *index)) for index, _ in pieces])
    sizes = Numbers(tuple([size_bytes(s) for _, s in pieces]))
    cpu.infeeds.append(data)
    arguments = (Pointers(slices), sizes, len(slices))
    return [Infeed(i.name, "hl_infeed", arguments, (), slices)]


@CPU_LOWERS.of("outfeed")
def outfeed(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """An item that begins with the number of the outfeed, so that the host knows its shape."""
    x = i.operands[0]
    pieces = [(index, s) for index, s in x.shape.subshapes() if s.is_array]
    slices = tuple([cpu.slice(x, index) for index, _ in pieces])
    sizes = Numbers(tuple([size_bytes(s) for _, s in pieces]))
    number = len(cpu.outfeeds)
    cpu.outfeeds.append(x.shape)
    arguments = (number, Pointers(slices), sizes, len(slices))
    return [Outfeed(i.name, "hl_outfeed_numbered", arguments, slices, ())]


@CPU_LOWERS.of("send")
def send(cpu: Lowering, i: Instruction) -> list[Thunk]:
    x = i.operands[0]
    if i.attrs.is_host_transfer:
        return [HostSend(i.name, _host_channel(i, x.shape), x.shape.text, cpu.slice(x))]
    return [Send(i.name, i.attrs.channel_id, _pairs(i), cpu.slice(x))]


@CPU_LOWERS.of("recv", "send-done")
def nothing_yet(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """What is sent is put aside at once, and taken when it is awaited."""
    if not i.attrs.is_host_transfer:
        _pairs(i)
    return []


@CPU_LOWERS.of("recv-done")
def receive(cpu: Lowering, i: Instruction) -> list[Thunk]:
    data = i.shape.elements[0]
    if i.attrs.is_host_transfer:
        return [HostRecv(i.name, _host_channel(i, data), data.text, cpu.slice(i, (0,)))]
    recv = i.operands[0] if i.operands[0].opcode == "recv" else _begun_elsewhere(i)
    return [Recv(i.name, recv.attrs.channel_id, _pairs(recv), cpu.slice(i, (0,)))]


def _host_channel(i: Instruction, data: Shape) -> int:
    """The channel by which handlers of the host are known; they are handed one array at a time."""
    if not data.is_array or data.is_dynamic:
        raise unsupported(
            i,
            f"transfers {data.text_without_layout} to or from the host, which takes arrays of"
            " fixed size",
            "give each array a channel of its own",
        )
    return i.attrs.channel_id or 0


def _begun_elsewhere(done: Instruction) -> Instruction:
    """The recv that a loop hands to a done, as it does where each iteration begins what the next
    one awaits: one of its channel, of which all mean the same devices."""
    module = done.parent.module
    assert module is not None
    channel = done.attrs.channel_id
    recvs = [x for x in module.instructions() if x.opcode == "recv" and _is_of(x, channel)]
    pairs = {_pairs(x) for x in recvs}
    if len(pairs) != 1:
        raise unsupported(
            done,
            f"awaits one of {len(recvs)} recvs of channel {channel} that stand elsewhere, for "
            f"{len(pairs)} different sets of devices",
            "give transfers between other devices a channel of their own",
        )
    return recvs[0]


def _is_of(recv: Instruction, channel: int | None) -> bool:
    return recv.attrs.channel_id == channel


def _pairs(i: Instruction) -> tuple[Pair, ...] | None:
    """The pairs of a transfer between devices; None where each sends to itself."""
    module = i.parent.module
    assert module is not None
    pairs = transfer_pairs(i)
    if pairs is None:
        return None
    count = module.num_partitions
    firsts = [r * count for r in range(module.replica_count)] if count > 1 else [0]
    return tuple([Pair(first + s, first + t) for first in firsts for s, t in pairs])
