"""Operations in two halves: in one computation, through a loop, and with the pass left out that
makes one of the two."""

import numpy as np
import pytest

import hloom
from hloom.codegen.llvm.machine import Machine
from hloom.executable import Executable
from hloom.interp import draw_instance, evaluate
from hloom.interp.lockstep import evaluate_lockstep
from hloom.ir.text import parse_module, show_module
from hloom.passes.pipeline import PipelineOptions
from hloom.program.thunks.async_call import AsyncDone, AsyncStart
from hloom.program.thunks.collective import Collective, CollectiveStart
from hloom.program.thunks.concurrent import Concurrent
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import walk
from hloom.targets.cpu.target import CpuTarget
from hloom.targets.sim.races import RaceError
from tests.targets.test_apart import LOOP, check
from tests.targets.test_apart import executable as with_device

HALVES = {
    "copy": ("(f32[8], f32[8], u32[])", "", "copy-start(OP)", "copy-done(OP)"),
    "call": (
        "((f32[8]), f32[8], u32[])",
        "call {\n a = f32[8] parameter(0)\n ROOT b = f32[8] reverse(a), dimensions={0}\n}\n",
        "async-start(OP), calls=call",
        "async-done(OP), calls=call",
    ),
    "sort": (
        "((f32[8]), f32[8], u32[])",
        "less {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
        " ROOT c = pred[] compare(a, b), direction=LT\n}\n"
        "call {\n a = f32[8] parameter(0)\n"
        " ROOT b = f32[8] sort(a), dimensions={0}, to_apply=less\n}\n",
        "async-start(OP), calls=call",
        "async-done(OP), calls=call",
    ),
    "all-reduce": (
        "f32[8]",
        "sum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n",
        "all-reduce-start(OP), replica_groups={{0,1}}, to_apply=sum",
        "all-reduce-done(OP)",
    ),
    "all-gather": (
        "(f32[8], f32[8])",
        "",
        "all-gather-start(OP), replica_groups={{0},{1}}, dimensions={0}",
        "all-gather-done(OP)",
    ),
    "permute": (
        "(f32[8], f32[8], u32[], u32[])",
        "",
        "collective-permute-start(OP), source_target_pairs={{0,1},{1,0}}",
        "collective-permute-done(OP)",
    ),
    "all-to-all": (
        "((f32[8]), f32[8])",
        "call {\n a = f32[8] parameter(0)\n"
        " ROOT b = f32[8] all-to-all(a), replica_groups={{0,1}}, dimensions={0}\n}\n",
        "async-start(OP), calls=call",
        "async-done(OP), calls=call",
    ),
}
COLLECTIVES = ("all-reduce", "all-gather", "permute", "all-to-all")


def straight(kind):
    """Both halves in the entry, with something between them."""
    shape, more, start, done = HALVES[kind]
    count = 2 if kind in COLLECTIVES else 1
    return f"""HloModule straight, replica_count={count}
{more}ENTRY main {{
  x = f32[8] parameter(0)
  y = f32[8] negate(x)
  s = {shape} {start.replace("OP", "y")}
  z = f32[8] multiply(x, x)
  d = f32[8] {done.replace("OP", "s")}
  ROOT o = f32[8] subtract(z, d)
}}"""


def devices_of(text, exe, count):
    arguments = [[np.arange(8, dtype=np.float32) * (k + 1) - 3] for k in range(count)]
    module = parse_module(text)
    want = [np.asarray(x.array) for x in evaluate_lockstep(module, arguments)]
    got = [np.asarray(x) for x in exe.run_devices(arguments)]
    for x, y in zip(want, got, strict=True):
        assert np.array_equal(x, y)


