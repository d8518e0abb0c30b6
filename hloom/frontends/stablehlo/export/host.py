"""Transfers to and from the host."""

from __future__ import annotations

from hloom.frontends.stablehlo.export.registry import Declined, export
from hloom.frontends.stablehlo.export.text import quoted
from hloom.frontends.stablehlo.export.writer import Writer
from hloom.ir.instruction import Instruction


@export("outfeed", handles="outfeed_shape outfeed_config")
def outfeed(w: Writer, i: Instruction) -> None:
    """StableHLO sends several values, which are a tuple in HLO."""
    data, token = i.operands
    if data.opcode != "tuple" or i.attrs.outfeed_shape not in (None, data.shape):
        raise Declined
    values = [*(w.value(x) for x in data.operands), w.value(token)]
    shapes = [*(x.shape for x in data.operands), token.shape]
    fields = {"outfeed_config": quoted(i.attrs.outfeed_config)}
    w.op(i, "stablehlo.outfeed", values, shapes, fields)
