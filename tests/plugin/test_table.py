"""The plugin as any host of PJRT meets it, without JAX: entries, topologies, other machines."""

import ctypes
import importlib.util
import platform
import re

import pytest

import hloom
from hloom.plugin.serving import serve
from hloom.runtime.saved_launch import TYPES
from tests.plugin.pjrt_table import HEADER, Failed, Table, names

NEEDS_JAXLIB = pytest.mark.skipif(
    importlib.util.find_spec("jaxlib") is None, reason="jaxlib, which reads StableHLO, is not here"
)

PROGRAM = "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT y = f32[8] add(x, x)\n}\n"
OTHER = "aarch64" if platform.machine() == "x86_64" else "x86_64"


@pytest.fixture
def table():
    serve()
    return Table()


def client_of(table, **options):
    raw, count = table.options(**options)
    return table.call("Client_Create", create_options=raw, num_options=count)("client")


def hlo(table):
    return table.program(hloom.file_bytes(hloom.parse(PROGRAM), "proto"), b"hlo")


def topology_of(table, **options):
    raw, count = table.options(**options)
    made = table.call("TopologyDescription_Create", create_options=raw, num_options=count)
    return made("topology")


def text_of(table, topology):
    """Its saved form."""
    kept = table.call("TopologyDescription_Serialize", topology=topology)
    return ctypes.string_at(kept("serialized_bytes"), kept("serialized_bytes_size"))


def print_of(table, topology):
    return table.call("TopologyDescription_Fingerprint", topology=topology)("fingerprint")


def test_no_entry_is_null(table):
    assert len(names()) > 130
    assert [n for n in names() if not table.pointer(n)] == []


def test_types_have_the_numbers_of_the_abi():
    listed = re.findall(r"PJRT_Buffer_Type_(\w+) = (\d+)", HEADER.read_text())
    assert {name.lower(): int(number) for name, number in listed} == TYPES


def test_what_is_not_written_says_so(table):
    with pytest.raises(Failed, match=r"does not implement PJRT_Device_PoisonExecution"):
        table.call("Device_PoisonExecution")


def test_clients_have_the_devices_asked_for(table):
    client = client_of(table, cpu_device_count=3)
    assert table.call("Client_Devices", client=client)("num_devices") == 3
    assert table.call("Client_AddressableMemories", client=client)("num_addressable_memories") == 9
    with pytest.raises(Failed, match="0; 1 to 4096"):
        client_of(table, cpu_device_count=0)
    with pytest.raises(Failed, match="no device 3: there are 3"):
        table.call("Client_LookupDevice", client=client, id=3)


def test_topologies_are_saved_and_make_clients(table):
    topology = topology_of(table, cpu_device_count=5)
    text = text_of(table, topology)
    again = table.call(
        "TopologyDescription_Deserialize",
        serialized_topology=text,
        serialized_topology_size=len(text),
    )("topology")
    assert print_of(table, topology) == print_of(table, again)
    client = client_of(table, topology=text.decode())
    assert table.call("Client_Devices", client=client)("num_devices") == 5
    with pytest.raises(Failed, match="no topology of hloom"):
        client_of(table, topology="something else")


def test_topologies_carry_the_machine(table):
    """Two processes of four devices, for a machine with options of its own."""
    avx2 = {"cpu": "haswell", "features": "+avx2,+fma"}
    of_avx2, same, of_cpu, of_features = [
        topology_of(table, num_nodes=2, cpu_device_count=4, triple="x86_64-linux-gnu", **options)
        for options in (avx2, avx2, {**avx2, "cpu": "znver4"}, {**avx2, "features": "+avx2"})
    ]
    text = text_of(table, of_avx2)
    again = table.call(
        "TopologyDescription_Deserialize",
        serialized_topology=text,
        serialized_topology_size=len(text),
    )("topology")
    listed = table.call("TopologyDescription_GetDeviceDescriptions", topology=again)
    assert listed("num_descriptions") == 8
    assert text_of(table, again) == text == text_of(table, same)
    for other in (of_cpu, of_features):
        assert text_of(table, other) != text
        assert print_of(table, other) != print_of(table, of_avx2) == print_of(table, again)


