"""Random programs in which collectives meet as the passes on collectives look for them: on
integers, so that each has one right answer."""

from __future__ import annotations

from tests.passes.collectives.draw_meetings import Meetings
from tests.passes.collectives.draw_steps_of_loops import LoopSteps
from tests.passes.collectives.draw_values import FOLDS, SIZE, braced, dims


class Program(Meetings, LoopSteps):
    """One program as it is drawn; `text` is the module."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for _ in range(self.rng.randint(4, 12)):
            steps = [self.joined, self.cut, self.cut, self.nested, self.gathered, self.permuted]
            steps += [self.plain]
            steps += [self.exchanged, self.narrowed, self.gathered_alike, self.gathered_reshaped]
            steps += [self.several, self.padded, self.chosen, self.summed_and_cut, self.widened]
            if not self.bodies:
                steps.append(self.loop)
            self.rng.choice(steps)()

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

    def narrowed(self) -> None:
        """Data that has fewer bits before or after it moves; sums of few bits."""
        attrs, groups = self.groups()
        x, n = self.value(), len(groups[0])
        kind = self.rng.choice(["before", "after", "sum", "halves"])
        if kind == "sum":
            x = self.emit(f"convert({x})", f"s16[{SIZE}]", keep=False)
            x = self.emit(f"all-reduce({x}), {attrs}, to_apply=add16", f"s16[{SIZE}]", keep=False)
        elif kind == "halves":
            x = self.emit(f"convert({x})", f"s4[{SIZE}]", keep=False)
            x = self.emit(f"collective-permute({x}), {self.pairs()}", f"s4[{SIZE}]", keep=False)
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
