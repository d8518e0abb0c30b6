"""A value while its module is partitioned: what devices hold of it, under one or more tilings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.partition.reshard import Emitter
from hloom.passes.partition.reshard_plan import ReshardStep, plan
from hloom.passes.partition.tiling import Axes, Tiling
from hloom.types.shape import Shape

MOST_REPEATED = 4
"""So many operations are done again of one another."""


class TiledValue:
    """One array (or token) of the old program.

    `shape` is that of the whole, `forms` the parts that there are, by tiling; others are made from
    the cheapest when somebody asks. `primary` is how it is to stand: as its sharding says, else as
    it was computed. What costs nothing to compute is made in any tiling (`make`). Along `manual`
    axes the program cut it by itself: `shape` is that of a part there. What is computed of values
    that every device has whole by then can be computed again, in another tiling (`repeated_by`),
    where that is less than to receive it; what puts its operands together element by element, of
    theirs (`rebuilt_by`), where those are less.
    """

    __slots__ = (
        "_again",
        "_again_known",
        "_again_of",
        "_again_work",
        "_fits",
        "_is_moved",
        "_make",
        "_price",
        "_rebuild",
        "_rebuilt_of",
        "depth",
        "emitter",
        "forms",
        "manual",
        "of",
        "primary",
        "shape",
    )

    def __init__(
        self,
        emitter: Emitter,
        shape: Shape,
        forms: dict[Tiling, Instruction],
        primary: Tiling,
        make: Callable[[Tiling], Instruction] | None = None,
        price: Callable[[Tiling], float] | None = None,
        manual: Axes = (),
    ) -> None:
        self.emitter = emitter
        self.of = emitter.at
        self.shape = shape
        self.forms = forms
        self.primary = primary
        self.manual = manual
        self._make = make
        self._price = price or (lambda _: 0.0)
        self._again: Callable[[Tiling], Instruction | None] | None = None
        self._again_of: Sequence[TiledValue] = ()
        self._again_work = 0.0
        self._again_known = math.inf
        self._rebuild: Callable[[Tiling], Instruction] | None = None
        self._fits: Callable[[Tiling], bool] = lambda _: True
        self._rebuilt_of: Sequence[TiledValue] = ()
        self._is_moved = False
        self.depth = 0

    def rebuilt_by(
        self,
        rebuild: Callable[[Tiling], Instruction],
        fits: Callable[[Tiling], bool],
        operands: Sequence[TiledValue],
        depth: int,
        is_moved: bool = False,
    ) -> None:
        """Say how the value is put together, in a tiling that `fits`, of its operands, which stand
        alike. `depth`: so many are rebuilt of one another; `is_moved`: parts have been received for
        it, which nobody may need where it is rebuilt."""
        self._rebuild, self._fits, self._rebuilt_of, self.depth = rebuild, fits, operands, depth
        self._is_moved = is_moved or any(v._is_moved for v in operands)

    def _sources(self, t: Tiling) -> dict[int, tuple[float, TiledValue]]:
        """What is received to rebuild it in a tiling, and the price of each."""
        sources: dict[int, tuple[float, TiledValue]] = {}
        for v in self._rebuilt_of:
            own = v._cheapest_form(t)[0]
            if own and v._rebuilt_of and v._fits(t):
                of = v._sources(t)
                if sum([price for price, _ in of.values()]) <= own:
                    sources |= of
                    continue
            sources[id(v.forms)] = (own, v)
        return sources

    def _rebuild_price(self, t: Tiling) -> float:
        """The price of what it is rebuilt of; infinite: not in that tiling."""
        if not self._rebuilt_of or t.partial or not self._fits(t):
            return math.inf
        return sum([price for price, _ in self._sources(t).values()])

    def rebuilt(self, t: Tiling) -> Instruction:
        """The part of a device under a tiling in which all that it is rebuilt of is there."""
        if t in self.forms or self._rebuild is None:
            return self.get(t)
        part = self.forms[t] = self._rebuild(t)
        return part

    def repeated_by(
        self,
        again: Callable[[Tiling], Instruction | None],
        work: float,
        operands: Sequence[TiledValue],
    ) -> None:
        """Say how the value is computed in a tiling of operands that are whole, with nothing
        received; None: not in that one. `work` is what that counts beside bytes received."""
        self._again, self._again_work, self._again_of = again, work, operands
        self._again_known = self._again_bytes()

    def _work_bytes(self, depth: int = MOST_REPEATED) -> float:
        """What it counts to have all of it with nothing received; infinite: something would be, or
        more than `depth` operations would be done again of one another."""
        whole = self._whole
        if whole in self.forms or (self._make is not None and not self._price(whole)):
            return 0.0
        return self._again_bytes(depth)

    def _again_bytes(self, depth: int = MOST_REPEATED) -> float:
        """What it counts to compute it again of what is whole by now."""
        if self._again_known < math.inf or self._again is None or not depth:
            return self._again_known
        bytes = self._again_work
        for v in self._again_of:
            bytes += v._work_bytes(depth - 1)
            if bytes == math.inf:
                return bytes
        self._again_known = bytes  # what is there stays there
        return bytes

    @property
    def _whole(self) -> Tiling:
        return Tiling.replicated(self.shape.rank if self.shape.is_array else 0)

    @property
    def is_free(self) -> bool:
        """Whether it can be had in any tiling."""
        return self._make is not None

    def at_hand(self) -> Tiling:
        """How parts stand that are there, so that nothing has to be received; `primary` where there
        are none, or only parts to be put together."""
        if self.primary in self.forms:
            return self.primary
        return next((t for t in self.forms if not t.partial), self.primary)

    def cost(self, t: Tiling) -> float:
        """The price in bytes of having it under a tiling."""
        return self._cheapest(t)[0]

    def received(self, t: Tiling) -> float:
        """The bytes that a device receives to have it under a tiling."""
        cost, source = self._cheapest(t)
        return 0.0 if source is None and cost >= self._again_bytes() else cost

    def _cheapest(self, t: Tiling) -> tuple[float, Tiling | None]:
        """The price, and from which form: the one that is asked for where it is rebuilt; None: it
        is made, or computed again."""
        best = self._cheapest_form(t)
        cost = self._rebuild_price(t) if best[0] > 0 else math.inf
        return (cost, t) if cost < best[0] or (cost == best[0] and self._is_moved) else best

    def _cheapest_form(self, t: Tiling) -> tuple[float, Tiling | None]:
        """The same where it is not rebuilt."""
        if t in self.forms:
            return 0.0, t
        best: tuple[float, Tiling | None] = (math.inf, None)
        if self._make is not None and not t.partial:
            best = (self._price(t), None)
            if best[0] == 0:
                return best
        array = self.emitter.array(self.shape, self.manual)
        for source in self.forms:
            cost = plan(array, source, t)[0] if self.shape.is_array else 0.0
            if cost < best[0]:
                best = (cost, source)
        again = self._again_bytes() if best[0] > 0 else math.inf
        return best if best[0] <= again else (again, None)

    def get(self, t: Tiling) -> Instruction:
        """The part of a device under a tiling."""
        part = self.forms.get(t)
        if part is not None:
            return part
        _, source = self._cheapest(t)
        if source is None and t.partial and self._make is not None:
            source = self._whole  # parts of sums are not made: all devices would have all of it
            self.forms.setdefault(source, self._make(source))
        if source is None and self._make is not None:
            part = self.forms[t] = self._make(t)
            return part
        if source == t:
            for _, v in self._sources(t).values():
                v.get(t)
            return self.rebuilt(t)
        if source is None:
            assert self._again is not None, "a value has a form or can be made"
            part = None if t.partial else self._again(t)
            if part is not None:
                self.forms[t] = part
                return part
            source = self._whole
            whole = self._again(source)
            assert whole is not None, "what nothing cuts can be computed whole"
            self.forms[source] = whole
        part, at = self.forms[source], source
        for step in plan(self.emitter.array(self.shape, self.manual), source, t)[1]:
            if step.after not in self.forms:
                first = len(self.emitter.added)
                moved = self.emitter.take(part, self.shape, at, step, self.manual)
                self.forms[step.after] = moved
                self._say_why(self.emitter.added[first:], step)
            part, at = self.forms[step.after], step.after
        return part

    def _say_why(self, added: Sequence[Instruction], step: ReshardStep) -> None:
        """Keep what the collectives of a step are for."""
        name = f"%{self.of.name}" if self.of is not None else "the value"
        d = step.dimension
        why = {
            "all-gather": f"{name} is cut along dimension {d}, and is read whole there",
            "collective-broadcast": f"{name} is cut along dimension {d} so often that most devices "
            "have nothing of it, and is read whole there",
            "all-to-all": f"{name} is cut along dimension {d}, and is read cut along dimension "
            f"{step.split}",
            "collective-permute": f"the tiles of {name} are on other devices than those that read "
            "them",
            "all-reduce": f"{name} is summed (or folded) over what is cut: each device has a part "
            "of every element",
            "reduce-scatter": f"{name} is summed (or folded) over what is cut, and is read in "
            f"parts along dimension {d}",
        }.get(step.kind)
        for x in added if why else ():
            if x.opcode == step.kind:
                self.emitter.whys[x] = why or ""

    def seen(self, primary: Tiling | None) -> TiledValue:
        """The same value, to stand otherwise."""
        if primary is None or primary == self.primary:
            return self
        seen = TiledValue(
            self.emitter, self.shape, self.forms, primary, self._make, self._price, self.manual
        )
        seen._again, seen._again_of = self._again, self._again_of
        seen._again_work, seen._again_known = self._again_work, self._again_known
        seen._rebuild, seen._fits, seen._rebuilt_of = self._rebuild, self._fits, self._rebuilt_of
        seen.depth, seen._is_moved = self.depth, self._is_moved
        return seen

    def whole(self) -> Instruction:
        """All of it, on every device."""
        return self.get(self._whole)
