"""On which devices is a value the same?

Each leaf of each value has one label a device; devices with equal labels hold equal arrays. What
all devices compute alike has one label, what nobody knows has as many as there are devices.
Operations merge the labels of what they read; collectives give those of a group the labels of all
its members, which are the same for each of them. Loops run to a fixed point.

A computation that more than one place calls is not followed: its values are unique, as is
what a custom call, a side effect or an asynchronous half hands on.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache

from hloom.ir.computation import Computation
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import ASYNC, FORWARDS, SIDE_EFFECT
from hloom.ir.values.group_modes import device_groups, device_pairs, group_mode
from hloom.types.shape import Shape

Labels = tuple[int, ...]
"""One number a device, by global id; the first device with a value gives it its number."""
Value = Labels | list["Value"]
"""Of an array its labels, of a tuple a list of its elements' values."""

MOST_ROUNDS = 8
"""Times that a loop is gone through before what still changes is given up."""
FORWARDED = opcodes(FORWARDS, also=("copy",))
UNKNOWN = opcodes(
    ASYNC, SIDE_EFFECT, also=("custom-call", "rng", "map", "rng-get-and-update-state")
)
PLACED = ("reduce-scatter", "all-to-all")
"""Each member of the group has another part."""


@lru_cache(maxsize=4096)
def _numbered(labels: tuple[Hashable, ...]) -> Labels:
    """Labels as numbers."""
    first: dict[Hashable, int] = {}
    return tuple([first.setdefault(x, d) for d, x in enumerate(labels)])


@lru_cache(maxsize=4096)
def _merged(x: Labels, y: Labels) -> Labels:
    """Devices are alike that are alike in both."""
    return x if x == y else _numbered(tuple(zip(x, y)))


def _leaves(value: Value) -> Iterable[Labels]:
    if isinstance(value, tuple):
        yield value
    else:
        for part in value:
            yield from _leaves(part)


def _everywhere(shape: Shape, labels: Labels) -> Value:
    """The value of a shape all of whose leaves have these labels."""
    if shape.is_tuple:
        return [_everywhere(s, labels) for s in shape.elements]
    return labels


def _both(x: Value, y: Value) -> Value:
    if isinstance(x, tuple) and isinstance(y, tuple):
        return _merged(x, y)
    assert isinstance(x, list) and isinstance(y, list), "values of one shape"
    return [_both(a, b) for a, b in zip(x, y, strict=True)]


