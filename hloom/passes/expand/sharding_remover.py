"""Custom calls that only say where or how a value is spread, as the value itself.

On one device there is nothing to spread. The calls are those that the evaluator takes for the
identity. `SPMDFullToShardShape` and its like are the identity where both shapes are one; a program
in which they are not has to be partitioned first.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expander, Expansion, refuse
from hloom.passes.pass_ import register

SAME = frozenset(
    """Sharding annotate_device_placement MoveToHost MoveToDevice LayoutConstraint
    AssumeGatherIndicesInBound xla.sdy.FuncResultSharding xla.sdy.FunctionResultSharding
    xla.sdy.PropagationBarrier""".split()
)
BETWEEN = frozenset(
    """SPMDFullToShardShape SPMDShardToFullShape xla.sdy.GlobalToLocalShape
    xla.sdy.LocalToGlobalShape""".split()
)
NOTES = frozenset(["xla.sdy.ShardingGroup"])


@register
class ShardingRemover(Expander):
    """Replace sharding and placement custom calls by their operands."""

    name = "sharding-remover"
    opcodes = frozenset(["custom-call"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        target = i.attrs.custom_call_target
        if target in NOTES and i.shape.is_tuple and not i.shape.elements:
            return b.tuple()
        if target in BETWEEN:
            if len(i.operands) == 1 and i.operands[0].shape.compatible(i.shape):
                return i.operands[0]
            raise refuse(
                i,
                f"{target} changes {i.operands[0].shape.text_without_layout} into "
                f"{i.shape.text_without_layout}: the program of one device is not known",
                "unpartitioned",
                "partition the module first",
            )
        if target not in SAME or not i.operands:
            return None
        if len(i.operands) == 1 and i.operands[0].shape.compatible(i.shape):
            return i.operands[0]
        if i.shape.is_tuple and len(i.shape.elements) == len(i.operands):
            return b.tuple(*i.operands)
        return None
