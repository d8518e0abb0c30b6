"""Collectives: shapes as far as they follow from the operands and the groups written there.

What depends on the module's replica and partition counts is checked by the verifier.
"""

from collections.abc import Sequence
from typing import Any

from hloom.ir.infer.compare import (
    braced,
    compatible,
    expect_array,
    expect_tuple,
    listed,
    must_match,
)
from hloom.ir.op import ShapeError
from hloom.types.dtype import S32
from hloom.types.shape import UNBOUNDED, ProgramShape, Shape, shape, tuple_shape


def bundle(shapes: Sequence[Shape]) -> Shape:
    """The one shape, or the tuple of several."""
    return shapes[0].bare if len(shapes) == 1 else tuple_shape(s.bare for s in shapes)


def _arrays(inputs: Sequence[Shape], what: str) -> None:
    if not inputs:
        raise ShapeError(f"{what} needs at least one operand")
    for x in inputs:
        expect_array(x, f"an operand of {what}")


def check_combiner(combiner: ProgramShape, what: str) -> None:
    """What folds elements of two devices takes one of each."""
    count = len(combiner.parameters)
    if count != 2:
        raise ShapeError(f"to_apply of {what} takes an element of two devices, not {count}")


def all_reduce(inputs: Sequence[Shape], what: str) -> Shape:
    _arrays(inputs, what)
    return bundle(inputs)


def to_roots(operands: Sequence[Shape], has_dynamic_root: bool, what: str) -> Shape:
    """The inputs; without the last operand where that names the roots."""
    if not has_dynamic_root:
        return all_reduce(operands, what)
    if len(operands) < 2:
        raise ShapeError("has_dynamic_root needs an input and, behind the inputs, their roots")
    *inputs, roots = operands
    if not compatible(roots, shape(S32, (len(inputs),))):
        raise ShapeError(f"the roots must be s32[{len(inputs)}], not {roots.bare}")
    return all_reduce(inputs, what)


def _one_dimension(dimensions: Sequence[int], x: Shape) -> int:
    if len(dimensions) != 1 or not 0 <= dimensions[0] < x.rank:
        raise ShapeError(f"dimensions={braced(dimensions)} must name one of {x.bare}")
    return dimensions[0]


def _scaled(x: Shape, d: int, size: int) -> Shape:
    return shape(x.dtype, (*x.dims[:d], size, *x.dims[d + 1 :]), None, x.dynamic)


def _group_size(groups: Any) -> int:
    if not groups.group_size:
        raise ShapeError("the result depends on how many devices there are: give its shape")
    return groups.group_size


def _parts(declared: Shape, count: int, what: str) -> tuple[Shape, ...]:
    """The results of a collective of so many operands."""
    if count == 1:
        expect_array(declared, f"the result of {what}")
        return (declared,)
    if not declared.is_tuple or len(declared.elements) != count:
        raise ShapeError(
            f"{what} of {count} operands must give as many results, not {declared.bare}"
        )
    for part in declared.elements:
        expect_array(part, f"a result of {what}")
    return declared.elements


def all_gather(inputs: Sequence[Shape], dimensions: Sequence[int], groups: Any) -> Shape:
    """The result where the groups say how many devices take part."""
    _arrays(inputs, "all-gather")
    return _gathered(inputs, dimensions, _group_size(groups))


def _gathered(inputs: Sequence[Shape], dimensions: Sequence[int], shards: int) -> Shape:
    results = []
    for x in inputs:
        d = _one_dimension(dimensions, x)
        size = x.dims[d]
        results.append(_scaled(x, d, UNBOUNDED if size == UNBOUNDED else size * shards))
    return bundle(results)


def check_all_gather(declared: Shape, inputs: Sequence[Shape], dimensions: Sequence[int]) -> None:
    """The gathered dimension is a multiple of the operand's, the same for all operands."""
    _arrays(inputs, "all-gather")
    parts = _parts(declared, len(inputs), "all-gather")
    shards = shard_count(inputs[0], parts[0], dimensions) or 1
    must_match(declared, _gathered(inputs, dimensions, shards))


