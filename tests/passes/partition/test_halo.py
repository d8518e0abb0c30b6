"""Operations along cut dimensions: parts read what lies beside them; the results are the same bits
as on one device, and no more is communicated than the elements that are missing."""

import numpy as np
import pytest

import hloom
from hloom.interp.lockstep import evaluate_lockstep
from hloom.ir.module import Module
from hloom.ir.text.cursor import Cursor
from hloom.ir.values.sharding_data import join_array
from hloom.ir.values.window import parse_window
from hloom.passes.partition.halo import exchange
from hloom.passes.partition.notes import COMMUNICATES
from hloom.passes.partition.spmd_partitioner import is_partitionable
from hloom.passes.partition.whole_program import split_arguments

SUM = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
MAX = "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }\n"


def compared(text: str, partitions: int = 4) -> Module:
    """The partitioned module, equal in lockstep to the whole one."""
    module = hloom.parse(f"HloModule m, num_partitions={partitions}\n\n{SUM}{MAX}\n{text}")
    hloom.verify(module)
    assert is_partitionable(module)
    arguments = hloom.random_arguments(module, seed=3)
    want = hloom.evaluate(module, *arguments)
    hloom.pass_named("spmd-partitioner").run(module)
    hloom.verify(module)
    found = evaluate_lockstep(module, split_arguments(module, arguments))
    parts = [np.asarray(r.array) for r in found]
    joined = join_array(parts, module.spmd_output_sharding, want.array.shape)
    np.testing.assert_allclose(joined, want.array, rtol=1e-5, atol=1e-6)
    return module


def opcodes_of(module: Module) -> set[str]:
    return {i.opcode for i in module.instructions()}


ROWS = "devices=[4,1]<=[4]"
OPERATIONS = {
    "slice": "f32[{m},2] slice(x), slice={{[3:{n}], [0:2]}}",
    "stride": "f32[{h},2] slice(x), slice={{[1:{n}:2], [0:2]}}",
    "short": "f32[3,2] slice(x), slice={{[{l}:{n}], [0:2]}}",
    "pad": "f32[{p},2] pad(x, one), padding=2_3x0_0",
    "pad-cut": "f32[{q},2] pad(x, one), padding=-1_4x0_0",
    "pad-inside": "f32[{i},2] pad(x, one), padding=1_0_1x0_0",
    "pad-far-inside": "f32[{far},2] pad(x, one), padding=1_1_2x0_0",
    "pad-inside-and-cut": "f32[{odd},2] pad(x, one), padding=2_-3_1x0_0",
    "reverse": "f32[{n},2] reverse(x), dimensions={{0,1}}",
    "window": "f32[{n},2] reduce-window(x, one), window={{size=3x1 pad=1_1x0_0}}, to_apply=add",
    "window-max": "f32[{w},2] reduce-window(x, one), window={{size=3x2 stride=2x1 pad=2_1x1_0}},"
    " to_apply=max",
    "window-far": "f32[{v},2] reduce-window(x, one), window={{size=2x1 rhs_dilate=3x1}},"
    " to_apply=add",
    "cumulative": "f32[{n},2] reduce-window(x, one), window={{size={n}x1 pad={e}_0x0_0}},"
    " to_apply=add",
}


def sizes_of(n: int) -> dict[str, int]:
    return {
        "n": n, "m": n - 3, "h": (n - 1 + 1) // 2, "l": n - 3, "p": n + 5, "q": n + 3,
        "i": 2 * n, "far": 3 * n, "odd": 2 * n - 2, "w": (n + 3 - 3) // 2 + 1, "v": n - 3,
        "e": n - 1,
    }  # fmt: skip


@pytest.mark.parametrize("tiles", [ROWS, "devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate"])
@pytest.mark.parametrize("n", [4, 5, 8, 13, 16])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_part_reads_what_lies_beside_it(name: str, n: int, tiles: str) -> None:
    compared(
        f"""ENTRY main {{
  x = f32[{n},2] parameter(0), sharding={{{tiles}}}
  one = f32[] parameter(1), sharding={{replicated}}
  ROOT y = {OPERATIONS[name].format(**sizes_of(n))}, sharding={{{tiles}}}
}}"""
    )


