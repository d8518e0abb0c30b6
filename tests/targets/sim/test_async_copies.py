"""Copies between memory spaces in two halves: an engine makes them while kernels go on."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.device.known import known_device
from hloom.device.text import show_device
from hloom.program.saved import program_from_bytes, program_to_bytes
from hloom.program.thunks.async_copy import CopyDone, CopyStart
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.thunk import walk
from hloom.targets.sim.races import RaceError
from tests.memory.drawn_modules import Drawn
from tests.memory.marked import mark, prefetch
from tests.targets.sim.test_sim import arrays, check, plain

PRODUCT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
OF, THERE = "f32[128,128]", "f32[128,128]{1,0:S(1)}"
BOTH_WAYS = f"""HloModule both_ways
ENTRY e {{
  a = {OF} parameter(0)
  b = {OF} parameter(1)
  in = ({THERE}, {OF}, u32[]) copy-start(b)
  x = {OF} dot(a, a), {PRODUCT}
  y = {OF} dot(x, b), {PRODUCT}
  near = {THERE} copy-done(in)
  z = {THERE} dot(x, near), {PRODUCT}
  out = ({OF}, {THERE}, u32[]) copy-start(z)
  w = {OF} dot(y, a), {PRODUCT}
  back = {OF} copy-done(out)
  ROOT r = ({OF}, {OF}) tuple(back, w)
}}"""
IN_A_LOOP = f"""HloModule in_a_loop
body {{
  s = (s32[], {OF}, {OF}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = {OF} get-tuple-element(s), index=1
  w = {OF} get-tuple-element(s), index=2
  in = ({THERE}, {OF}, u32[]) copy-start(x)
  y = {OF} dot(x, w), {PRODUCT}
  near = {THERE} copy-done(in)
  z = {OF} dot(near, y), {PRODUCT}
  t = {OF} tanh(z)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT n = (s32[], {OF}, {OF}) tuple(j, t, w)
}}
cond {{
  s = (s32[], {OF}, {OF}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT l = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
  x = {OF} parameter(0)
  w = {OF} parameter(1)
  zero = s32[] constant(0)
  init = (s32[], {OF}, {OF}) tuple(zero, x, w)
  loop = (s32[], {OF}, {OF}) while(init), condition=cond, body=body
  ROOT r = {OF} get-tuple-element(loop), index=1
}}"""
HALVES = (CopyStart, CopyDone)


def halves(exe):
    return [t for t in walk(exe.program.thunks) if isinstance(t, HALVES)]


def test_both_halves_are_steps_and_kernels_run_between_them():
    exe = hloom.compile(BOTH_WAYS, target="sim")
    assert [t.kind for t in halves(exe)] == ["CopyStart", "CopyDone"] * 2
    assert "copy-start" in exe.as_text("hlo") and "backend_config" not in exe.as_text("hlo")
    assert check(hloom.parse(BOTH_WAYS)) >= 4
    _, timeline = exe.simulate([plain_arguments(BOTH_WAYS)])
    spans = {s.name: s for s in timeline.spans}
    assert {spans["in"].stream, spans["out"].stream} == {"copy0"}
    assert spans["in"].end_ns > spans["in"].start_ns < spans["x"].end_ns
    assert spans["near"].start_ns == spans["near"].end_ns >= spans["in"].end_ns
    assert spans["w"].start_ns < spans["out"].end_ns <= spans["back"].start_ns


def plain_arguments(text):
    return [plain(x) for x in hloom.random_arguments(hloom.parse(text), seed=0)]


@pytest.mark.parametrize("text", [BOTH_WAYS, IN_A_LOOP], ids=["both ways", "in a loop"])
def test_every_wait_that_is_left_out_is_found(text):
    exe, arguments = hloom.compile(text, target="sim"), plain_arguments(text)
    assert halves(exe)
    check(hloom.parse(text))
    waits = exe.simulate([arguments])[1].waits
    assert waits >= 3
    for k in range(waits):
        with pytest.raises(RaceError, match="neither waits for the other"):
            exe.simulate([arguments], leave_out_wait=k)


def drawn(seed):
    module = Drawn(seed, 6).module()
    if seed % 2:
        mark(module, seed, (1,), 0.2)
    return module, prefetch(module, seed)


@pytest.mark.parametrize("seed", range(16))
def test_drawn_programs(seed):
    module, _ = drawn(seed)
    hloom.verify(module)
    check(module, seeds=(seed,))


def test_drawn_programs_keep_halves():
    modules = [drawn(seed) for seed in range(6)]
    kept = sum([len(halves(hloom.compile(m, target="sim"))) for m, _ in modules])
    assert kept > 40 and kept % 2 == 0


def test_a_device_without_an_engine_copies_at_once(tmp_path):
    sim = known_device("sim")
    text = show_device(sim)
    copies = text.replace("[0, 1]", "[0, 0]").replace("[1, 0]", "[0, 0]")
    copies = copies.replace("    [\n        0,\n        1,\n    ],", "").replace(
        "    [\n        1,\n        0,\n    ],", ""
    )
    assert copies != text
    (tmp_path / "slow.toml").write_text(copies)
    exe = hloom.compile(BOTH_WAYS, target=f"sim:{tmp_path / 'slow.toml'}")
    assert not halves(exe) and any(type(t) is Copy for t in exe.program.thunks)
    # So does the processor, which has one memory space only.
    text = BOTH_WAYS.replace(":S(1)", "")
    assert not halves(hloom.compile(text))
    a, b = plain_arguments(BOTH_WAYS)
    for x, y in zip(arrays(exe(a, b)), arrays(hloom.compile(text)(a, b)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-3)


def test_what_a_user_says_of_a_copy_is_no_memory_space():
    text = BOTH_WAYS.replace(":S(1)", "").replace(
        "copy-start(b)", 'copy-start(b), backend_config="7"'
    )
    for target in ("cpu", "sim"):
        assert not halves(hloom.compile(text, target=target))


def test_a_program_that_is_saved_keeps_both_halves():
    exe = hloom.compile(BOTH_WAYS, target="sim")
    again = program_from_bytes(program_to_bytes(exe.program))
    assert [type(t) for t in again.thunks] == [type(t) for t in exe.program.thunks]
    assert [t.particulars() for t in again.thunks] == [t.particulars() for t in exe.program.thunks]
