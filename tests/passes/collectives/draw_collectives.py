"""Random programs in which collectives meet as the passes on collectives look for them: on
integers, so that each has one right answer."""

from __future__ import annotations

import random

DEVICES = [(1, 2), (1, 4), (2, 2), (4, 1), (2, 1), (1, 8), (2, 3)]
FOLDS = ("add", "maximum", "and")
SIZE = 24
"""Groups of 1, 2, 3, 4, 6 and 8 cut it evenly."""


class Program:
    """One program as it is drawn: values are s32[24]; `text` is the module."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.replicas, self.partitions = self.rng.choice(DEVICES)
        self.count = self.replicas * self.partitions
        self.lines: list[str] = []
        self.names = 0
        self.values = ["x", "y", "z"]
        self.bodies = ""
        for _ in range(self.rng.randint(4, 12)):
            steps = [self.joined, self.cut, self.cut, self.nested, self.gathered, self.permuted]
            steps += [self.plain]
            steps += [self.exchanged, self.narrowed, self.gathered_alike, self.gathered_reshaped]
            steps += [self.several, self.padded, self.chosen, self.summed_and_cut, self.widened]
            if not self.bodies:
                steps.append(self.loop)
            self.rng.choice(steps)()

    def emit(self, what: str, of: str = f"s32[{SIZE}]", keep: bool = True) -> str:
        self.names += 1
        name = f"v{self.names}"
        self.lines.append(f"{name} = {of} {what}")
        if keep:
            self.values.append(name)
        return name

    def value(self) -> str:
        return self.rng.choice(self.values[-5:])

    # -- who takes part

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

    # -- what meets what

    def plain(self) -> None:
        op = self.rng.choice(["add", "multiply", "maximum", "and"])
        self.emit(f"{op}({self.value()}, {self.value()})")

    def joined(self) -> None:
        """An operation on two collectives, most often alike."""
        fold, (attrs, groups) = self.rng.choice(FOLDS), self.groups()
        kind, of = "all-reduce", f"s32[{SIZE}]"
        if self.rng.random() < 0.4:
            kind, of = "reduce-scatter", f"s32[{SIZE // len(groups[0])}]"
            attrs += ", dimensions={0}"
        x, y = (
            self.emit(f"{kind}({self.value()}), {attrs}, to_apply={fold}", of, keep=False)
            for _ in range(2)
        )
        op = fold if self.rng.random() < 0.8 else "subtract"
        both = self.emit(f"{op}({x}, {y})", of, keep=False)
        if kind == "reduce-scatter":
            both = self.emit(f"concatenate({', '.join([both] * len(groups[0]))}), dimensions={{0}}")
        else:
            self.values.append(both)

    def nested(self) -> None:
        fold = self.rng.choice(FOLDS)
        inner = f"all-reduce({self.value()}), {self.groups()[0]}, to_apply={fold}"
        x = self.emit(inner, keep=self.rng.random() < 0.3)
        self.emit(f"all-reduce({x}), {self.groups()[0]}, to_apply={fold}")

    def cut(self) -> None:
        """Shards of an all-reduce, each device its own, or several the same."""
        attrs, groups = self.groups()
        x = self.emit(f"all-reduce({self.value()}), {attrs}, to_apply=add", keep=False)
        self.shard(x, groups, len(groups[0]))

    def gathered(self) -> None:
        attrs, groups = self.groups()
        size = SIZE // len(groups[0])
        first = self.emit(
            f"slice({self.value()}), slice={{[0:{size}]}}", f"s32[{size}]", keep=False
        )
        x = self.emit(f"all-gather({first}), {attrs}, dimensions={{0}}")
        if self.rng.random() < 0.7:
            self.shard(x, groups, len(groups[0]))

    def part(self, size: int) -> str:
        cut = f"slice({self.value()}), slice={{[0:{size}]}}"
        return self.emit(cut, f"s32[{size}]", keep=False)

    def narrowed(self) -> None:
        """Data that has fewer bits before or after it moves; sums of few bits."""
        attrs, groups = self.groups()
        x, n = self.value(), len(groups[0])
        kind = self.rng.choice(["before", "after", "sum"])
        if kind == "sum":
            x = self.emit(f"convert({x})", f"s16[{SIZE}]", keep=False)
            x = self.emit(f"all-reduce({x}), {attrs}, to_apply=add16", f"s16[{SIZE}]", keep=False)
        elif kind == "before":
            x = self.emit(f"convert({self.part(SIZE // n)})", f"s8[{SIZE // n}]", keep=False)
            x = self.emit(f"convert({x})", f"s32[{SIZE // n}]", keep=False)
            self.emit(f"all-gather({x}), {attrs}, dimensions={{0}}")
            return
        else:
            x = self.emit(f"collective-permute({x}), {self.pairs()}", keep=False)
            three = self.emit("constant(3)", "s32[]", keep=False)
            scale = self.emit(f"broadcast({three}), dimensions={{}}", keep=False)
            x = self.emit(f"add({x}, {scale})", keep=False)
            x = self.emit(f"convert({x})", f"s16[{SIZE}]", keep=False)
        self.emit(f"convert({x})")

    def gathered_alike(self) -> None:
        attrs, groups = self.groups()
        size = SIZE // len(groups[0])
        parts = [
            self.emit(f"all-gather({self.part(size)}), {attrs}, dimensions={{0}}", keep=False)
            for _ in range(2)
        ]
        self.emit(f"subtract({', '.join(parts)})")

    def gathered_reshaped(self) -> None:
        """What is gathered was repeated, or has dimensions of one element."""
        attrs, groups = self.groups()
        n = len(groups[0])
        if self.rng.random() < 0.5:
            x, at = self.part(SIZE // n // 2 or 1), self.rng.choice([0, 1])
            size = SIZE // n // 2 or 1
            x = self.emit(f"broadcast({x}), dimensions={{{at}}}", dims(size, 3, at), keep=False)
            d = self.rng.choice([0, 1])
            whole = [size, 3] if at == 0 else [3, size]
            whole[d] *= n
        else:
            x = self.emit(f"reshape({self.part(SIZE // n)})", f"s32[1,{SIZE // n}]", keep=False)
            d, whole = 1, [1, SIZE]
        of = f"s32[{whole[0]},{whole[1]}]"
        x = self.emit(f"all-gather({x}), {attrs}, dimensions={{{d}}}", of, keep=False)
        flat = whole[0] * whole[1]
        x = self.emit(f"reshape({x})", f"s32[{flat}]", keep=False)
        if flat != SIZE:
            zero = self.emit("constant(0)", "s32[]", keep=False)
            x = self.emit(f"pad({x}, {zero}), padding=0_{SIZE - flat}", keep=False)
        self.values.append(x)

    def several(self) -> None:
        """One all-reduce of several arrays; one gather, or permute, of one array twice."""
        of = f"(s32[{SIZE}], s32[{SIZE}])"
        both = f"all-reduce({self.value()}, {self.value()}), {self.groups()[0]}, to_apply=add"
        x = self.emit(both, of, keep=False)
        self.emit(f"get-tuple-element({x}), index={self.rng.choice([0, 1])}")
        attrs, groups = self.groups()
        x = self.part(SIZE // len(groups[0]))
        gathers = [self.emit(f"all-gather({x}), {attrs}, dimensions={{0}}") for _ in range(2)]
        self.emit(f"subtract({', '.join(gathers)})")
        x, pairs = self.value(), self.pairs()
        self.emit(f"collective-permute({x}), {pairs}")
        low, high = self.rng.choice([(0, 12), (4, 16), (0, SIZE)])
        cut = self.emit(f"slice({x}), slice={{[{low}:{high}]}}", f"s32[{high - low}]", keep=False)
        cut = self.emit(f"collective-permute({cut}), {pairs}", f"s32[{high - low}]", keep=False)
        zero = self.emit("constant(0)", "s32[]", keep=False)
        self.emit(f"pad({cut}, {zero}), padding={low}_{SIZE - high}")

    def padded(self) -> None:
        """A shard beside one's own of an array that is padded at its ends."""
        attrs, groups = self.groups()
        n = len(groups[0])
        size = SIZE // n
        x = self.emit(f"all-gather({self.part(size)}), {attrs}, dimensions={{0}}", keep=False)
        low, high = self.rng.choice([(size, 0), (0, size), (size, size), (0, 2 * size), (1, 0)])
        of = f"s32[{SIZE + low + high}]"
        seven = self.emit("constant(7)", "s32[]", keep=False)
        x = self.emit(f"pad({x}, {seven}), padding={low}_{high}", of, keep=False)
        turn, numbers = self.rng.randint(-1, n + 1), [0] * self.count
        for group in groups:
            for k, d in enumerate(group):
                numbers[d] = (k + turn) * size
        cut = f"dynamic-slice({x}, {self.own(numbers)}), dynamic_slice_sizes={{{size}}}"
        part = self.emit(cut, f"s32[{size}]", keep=False)
        self.emit(f"concatenate({', '.join([part] * n)}), dimensions={{0}}")

    def chosen(self) -> None:
        """A permute of a choice by the device's id."""
        first = self.rng.randrange(self.count)
        numbers = [int(d >= first) for d in range(self.count)]
        one = self.emit("constant(1)", "s32[]", keep=False)
        is_one = f"compare({self.own(numbers)}, {one}), direction=EQ"
        p = self.emit(is_one, "pred[]", keep=False)
        p = self.emit(f"broadcast({p}), dimensions={{}}", f"pred[{SIZE}]", keep=False)
        x = self.emit(f"select({p}, {self.value()}, {self.value()})", keep=False)
        pair = f"source_target_pairs={{{{0,{self.replicas - 1}}}}}"
        self.emit(f"collective-permute({x}), {self.rng.choice([self.pairs(), pair])}")

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

    def summed_and_cut(self) -> None:
        """A sum along one axis of a mesh that is summed along the other, maybe cut, maybe after
        operations that take sums to sums."""
        first, second = self.mesh()
        x = self.emit(f"all-reduce({self.value()}), {first}, to_apply=add", keep=False)
        if self.rng.random() < 0.5:
            x = self.emit(f"negate({x})", keep=False)
            x = self.emit(f"reshape({x})", f"s32[{SIZE // 4},4]", keep=False)
            x = self.emit(f"transpose({x}), dimensions={{1,0}}", f"s32[4,{SIZE // 4}]", keep=False)
            of = f"s32[4,{SIZE // 4}]"
            x = self.emit(f"all-reduce({x}), {second}, to_apply=add", of, keep=False)
            self.emit(f"reshape({x})")
            return
        size = SIZE // self.columns
        cut = f"reduce-scatter({x}), {second}, dimensions={{0}}, to_apply=add"
        part = self.emit(cut, f"s32[{size}]", keep=False)
        self.emit(f"concatenate({', '.join([part] * self.columns)}), dimensions={{0}}")

    def widened(self) -> None:
        """A sum of floats that are whole numbers, added up in a wider type."""
        small = self.emit("constant(15)", "s32[]", keep=False)
        small = self.emit(f"broadcast({small}), dimensions={{}}", keep=False)
        x = self.emit(f"and({self.value()}, {small})", keep=False)
        x = self.emit(f"convert({x})", f"f16[{SIZE}]", keep=False)
        total = f"all-reduce({x}), {self.groups()[0]}, to_apply=addf16"
        x = self.emit(total, f"f16[{SIZE}]", keep=False)
        x = self.emit(f"convert({x})", f"f32[{SIZE}]", keep=False)
        y = self.emit(f"convert({small})", f"f32[{SIZE}]", keep=False)
        x = self.emit(f"add({x}, {y})", f"f32[{SIZE}]", keep=False)
        self.emit(f"convert({x})")

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

    def exchanged(self) -> None:
        ids = self.partitions
        self.emit(
            f"all-to-all({self.value()}), channel_id={self.channel()}, "
            f"replica_groups={{{braced(range(ids))}}}, dimensions={{0}}"
        )

    def permuted(self) -> None:
        x = self.emit(f"collective-permute({self.value()}), {self.pairs()}", keep=False)
        if self.rng.random() < 0.5:
            x = self.emit(f"collective-permute({x}), {self.pairs()}", keep=False)
        self.values.append(x)

    def loop(self) -> None:
        """All-reduces that a loop adds up, and stacks."""
        state = f"(s32[], s32[{SIZE}], s32[4,{SIZE}], s32[{SIZE}])"
        one, two = (f"{self.groups()[0]}, to_apply={f}" for f in ("add", self.rng.choice(FOLDS)))
        index = self.rng.choice(["k", "back", "zero"])
        self.bodies = f"""body {{
  s = {state} parameter(0)
  k = s32[] get-tuple-element(s), index=0
  acc = s32[{SIZE}] get-tuple-element(s), index=1
  out = s32[4,{SIZE}] get-tuple-element(s), index=2
  x = s32[{SIZE}] get-tuple-element(s), index=3
  one = s32[] constant(1)
  zero = s32[] constant(0)
  last = s32[] constant(3)
  back = s32[] subtract(last, k)
  next = s32[] add(k, one)
  ks = s32[{SIZE}] broadcast(k), dimensions={{}}
  m = s32[{SIZE}] multiply(x, ks)
  rows = s32[4,{SIZE // 4}] reshape(m)
  c = s32[4,{SIZE // 4}] all-reduce(rows), {one}
  ct = s32[{SIZE // 4},4] transpose(c), dimensions={{1,0}}
  a = s32[{SIZE}] reshape(ct)
  b = s32[{SIZE}] all-reduce(m), {two}
  b1 = s32[1,{SIZE}] reshape(b)
  acc1 = s32[{SIZE}] add(acc, a)
  out1 = s32[4,{SIZE}] dynamic-update-slice(out, b1, {index}, zero)
  ROOT t = {state} tuple(next, acc1, out1, x)
}}
condition {{
  s = {state} parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT l = pred[] compare(k, n), direction=LT
}}
"""
        zero = self.emit("constant(0)", "s32[]", keep=False)
        out = self.emit(f"broadcast({zero}), dimensions={{}}", f"s32[4,{SIZE}]", keep=False)
        first = self.emit(
            f"tuple({zero}, {self.value()}, {out}, {self.value()})", state, keep=False
        )
        loop = self.emit(f"while({first}), condition=condition, body=body", state, keep=False)
        self.emit(f"get-tuple-element({loop}), index=1")
        stack = self.emit(f"get-tuple-element({loop}), index=2", f"s32[4,{SIZE}]", keep=False)
        row = self.emit(f"slice({stack}), slice={{[2:3],[0:{SIZE}]}}", f"s32[1,{SIZE}]", keep=False)
        self.emit(f"reshape({row})")

    @property
    def text(self) -> str:
        """The module."""
        folds = "".join(
            f"{f} {{ a = s32[] parameter(0)\n b = s32[] parameter(1)\n"
            f" ROOT r = s32[] {f}(a, b) }}\n"
            for f in FOLDS
        )
        folds += "add16 { a = s16[] parameter(0)\n b = s16[] parameter(1)\n"
        folds += " ROOT r = s16[] add(a, b) }\n"
        folds += "addf16 { a = f16[] parameter(0)\n b = f16[] parameter(1)\n"
        folds += " ROOT r = f16[] add(a, b) }\n"
        results = self.values[-6:]
        lines = "\n  ".join(self.lines)
        shapes = ", ".join([f"s32[{SIZE}]"] * len(results))
        return f"""HloModule m, replica_count={self.replicas}, num_partitions={self.partitions}
{folds}{self.bodies}ENTRY e {{
  x = s32[{SIZE}] parameter(0)
  y = s32[{SIZE}] parameter(1)
  z = s32[{SIZE}] parameter(2), parameter_replication={{true}}, sharding={{replicated}}
  {lines}
  ROOT t = ({shapes}) tuple({", ".join(results)})
}}"""


def braced(numbers) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def dims(size: int, other: int, at: int) -> str:
    return f"s32[{size},{other}]" if at == 0 else f"s32[{other},{size}]"
