"""Orders."""

from __future__ import annotations

from hloom.frontends.stablehlo.export.reduce import plain
from hloom.frontends.stablehlo.export.registry import Declined, export
from hloom.frontends.stablehlo.export.text import boolean, integer
from hloom.frontends.stablehlo.export.writer import Writer
from hloom.ir.instruction import Instruction


@export("sort", handles="dimensions is_stable")
def sort(w: Writer, i: Instruction) -> None:
    plain(i)
    fields = {
        "dimension": integer(i.attrs.dimensions[0]),
        "is_stable": boolean(i.attrs.is_stable),
    }
    w.simple(i, "stablehlo.sort", fields, w.region(i.called[0]))


@export("topk", handles="k")
def topk(w: Writer, i: Instruction) -> None:
    if i.shape.is_dynamic:
        raise Declined
    w.simple(i, "chlo.top_k", {"k": integer(i.attrs.k)})
