"""Control flow and order."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import control as infer
from hloom.ir.kinds import Aliasing, Bool, DomainKind, enumeration
from hloom.ir.op import Called, CalledMany, Operand, Operands, op
from hloom.ir.traits import (
    ANY_PRECISION,
    CHANGES_LAYOUT,
    CONTROL_FLOW,
    FORWARDS,
    FREE,
    HANDS_OPERANDS,
    LAYOUT_OF_OPERAND,
    MIXES_FLOATS,
    SAME_TYPE,
    SHAPE_IN_TEXT,
    SHAPE_NOT_READ,
)
from hloom.types.shape import TOKEN_SHAPE, Shape

FusionKind = enumeration("fusion kind", "kLoop", "kInput", "kOutput", "kCustom")


@op("call", CONTROL_FLOW, HANDS_OPERANDS, CHANGES_LAYOUT, MIXES_FLOATS, SAME_TYPE, ANY_PRECISION)
class Call:
    """to_apply(inputs...)."""

    inputs: Operands
    is_composite: Bool = False
    output_to_operand_aliasing: Aliasing = None
    to_apply: Called

    def shape(self, *inputs: Shape, called: tuple) -> Shape:
        """The result of to_apply, whose parameters have the shapes of the inputs."""
        return infer.call(inputs, called)


@op("conditional", CONTROL_FLOW, CHANGES_LAYOUT, MIXES_FLOATS, SAME_TYPE, ANY_PRECISION)
class Conditional:
    """branch_computations[selector](inputs[selector]); pred: true first; an index out of range
    takes the last.
    """

    selector: Operand
    inputs: Operands
    branch_computations: CalledMany

    def shape(self, selector: Shape, *inputs: Shape, called: tuple) -> Shape:
        """The one result of all branches; branch k takes input k. The selector is pred[] for two
        branches, else s32[].
        """
        return infer.conditional(selector, inputs, called)


@op(
    "while", CONTROL_FLOW, LAYOUT_OF_OPERAND, CHANGES_LAYOUT, MIXES_FLOATS, SAME_TYPE, ANY_PRECISION
)
class While:
    """state = x; while condition(state): state = body(state)."""

    x: Operand
    condition: Called
    body: Called

    def shape(self, x: Shape, called: tuple) -> Shape:
        """The shape of x, which condition and body take; body returns it, condition pred[]."""
        return infer.while_(x, called)


@op("fusion", HANDS_OPERANDS, SHAPE_IN_TEXT, CHANGES_LAYOUT, MIXES_FLOATS, SAME_TYPE, ANY_PRECISION)
class Fusion:
    """calls(inputs...), compiled as one kernel."""

    inputs: Operands
    kind: FusionKind
    output_to_operand_aliasing: Aliasing = None
    calls: Called

    def shape(self, *inputs: Shape, called: tuple) -> Shape:
        """The result of the body, whose parameters have the shapes of the inputs."""
        return infer.fusion(inputs, called)


@op(
    "opt-barrier",
    FORWARDS,
    FREE,
    SHAPE_IN_TEXT,
    CHANGES_LAYOUT,
    MIXES_FLOATS,
    SAME_TYPE,
    ANY_PRECISION,
)
class OptBarrier:
    """x; nothing that uses the result runs before all of x is there, and nothing moves across."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The shape of x."""
        return x.bare


@op(
    "add-dependency",
    FORWARDS,
    FREE,
    SHAPE_NOT_READ,
    LAYOUT_OF_OPERAND,
    CHANGES_LAYOUT,
    SAME_TYPE,
    ANY_PRECISION,
)
class AddDependency:
    """x, available only after token."""

    x: Operand
    token: Operand

    def shape(self, x: Shape, token: Shape) -> Shape:
        """The shape of x."""
        return infer.add_dependency(x, token)


@op("after-all", FREE, SHAPE_NOT_READ, CHANGES_LAYOUT, ANY_PRECISION)
class AfterAll:
    """A token that is ready when all input tokens are."""

    inputs: Operands

    def shape(self, *inputs: Shape) -> Shape:
        """token[]."""
        return TOKEN_SHAPE


@op("domain", FORWARDS, FREE, LAYOUT_OF_OPERAND, CHANGES_LAYOUT, MIXES_FLOATS, ANY_PRECISION)
class Domain:
    """x, between two regions of different sharding or other metadata."""

    x: Operand
    domain: DomainKind

    def shape(self, x: Shape) -> Shape:
        """The shape of x."""
        return x.bare
