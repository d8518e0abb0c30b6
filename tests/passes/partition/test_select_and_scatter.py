"""Gradients of max pooling: windows over cut dimensions; whole numbers, so that sums are exact."""

import numpy as np
import pytest

import hloom
from hloom.interp.lockstep import evaluate_lockstep
from hloom.ir.text.cursor import Cursor
from hloom.ir.values.sharding_data import join_array
from hloom.ir.values.window import parse_window
from hloom.passes.partition.whole_program import partitioned, split_arguments
from tests.passes.partition.test_partitioner import traffic

CALLED = """ge { a = f32[] parameter(0) b = f32[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=# }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
"""
WINDOWS = (
    "size=3x3 stride=2x2 pad=0_1x0_1", "size=3x2 stride=2x2 pad=1_1x1_0", "size=2x2 stride=2x2",
    "size=3x1 stride=1x1 pad=1_1x0_0", "size=2x3 stride=4x2", "size=5x3 stride=2x1 pad=2_2x1_1",
    "size=1x2 stride=2x2", "size=3x3 stride=4x4 pad=3_2x0_5",
    "size=3x2 stride=2x1 rhs_dilate=2x3 pad=2_2x0_3", "size=2x2 stride=3x2 rhs_dilate=4x1",
)  # fmt: skip
BOTH = "devices=[2,2,1]<=[4]"
ONE = "devices=[4,1,1]<=[4]"


def program(window: str, size: tuple[int, int], tiles: str, direction: str) -> hloom.Module:
    w = parse_window(Cursor("{" + window + "}")).dimensions
    out = [d.output_size(n) for d, n in zip(w, size)]
    three = "{" + window.replace(" ", "x1 ", 1) if " " in window else "{" + window + "x1"
    if "pad=" in three:
        head, pads = three.split(" pad=")
        three = f"{head.replace(' stride=', ' stride=')} pad={pads}x0_0"
    words = three[1:].split()
    of_two = [x.startswith(("stride=", "rhs_dilate=")) and x.count("x") < 2 for x in words]
    words = [x + "x1" if short else x for x, short in zip(words, of_two)]
    text = f"""HloModule m, num_partitions=4
{CALLED.replace("#", direction)}
ENTRY main {{
  x = f32[{size[0]},{size[1]},3] parameter(0), sharding={{{tiles}}}
  s = f32[{out[0]},{out[1]},3] parameter(1), sharding={{{tiles}}}
  c = f32[] constant(0.5)
  ROOT y = f32[{size[0]},{size[1]},3] select-and-scatter(x, s, c), window={{{" ".join(words)}}},
    select=ge, scatter=add, sharding={{{tiles}}}
}}"""
    module = hloom.parse(text)
    module.use_spmd_partitioning = True
    return module


def whole_numbers(module: hloom.Module) -> list[hloom.Literal]:
    drawn = hloom.random_arguments(module, seed=4)
    return [hloom.Literal.of(np.round(8 * x.array)) for x in drawn]


def odd(x: np.ndarray, seed: int) -> np.ndarray:
    """Few different values, among them those that padding could be taken for."""
    draw = np.random.default_rng(seed)
    return draw.choice(np.array([-np.inf, 0.0, 1.0, 1.0, 2.0], x.dtype), x.shape)


@pytest.mark.parametrize("tiles", [ONE, BOTH])
@pytest.mark.parametrize("size", [(16, 8), (8, 12), (13, 9), (33, 10)])
@pytest.mark.parametrize("window", WINDOWS)
def test_windows_over_parts(window: str, size: tuple[int, int], tiles: str) -> None:
    for direction in ("GE", "GT"):
        module = program(window, size, tiles, direction)
        x, s = whole_numbers(module)
        for values in (x.array, odd(x.array, 1), np.full_like(x.array, -np.inf)):
            arguments = [hloom.Literal.of(values), s]
            want = hloom.evaluate(module, *arguments).array
            cut = partitioned(module)
            parts = evaluate_lockstep(cut, split_arguments(cut, arguments))
            joined = join_array([p.array for p in parts], cut.spmd_output_sharding, want.shape)
            np.testing.assert_array_equal(joined, want)


def test_only_what_windows_share_is_communicated() -> None:
    cut = partitioned(program(WINDOWS[2], (16, 8), ONE, "GE"))
    assert traffic(cut) == {}
    cut = partitioned(program(WINDOWS[0], (16, 8), ONE, "GE"))
    # A row of the array and one of the source beside each part.
    assert traffic(cut).keys() == {"collective-permute"}
    assert sum(traffic(cut).values()) < 4 * (3 * 8 * 3 + 2 * 4 * 3)


def test_on_devices_as_in_lockstep() -> None:
    module = program(WINDOWS[0], (16, 8), BOTH, "GE")
    arguments = whole_numbers(module)
    want = hloom.evaluate(module, *arguments).array
    cut = partitioned(module)
    parts = hloom.compile(cut).run_devices(split_arguments(cut, arguments))
    joined = join_array([np.asarray(p) for p in parts], cut.spmd_output_sharding, want.shape)
    np.testing.assert_array_equal(joined, want)