@pytest.mark.parametrize("n", [8, 16])
def test_a_pad_between_elements_brings_those_at_the_edges_only(n: int) -> None:
    module = compared(
        f"""ENTRY main {{
  x = f32[{n},2] parameter(0), sharding={{{ROWS}}}
  zero = f32[] constant(0)
  ROOT y = f32[{2 * n + 1},2] pad(x, zero), padding=1_1_1x0_0, sharding={{{ROWS}}}
}}"""
    )
    assert "all-gather" not in opcodes_of(module)


@pytest.mark.parametrize("sizes", [(4, 4), (3, 9), (1, 7, 2), (8, 1)])
def test_joined_parts(sizes: tuple[int, ...]) -> None:
    parameters = "\n".join(
        f"  x{k} = f32[{n},2] parameter({k}), sharding={{{ROWS}}}" for k, n in enumerate(sizes)
    )
    names = ", ".join(f"x{k}" for k in range(len(sizes)))
    compared(
        f"ENTRY main {{\n{parameters}\n  ROOT y = f32[{sum(sizes)},2] concatenate({names}), "
        f"dimensions={{0}}, sharding={{{ROWS}}}\n}}"
    )


@pytest.mark.parametrize(
    "window",
    [
        "size=3 pad=1_1", "size=3 stride=2 pad=1_1", "size=2", "size=3 pad=2_2 lhs_dilate=2",
        "size=3 rhs_dilate=2 pad=2_2", "size=3 pad=1_1 rhs_reversal=1", "size=4 stride=4",
        "size=3 stride=2 pad=1_2 lhs_dilate=2", "size=5 pad=7_-3",
    ],
)  # fmt: skip
@pytest.mark.parametrize("n", [8, 16, 13])
def test_images_in_parts(window: str, n: int) -> None:
    size = int(window.split("size=")[1][0])
    dimension = parse_window(Cursor("{" + window + "}")).dimensions[0]
    out = dimension.output_size(n)
    cut = "devices=[1,4,1]<=[4]"
    compared(
        f"""ENTRY main {{
  x = f32[2,{n},3] parameter(0), sharding={{{cut}}}
  w = f32[{size},3,4] parameter(1), sharding={{replicated}}
  ROOT y = f32[2,{out},4] convolution(x, w), window={{{window}}}, dim_labels=b0f_0io->b0f,
    sharding={{{cut}}}
}}"""
    )


def test_a_gradient_of_weights_is_summed_over_parts_of_images() -> None:
    made = compared(
        """ENTRY main {
  x = f32[2,16,3] parameter(0), sharding={devices=[1,4,1]<=[4]}
  g = f32[2,16,4] parameter(1), sharding={devices=[1,4,1]<=[4]}
  ROOT y = f32[3,3,4] convolution(x, g), window={size=16 pad=1_1}, dim_labels=f0b_i0o->0bf,
    sharding={replicated}
}"""
    )
    assert "all-gather" not in opcodes_of(made) and "all-reduce" in opcodes_of(made)


def test_a_convolution_brings_only_the_elements_beside_a_part() -> None:
    made = compared(
        """ENTRY main {
  x = f32[2,16,3] parameter(0), sharding={devices=[1,4,1]<=[4]}
  w = f32[3,3,4] parameter(1), sharding={replicated}
  ROOT y = f32[2,16,4] convolution(x, w), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f,
    sharding={devices=[1,4,1]<=[4]}
}"""
    )
    permutes = [i for i in made.instructions() if i.opcode == "collective-permute"]
    assert [i.shape.dims for i in permutes] == [(2, 1, 3)] * 2
    assert opcodes_of(made).isdisjoint({"all-gather", "all-reduce", "all-to-all"})


