"""Control flow and order."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.kinds import Aliasing, Bool, DomainKind, enumeration
from hloom.ir.op import Called, CalledMany, Operand, Operands, op

FusionKind = enumeration("fusion kind", "kLoop", "kInput", "kOutput", "kCustom")


@op("call")
class Call:
    """to_apply(inputs...)."""

    inputs: Operands
    is_composite: Bool = False
    output_to_operand_aliasing: Aliasing = None
    to_apply: Called


@op("conditional")
class Conditional:
    """branch_computations[selector](inputs[selector]); pred: true first; an index out of range takes the last."""

    selector: Operand
    inputs: Operands
    branch_computations: CalledMany


@op("while")
class While:
    """state = x; while condition(state): state = body(state)."""

    x: Operand
    condition: Called
    body: Called


@op("fusion")
class Fusion:
    """calls(inputs...), compiled as one kernel."""

    inputs: Operands
    kind: FusionKind
    output_to_operand_aliasing: Aliasing = None
    calls: Called


@op("opt-barrier")
class OptBarrier:
    """x; nothing that uses the result runs before all of x is there, and nothing moves across (IR-11)."""

    x: Operand


@op("add-dependency")
class AddDependency:
    """x, available only after token."""

    x: Operand
    token: Operand


@op("after-all")
class AfterAll:
    """A token that is ready when all input tokens are."""

    inputs: Operands


@op("domain")
class Domain:
    """x, between two regions of different sharding or other metadata."""

    x: Operand
    domain: DomainKind
