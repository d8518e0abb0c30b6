"""Simulated devices meet: collectives, sends and receives give what the interpreter says."""

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.interp import evaluate_lockstep
from hloom.interp.sample import random_arguments
from hloom.ir.text import parse_module
from hloom.targets.sim.clock import Channel, EventClock
from hloom.targets.sim.races import RaceError
from tests.targets import collective_cases as cases

FORMS = [*cases.group_modes(), *cases.forms(), *cases.halves()]
CASES = [(name, text) for name, text in FORMS if name != "numbers"]  # for six devices


def arrays(value) -> list[np.ndarray]:
    if isinstance(value, tuple):
        return [x for part in value for x in arrays(part)]
    return [] if value is None else [np.array(value)]


def on_four(text: str):
    """The executable, what each device is given, and what each one should find."""
    module = parse_module(text)
    count = module.replica_count * module.num_partitions
    given = [random_arguments(module, d) for d in range(count)]
    wanted = evaluate_lockstep(module, given)
    expected = [[x.array for x in w.leaves() if x.shape.is_array] for w in wanted]
    return hloom.compile(module, target="sim:four-sims"), given, expected


@pytest.mark.parametrize(("name", "text"), CASES, ids=[name for name, _ in CASES])
def test_every_form_with_delays(name, text):
    exe, given, expected = on_four(text)
    for delays in (None, len(name)):
        found, timeline = exe.simulate(given, delays=delays)
        for each, wanted in zip(found, expected, strict=True):
            for x, y in zip(arrays(each), wanted, strict=True):
                assert x.tobytes() == y.tobytes()
        assert {s.device for s in timeline.spans} == set(range(len(given)))


OVERLAPPED = """HloModule m, num_partitions=4
fold { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  start = f32[64,64] all-reduce-start(x), replica_groups={{0,1,2,3}}, channel_id=1,
    use_global_device_ids=true, to_apply=fold
  d = f32[64,64] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  done = f32[64,64] all-reduce-done(start)
  ROOT r = f32[64,64] dot(d, done), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""


def test_a_collective_takes_what_its_links_need_while_others_compute():
    exe, given, expected = on_four(OVERLAPPED)
    found, timeline = exe.simulate(given)
    np.testing.assert_allclose(arrays(found[0])[0], expected[0][0], rtol=1e-3, atol=1e-2)
    flights = [s for s in timeline.spans if s.kind == "CollectiveStart" and not s.is_outer]
    assert len(flights) == 4
    assert flights[0].end_ns - flights[0].start_ns == pytest.approx(
        6 * 1000 + 2 * 0.75 * 64 * 64 * 4, rel=0.01
    )
    product = next(s for s in timeline.spans if s.name.startswith("d") and s.kind == "Kernel")
    assert product.start_ns < flights[0].end_ns and flights[0].start_ns < product.end_ns
    assert timeline.waits
    for k in range(timeline.waits):
        with pytest.raises(RaceError):
            exe.simulate(given, leave_out_wait=k)


def test_devices_that_never_meet_say_who_lacks():
    text = """HloModule m, num_partitions=4
