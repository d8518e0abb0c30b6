"""Random programs for several devices: text of modules whose values have one right answer, bit by
bit, with collectives in every form, alone and in two halves, in loops and in branches that all
devices take together."""

from __future__ import annotations

import random
from math import prod

DTYPES = ("f32", "s32", "bf16", "u8", "f64", "pred", "c64")
ELEMENTWISE = {"pred": ("not", "and", "xor"), "u8": ("add", "multiply", "maximum")}
FOLDS = {
    "pred": ("and", "or"),
    "c64": ("add",),
}
SIZES = (1, 2, 3, 5, 7, 16, 33, 130)


class DeviceProgram:
    """One program as it is drawn; `text()` is the module."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.replicas, self.partitions = self.rng.choice(
            [(1, 2), (1, 3), (1, 4), (2, 2), (3, 1), (1, 8), (2, 3), (4, 1)]
        )
        self.count = self.replicas * self.partitions
        self.folds: dict[tuple[str, str], str] = {}
        self.called: list[str] = []
        self.lines: list[str] = []
        self.values: list[tuple[str, str, tuple[int, ...]]] = []
        self.parameters: list[str] = []
        self.names = 0
        self.channels = 0

    # -- pieces

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def emit(self, dtype: str, dims: tuple[int, ...], what: str) -> str:
        name = self.name()
        self.lines.append(f"  {name} = {typed(dtype, dims)} {what}")
        self.values.append((name, dtype, dims))
        return name

    def fold(self, dtype: str) -> str:
        op = self.rng.choice(FOLDS.get(dtype, ("add", "multiply", "maximum", "minimum")))
        name = f"fold_{op}_{dtype}"
        self.folds[op, dtype] = (
            f"{name} {{ a = {dtype}[] parameter(0)\n b = {dtype}[] parameter(1)\n"
            f" ROOT s = {dtype}[] {op}(a, b) }}"
        )
        return name

    def channel(self) -> str:
        self.channels += 1
        return f"channel_id={self.channels}"

    def groups(self, *, with_global: bool = True) -> tuple[str, int]:
        """Attributes that say who takes part, and the size of the groups."""
        modes = ["replica", "flat", "both"] if with_global else ["replica", "partition"]
        mode = self.rng.choice(modes)
        ids = {"replica": self.replicas, "partition": self.partitions, "both": self.replicas}
        count = ids.get(mode, self.count)
        if mode != "flat" and self.rng.random() < 0.2:
            listed, size = "", count
        else:
            size = self.rng.choice([n for n in range(1, count + 1) if count % n == 0])
            order = self.rng.sample(range(count), count)
            rows = [order[k : k + size] for k in range(0, count, size)]
            listed = ",".join(["{" + ",".join(map(str, row)) + "}" for row in rows])
        text = f"replica_groups={{{listed}}}"
        if mode == "replica":
            return text, size
        text += f", {self.channel()}"
        if mode == "flat":
            return text + ", use_global_device_ids=true", size
        return text, size * (self.partitions if mode == "both" else 1)

    def pairs(self) -> str:
        count = self.partitions if self.partitions > 1 else self.replicas
        sources = self.rng.sample(range(count), self.rng.randint(1, count))
        targets = self.rng.sample(range(count), len(sources))
        listed = ",".join([f"{{{s},{t}}}" for s, t in zip(sources, targets)])
        channel = f", {self.channel()}" if self.partitions > 1 else ""
        return f"source_target_pairs={{{listed}}}{channel}"

    # -- steps

    def step(self) -> None:
        self.rng.choice(
            [self.elementwise] + 3 * [self.collective] + 2 * [self.halves] + [self.id]
        )()

    def picked(self) -> tuple[str, str, tuple[int, ...]]:
        return self.rng.choice(self.values[-6:])

    def elementwise(self) -> None:
        x, dtype, dims = self.picked()
        op = self.rng.choice(ELEMENTWISE.get(dtype, ("add", "multiply", "negate")))
        if op in ("not", "negate"):
            self.emit(dtype, dims, f"{op}({x})")
            return
        alike = [n for n, t, d in self.values if (t, d) == (dtype, dims)]
        self.emit(dtype, dims, f"{op}({x}, {self.rng.choice(alike)})")

    def id(self) -> None:
        self.emit("u32", (), self.rng.choice(["partition-id()", "replica-id()"]))

    def collective(self) -> None:
        x, dtype, dims = self.picked()
        if dtype == "u32":
            return
        kind = self.rng.choice(
            "all-reduce collective-reduce all-gather reduce-scatter all-to-all permute broadcast"
            " several".split()
        )
        if kind == "permute":
            self.emit(dtype, dims, f"collective-permute({x}), {self.pairs()}")
            return
        if kind in ("all-to-all", "broadcast"):
            self._of_partitions(kind, x, dtype, dims)
            return
        groups, size = self.groups()
        axis = self.rng.randrange(len(dims)) if dims else 0
        if kind in ("all-reduce", "collective-reduce"):
            self.emit(dtype, dims, f"{kind}({x}), {groups}, to_apply={self.fold(dtype)}")
        elif kind == "several":
            both = f"({typed(dtype, dims)}, {typed(dtype, dims)})"
            fold = self.fold(dtype)
            name = self.name()
            self.lines.append(f"  {name} = {both} all-reduce({x}, {x}), {groups}, to_apply={fold}")
            self.emit(dtype, dims, f"get-tuple-element({name}), index=1")
        elif kind == "all-gather" and dims and prod(dims) * size < 5000:
            more = tuple([n * size if k == axis else n for k, n in enumerate(dims)])
            self.emit(dtype, more, f"all-gather({x}), {groups}, dimensions={{{axis}}}")
        elif kind == "reduce-scatter" and dims and dims[axis] % size == 0:
            less = tuple([n // size if k == axis else n for k, n in enumerate(dims)])
            tail = f"dimensions={{{axis}}}, to_apply={self.fold(dtype)}"
            self.emit(dtype, less, f"reduce-scatter({x}), {groups}, {tail}")

    def _of_partitions(self, kind: str, x: str, dtype: str, dims: tuple[int, ...]) -> None:
        groups, size = self.groups(with_global=False)
        if kind == "broadcast":
            self.emit(dtype, dims, f"collective-broadcast({x}), {groups}")
            return
        cut = [k for k, n in enumerate(dims) if n % size == 0]
        if cut:
            axis = self.rng.choice(cut)
            self.emit(dtype, dims, f"all-to-all({x}), {groups}, dimensions={{{axis}}}")

    def halves(self) -> None:
        """A start, other steps, its done."""
        x, dtype, dims = self.picked()
        if dtype == "u32":
            return
        kind = self.rng.choice(["all-reduce", "all-gather", "collective-permute", "wrapped"])
        name, of = self.name(), typed(dtype, dims)
        result = dims
        if kind == "all-reduce":
            groups, _ = self.groups()
            start = f"{of} all-reduce-start({x}), {groups}, to_apply={self.fold(dtype)}"
        elif kind == "collective-permute":
            start = f"({of}, {of}) collective-permute-start({x}), {self.pairs()}"
        else:
            groups, size = self.groups()
            if not dims or prod(dims) * size > 5000:
                return
            result = (dims[0] * size, *dims[1:])
            to = typed(dtype, result)
            gather = f"{groups}, dimensions={{0}}"
            start = f"({of}, {to}) all-gather-start({x}), {gather}"
            if kind == "wrapped":
                self.called.append(
                    f"in_{name} {{ p = {of} parameter(0)\n ROOT g = {to} all-gather(p), {gather} }}"
                )
                start = f"(({of}), {to}, s32[]) async-start({x}), calls=in_{name}"
        self.lines.append(f"  {name} = {start}")
        for _ in range(self.rng.randrange(3)):
            self.step()
        done = f"{kind}-done({name})" if kind != "wrapped" else f"async-done({name})"
        self.emit(dtype, result, done)

    def loop(self) -> None:
        """Some turns of a collective and a step of its own on one value."""
        x, dtype, dims = self.picked()
        if dtype == "u32":
            return
        groups, _ = self.groups()
        n, of = self.name(), typed(dtype, dims)
        state = f"(s32[], {of})"
        turn = f"all-reduce(x), {groups}, to_apply={self.fold(dtype)}"
        self.called += [
            f"cond_{n} {{ s = {state} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
            f" n = s32[] constant({self.rng.randint(0, 4)})\n"
            " ROOT c = pred[] compare(i, n), direction=LT }",
            f"body_{n} {{ s = {state} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
            f" x = {of} get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
            f" j = s32[] add(i, one)\n r = {of} {turn}\n"
            f" p = {of} collective-permute(r), {self.pairs()}\n"
            f" ROOT t = {state} tuple(j, p) }}",
        ]
        zero, tupled = self.name(), self.name()
        self.lines += [
            f"  {zero} = s32[] constant(0)",
            f"  {tupled} = {state} tuple({zero}, {x})",
            f"  {n} = {state} while({tupled}), condition=cond_{n}, body=body_{n}",
        ]
        self.emit(dtype, dims, f"get-tuple-element({n}), index=1")

    # -- all of it

    def text(self) -> str:
        rng = self.rng
        for k in range(rng.randint(1, 3)):
            dims = tuple([rng.choice(SIZES) for _ in range(rng.randint(0, 2))])
            if rng.random() < 0.1:
                dims = (0, *dims[1:])
            if rng.random() < 0.05:
                dims = (70_001,)
            self.emit(rng.choice(DTYPES), dims, f"parameter({k})")
        for _ in range(rng.randint(2, 8)):
            self.loop() if rng.random() < 0.15 else self.step()
        results = rng.sample(self.values, min(len(self.values), rng.randint(1, 4)))
        shapes = ", ".join([typed(t, d) for _, t, d in results])
        names = ", ".join([n for n, _, _ in results])
        head = f"HloModule m, replica_count={self.replicas}, num_partitions={self.partitions}"
        body = "\n".join([*self.lines, f"  ROOT r = ({shapes}) tuple({names})"])
        return "\n".join([head, *self.folds.values(), *self.called, f"ENTRY e {{\n{body}\n}}"])


def typed(dtype: str, dims: tuple[int, ...]) -> str:
    return f"{dtype}[{','.join(map(str, dims))}]"
