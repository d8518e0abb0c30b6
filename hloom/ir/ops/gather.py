"""Indexed reads and writes."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import gather as infer
from hloom.ir.kinds import Bool, Dims, Int
from hloom.ir.op import Called, Operand, Operands, op
from hloom.ir.traits import CHANGES_LAYOUT, CHOOSES, MOVES, READS_PART
from hloom.types.shape import Shape


@op("gather", CHOOSES, READS_PART, MOVES, CHANGES_LAYOUT)
class Gather:
    """Slices of x taken at the index vectors in indices (clamped inside x)."""

    x: Operand
    indices: Operand
    offset_dims: Dims = ()
    collapsed_slice_dims: Dims = ()
    start_index_map: Dims = ()
    operand_batching_dims: Dims = ()
    start_indices_batching_dims: Dims = ()
    index_vector_dim: Int
    slice_sizes: Dims
    indices_are_sorted: Bool = False

    def shape(self, x: Shape, indices: Shape) -> Shape:
        """One dimension for each of indices but index_vector_dim, in order, and at offset_dims the
        slice_sizes that are neither collapsed nor batching.
        """
        return infer.gather(self, x, indices)


@op("scatter")
class Scatter:
    """n operands, indices, n updates: to_apply combines each update into the operand at its
    index; out of bounds updates are dropped.
    """

    inputs: Operands
    update_window_dims: Dims = ()
    inserted_window_dims: Dims = ()
    scatter_dims_to_operand_dims: Dims = ()
    input_batching_dims: Dims = ()
    scatter_indices_batching_dims: Dims = ()
    index_vector_dim: Int
    indices_are_sorted: Bool = False
    unique_indices: Bool = False
    to_apply: Called

    def shape(self, *inputs: Shape, called: tuple) -> Shape:
        """The shape of the operand; a tuple when there are several. The updates have the dimensions
        of indices but index_vector_dim, and the window at update_window_dims.
        """
        return infer.scatter(self, inputs, called)
