"""Concatenations of many arrays: which of them share a kernel, and the values."""

import re

import numpy as np
import pytest

import hloom
from hloom import api
from hloom.codegen.pieces import MANY_ELEMENTS, MANY_PARTS, _loops, concatenate_parts
from hloom.codegen.tile import Body
from hloom.ir.text import parse_module


def joined(sizes, rows=1):
    lines = ["HloModule m", "ENTRY e {"]
    lines += [f"  x{k} = f32[{rows},{n}] parameter({k})" for k, n in enumerate(sizes)]
    names = ", ".join(f"x{k}" for k in range(len(sizes)))
    return "\n".join(
        [*lines, f"  ROOT r = f32[{rows},{sum(sizes)}] concatenate({names}), dimensions={{1}} }}"]
    )


def parts_of(sizes, rows=1):
    root = parse_module(joined(sizes, rows)).entry.root
    return concatenate_parts(Body.of(root))


@pytest.mark.parametrize(
    ("sizes", "lengths"),
    [
        ([100] * 3, [3]),
        ([MANY_ELEMENTS] * 3, [1, 1, 1]),
        ([MANY_ELEMENTS // 2] * 5, [2, 2, 1]),
        ([MANY_ELEMENTS // 2 + 1] * 3, [1, 1, 1]),
        ([100] * 1000, [MANY_PARTS] * (1000 // MANY_PARTS) + [1000 % MANY_PARTS]),
        ([7, MANY_ELEMENTS, 7, 7], [1, 1, 2]),
        ([1] * (2 * MANY_PARTS + 1), [MANY_PARTS, MANY_PARTS, 1]),
    ],
)
def test_small_arrays_share_a_kernel(sizes, lengths):
    parts = parts_of(sizes)
    assert [len(some) for some in parts] == lengths
    assert [k for some in parts for k in some] == list(range(len(sizes)))


@pytest.mark.parametrize("rows", [1, 7, 8])
@pytest.mark.parametrize("sizes", [[300] * 129, [MANY_ELEMENTS + 3, 5, 1, 17, 9000, 9000]])
def test_every_element_comes_from_its_array(rows, sizes):
    module = parse_module(joined(sizes, rows))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((rows, n), np.float32) for n in sizes]
    result = hloom.compile(module)(*arrays)
    assert np.array_equal(np.asarray(result), np.concatenate(arrays, 1))


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_single_numbers_are_joined_by_several_kernels(rows):
    # One kernel of all took LLVM a time that grew as the square of their number.
    count = 3 * MANY_PARTS + 5
    lines = ["HloModule m", "ENTRY e {", f"  x = f32[{rows},{count}] parameter(0)"]
    for k in range(count):
        part = f"slice={{[0:{rows}], [{count - 1 - k}:{count - k}]}}"
        lines.append(f"  piece_{k} = f32[{rows},1] slice(x), {part}")
        lines.append(f"  y_{k} = f32[{rows},1] {['negate', 'abs'][k % 2]}(piece_{k})")
    names = ", ".join(f"y_{k}" for k in range(count))
    text = f"  ROOT r = f32[{rows},{count}] concatenate({names}), dimensions={{1}} }}"
    x = np.random.default_rng(0).standard_normal((rows, count), np.float32)
    expected = x[:, ::-1] * np.where(np.arange(count) % 2, 1, -1)
    expected[:, 1::2] = abs(expected[:, 1::2])
    found = hloom.compile("\n".join([*lines, text]))(x)
    assert np.array_equal(np.asarray(found), expected)
    parts = parts_of([1] * count, rows)
    assert [k for some in parts for k in some] == list(range(count))
    assert max(map(len, parts)) == MANY_PARTS


@pytest.mark.parametrize("sizes", [(8, 12), (4, 3), (5, 20), (16, 7), (1, 12), (31, 6)])
def test_joined_products_read_whole_rows(sizes):
    """Rows of a product that are joined as one long row: what each lane reads of its own is known
    when code is made, also where the row is not a multiple of a vector."""
    columns, depth = sizes[1], 3
    lines = ["HloModule m", "ENTRY e {", f"  b = f32[5,{depth},{columns}] parameter(0)"]
    rng = np.random.default_rng(1)
    b, arrays, expected, names, widths = rng.random((5, depth, columns), np.float32), [], [], [], []
    for k, rows in enumerate((sizes[0], sizes[0] + 1)):
        width = rows * columns
        lines += [
            f"  a_{k} = f32[5,{rows},{depth}] parameter({k + 1})",
            f"  d_{k} = f32[5,{rows},{columns}] dot(a_{k}, b), lhs_batch_dims={{0}}, "
            "lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}",
            f"  y_{k} = f32[5,{width}] reshape(d_{k})",
        ]
        arrays.append(rng.random((5, rows, depth), np.float32))
        expected.append((arrays[k] @ b).reshape(5, width))
        names.append(f"y_{k}")
        widths.append(width)
    joined_rows = f"f32[5,{sum(widths)}] concatenate({', '.join(names)}), dimensions={{1}}"
    found = hloom.compile("\n".join([*lines, f"  ROOT r = {joined_rows} }}"]))(b, *arrays)
    assert np.allclose(np.asarray(found), np.concatenate(expected, 1), rtol=1e-5)
    root = parse_module("\n".join([*lines, f"  ROOT r = {joined_rows} }}"])).entry.root
    inside = set(Body.of(root).instructions)
    assert _loops(root.operands[1], inside, 1, 1, 16, api.host_device()).lanes % columns == 0


def test_long_operands_are_copied_several_vectors_at_a_time():
    """What chooses among operands is not in the kernel of one of them."""
    n = 3 * MANY_ELEMENTS
    text = f"""
ENTRY e {{
  x = u8[{n}] parameter(0)
  a = u8[{n - 5}] slice(x), slice={{[5:{n}]}}
  b = u8[5] slice(x), slice={{[0:5]}}
  ROOT r = u8[{n}] concatenate(a, b), dimensions={{0}}
}}"""
    exe = hloom.compile(text)
    steps = re.findall(r"for .* step (\d+) {", exe.as_text("kernels"))
    assert max(map(int, steps)) >= 2 * api.host_device().compute.vector_bytes
    x = np.arange(n).astype(np.uint8)
    assert np.array_equal(np.asarray(exe(x)), np.roll(x, -5))
