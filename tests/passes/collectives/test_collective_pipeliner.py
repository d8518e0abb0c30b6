"""Loops whose collectives moved give the same bits, and those that must stay do."""

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import UsageError
from hloom.interp import evaluate_lockstep
from hloom.ir.instruction import COLLECTIVES
from hloom.ir.verify import verify
from hloom.passes import pass_named
from tests.pass_case import leaves
from tests.passes.collectives.draw_loops import Loop
from tests.random_arguments import arguments_on_devices

KINDS = {"forward": "updated", "backward": "loaded", "forward-sink": "sunk"}


def assert_pipelined(text: str, direction: str, count: int | None = None, **options):
    """The module afterwards, whose results on all devices are what they were."""
    module = hloom.parse(text)
    verify(module)
    arguments = arguments_on_devices(module, np.random.default_rng(0))
    wanted = [leaves(r) for r in evaluate_lockstep(module, arguments)]
    result = pass_named("collective-pipeliner", direction=direction, **options).run(module)
    verify(module)
    if count is not None:
        assert result.fired.total() == count
    for old, r in zip(wanted, evaluate_lockstep(module, arguments), strict=True):
        for x, y in zip(old, leaves(r), strict=True):
            np.testing.assert_array_equal(x, y)
    return module, result


@pytest.mark.parametrize("direction", KINDS)
@pytest.mark.parametrize("trips", [1, 2, 3, 10])
def test_drawn_loops_compute_the_same(direction: str, trips: int) -> None:
    kind = KINDS[direction]
    moved = 0
    for seed in range(8):
        kinds = (kind,) * (1 + seed % 3)
        _, result = assert_pipelined(Loop(100 * trips + seed, kinds, trips).text, direction)
        moved += result.fired.total()
    assert moved >= 8


@pytest.mark.parametrize("seed", range(12))
def test_all_directions_after_each_other_compute_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = tuple(rng.choice(list(KINDS.values()), 3).tolist())
    module = hloom.parse(Loop(seed, kinds).text)
    arguments = arguments_on_devices(module, rng)
    wanted = [leaves(r) for r in evaluate_lockstep(module, arguments)]
    for direction in rng.permutation(list(KINDS) * 2).tolist():
        pass_named("collective-pipeliner", direction=direction).run(module)
        pass_named("flatten-call-graph").run(module)
        verify(module)
    for old, r in zip(wanted, evaluate_lockstep(module, arguments), strict=True):
        for x, y in zip(old, leaves(r), strict=True):
            np.testing.assert_array_equal(x, y)


def body_of(module):
    (loop,) = [i for i in module.instructions() if i.opcode == "while"]
    return loop.called[1]


def collectives(computation) -> list:
    return [i for i in computation.instructions if i.opcode in COLLECTIVES]


UPDATE = """HloModule m, num_partitions=2
plus {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}
body {{
  s = (s32[], f32[4,8], f32[8]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(k, one)
  buffer = f32[4,8] get-tuple-element(s), index=1
  acc = f32[8] get-tuple-element(s), index=2
  read = f32[1,8] dynamic-slice(buffer, {at}, zero), dynamic_slice_sizes={{1,8}}
  x = f32[1,8] negate(read)
  r = f32[1,8] all-reduce(x), channel_id=1, replica_groups={{{{0,1}}}},
    use_global_device_ids=true, to_apply=plus
  {form}
  new = f32[4,8] dynamic-update-slice(buffer, f, k, zero)
  ROOT t = (s32[], f32[4,8], f32[8]) tuple(next, new, {acc})
}}
condition {{
  s = (s32[], f32[4,8], f32[8]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT l = pred[] compare(k, n), direction=LT
}}
ENTRY e {{
  w = f32[4,8] parameter(0)
  y = f32[8] parameter(1)
  k = s32[] constant(0)
  t = (s32[], f32[4,8], f32[8]) tuple(k, w, y)
  ROOT r = (s32[], f32[4,8], f32[8]) while(t), condition=condition, body=body
}}"""
COPY = "f = f32[1,8] copy(r)"


def update(at: str = "k", form: str = COPY, acc: str = "acc") -> str:
    return UPDATE.format(at=at, form=form, acc=acc)


def test_the_body_communicates_what_the_step_before_computed() -> None:
    module, _ = assert_pipelined(update(), "forward", 1)
    body = body_of(module)
    (inside,) = collectives(body)
    assert inside.operands[0].opcode == "get-tuple-element"
    (outside,) = collectives(module.entry)
    assert outside.attrs.channel_id == 2 and inside.attrs.channel_id == 1


def test_copies_keep_their_channels_if_told_to() -> None:
    module, _ = assert_pipelined(update(), "forward", 1, unique_channel_id=False)
    assert [i.attrs.channel_id for i in collectives(module.entry)] == [1]


@pytest.mark.parametrize(
    "text",
    [
        # What the step before wrote is read.
        update(at="zero"),
        # It is read otherwise, too.
        update(acc="flat", form=f"{COPY}\n  flat = f32[8] reshape(r)"),
        update(form="f = f32[1,8] opt-barrier(r)"),
        # The whole buffer is read.
        update(
            form=f"{COPY}\n  z = f32[] constant(0)\n  sum = f32[8] reduce(buffer, z), "
            "dimensions={0}, to_apply=plus",
            acc="sum",
        ),
    ],
    ids=["overlap", "other reader", "barrier", "whole buffer"],
)
def test_what_is_read_or_held_back_stays(text: str) -> None:
    before = hloom.parse(text)
    module, _ = assert_pipelined(text, "forward", 0)
    assert str(module) == str(before)


