"""The names of the rules, the options of the verifier, and how an error is made."""

from dataclasses import dataclass

from hloom.base.diagnostics import VerifyError
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction

RULES = {
    "entry": "A module has an entry computation, which is no fusion body.",
    "devices": "A module runs as at least one replica and one partition, on 2^20 devices at most.",
    "opcode": "Every opcode is one of the 133.",
    "owner": "An instruction belongs to the computation that holds it, and that to its module.",
    "operands": "Operands are in the same computation as their reader.",
    "operand-count": "An operation has as many operands as its declaration says.",
    "called": "Called computations are as many as declared, and in the module.",
    "users": "The users of a value are exactly the instructions that read it.",
    "callers": "The callers of a computation are exactly the instructions that call it.",
    "root": "A computation has one root, one of its instructions.",
    "parameters": "Parameters are numbered 0, 1, 2, ..., each number once.",
    "names": "Names of instructions are unique in their computation, names of computations in "
    "the module.",
    "control": "Control edges join instructions of one computation and are known at both ends.",
    "cycle": "No value depends on itself.",
    "recursion": "No computation calls itself, directly or indirectly.",
    "shape": "The shape of an instruction is the one that follows from its operands.",
    "unbounded": "Sizes without a bound are allowed only on request.",
    "attribute": "Attributes have values that the operation has words for.",
    "precision": "Floats of different precision meet only where an operation admits it.",
    "layout": "A layout names each dimension once.",
    "async-pair": "A start has one user, the next of its chain, and a done has a start.",
    "async-shape": "A chain binds what its computation takes; the done has its result.",
    "async-body": "An asynchronous computation holds one operation on its parameters.",
    "thread": "Fused bodies, loops and branches run in the thread of their caller, asynchronous "
    "computations in that named by async-start.",
    "channel": "A send or recv has one user; its done has the same channel and host flag.",
    "channel-twins": "Host transfers that share a channel differ in their operands only.",
    "groups": "Replica groups hold every device once, in groups of one size.",
    "group-mode": "Global device ids need a channel, and groups that are written out.",
    "shards": "What is gathered or scattered is a multiple of the group size.",
    "pairs": "Each device is at most once source and once target, and exists.",
    "in-place": "Offsets of an in-place collective-permute fit the rank of their buffers.",
    "all-reduce": "Channel ids are positive; all-reduces all constrain their layout, or none.",
    "fusion": "A fused body has one caller; its values are used, but for the root.",
    "call-aliasing": "A call has no output_to_operand_aliasing.",
    "composite": "A composite call has a name, attributes and a version that are valid.",
    "aliasing": "Aliased parts of output and operand exist and have the same shape.",
    "scale": "A scalar scale of scaled-dot is 1.",
    "accuracy": "A result accuracy stands only on functions that have one.",
    "sharding": "A sharding fits the shape and the devices it is for.",
    "loop-sharding": "Shardings of a loop and its state, or of a branch and its results, agree.",
    "buffer": "Pin, CreateBuffer and Unpin have the operands and results that they need.",
    "custom-call-form": "A custom call whose target means one thing everywhere (LAPACK, TopK, Qr, "
    "Sharding and the like) has the operands, results and attributes that it takes.",
    "buffer-aliasing": "Each buffer operand of a custom call is aliased to one buffer result.",
    "buffer-writer": "A buffer value has at most one writer.",
    "buffer-place": "Buffers pass through tuples, loops, calls and custom calls only.",
    "entry-layout": "The entry layout has the shapes of the entry's parameters and result.",
    "input-output-alias": "Aliased outputs and parameters exist, once each, and must-aliases "
    "have the same shape and layout.",
    "buffer-donor": "Donated parameters exist and are not aliased as well.",
    "schedule": "A schedule runs every instruction once, after what it depends on.",
    "original-value": "An original value has the leaves of its instruction's shape.",
    "layout-change": "Only operations that may change a layout do.",
    "layout-same": "Values that are passed on keep their layout.",
    "bitcast-size": "A bitcast keeps the size in bytes.",
    "host-copy": "A copy between host and device changes neither type nor layout.",
    "deadlock": "Sends and recvs between devices come in an order that cannot block.",
}
"""Every rule with a sentence; the key is `VerifyError.rule`."""


@dataclass(frozen=True)
class VerifyOptions:
    """What is asked beyond the rules that always hold; the defaults are those of XLA:CPU."""

    allow_mixed_precision: bool = True
    """Let floats of different precision meet, as bf16 and f32 do in many pipelines."""
    layout_sensitive: bool = False
    """Compare layouts too, as after layout assignment."""
    allow_unbounded: bool = False
    """Allow sizes without a bound (`?`)."""
    check_shardings: bool = True
    check_layout_changes: bool = False
    """With `layout_sensitive`: only copy and its like may change a layout."""
    check_deadlocks: bool = False
    """In scheduled modules, check the order of sends and recvs between devices."""


def broken(
    rule: str, message: str, at: Instruction | Computation | None = None, hint: str | None = None
) -> VerifyError:
    """The error for a broken rule; only called when one is."""
    place = None
    if isinstance(at, Instruction):
        place = f"{at.parent.name}/%{at.name}"
    elif isinstance(at, Computation):
        place = f"%{at.name}"
    return VerifyError(message, instruction=place, rule=rule, hint=hint)
