"""Programs of one collective each, drawn: every form, type, size and way to name groups."""

from __future__ import annotations

import random
from collections.abc import Sequence

TYPES = (
    "pred s1 u1 s2 u2 s4 u4 s8 u8 s16 u16 s32 u32 s64 u64 f16 bf16 f32 f64 c64 c128 f4e2m1fn"
    " f8e3m4 f8e4m3 f8e4m3b11fnuz f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0fnu"
).split()
SIZES = (0, 1, 2, 7, 4095, 4096, 4097, 8193)
LARGE = (1 << 20) + 1
DEVICES = (1, 2, 3, 4, 5, 6, 8)
ARITHMETIC = ("add", "multiply", "subtract")
ORDER = ("maximum", "minimum")
LOGIC = ("and", "or", "xor")
CUSTOM = {
    "first": "ROOT s = T copy(a)",
    "second": "ROOT s = T copy(b)",
    "several": "c = T multiply(a, b)\n d = T add(c, a)\n ROOT s = T subtract(d, b)",
}
"""Reductions that are no operation of their own; T is the type of a number."""
OF_DATA = "all-gather all-to-all all-to-all-tuple collective-broadcast collective-permute".split()
FOLDING = "all-reduce collective-reduce reduce-scatter".split()
HALVES = ("all-reduce", "all-gather", "collective-permute")
"""Those that have a start and a done of their own; an async-start runs any."""
ANY_GROUPS = {*FOLDING, "all-gather"}
"""What takes ids of all devices (use_global_device_ids)."""


def folds_of(dtype: str) -> list[str]:
    """The operations that may fold a type."""
    if dtype == "pred":
        return ["add", "multiply", *ORDER, *LOGIC, "first", "second"]
    found = [*ARITHMETIC, *CUSTOM]
    if dtype[0] != "c":
        found += ORDER
    return [*found, *LOGIC] if dtype[0] in "su" else found


