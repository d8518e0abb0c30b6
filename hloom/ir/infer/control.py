"""Calls, loops, branches, asynchronous pairs, transfers and random numbers."""

from collections.abc import Sequence

from hloom.ir.infer.compare import (
    compatible,
    expect_array,
    expect_tuple,
    must_match,
    same_kind,
    scalar,
)
from hloom.ir.op import ShapeError
from hloom.types.dtype import PRED, S32, U32, U64
from hloom.types.shape import TOKEN_SHAPE, ProgramShape, Shape, shape, tuple_shape

RNG_STATE = shape(U64, (2,))
CONTEXT = scalar(U32)
"""The third element of a copy-start, the second of a send."""


def expect_token(x: Shape, what: str) -> None:
    if not x.is_token:
        raise ShapeError(f"{what} must be a token, not {x.bare}")


def check_arguments(callee: ProgramShape, inputs: Sequence[Shape], what: str) -> None:
    """Raise unless the arguments have the shapes of the callee's parameters."""
    if len(callee.parameters) != len(inputs):
        raise ShapeError(f"{what} takes {len(callee.parameters)} arguments, got {len(inputs)}")
    for k, (p, x) in enumerate(zip(callee.parameters, inputs)):
        if not compatible(p, x):
            raise ShapeError(f"argument {k} is {x.bare} but parameter {k} of {what} is {p.bare}")


def call(inputs: Sequence[Shape], called: Sequence[ProgramShape]) -> Shape:
    check_arguments(called[0], inputs, "the called computation")
    return called[0].result.bare


def fusion(inputs: Sequence[Shape], called: Sequence[ProgramShape]) -> Shape:
    """The body's result. Operands that the body does not take are allowed."""
    parameters = called[0].parameters
    if len(parameters) > len(inputs):
        raise ShapeError(f"the fused body takes {len(parameters)} arguments, got {len(inputs)}")
    check_arguments(called[0], inputs[: len(parameters)], "the fused body")
    return called[0].result.bare


def while_(x: Shape, called: Sequence[ProgramShape]) -> Shape:
    condition, body = called
    check_arguments(condition, (x,), "the condition")
    check_arguments(body, (x,), "the body")
    if not compatible(condition.result, scalar(PRED)):
        raise ShapeError(f"the condition must return pred[], not {condition.result.bare}")
    if not compatible(body.result, x):
        raise ShapeError(f"the body returns {body.result.bare} but takes {x.bare}")
    return x.bare


def conditional(selector: Shape, inputs: Sequence[Shape], called: Sequence[ProgramShape]) -> Shape:
    if not selector.is_scalar or (selector.dtype is not PRED and selector.dtype is not S32):
        raise ShapeError(f"the selector must be pred[] or s32[], not {selector.bare}")
    if selector.dtype is PRED and len(called) != 2:
        raise ShapeError(f"a pred[] chooses between 2 branches, not {len(called)}")
    if not called or len(inputs) != len(called):
        raise ShapeError(f"{len(called)} branches need as many arguments, not {len(inputs)}")
    for k, (branch, x) in enumerate(zip(called, inputs)):
        check_arguments(branch, (x,), f"branch {k}")
        if not compatible(branch.result, called[0].result):
            raise ShapeError(
                f"branch 0 returns {called[0].result.bare} but branch {k} {branch.result.bare}"
            )
    return called[0].result.bare


def add_dependency(x: Shape, token: Shape) -> Shape:
    expect_token(token, "the second operand of add-dependency")
    return x.bare


def check_async_start(
    declared: Shape, inputs: Sequence[Shape], called: Sequence[ProgramShape]
) -> None:
    """The shape is ((operands), result, contexts...) of the wrapped computation, or the first few
    of its operands and results."""
    expect_tuple(declared, "the shape of async-start", 2)
    operands = declared.elements[0]
    parameters = tuple_shape(p.bare for p in called[0].parameters)
    if not operands.is_tuple or not begins(operands, parameters):
        raise ShapeError(
            f"the wrapped computation takes {parameters}, but the shape begins with {operands.bare}"
        )
    if not begins(declared.elements[1], called[0].result):
        raise ShapeError(
            f"the wrapped computation returns {called[0].result.bare}, but the second element "
            f"is {declared.elements[1].bare}"
        )
    _check_bound(operands.elements, inputs)


def begins(part: Shape, whole: Shape) -> bool:
    """Whether a shape is the whole one, or a tuple of the first few of its elements (or none)."""
    if compatible(part, whole):
        return True
    if not part.is_tuple:
        return False
    few = whole.elements[: len(part.elements)]  # an array or token has none
    return len(few) == len(part.elements) and all(map(compatible, part.elements, few))


def _check_bound(shapes: Sequence[Shape], inputs: Sequence[Shape]) -> None:
    """Raise unless the elements of a shape that stand for new operands are those."""
    if len(shapes) != len(inputs):
        raise ShapeError(f"the shape binds {len(shapes)} operands, but {len(inputs)} are given")
    for k, (part, x) in enumerate(zip(shapes, inputs)):
        if not compatible(part, x):
            raise ShapeError(f"operand {k} is {x.bare}, but the shape has {part.bare} for it")


def async_update(x: Shape, inputs: Sequence[Shape]) -> Shape:
    expect_tuple(x, "the operand of async-update", 2)
    bound = (*(p.bare for p in x.elements[0].elements), *(s.bare for s in inputs))
    return tuple_shape((tuple_shape(bound), *(p.bare for p in x.elements[1:])))


