"""Values whose shardings name devices in an order that is not the mesh's, and few elements."""

import pytest

from hloom.passes.partition.partitioner import Partitioner
from tests.passes.partition.test_partitioner import cut_and_compared, traffic

MESH = "{devices=[2,3]<=[6]}"
OTHER = "{devices=[1,3,2]4,1,0,5,3,2 last_tile_dim_replicate}"


@pytest.mark.parametrize("x", [f"parameter(1), sharding={OTHER}", "iota(), iota_dimension=1"])
def test_what_is_in_an_order_or_everywhere_is_returned_without_a_move(x: str) -> None:
    """What came in that order was handed on into the mesh's, and back; of what all devices have
    tiles of the mesh were cut, and handed on."""
    cut = cut_and_compared(f"""ENTRY main {{
      y = f32[6,6] parameter(0), sharding={MESH}
      x = f32[6,6] {x}
      z = f32[6,6] negate(y), sharding={MESH}
      ROOT t = (f32[6,6], f32[6,6]) tuple(x, z), sharding={{{OTHER}, {MESH}}}
    }}""", 6)  # fmt: skip
    assert traffic(cut) == {}


def test_tiles_that_are_handed_on_twice_go_once() -> None:
    """A mirrored dimension: parts change places, and then move on by what the last one lacks."""
    cut = cut_and_compared("""ENTRY main {
      x = f32[3,8] parameter(0), sharding={devices=[4,1]<=[4]}
      ROOT r = f32[3,8] reverse(x), dimensions={0}, sharding={devices=[4,1]<=[4]}
    }""")  # fmt: skip
    assert traffic(cut) == {"collective-permute": 8}


@pytest.mark.parametrize("depth", [4, 64])
def test_few_elements_are_gathered_where_sums_would_be_more(depth: int) -> None:
    """A sum over a cut dimension, of which every device wants all: the sums are more than what is
    summed. Of much work each device does its part all the same."""
    rows = 16
    cut = cut_and_compared(f"""ENTRY main {{
      x = f32[{rows},{depth}] parameter(0), sharding={{devices=[1,4]<=[4]}}
      y = f32[{depth},{rows}] parameter(1), sharding={{devices=[4,1]<=[4]}}
      d = f32[{rows},{rows}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
      ROOT t = (f32[{rows},{rows}]) tuple(d), sharding={{{{replicated}}}}
    }}""")
    is_few = rows * rows * depth <= Partitioner.most_repeated
    assert traffic(cut) == (
        {"all-gather": 2 * rows * depth} if is_few else {"all-reduce": rows * rows}
    )


def test_sums_are_scattered_that_only_the_result_holds() -> None:
    """Of a tuple of which each element says how it stands, without a word at what it is made of."""
    cut = cut_and_compared("""ENTRY main {
      x = f32[8,64] parameter(0), sharding={devices=[1,4]<=[4]}
      y = f32[64,8] parameter(1), sharding={devices=[4,1]<=[4]}
      d = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT t = (f32[8,8]) tuple(d), sharding={{devices=[4,1]<=[4]}}
    }""")  # fmt: skip
    assert traffic(cut) == {"reduce-scatter": 16}


def test_what_is_spread_is_cut_in_any_order_once_it_is_received() -> None:
    """It was made in the mesh's order, and each tile handed on."""
    cut = cut_and_compared("""ENTRY main {
      x = f32[2,4,4] parameter(0), sharding={devices=[3,1,1]0,1,2}
      y = f32[3,4] parameter(1), sharding={devices=[1,3]0,1,2}
      z = f32[3,4] sine(y), sharding={devices=[1,3]0,1,2}
      b = f32[2,4,16,4] broadcast(x), dimensions={0,1,3}
      ROOT t = (f32[2,4,16,4], f32[3,4]) tuple(b, z),
        sharding={{devices=[1,1,3,1]0,2,1}, {devices=[1,3]0,1,2}}
    }""", 3)  # fmt: skip
    assert traffic(cut) == {"all-gather": 3 * 4 * 4}
