"""Meshes over topologies, and the texts of devices, topologies and meshes, which read back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloom
from hloom.base.diagnostics import UsageError
from hloom.device.costs import Costs
from hloom.device.device import Cache, Compute, Device, Engine, MemorySpace
from hloom.device.ids import GlobalDeviceId, LocalDeviceId
from hloom.device.known import known_device
from hloom.device.mesh import Mesh, load_mesh, parse_mesh
from hloom.device.text import parse_device, show_device
from hloom.device.topology import Link, Member, Topology, alike, parse_topology, topology_named
from hloom.types.mesh import IotaDevices, MeshAxes

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAME = TEXT.filter(bool)
COUNT = st.integers(1, 1 << 40)
RATE = st.floats(0, 1e18)
RATES = st.dictionaries(NAME, RATE, max_size=3).map(lambda d: tuple(sorted(d.items())))


@st.composite
def devices(draw) -> Device:
    spaces = draw(st.lists(st.integers(1, 9), unique=True, max_size=3))
    pairs = st.tuples(st.sampled_from([0, *spaces]), st.sampled_from([0, *spaces]))
    compute = Compute(
        units=draw(COUNT),
        clock_hz=draw(st.floats(1e-3, 1e12)),
        vector_bytes=draw(COUNT),
        vector_registers=draw(COUNT),
        operations_per_cycle=draw(RATES),
        matrix_operations_per_cycle=draw(RATES),
        dot_products=tuple(draw(st.lists(st.tuples(NAME, NAME, COUNT), max_size=2))),
        scratchpad_bytes=draw(COUNT),
    )
    levels = sorted(draw(st.sets(st.integers(1, 9), max_size=3)))
    caches = [
        Cache(level=k, size_bytes=draw(COUNT), bandwidth_bytes_per_s=draw(RATE)) for k in levels
    ]
    memory = [
        MemorySpace(
            id=k,
            name=draw(TEXT),
            size_bytes=draw(COUNT),
            bandwidth_bytes_per_s=draw(RATE),
            alignment_bytes=1 << draw(st.integers(0, 20)),
        )
        for k in (0, *spaces)
    ]
    engines = [
        Engine(
            name=draw(TEXT),
            kind=draw(st.sampled_from(["compute", "copy", "communication"])),
            copies=tuple(draw(st.lists(pairs, max_size=2))),
            latency_ns=draw(RATE),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    costs = Costs(kernel_ns=draw(RATE), weights=draw(RATES))
    sources = tuple(draw(st.lists(TEXT, max_size=2)))
    kind = draw(st.sampled_from(["cpu", "gpu"]))
    parts = tuple(caches), tuple(memory), tuple(engines)
    return Device(
        name=draw(TEXT),
        kind=kind,
        compute=compute,
        caches=parts[0],
        memory_spaces=parts[1],
        engines=parts[2],
        costs=costs,
        sources=sources,
    )


@st.composite
def topologies(draw) -> Topology:
    kinds = [known_device("sim"), known_device("h100"), draw(devices())]
    kinds.append(replace(kinds[0], kind="gpu"))  # like a known one, by its name
    members: list[Member] = []
    local: dict[int, int] = {}
    for k in range(draw(st.integers(1, 8))):
        process = draw(st.integers(0, 2))
        number = LocalDeviceId(local.get(process, 0))
        local[process] = number.value + 1
        device = draw(st.sampled_from(kinds))
        members.append(Member(GlobalDeviceId(k), number, process, draw(st.integers(0, 2)), device))
    ends = st.lists(st.integers(0, len(members) - 1), min_size=1, max_size=4).map(tuple)
    link = st.builds(Link, devices=ends, bandwidth_bytes_per_s=RATE, latency_ns=RATE, switch=TEXT)
    return Topology(draw(TEXT), tuple(members), tuple(draw(st.lists(link, max_size=3))))


@st.composite
def meshes(draw) -> Mesh:
    topology = draw(topologies())
    count = draw(st.integers(1, len(topology)))
    names = draw(st.lists(NAME, min_size=3, max_size=3, unique=True))
    divisors = [d for d in range(1, count + 1) if count % d == 0]
    first = draw(st.sampled_from(divisors))
    sizes = [first, 1, count // first]
    axes = tuple(zip(names, sizes, strict=True))
    numbers = draw(st.permutations(range(len(topology))))[:count]
    ordered = tuple(numbers)
    return Mesh(topology, MeshAxes(axes, None if ordered == tuple(range(count)) else ordered))


@settings(max_examples=60)
@given(devices())
def test_a_device_reads_back(device):
    assert parse_device(show_device(device)) == device


@settings(max_examples=60)
@given(topologies())
def test_a_topology_reads_back(topology):
    assert parse_topology(topology.text) == topology


@settings(max_examples=60)
@given(meshes())
def test_a_mesh_reads_back_and_its_groups_cover_it(mesh):
    assert parse_mesh(mesh.text) == mesh
    names = [name for name, _ in mesh.axes.axes]
    for over in ([], names[:1], names[2:], names[::2], names):
        groups = mesh.groups(*over)
        assert sorted(d for g in groups for d in g) == sorted(mesh.devices)
    assert mesh.groups(*names) == (mesh.devices,)


FOUR = """
topology = "four-sims"
devices = [0, 2, 1, 3]
[[axes]]
name = "x"
size = 2
[[axes]]
name = "y"
size = 2
"""


def numbers(groups):
    return [[d.value for d in g] for g in groups]


def test_groups_and_assignment():
    mesh = parse_mesh(FOUR)
    assert numbers(mesh.groups("x")) == [[0, 1], [2, 3]]
    assert numbers(mesh.groups("y")) == [[0, 2], [1, 3]]
    assert numbers(mesh.groups("y", "x")) == [[0, 1, 2, 3]]
    assert numbers(mesh.groups()) == [[0], [2], [1], [3]]
    assert mesh.assignment.text == "{{0,2,1,3}}"
    assert mesh.axes.text == "mesh['x'=2,'y'=2], device_ids=(0,2,1,3)"
    short = Mesh(mesh.topology, MeshAxes(mesh.axes.axes, IotaDevices((2, 2), (1, 0))))
    assert short.devices == mesh.devices and short.text == mesh.text


def test_the_slow_link_tells_what_an_axis_costs():
    sims = topology_named("four-sims")
    near = Link(devices=(0, 1), bandwidth_bytes_per_s=1e11)
    far = Link(devices=(2, 3), bandwidth_bytes_per_s=1e10)
    mesh = Mesh(replace(sims, links=(*sims.links, near, far)), MeshAxes((("x", 2), ("y", 2))))
    slow, fast = (mesh.collective_ns("all-reduce", 1e8, name) for name in ("x", "y"))
    assert slow > 5 * fast > 0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("size = 2", "size = 3"), "6 devices, and 4 are named"),
        (("[0, 2, 1, 3]", "[0, 2, 2, 3]"), "each is in it once"),
        (("[0, 2, 1, 3]", "[0, 2, 1, 4]"), "four-sims has 4"),
        (("[0, 2, 1, 3]", "[0, 2, 1, -1]"), "numbered from 0 on"),
        (("[0, 2, 1, 3]", "true"), "devices in the mesh are True"),
        (('name = "x"', 'name = "y"'), "a name of its own"),
        (('name = "x"', 'nam = "x"'), "has no 'nam'"),
        (("devices =", "device ="), "has no 'device'"),
        (('"four-sims"', '"five-sims"'), "five-sims"),
        (('topology = "four-sims"', ""), "has no topology"),
        (("size = 2", "size = 0"), "each is 1 at least"),
    ],
)
def test_what_cannot_be(change, why):
    with pytest.raises(UsageError) as caught:
        parse_mesh(FOUR.replace(change[0], change[1], 1))
    assert why in str(caught.value)


@pytest.mark.parametrize("size", [5, 10**12, 10**30])
def test_more_devices_than_there_are(size):
    text = f'topology = "four-sims"\n[[axes]]\nname = "x"\nsize = {size}\n'
    with pytest.raises(UsageError, match="device"):
        parse_mesh(text)


def test_no_axis_of_that_name():
    with pytest.raises(UsageError, match="no axis 'z'"):
        parse_mesh(FOUR).groups("z")


def test_a_mesh_says_which_device_runs_which_partition(tmp_path):
    file = tmp_path / "mesh.toml"
    file.write_text(FOUR)
    exe = hloom.compile(
        "HloModule m, num_partitions=4\nENTRY e {\n  ROOT p = u32[] partition-id()\n}",
        target="sim:four-sims",
    )
    exe.device_assignment = load_mesh(file).assignment
    assert [d.value for d in exe.devices] == [0, 2, 1, 3]
    exe.device_assignment = "{{0,1,2,3}}"
    exe.device_assignment = str(file)
    assert [d.value for d in exe.devices] == [0, 2, 1, 3]
    with pytest.raises(UsageError, match="names device 7 of 4"):
        exe.device_assignment = Mesh(
            alike(known_device("sim"), 8), MeshAxes((("x", 4),), (4, 5, 6, 7))
        ).assignment