def check_async_update(declared: Shape, x: Shape, inputs: Sequence[Shape]) -> None:
    """What was bound and computed before stays; new operands follow."""
    expect_tuple(x, "the operand of async-update", 2)
    expect_tuple(declared, "the shape of async-update", 2)
    before, bound = x.elements[0], declared.elements[0]
    if not bound.is_tuple or not begins(before, bound):
        raise ShapeError(f"the shape begins with {bound.bare}, but before it was {before.bare}")
    _check_bound(bound.elements[len(before.elements) :], inputs)
    if not begins(x.elements[1], declared.elements[1]):
        raise ShapeError(f"the result is {declared.elements[1].bare} after {x.elements[1].bare}")
    if not compatible(tuple_shape(declared.elements[2:]), tuple_shape(x.elements[2:])):
        raise ShapeError(f"the contexts of {declared.bare} are not those of {x.bare}")


def check_async_done(declared: Shape, x: Shape) -> None:
    expect_tuple(x, "the operand of async-done", 2)
    if not begins(x.elements[1], declared):
        raise ShapeError(f"the shape is {declared.bare} but must be {x.elements[1].bare}")


def async_start(inputs: Sequence[Shape], called: Sequence[ProgramShape]) -> Shape:
    check_arguments(called[0], inputs, "the wrapped computation")
    return tuple_shape((tuple_shape(x.bare for x in inputs), called[0].result.bare))


def async_done(x: Shape) -> Shape:
    expect_tuple(x, "the operand of async-done", 2)
    return x.elements[1].bare


def copy_start(x: Shape) -> Shape:
    return tuple_shape((x.bare, x.bare, CONTEXT))


def copy_done(x: Shape) -> Shape:
    expect_tuple(x, "the operand of copy-done", 2)
    destination, source = x.elements[:2]
    if not compatible(destination, source):
        raise ShapeError(f"destination {destination.bare} and source {source.bare} differ")
    return destination.bare


def check_infeed(declared: Shape, token: Shape) -> None:
    expect_token(token, "the operand of infeed")
    expect_tuple(declared, "the result of infeed", 1)
    must_match(declared, tuple_shape((declared.elements[0].bare, TOKEN_SHAPE)))


def outfeed(x: Shape, token: Shape, declared: Shape | None) -> Shape:
    expect_token(token, "the second operand of outfeed")
    if declared is not None and not compatible(declared, x):
        raise ShapeError(f"outfeed_shape is {declared.bare} but the operand {x.bare}")
    return TOKEN_SHAPE


def send(x: Shape) -> Shape:
    return tuple_shape((x.bare, CONTEXT, TOKEN_SHAPE))


def check_recv(declared: Shape) -> None:
    expect_tuple(declared, "the result of recv", 1)
    must_match(declared, tuple_shape((declared.elements[0].bare, CONTEXT, TOKEN_SHAPE)))


def recv_done(x: Shape) -> Shape:
    expect_tuple(x, "the operand of recv-done", 1)
    return tuple_shape((x.elements[0].bare, TOKEN_SHAPE))


def check_rng(declared: Shape, inputs: Sequence[Shape], distribution: str) -> None:
    if len(inputs) != 2 or not all(x.is_scalar for x in inputs):
        raise ShapeError("rng takes two scalars")
    expect_array(declared, "the result of rng")
    a, b = inputs
    if a.dtype is not b.dtype:
        raise ShapeError(f"the parameters of rng differ in type: {a.bare} and {b.bare}")
    if not same_kind(declared.dtype, a.dtype):
        raise ShapeError(f"the parameters of rng are {a.dtype} but the result is {declared.bare}")
    t = a.dtype
    if distribution == "rng_uniform":
        if not (t.is_floating or t.is_integral or t is PRED):
            raise ShapeError(f"rng_uniform needs floats, integers or pred, not {t}")
    elif distribution == "rng_normal":
        if not t.is_floating:
            raise ShapeError(f"rng_normal needs floats, not {t}")
    else:
        raise ShapeError(f"{distribution} is no distribution")


def check_rng_bits(declared: Shape, state: Shape) -> None:
    """The result is (state, bits); the bits alone are accepted as well."""
    if not declared.is_tuple:
        return
    if len(declared.elements) != 2:
        raise ShapeError(f"rng-bit-generator gives (state, bits), not {declared.bare}")
    if not compatible(declared.elements[0], state):
        raise ShapeError(f"the state is {state.bare} but the new one {declared.elements[0].bare}")


def check_sort_comparator(inputs: Sequence[Shape], comparator: ProgramShape) -> None:
    """The comparator takes two scalars of each operand's type, side by side, and returns pred."""
    if not compatible(comparator.result, scalar(PRED)):
        raise ShapeError(f"the comparator must return pred[], not {comparator.result.bare}")
    if len(comparator.parameters) != 2 * len(inputs):
        raise ShapeError(
            f"the comparator of {len(inputs)} operands must take {2 * len(inputs)} parameters, "
            f"not {len(comparator.parameters)}"
        )
    for k, p in enumerate(comparator.parameters):
        element = inputs[k // 2].dtype
        floats = p.dtype.is_floating and element.is_floating
        if not p.is_scalar or not (p.dtype is element or floats):
            raise ShapeError(f"parameter {k} of the comparator is {p.bare} but gets {element}")
