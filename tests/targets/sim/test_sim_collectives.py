"""Simulated devices meet: collectives, sends and receives give what the interpreter says."""

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.interp import evaluate_lockstep
from hloom.interp.sample import random_arguments
from hloom.ir.text import parse_module
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
