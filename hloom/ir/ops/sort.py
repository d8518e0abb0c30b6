"""Orders."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import data as infer
from hloom.ir.infer.control import check_sort_comparator
from hloom.ir.kinds import Bool, Dims, Int
from hloom.ir.op import Called, Operand, Operands, op
from hloom.ir.traits import CHANGES_LAYOUT, MIXES_FLOATS
from hloom.types.shape import Shape


@op("sort", CHANGES_LAYOUT, MIXES_FLOATS)
class Sort:
    """The inputs reordered together along dimensions[0] so that to_apply (less than) holds
    between neighbours.
    """

    inputs: Operands
    dimensions: Dims
    is_stable: Bool = False
    to_apply: Called

    def shape(self, *inputs: Shape, called: tuple) -> Shape:
        """The shape of the input; a tuple when there are several. to_apply takes two scalars of
        each and returns pred[].
        """
        result = infer.check_sort(None, inputs, self.dimensions)
        check_sort_comparator(inputs, called[0])
        return result


@op("topk", CHANGES_LAYOUT)
class Topk:
    """(values, s32 indices) of the k largest (smallest) elements of the last dimension, in
    order, lower index first.
    """

    x: Operand
    k: Int
    largest: Bool = True
    is_stable: Bool = False

    def shape(self, x: Shape) -> Shape:
        """(x with k in the last dimension, the same as s32)."""
        return infer.topk(x, self.k)
