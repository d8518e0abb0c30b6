"""`hloom.compile`: what it takes, what an executable tells, and every wrong use of it."""

import gc
import logging
import threading
import time

import ml_dtypes
import numpy as np
import pytest

import hloom
from hloom.base.alarm import Occurrences, slow_alarm
from hloom.base.diagnostics import HloError, UsageError
from hloom.compiler import STAGES, compile_module
from hloom.runtime.buffer import OutOfMemoryError
from tests.docs.pages import ROOT

ADD = """HloModule adds
ENTRY main {
  x = f32[3] parameter(0)
  y = f32[3] parameter(1)
  ROOT sum = f32[3] add(x, y)
}
"""
STEP = """HloModule step, input_output_alias={ {1}: (0, {}, may-alias) }
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  state = f32[4] parameter(0)
  more = f32[4] parameter(1)
  next = f32[4] add(state, more)
  zero = f32[] constant(0)
  loss = f32[] reduce(more, zero), dimensions={0}, to_apply=sum
  ROOT both = (f32[], f32[4]) tuple(loss, next)
}
"""
NESTED = """HloModule nested
ENTRY main {
  p = (f32[2], (s32[], f32[3])) parameter(0)
  q = f32[2] parameter(1)
  a = f32[2] get-tuple-element(p), index=0
  inner = (s32[], f32[3]) get-tuple-element(p), index=1
  n = s32[] get-tuple-element(inner), index=0
  b = f32[3] get-tuple-element(inner), index=1
  sum = f32[2] add(a, q)
  pair = (f32[2], s32[]) tuple(sum, n)
  ROOT r = ((f32[2], s32[]), f32[3]) tuple(pair, b)
}
"""
LOGS = """HloModule logs
ENTRY main {
  x = bf16[4] parameter(0)
  y = bf16[4] add(x, x)
  z = bf16[4] multiply(y, x)
  ROOT r = bf16[4] log(z)
}
"""
X, Y = np.float32([1, 2, 4]), np.float32([10, 20, 30])


@pytest.fixture(scope="module")
def adds():
    return hloom.compile(ADD)


@pytest.fixture(scope="module")
def step():
    return hloom.compile(STEP)


# -- what it takes


@pytest.mark.parametrize("kind", ["text", "path", "str path", "module", "loaded"])
def test_forms_of_programs(kind, tmp_path):
    path = tmp_path / "a.hlo"
    path.write_text(ADD)
    given = {
        "text": lambda: ADD,
        "path": lambda: path,
        "str path": lambda: str(path),
        "module": lambda: hloom.parse(ADD),
        "loaded": lambda: hloom.load_file(path),
    }[kind]()
    assert hloom.compile(given)(X, Y).numpy().tolist() == [11, 22, 34]


def test_a_module_is_not_changed():
    module = hloom.load(ROOT / "examples" / "softmax.hlo")
    before = hloom.show(module)
    hloom.compile(module)
    assert hloom.show(module) == before


