"""Permute the operands of a fusion, or the parameters of any computation.

A permutation `p` sends what stands in place `k` to place `p[k]`. Everything is checked before
anything is changed, so a refused permutation leaves the module as it was.
"""

from collections.abc import Sequence
from dataclasses import replace

from hloom.base.diagnostics import UsageError
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.values.aliasing import OutputOperandAliasing


def permute_fusion_operands(fusion: Instruction, permutation: Sequence[int]) -> None:
    """Move operand `k` of a fusion to place `permutation[k]`; the result stays the same.

    The parameters of the body are renumbered and the aliasing follows; the body is not touched
    otherwise. Raises `UsageError` when the instruction is no fusion, when its body has another
    caller, or when `permutation` is not one of its operands.
    """
    if fusion.opcode != "fusion":
        raise UsageError("it is no fusion", instruction=f"%{fusion.name}", rule="fusion-edit")
    moved = _checked(permutation, len(fusion.operands), f"%{fusion.name}")
    body = fusion.called[0]
    if sum(body.callers.values()) != 1:
        raise UsageError(
            f"its body %{body.name} has other callers",
            instruction=f"%{fusion.name}",
            rule="fusion-edit",
        )
    _renumber(body, moved)
    operands = list(fusion.operands)
    for k, place in enumerate(moved):
        operands[place] = fusion.operands[k]
    fusion.set_operands(tuple(operands))
    aliasing = fusion.attrs.output_to_operand_aliasing
    if aliasing:
        entries = (replace(e, operand_index=moved[e.operand_index]) for e in aliasing.entries)
        fusion.attrs = replace(
            fusion.attrs, output_to_operand_aliasing=OutputOperandAliasing(tuple(entries))
        )


def permute_parameters(computation: Computation, permutation: Sequence[int]) -> None:
    """Give parameter `k` of a computation the number `permutation[k]`.

    Callers are left as they are: permute their operands alike. Raises `UsageError` when
    `permutation` is not one of the parameters.
    """
    _renumber(
        computation, _checked(permutation, len(computation.parameters), f"%{computation.name}")
    )


def _renumber(computation: Computation, moved: tuple[int, ...]) -> None:
    for parameter in computation.parameters:
        attrs = parameter.attrs
        parameter.attrs = replace(attrs, number=moved[attrs.number])
    computation.parameters.sort(key=lambda p: p.attrs.number)


def _checked(permutation: Sequence[int], count: int, where: str) -> tuple[int, ...]:
    """The permutation as a tuple; `UsageError` when it is not one of `count` places."""
    moved = tuple(permutation)
    shown = "{" + ",".join(map(str, moved)) + "}"
    if any(type(k) is bool or not hasattr(k, "__index__") for k in moved):
        raise UsageError(f"{shown} is not a permutation: its members are integers")
    why = None
    if len(moved) != count:
        why = f"it has {len(moved)} members for {count} places"
    elif outside := [k for k in moved if not 0 <= k < count]:
        why = f"index {outside[0]} is out of range for {count} places"
    elif len(set(moved)) != count:
        why = f"index {next(k for k in moved if moved.count(k) > 1)} repeats"
    if why is not None:
        raise UsageError(
            f"{shown} is not a permutation: {why}", instruction=where, rule="fusion-edit"
        )
    return tuple([int(k) for k in moved])
