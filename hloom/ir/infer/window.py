"""Folds: reduce, map, reduce-window, select-and-scatter, scan, and what their functions must be."""

from collections.abc import Sequence

from hloom.ir.infer.compare import (
    braced,
    compatible,
    compatible_ignoring_precision,
    compatible_ignoring_type,
    expect_array,
    expect_dimensions,
    listed,
    same_kind,
    same_sizes,
    scalar,
)
from hloom.ir.op import ShapeError
from hloom.ir.values.window import Window
from hloom.types.dtype import PRED, DType
from hloom.types.shape import UNBOUNDED, ProgramShape, Shape, shape, tuple_shape


def check_reducer(reducer: ProgramShape, inits: Sequence[Shape], inputs: Sequence[DType]) -> None:
    """A reducer takes n accumulators and n elements and returns the n accumulators.

    All are scalars; types may differ in floating-point precision only.
    """
    n = len(inputs)
    if len(reducer.parameters) != 2 * n:
        raise ShapeError(f"the reducer must take {2 * n} parameters, not {len(reducer.parameters)}")
    result = reducer.result
    if result.is_tuple:
        accumulators = result.elements
    elif result.is_array:
        accumulators = (result,)
    else:
        raise ShapeError(f"the reducer must return scalars, not {result.bare}")
    if len(accumulators) != n:
        raise ShapeError(f"the reducer must return {n} values, not {result.bare}")
    for k, (accumulator, init, element) in enumerate(zip(accumulators, inits, inputs)):
        if not accumulator.is_scalar:
            raise ShapeError(f"the reducer must return scalars, not {result.bare}")
        first, second = reducer.parameters[k], reducer.parameters[n + k]
        if not compatible(accumulator, first):
            raise ShapeError(
                f"parameter {k} of the reducer is {first.bare} but result {k} {accumulator.bare}"
            )
        if not compatible_ignoring_precision(accumulator, init):
            raise ShapeError(
                f"result {k} of the reducer is {accumulator.bare} but the initial value {init.bare}"
            )
        if not compatible_ignoring_precision(second, scalar(element)):
            raise ShapeError(
                f"parameter {n + k} of the reducer is {second.bare} but gets {element} elements"
            )
        if not compatible_ignoring_precision(accumulator, second):
            raise ShapeError(
                f"parameter {n + k} of the reducer is {second.bare} but result {k} "
                f"{accumulator.bare}"
            )


def windowed_dims(base: Sequence[int], window: Window) -> list[int]:
    """How many positions a window has along each dimension; raises when it is no window."""
    if len(window.dimensions) != len(base):
        raise ShapeError(f"window={window.text} must have {len(base)} dimensions")
    for w in window.dimensions:
        if w.size <= 0 or w.stride <= 0 or w.base_dilation < 1 or w.window_dilation < 1:
            raise ShapeError(f"sizes, strides and dilations must be positive: {window.text}")
    return [
        UNBOUNDED if size == UNBOUNDED else w.output_size(size)
        for size, w in zip(base, window.dimensions)
    ]


def halves(inputs: Sequence[Shape], what: str) -> tuple[Sequence[Shape], Sequence[Shape]]:
    """The n arrays and the n initial values among the operands of a fold."""
    if not inputs or len(inputs) % 2:
        raise ShapeError(f"{what} takes as many arrays as initial values, not {len(inputs)} inputs")
    n = len(inputs) // 2
    arrays = inputs[:n]
    for x in arrays:
        expect_array(x, f"an operand of {what}")
        if not same_sizes(x.dims, arrays[0].dims):
            raise ShapeError(f"operands of {what} must have the same sizes: {listed(arrays)}")
    return arrays, inputs[n:]


def reduce(inputs: Sequence[Shape], dimensions: Sequence[int], called: Sequence) -> Shape:
    arrays, inits = halves(inputs, "reduce")
    x = arrays[0]
    expect_dimensions(dimensions, x.rank, f"dimensions of {x.bare}", order=False)
    reducer = called[0]
    check_reducer(reducer, inits, [a.dtype for a in arrays])
    kept_dims = [d for d in range(x.rank) if d not in dimensions]
    dims = [x.dims[d] for d in kept_dims]
    dynamic = [x.dynamic[d] for d in kept_dims] if x.dynamic else ()
    if not reducer.result.is_tuple:
        return shape(reducer.result.dtype, dims, None, dynamic)
    return tuple_shape(shape(e.dtype, dims, None, dynamic) for e in reducer.result.elements)


def reduce_window(inputs: Sequence[Shape], window: Window, called: Sequence) -> Shape:
    arrays, inits = halves(inputs, "reduce-window")
    check_reducer(called[0], inits, [a.dtype for a in arrays])
    results = [
        shape(init.dtype, windowed_dims(x.dims, window), None, x.dynamic)
        for x, init in zip(arrays, inits)
    ]
    return tuple_shape(results) if called[0].result.is_tuple else results[0]


