"""Windows, padding, slices, dimension labels, groups, precision: text and back, and arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.base.diagnostics import ParseError
from hloom.ir.text.cursor import Cursor
from hloom.ir.values.conv_dims import ConvolutionDimensions, parse_conv_dims
from hloom.ir.values.groups import (
    NO_GROUPS,
    IotaReplicaGroups,
    MeshReplicaGroups,
    ReplicaGroups,
    parse_pairs,
    parse_replica_groups,
)
from hloom.ir.values.mesh import AxisRef, Mesh
from hloom.ir.values.padding import Padding, PaddingDimension, parse_padding
from hloom.ir.values.precision import (
    ALGORITHM_NAMES,
    ResultAccuracy,
    parse_algorithm,
    parse_precisions,
    parse_result_accuracy,
)
from hloom.ir.values.slices import SliceDimension, Slices, parse_slices
from hloom.ir.values.window import Window, WindowDimension, parse_window

SMALL = st.integers(0, 9)
INT64 = st.integers(-(2**63), 2**63 - 1)


def read(reader, text):
    """Read all of a text."""
    cursor = Cursor(text)
    value = reader(cursor)
    assert cursor.skip() == len(text)
    return value


def refused(reader, text):
    """The error of a text and the column it points at."""
    with pytest.raises(ParseError) as caught:
        cursor = Cursor(text)
        reader(cursor)
        if cursor.skip() < len(text):
            cursor.fail("something is left")
    assert caught.value.location is not None
    assert caught.value.location.line == 1
    return caught.value


windows = st.lists(
    st.builds(WindowDimension, SMALL, SMALL, INT64, INT64, SMALL, SMALL, st.booleans()), max_size=4
).map(lambda d: Window(tuple(d)))
paddings = st.lists(st.builds(PaddingDimension, INT64, INT64, SMALL), min_size=1, max_size=4)
slices = st.lists(st.builds(SliceDimension, INT64, INT64, INT64), max_size=4)


@given(windows)
def test_window_round_trip(window):
    assert read(parse_window, window.text) == window


@given(paddings)
def test_padding_round_trip(dimensions):
    padding = Padding(tuple(dimensions))
    assert read(parse_padding, padding.text) == padding


def test_padding_of_a_scalar_is_empty_text():
    cursor = Cursor(", sharding={replicated}")
    assert parse_padding(cursor) == Padding()
    assert Padding().text == ""


@given(slices)
def test_slices_round_trip(dimensions):
    value = Slices(tuple(dimensions))
    assert read(parse_slices, value.text) == value


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 4))
def test_slice_size(start, limit, stride):
    assert SliceDimension(start, limit, stride).size == len(range(start, limit, stride))


def test_window_output_size_counts_the_positions():
    for size, stride, low, high, window_dilation, base_dilation, base in [
        (3, 1, 0, 0, 1, 1, 8), (3, 2, 1, 1, 1, 1, 8), (2, 3, 0, 5, 3, 2, 5), (3, 1, -1, 0, 1, 1, 3),
        (1, 1, 0, 0, 1, 1, 0), (4, 2, 0, 0, 2, 1, 7), (4, 2, 0, 0, 2, 1, 6),
    ]:  # fmt: skip
        d = WindowDimension(size, stride, low, high, window_dilation, base_dilation)
        padded = low + high + (0 if base == 0 else (base - 1) * base_dilation + 1)
        reach = (size - 1) * window_dilation + 1
        positions = [p for p in range(0, max(padded, 0), stride) if p + reach <= padded]
        assert d.output_size(base) == len(positions), d


@st.composite
def labels(draw):
    spatial = draw(st.integers(0, 3))

    def word(first, second):
        order = draw(st.permutations([first, second, *map(str, range(spatial))]))
        return "".join(order)

    return f"{word('b', 'f')}_{word('i', 'o')}->{word('b', 'f')}"


@given(labels())
def test_conv_dims_round_trip(text):
    assert read(parse_conv_dims, text).text == text


def test_conv_dims_meaning():
    d = read(parse_conv_dims, "b01f_01io->bf01")
    assert d == ConvolutionDimensions(0, 3, (1, 2), 2, 3, (0, 1), 0, 1, (2, 3))
    assert read(parse_conv_dims, "b?0f_0io->b0f").input_spatial_dimensions == (2,)


@pytest.mark.parametrize(
    ("reader", "text", "message", "column"),
    [
        (parse_window, "{size=1x1 bad=2}", "unknown word 'bad'", 11),
        (parse_window, "{size=1x1 stride=2}", "2 sizes but 1 in stride", 2),
        (parse_window, "{size=1x1 size=1x1}", "twice", 11),
        (parse_padding, "0x0", "expected padding", 1),
        (parse_padding, f"0_{'9' * 5000}", "64 bits", 1),
        (parse_slices, "{[0:4], [0]}", "not 1 numbers", 9),
        (parse_conv_dims, "b01f_01ii->b01f", "repeat", 6),
        (parse_conv_dims, "b01f_01io->b0f", "do not match", 12),
        (parse_replica_groups, "[2,4]<=[4]", "cannot hold", 1),
        (parse_replica_groups, "[2,2]<=[2,2]T(0,0)", "permutation", 14),
        (parse_replica_groups, "mesh['x'=2] {'z'}", "no axis 'z'", 14),
        (parse_replica_groups, "mesh['x'=2,'y'=2] {'x','x'}", "twice", 19),
        (parse_replica_groups, "mesh['x'=8] {'x':(1)2,'x':(2)2}", "write them as one", 13),
        (parse_replica_groups, "mesh['x'=2,'x'=2] {'x'}", "twice", 12),
        (parse_pairs, "{{0,1,2}}", "two numbers", 1),
        (parse_precisions, "{highest,bad}", "unknown precision 'bad'", 10),
        (parse_algorithm, "dot_bad", "unknown dot algorithm", 1),
        (parse_result_accuracy, "{tolerance={atol=-1}}", "not negative", 18),
    ],
)
def test_errors_have_their_place(reader, text, message, column):
    error = refused(reader, text)
    assert message in error.message
    assert error.location.column == column


def test_iota_groups_expand_as_numpy_says():
    groups = read(parse_replica_groups, "[4,2]<=[2,4]T(1,0)")
    expected = np.arange(8).reshape(2, 4).transpose(1, 0).reshape(4, 2)
    assert groups.groups == tuple(map(tuple, expected.tolist()))
    assert groups.group_count == 4
    assert groups.group_size == 2
    assert groups.full_text == "{{0,4},{1,5},{2,6},{3,7}}"
    assert groups.same(ReplicaGroups(groups.groups))
    assert ReplicaGroups(groups.groups).same(groups)
    assert not groups.same(ReplicaGroups(groups.groups[::-1]))
    assert groups != ReplicaGroups(groups.groups)


@given(st.data())
def test_iota_normal_form_keeps_the_order(data):
    dims = data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=5))
    permutation = data.draw(st.permutations(range(len(dims))))
    count = int(np.prod(dims))
    text = f"[1,{count}]<=[{','.join(map(str, dims))}]T({','.join(map(str, permutation))})"
    groups = read(parse_replica_groups, text)
    expected = np.arange(count).reshape(dims).transpose(permutation).reshape(-1)
    assert groups.groups == (tuple(expected.tolist()),)
    assert 1 not in groups.reshape_dims or count == 1
    assert read(parse_replica_groups, groups.text) == groups


def mesh_groups_by_hand(mesh, axes):
    """Devices that agree on all coordinates outside of the axes, in the order of the axes."""
    array = mesh.array()
    groups = {}
    for place in np.ndindex(array.shape):
        inside, outside = [], list(place)
        for axis in axes:
            low, high = axis.span_in(mesh)
            size = mesh.axes[axis.mesh_axis_index][1]
            # The part of the coordinate that the axis names, major parts counted first.
            part = place[axis.mesh_axis_index] // (size // high) % (high // low)
            inside.append(part)
            outside[axis.mesh_axis_index] -= part * (size // high)
        groups.setdefault(tuple(outside), []).append((tuple(inside), int(array[place])))
    return {tuple(device for _, device in sorted(members)) for members in groups.values()}


@pytest.mark.parametrize(
    "text",
    [
        "mesh['x'=2,'y'=4] {'x'}",
        "mesh['x'=2,'y'=4] {'y'}",
        "mesh['x'=2,'y'=4] {'y','x'}",
        "mesh['x'=2,'y'=4], device_ids=([2,2,2]T(1,0,2)) {'x'}",
        "mesh['x'=2,'y'=4], device_ids=(7,6,5,4,3,2,1,0) {'y'}",
        "mesh['x'=2,'y'=4] {'y':(1)2}",
        "mesh['x'=2,'y'=4] {'y':(2)2,'x'}",
        "mesh['x'=2,'y'=8,'z'=3] {'z','y':(2)2}",
    ],
)
def test_mesh_groups(text):
    groups = read(parse_replica_groups, text)
    assert isinstance(groups, MeshReplicaGroups)
    assert groups.text == text
    assert set(groups.groups) == mesh_groups_by_hand(groups.mesh, groups.axes)
    assert groups.group_count == len(groups.groups)
    assert {groups.group_size} == {len(g) for g in groups.groups}


def test_groups_of_nobody_and_odd_groups():
    assert NO_GROUPS.is_empty
    assert read(parse_replica_groups, "{}") is NO_GROUPS
    assert not read(parse_replica_groups, "{{}}").is_empty
    assert read(parse_replica_groups, "{{0},{1,2}}").group_size is None
    assert IotaReplicaGroups(2, 4, (8,)).text == "[2,4]<=[8]"
    assert MeshReplicaGroups(Mesh((("a'b", 2),)), (AxisRef(0),)).text == "mesh['a\\'b'=2] {'a\\'b'}"
    again = read(parse_replica_groups, "mesh['a\\'b'=2] {'a\\'b'}")
    assert again.mesh.axes == (("a'b", 2),)


def test_precision_words():
    assert read(parse_precisions, "{HIGHEST, default}") == ("highest", "default")
    for name in ALGORITHM_NAMES.values():
        assert read(parse_algorithm, name) == name


@given(st.floats(0, 1e300), st.floats(0, 1), st.integers(0, 2**40))
def test_tolerance_round_trip(atol, rtol, ulps):
    accuracy = ResultAccuracy(None, atol, rtol, ulps)
    assert read(parse_result_accuracy, accuracy.text) == accuracy
