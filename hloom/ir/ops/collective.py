"""Communication between the devices that run one program."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.kinds import Bool, Dims, Groups, Int, IntLists, Pairs, String
from hloom.ir.op import Called, Operand, Operands, op
from hloom.ir.values.groups import NO_GROUPS


@op("all-gather")
class AllGather:
    """Each input of every device of the group, concatenated along dimensions[0] in group order."""

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    dimensions: Dims
    constrain_layout: Bool = False
    use_global_device_ids: Bool = False


@op("all-reduce", side_effect=True)
class AllReduce:
    """to_apply folded over the inputs of every device of the group."""

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    constrain_layout: Bool = False
    use_global_device_ids: Bool = False
    mode: String = None
    to_apply: Called


@op("collective-permute")
class CollectivePermute:
    """What the source device gives; zeros where no pair names this device as target."""

    inputs: Operands
    channel_id: Int = None
    source_target_pairs: Pairs = ()
    slice_sizes: IntLists = ()


@op("all-gather-start")
class AllGatherStart:
    """Each input of every device of the group, concatenated along dimensions[0] in group order. Asynchronous: shape (inputs, outputs)."""

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    dimensions: Dims
    constrain_layout: Bool = False
    use_global_device_ids: Bool = False


@op("all-reduce-start", side_effect=True)
class AllReduceStart:
    """to_apply folded over the inputs of every device of the group. Asynchronous: has the shape of its result."""

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    constrain_layout: Bool = False
    use_global_device_ids: Bool = False
    mode: String = None
    to_apply: Called


@op("collective-permute-start")
class CollectivePermuteStart:
    """What the source device gives; zeros where no pair names this device as target. Asynchronous: shape (input, output, contexts...)."""

    inputs: Operands
    channel_id: Int = None
    source_target_pairs: Pairs = ()
    slice_sizes: IntLists = ()


@op("all-gather-done")
class AllGatherDone:
    """The result of the all-gather-start x."""

    x: Operand


@op("all-reduce-done")
class AllReduceDone:
    """The result of the all-reduce-start x."""

    x: Operand


@op("collective-permute-done")
class CollectivePermuteDone:
    """The result of the collective-permute-start x."""

    x: Operand


@op("all-to-all")
class AllToAll:
    """Piece j of device i becomes piece i of device j: pieces are the inputs (tuple form) or equal parts along dimensions[0]."""

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    constrain_layout: Bool = False
    dimensions: Dims = None


@op("collective-broadcast")
class CollectiveBroadcast:
    """The input of the first device of the group."""

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS


@op("ragged-all-to-all")
class RaggedAllToAll:
    """Slices of x of run-time offsets and sizes, sent to each device of the group and written into output."""

    x: Operand
    output: Operand
    input_offsets: Operand
    send_sizes: Operand
    output_offsets: Operand
    recv_sizes: Operand
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    dimensions: Dims = None


@op("reduce-scatter")
class ReduceScatter:
    """The device's own part along dimensions[0] of the all-reduce of the inputs."""

    inputs: Operands
    channel_id: Int = None
    replica_groups: Groups = NO_GROUPS
    constrain_layout: Bool = False
    use_global_device_ids: Bool = False
    dimensions: Dims
    mode: String = None
    to_apply: Called


@op("partition-id")
class PartitionId:
    """The partition this runs as, u32."""


@op("replica-id")
class ReplicaId:
    """The replica this runs as, u32."""
