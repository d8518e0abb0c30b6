"""Starts and dones, sends and recvs: who may follow whom."""

from collections.abc import Iterator

from hloom.base.diagnostics import VerifyError
from hloom.ir.computation import Computation
from hloom.ir.infer.compare import compatible
from hloom.ir.infer.control import begins
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.verify.rules import VerifyOptions, broken
from hloom.types.shape import Shape, tuple_shape

# For each opcode, what its only user may be.
FOLLOWED_BY = {
    "async-start": ("async-update", "async-done"),
    "async-update": ("async-update", "async-done"),
    "all-reduce-start": ("all-reduce-done",),
    "copy-start": ("copy-done",),
    "collective-permute-start": ("collective-permute-done",),
    "send": ("send-done", "tuple"),
    "recv": ("recv-done", "tuple"),
}
# For each opcode, what its operand may be.
PRECEDED_BY = {
    "async-update": ("async-start", "async-update"),
    "async-done": ("async-start", "async-update"),
    "all-reduce-done": ("all-reduce-start",),
    "copy-done": ("copy-start",),
    "collective-permute-done": ("collective-permute-start",),
    "send-done": ("send", "get-tuple-element"),
    "recv-done": ("recv", "get-tuple-element"),
}
TRANSFERS = ("send", "recv")
DONES = {"send": "send-done", "recv": "recv-done"}


def is_async_body(c: Computation) -> bool:
    return any(i.opcode == "async-start" for i in c.callers)


def _is_wrapped(i: Instruction) -> bool:
    """Whether it is a transfer that an async-start wraps, so has no user of its own."""
    return i.opcode in TRANSFERS and i.is_root and is_async_body(i.parent)


def check_pairs(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    """Chains of asynchronous operations are complete, of one shape and in one thread."""
    for c in module.computations:
        for i in c.instructions:
            followers = FOLLOWED_BY.get(i.opcode)
            if followers is not None and not _is_wrapped(i):
                yield from _check_follower(i, followers)
            leaders = PRECEDED_BY.get(i.opcode)
            if leaders is not None and i.operands[0].opcode not in leaders:
                yield broken(
                    "async-pair",
                    f"{i.opcode} needs {' or '.join(leaders)} as operand, "
                    f"not {i.operands[0].opcode}",
                    i,
                )
            if i.opcode == "async-start":
                thread = i.attrs.async_execution_thread
                if thread != i.called[0].execution_thread:
                    yield broken(
                        "thread",
                        f"async_execution_thread is {thread!r} but computation "
                        f"%{i.called[0].name} runs on {i.called[0].execution_thread!r}",
                        i,
                    )
                yield from _check_chain(i)
        if is_async_body(c):
            yield from _check_body(c)


def _check_follower(i: Instruction, followers: tuple[str, ...]) -> Iterator[VerifyError]:
    if len(i.users) != 1:
        yield broken("async-pair", f"{i.opcode} needs exactly one user, not {len(i.users)}", i)
        return
    (user,) = i.users
    if user.opcode not in followers:
        yield broken(
            "async-pair",
            f"{i.opcode} must be read by {' or '.join(followers)}, not %{user.name}",
            i,
        )


def _check_chain(start: Instruction) -> Iterator[VerifyError]:
    """Every step binds operands that the computation takes; before the done all are bound, and
    the done has the computation's result."""
    signature = start.called[0].program_shape
    takes = tuple_shape(p.bare for p in signature.parameters)
    if not (len(start.shape.elements) > 1 and begins(start.shape.elements[1], signature.result)):
        return  # the rule of shapes says so
    i = start
    while len(i.users) == 1:
        before = i
        (i,) = i.users
        if not (before.shape.is_tuple and len(before.shape.elements) > 1):
            return
        bound = before.shape.elements[0]
        if i.opcode == "async-update":
            chain = i.shape
            wrong = not chain.is_tuple or len(chain.elements) < 2
            if wrong or not _fits(chain, takes, signature.result):
                yield broken(
                    "async-shape",
                    f"the computation takes {takes} and makes {signature.result.bare}, "
                    f"but this is {i.shape.bare}",
                    i,
                )
            continue
        if i.opcode != "async-done":
            return
        if not compatible(bound, takes):
            yield broken("async-shape", f"the done needs {takes}, but {bound.bare} is bound", i)
        elif not compatible(i.shape, signature.result):
            yield broken(
                "async-shape",
                f"the computation makes {signature.result.bare} but this is {i.shape.bare}",
                i,
            )
        return


def _fits(chain: Shape, takes: Shape, result: Shape) -> bool:
    return begins(chain.elements[0], takes) and begins(chain.elements[1], result)


def _check_body(c: Computation) -> Iterator[VerifyError]:
    others = [i for i in c.instructions if i is not c.root and i.opcode != "parameter"]
    if not others or all(i.opcode == "get-tuple-element" for i in others):
        return
    # Groups of transfers may run as one, and so may collectives that say so.
    quiet = ("parameter", "tuple", "get-tuple-element", "after-all")
    transfers = (*TRANSFERS, *DONES.values())
    if all(i.opcode in quiet or i.opcode in transfers for i in c.instructions):
        return
    callers = list(c.callers)
    if len(callers) == 1 and "_collectives_group" in (callers[0].frontend_attributes or {}):
        return
    yield broken(
        "async-body", f"%{others[0].name} is neither parameter nor root of the computation", c
    )


def check_channels(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    """Sends and recvs that carry a channel id."""
    twins: dict[int, Instruction] = {}
    for c in module.computations:
        for i in c.instructions:
            if i.opcode not in TRANSFERS or i.attrs.channel_id is None:
                continue
            if i.attrs.is_host_transfer:
                first = twins.setdefault(i.attrs.channel_id, i)
                if first is not i and not _identical(first, i):
                    yield broken(
                        "channel-twins",
                        f"%{first.name} and %{i.name} are host transfers on channel "
                        f"{i.attrs.channel_id} but differ in more than their operands",
                        i,
                    )
            if _is_wrapped(i) or len(i.users) != 1:
                continue
            (done,) = i.users
            if done.opcode != DONES[i.opcode]:
                continue
            if done.attrs.channel_id != i.attrs.channel_id:
                yield broken(
                    "channel",
                    f"channel {i.attrs.channel_id} but %{done.name} has {done.attrs.channel_id}",
                    i,
                )
            if done.attrs.is_host_transfer != i.attrs.is_host_transfer:
                yield broken("channel", f"%{done.name} differs in is_host_transfer", i)


def _identical(a: Instruction, b: Instruction) -> bool:
    return (
        a.opcode == b.opcode
        and a.shape is b.shape
        and a.attrs == b.attrs
        and dict(a.frontend_attributes or {}) == dict(b.frontend_attributes or {})
        and a.backend_config == b.backend_config
        and [x.shape for x in a.operands] == [x.shape for x in b.operands]
    )
