"""Random numbers."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import control as infer
from hloom.ir.kinds import Int, enumeration
from hloom.ir.op import Operand, Operands, op
from hloom.ir.traits import (
    ANY_PRECISION,
    CHANGES_LAYOUT,
    CHECKED_TYPE,
    MIXES_FLOATS,
    RANDOM,
    SHAPE_IN_TEXT,
    SIDE_EFFECT,
)
from hloom.types.shape import Shape

Distribution = enumeration("distribution", "rng_invalid", "rng_uniform", "rng_normal")
Algorithm = enumeration("algorithm", "rng_default", "rng_three_fry", "rng_philox")


@op("rng", RANDOM, SIDE_EFFECT, CHANGES_LAYOUT, MIXES_FLOATS, CHECKED_TYPE)
class Rng:
    """Random values: uniform in [inputs[0], inputs[1]) or normal of that mean and deviation."""

    inputs: Operands
    distribution: Distribution

    def check(self, declared: Shape, *inputs: Shape) -> None:
        """As written; the two inputs are scalars of its element type."""
        infer.check_rng(declared, inputs, self.distribution)


@op("rng-bit-generator", RANDOM, CHANGES_LAYOUT, MIXES_FLOATS, ANY_PRECISION)
class RngBitGenerator:
    """(new state, random bits) from a state, bit-exact; or the bits alone, if so written."""

    state: Operand
    algorithm: Algorithm

    def check(self, declared: Shape, state: Shape) -> None:
        """As written: (shape of state, bits), or bits."""
        infer.check_rng_bits(declared, state)


@op(
    "rng-get-and-update-state",
    RANDOM,
    SIDE_EFFECT,
    SHAPE_IN_TEXT,
    CHANGES_LAYOUT,
    MIXES_FLOATS,
    ANY_PRECISION,
)
class RngGetAndUpdateState:
    """The global random state (u64[2]), which then advances by delta."""

    delta: Int

    def shape(self) -> Shape:
        """u64[2]."""
        return infer.RNG_STATE
