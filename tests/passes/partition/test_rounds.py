"""What is exchanged and handed on goes to where it belongs at once."""

import pytest

from hloom.passes.partition.reshard_plan import ArrayOnMesh, plan
from hloom.passes.partition.tiling import Tiling
from tests.passes.partition.test_partitioner import cut_and_compared, traffic

HEADS = """ENTRY main {{
  x = f32[4,8,6] parameter(0), sharding={{{source}}}
  ROOT y = f32[4,8,6] negate(x), sharding={{{target}}}
}}"""
SEQUENCE = "devices=[2,2,1,2]<=[2,2,2]T(1,2,0) last_tile_dim_replicate"
ALL_HEADS = "devices=[1,4,1,2]<=[2,2,2]T(1,2,0) last_tile_dim_replicate"


@pytest.mark.parametrize(
    ("source", "target"), [(SEQUENCE, ALL_HEADS), (ALL_HEADS, SEQUENCE)], ids=["into", "out of"]
)
def test_a_sequence_is_exchanged_for_heads_in_another_order(source: str, target: str) -> None:
    """Two axes in the order of the mesh cut heads, of which one cut the sequence: a permute and an
    all-to-all would be one and a half tiles."""
    cut = cut_and_compared(HEADS.format(source=source, target=target), 8)
    tile = 4 * 8 * 6 // 4
    assert traffic(cut) == {"collective-permute": tile}


@pytest.mark.parametrize(
    ("sizes", "source", "target"),
    [((3, 2), ((0,), (1,)), ((), (0, 1))), ((2, 3), ((), (0, 1)), ((0,), (1,)))],
)
def test_as_many_rounds_as_there_are_pieces(sizes, source, target) -> None:
    array = ArrayOnMesh((6, 12, 64), sizes, 4)
    cost, (step,) = plan(array, Tiling((*source, ())), Tiling((*target, ())))
    assert step.kind == "rounds" and step.received == 6 * 12 * 64 * 4 / 6 and cost > step.received


def test_what_does_not_divide_is_exchanged_in_two_steps() -> None:
    array = ArrayOnMesh((5, 12, 64), (2, 2), 4)
    _, steps = plan(array, Tiling(((0,), (1,), ())), Tiling(((), (0, 1), ())))
    assert "rounds" not in [s.kind for s in steps]
