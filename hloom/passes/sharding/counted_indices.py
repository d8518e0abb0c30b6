"""Index vectors that count along a dimension of their own: `x[i, index[i, j]]`.

Programs often write batches of reads as an iota beside the indices, in one array. Batch i reads in
row i then, and a device that has some of the batches needs only those rows, as where the program
says `operand_batching_dims`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.types.shape import Shape


def counted_by_gather(i: Instruction) -> dict[int, int]:
    """Dimensions of a gather's indices, and those of its operand that they count along."""
    a = i.attrs
    x, indices = i.operands
    single = a.collapsed_slice_dims
    return _counted_dimensions(indices, a.index_vector_dim, a.start_index_map, x.shape, single)


def counted_by_scatter(i: Instruction) -> dict[int, int]:
    """Dimensions of a scatter's indices, and those of its operands that they count along."""
    a = i.attrs
    x, indices = i.operands[0], i.operands[len(i.operands) // 2]
    places, single = a.scatter_dims_to_operand_dims, a.inserted_window_dims
    return _counted_dimensions(indices, a.index_vector_dim, places, x.shape, single)


def _counted_dimensions(
    indices: Instruction, vector_dim: int, places: Sequence[int], x: Shape, single: Sequence[int]
) -> dict[int, int]:
    """For dimensions of `indices`: the one of `x` in which its index is that dimension's own.

    `places` says of each component of an index vector which dimension it indexes, `single` of
    which dimensions one element is taken. Both dimensions have one size.
    """
    counted: dict[int, int] = {}
    dims = indices.shape.dims
    for component, d in enumerate(places):
        if d not in single:
            continue
        own = _counted(indices, vector_dim, component)
        if own is not None and own not in counted and dims[own] == x.dims[d]:
            counted[own] = d
    return counted


def _counted(x: Instruction, vector_dim: int | None, component: int) -> int | None:
    """The dimension along which a component of index vectors is 0, 1, 2, ...; None: along none.
    `vector_dim` is None, or the rank, where all of x is that component."""
    if x.opcode == "iota":
        d = x.attrs.iota_dimension
        return None if d == vector_dim else d
    if x.opcode == "copy" or (x.opcode == "convert" and _holds(x)):
        return _counted(x.operands[0], vector_dim, component)
    if x.opcode == "concatenate" and x.attrs.dimensions[0] == vector_dim:
        return _counted_piece(x, component)
    if x.opcode == "broadcast":
        kept = x.attrs.dimensions
        inside = kept.index(vector_dim) if vector_dim in kept else None
        own = _counted(x.operands[0], inside, component)
        return None if own is None else kept[own]
    if x.opcode == "reshape":
        return _counted_reshaped(x, vector_dim, component)
    return None


def _counted_piece(x: Instruction, component: int) -> int | None:
    """In that operand of a concatenation of index vectors which has the component."""
    vector_dim = x.attrs.dimensions[0]
    for piece in x.operands:
        count = piece.shape.dims[vector_dim]
        if component < count:
            return _counted(piece, vector_dim, component)
        component -= count
    return None


def _counted_reshaped(x: Instruction, vector_dim: int | None, component: int) -> int | None:
    """Through a reshape that adds or drops dimensions of one element only."""
    inner = [d for d, n in enumerate(x.operands[0].shape.dims) if n != 1]
    outer = [d for d, n in enumerate(x.shape.dims) if n != 1]
    sizes = [x.operands[0].shape.dims[d] for d in inner]
    if sizes != [x.shape.dims[d] for d in outer]:
        return None
    inside = inner[outer.index(vector_dim)] if vector_dim in outer else None
    own = _counted(x.operands[0], inside, component)
    return outer[inner.index(own)] if own in inner else None


def _holds(x: Instruction) -> bool:
    """Whether a conversion of numbers from 0 on keeps each of them."""
    to, largest = x.shape.dtype, max(x.shape.dims, default=0)
    from_integer = x.operands[0].shape.dtype.is_integral
    return from_integer and to.is_integral and largest <= 2 ** (to.bits - 1)