def test_barriers_are_crossed_if_told_to() -> None:
    text = update(form="f = f32[1,8] opt-barrier(r)")
    assert_pipelined(text, "forward", 1, through_barriers=True)


def test_uses_may_be_a_tree() -> None:
    form = "a = f32[1,8] negate(r)\n  b = f32[1,8] copy(r)\n  f = f32[1,8] multiply(a, b)"
    assert_pipelined(update(form=form), "forward", 0)
    assert_pipelined(update(form=form), "forward", 1, has_uses_as_tree=True)


LOAD = """HloModule m, num_partitions=2
body {{
  s = (s32[], f32[4,8], f32[16]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(k, one)
  w = f32[4,8] get-tuple-element(s), index=1
  acc = f32[16] get-tuple-element(s), index=2
  read = f32[1,8] dynamic-slice(w, k, zero), dynamic_slice_sizes={{1,8}}
  x = f32[8] reshape(read)
  {held}
  g = f32[16] all-gather(h), channel_id=7, replica_groups={{{{0,1}}}},
    use_global_device_ids=true, dimensions={{0}}
  {more}
  sum = f32[16] add(acc, g)
  ROOT t = (s32[], f32[4,8], f32[16]) tuple(next, w, sum)
}}
condition {{
  s = (s32[], f32[4,8], f32[16]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT l = pred[] compare(k, n), direction=LT
}}
ENTRY e {{
  w = f32[4,8] parameter(0)
  y = f32[16] parameter(1)
  k = s32[] constant(0)
  t = (s32[], f32[4,8], f32[16]) tuple(k, w, y)
  ROOT r = (s32[], f32[4,8], f32[16]) while(t), condition=condition, body=body,
    backend_config={{"known_trip_count":{{"n":"4"}}}}
}}"""
HELD = {"barrier": "h = f32[8] opt-barrier(x)", "": "h = f32[8] negate(x)"}


def test_a_load_through_a_barrier_stays() -> None:
    assert_pipelined(LOAD.format(held=HELD["barrier"], more=""), "backward", 0)
    assert_pipelined(LOAD.format(held=HELD[""], more=""), "backward", 1)


@pytest.mark.parametrize("is_unique", [True, False])
def test_the_load_before_the_loop_has_a_channel_of_its_own(is_unique: bool) -> None:
    text = LOAD.format(held=HELD[""], more="")
    module, _ = assert_pipelined(text, "backward", 1, unique_channel_id=is_unique)
    (before,) = collectives(module.entry)
    (inside,) = collectives(body_of(module))
    assert inside.attrs.channel_id == 7
    assert before.attrs.channel_id == (8 if is_unique else 7)
    (loop,) = [i for i in module.instructions() if i.opcode == "while"]
    assert loop.backend_config.json["known_trip_count"]["n"] == "3"


TRANSFER = """to = token[] after-all()
  sent = (f32[16], u32[], token[]) send(acc, to), channel_id=5, is_host_transfer=true
  sd = token[] send-done(sent), channel_id=5, is_host_transfer=true
  got = (f32[16], u32[], token[]) recv(sd), channel_id=6, is_host_transfer=true
  gd = (f32[16], token[]) recv-done(got), channel_id=6, is_host_transfer=true"""


@pytest.mark.parametrize("is_unique", [True, False])
def test_transfers_with_the_host_stay_paired(is_unique: bool) -> None:
    module = hloom.parse(LOAD.format(held=HELD[""], more=TRANSFER))
    p = pass_named("collective-pipeliner", direction="backward", unique_channel_id=is_unique)
    assert p.run(module).fired.total() == 1
    verify(module)
    halves = [i for i in module.instructions() if i.opcode.startswith(("send", "recv"))]
    assert len(halves) == 8
    assert {i.attrs.channel_id for i in halves} == {5, 6}
    # Those of the last step come after the loop.
    (loop,) = [i for i in module.entry.instructions if i.opcode == "while"]
    assert any(loop in i.control_predecessors for i in halves)


def test_limits_leave_loops_alone() -> None:
    text = LOAD.format(held=HELD[""], more="")
    assert_pipelined(text, "backward", 0, most_bytes=63)
    assert_pipelined(text, "backward", 0, least_bytes=33)
    assert_pipelined(text, "backward", 0, level=1)
    assert_pipelined(text, "backward", 0, most_collectives=0)
    assert_pipelined(text, "backward", 0, kinds=frozenset(["all-reduce"]))
    assert_pipelined(text, "backward", 1, most_bytes=64, least_bytes=32, level=0)


@pytest.mark.parametrize("option", [{"direction": "forwards"}, {"kinds": frozenset(["all"])}])
def test_options_that_say_nothing_are_refused(option) -> None:
    with pytest.raises(UsageError):
        pass_named("collective-pipeliner", **option)


@pytest.mark.parametrize("direction", KINDS)
def test_what_is_compiled_computes_the_same(direction: str) -> None:
    module = hloom.parse(Loop(7, (KINDS[direction],), 3).text)
    arguments = arguments_on_devices(module, np.random.default_rng(0))
    wanted = [leaves(r) for r in evaluate_lockstep(module, arguments)]
    pass_named("collective-pipeliner", direction=direction).run(module)
    exe = hloom.compile(module)
    for old, new in zip(wanted, exe.run_devices(arguments), strict=True):
        for x, y in zip(old, leaves(new), strict=True):
            np.testing.assert_array_equal(x, y)
