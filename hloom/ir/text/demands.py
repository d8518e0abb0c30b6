"""What text must say of an instruction beyond the grammar, as XLA's parser asks it.

The library itself is laxer: attributes have defaults and most shapes can be inferred. A program
in text that relies on this would not be one for XLA, so it is refused here.
"""

from __future__ import annotations

from hloom.ir.op import ShapeError, opcodes
from hloom.ir.text.draft import Draft
from hloom.ir.traits import ASYNC_CHAIN, SHAPE_IN_TEXT, SHAPE_NOT_READ
from hloom.types.shape import Shape

SHAPES_NOT_READ = opcodes(SHAPE_NOT_READ)
SHAPES_WRITTEN = opcodes(SHAPE_IN_TEXT)
ALWAYS_WRITTEN = {
    "broadcast": ("dimensions",),
    "reduce": ("dimensions",),
    "reverse": ("dimensions",),
    "transpose": ("dimensions",),
    "gather": ("offset_dims", "collapsed_slice_dims", "start_index_map"),
    "scatter": ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"),
    "collective-permute": ("source_target_pairs",),
    "collective-permute-start": ("source_target_pairs",),
    "scan": ("num_carries",),
}
"""Attributes that have a default in the library but must stand in text."""
ONE_DIMENSION = frozenset(["concatenate", "sort", "all-to-all"])
SOME_DIMENSION = frozenset(
    ["all-gather", "all-gather-start", "reduce-scatter", "get-dimension-size"]
)
CHANNEL_WITH_GLOBAL_IDS = frozenset(["all-reduce", "all-reduce-start", "reduce-scatter"])
CHECKED = opcodes(ASYNC_CHAIN, also=("conditional",))
"""Operations for which `check_whole` has something to say."""


def check_values(draft: Draft) -> None:
    """Raise `ShapeError` when attributes are missing or cannot go together."""
    op, values = draft.op, draft.values
    also = ALWAYS_WRITTEN.get(op.name, ())
    for field in op.fields:
        name = field.name
        if name not in values and (field.required or name in also):
            if op.name == "broadcast" and _is_scalar(draft):
                continue
            raise ShapeError(f"{op.name} needs the attribute {name}={field.kind.hint}")
    count = len(values["dimensions"]) if isinstance(values.get("dimensions"), tuple) else 1
    if count != 1 and op.name in ONE_DIMENSION:
        raise ShapeError(f"{op.name} has exactly one dimension, not {count}")
    if count < 1 and op.name in SOME_DIMENSION:
        raise ShapeError(f"{op.name} needs a dimension")
    if op.name in CHANNEL_WITH_GLOBAL_IDS and values.get("use_global_device_ids"):
        if values.get("channel_id") is None:
            raise ShapeError(f"{op.name} with use_global_device_ids=true needs a channel_id")


def _is_scalar(draft: Draft) -> bool:
    operands = draft.operands
    return len(operands) == 1 and operands[0].shape.is_array and not operands[0].shape.dims


def check_whole(draft: Draft) -> None:
    """Raise `ShapeError` when an operation of `CHECKED` does not go with its operands.

    What else XLA's parser looks at (channels of pairs, layout constraints, the shape of an
    update) is left to the verifier, which says it with its own rules.
    """
    if ASYNC_CHAIN in draft.op.traits:
        _check_async(draft)
    else:
        _check_branches(draft)


def _check_async(draft: Draft) -> None:
    name, shape, operands = draft.op.name, draft.shape, draft.operands
    if name == "async-start":
        if not is_start_shape(shape):
            raise ShapeError(
                "async-start needs a shape ((operands), result, contexts...), not "
                f"{shape or 'none'}"
            )
        return
    before = operands[0] if operands else None
    if before is None or before.opcode not in ("async-start", "async-update"):
        raise ShapeError(f"{name} takes one async operation")
    if name == "async-done" and len(operands) != 1:
        raise ShapeError(f"{name} takes one async operation and nothing else")
    if name == "async-update" and not is_start_shape(shape):
        raise ShapeError(f"{name} needs a shape ((operands), result, contexts...), not {shape}")


def is_start_shape(shape: Shape | None) -> bool:
    """Whether it is `((operands), result, contexts...)`."""
    return (
        shape is not None
        and shape.is_tuple
        and len(shape.elements) >= 2
        and shape.elements[0].is_tuple
    )


def _check_branches(draft: Draft) -> None:
    on_pred = bool(draft.operands) and draft.operands[0].shape.dtype.is_pred
    if on_pred and "branch_computations" in draft.called:
        raise ShapeError("a conditional on pred has true_computation and false_computation")
    if not on_pred and "true_computation" in draft.called:
        raise ShapeError("a conditional on an index has branch_computations")
    if draft.called.get("branch_computations") == ():
        raise ShapeError("a conditional needs a branch")
