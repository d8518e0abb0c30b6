"""Shardings: text and back, normal form, and what each device holds, against brute force."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.base.diagnostics import ParseError
from hloom.ir import schema
from hloom.ir.proto.sharding import ShardingReader
from hloom.ir.text.cursor import Cursor, blank_comments
from hloom.ir.values.devices import IotaDevices
from hloom.ir.values.sharding import REPLICATED, Sharding, parse_sharding
from hloom.ir.values.sharding_tiles import SUBGROUP_TYPES
from hloom.types.text import shape_from_text


def read(text):
    cursor = Cursor(blank_comments(text))
    value = parse_sharding(cursor)
    assert cursor.skip() == len(text)
    return value


PRINTED = [
    "{replicated}",
    "{maximal device=3}",
    "{manual shard_as 1}",
    "{unknown}",
    "{unreduced}",
    "{devices=[2,4]0,1,2,3,4,5,7,6}",
    "{devices=[2,4]<=[8]}",
    "{devices=[4,2]<=[2,4]T(1,0)}",
    "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
    "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}",
    '{replicated metadata={op_name="a"}}',
    '{devices=[2,4]<=[8] shard_like 2 metadata={{op_name="a"}, {op_name="b"}}}',
    "{{replicated}, {devices=[2,4]<=[8]}}",
    "{}",
    "{{manual}, {manual}, {manual}, {manual}, {manual}, /*index=5*/{manual}}",
    "{mesh['x'=2,'y'=4], [{'x', 'y'}, {}]}",
    "{mesh['x'=2,'y'=4], [{'y':(1)2, ?}, {?}], replicated={'x'}, unreduced={'y':(2)2}}",
    "{mesh['x'=2], manual, metadata={{op_name=\"s\"}}}",
    "{mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [{'x'}, {}]}",
    "{maximal_mesh[device_id=3]}",
]


@pytest.mark.parametrize("text", PRINTED)
def test_printed_form_is_a_fixed_point(text):
    sharding = read(text)
    assert sharding.text == text
    assert read(sharding.text) == sharding
    assert hash(read(text)) == hash(sharding)


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("{bad}", "unknown word 'bad'", 2),
        ("{devices=[2,4]0,1,2}", "8 tiles but 3 devices", 10),
        ("{devices=[2,2]<=[8]}", "4 tiles but 8 devices", 10),
        ("{devices=[0,2]}", "positive", 10),
        ("{replicated manual}", "twice", 13),
        ("{replicated device=3}", "no devices", 2),
        ("{maximal}", "exactly one device", 2),
        ("{devices=[2]<=[2] last_tile_dims={manual,manual}}", "2 types but 1", 2),
        ("{devices=[2,1]<=[2] last_tile_dims={bad}}", "unknown type", 37),
        ("{{replicated},{{manual}}}", "found '{manual}}}'", 16),
        ("{mesh['x'=2], [{'x'},{'x'}]}", "twice", 2),
        ("{mesh['x'=4], [{'x':(1)3},{}]}", "does not divide", 2),
        ("{mesh['x'=2,'y'=2], [], replicated={'y','x'}}", "order of the mesh", 36),
        ("{mesh['x'=2,'y'=2], device_ids=(3,1,2,7), []}", "each of 0 to 3 once", 33),
        ("{mesh['x'=0], []}", "at least 1", 11),
        ("{replicated", "sharding", 12),
    ],
)
def test_errors_have_their_place(text, message, column):
    with pytest.raises(ParseError, match=message.replace("{", r"\{")) as caught:
        parse_sharding(Cursor(text))
    assert caught.value.location.column == column


@st.composite
def tiled_parts(draw):
    """Tile dimensions, types of the last ones, and devices as an iota or a list."""
    data = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    types = draw(st.lists(st.sampled_from(SUBGROUP_TYPES), max_size=3))
    groups = [draw(st.integers(1, 3)) for _ in types]
    dims = (*data, *groups)
    count = int(np.prod(dims))
    if draw(st.booleans()):
        factors = draw(st.permutations([f for d in dims for f in ([d] if d > 1 else [])] or [1]))
        permutation = draw(st.permutations(range(len(factors))))
        devices = IotaDevices.of(tuple(factors), tuple(permutation))
    else:
        devices = tuple(draw(st.permutations(range(count))))
    return dims, tuple(types), devices


def roles(dims, types, devices):
    """For each device the tile it holds and its number within each sort of subgroup.

    Replicated subgroups are sets: which of the copies a device is has no meaning.
    """
    rank = len(dims) - len(types)
    array = np.array(devices.devices if isinstance(devices, IotaDevices) else devices).reshape(dims)
    found = {}
    for place in np.ndindex(*dims):
        number = {t: 0 for t in SUBGROUP_TYPES if t != "replicated"}
        for size, index, kind in zip(dims[rank:], place[rank:], types):
            if kind != "replicated":
                number[kind] = number[kind] * size + index
        found[int(array[place])] = (place[:rank], tuple(number.items()))
    return found


@given(tiled_parts())
def test_normal_form_keeps_the_meaning(parts):
    dims, types, devices = parts
    sharding = Sharding.tile(dims, devices, types)
    rank = len(dims) - len(types)
    if sharding.kind != "tiled":
        assert np.prod(dims[:rank]) == 1
        counts = {t: np.prod([n for n, k in zip(dims[rank:], types) if k == t]) for t in types}
        assert all(t == sharding.kind for t, n in counts.items() if n > 1)
        return
    assert sharding.data_rank == rank
    order = [SUBGROUP_TYPES.index(t) for t in sharding.subgroup_types]
    assert order == sorted(set(order))
    assert roles(sharding.tile_dims, sharding.subgroup_types, sharding.devices) == roles(
        dims, types, devices
    )
    # Sharding.tile is idempotent, and its text reads back as the same value.
    assert Sharding.tile(sharding.tile_dims, sharding.devices, sharding.subgroup_types) == sharding
    if sharding.device_count > 1:
        assert read(sharding.text) == sharding


@given(tiled_parts())
def test_iota_and_list_are_the_same(parts):
    dims, types, devices = parts
    numbers = devices.devices if isinstance(devices, IotaDevices) else devices
    a, b = Sharding.tile(dims, devices, types), Sharding.tile(dims, tuple(numbers), types)
    assert a.same(b)
    assert b.same(a)
    if a.kind == "tiled":
        assert (a.tile_assignment() == b.tile_assignment()).all()
        swapped = (numbers[1:] + numbers[:1]) if len(numbers) > 1 else numbers
        other = Sharding.tile(dims, swapped, types)
        same = roles(dims, types, swapped) == roles(dims, types, tuple(numbers))
        assert a.same(other) == same


@given(tiled_parts(), st.data())
def test_tiles_cover_the_value(parts, data):
    dims, types, devices = parts
    sharding = Sharding.tile(dims, devices, types)
    rank = len(dims) - len(types)
    sizes = [data.draw(st.integers(0, 7)) for _ in range(rank)]
    shape = shape_from_text(f"f32[{','.join(map(str, sizes))}]")
    holders = np.zeros(sizes, int)
    count = int(np.prod(dims))
    tile = sharding.tile_shape(shape).dims
    for device in range(count):
        offset = sharding.tile_offset(shape, device)
        limit = sharding.tile_limit(shape, device)
        assert all(0 <= high - low <= size for low, high, size in zip(offset, limit, tile))
        holders[tuple(slice(low, high) for low, high in zip(offset, limit))] += 1
    # Every element is held by as many devices as there are devices per tile.
    copies = count // int(np.prod(dims[:rank]))
    assert (holders == copies).all()
    assert sharding.validate(shape, count) is None


def test_named_sharding_as_tiles():
    named = read("{mesh['x'=2,'y'=4,'z'=3], [{'y'}, {}, {'x'}], manual={'z'}}")
    array = np.arange(24).reshape(2, 4, 3)
    assert named.tiled().kind == "tiled"
    assert named.tiled().tile_dims == (4, 1, 2, 3)
    assert named.tiled().subgroup_types == ("manual",)
    assert (named.tile_assignment() == array.transpose(1, 0, 2).reshape(4, 1, 2, 3)).all()
    assert named.same(read("{devices=[4,1,2,3]<=[2,4,3]T(1,0,2) last_tile_dims={manual}}"))
    part = read("{mesh['y'=8], [{'y':(2)2}]}")
    assert part.tile_assignment().tolist() == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert part.num_tiles(0) == 2
    assert read("{mesh['x'=2], replicated}").tiled() == REPLICATED
    assert read("{mesh['x'=2], [{}], unreduced={'x'}}").tiled().kind == "unreduced"
    assert read("{maximal_mesh[device_id=3]}").same(read("{maximal device=3}"))
    reversed_ = read("{mesh['x'=2], device_ids=(1,0), [{'x'}]}")
    assert reversed_.same(read("{devices=[2]1,0}"))
    assert not reversed_.same(read("{devices=[2]<=[2]}"))


@pytest.mark.parametrize(
    ("sharding", "shape", "devices", "wrong"),
    [
        ("{devices=[2,4]<=[8]}", "f32[4,4]", 8, None),
        ("{devices=[2,4]<=[8]}", "f32[4]", 8, "2 dimensions"),
        ("{devices=[2,4]<=[8]}", "f32[4,4]", 16, "do not cover 16"),
        ("{devices=[2,1]5,9}", "f32[4,4]", 2, "device 9 does not exist"),
        ("{devices=[4,1]0,1,1,2}", "f32[4,4]", 4, "device of its own"),
        ("{devices=[2,4]<=[8]}", "token[]", 8, "cannot be tiled"),
        ("{devices=[2,4]<=[8]}", "(f32[4,4])", 8, "per leaf"),
        ("{maximal device=8}", "f32[4]", 8, "device 8"),
        ("{maximal device=7}", "f32[4]", 8, None),
        ("{replicated}", "(f32[4], s32[])", 8, None),
        ("{{replicated},{manual}}", "(f32[4], s32[])", 8, None),
        ("{{replicated},{manual}}", "(f32[4], (s32[], s32[]))", 8, "3 leaves but 2"),
        ("{{replicated},{devices=[2]<=[2]}}", "(f32[4], s32[])", 2, "leaf 1"),
        ("{{replicated}}", "f32[4]", 8, "not a tuple"),
        ("{}", "()", 8, None),
        ("{mesh['x'=2], [{'x'}]}", "f32[4,4]", 2, "1 dimensions"),
        ("{mesh['x'=2], [{'x'}, {}]}", "f32[4,4]", 2, None),
        ("{mesh['x'=2], [{'x'}, {}]}", "f32[4,4]", 4, "do not cover 4"),
    ],
)
def test_validate(sharding, shape, devices, wrong):
    said = read(sharding).validate(shape_from_text(shape), devices)
    assert (said is None) == (wrong is None), said
    if wrong:
        assert wrong in said


def test_tuples():
    s = read("{{devices=[2,1]<=[2]}, {replicated}, {maximal device=1}}")
    assert s.is_tuple
    assert s.for_leaf(2).device == 1
    assert REPLICATED.for_leaf(5) is REPLICATED
    shape = shape_from_text("(f32[5,3], (token[], s32[7]))")
    assert s.tile_shape(shape) is shape_from_text("(f32[3,3], (token[], s32[7]))")
    assert Sharding.tuple_of(s, REPLICATED).elements[-1] is REPLICATED
    assert s.device_count == 2
    noted = read('{{devices=[2,1]0,1 metadata={op_name="a"}}, {replicated}, {maximal device=1}}')
    assert noted != s
    assert noted.same(s)


@pytest.mark.parametrize("dims", ["2,1", "3,1", "2,1,2"])
def test_all_tiles_on_the_only_device(dims):
    """XLA reads an iota of one device for any number of tiles: that device has the whole value."""
    last = " last_tile_dim_replicate" if dims.count(",") == 2 else ""
    assert read(f"{{devices=[{dims}]<=[1]{last}}}") == REPLICATED
    message = schema.OpSharding()
    message.type = schema.enum_numbers("OpSharding.Type")["OTHER"]
    message.tile_assignment_dimensions.extend(map(int, dims.split(",")))
    message.iota_reshape_dims.append(1)
    message.iota_transpose_perm.append(0)
    message.replicate_on_last_tile_dim = bool(last)
    assert ShardingReader().sharding(message) == REPLICATED


def test_large_iota_stays_short():
    s = read("{devices=[1024,1,64]<=[64,1024]T(1,0) last_tile_dim_replicate}")
    assert isinstance(s.devices, IotaDevices)
    assert s.device_count == 65536
    assert s.tile_index(1) == (1, 0)


@pytest.mark.parametrize("dims", [(8,), (2, 4), (2, 2, 2), (3, 2, 4), (2, 3, 2, 2), (1,)])
def test_orders_of_devices_are_found_again(dims):
    for order in permutations(range(len(dims))):
        made = IotaDevices.of(dims, order)
        assert IotaDevices.of_numbers(made.array().reshape(-1).tolist()) == made


@pytest.mark.parametrize("numbers", [[1, 0], [0, 2, 1, 3, 5, 4], [0, 1, 3, 2], [4, 5, 6, 7]])
def test_other_orders_of_devices_stay_numbers(numbers):
    assert IotaDevices.of_numbers(numbers) is None
