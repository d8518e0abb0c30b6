"""Random numbers."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.kinds import Int, enumeration
from hloom.ir.op import Operand, Operands, op

Distribution = enumeration("distribution", "rng_invalid", "rng_uniform", "rng_normal")
Algorithm = enumeration("algorithm", "rng_default", "rng_three_fry", "rng_philox")


@op("rng", side_effect=True)
class Rng:
    """Random values: uniform in [inputs[0], inputs[1]) or normal of that mean and deviation."""

    inputs: Operands
    distribution: Distribution


@op("rng-bit-generator")
class RngBitGenerator:
    """(new state, random bits) from a state, bit-exact."""

    state: Operand
    algorithm: Algorithm


@op("rng-get-and-update-state", side_effect=True)
class RngGetAndUpdateState:
    """The global random state (u64[2]), which then advances by delta."""

    delta: Int
