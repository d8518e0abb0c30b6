"""Fusions as the instructions of their bodies.

Another compiler fused for its own machine: such bodies hold what our kernels cannot (a scatter, two
products, a fusion in a fusion), and kernels that ours are better without. What is taken apart here
is fused again for the machine at hand. The body becomes that of a call, which the inliner writes
in its place.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.values.metadata import NO_METADATA
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register

OUR_KINDS = frozenset(("loop", "row", "column", "output", "sequence", "attention"))
"""Kinds in the `fusion_config` of fusions that are made for these kernels: they are kept."""


def kind_of(i: Instruction) -> str:
    """The kind in the `fusion_config` of a fusion; empty where there is none."""
    config = i.backend_config.json if i.opcode == "fusion" and i.backend_config else None
    known = config.get("fusion_config") if isinstance(config, dict) else None
    kind = known.get("kind") if isinstance(known, dict) else None
    return kind if isinstance(kind, str) else ""


@register
class Defuser(Expander):
    """Replace fusions by calls of their bodies, but those that were made for our kernels."""

    name = "defuser"
    opcodes = frozenset(["fusion"])

    only: tuple[str, ...] = ()
    """Names of fusions that are taken apart, whoever made them; none: all but ours."""
    kinds: frozenset[str] = frozenset()
    """Of libraries that are there, whose fusions are kept, too."""

    def wants(self, i: Instruction) -> bool:
        if self.only:
            return i.name in self.only
        kind = kind_of(i)
        return kind not in OUR_KINDS and kind not in self.kinds

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        (body,) = i.called
        for x in body.instructions:
            if x.metadata is None and x.opcode != "parameter":
                x.metadata = i.metadata
        # Operands that a body does not take are no arguments of a call.
        call = b.emit("call", *i.operands[: len(body.parameters)], called=(body,))
        call.shape = i.shape
        call.metadata = NO_METADATA  # names of the body are whole; the inliner need not complete
        return call
