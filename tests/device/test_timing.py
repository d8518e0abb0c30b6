"""Times follow from rates, bytes and bandwidths."""

from dataclasses import replace

import pytest

from hloom.device.costs import Costs
from hloom.device.device import Cache
from hloom.device.ids import GlobalDeviceId
from hloom.device.known import known_device
from hloom.device.timing import (
    collective_ns,
    copy_engine,
    copy_ns,
    floor,
    kernel_ns,
    routine_ns,
)
from hloom.device.topology import alike, topology_named

H100, SIM = known_device("h100"), known_device("sim")


def test_a_product_of_large_matrices_takes_what_the_matrix_units_need():
    n = 8192
    moved = {0: 3 * n * n * 2.0}
    took = kernel_ns(H100, 2 * n**3, moved, "bf16", matrix=True) - H100.costs.kernel_ns
    assert took == pytest.approx(2 * n**3 / 989e12 * 1e9, rel=0.02)
    assert kernel_ns(H100, 2 * n**3, moved, "f32") > 10 * took


def test_what_moves_much_takes_what_memory_needs():
    took = kernel_ns(H100, 1e6, {0: 3.35e9}) - H100.costs.kernel_ns
    assert took == pytest.approx(1e6, rel=1e-6)
    near = kernel_ns(SIM, 0, {1: 1e6}) - SIM.costs.kernel_ns
    assert kernel_ns(SIM, 0, {0: 1e6}) - SIM.costs.kernel_ns == pytest.approx(10 * near)
    assert kernel_ns(SIM, 0, {}) == SIM.costs.kernel_ns


def test_copies_go_by_the_engine_for_their_spaces():
    assert copy_engine(H100, 0, 5).name == "to-host" and copy_engine(H100, 0, 0) is None
    assert copy_ns(H100, 64e9, 0, 5) == pytest.approx(1e9)
    assert copy_ns(SIM, 0, 0, 1) == 500.0
    assert copy_ns(H100, 3.35e9, 0, 0) == pytest.approx(H100.costs.kernel_ns + 2e6)


def test_a_routine_is_done_by_one_unit():
    assert routine_ns(SIM, 1e6, {0: 1000}) == SIM.costs.kernel_ns + 1e6


def test_collectives_go_around_a_ring():
    two = topology_named("two-gpus")
    ids = [m.id for m in two]
    assert collective_ns(two, ids, 450e6, "all-reduce") == pytest.approx(1e6 + 4000)
    assert collective_ns(two, ids, 450e6, "all-gather") == pytest.approx(0.5e6 + 2000)
    assert collective_ns(two, ids, 450e6, "permute") == pytest.approx(1e6 + 2000)
    assert collective_ns(two, ids[:1], 1e9, "all-reduce") == 0
    unlinked = alike(SIM, 2)
    ids = [GlobalDeviceId(k) for k in range(2)]
    assert collective_ns(unlinked, ids, 1e9, "all-gather") == pytest.approx(0.5e9 + 2000)


def test_a_floor_is_the_longest_of_what_must_be_done():
    host = replace(
        known_device("x86-64-v3"),
        caches=(Cache(level=1, size_bytes=1 << 15, bandwidth_bytes_per_s=1e11),),
    )
    units, rate = host.compute.units, host.compute.operations_per_s("f32")
    assert floor(host, {}, 0, {}) == (host.costs.kernel_ns, "start")
    assert floor(host, {"f32": rate}, 0, {0: 8}) == (pytest.approx(1e9), "operations")
    both = floor(host, {"f32": rate, "f64": host.compute.operations_per_s("f64")}, 0, {})
    assert both.ns == pytest.approx(2e9)
    ns = 1e9 * host.costs.operation_ns / units
    assert floor(host, {}, 1e9, {}) == (pytest.approx(ns), "functions")
    near, far = (1 << 15) * units, (1 << 15) * units + 1
    slow = replace(host, costs=Costs(kernel_ns=0.0))
    assert floor(slow, {}, 0, {0: near}) == (pytest.approx(near / 1e11 * 1e9 / units), "cache 1")
    assert floor(slow, {}, 0, {0: far}).bound == "memory"
