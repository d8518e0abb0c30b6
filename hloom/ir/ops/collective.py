"""Communication between the devices that run one program."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import collective as infer
from hloom.ir.infer.compare import scalar
from hloom.ir.kinds import Bool, Dims, Groups, Int, IntLists, Pairs, enumeration
from hloom.ir.op import Called, Operand, Operands, op
from hloom.ir.traits import (
    ANY_PRECISION,
    ASYNC,
    CHANGES_LAYOUT,
    CHECKED_TYPE,
    COLLECTIVE,
    DEVICE_ID,
    FORWARDS,
    FREE,
    MIXES_FLOATS,
    SHAPE_IN_TEXT,
    SIDE_EFFECT,
)
from hloom.ir.values.groups import NO_GROUPS
from hloom.types.dtype import U32
from hloom.types.shape import Shape

GroupMode = enumeration(
    "group mode",
    "cross_replica",
    "cross_partition",
    "cross_replica_and_partition",
    "flattened_id",
)


@op("all-gather", COLLECTIVE, SHAPE_IN_TEXT, MIXES_FLOATS, CHECKED_TYPE)
class AllGather:
    """Each input of every device of the group, concatenated along dimensions[0] in group order."""

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    dimensions: Dims
    constrain_layout: Bool = False
    use_global_device_ids: Bool = False

    def shape(self, *inputs: Shape) -> Shape:
        """Each input with dimensions[0] multiplied by the group size; a tuple when there are
        several.
        """
        return infer.all_gather(inputs, self.dimensions, self.replica_groups)

    def check(self, declared: Shape, *inputs: Shape) -> None:
        infer.check_all_gather(declared, inputs, self.dimensions)


@op("all-reduce", COLLECTIVE, SHAPE_IN_TEXT, MIXES_FLOATS)
class AllReduce:
    """to_apply folded over the inputs of every device of the group."""

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    constrain_layout: Bool = False
    use_global_device_ids: Bool = False
    mode: GroupMode = None
    to_apply: Called

    def shape(self, *inputs: Shape, called: tuple) -> Shape:
        """The shape of the input; a tuple when there are several."""
        infer.check_combiner(called[0], "all-reduce")
        return infer.all_reduce(inputs, "all-reduce")


@op("collective-permute", COLLECTIVE, SHAPE_IN_TEXT, MIXES_FLOATS)
class CollectivePermute:
    """What the source device gives; zeros where no pair names this device as target."""

    inputs: Operands
    channel_id: Int = None
    source_target_pairs: Pairs = ()
    slice_sizes: IntLists = ()

    def shape(self, *inputs: Shape) -> Shape:
        """The shape of the input, a tuple when there are several; of the second operand when in
        place.
        """
        return infer.collective_permute(inputs, bool(self.slice_sizes))


@op(
    "all-gather-start",
    SIDE_EFFECT,
    ASYNC,
    COLLECTIVE,
    SHAPE_IN_TEXT,
    MIXES_FLOATS,
    CHECKED_TYPE,
    start_of="all-gather",
)
class AllGatherStart:
    """Each input of every device of the group, concatenated along dimensions[0] in group order.
    Asynchronous: shape (inputs, outputs).
    """

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    dimensions: Dims
    constrain_layout: Bool = False
    use_global_device_ids: Bool = False

    def shape(self, *inputs: Shape) -> Shape:
        """(inputs, results), each a tuple when there are several."""
        return infer.all_gather_start(inputs, self.dimensions, self.replica_groups)

    def check(self, declared: Shape, *inputs: Shape) -> None:
        infer.check_all_gather_start(declared, inputs, self.dimensions)


@op(
    "all-reduce-start",
    SIDE_EFFECT,
    ASYNC,
    COLLECTIVE,
    SHAPE_IN_TEXT,
    MIXES_FLOATS,
    start_of="all-reduce",
)
class AllReduceStart:
    """to_apply folded over the inputs of every device of the group. Asynchronous: has the shape
    of its result.
    """

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    constrain_layout: Bool = False
    use_global_device_ids: Bool = False
    mode: GroupMode = None
    to_apply: Called

    def shape(self, *inputs: Shape, called: tuple) -> Shape:
        """The shape of the input; a tuple when there are several."""
        infer.check_combiner(called[0], "all-reduce-start")
        return infer.all_reduce(inputs, "all-reduce-start")


@op(
    "collective-permute-start",
    SIDE_EFFECT,
    ASYNC,
    COLLECTIVE,
    SHAPE_IN_TEXT,
    MIXES_FLOATS,
    CHECKED_TYPE,
    start_of="collective-permute",
)
class CollectivePermuteStart:
    """What the source device gives; zeros where no pair names this device as target.
    Asynchronous: shape (input, output, contexts...).
    """

    inputs: Operands
    channel_id: Int = None
    source_target_pairs: Pairs = ()
    slice_sizes: IntLists = ()

    def shape(self, *inputs: Shape) -> Shape:
        """(inputs, results, contexts...)."""
        return infer.permute_start(inputs, bool(self.slice_sizes))

    def check(self, declared: Shape, *inputs: Shape) -> None:
        infer.check_permute_start(declared, inputs, bool(self.slice_sizes))


@op(
    "all-gather-done",
    SIDE_EFFECT,
    ASYNC,
    SHAPE_IN_TEXT,
    MIXES_FLOATS,
    done_of="all-gather-start",
    result_index=(1,),
)
class AllGatherDone:
    """The result of the all-gather-start x."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The second element of the start's shape."""
        return infer.done(x, "all-gather-start")