@pytest.mark.parametrize("size", [1, 2, 3, 7, 13])
@pytest.mark.parametrize("dtype", ["s32", "u8", "s64", "u64"])
@pytest.mark.parametrize("n", [13, 16])
def test_slices_that_begin_where_a_value_says(size: int, dtype: str, n: int) -> None:
    for start in (0, 2, 5, n - size, 100):
        compared(
            f"""ENTRY main {{
  x = f32[{n},2] parameter(0), sharding={{{ROWS}}}
  i = {dtype}[] constant({start})
  z = {dtype}[] constant(0)
  ROOT y = f32[{size},2] dynamic-slice(x, i, z), dynamic_slice_sizes={{{size},2}},
    sharding={{replicated}}
}}"""
        )
        made = compared(
            f"""ENTRY main {{
  x = f32[{n},2] parameter(0), sharding={{{ROWS}}}
  u = f32[{size},2] parameter(1), sharding={{replicated}}
  i = {dtype}[] constant({start})
  z = {dtype}[] constant(0)
  ROOT y = f32[{n},2] dynamic-update-slice(x, u, i, z), sharding={{{ROWS}}}
}}"""
        )
        if size < n:
            assert "all-gather" not in opcodes_of(made)


def test_exchanges_bring_no_more_than_all_tiles() -> None:
    for size in (1, 5, 8, 16):
        for tiles in (2, 3, 4):
            for first in (-3, -1, 0, 1, 4):
                for step in (1, 2, 4):
                    starts = tuple([first + step * k for k in range(tiles)])
                    found = exchange(size, tiles, starts, step + 1)
                    assert found.received <= (tiles - 1) * -(-size // tiles)
                    assert min(found.positions) >= 0


@pytest.mark.parametrize("by", [1, 3, 4, 7, 15])
@pytest.mark.parametrize("n", [13, 16])
@pytest.mark.parametrize("tiles", [ROWS, "devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate"])
def test_a_rotation_brings_what_it_turns_round(n: int, by: int, tiles: str) -> None:
    by = min(by, n - 1)
    text = f"""ENTRY main {{
  x = f32[{n},2] parameter(0), sharding={{{tiles}}}
  tail = f32[{n - by},2] slice(x), slice={{[{by}:{n}], [0:2]}}
  head = f32[{by},2] slice(x), slice={{[0:{by}], [0:2]}}
  ROOT y = f32[{n},2] concatenate(tail, head), dimensions={{0}}, sharding={{{tiles}}}
}}"""
    made = compared(text)
    if n == 16:
        brought = [i.shape.dims[0] for i in made.instructions() if i.opcode in COMMUNICATES]
        size = 4 if "[4" in tiles else 8
        shift, first = divmod(by, size)
        assert sum(brought) <= (first if not shift else size)


@pytest.mark.parametrize("by", [1, 5, 31])
def test_slices_that_only_rotations_read_bring_nothing(by: int) -> None:
    """The array was gathered for the longer slice, which then nobody read."""
    tiles = "devices=[1,4]<=[4]"
    text = f"""ENTRY main {{
  x = f32[4,32] parameter(0), sharding={{{tiles}}}
  tail = f32[4,{32 - by}] slice(x), slice={{[0:4], [{by}:32]}}
  head = f32[4,{by}] slice(x), slice={{[0:4], [0:{by}]}}
  turned = f32[4,32] concatenate(tail, head), dimensions={{1}}
  ROOT y = f32[4,32] add(turned, x), sharding={{{tiles}}}
}}"""
    made = compared(text)
    brought = [i.shape.dims[1] for i in made.instructions() if i.opcode in COMMUNICATES]
    assert 0 < sum(brought) <= 8


STRIDED = "size=16 pad=0_1 rhs_dilate=2"
UNPADDED = "size=30"
UNEVEN = "size=15 rhs_dilate=2"
WIDE_GRADIENT = "size=16 pad=2_2 rhs_dilate=2 stride=1"


@pytest.mark.parametrize("window", [STRIDED, UNPADDED, UNEVEN, WIDE_GRADIENT])
def test_gradients_of_weights_are_summed_over_cut_images(window: str) -> None:
    size = int(window.split()[0].split("=")[1])
    apart = 2 if "rhs_dilate" in window else 1
    pads = sum(map(int, window.split("pad=")[1].split()[0].split("_"))) if "pad" in window else 0
    count = 32 + pads - ((size - 1) * apart + 1) + 1
    made = compared(
        f"""ENTRY main {{
  x = f32[5,32,2] parameter(0), sharding={{devices=[1,4,1]<=[4]}}
  g = f32[5,{size},4] parameter(1), sharding={{devices=[1,4,1]<=[4]}}
  ROOT w = f32[{count},2,4] convolution(x, g), window={{{window}}}, dim_labels=f0b_i0o->0bf
}}"""
    )
    kinds = {i.opcode for i in made.instructions() if i.opcode in COMMUNICATES}
    assert kinds == {"collective-permute", "all-reduce"}


DILATED = (32, "size=32 pad=2_2 stride=2")
TRANSPOSED = (16, "size=32 pad=1_2 lhs_dilate=2")
SMALL = (10, "size=5 pad=0_1 rhs_dilate=2")


@pytest.mark.parametrize(("image", "window"), [DILATED, TRANSPOSED, SMALL])
def test_so_are_those_of_dilated_and_transposed_convolutions(image: int, window: str) -> None:
    """Three windows, each over all of the image."""
    size = window.split()[0].removeprefix("size=")
    made = compared(
        f"""ENTRY main {{
  x = f32[8,{image},2] parameter(0), sharding={{devices=[1,4,1]<=[4]}}
  g = f32[8,{size},4] parameter(1), sharding={{devices=[1,4,1]<=[4]}}
  ROOT w = f32[3,2,4] convolution(x, g), window={{{window}}}, dim_labels=f0b_i0o->0bf
}}"""
    )
    kinds = {i.opcode for i in made.instructions() if i.opcode in COMMUNICATES}
    assert kinds == {"collective-permute", "all-reduce"}


def test_what_looks_like_a_rotation_is_none() -> None:
    for (a, b), (c, d) in (((4, 16), (0, 8)), ((4, 12), (4, 12)), ((0, 4), (4, 16))):
        compared(
            f"""ENTRY main {{
  x = f32[16,2] parameter(0), sharding={{{ROWS}}}
  a = f32[{b - a},2] slice(x), slice={{[{a}:{b}], [0:2]}}
  b = f32[{d - c},2] slice(x), slice={{[{c}:{d}], [0:2]}}
  ROOT y = f32[{b - a + d - c},2] concatenate(a, b), dimensions={{0}}, sharding={{{ROWS}}}
}}"""
        )


@pytest.mark.parametrize("padding", ["3_3", "0_5", "9_9", "5_0"])
@pytest.mark.parametrize("fill", ["0", "-0", "2.5"])
def test_no_mask_where_tiles_end_with_the_dimension(fill: str, padding: str) -> None:
    low, high = map(int, padding.split("_"))
    made = compared(
        f"""ENTRY main {{
  x = f32[16,2] parameter(0), sharding={{{ROWS}}}
  c = f32[] constant({fill})
  ROOT y = f32[{16 + low + high},2] pad(x, c), padding={padding}x0_0, sharding={{{ROWS}}}
}}"""
    )
    assert all(i.shape.rank < 2 for i in made.instructions() if i.opcode in ("iota", "compare"))


RUNNING = """fold {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] {fold}(a, b)
}}
ENTRY main {{
  x = f32[{size},16] parameter(0), sharding={{devices=[4,1]<=[4]}}
  i = f32[] constant({initial})
  ROOT y = f32[{size},16] reduce-window(x, i), window={{size={size}x1 pad={pad}x0_0}},
    to_apply=fold, sharding={{devices=[4,1]<=[4]}}
}}"""


@pytest.mark.parametrize("is_backward", [False, True])
@pytest.mark.parametrize(("fold", "initial"), [("add", 0), ("add", 3), ("maximum", 0.5)])
@pytest.mark.parametrize("size", [32, 29, 9])
def test_running_folds_exchange_a_row_of_each_part(size, fold, initial, is_backward) -> None:
    pad = f"0_{size - 1}" if is_backward else f"{size - 1}_0"
    made = compared(RUNNING.format(fold=fold, initial=initial, size=size, pad=pad))
    (gathered,) = [i for i in made.instructions() if i.opcode in COMMUNICATES]
    assert gathered.opcode == "all-gather" and gathered.shape.dims == (4, 16)
