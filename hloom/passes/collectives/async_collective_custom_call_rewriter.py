"""Custom calls `all-gather-start` and `all-gather-done`, and their like, as collectives in halves.

Front ends that have no words for halves of collectives call them by name. What a start is to do
says its attribute `async_collective_config`, or its backend config: JSON with groups and dimensions
by the names that StableHLO has for them. Groups without a channel are those of partitions where
there are only partitions; with a channel they are those of all devices where they name more than
there are replicas; an all-reduce whose call names no computation adds.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.values.groups import ReplicaGroups
from hloom.ir.verify import violations
from hloom.passes.collectives.async_collective_creator import AsyncCollectiveCreator
from hloom.passes.computation_pass import settle
from hloom.passes.expand.expansion import (
    Combiners,
    ExpandError,
    Expansion,
    move_control_edges,
    refuse,
)
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace

CONFIG = "async_collective_config"
START, DONE = "-start", "-done"
PAIRS = ("source_target_pairs", "permutation")
"""Under which names a config says who sends to whom; the second is JAX's."""
KNOWN = frozenset(
    "all_gather_dimension all_gather_dim scatter_dimension split_dimension concat_dimension"
    " split_count tiled replica_groups use_global_device_ids channel_id channel_handle".split()
).union(PAIRS)
"""What configs are known to say."""


@register
class AsyncCollectiveCustomCallRewriter(Pass):
    """Replace custom calls `all-gather-start` and `all-gather-done`, and so on, by collectives in
    halves."""

    name = "async-collective-custom-call-rewriter"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        combiners: Combiners = {}
        changed = []
        for c in on_threads(module, threads):
            for done in [i for i in c.in_order() if _kind(i, DONE)]:
                (start,) = done.operands if len(done.operands) == 1 else (None,)
                kind = _kind(done, DONE)
                if start is None or kind is None or _kind(start, START) != kind:
                    raise refuse(
                        done,
                        f"{kind}{DONE} waits for nothing that a call of {kind}{START} began",
                        "async-collective",
                        f"let it read the custom call {kind}{START} itself",
                    )
                if len(start.users) > 1 or start.is_root:
                    raise refuse(start, "what it began is awaited twice", "async-collective")
                _rewrite(Expansion(c, combiners), kind, start, done)
                fired[kind] += 1
                changed.append(c)
        settle(module, dict.fromkeys(changed))
        if changed:
            _check(module)
        return PassResult.of(fired)


def _check(module: Module) -> None:
    """Refuse calls whose shapes or groups are not those of what they ask for: nothing looked at
    them while they were opaque."""
    for error in violations(module):
        raise ExpandError(
            f"the collective that custom calls ask for cannot be: {error.message}",
            instruction=error.instruction,
            rule="async-collective",
            hint="give both halves the shape of its result, and the groups and dimensions it needs",
        )


def _dimension_names(kind: str) -> tuple[str, ...]:
    """Under which names a config says along which dimension a collective works, if along one."""
    match kind:
        case "all-gather":
            return "all_gather_dimension", "all_gather_dim"
        case "reduce-scatter":
            return ("scatter_dimension",)
        case "all-to-all":
            return ("split_dimension",)
        case _:
            return ()


def _kind(i: Instruction, half: str) -> str | None:
    """The collective of which a custom call is a half."""
    if i.opcode != "custom-call" or not i.attrs.custom_call_target.endswith(half):
        return None
    kind = i.attrs.custom_call_target.removesuffix(half)
    return kind if kind in COLLECTIVES else None


def _rewrite(b: Expansion, kind: str, start: Instruction, done: Instruction) -> None:
    """A start and a done in the place of two calls; what a collective cannot say in halves is made
    where it began."""
    config = _config(start)
    collective, result = _collective(b, kind, start, done, config)
    if result is collective:
        first = len(b.added)
        result = AsyncCollectiveCreator().expand(b, collective) or collective
        if result is not collective:
            collective, halves = result.operands[0], b.added[first:]
            assert collective in halves
    collective.metadata, result.metadata = start.metadata, done.metadata
    if start.frontend_attributes is not None:
        collective.frontend_attributes = start.frontend_attributes.without(CONFIG)
    result.sharding = done.sharding
    c = b.computation
    move_control_edges(start, [collective], [collective])
    move_control_edges(done, [result], [result])
    c.replace(done, result)
    c.erase(done)
    c.erase(start)
    for x in reversed(b.added):
        if not x.users and not x.is_root and x.opcode in COLLECTIVES:
            c.erase(x)


