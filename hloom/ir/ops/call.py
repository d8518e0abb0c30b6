"""Calls out of the program."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer.compare import compatible
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
from hloom.ir.op import CalledMany, Operands, ShapeError, op
from hloom.ir.traits import ANY_PRECISION, CHANGES_LAYOUT, MIXES_FLOATS, SAME_TYPE
from hloom.types.shape import Shape

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


@op("custom-call", CHANGES_LAYOUT, MIXES_FLOATS, SAME_TYPE, ANY_PRECISION)
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

    def check(self, declared: Shape, *inputs: Shape, called: tuple) -> None:
        """Any shapes will do; only the written operand layouts must be those of the operands."""
        expected = self.operand_layout_constraints
        if expected is None or self.custom_call_target == "LayoutConstraint":
            return
        if len(expected) != len(inputs):
            raise ShapeError(
                f"{len(expected)} operand layouts are given for {len(inputs)} operands"
            )
        for k, (want, x) in enumerate(zip(expected, inputs)):
            if not compatible(want, x):
                raise ShapeError(f"operand {k} is {x.bare} but its layout is for {want.bare}")
