"""Saved programs, row by row: kinds that are not registered, what is unset, what is shared."""

import json
import struct
from dataclasses import replace

import numpy as np
import pytest

import hloom
from hloom.api import Machine
from hloom.compiler import compile_module
from hloom.ir.text import parse_module
from hloom.program.graph import execution_graph
from hloom.program.saved import program_from_bytes, program_to_bytes
from hloom.program.saved_thunks import thunks_of_section, thunks_section
from hloom.program.slice import Allocation, BufferSlice
from hloom.program.thunks.among_devices import AmongDevices
from hloom.program.thunks.call import Call
from hloom.program.thunks.conditional import Conditional
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import THUNKS, walk
from hloom.program.thunks.while_ import While
from hloom.runtime.program_files import write_program

LOOP = """HloModule m
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT }
cond { s = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT go = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[3] get-tuple-element(s), index=1
  c = f32[3] sort(v), dimensions={0}, to_apply=less
  u = f32[3] add(c, v)
  ROOT t = (s32[], f32[3]) tuple(j, u) }
ENTRY e { v = f32[3] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[3]) tuple(zero, v)
  ROOT w = (s32[], f32[3]) while(s), condition=cond, body=body }"""
SEVERAL = """HloModule m, replica_count=2, num_partitions=2
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[8] parameter(0)
  one = f32[8] all-reduce(x), replica_groups={{0,1},{2,3}}, channel_id=1,
    use_global_device_ids=true, to_apply=sum
  two = f32[8] multiply(one, x)
  three = f32[8] all-reduce(two), replica_groups={{0,1},{2,3}}, channel_id=2,
    use_global_device_ids=true, to_apply=sum
  four = f32[16] all-gather(three), replica_groups={{0,2},{1,3}}, channel_id=3, dimensions={0},
    use_global_device_ids=true
  p = u32[] partition-id()
  f = f32[] convert(p)
  b = f32[16] broadcast(f), dimensions={}
  ROOT r = f32[16] add(four, b) }"""


def program_of(text):
    return compile_module(parse_module(text)).program


def test_a_kind_that_is_not_registered_is_named():
    program = program_of(LOOP)
    section = b"".join(thunks_section(program.thunks))
    (size,) = struct.unpack_from("<q", section)
    header = json.loads(section[8 : 8 + size])
    header["thunks"][0][0] = "Teleport"
    text = json.dumps(header).encode()
    changed = struct.pack("<q", len(text)) + text + section[8 + size :]
    with pytest.raises(ValueError, match="no kind of thunk 'Teleport'"):
        thunks_of_section(memoryview(changed), program.allocations)


@pytest.mark.parametrize("kind", ["Sort", "While", "Kernel"])
def test_others_are_read_without_it(kind, monkeypatch):
    """A registry that lacks a kind refuses the programs that have it, by name, and no others."""
    without = program_to_bytes(program_of("HloModule m\nENTRY e { ROOT x = f32[2] parameter(0) }"))
    data = program_to_bytes(program_of(LOOP))
    monkeypatch.delitem(THUNKS._items, kind)
    with pytest.raises(hloom.HloError, match=f"no kind of thunk '{kind}'"):
        program_from_bytes(data)
    assert program_from_bytes(without).name == "m"


@pytest.mark.parametrize("count", [None, 0, 5])
def test_a_trip_count_that_is_unset_is_not_zero(count):
    program = program_of(LOOP)
    thunks = tuple(
        replace(t, trip_count=count) if isinstance(t, While) else t for t in program.thunks
    )
    assert any(isinstance(t, While) for t in thunks)
    section = memoryview(b"".join(thunks_section(thunks)))
    again = thunks_of_section(section, program.allocations)
    assert repr(again) == repr(thunks)
    assert [t.trip_count for t in again if isinstance(t, While)] == [count]


def test_what_devices_share_stays_shared(tmp_path):
    """Collectives of one group keep one meeting; what has to wait for what is as before."""
    executable = compile_module(parse_module(SEVERAL))
    program = executable.program
    again = program_from_bytes(program_to_bytes(program))
    assert repr(again.thunks) == repr(program.thunks)
    states = [[t.states() for t in walk(p.thunks) if isinstance(t, AmongDevices)] for p in
              (program, again)]  # fmt: skip
    assert states[0] == states[1] and len(states[0]) >= 3
    assert execution_graph(again.thunks).edges == execution_graph(program.thunks).edges


def test_a_program_of_four_devices_from_a_file(tmp_path):
    executable = compile_module(parse_module(SEVERAL))
    executable.save(tmp_path / "several.hloom")
    loaded = hloom.load_compiled(tmp_path / "several.hloom")
    arguments = [[np.arange(8, dtype=np.float32) + d] for d in range(4)]
    expected = executable.run_devices(arguments)
    for mine, his in zip(loaded.run_devices(arguments), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(his))


def kernels(count):
    return tuple([Kernel(f"k{n}", f"symbol{n}", (), (), 1, 0.0) for n in range(count)])


PRED = BufferSlice(Allocation(0, 64, "temp"), 0, 1)


@pytest.mark.parametrize(
    ("thunk", "count"),
    [
        (Call("c", kernels(2)), 3),
        (While("w", kernels(1), PRED, kernels(1)), 3),
        (Conditional("b", PRED, False, tuple([kernels(1)] * 3), ("x", "y", "z")), 4),
    ],
    ids=["call", "while", "conditional"],
)
def test_every_nested_thunk_is_visited_once(thunk, count):
    for thunks in ((thunk,), thunks_of_section(section_of((thunk,)), [PRED.allocation])):
        assert len(list(walk(thunks))) == count


def section_of(thunks):
    return memoryview(b"".join(thunks_section(thunks)))


def test_the_data_layout_is_kept(tmp_path):
    """It is that of the machine that code was made for; code for another kind of memory is not
    loaded."""
    executable = compile_module(parse_module(LOOP))
    executable.save(tmp_path / "m.hloom")
    loaded = hloom.load_compiled(tmp_path / "m.hloom").program
    assert loaded.processor is not None
    assert loaded.processor.data_layout == Machine.host().data_layout != ""
    for layout in ("E-m:e-i64:64", "e-m:e-p:32:32-i64:64"):
        processor = loaded.processor._replace(data_layout=layout)
        other = replace(executable.program, processor=processor)
        write_program(tmp_path / "other.hloom", other, {})
        with pytest.raises(hloom.HloError, match=f"for the data layout {layout}, and here"):
            hloom.load_compiled(tmp_path / "other.hloom")
