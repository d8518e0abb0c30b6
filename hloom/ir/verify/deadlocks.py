"""Order of sends and recvs between devices in a scheduled module: none may wait for ever.

A walk over the program in program order, calls included. After an unmatched send only matching
recvs (or sends that do not disturb it) may come, and the other way round, until all are matched;
other collectives may not come in between. Only asked with `check_deadlocks`.
"""

import re
from collections.abc import Iterator, Mapping

from hloom.base.diagnostics import VerifyError
from hloom.ir.computation import Computation
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.module import Module
from hloom.ir.verify.pairs import is_async_body
from hloom.ir.verify.rules import VerifyOptions, broken

PAIRS = "_xla_send_recv_source_target_pairs"
PIPELINE = "_xla_send_recv_pipeline"
_PAIR = re.compile(r"\{\s*(-?\d+)\s*,\s*(-?\d+)\s*\}")
_OTHER = {"send": "recv", "recv": "send"}


class _State:
    """The transfers waiting for their other half, and which kind of them it is."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Instruction]] = {"send": [], "recv": []}
        self.expected: str | None = None


def check_deadlocks(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    """See the module docstring; nothing is asked of a module without schedule."""
    if module.schedule is None or not options.check_deadlocks:
        return
    yield from _walk(module.entry)


def _walk(entry: Computation) -> Iterator[VerifyError]:
    outer = _State()
    stack: list[tuple[Iterator[Instruction], _State]] = [(iter(entry.instructions), outer)]
    while stack:
        steps, state = stack[-1]
        i = next(steps, None)
        if i is None:
            stack.pop()
            if not stack or stack[-1][1] is not state:
                yield from _check_rest(state)
            continue
        if i.called and i.opcode not in COLLECTIVES:
            for c in reversed(i.called):
                grouped = is_async_body(c) and len(c.instructions) > len(c.parameters) + 1
                stack.append((iter(c.instructions), _State() if grouped else state))
            continue
        error = None
        if i.opcode in _OTHER:
            error = _transfer(i, state)
        elif i.opcode in COLLECTIVES and state.expected is not None:
            error = broken("deadlock", f"a {state.expected} must come before this", i)
        if error is not None:
            yield error
            return


def pairs_of(i: Instruction) -> list[tuple[int, int]]:
    """The source-target pairs in the frontend attributes of a transfer."""
    attributes: Mapping[str, str] = i.frontend_attributes or {}
    return [(int(a), int(b)) for a, b in _PAIR.findall(attributes.get(PAIRS, ""))]


def _conflict(pairs: list[tuple[int, int]]) -> bool:
    """Whether a device is twice source or twice target, or the pairs form a cycle."""
    following = dict(pairs)
    if len(following) != len(pairs) or len({t for _, t in pairs}) != len(pairs):
        return True
    done: set[int] = set()
    for start in following:
        path: set[int] = set()
        device = start
        while device in following and device not in done:
            if device in path:
                return True
            path.add(device)
            device = following[device]
        done |= path
    return False


def _transfer(i: Instruction, state: _State) -> VerifyError | None:
    if i.attrs.is_host_transfer or PIPELINE in (i.frontend_attributes or {}):
        return None
    mine = pairs_of(i)
    if _conflict(mine):
        return broken("deadlock", "its source-target pairs repeat a device or form a cycle", i)
    kind, other = i.opcode, _OTHER[i.opcode]
    same, opposite = state.waiting[kind], state.waiting[other]
    if state.expected is None:
        same.append(i)
        state.expected = other
    elif state.expected == other:
        if any(_conflict(mine + pairs_of(x)) for x in same):
            return broken("deadlock", f"a {other} must come before this", i)
        same.append(i)
    else:
        match = next((x for x in opposite if pairs_of(x) == mine), None)
        if match is None:
            same.append(i)
        else:
            opposite.remove(match)
            if not opposite:
                state.expected = None
    return None


def _check_rest(state: _State) -> Iterator[VerifyError]:
    if state.expected is None:
        return
    recvs = list(state.waiting["recv"])
    for i in state.waiting["send"]:
        match = next((x for x in recvs if pairs_of(x) == pairs_of(i)), None)
        if match is None:
            yield broken("deadlock", "no recv matches it", i)
            return
        recvs.remove(match)
    if recvs:
        yield broken("deadlock", "no send matches it", recvs[0])