def select_and_scatter(
    x: Shape, source: Shape, init: Shape, window: Window, called: Sequence
) -> Shape:
    expect_array(x, "the operand of select-and-scatter")
    expect_array(source, "the source of select-and-scatter")
    choice, reducer = called
    if len(choice.parameters) != 2:
        raise ShapeError(f"select must take 2 parameters, not {len(choice.parameters)}")
    if not compatible(choice.result, scalar(PRED)):
        raise ShapeError(f"select must return pred[], not {choice.result.bare}")
    for k, p in enumerate(choice.parameters):
        if not compatible_ignoring_precision(p, scalar(x.dtype)):
            raise ShapeError(f"parameter {k} of select is {p.bare} but gets {x.dtype} elements")
    check_reducer(reducer, [init], [source.dtype])
    expected = shape(x.dtype, windowed_dims(x.dims, window), None, x.dynamic)
    if not compatible_ignoring_precision(source, expected):
        raise ShapeError(f"the source is {source.bare} but the window makes {expected}")
    return x.bare


def map_(inputs: Sequence[Shape], called: Sequence) -> Shape:
    if not inputs:
        raise ShapeError("map needs at least one operand")
    function = called[0]
    arranged = inputs[0]
    for x in inputs:
        expect_array(x, "an operand of map")
        if compatible_ignoring_type(x, arranged):
            continue
        if same_kind(x.dtype, arranged.dtype) and (x.is_scalar or arranged.is_scalar):
            arranged = x if arranged.is_scalar else arranged
            continue
        raise ShapeError(f"operands of map must have the same sizes: {listed(inputs)}")
    if len(function.parameters) != len(inputs):
        raise ShapeError(
            f"the mapped function takes {len(function.parameters)} parameters, not {len(inputs)}"
        )
    if not function.result.is_scalar:
        raise ShapeError(f"the mapped function must return a scalar, not {function.result.bare}")
    for k, (p, x) in enumerate(zip(function.parameters, inputs)):
        if not p.is_scalar or not same_kind(p.dtype, x.dtype):
            raise ShapeError(
                f"parameter {k} of the mapped function is {p.bare} but gets {x.dtype} elements"
            )
    return shape(function.result.dtype, arranged.dims, None, arranged.dynamic)


def check_scan(
    declared: Shape,
    inputs: Sequence[Shape],
    dimensions: Sequence[int],
    carries: int,
    called: Sequence,
) -> None:
    """to_apply takes slices of the arrays and the carries, returns output slices and carries."""
    function = called[0]
    if not 0 <= carries < len(inputs):
        raise ShapeError(f"{len(inputs)} operands cannot hold an array and {carries} carries")
    if len(function.parameters) != len(inputs):
        raise ShapeError(
            f"the scanned function takes {len(function.parameters)} parameters, not {len(inputs)}"
        )
    arrays, inits = inputs[: len(inputs) - carries], inputs[len(inputs) - carries :]
    if len(dimensions) != 1:
        raise ShapeError(f"dimensions={braced(dimensions)} must name one dimension")
    along = dimensions[0]
    for k, x in enumerate(arrays):
        expect_array(x, "an operand of scan")
        if not 0 <= along < x.rank:
            raise ShapeError(f"operand {x.bare} has no dimension {along} to scan along")
        sliced = _without(x, along)
        if not compatible(function.parameters[k], sliced):
            raise ShapeError(
                f"parameter {k} of the scanned function is {function.parameters[k].bare} but "
                f"gets {sliced}"
            )
    for p, init in zip(function.parameters[len(arrays) :], inits):
        if not compatible(p, init):
            raise ShapeError(f"a carry is {init.bare} but its parameter {p.bare}")
    result = function.result
    results = result.elements if result.is_tuple else (result,)
    outputs = len(results) - carries
    if outputs < 0:
        raise ShapeError(f"the scanned function returns {result.bare}, without the carries")
    for r, p in zip(results[outputs:], function.parameters[len(arrays) :]):
        if not compatible(r, p):
            raise ShapeError(f"a carry enters as {p.bare} and leaves as {r.bare}")
    parts = [_with(r, along, arrays[0].dims[along]) for r in results[:outputs]]
    parts += [x.bare for x in inits]
    inferred = parts[0] if len(parts) == 1 and not declared.is_tuple else tuple_shape(parts)
    if not compatible(declared, inferred):
        raise ShapeError(f"the shape is {declared.bare} but must be {inferred}")


def _without(x: Shape, d: int) -> Shape:
    dynamic = x.dynamic[:d] + x.dynamic[d + 1 :]
    return shape(x.dtype, x.dims[:d] + x.dims[d + 1 :], None, dynamic)


def _with(x: Shape, d: int, size: int) -> Shape:
    expect_array(x, "an output of the scanned function")
    if d > x.rank:
        raise ShapeError(f"the output {x.bare} has no place for dimension {d}")
    return shape(x.dtype, (*x.dims[:d], size, *x.dims[d:]))