class OnlyDlpack:
    """An array as another library has it."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("form", [np.asarray, OnlyDlpack, hloom.Literal.of, memoryview])
def test_forms_of_arrays(adds, form):
    assert adds(form(X), form(Y)).numpy().tolist() == [11, 22, 34]


def test_torch_tensors(adds):
    torch = pytest.importorskip("torch")
    assert adds(torch.tensor(X), torch.tensor(Y)).numpy().tolist() == [11, 22, 34]


def test_arrays_in_any_memory(adds):
    raw = np.zeros(17, np.uint8)
    odd = raw[1:13].view(np.float32)  # no multiple of four bytes
    odd[:] = X
    wide = np.zeros((3, 2), np.float32)
    wide[:, 1] = Y
    assert adds(odd, wide[:, 1]).numpy().tolist() == [11, 22, 34]


def test_results_are_arguments_without_a_copy(adds):
    once = adds(X, Y)
    assert adds(once, once).numpy().tolist() == [22, 44, 68]
    assert np.asarray(once).ctypes.data == once.address and not once.is_deleted


def test_nested_tuples():
    run = hloom.compile(NESTED)
    a, n, b, q = np.float32([1, 2]), np.int32(7), np.float32([3, 4, 5]), np.float32([10, 20])
    for result in (run((a, (n, b)), q), run([a, [n, b]], q), run(a, n, b, q)):
        (total, number), rest = result
        assert total.numpy().tolist() == [11, 22] and rest.numpy().tolist() == [3, 4, 5]
        assert int(number.numpy()) == 7


def test_random_arguments_fit():
    module = hloom.parse(NESTED)
    (found, _), _ = hloom.compile(module)(*hloom.random_arguments(module))
    expected = hloom.evaluate(module, *hloom.random_arguments(module)).elements[0].elements[0]
    assert found.numpy().tolist() == expected.array.tolist()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads(threads):
    module = hloom.load(ROOT / "examples" / "transformer_block.hlo")
    arguments = hloom.random_arguments(module, seed=3)
    one = hloom.compile(module, threads=threads)(*arguments)
    expected = hloom.evaluate(module, *arguments).array
    np.testing.assert_allclose(np.asarray(one), expected, rtol=2e-4, atol=2e-4)


def test_many_python_threads_at_once(adds):
    found = []

    def work(k):
        for _ in range(50):
            found.append((adds(X * k, Y).numpy() == X * k + Y).all())

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert len(found) == 200 and all(found)


# -- donation


def test_donated_buffers_are_used_again(step):
    one = np.ones(4, np.float32)
    _, state = step(np.zeros(4, np.float32), one)
    address = state.address
    loss, after = step(state, one)
    assert state.is_deleted and after.address == address
    assert after.numpy().tolist() == [2] * 4 and float(loss.numpy()) == 4


def test_donate_false_keeps(step):
    one = np.ones(4, np.float32)
    _, state = step(one, one)
    _, after = step(state, one, donate=False)
    assert state.numpy().tolist() == [2] * 4 and after.numpy().tolist() == [3] * 4


def test_donate_numbers_deletes_those(step, adds):
    _, state = step(np.ones(4, np.float32), np.ones(4, np.float32))
    _, more = step(np.ones(4, np.float32), np.ones(4, np.float32))
    step(state, more, donate=[1])
    assert more.is_deleted and not state.is_deleted
    x = adds(X, Y)
    assert adds(x, Y, donate=0).numpy().tolist() == [21, 42, 64] and x.is_deleted


def test_arrays_of_the_caller_are_never_overwritten(step):
    mine = np.ones(4, np.float32)
    step(mine, mine)
    assert mine.tolist() == [1] * 4


# -- what it tells


def test_text_of_every_stage(adds):
    marks = {
        "hlo": "HloModule adds",
        "plan": "allocation 0: parameter 12 bytes",
        "kernels": "kernel @k_sum",
        "llvm": "define void @k_sum(ptr",
        "assembly": "k_sum:",
        "thunks": "Kernel   sum @k_sum",
        "graph": 'digraph "adds"',
    }
    assert tuple(marks) == STAGES
    for stage, mark in marks.items():
        assert mark in adds.as_text(stage), stage
    with pytest.raises(UsageError, match="no stage 'triton'"):
        adds.as_text("triton")


def test_memory_and_cost(step):
    memory = step.memory
    assert (memory.arguments, memory.outputs, memory.aliased) == (32, 4, 16)
    assert memory.peak == memory.arguments + memory.outputs + memory.constants + memory.temp
    assert step.cost.flops == 7  # four additions, three in the sum
    names = {v.name for v in memory.values}
    assert {"%main/%state", "%main/%more"} <= names


def test_memory_of_a_program_with_temporaries():
    memory = hloom.compile(hloom.load(ROOT / "examples" / "resnet_step.hlo")).memory
    highest = max(size for _, size in memory.timeline)
    assert 0 < highest <= memory.live <= memory.temp
    assert memory.timeline[-1][1] == 0
    assert memory.largest(3)[0].place.size_bytes >= memory.largest(3)[2].place.size_bytes > 0


def test_times_of_stages_and_passes():
    told = []
    run = compile_module(hloom.parse(ADD), progress=told.append)
    assert told[-1] == "load" and set(told) == set(run.seconds)
    assert all(seconds >= 0 for seconds in run.seconds.values())
    assert {"algsimp", "fusion", "dce"} <= {r.name for r in run.pass_records}


# -- options


def test_an_option_without_effect_is_warned_of():
    with pytest.warns(UserWarning, match="gpu_autotune_level does nothing"):
        hloom.compile(ADD, options={"xla_gpu_autotune_level": 0})


def test_options_that_act_are_not_warned_of(recwarn):
    hloom.compile(ADD, options=["--cpu_max_isa=AVX2", "--cpu_enable_fast_min_max=false"])
    assert not [w for w in recwarn if "does nothing" in str(w.message)]


@pytest.mark.parametrize(
    ("program", "stage", "option", "without", "with_"),
    [
        (ADD, "llvm", {"cpu_enable_fast_math": True}, "fadd <", "fadd reassoc nsz contract"),
        (LOGS, "kernels", {"allow_excess_precision": False}, None, "excess_precision(false)"),
        (LOGS, "hlo", {"disable_hlo_passes": "fusion"}, "fusion(", None),
        (LOGS, "hlo", {"enable_hlo_passes_only": ("dce",)}, "fusion(", None),
        (LOGS, "hlo", {"disable_all_hlo_passes": True}, "fusion(", None),
    ],
)
def test_options_change_what_is_made(program, stage, option, without, with_):
    plain = hloom.compile(program).as_text(stage)
    changed = hloom.compile(program, options=option).as_text(stage)
    assert plain != changed
    assert without is None or (without in plain and without not in changed)
    assert with_ is None or (with_ in changed and with_ not in plain)


def test_excess_precision_changes_rounding():
    x = np.linspace(0.3, 7, 4).astype(ml_dtypes.bfloat16)
    strict = hloom.compile(LOGS, options={"allow_excess_precision": False})(x)
    assert strict.numpy().tolist() == hloom.evaluate(hloom.parse(LOGS), x).array.tolist()


def test_the_newest_instruction_set(adds):
    capped = hloom.compile(ADD, options={"cpu_max_isa": "SSE4_2"})
    assert capped.target.machine.vector_bytes == 16
    assert capped(X, Y).numpy().tolist() == [11, 22, 34]
    with pytest.raises(HloError, match="no instruction set"):
        hloom.compile(ADD, options={"cpu_max_isa": "Z80"})


@pytest.mark.parametrize("options", [{"cpu_maxisa": "AVX2"}, ["--cpu_maxisa=AVX2"]])
def test_a_misspelt_option(options):
    with pytest.raises(UsageError, match="cpu_max_isa"):
        hloom.compile(ADD, options=options)


# -- wrong use: one clear error, and everything works afterwards

WRONG_CALLS = {
    "too few": (lambda f: f(X), "argument-count", "2 arrays, 1 were given"),
    "too many": (lambda f: f(X, Y, X), "argument-count", "3 were given"),
    "type": (lambda f: f(X, Y.astype(np.float64)), "argument-type", "argument 1 .*float64.*f32"),
    "sizes": (lambda f: f(X, Y[:2]), "argument-type", r"argument 1 has sizes \[2\].*f32\[3\]"),
    "rank": (lambda f: f(X, Y[None]), "argument-type", r"\[1, 3\]"),
    "text": (lambda f: f(X, "abc"), "argument-type", "argument 1"),
    "object": (lambda f: f(X, object()), "argument-type", "argument 1"),
    "none": (lambda f: f(None, X), "argument-type", "argument 0"),
    "tuple": (lambda f: f((X, Y), X), "argument-type", "argument 0"),
    "ragged": (lambda f: f([[1.0], [1.0, 2.0]], X), "argument-type", "argument 0"),
    "donation": (lambda f: f(X, Y, donate=2), "donation", "donate=2"),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_calls(adds, name):
    call, rule, message = WRONG_CALLS[name]
    with pytest.raises(UsageError, match=message) as caught:
        call(adds)
    assert caught.value.rule == rule
    assert adds(X, Y).numpy().tolist() == [11, 22, 34]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 2, 3), "takes 2 arguments"),
        (((1,), 2), "argument 0 is a tuple of 1, the program wants 2"),
        (((1, 2), 2), "argument 0.1 is a int, the program wants a tuple of 2"),
    ],
)
def test_wrong_nesting(arguments, message):
    with pytest.raises(UsageError, match=message):
        hloom.compile(NESTED)(*arguments)


def test_deleted_buffers(step):
    one = np.ones(4, np.float32)
    _, state = step(one, one)
    step(state, one)
    for use in (lambda: step(state, one), state.numpy, lambda: np.asarray(state)):
        with pytest.raises(UsageError, match="deleted or donated") as caught:
            use()
        assert caught.value.hint


def test_one_buffer_donated_and_read(step):
    one = np.ones(4, np.float32)
    _, state = step(one, one)
    with pytest.raises(UsageError, match="donated, and given as another argument"):
        step(state, state)
    assert state.numpy().tolist() == [2] * 4  # nothing happened to it


def test_a_wrong_argument_beside_a_donated_one_costs_nothing(step):
    one = np.ones(4, np.float32)
    _, state = step(one, one)
    with pytest.raises(UsageError):
        step(state, one[:2])
    assert not state.is_deleted


UNSUPPORTED = {
    "devices": (
        ADD.replace("adds", "adds, num_partitions=4"),
        "multi-device",
        "4 devices .*1 replicas of 4 partitions",
    ),
    "unbounded": (
        "HloModule m\nENTRY e {\n  x = f32[?] parameter(0)\n  ROOT y = f32[?] negate(x)\n}\n",
        "unbounded",
        "without a bound",
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_programs(name):
    text, rule, message = UNSUPPORTED[name]
    with pytest.raises(HloError, match=message) as caught:
        hloom.compile(text)
    assert caught.value.rule == rule and caught.value.hint


def test_an_unknown_target():
    with pytest.raises(UsageError, match="no target 'tpu'"):
        hloom.compile(ADD, target="tpu")


def test_what_is_no_program():
    with pytest.raises(UsageError, match="a int is no program"):
        hloom.compile(3)  # type: ignore[arg-type]
    with pytest.raises(HloError):
        hloom.compile("HloModule broken\nENTRY main {\n")
    with pytest.raises(UsageError):
        hloom.compile("no_such_file.hlo")


def test_out_of_memory(adds):
    text = """HloModule large
