"""Calls out of the program."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.kinds import (
    Aliasing,
    Bool,
    DimLabels,
    Int,
    LiteralKind,
    Precisions,
    Shapes,
    String,
    WindowKind,
    enumeration,
)
from hloom.ir.op import CalledMany, Operands, op

Schedule = enumeration("schedule", "SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST")
ApiVersion = enumeration(
    "api version",
    "API_VERSION_UNSPECIFIED",
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
)
PaddingType = enumeration("padding type", "PADDING_INVALID", "PADDING_VALID", "PADDING_SAME")


@op("custom-call")
class CustomCall:
    """What the handler registered as custom_call_target returns."""

    inputs: Operands
    custom_call_target: String
    window: WindowKind = None
    dim_labels: DimLabels = None
    feature_group_count: Int = 1
    batch_group_count: Int = 1
    operand_layout_constraints: Shapes = None
    custom_call_has_side_effect: Bool = False
    output_to_operand_aliasing: Aliasing = None
    literal: LiteralKind = None
    schedule: Schedule = "SCHEDULE_NONE"
    api_version: ApiVersion = "API_VERSION_ORIGINAL"
    padding_type: PaddingType = "PADDING_INVALID"
    operand_precision: Precisions = ()
    called_computations: CalledMany