fold { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
yes { p = f32[8] parameter(0)
  ROOT r = f32[8] all-reduce(p), replica_groups={{0,1,2,3}}, channel_id=1,
    use_global_device_ids=true, to_apply=fold }
no { ROOT p = f32[8] parameter(0) }
ENTRY e { q = pred[] parameter(0) x = f32[8] parameter(1)
  ROOT c = f32[8] conditional(q, x, x), true_computation=yes, false_computation=no }"""
    exe = hloom.compile(text, target="sim:four-sims")
    x = np.ones(8, np.float32)
    found, _ = exe.simulate([[np.True_, x]] * 4)
    np.testing.assert_array_equal(arrays(found[3])[0], 4 * x)
    with pytest.raises(HloError, match=r"of \[0, 1, 2, 3\] lacks \[2\]"):
        exe.simulate([[np.bool_(k != 2), x] for k in range(4)])


def permutes(*pairs: str, after: bool = False) -> str:
    """Four devices that permute an array once for each of these pairs, all at the same time or one
    after another."""
    lines, of = [" x = f32[262144] parameter(0)"], "x"
    for k, each in enumerate(pairs):
        shape = "(f32[262144], f32[262144])"
        lines.append(
            f" start_{k} = {shape} collective-permute-start({of}), source_target_pairs={each},"
            f" channel_id={k + 1}"
        )
        if after:
            lines.append(f" d{k} = f32[262144] collective-permute-done(start_{k})")
            of = f"d{k}"
    last = f"control-predecessors={{start_{len(pairs) - 1}}}"
    for k in range(0 if after else len(pairs)):
        lines.append(f" d{k} = f32[262144] collective-permute-done(start_{k}), {last}")
    ends = ", ".join([f"d{k}" for k in range(len(pairs))])
    shapes = ", ".join(["f32[262144]"] * len(pairs))
    body = "\n".join(lines)
    return (
        f"HloModule m, num_partitions=4\nENTRY e {{\n{body}\n ROOT r = ({shapes}) tuple({ends})\n}}"
    )


@pytest.mark.parametrize(
    ("text", "times"),
    [
        (permutes("{{0,1}}"), 1),
        (permutes("{{0,1}}", "{{0,1}}"), 2),
        (permutes("{{0,1}}", "{{2,3}}"), 1),
        (permutes("{{0,1}}", "{{0,1}}", after=True), 1),
    ],
)
def test_what_is_on_its_way_together_shares_links(text, times):
    exe, given, _ = on_four(text)
    for delays in (None, 1, 2):
        _, timeline = exe.simulate(given, delays=delays)
    _, timeline = exe.simulate(given)
    flights = [s for s in timeline.spans if s.kind == "CollectiveStart" and not s.is_outer]
    longest = max(s.end_ns - s.start_ns for s in flights)
    assert longest == pytest.approx(1000 + times * 262144 * 4, rel=0.01)
    assert timeline.total_ns < 1.2e6 * len({s.name for s in flights}) + 1e6


@pytest.mark.parametrize("offset", [0.0, 1e9, 1e15])
def test_uses_of_a_channel_end_whatever_the_rounding(offset):
    """Times at which differences of floats do not come out: each use ends, none before its time."""
    random = np.random.default_rng(0)
    clock, channels, ends = EventClock(), [Channel("a"), Channel("b")], []

    def flight(begin, ns, over):
        yield begin
        start = clock.now
        yield from clock.use(over, ns)
        ends.append((clock.now - start, ns))

    total = 0.0
    for _ in range(300):
        ns = float(random.random() * 100)
        total += ns
        over = [channels[:1], channels[1:], channels][int(random.integers(3))]
        clock.start(flight(offset + float(random.random() * 1000), ns, over))
    clock.run()
    assert len(ends) == 300 and not any(c.users for c in channels)
    slack = 300 * (1e-6 + offset * 1e-15)
    assert all(ns - slack <= took <= 2 * total + slack for took, ns in ends)


def directions(*pairs: str) -> float:
    """How long permutes of a ring of four take that are under way together."""
    starts = [
        f"  s_{k} = (f32[65536], f32[65536]) collective-permute-start(x), channel_id={k + 1}, "
        f"source_target_pairs={{{pair}}}\n"
        for k, pair in enumerate(pairs)
    ]
    dones = [f"  d{k} = f32[65536] collective-permute-done(s_{k})\n" for k in range(len(pairs))]
    parts = ", ".join([f"d{k}" for k in range(len(pairs))])
    shapes = ", ".join(["f32[65536]"] * len(pairs))
    text = "HloModule m, num_partitions=4\nENTRY e {\n  x = f32[65536] parameter(0)\n"
    text += "".join([*starts, *dones]) + f"  ROOT t = ({shapes}) tuple({parts})\n}}"
    exe = hloom.compile(text, target="sim:four-sims")
    return exe.simulate([[np.ones(65536, np.float32)]] * 4)[1].total_ns


def test_permutes_share_a_link_only_where_they_send_the_same_way():
    one = directions("{0,1}")
    assert directions("{0,1}", "{1,0}") < 1.2 * one
    assert directions("{0,1}", "{1,0}", "{2,3}") < 1.2 * one
    assert directions("{0,1},{1,2}", "{1,0},{2,1},{3,2}") > 1.7 * one
    assert directions("{0,1}", "{0,2}", "{0,3}") > 2.5 * one