class ReplicationAnalysis:
    """The labels of every value of a module that the entry reaches."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.replicas, self.partitions = module.replica_count, module.num_partitions
        count = self.replicas * self.partitions
        self.same: Labels = (0,) * count
        self.unique: Labels = tuple(range(count))
        self.values: dict[Instruction, Value] = {}
        entry = module.entry
        self.follow(entry, [self.argument(p) for p in entry.parameters])

    # -- questions -------------------------------------------------------------------------

    def labels(self, i: Instruction, index: Sequence[int] = ()) -> Labels:
        """The labels of a value, or of a part of a tuple: merged, where that is a tuple itself."""
        value = self.values.get(i)
        for k in index:
            value = value[k] if isinstance(value, list) else None
        return self.unique if value is None else self.joint(value)

    def is_replicated(self, i: Instruction, index: Sequence[int] = ()) -> bool:
        """Whether all devices hold the same."""
        return self.labels(i, index) == self.same

    def is_replicated_across_partitions(self, i: Instruction, index: Sequence[int] = ()) -> bool:
        """Whether the partitions of each replica hold the same."""
        groups = [range(r * self.partitions, (r + 1) * self.partitions) for r in self.replica_ids]
        return self.is_same_within(i, groups, index)

    def is_replicated_across_replicas(self, i: Instruction, index: Sequence[int] = ()) -> bool:
        """Whether each partition holds the same in all replicas."""
        groups = [range(p, len(self.same), self.partitions) for p in range(self.partitions)]
        return self.is_same_within(i, groups, index)

    def is_same_within(
        self, i: Instruction, groups: Iterable[Iterable[int]], index: Sequence[int] = ()
    ) -> bool:
        """Whether the devices of each group hold the same."""
        labels = self.labels(i, index)
        return all(len({labels[d] for d in group}) <= 1 for group in groups)

    def device_sets(self, i: Instruction, index: Sequence[int] = ()) -> list[list[int]]:
        """The devices that hold the same, together."""
        sets: dict[int, list[int]] = {}
        for d, label in enumerate(self.labels(i, index)):
            sets.setdefault(label, []).append(d)
        return list(sets.values())

    @property
    def replica_ids(self) -> range:
        return range(self.replicas)

    # -- how they are found ----------------------------------------------------------------

    def joint(self, value: Value) -> Labels:
        """The labels of all leaves together."""
        if isinstance(value, tuple):
            return value
        labels = self.same
        for leaf in _leaves(value):
            labels = _merged(labels, leaf)
        return labels

    def argument(self, p: Instruction) -> Value:
        """What callers promise of a parameter of the entry: which of its leaves are the same on
        all replicas, and by its sharding on all partitions."""
        flags = iter((p.extra or {}).get("parameter_replication", ()))
        shardings = iter(p.sharding.elements if p.sharding and p.sharding.is_tuple else ())

        def leaf(shape: Shape) -> Value:
            if shape.is_tuple:
                return [leaf(s) for s in shape.elements]
            across_replicas = next(flags, False)
            sharding = next(shardings, None) or p.sharding
            across_partitions = sharding is not None and sharding.kind == "replicated"
            return _numbered(
                tuple(
                    (
                        0 if across_replicas else d // self.partitions,
                        0 if across_partitions else d % self.partitions,
                    )
                    for d in self.unique
                )
            )

        return leaf(p.shape)

    def follow(self, c: Computation, arguments: list[Value], under: Labels | None = None) -> Value:
        """The value of the root; `under`: the labels of what decides whether `c` runs."""
        for i in c.in_order():
            if i.opcode == "parameter":
                value = arguments[i.attrs.number]
            else:
                value = self.step(i)
            if under is not None and under != self.same:
                value = _both(value, _everywhere(i.shape, under))
            self.values[i] = value
        return self.values[c.root]

    def step(self, i: Instruction) -> Value:
        """The value of an instruction by those of its operands."""
        opcode, operands = i.opcode, [self.values[x] for x in i.operands]
        if opcode == "tuple":
            return operands
        if opcode == "get-tuple-element" and isinstance(operands[0], list):
            return operands[0][i.attrs.index]
        if opcode in FORWARDED and operands and opcode not in UNKNOWN:
            return operands[0]
        if opcode in ("partition-id", "replica-id"):
            of = (lambda d: d % self.partitions) if opcode[0] == "p" else self.replica_of
            return _numbered(tuple(of(d) for d in self.unique))
        if opcode in COLLECTIVES:
            return self.collective(i, operands)
        if opcode == "while":
            return self.loop(i, operands[0])
        if opcode in ("call", "fusion", "conditional"):
            return self.called(i, operands)
        if opcode in UNKNOWN:
            return _everywhere(i.shape, self.unique)
        labels = self.same
        for x in operands:
            labels = _merged(labels, self.joint(x))
        return _everywhere(i.shape, labels)

    def replica_of(self, d: int) -> int:
        return d // self.partitions

    def collective(self, i: Instruction, operands: list[Value]) -> Value:
        """Every member of a group knows the values of all; a permute hands on those of one."""
        mode = group_mode(i.attrs)
        if mode is None or hasattr(i.attrs, "has_dynamic_root") or i.opcode == "ragged-all-to-all":
            return _everywhere(i.shape, self.unique)
        if i.opcode == "collective-permute":
            if i.attrs.slice_sizes:
                return _everywhere(i.shape, self.unique)
            pairs = i.attrs.source_target_pairs
            source = {t: s for s, t in device_pairs(pairs, mode, self.replicas, self.partitions)}
            named = [*source, *source.values()]

            def known(d: int, x: Labels) -> Hashable:
                return x[source[d]] if d in source else "zeros"
        else:
            groups = device_groups(i.attrs.replica_groups, mode, self.replicas, self.partitions)
            place = {d: (g, k) for g in groups for k, d in enumerate(g)}
            named = list(place)

            def known(d: int, x: Labels) -> Hashable:
                if d not in place:
                    return ("alone", d)
                group, k = place[d]
                return (k if i.opcode in PLACED else 0, tuple(x[e] for e in group))

        if max(named, default=0) >= len(self.unique):  # more devices than the module says
            return _everywhere(i.shape, self.unique)
        if i.opcode == "all-to-all" and i.shape.is_tuple:
            operands = [self.joint(operands)] * len(operands)
        results: list[Value] = [
            _numbered(tuple([known(d, self.joint(x)) for d in self.unique])) for x in operands
        ]
        return results if i.shape.is_tuple else results[0]

    def called(self, i: Instruction, operands: list[Value]) -> Value:
        """The merged values of what is called with these operands."""
        under = None
        if i.opcode == "conditional":
            under, *operands = self.joint(operands[0]), *operands[1:]
        result: Value | None = None
        for k, c in enumerate(i.called):
            arguments = [operands[k]] if i.opcode == "conditional" else operands
            if sum(c.callers.values()) != 1:
                arguments = [_everywhere(p.shape, self.unique) for p in c.parameters]
                root = self.follow(c, arguments, self.unique)
            else:
                root = self.follow(c, arguments, under)
            result = root if result is None else _both(result, root)
        assert result is not None, "it calls something"
        return result

    def loop(self, i: Instruction, initial: Value) -> Value:
        """The state before any step of a loop, and after it."""
        condition, body = i.called
        if any(sum(c.callers.values()) != 1 for c in (condition, body)):
            initial = _everywhere(i.shape, self.unique)
        state, rounds = initial, 0
        while True:
            goes_on = self.joint(self.follow(condition, [state]))
            if goes_on != self.same:
                goes_on = self.joint(self.follow(condition, [state], goes_on))
                state = _both(state, _everywhere(i.shape, goes_on))
            after = _both(state, self.follow(body, [state], goes_on))
            if after == state:
                return state
            rounds += 1
            state = after if rounds < MOST_ROUNDS else self.given_up(state, after)

    def given_up(self, before: Value, after: Value) -> Value:
        """What still changes is unique."""
        if isinstance(after, tuple):
            return after if after == before else self.unique
        assert isinstance(before, list), "values of one shape"
        return [self.given_up(x, y) for x, y in zip(before, after, strict=True)]
