"""Lists of devices as iotas and back; what is cut already is left as it is."""

from math import prod
from random import Random

import numpy as np
import pytest

import hloom
from hloom.passes.sharding.sharding_format_picker import iota_of


@pytest.mark.parametrize("seed", range(40))
def test_every_transposed_iota_is_seen(seed: int) -> None:
    r = Random(seed)
    dims = [r.choice((1, 2, 2, 3, 4, 5)) for _ in range(r.randint(1, 5))]
    order = list(range(len(dims)))
    r.shuffle(order)
    devices = np.arange(prod(dims)).reshape(dims).transpose(order).reshape(-1).tolist()
    iota = iota_of(devices)
    assert iota is not None
    assert iota.array().reshape(-1).tolist() == devices


@pytest.mark.parametrize(
    "devices", [(1, 0), (0, 2, 1), (0, 3, 5, 6, 1, 2, 4, 7), (0, 1, 3, 2), (0, 2, 1, 4, 3, 5)]
)
def test_what_is_no_iota_stays_a_list(devices: tuple[int, ...]) -> None:
    assert iota_of(devices) is None


def test_what_is_manual_is_not_cut_again() -> None:
    module = hloom.parse("""HloModule m, num_partitions=2
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    ENTRY main {
      x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
      ROOT y = f32[4] negate(x), sharding={devices=[2]<=[2]}
    }""")
    hloom.pass_named("whole-graph-manual-pass").run(module)
    assert not hloom.pass_named("sharding-propagation").run(module).changed
    assert not hloom.pass_named("spmd-partitioner").run(module).changed
    assert module.entry.root.shape.dims == (4,)
