"""Transfers to and from the host: the queues of an executable."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.program.thunks.infeed import Infeed
from hloom.program.thunks.outfeed import Outfeed
from hloom.program.thunks.routine import Numbers, Pointers
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering, unsupported
from hloom.types.sizes import size_bytes


@CPU_LOWERS.of("infeed")
def infeed(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """The next item, which has to have a buffer of the right size for each array."""
    data = i.shape.elements[0]
    found = [(index, s) for index, s in data.subshapes() if s.is_array]
    slices = tuple([cpu.slice(i, (0, *index)) for index, _ in found])
    sizes = Numbers(tuple([size_bytes(s) for _, s in found]))
    cpu.infeeds.append(data)
    arguments = (Pointers(slices), sizes, len(slices))
    return [Infeed(i.name, "hl_infeed", arguments, (), slices)]


@CPU_LOWERS.of("outfeed")
def outfeed(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """An item that begins with the number of the outfeed, so that the host knows its shape."""
    x = i.operands[0]
    found = [(index, s) for index, s in x.shape.subshapes() if s.is_array]
    slices = tuple([cpu.slice(x, index) for index, _ in found])
    sizes = Numbers(tuple([size_bytes(s) for _, s in found]))
    number = len(cpu.outfeeds)
    cpu.outfeeds.append(x.shape)
    arguments = (number, Pointers(slices), sizes, len(slices))
    return [Outfeed(i.name, "hl_outfeed_numbered", arguments, slices, ())]


@CPU_LOWERS.of("send", "send-done", "recv", "recv-done")
def transfer(cpu: Lowering, i: Instruction) -> list[Thunk]:
    raise unsupported(
        i,
        "needs a partner that takes or gives the data while the program runs; there is none for"
        " native code",
        "use infeed and outfeed, or a custom call; `hloom eval` runs it in the interpreter",
    )