@NEEDS_JAXLIB
def test_the_processor_of_a_topology_is_compiled_for(table):
    baseline = "x86-64" if OTHER == "aarch64" else "generic"
    topology = topology_of(table, cpu=baseline)
    made = table.call("Compile", topology=topology, program=hlo(table))("executable")
    client = client_of(table)
    loaded = table.call("Client_Load", client=client, executable=made)("loaded_executable")
    assert run(table, client, loaded) == [2.0] * 8
    for unknown in ({"cpu": "nosuch"}, {"features": "+nosuch"}, {"triple": "nosuch-linux-gnu"}):
        topology = topology_of(table, **unknown)
        with pytest.raises(Failed, match="nosuch"):
            table.call("Compile", topology=topology, program=hlo(table))


@NEEDS_JAXLIB
def test_programs_compile_without_a_client(table):
    topology = topology_of(table)
    made = table.call("Compile", topology=topology, program=hlo(table))("executable")
    assert table.call("Executable_NumOutputs", executable=made)("num_outputs") == 1
    client = client_of(table)
    loaded = table.call("Client_Load", client=client, executable=made)("loaded_executable")
    assert run(table, client, loaded) == [2.0] * 8


@NEEDS_JAXLIB
def test_features_of_a_topology_are_compiled_for(table):
    """What this machine has anyway runs; what it lacks, or another machine, does not."""
    features = "+sse4.2" if OTHER == "aarch64" else "+neon"
    topology = topology_of(table, features=features)
    made = table.call("Compile", topology=topology, program=hlo(table))("executable")
    client = client_of(table)
    loaded = table.call("Client_Load", client=client, executable=made)("loaded_executable")
    assert run(table, client, loaded) == [2.0] * 8


@NEEDS_JAXLIB
def test_programs_for_another_machine_compile_and_do_not_run(table):
    client = client_of(table, cpu_device_count=3, triple=f"{OTHER}-unknown-linux-gnu")
    assert table.call("Client_Devices", client=client)("num_devices") == 3
    made = table.call("Client_Compile", client=client, program=hlo(table))("executable")
    with pytest.raises(Failed, match="compiled for a machine that this one cannot stand for"):
        run(table, client, made)


def run(table, client, executable):
    """The result for an array of ones."""
    given, dims = (ctypes.c_float * 16)(*[1.0] * 16), (ctypes.c_int64 * 1)(8)
    buffer = table.call(
        "Client_BufferFromHostBuffer", client=client, data=given, type=11, dims=dims, num_dims=1
    )("buffer")
    arguments = (ctypes.c_void_p * 1)(buffer)
    results = (ctypes.c_void_p * 1)()
    lists = [(ctypes.c_void_p * 1)(ctypes.addressof(a)) for a in (arguments, results)]
    done = (ctypes.c_void_p * 1)()
    options = (ctypes.c_char * 144)()
    table.held += [given, dims, arguments, results, *lists, done, options]
    table.call(
        "LoadedExecutable_Execute",
        executable=executable,
        options=options,
        argument_lists=lists[0],
        num_devices=1,
        num_args=1,
        output_lists=lists[1],
        device_complete_events=done,
    )
    table.call("Event_Await", event=done[0] or 0)
    out = (ctypes.c_float * 8)()
    copied = table.call("Buffer_ToHostBuffer", src=results[0] or 0, dst=out, dst_size=32)("event")
    table.call("Event_Await", event=copied)
    return list(out)


WRONG_OPTIONS = {
    "no option max_transpose_threads": {"max_transpose_threads": 8},
    "cpu_device_count is a whole number, text was given": {"cpu_device_count": "3"},
    "collectives of the kind gloo": {"collectives": "gloo"},
    "num_nodes is 0; 1 to 4096": {"node_id": 0, "num_nodes": 0},
}


@pytest.mark.parametrize("words", WRONG_OPTIONS)
def test_options_that_mean_nothing_are_refused(table, words):
    with pytest.raises(Failed, match=words):
        client_of(table, **WRONG_OPTIONS[words])
    with pytest.raises(Failed, match=words):
        topology_of(table, **WRONG_OPTIONS[words])


def test_a_client_of_several_processes_needs_somebody_to_ask(table):
    with pytest.raises(Failed, match="of 2 processes needs a key-value store"):
        client_of(table, node_id=0, num_nodes=2)


def test_the_options_that_there_are_make_a_client(table):
    client = client_of(table, collectives="in-process", node_id=3, num_nodes=1, asynchronous=False)
    assert table.call("Client_ProcessIndex", client=client)("process_index") == 3
