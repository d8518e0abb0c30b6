"""What is known of an opcode without looking at an instruction.

A trait stands on the declaration (`@op("add", ELEMENTWISE, COMMUTATIVE)`); whoever needs all
opcodes that have one asks `opcodes(COMMUTATIVE)`. Nothing else lists names, so that a new opcode
is in every table from its one declaration.
"""

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Trait:
    """Something that can be said of an opcode, and when it is."""

    means: str


# -- what it computes
ELEMENTWISE = Trait(
    "an element of the result is a function of single elements of the operands, those at the "
    "same index (of bitcast-convert: where the types are equally wide)"
)
TRANSCENDENTAL = Trait("a function that takes many instructions of a machine for one element")
DISCONTINUOUS = Trait("a function of floats that jumps: two numbers side by side, far apart")
RETYPES = Trait("no arithmetic: a number in another type, or a part of one")
COMMUTATIVE = Trait("f(x, y) is f(y, x)")
ASSOCIATIVE = Trait("commutative, f(f(x, y), z) is f(x, f(y, z)) but for rounding; has a neutral")
IDEMPOTENT = Trait("f(x, x) is x")
STRIDED = Trait(
    "its elements are those of operand 0 at even strides (of iota: no operand), read where "
    "they stand"
)
RESHAPES = Trait("the elements of operand 0 in the same row-major order: a new name for them")
CHOOSES = Trait("which operand an element comes from, or from where, is computed for each")
READS_PART = Trait("reads no more of operand 0 than it gives")
MOVES = Trait("every element of the result is an element of operand 0, as it is")
JOINS = Trait("every element of the result is an element of one of several operands, as it is")
CONTRACTS = Trait("sums of products of elements of two operands")
RUN_TIME_SIZE = Trait("asks for or says the run-time size of a dimension")
RANDOM = Trait("gives another value each time, or what is to look like that")

# -- values and memory
PLUMBING = Trait("no operation of a machine: a parameter, a constant, a tuple or an element of one")
FORWARDS = Trait("the result is operand 0: the same value in the same memory")
FREE = Trait("takes no time by itself: a name, a token, a size, the number of a device")

# -- effects, order and other devices
SIDE_EFFECT = Trait("does something besides its result: never removed, moved or done twice")
CONTROL_FLOW = Trait("what it calls runs as a program of its own")
HANDS_OPERANDS = Trait("operand k is parameter k of what it calls")
ASYNC = Trait("one of the parts of something that runs beside other things")
ASYNC_CHAIN = Trait("a part of an asynchronous call of a computation")
COLLECTIVE = Trait("begins something that all devices of a group do together")
TRANSFER = Trait("a half of a send or a receive")
HOST = Trait("exchanges data with the host or another program")
DEVICE_ID = Trait("the number of the device that runs it")

# -- text and verification, as XLA has them
SHAPE_IN_TEXT = Trait("text must say its shape, though it could be inferred")
SHAPE_NOT_READ = Trait("its shape follows from its operands, whatever text says")
LAYOUT_OF_OPERAND = Trait("where text gives no layout, it has the layout of operand 0")
CHANGES_LAYOUT = Trait("may give its result another layout than its operands have")
MIXES_FLOATS = Trait("operands and result may be floats of different precision")
SAME_TYPE = Trait("the result is an operand or what a callee returns: never another precision")
CHECKED_TYPE = Trait("its shape is checked, not inferred; without mixing, operand 0 has its type")
ANY_PRECISION = Trait(
    "passes floats on unchanged, converts them by definition, or says itself what different "
    "precisions mean"
)
