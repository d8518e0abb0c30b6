"""Random numbers."""

from __future__ import annotations

from hloom.frontends.stablehlo.export.registry import Declined, export
from hloom.frontends.stablehlo.export.writer import Writer
from hloom.ir.instruction import Instruction
from hloom.types.dtype import S64
from hloom.types.shape import shape


@export("rng", handles="distribution")
def rng(w: Writer, i: Instruction) -> None:
    """The third operand says the shape of the result."""
    kind = i.attrs.distribution.removeprefix("rng_").upper()
    if kind == "INVALID" or i.shape.is_dynamic:
        raise Declined
    sizes, rank = w.fresh(), i.shape.rank
    body = ", ".join(map(str, i.shape.dims))
    body = f"[{body}]" if rank else ""
    kind_of = f"tensor<{rank}xi64>"
    w.line(
        f'{sizes} = "stablehlo.constant"() {{value = dense<{body}> : {kind_of}}} : () -> {kind_of}'
    )
    operands = [*(w.value(x) for x in i.operands), sizes]
    shapes = [*(x.shape for x in i.operands), shape(S64, (rank,))]
    fields = {"rng_distribution": f"#stablehlo<rng_distribution {kind}>"}
    w.op(i, "stablehlo.rng", operands, shapes, fields)


@export("rng-bit-generator", handles="algorithm")
def rng_bit_generator(w: Writer, i: Instruction) -> None:
    word = i.attrs.algorithm.removeprefix("rng_").upper()
    if not i.shape.is_tuple:
        raise Declined
    fields = {"rng_algorithm": f"#stablehlo<rng_algorithm {word}>"}
    w.simple(i, "stablehlo.rng_bit_generator", fields)
