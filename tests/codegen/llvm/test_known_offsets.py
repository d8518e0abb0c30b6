"""Gathers whose offsets lie at known distances: loads and shuffles."""

from __future__ import annotations

import pytest

from hloom.codegen.llvm.lower import lower_kernel
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import S32, Kernel, Value
from hloom.types.dtype import BY_NAME, F32
from tests.codegen.llvm.lowering import check, check_all, machines
from tests.codegen.llvm.test_lower_memory import SOME, arguments


@pytest.mark.parametrize("machine", machines())
def test_offsets_of_known_distances(machine: str) -> None:
    """Repeated, reversed in groups, and too far apart; from a place that is known at run time."""
    kernels = []
    for name in SOME:
        for lanes, by, factor in ((16, 4, 1), (33, 3, 1), (12, 5, 2), (16, 2, 9)):
            b = KernelBuilder(f"known_{name}_{lanes}_{by}_{factor}", (3,))
            [step] = b.grid_indices
            x = b.param("x", BY_NAME[name], 400, "in")
            out = b.param("out", BY_NAME[name], 3 * lanes, "out")
            lane = b.iota(S32, (lanes,), 0)
            group = b.binary("divide", lane, b.constant(S32, by, (lanes,)))
            apart = b.binary("multiply", group, b.constant(S32, factor, (lanes,)))
            rest = b.binary("remainder", lane, b.constant(S32, 2, (lanes,)))
            start = b.broadcast(b.convert(b.binary("multiply", step, b.index(7)), S32), (lanes,))
            offsets = b.binary("add", b.binary("add", start, apart), rest)
            b.store(out, b.binary("multiply", step, b.index(lanes)), b.gather(x, offsets), (1,))
            kernels.append(b.finish())
    check_all(kernels, [arguments(k) for k in kernels], machine)


def _lanes_in_runs(b: KernelBuilder, lanes: int, run: int, start: Value) -> list[Value]:
    """Of each lane a number that is the same for all, its run of `run` lanes, its place in that."""
    lane, by = b.iota(S32, (lanes,), 0), b.constant(S32, run, (lanes,))
    first = b.broadcast(b.convert(start, S32), (lanes,))
    return [first, b.binary("divide", lane, by), b.binary("remainder", lane, by)]