def _config(start: Instruction) -> dict[str, Any]:
    """What a start is to do."""
    text = (start.frontend_attributes or {}).get(CONFIG)
    if text is None and start.backend_config is not None:
        text = start.backend_config.raw
    try:
        config = json.loads(text or "{}")
    except ValueError:
        config = None
    if not isinstance(config, dict):
        raise refuse(
            start,
            f"{CONFIG} is no JSON object: {text}",
            "async-collective",
            'write {"replica_groups":[[0,1]],...}',
        )
    if unknown := sorted(config.keys() - KNOWN):
        what = f"{CONFIG} says {', '.join(unknown)}, of which nothing is known"
        raise refuse(start, what, "async-collective", f"known: {', '.join(sorted(KNOWN))}")
    return config


def _collective(
    b: Expansion, kind: str, start: Instruction, done: Instruction, config: dict[str, Any]
) -> tuple[Instruction, Instruction]:
    """The collective at once, and what is made of it."""
    names = {f.name for f in OPS[kind].fields}
    attributes: dict[str, Any] = {}
    if "source_target_pairs" in names:
        name = next((x for x in PAIRS if x in config), None)
        if name is None:
            raise refuse(start, f"{CONFIG} does not say {PAIRS[0]}", "async-collective")
        attributes["source_target_pairs"] = _integers(start, config, name)
        groups = ()
    else:
        groups = _integers(start, config, "replica_groups")
        attributes["replica_groups"] = ReplicaGroups(groups)
    channel, is_global = _channel(b, config, groups)
    attributes["channel_id"] = channel
    if "use_global_device_ids" in names:
        attributes["use_global_device_ids"] = is_global
    config_names = _dimension_names(kind)
    for name in config_names:
        if name in config:
            attributes["dimensions"] = (_dimension(start, config[name]),)
    if config_names and "dimensions" not in attributes:
        raise refuse(start, f"{CONFIG} does not say {config_names[0]}", "async-collective")
    called = start.called
    if not called and OPS[kind].called:
        called = (b.combiner("add", start.operands[0].shape.dtype),)
    split = attributes.get("dimensions", (0,))[0]
    joined = _dimension(start, config.get("concat_dimension", split))
    if kind == "all-to-all" and joined != split:
        x = start.operands[0]
        whole = b.emit(kind, x, shape=x.shape, **attributes)
        return whole, _joined(b, whole, split, joined, done)
    new = b.emit(kind, *start.operands, called=called, shape=done.shape, **attributes)
    return new, new


def _dimension(start: Instruction, of: Any) -> int:
    """A dimension of what a call exchanges, or an error."""
    rank = start.operands[0].shape.rank if start.operands else 0
    if isinstance(of, int) and 0 <= of < max(rank, 1):
        return of
    what = f"dimension {of} of {CONFIG} is none of the {rank} of what is exchanged"
    raise refuse(start, what, "async-collective")


def _joined(
    b: Expansion, whole: Instruction, split: int, joined: int, done: Instruction
) -> Instruction:
    """What came from each device one behind the other along another dimension than they were cut
    along."""
    dims = whole.shape.dims
    tile = done.shape.dims[split]
    parts = b.reshaped(
        whole, (*dims[:split], dims[split] // max(tile, 1), tile, *dims[split + 1 :])
    )
    order = [d for d in range(len(dims) + 1) if d != split]
    order.insert(joined, split)
    return b.reshaped(b.transposed(parts, order), done.shape.dims)


def _channel(
    b: Expansion, config: dict[str, Any], groups: tuple[tuple[int, ...], ...]
) -> tuple[int | None, bool]:
    """The channel, and whether ids are those of all devices: where nothing says it, they are if
    there are not so many replicas."""
    channel = config.get("channel_id", config.get("channel_handle"))
    if isinstance(channel, dict):
        channel = channel.get("handle")
    beyond = any(x >= b.module.replica_count for group in groups for x in group)
    is_global = bool(config.get("use_global_device_ids", channel is not None and beyond))
    if channel is None and b.module.replica_count == 1 and b.module.num_partitions > 1:
        used = [getattr(i.attrs, "channel_id", None) or 0 for i in b.module.instructions()]
        return max(used) + 1, True
    return None if channel is None else int(channel), is_global


def _integers(start: Instruction, config: dict[str, Any], name: str) -> tuple[tuple[int, ...], ...]:
    """Lists of ids."""
    lists = config.get(name, [])
    try:
        return tuple([tuple([int(x) for x in row]) for row in lists])
    except (TypeError, ValueError):
        raise refuse(
            start, f"{name} of {CONFIG} are no lists of ids: {lists}", "async-collective"
        ) from None