@pytest.mark.parametrize("is_left_out", [False, True])
@pytest.mark.parametrize("kind", HALVES)
def test_in_one_computation(kind, is_left_out):
    text = straight(kind)
    left = frozenset(["async-simplifier"]) if is_left_out else frozenset()
    target = CpuTarget(Machine.host(), passes=PipelineOptions(disable_hlo_passes=left))
    exe = Executable(target.compile(parse_module(text)), 2)
    # An all-gather of one device is nothing.
    meets = kind in COLLECTIVES and kind != "all-gather"
    assert any(isinstance(t, CollectiveStart) for t in walk(exe.thunks)) == meets
    devices_of(text, exe, 2 if kind in COLLECTIVES else 1)


GATHERED = """HloModule gathered, replica_count=2
cond {
  p = (s32[], f32[8], (f32[4], f32[8])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] parameter_constant
  ROOT l = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[8], (f32[4], f32[8])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  acc = f32[8] get-tuple-element(p), index=1
  s = (f32[4], f32[8]) get-tuple-element(p), index=2
  d = f32[8] all-gather-done(s)
  h = f32[8] sine(d)
  z = f32[8] add(acc, h)
  part = f32[4] slice(z), slice={[2:6]}
  next = (f32[4], f32[8]) all-gather-start(part), replica_groups={{0,1}}, dimensions={0}
  ROOT r = (s32[], f32[8], (f32[4], f32[8])) tuple(j, z, next)
}
ENTRY main {
  x = f32[8] parameter(0)
  z = s32[] constant(0)
  part = f32[4] slice(x), slice={[0:4]}
  first = (f32[4], f32[8]) all-gather-start(part), replica_groups={{0,1}}, dimensions={0}
  init = (s32[], f32[8], (f32[4], f32[8])) tuple(z, x, first)
  w = (s32[], f32[8], (f32[4], f32[8])) while(init), condition=cond, body=body
  acc = f32[8] get-tuple-element(w), index=1
  s = (f32[4], f32[8]) get-tuple-element(w), index=2
  d = f32[8] all-gather-done(s)
  ROOT o = f32[8] subtract(acc, d)
}"""

PAIRS = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,0}}"}'
SENT = f"""HloModule sent, replica_count=2
cond {{
  p = (s32[], f32[8], (f32[8], u32[], token[])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] parameter_constant
  ROOT l = pred[] compare(i, n), direction=LT
}}
body {{
  p = (s32[], f32[8], (f32[8], u32[], token[])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  acc = f32[8] get-tuple-element(p), index=1
  q = (f32[8], u32[], token[]) get-tuple-element(p), index=2
  qd = (f32[8], token[]) recv-done(q), channel_id=1, {PAIRS}
  v = f32[8] get-tuple-element(qd), index=0
  h = f32[8] sine(v)
  z = f32[8] add(acc, h)
  t = token[] after-all()
  nq = (f32[8], u32[], token[]) recv(t), channel_id=1, {PAIRS}
  s = (f32[8], u32[], token[]) send(z, t), channel_id=1, {PAIRS}
  sd = token[] send-done(s), channel_id=1, {PAIRS}
  ROOT r = (s32[], f32[8], (f32[8], u32[], token[])) tuple(j, z, nq), control-predecessors={{sd}}
}}
ENTRY main {{
  x = f32[8] parameter(0)
  z = s32[] constant(0)
  t = token[] after-all()
  q = (f32[8], u32[], token[]) recv(t), channel_id=1, {PAIRS}
  s = (f32[8], u32[], token[]) send(x, t), channel_id=1, {PAIRS}
  sd = token[] send-done(s), channel_id=1, {PAIRS}
  init = (s32[], f32[8], (f32[8], u32[], token[])) tuple(z, x, q)
  w = (s32[], f32[8], (f32[8], u32[], token[])) while(init), condition=cond, body=body
  acc = f32[8] get-tuple-element(w), index=1
  e = (f32[8], u32[], token[]) get-tuple-element(w), index=2
  qd = (f32[8], token[]) recv-done(e), channel_id=1, {PAIRS}
  v = f32[8] get-tuple-element(qd), index=0
  ROOT o = f32[8] subtract(acc, v)
}}"""