def _patches(name: str, lanes: int, run: int, apart: int) -> Kernel:
    """Reads `run` elements side by side, `apart` from the next ones, up to the buffer's end."""
    reach = max(n // run * apart + n % run for n in range(lanes))
    b = KernelBuilder(f"patches_{name}_{lanes}_{run}_{apart}", (3,))
    [step] = b.grid_indices
    x = b.param("x", BY_NAME[name], reach + 1 + 2 * 5, "in")
    out = b.param("out", BY_NAME[name], 3 * lanes, "out")
    start, group, place = _lanes_in_runs(b, lanes, run, b.binary("multiply", step, b.index(5)))
    group = b.binary("multiply", group, b.constant(S32, apart, (lanes,)))
    offsets = b.binary("add", b.binary("add", start, group), place)
    b.store(out, b.binary("multiply", step, b.index(lanes)), b.gather(x, offsets), (1,))
    return b.finish()


@pytest.mark.parametrize("machine", machines())
def test_runs_of_elements_side_by_side(machine: str) -> None:
    sizes = ((48, 12, 200), (48, 6, 100), (24, 2, 97), (7, 3, 90), (64, 5, 150), (30, 15, 999))
    kernels = [_patches(name, *size) for name in SOME for size in sizes]
    check_all(kernels, [arguments(k) for k in kernels], machine)


def _written(name: str, lanes: int, run: int, apart: int) -> Kernel:
    """Writes `run` elements side by side, `apart` from the next ones, up to the buffer's end."""
    reach = max(n // run * apart + n % run for n in range(lanes))
    b = KernelBuilder(f"written_{name}_{lanes}_{run}_{apart}", (3,))
    [step] = b.grid_indices
    x = b.param("x", BY_NAME[name], 3 * lanes, "in")
    out = b.param("out", BY_NAME[name], 3 * (reach + 1), "inout")
    begin = b.binary("multiply", step, b.index(reach + 1))
    start, group, place = _lanes_in_runs(b, lanes, run, begin)
    group = b.binary("multiply", group, b.constant(S32, apart, (lanes,)))
    offsets = b.binary("add", b.binary("add", start, group), place)
    row = b.load(x, b.binary("multiply", step, b.index(lanes)), (lanes,), (1,))
    b.scatter(out, offsets, row)
    return b.finish()


WRITTEN = ((120, 15, 16), (48, 12, 200), (7, 3, 5), (64, 5, 9), (66, 33, 40), (130, 65, 66))


@pytest.mark.parametrize("machine", machines())
def test_runs_are_written_side_by_side(machine: str) -> None:
    kernels = [_written(name, *size) for name in SOME for size in (*WRITTEN, (8, 2, 1))]
    check_all(kernels, [arguments(k) for k in kernels], machine)


@pytest.mark.parametrize("name", ["f32", "c64", "u8"])
def test_a_run_is_a_store(name: str) -> None:
    for size in WRITTEN:
        text = str(lower_kernel(_written(name, *size), machines()["host"]))
        rows = -(-size[0] // size[1])
        bytes_each = BY_NAME[name].size_bytes
        pieces = -(-size[1] * bytes_each // machines()["host"].vector_bytes)
        assert text.count("  store ") <= rows * pieces


def test_a_run_is_a_load() -> None:
    for name in ("f32", "c64"):
        text = str(lower_kernel(_patches(name, 48, 12, 200), machines()["host"]))
        assert text.count("load float") == 0


def test_repeated_elements_are_one_load() -> None:
    b = KernelBuilder("repeated", ())
    x, out = b.param("x", F32, 4, "in"), b.param("out", F32, 16, "out")
    by = b.constant(S32, 4, (16,))
    offsets = b.binary("divide", b.iota(S32, (16,), 0), by)
    b.store(out, b.index(0), b.gather(x, offsets), (1,))
    text = lower_kernel(b.finish(), machines()["host"])
    assert str(text).count("load float") == 0
    assert str(text).count("load <4 x float>") == 1


def test_where_a_known_row_begins_is_a_scalar() -> None:
    """No vector of offsets is made where only the first of them is asked for."""
    b = KernelBuilder("paired", (3,))
    x, out = b.param("x", F32, 24, "in"), b.param("out", F32, 48, "out")
    half = b.binary("divide", b.iota(S32, (16,), 0), b.constant(S32, 2, (16,)))
    [step] = b.grid_indices
    start = b.broadcast(b.convert(b.binary("multiply", step, b.index(8)), S32), (16,))
    gathered = b.gather(x, b.binary("add", start, half))
    b.store(out, b.binary("multiply", step, b.index(16)), gathered, (1,))
    kernel = b.finish()
    check(kernel, arguments(kernel), "host")
    assert "extractelement" not in str(lower_kernel(kernel, machines()["host"]))


@pytest.mark.parametrize("machine", machines())
def test_offsets_of_known_distances_under_a_mask(machine: str) -> None:
    """Pieces that begin before the buffer and end behind it, as those of padded arrays do."""
    kernels = []
    for name in SOME:
        for lanes, by, factor in ((16, 2, 1), (16, 2, 2), (9, 3, 1), (8, 2, 3)):
            b = KernelBuilder(f"masked_{name}_{lanes}_{by}_{factor}", (7,))
            [step] = b.grid_indices
            x = b.param("x", BY_NAME[name], 29, "in")
            out = b.param("out", BY_NAME[name], 7 * lanes, "out")
            lane = b.iota(S32, (lanes,), 0)
            one = b.broadcast(b.convert(b.index(1), S32), (lanes,))
            group = b.binary("divide", b.binary("add", lane, one), b.constant(S32, by, (lanes,)))
            apart = b.binary("multiply", group, b.constant(S32, factor, (lanes,)))
            start = b.binary("subtract", b.binary("multiply", step, b.index(7)), b.index(9))
            offsets = b.binary("add", b.broadcast(b.convert(start, S32), (lanes,)), apart)
            low = b.compare("GE", offsets, b.constant(S32, 0, (lanes,)))
            high = b.compare("LT", offsets, b.constant(S32, 29, (lanes,)))
            odd = b.binary("remainder", lane, b.constant(S32, 5, (lanes,)))
            some = b.compare("NE", odd, b.constant(S32, 3, (lanes,)))
            mask = b.binary("and", b.binary("and", low, high), some)
            other = b.constant(BY_NAME[name], 1, (lanes,))
            made = b.gather(x, offsets, mask, other)
            b.store(out, b.binary("multiply", step, b.index(lanes)), made, (1,))
            kernels.append(b.finish())
    check_all(kernels, [arguments(k) for k in kernels], machine)


@pytest.mark.parametrize("machine", machines())
def test_known_distances_under_a_known_mask(machine: str) -> None:
    """Rows of a padded array: what the mask leaves out would be outside, nothing else is."""
    kernels = []
    for name in SOME:
        for lanes, row, wide in ((36, 9, 7), (30, 3, 1), (80, 5, 4), (16, 4, 2)):
            rows = lanes // row
            b = KernelBuilder(f"padded_{name}_{lanes}_{row}_{wide}", (3,))
            [step] = b.grid_indices
            x = b.param("x", BY_NAME[name], 3 * rows * wide, "in")
            out = b.param("out", BY_NAME[name], 3 * lanes, "out")
            lane, by = b.iota(S32, (lanes,), 0), b.constant(S32, row, (lanes,))
            column = b.binary("add", b.binary("remainder", lane, by), b.constant(S32, -1, (lanes,)))
            start = b.binary(
                "multiply", b.binary("divide", lane, by), b.constant(S32, wide, lane.shape)
            )
            first = b.convert(b.binary("multiply", step, b.index(rows * wide)), S32)
            offsets = b.binary("add", b.broadcast(first, (lanes,)), b.binary("add", start, column))
            low = b.compare("GE", column, b.constant(S32, 0, (lanes,)))
            high = b.compare("LT", column, b.constant(S32, wide, (lanes,)))
            other = b.constant(BY_NAME[name], 1, (lanes,))
            rows_read = b.gather(x, offsets, b.binary("and", low, high), other)
            b.store(out, b.binary("multiply", step, b.index(lanes)), rows_read, (1,))
            kernels.append(b.finish())
    check_all(kernels, [arguments(k) for k in kernels], machine)


def _far(name: str, lanes: int, by: int, factor: int, moves: bool) -> Kernel:
    """Reads elements `factor` apart, each `by` times, the last of them the last of the buffer."""
    reach = (lanes - 1) // by * factor
    b = KernelBuilder(f"far_{name}_{lanes}_{by}_{factor}_{moves}", (3,))
    [step] = b.grid_indices
    x = b.param("x", BY_NAME[name], reach + 1 + 2 * 5, "in")
    out = b.param("out", BY_NAME[name], 3 * lanes, "out")
    group = b.binary("divide", b.iota(S32, (lanes,), 0), b.constant(S32, by, (lanes,)))
    apart = b.binary("multiply", group, b.constant(S32, factor, (lanes,)))
    shift = b.binary("multiply", step, b.index(5)) if moves else b.index(10)
    offsets = b.binary("add", b.broadcast(b.convert(shift, S32), (lanes,)), apart)
    b.store(out, b.binary("multiply", step, b.index(lanes)), b.gather(x, offsets), (1,))
    return b.finish()


@pytest.mark.parametrize("machine", machines())
def test_offsets_far_apart(machine: str) -> None:
    """Elements at strides of 3 to 40, and all the same: pieces of memory, or a load for each."""
    sizes = ((16, 1, 3), (33, 1, 5), (64, 2, 7), (5, 1, 40), (17, 1, 9), (8, 1, 4), (16, 16, 1))
    kernels = [
        _far(name, *size, moves) for name in SOME for size in sizes for moves in (False, True)
    ]
    check_all(kernels, [arguments(k) for k in kernels], machine)


@pytest.mark.parametrize(("factor", "loads"), [(3, 3), (40, 16)])
def test_known_offsets_far_apart_are_read_from_one_address(factor: int, loads: int) -> None:
    """No lane is taken out of a vector of offsets, and pieces are read where they are fewer."""
    text = str(lower_kernel(_far("f32", 16, 1, factor, True), machines()["host"]))
    assert "extractelement" not in text
    if machines()["host"].has_avx512:
        assert text.count("= load ") == loads + 2


def _rows_of_a_table(name: str, lanes: int, run: int, rows: int) -> Kernel:
    """Reads rows of `run` elements of a table, each where a number from memory says."""
    b = KernelBuilder(f"rows_{name}_{lanes}_{run}_{rows}", (3,))
    [step] = b.grid_indices
    table = b.param("table", BY_NAME[name], rows * run, "in")
    places = b.param("places", S32, 3 * lanes // run, "in")
    out = b.param("out", BY_NAME[name], 3 * lanes, "out")
    begin = b.binary("multiply", step, b.index(lanes // run))
    first, group, place = _lanes_in_runs(b, lanes, run, begin)
    row = b.gather(places, b.binary("add", first, group))
    row = b.binary("maximum", row, b.constant(S32, 0, (lanes,)))
    row = b.binary("minimum", row, b.constant(S32, rows - 1, (lanes,)))
    row = b.binary("multiply", row, b.constant(S32, run, (lanes,)))
    offsets = b.binary("add", place, row)
    b.store(out, b.binary("multiply", step, b.index(lanes)), b.gather(table, offsets), (1,))
    return b.finish()


@pytest.mark.parametrize("machine", machines())
def test_rows_of_a_table(machine: str) -> None:
    sizes = ((16, 8, 900), (16, 4, 900), (48, 3, 500), (40, 20, 99), (8, 8, 77), (16, 2, 3))
    kernels = [_rows_of_a_table(name, *size) for name in SOME for size in sizes]
    check_all(kernels, [arguments(k) for k in kernels], machine)


def test_a_row_of_a_table_is_a_load() -> None:
    for lanes, run in ((16, 8), (48, 6), (8, 8)):
        text = str(lower_kernel(_rows_of_a_table("f32", lanes, run, 2000), machines()["host"]))
        assert text.count(f"load <{run} x float>") == lanes // run
        assert text.count("load float") == 0