class CollectiveProgram:
    """One program as it is drawn; `text()` is the module."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.devices = self.rng.choice(DEVICES)
        self.dtype = self.rng.choice(TYPES)
        self.other = self.rng.choice(TYPES)
        self.what = self.rng.choice([*OF_DATA, *FOLDING])
        self.header, self.groups, self.members = self._draw_groups()
        self.dims = self._dims(LARGE if self.rng.random() < 0.02 else self.rng.choice(SIZES))
        self.axis = self.rng.randrange(len(self.dims))
        self.half = self.rng.choice(("none", "own", "wrapped"))

    def text(self) -> str:
        inputs, outputs, attributes = self._collective()
        opcode = self.what.removesuffix("-tuple")
        result = outputs[0] if len(outputs) == 1 and opcode == self.what else _tuple(outputs)
        names = [f"x{k}" for k in range(len(inputs))]
        given = "".join(
            [f" {n} = {s} parameter({k})\n" for k, (n, s) in enumerate(zip(names, inputs))]
        )
        call = f"({', '.join(names)}), {attributes}\n"
        beside = f" y = {inputs[0]} copy(x0)\n"
        last = f" ROOT t = ({result}, {inputs[0]}) tuple(r, y)\n"
        computations = self._fold() if opcode in FOLDING else ""
        if self.half == "none":
            body = f" ROOT r = {result} {opcode}{call}"
        elif self.half == "own" and opcode in HALVES:
            operands = inputs[0] if len(inputs) == 1 else _tuple(inputs)
            begun = result if opcode == "all-reduce" else _tuple([operands, result])
            body = (
                f" q = {begun} {opcode}-start{call}{beside} r = {result} {opcode}-done(q)\n{last}"
            )
        else:
            computations += f"inside {{\n{given} ROOT w = {result} {opcode}{call}}}\n"
            begun = _tuple([_tuple(inputs), result])
            start = f" q = {begun} async-start({', '.join(names)}), calls=inside\n"
            body = f"{start}{beside} r = {result} async-done(q)\n{last}"
        return f"HloModule m, {self.header}\n{computations}ENTRY e {{\n{given}{body}}}\n"

    def _collective(self) -> tuple[list[str], list[str], str]:
        """Types of operands and results, and attributes."""
        part, axis = _typed(self.dtype, self.dims), f"dimensions={{{self.axis}}}"
        whole = [n * self.members if d == self.axis else n for d, n in enumerate(self.dims)]
        also = [_typed(self.other, self._dims(3))] if self.rng.random() < 0.4 else []
        match self.what:
            case "all-gather":
                pairs = [
                    (self.dtype, part),
                    *[(self.other, _typed(self.other, self.dims))][: len(also)],
                ]
                results = [_typed(t, whole) for t, _ in pairs]
                return [s for _, s in pairs], results, f"{self.groups}, {axis}"
            case "all-to-all":
                return (
                    [_typed(self.dtype, whole)],
                    [_typed(self.dtype, whole)],
                    f"{self.groups}, {axis}",
                )
            case "all-to-all-tuple":
                return [part] * self.members, [part] * self.members, self.groups
            case "collective-broadcast":
                return [part], [part], self.groups
            case "collective-permute":
                return [part, *also], [part, *also], self._pairs()
            case "reduce-scatter":
                return [_typed(self.dtype, whole)], [part], f"{self.groups}, {axis}, to_apply=fold"
        more = [_typed(self.dtype, self._dims(5)), f"{self.dtype}[]"] if also else []
        more = more if self.what == "all-reduce" else []
        return [part, *more], [part, *more], f"{self.groups}, to_apply=fold"

    def _fold(self) -> str:
        of = f"{self.dtype}[]"
        name = self.rng.choice(folds_of(self.dtype))
        root = CUSTOM.get(name, f"ROOT s = T {name}(a, b)").replace("T", of)
        return f"fold {{ a = {of} parameter(0)\n b = {of} parameter(1)\n {root} }}\n"

    def _dims(self, size: int) -> list[int]:
        forms = [[size], [size, 1], [1, size]]
        return self.rng.choice([*forms, [2, size, 3]] if size < 100 else forms)

    def _pairs(self) -> str:
        """Some devices send to some others, or to themselves; they may be replicas."""
        sources, targets = ([*range(self.devices)] for _ in range(2))
        self.rng.shuffle(sources)
        self.rng.shuffle(targets)
        count = self.rng.randint(0, self.devices)
        pairs = [f"{{{s},{t}}}" for s, t in zip(sources[:count], targets)]
        channel = ", channel_id=1" if self.header.startswith("num") else ""
        return f"source_target_pairs={{{','.join(pairs)}}}{channel}"

    def _draw_groups(self) -> tuple[str, str, int]:
        """Counts of replicas and partitions, attributes that say the groups, members of each."""
        rng, n = self.rng, self.devices
        replicas = rng.choice([d for d in range(1, n + 1) if n % d == 0])
        groups, size = self._cut(n)
        takes_all = self.what in ANY_GROUPS
        channel = "channel_id=1" + (", use_global_device_ids=true" if takes_all else "")
        kinds = ["replicas", "partitions", "all", "iota"]
        if takes_all:
            kinds += ["flattened", "mixed"]
        if self.what == "collective-permute":
            kinds = ["replicas", "partitions"]
        match rng.choice(kinds):
            case "replicas":
                return f"replica_count={n}", f"replica_groups={groups}", size
            case "partitions":
                return f"num_partitions={n}", f"replica_groups={groups}, {channel}", size
            case "all":
                return f"replica_count={n}", "replica_groups={}", n
            case "iota":
                text = f"replica_groups=[{n // size},{size}]<=[{n}], {channel}"
                return f"num_partitions={n}", text, size
            case "flattened":
                counts = f"replica_count={replicas}, num_partitions={n // replicas}"
                return counts, f"replica_groups={groups}, {channel}", size
        groups, size = self._cut(replicas)
        counts = f"replica_count={replicas}, num_partitions={n // replicas}"
        return counts, f"replica_groups={groups}, channel_id=1", size * (n // replicas)

    def _cut(self, count: int) -> tuple[str, int]:
        """So many ids in groups of one size, in any order."""
        ids = [*range(count)]
        self.rng.shuffle(ids)
        size = self.rng.choice([d for d in range(1, count + 1) if count % d == 0])
        groups = [ids[k : k + size] for k in range(0, count, size)]
        return "{" + ",".join(["{" + ",".join(map(str, g)) + "}" for g in groups]) + "}", size


def _typed(dtype: str, dims: Sequence[int]) -> str:
    return f"{dtype}[{','.join(map(str, dims))}]"


def _tuple(shapes: Sequence[str]) -> str:
    return f"({', '.join(shapes)})"