@op(
    "all-reduce-done",
    FORWARDS,
    SIDE_EFFECT,
    ASYNC,
    SHAPE_IN_TEXT,
    MIXES_FLOATS,
    done_of="all-reduce-start",
    result_index=(),
)
class AllReduceDone:
    """The result of the all-reduce-start x."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The shape of the start."""
        return x.bare


@op(
    "collective-permute-done",
    SIDE_EFFECT,
    ASYNC,
    SHAPE_IN_TEXT,
    MIXES_FLOATS,
    done_of="collective-permute-start",
    result_index=(1,),
)
class CollectivePermuteDone:
    """The result of the collective-permute-start x."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The second element of the start's shape."""
        return infer.done(x, "collective-permute-start")


@op("all-to-all", COLLECTIVE, SHAPE_IN_TEXT)
class AllToAll:
    """Piece j of device i becomes piece i of device j: pieces are the inputs (tuple form) or
    equal parts along dimensions[0].
    """

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    constrain_layout: Bool = False
    dimensions: Dims = None

    def shape(self, *inputs: Shape) -> Shape:
        """The shape of the input, whose dimensions[0] the group size divides; without dimensions a
        tuple of the inputs, which have one shape and are as many as the group.
        """
        return infer.all_to_all(inputs, self.dimensions, self.replica_groups)


@op("collective-broadcast", COLLECTIVE, SHAPE_IN_TEXT)
class CollectiveBroadcast:
    """The input of the first device of the group; with has_dynamic_root the last operand says for
    each input which device of the group gives it.
    """

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    has_dynamic_root: Bool = False

    def shape(self, *inputs: Shape) -> Shape:
        """The shape of the input; a tuple when there are several. Roots are s32[inputs]."""
        return infer.to_roots(inputs, self.has_dynamic_root, "collective-broadcast")


@op("collective-reduce", COLLECTIVE, SHAPE_IN_TEXT)
class CollectiveReduce:
    """to_apply folded over the inputs of every device of the group, on the first device of the
    group; zeros on the others. With has_dynamic_root the last operand says for each input which
    device of the group gets it.
    """

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    constrain_layout: Bool = False
    use_global_device_ids: Bool = False
    has_dynamic_root: Bool = False
    to_apply: Called

    def shape(self, *inputs: Shape, called: tuple) -> Shape:
        """The shape of the input; a tuple when there are several. Roots are s32[inputs]."""
        infer.check_combiner(called[0], "collective-reduce")
        return infer.to_roots(inputs, self.has_dynamic_root, "collective-reduce")


@op("ragged-all-to-all", COLLECTIVE, SHAPE_IN_TEXT)
class RaggedAllToAll:
    """Slices of x of run-time offsets and sizes, sent to each device of the group and written
    into output.
    """

    x: Operand
    output: Operand
    input_offsets: Operand
    send_sizes: Operand
    output_offsets: Operand
    recv_sizes: Operand
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    dimensions: Dims = None

    def shape(
        self,
        x: Shape,
        output: Shape,
        input_offsets: Shape,
        send_sizes: Shape,
        output_offsets: Shape,
        recv_sizes: Shape,
    ) -> Shape:
        """The shape of output; offsets and sizes have one shape of rank 1 or 2."""
        offsets = (input_offsets, send_sizes, output_offsets, recv_sizes)
        return infer.ragged_all_to_all(x, output, offsets)


@op("reduce-scatter", COLLECTIVE, SHAPE_IN_TEXT, CHECKED_TYPE)
class ReduceScatter:
    """The device's own part along dimensions[0] of the all-reduce of the inputs."""

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    constrain_layout: Bool = False
    use_global_device_ids: Bool = False
    dimensions: Dims
    mode: GroupMode = None
    to_apply: Called

    def shape(self, *inputs: Shape, called: tuple) -> Shape:
        """Each input with dimensions[0] divided by the group size; a tuple of several."""
        return infer.reduce_scatter(inputs, self.dimensions, self.replica_groups)

    def check(self, declared: Shape, *inputs: Shape, called: tuple) -> None:
        infer.check_combiner(called[0], "reduce-scatter")
        infer.check_reduce_scatter(declared, inputs, self.dimensions)


@op("partition-id", FREE, DEVICE_ID, CHANGES_LAYOUT, ANY_PRECISION)
class PartitionId:
    """The partition this runs as, u32."""

    def shape(self) -> Shape:
        """u32[]."""
        return scalar(U32)


@op("replica-id", FREE, DEVICE_ID, CHANGES_LAYOUT, ANY_PRECISION)
class ReplicaId:
    """The replica this runs as, u32."""

    def shape(self) -> Shape:
        """u32[]."""
        return scalar(U32)