ENTRY main {
  x = f32[] parameter(0)
  ROOT y = f32[1099511627776,64] broadcast(x), dimensions={}
}
"""
    large = hloom.compile(text)
    with pytest.raises(OutOfMemoryError, match="281,474,976,710,656 bytes") as caught:
        large(np.float32(1))
    assert "exe.memory" in (caught.value.hint or "")
    assert large.memory.outputs == 2**48
    assert adds(X, Y).numpy().tolist() == [11, 22, 34]


def test_memory_of_the_caller(adds):
    space = np.zeros(64, np.float32)
    base = space.ctypes.data + -space.ctypes.data % 64
    places = [base, base + 64, base + 128]
    first = (base - space.ctypes.data) // 4
    space[first : first + 3], space[first + 16 : first + 19] = X, Y
    adds.run_at(places[:2], places[2:])
    assert space[first + 32 : first + 35].tolist() == [11, 22, 34]
    for arguments, results, what in (
        ([base + 4, base + 64], [base + 128], "argument 0"),
        ([base, base + 64], [base + 129], "result 0"),
    ):
        with pytest.raises(UsageError, match=f"{what} stands at address") as caught:
            adds.run_at(arguments, results)
        assert caught.value.rule == "alignment" and "64 bytes" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="2 arrays as arguments, 1 addresses"):
        adds.run_at([base], [base])


@pytest.mark.parametrize("at", ["passes", "schedule", "buffers", "kernels", "machine code"])
def test_interrupted_compilation_leaves_everything_usable(at, monkeypatch):
    monkeypatch.setenv("HLOOM_CACHE", "0")
    module = hloom.load(ROOT / "examples" / "transformer_block.hlo")
    before = hloom.show(module)

    def interrupt(stage):
        if stage == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_module(module, progress=interrupt)
    assert hloom.show(module) == before
    arguments = hloom.random_arguments(module)
    found = compile_module(module)(*arguments)
    np.testing.assert_allclose(
        np.asarray(found), hloom.evaluate(module, *arguments).array, rtol=2e-4, atol=2e-4
    )


def test_executables_give_their_memory_back(adds):
    from hloom.runtime.native import library

    def in_use():
        gc.collect()
        import ctypes

        numbers = (ctypes.c_int64 * 8)()
        library().hl_arena_statistics(None, numbers)
        return numbers[0]

    adds(X, Y)
    before = in_use()
    for _ in range(100):
        adds(X, Y)
    assert in_use() == before


# -- the alarm (CPU-21)


def test_alarm_says_what_is_slow():
    said = []
    title = "Compiling module step for CPU"
    with slow_alarm(title, 0.05, lambda: "in passes", write=said.append, occurrences=Occurrences()):
        time.sleep(0.2)
    assert len(said) == 2 and "Very slow compile" in said[0] and "in passes" in said[0]
    assert all(text.startswith(f"[{title}]") for text in said) and "took 0." in said[1]


def test_a_fast_compilation_says_nothing():
    said = []
    with slow_alarm("m", 5, str, write=said.append, occurrences=Occurrences()):
        pass
    assert said == []


def test_alarms_are_written_at_powers_of_two():
    counter = Occurrences()
    assert [n for n in range(1, 9) if counter.next_is_shown()] == [1, 2, 4, 8]


def test_the_option_sets_the_alarm(monkeypatch, caplog):
    monkeypatch.setenv("HLOOM_CACHE", "0")
    monkeypatch.setattr("hloom.base.alarm.SLOW_COMPILES._count", 0)
    with caplog.at_level(logging.WARNING, "hloom"):
        compile_module(
            hloom.parse(ADD),
            options=hloom.Options({"slow_compile_alarm_seconds": 0.1}),
            progress=lambda stage: time.sleep(0.3 if stage == "passes" else 0),
        )
    assert "[Compiling module adds for CPU]" in caplog.text and "in passes" in caplog.text