def shard_count(small: Shape, large: Shape, dimensions: Sequence[int]) -> int | None:
    """How many times the smaller shape fits into the larger one along dimensions[0]; not 0.

    None: any number of times, as nothing is put together, or nobody knows how much.
    """
    d = _one_dimension(dimensions, small)
    _one_dimension(dimensions, large)
    if UNBOUNDED in (small.dims[d], large.dims[d]) or not small.dims[d]:
        return None
    shards = -(-large.dims[d] // small.dims[d])
    if shards == 0:
        raise ShapeError(f"{large.bare} holds nothing, so no part {small.bare}")
    return shards


def all_gather_start(inputs: Sequence[Shape], dimensions: Sequence[int], groups: Any) -> Shape:
    return tuple_shape((bundle(inputs), all_gather(inputs, dimensions, groups)))


def check_all_gather_start(
    declared: Shape, inputs: Sequence[Shape], dimensions: Sequence[int]
) -> None:
    _arrays(inputs, "all-gather-start")
    if not declared.is_tuple or len(declared.elements) != 2:
        raise ShapeError(f"the shape must be (operands, results), not {declared.bare}")
    must_match(declared.elements[0], bundle(inputs))
    check_all_gather(declared.elements[1], inputs, dimensions)


def done(x: Shape, start: str) -> Shape:
    """The second element of what the start gave."""
    expect_tuple(x, f"the {start}", 2)
    return x.elements[1].bare


def reduce_scatter(inputs: Sequence[Shape], dimensions: Sequence[int], groups: Any) -> Shape:
    _arrays(inputs, "reduce-scatter")
    return _scattered(inputs, dimensions, _group_size(groups))


def _scattered(inputs: Sequence[Shape], dimensions: Sequence[int], shards: int) -> Shape:
    results = []
    for x in inputs:
        d = _one_dimension(dimensions, x)
        size = x.dims[d]
        if size != UNBOUNDED and size % shards:
            raise ShapeError(f"dimension {d} of {x.bare} cannot be cut into {shards} parts")
        results.append(_scaled(x, d, size if size == UNBOUNDED else size // shards))
    return bundle(results)


def check_reduce_scatter(
    declared: Shape, inputs: Sequence[Shape], dimensions: Sequence[int]
) -> None:
    _arrays(inputs, "reduce-scatter")
    parts = _parts(declared, len(inputs), "reduce-scatter")
    shards = shard_count(parts[0], inputs[0], dimensions) or 1
    must_match(declared, _scattered(inputs, dimensions, shards))


def all_to_all(inputs: Sequence[Shape], dimensions: Sequence[int] | None, groups: Any) -> Shape:
    _arrays(inputs, "all-to-all")
    size = groups.group_size
    if dimensions is None:
        if any(not compatible(x, inputs[0]) for x in inputs):
            raise ShapeError(f"operands of all-to-all must have one shape: {listed(inputs)}")
        if size and size != len(inputs):
            raise ShapeError(f"all-to-all in groups of {size} needs as many operands")
        return tuple_shape(x.bare for x in inputs)
    if len(inputs) != 1:
        raise ShapeError("all-to-all along a dimension takes one operand")
    x = inputs[0]
    d = _one_dimension(dimensions, x)
    if any(dynamic and s != UNBOUNDED for s, dynamic in zip(x.dims, x.dynamic)):
        raise ShapeError(f"all-to-all does not support bounded dynamic shapes: {x.bare}")
    if size and x.dims[d] != UNBOUNDED and x.dims[d] % size:
        raise ShapeError(f"dimension {d} of {x.bare} cannot be cut into {size} parts")
    return x.bare


def ragged_all_to_all(x: Shape, output: Shape, offsets: Sequence[Shape]) -> Shape:
    expect_array(x, "the operand of ragged-all-to-all")
    expect_array(output, "the output operand of ragged-all-to-all")
    for s in offsets:
        expect_array(s, "offsets and sizes")
        if s.rank not in (1, 2) or not compatible(s, offsets[0]):
            raise ShapeError(
                f"offsets and sizes must have one shape of rank 1 or 2: {listed(offsets)}"
            )
    return output.bare


def collective_permute(inputs: Sequence[Shape], in_place: bool) -> Shape:
    if in_place:
        if len(inputs) != 4:
            raise ShapeError(f"an in-place collective-permute has 4 operands, not {len(inputs)}")
        return inputs[1].bare
    return all_reduce(inputs, "collective-permute")


def permute_start(inputs: Sequence[Shape], in_place: bool, contexts: Sequence[Shape] = ()) -> Shape:
    if in_place:
        if len(inputs) != 4:
            raise ShapeError(f"an in-place collective-permute has 4 operands, not {len(inputs)}")
        pair = (inputs[0].bare, inputs[1].bare)
    else:
        if len(inputs) == 1:
            expect_array(inputs[0], "the operand of collective-permute-start")
        elif not inputs:
            raise ShapeError("collective-permute-start needs at least one operand")
        pair = (bundle(inputs), bundle(inputs))
    return tuple_shape((*pair, *contexts))


def check_permute_start(declared: Shape, inputs: Sequence[Shape], in_place: bool) -> None:
    contexts = declared.elements[2:] if declared.is_tuple else ()
    must_match(declared, permute_start(inputs, in_place, contexts))
