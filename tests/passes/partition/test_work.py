"""What devices would all do alike is weighed against the bytes that dividing it takes."""

from types import SimpleNamespace

import pytest

from hloom.analysis.cost import module_cost
from hloom.device.known import known_names
from hloom.passes.partition.exchanged_sums import SumExchange
from hloom.passes.partition.ways import cheapest
from hloom.passes.partition.whole_program import partitioned
from hloom.passes.partition.work_price import multiply_bytes
from tests.passes.partition.test_partitioner import cut_and_compared, parsed, traffic

GRADIENT = """ENTRY main {
  x = f32[64,128] parameter(0), sharding={devices=[4,1]<=[4]}
  d = f32[64,128] parameter(1), sharding={devices=[4,1]<=[4]}
  ROOT g = f32[128,128] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}, sharding={replicated}
}"""  # noqa: E501  a line each
SQUARED = """ENTRY main {
  x = f32[128,16] parameter(0), sharding={devices=[2,2]<=[4]}
  y = f32[128,128] parameter(1), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  z = f32[128,128] parameter(2), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  s = f32[128,128] dot(y, z), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  ROOT r = f32[128,16] dot(s, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,2]<=[4]}
}"""  # noqa: E501


def share(text: str) -> float:
    """What all four devices do together, as a part of what one would."""
    module = parsed(text, 4)
    return 4 * module_cost(partitioned(module)).total.flops / module_cost(module).total.flops


def test_a_product_is_not_done_whole_to_save_a_few_bytes() -> None:
    """To gather x and d is 49,152 bytes, and 786,432 multiply-adds; to exchange x and to gather d
    and the result 79,872."""
    assert traffic(cut_and_compared(GRADIENT, 4)).keys() == {"all-to-all", "all-gather"}
    assert share(GRADIENT) < 1.2


def test_axes_that_others_are_cut_by_divide_a_product() -> None:
    assert share(SQUARED) < 1.3


def test_the_price_of_a_multiplication_is_that_of_a_machine() -> None:
    prices = {name: multiply_bytes(name) for name in known_names()}
    assert 0.01 < prices["x86-64-v3"] < 1 and min(prices.values()) > 0


LEAST, EXCHANGED, PLAIN = (100, 900), SumExchange.LESS, SumExchange.NEVER


@pytest.mark.parametrize(
    ("others", "taken"),
    [
        ([(120, 300, EXCHANGED)], 1),  # a fifth more bytes for a third of the price
        ([(130, 300, EXCHANGED)], 0),  # too many more
        ([(100, 900, EXCHANGED)], 0),  # the same, by exchanges
        ([(100, 890, EXCHANGED), (110, 890, PLAIN)], 2),
    ],
)
def test_little_more_is_received_for_less_work(others: list, taken: int) -> None:
    ways = [
        SimpleNamespace(received=received, price=price, run=SimpleNamespace(exchange=exchange))
        for received, price, exchange in [(*LEAST, PLAIN), *others]
    ]
    assert cheapest(ways) is ways[taken]
