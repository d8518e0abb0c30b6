"""Floors follow from shapes and rates; what is measured stands beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hloom
from hloom import api
from hloom.base.diagnostics import UsageError
from hloom.device.device import Cache
from hloom.targets.roofline import floor_s
from hloom.targets.thunk_work import ThunkWork

DOT = """HloModule dots
ENTRY e {
  a = f32[64,128] parameter(0)
  b = f32[128,256] parameter(1)
  d = f32[64,256] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT s = f32[64,256] sort(d), dimensions={1}, to_apply=less
}
"""
LESS = """less {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT l = pred[] compare(p, q), direction=LT
}
"""
DOT = DOT.replace("ENTRY", LESS + "ENTRY")
LOOP = """HloModule loop
body {
  s = (s32[], f32[1000]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(k, one)
  x = f32[1000] get-tuple-element(s), index=1
  y = f32[1000] sort(x), dimensions={0}, to_apply=less
  ROOT t = (s32[], f32[1000]) tuple(next, y)
}
condition {
  s = (s32[], f32[1000]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7)
  ROOT c = pred[] compare(k, n), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[1000] parameter(0)
  t = (s32[], f32[1000]) tuple(zero, x)
  w = (s32[], f32[1000]) while(t), condition=condition, body=body
  ROOT r = f32[1000] get-tuple-element(w), index=1
}
""".replace("body {", LESS + "body {", 1)


def arguments(exe):
    return [np.ones(p.shape.dims, np.float32) for p in exe.program.parameters]


def test_a_product_is_bound_by_its_operations_and_moves_what_it_reads_and_writes():
    exe = hloom.compile(DOT)
    found = exe.roofline(*arguments(exe), repeats=1)
    dot = next(s for s in found.steps if s.operations >= 2 * 64 * 128 * 256)
    assert dot.operations == 2 * 64 * 128 * 256 and dot.runs == 1
    assert dot.bytes == 4 * (64 * 128 + 128 * 256 + 64 * 256)
    assert dot.bound == "operations"
    rate = exe.target.device.compute.operations_per_s("f32")
    assert dot.floor_s * rate == pytest.approx(dot.operations)
    assert dot.measured_s > 0 and dot.predicted_s > dot.floor_s
    assert dot.distance == dot.measured_s / dot.floor_s


def test_steps_come_in_the_order_of_what_is_lost_and_add_up():
    exe = hloom.compile(DOT)
    found = exe.roofline(*arguments(exe), repeats=1)
    lost = [s.distance * s.measured_s for s in found.steps]
    assert len(lost) >= 2 and lost == sorted(lost, reverse=True)
    assert found.steps_floor_s == sum(s.floor_s for s in found.steps)
    assert found.measured_s > 0 and found.distance == found.measured_s / found.floor_s


def test_the_floor_of_a_program_moves_arguments_and_results_once():
    slow = replace(hloom.compile(DOT).target.device, caches=(Cache(level=1, size_bytes=1 << 15),))
    space = replace(slow.memory_spaces[0], bandwidth_bytes_per_s=1e6)
    slow = replace(slow, memory_spaces=(space,))
    exe = hloom.compile(DOT)
    moved = 4 * (64 * 128 + 128 * 256 + 64 * 256)
    assert floor_s(exe, slow) == pytest.approx(moved / 1e6)
    found = exe.roofline(*arguments(exe), repeats=1, device=slow)
    assert found.floor_s == pytest.approx(moved / 1e6) and found.bound == "memory"


def test_a_step_of_a_loop_counts_as_often_as_it_runs():
    exe = hloom.compile(LOOP)
    found = exe.roofline(*arguments(exe), repeats=2)
    [sort] = [s for s in found.steps if "ort" in s.thunk.kind + s.thunk.name or s.thunk.name == "y"]
    assert sort.runs == 7
    assert sort.bytes == 7 * 2 * 4000


def test_what_reads_a_part_of_a_table_is_not_charged_for_all_of_it():
    exe = hloom.compile("""HloModule rows
ENTRY e {
  t = f32[100000,16] parameter(0)
  k = s32[] parameter(1)
  z = s32[] constant(0)
  d = f32[2,16] dynamic-slice(t, k, z), dynamic_slice_sizes={2,16}
  ROOT r = f32[2,16] exponential(d)
}""")
    work = ThunkWork(exe.stages, exe.target.device.costs)
    assert sum(work(t).bytes for t in exe.thunks) < 1000
    assert floor_s(exe, exe.target.device) < 1e-5


def test_a_long_window_costs_no_more_than_the_best_way_to_fold_it():
    text = """HloModule windows
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[4,5000] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[4,5000] reduce-window(x, z), window={size=1xN pad=0_0xM_0}, to_apply=add
}"""
    operations = []
    for n in (3, 5000):
        exe = hloom.compile(text.replace("xN", f"x{n}").replace("xM", f"x{n - 1}"))
        work = ThunkWork(exe.stages, exe.target.device.costs)
        operations.append(sum(sum(work(t).operations.values()) for t in exe.thunks))
    assert 2 * 20_000 <= operations[0] <= operations[1] <= 6 * 20_000


def test_floors_are_of_the_threads_that_there_are():
    exe = hloom.compile(DOT, threads=1)
    assert exe.roofline(*arguments(exe), repeats=1).device.compute.units == 1


def test_saved_programs_and_several_devices_are_refused(tmp_path):
    exe = hloom.compile(DOT)
    exe.save(tmp_path / "dots.hloom")
    saved = hloom.load_compiled(tmp_path / "dots.hloom")
    with pytest.raises(UsageError, match="saved program"):
        saved.roofline(*arguments(exe), repeats=1)
    several = hloom.compile("""HloModule two, replica_count=2
ENTRY e {
  p = f32[4] parameter(0)
  ROOT r = f32[8] all-gather(p), dimensions={0}, replica_groups={{0,1}}
}""")
    with pytest.raises(UsageError, match="one device"):
        several.roofline(np.ones(4, np.float32))


def test_nothing_is_slower_than_what_is_given_by_the_slowest_cache():
    device = api.host_device()
    levels = [device.level_of(size) for size in (1 << 10, 1 << 19, 1 << 40)]
    assert levels[0].level == 1 and levels[1].level == 2 and levels[2] is None


def test_no_step_is_expected_before_its_bytes_can_have_moved():
    text = (
        "HloModule m\nENTRY e { x = f32[1048576] parameter(0)\n ROOT y = f32[1048576] negate(x) }"
    )
    exe = hloom.compile(text, threads=1)
    [step] = exe.roofline(*arguments(exe), repeats=1).steps
    assert step.bytes == 8 << 20
    assert step.predicted_s >= step.floor_s > 0
