"""Collectives that meet each other, choices and pads, as passes on several of them look for."""

from __future__ import annotations

from tests.passes.collectives.draw_values import SIZE, Drawing


class Meetings(Drawing):
    """Steps in which collectives meet."""

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
