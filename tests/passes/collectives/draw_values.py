"""What drawn programs of collectives are made of: values, groups, pairs, numbers of each device."""

from __future__ import annotations

import random

DEVICES = [(1, 2), (1, 4), (2, 2), (4, 1), (2, 1), (1, 8), (2, 3)]
FOLDS = ("add", "maximum", "and")
SIZE = 24
"""Groups of 1, 2, 3, 4, 6 and 8 cut it evenly."""


class Drawing:
    """A program that is being drawn: values are s32[24]."""

    columns = 1
    """Devices in each group of the second axis of the mesh drawn last."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.replicas, self.partitions = self.rng.choice(DEVICES)
        self.count = self.replicas * self.partitions
        self.lines: list[str] = []
        self.names = 0
        self.values = ["x", "y", "z"]
        self.bodies = ""

    def emit(self, what: str, of: str = f"s32[{SIZE}]", keep: bool = True) -> str:
        self.names += 1
        name = f"v{self.names}"
        self.lines.append(f"{name} = {of} {what}")
        if keep:
            self.values.append(name)
        return name

    def value(self) -> str:
        return self.rng.choice(self.values[-5:])

    def groups(self) -> tuple[str, list[list[int]]]:
        """Attributes, and the groups in global ids."""
        mode = self.rng.choice(["replica", "flat", "both"])
        ids = self.count if mode == "flat" else self.replicas
        sizes = [n for n in range(1, ids + 1) if ids % n == 0]
        size = self.rng.choice(sizes)
        order = list(range(ids))
        if self.rng.random() < 0.5:
            self.rng.shuffle(order)
        rows = [order[k : k + size] for k in range(0, ids, size)]
        text = "replica_groups={" + ",".join(braced(r) for r in rows) + "}"
        p = self.partitions
        if mode == "flat":
            return f"channel_id={self.channel()}, {text}, use_global_device_ids=true", rows
        if mode == "both":
            mixed = [[r * p + k for r in row for k in range(p)] for row in rows]
            return f"channel_id={self.channel()}, {text}", mixed
        return text, [[r * p + k for r in row] for row in rows for k in range(p)]

    def channel(self) -> int:
        return self.rng.randint(1, 9)

    def pairs(self) -> str:
        across_partitions = self.rng.random() < 0.5
        ids = list(range(self.partitions if across_partitions else self.replicas))
        targets = ids[1:] + ids[:1] if self.rng.random() < 0.5 else self.rng.sample(ids, len(ids))
        pairs = [(s, t) for s, t in zip(ids, targets) if self.rng.random() < 0.9]
        text = "source_target_pairs={" + ",".join(braced(p) for p in pairs) + "}"
        return f"channel_id={self.channel()}, {text}" if across_partitions else text

    def own(self, numbers: list[int]) -> str:
        """A scalar that is one of these numbers on each device."""
        table = self.emit(f"constant({braced(numbers)})", f"s32[{len(numbers)}]", keep=False)
        p = self.emit("partition-id()", "u32[]", keep=False)
        r = self.emit("replica-id()", "u32[]", keep=False)
        n = self.emit(f"constant({self.partitions})", "u32[]", keep=False)
        first = self.emit(f"multiply({r}, {n})", "u32[]", keep=False)
        at = self.emit(f"add({first}, {p})", "u32[]", keep=False)
        cut = f"dynamic-slice({table}, {at}), dynamic_slice_sizes={{1}}"
        return self.emit(f"reshape({self.emit(cut, 's32[1]', keep=False)})", "s32[]", keep=False)

    def part(self, size: int) -> str:
        cut = f"slice({self.value()}), slice={{[0:{size}]}}"
        return self.emit(cut, f"s32[{size}]", keep=False)

    def shard(self, x: str, groups: list[list[int]], count: int) -> None:
        takers = 2 if count % 2 == 0 and self.rng.random() < 0.3 else 1
        shards, size = count // takers, SIZE * takers // count
        numbers = [0] * self.count
        for group in groups:
            order = [s for s in range(shards) for _ in range(takers)]
            if self.rng.random() < 0.3:
                self.rng.shuffle(order)
            for d, s in zip(group, order, strict=True):
                numbers[d] = s * size
        start = self.own(numbers)
        part = self.emit(
            f"dynamic-slice({x}, {start}), dynamic_slice_sizes={{{size}}}",
            f"s32[{size}]",
            keep=False,
        )
        self.emit(f"concatenate({', '.join([part] * shards)}), dimensions={{0}}")

    def mesh(self) -> tuple[str, str]:
        """Attributes of groups along the rows of a mesh, and along its columns."""
        rows = self.rng.choice([n for n in range(1, self.count + 1) if self.count % n == 0])
        ids = [list(range(k, self.count, rows)) for k in range(rows)]
        across = [list(column) for column in zip(*ids, strict=True)]
        if self.rng.random() < 0.2:
            across = [column[::-1] if k else column for k, column in enumerate(across)]
        groups = ["{" + ",".join(map(braced, g)) + "}" for g in (ids, across)]
        texts = [
            f"channel_id={self.channel()}, replica_groups={g}, use_global_device_ids=true"
            for g in groups
        ]
        self.columns = len(across[0])
        return texts[0], texts[1]


def braced(numbers) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def dims(size: int, other: int, at: int) -> str:
    return f"s32[{size},{other}]" if at == 0 else f"s32[{other},{size}]"