@pytest.mark.parametrize("trips", [0, 1, 5])
@pytest.mark.parametrize("text", [GATHERED, SENT], ids=["all-gather", "recv"])
def test_a_loop_hands_a_half_to_its_next_iteration(text, trips):
    text = text.replace("parameter_constant", f"constant({trips})")
    module = parse_module(text)
    hloom.verify(module)
    exe = hloom.compile(module, threads=2)
    halves = [t for t in walk(exe.thunks) if isinstance(t, Collective | CollectiveStart)]
    assert all(isinstance(t, Collective) for t in halves)
    devices_of(text, exe, 2)


def test_what_is_started_runs_beside_what_stands_before_its_end():
    text = (
        "HloModule background\n"
        + LOOP.format("a", "sine", 2000)
        + LOOP.format("b", "cosine", 2000)
        + """
whole {
  x = f32[64] parameter(0)
  z = s32[] constant(0)
  init = (s32[], f32[64]) tuple(z, x)
  a = (s32[], f32[64]) while(init), condition=cond_a, body=body_a
  ROOT r = f32[64] get-tuple-element(a), index=1
}
wrapped {
  x = f32[64] parameter(0)
  ROOT r = f32[64] call(x), to_apply=whole
}
ENTRY main {
  x = f32[64] parameter(0)
  w = f32[1000,1000] parameter(1)
  z = s32[] constant(0)
  s = ((f32[64]), f32[64], u32[]) async-start(x), calls=wrapped
  c = (f32[1000,1000], f32[1000,1000], u32[]) copy-start(w)
  init_b = (s32[], f32[64]) tuple(z, x)
  b = (s32[], f32[64]) while(init_b), condition=cond_b, body=body_b
  d = f32[64] async-done(s), calls=wrapped
  e = f32[1000,1000] copy-done(c)
  br = f32[64] get-tuple-element(b), index=1
  t = f32[64] add(d, br)
  ROOT r = (f32[64], f32[1000,1000]) tuple(t, e)
}"""
    )
    t = check(text, with_device(text))
    assert isinstance(t, Concurrent) and t.streams >= 3
    titles = " ".join(x.name for run in t.runs for x in run.thunks)
    assert "copy" in titles or "e" in titles


LATE = """
whole {
  x = f32[64] parameter(0)
  y = f32[64] parameter(1)
  z = s32[] constant(0)
  s = f32[64] subtract(x, y)
  init = (s32[], f32[64]) tuple(z, s)
  a = (s32[], f32[64]) while(init), condition=cond_a, body=body_a
  ROOT r = f32[64] get-tuple-element(a), index=1
}
wrapped {
  x = f32[64] parameter(0)
  y = f32[64] parameter(1)
  ROOT r = f32[64] call(x, y), to_apply=whole
}
ENTRY main {
  x = f32[64] parameter(0)
  y = f32[64] parameter(1)
  z = s32[] constant(0)
  n = f32[64] negate(y)
  s = ((f32[64]), (), u32[]) async-start(n), calls=wrapped
  u = ((f32[64], f32[64]), f32[64], u32[]) async-update(s, y)
  init_b = (s32[], f32[64]) tuple(z, y)
  b = (s32[], f32[64]) while(init_b), condition=cond_b, body=body_b
  d = f32[64] async-done(u)
  br = f32[64] get-tuple-element(b), index=1
  ROOT t = f32[64] add(d, br)
}"""


def in_a_thread(text, thread="worker"):
    """The program with the computation that is started, and what it calls, in another thread."""
    for name in ("cond_a", "body_a", "whole", "wrapped"):
        head, body = text.split(f"\n{name} {{", 1)
        inside, rest = body.split("\n}", 1)
        text = f'{head}\n{name} {{{inside}\n}}, execution_thread="{thread}"{rest}'
    return text.replace("calls=wrapped", f'calls=wrapped, async_execution_thread="{thread}"')


