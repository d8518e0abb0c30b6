"""Drawn products of whole numbers, gathered or scattered along any dimension, are the same bits as
loops."""

import numpy as np
import pytest

import hloom
from hloom.interp import evaluate_lockstep
from hloom.passes.collectives.windowed_einsum import WindowedEinsum, before_and_after_ns
from tests.pass_case import leaves
from tests.random_arguments import arguments_on_devices


class Product:
    """A dot with batch, contracting and free dimensions in any order."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.devices = int(rng.choice([2, 3, 4]))
        sizes = {k: self.devices * int(rng.integers(1, 4)) for k in "bckmn"}
        own = [list("bckm"), list("bckn")]
        if seed % 3 == 0:
            own = [list("km"), list("kn")]
        self.letters = [rng.permutation(letters).tolist() for letters in own]
        self.sizes = sizes
        batch = [c for c in "bc" if c in self.letters[0]]
        self.out = [*batch, *(c for side in self.letters for c in side if c in "mn")]
        self.batch, self.depth = batch, ["k"]

    def shape(self, letters, cut="") -> str:
        dims = [self.sizes[c] // (self.devices if c == cut else 1) for c in letters]
        return f"s32[{','.join(map(str, dims))}]"

    @property
    def dot(self) -> str:
        def at(side: int, letters) -> str:
            return ",".join(str(self.letters[side].index(c)) for c in letters)

        return (
            f"{self.shape(self.out)} dot(l, r), lhs_batch_dims={{{at(0, self.batch)}}}, "
            f"rhs_batch_dims={{{at(1, self.batch)}}}, lhs_contracting_dims={{{at(0, 'k')}}}, "
            f"rhs_contracting_dims={{{at(1, 'k')}}}"
        )

    @property
    def meeting(self) -> str:
        order = ",".join(map(str, self.rng.permutation(self.devices)))
        return f"channel_id=1, replica_groups={{{{{order}}}}}, use_global_device_ids=true"

    def gathered(self) -> str:
        side = int(self.rng.integers(2))
        d = int(self.rng.integers(len(self.letters[side])))
        cut = self.letters[side][d]
        cuts = [cut if k == side else "" for k in (0, 1)]
        shapes = [self.shape(letters, c) for letters, c in zip(self.letters, cuts)]
        names = ["x", "r"] if side == 0 else ["l", "x"]
        return f"""HloModule m, num_partitions={self.devices}
ENTRY e {{
  {names[0]} = {shapes[0]} parameter(0)
  {names[1]} = {shapes[1]} parameter(1)
  {"lr"[side]} = {self.shape(self.letters[side])} all-gather(x), {self.meeting}, dimensions={{{d}}}
  ROOT y = {self.dot}
}}"""

    def scattered(self) -> str:
        d = int(self.rng.integers(len(self.out)))
        return f"""HloModule m, num_partitions={self.devices}
sum {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = s32[] add(a, b)
}}
ENTRY e {{
  l = {self.shape(self.letters[0])} parameter(0)
  r = {self.shape(self.letters[1])} parameter(1)
  y = {self.dot}
  ROOT s = {self.shape(self.out, self.out[d])} reduce-scatter(y), {self.meeting},
    dimensions={{{d}}}, to_apply=sum
}}"""

    def _turned(self, letters: list[str]) -> tuple[list[str], str]:
        """Letters in another order, and the transpose that makes them these."""
        order = self.rng.permutation(len(letters))
        before = [""] * len(letters)
        for new, old in enumerate(order):
            before[old] = letters[new]
        return before, ",".join(map(str, order))

    def exchanged(self) -> str:
        """An operand that is exchanged, then turned, and its dimensions joined."""
        side = int(self.rng.integers(2))
        letters = self.letters[side]
        before, order = self._turned(letters)
        n, d = self.devices, int(self.rng.integers(len(letters)))
        names = ["x", "r"] if side == 0 else ["l", "x"]
        shapes = [self.shape(own) for own in self.letters]
        dims = [self.sizes[c] for c in before]
        apart = [*dims[:d], n, dims[d] // n, *dims[d + 1 :]]
        text = f"s32[{','.join(map(str, apart))}]"
        whole = self.shape(before)
        shapes[side] = whole
        return f"""HloModule m, num_partitions={n}
ENTRY e {{
  {names[0]} = {shapes[0]} parameter(0)
  {names[1]} = {shapes[1]} parameter(1)
  apart = {text} reshape(x)
  a = {text} all-to-all(apart), {self.meeting.split(", use")[0]}, dimensions={{{d}}}
  one = {whole} reshape(a)
  {"lr"[side]} = {self.shape(letters)} transpose(one), dimensions={{{order}}}
  ROOT y = {self.dot}
}}"""

    def given_back(self) -> str:
        """A product that is turned, and then exchanged."""
        order = self.rng.permutation(len(self.out))
        turned = [self.out[k] for k in order]
        d = int(self.rng.integers(len(turned)))
        return f"""HloModule m, num_partitions={self.devices}
ENTRY e {{
  l = {self.shape(self.letters[0])} parameter(0)
  r = {self.shape(self.letters[1])} parameter(1)
  y = {self.dot}
  t = {self.shape(turned)} transpose(y), dimensions={{{",".join(map(str, order))}}}
  ROOT s = {self.shape(turned)} all-to-all(t), {self.meeting.split(", use")[0]}, dimensions={{{d}}}
}}"""


@pytest.mark.parametrize("kind", ["exchanged", "given_back"])
def test_pieces_compute_the_same(kind: str) -> None:
    for seed in range(30):
        module = hloom.parse(getattr(Product(seed), kind)())
        hloom.verify(module)
        arguments = arguments_on_devices(module, np.random.default_rng(seed))
        wanted = [leaves(r) for r in evaluate_lockstep(module, arguments)]
        assert WindowedEinsum(all_to_all=True).run(module).fired.total() == 1
        hloom.verify(module)
        for old, r in zip(wanted, evaluate_lockstep(module, arguments), strict=True):
            for x, y in zip(old, leaves(r), strict=True):
                np.testing.assert_array_equal(x, y, err_msg=f"seed {seed}")


@pytest.mark.parametrize("kind", ["gathered", "scattered"])
@pytest.mark.parametrize("is_both_ways", [True, False])
def test_a_loop_computes_the_same(kind: str, is_both_ways: bool) -> None:
    for seed in range(20):
        module = hloom.parse(getattr(Product(seed), kind)())
        hloom.verify(module)
        arguments = arguments_on_devices(module, np.random.default_rng(seed))
        wanted = [leaves(r) for r in evaluate_lockstep(module, arguments)]
        result = WindowedEinsum(least_mib=0, bidirectional=is_both_ways).run(module)
        assert result.fired.total() == 1
        hloom.verify(module)
        for old, r in zip(wanted, evaluate_lockstep(module, arguments), strict=True):
            for x, y in zip(old, leaves(r), strict=True):
                np.testing.assert_array_equal(x, y, err_msg=f"seed {seed}")


def test_what_is_hidden_is_worth_more_the_longer_it_takes() -> None:
    def gain(n: int) -> float:
        text = f"""HloModule m, num_partitions=4
ENTRY e {{
  x = f32[{n},{n}] parameter(0)
  ROOT y = f32[{n},{n}] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}"""
        root = hloom.parse(text).entry.root
        before, after = before_and_after_ns("h100", range(4), root, 4 * n * n)
        return before - after

    assert gain(64) < 0 < gain(4096) < gain(16384)