def late(trips):
    loops = LOOP.format("a", "sine", trips) + LOOP.format("b", "cosine", trips)
    return in_a_thread(f"HloModule late\n{loops}{LATE}")


def test_a_long_computation_in_two_halves_runs_beside_what_stands_between():
    text = late(3000)
    exe = with_device(text)
    t = check(text, exe)
    [start] = [x for x in walk(exe.thunks) if isinstance(x, AsyncStart)]
    [done] = [x for x in walk(exe.thunks) if isinstance(x, AsyncDone)]
    assert (start.thread, done.start) == ("worker", start.name)
    run_of = {x: k for k, run in enumerate(t.runs) for x in walk(run.thunks)}
    loops = [k for x, k in run_of.items() if isinstance(x, Kernel) and x.name == "b"]
    assert loops and run_of[start] not in loops
    assert not set(loops) & set(t.runs[run_of[done]].waits)
    listing = exe.as_text("thunks")
    assert (
        "AsyncStart" in listing and ", thread worker" in listing and f"of {start.name}" in listing
    )
    times = {k: run.stream for k, run in enumerate(t.runs)}
    assert times[run_of[start]] != times[loops[0]]


def test_a_short_one_is_done_where_it_starts():
    exe = with_device(late(3))
    assert not any(isinstance(x, AsyncStart | Concurrent) for x in walk(exe.thunks))


def test_a_saved_program_has_both_halves(tmp_path):
    text = late(3000)
    exe = hloom.compile(text, threads=2)
    exe.save(tmp_path / "late.hloom")
    loaded = hloom.load_compiled(tmp_path / "late.hloom", threads=2)
    kinds = [type(x) for x in walk(loaded.thunks)]
    assert AsyncStart in kinds and AsyncDone in kinds
    arguments = hloom.random_arguments(parse_module(text), seed=1)
    want = evaluate(parse_module(text), *arguments).array
    np.testing.assert_allclose(np.asarray(loaded(*arguments)), want, rtol=1e-4)


def test_simulated_streams_overlap_the_halves():
    """With two compute streams it takes about half; each wait that is left out is found."""
    text = late(3000)
    exe = hloom.compile(text, target="sim")
    module = parse_module(text)
    arguments = hloom.random_arguments(module, seed=2)
    [result], timeline = exe.simulate([arguments])
    np.testing.assert_allclose(np.asarray(result), evaluate(module, *arguments).array, rtol=1e-4)
    [a] = [s for s in timeline.spans if s.kind == "AsyncStart"]
    beside = [s for s in timeline.spans if s.name == "b" and s.kind in ("Kernel", "While")]
    assert beside
    assert all(b.stream != a.stream for b in beside)  # a loop may be several kernels
    begin, end = min(b.start_ns for b in beside), max(b.end_ns for b in beside)
    assert min(a.end_ns, end) - max(a.start_ns, begin) > 0.8 * (a.end_ns - a.start_ns)
    for k in range(timeline.waits):
        with pytest.raises(RaceError):
            exe.simulate([arguments], leave_out_wait=k)


@pytest.mark.parametrize("opcode", ["async-start", "async-update", "async-done"])
def test_drawn_computations_in_two_halves(opcode):
    """With no time at all as long, so that every start is kept."""
    for number in range(12):
        module = draw_instance(opcode, number)
        arguments = hloom.random_arguments(module, seed=number)
        want = evaluate(module, *arguments)
        exe = with_device(show_module(module), concurrency_gain_ns=0.0)
        assert any(isinstance(x, AsyncStart) for x in walk(exe.thunks)) or opcode == "async-start"
        got = exe(*arguments)
        arrays = [x.array for x in want.leaves() if x.shape.is_array]
        for x, y in zip(arrays, got if isinstance(got, tuple) else [got], strict=True):
            np.testing.assert_allclose(np.asarray(y), x, rtol=1e-4, atol=1e-5)
