"""`hloom.compile`: what it takes, what an executable tells, and every wrong use of it."""

import threading

import ml_dtypes
import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError, UsageError
from hloom.compiler import compile_module
from hloom.targets.target import target_kind
from tests.docs.pages import ROOT
from tests.small_programs import ADD, NESTED, STEP, X, Y

LOGS = """HloModule logs
ENTRY main {
  x = bf16[4] parameter(0)
  y = bf16[4] add(x, x)
  z = bf16[4] multiply(y, x)
  ROOT r = bf16[4] log(z)
}
"""


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


def test_arrays_of_a_donated_buffer_stay_what_they_are(step):
    one = np.ones(4, np.float32)
    _, state = step(one, one)
    seen, address = np.asarray(state), state.address
    _, after = step(state, one)
    assert state.is_deleted and after.address != address
    assert seen.tolist() == [2] * 4 and after.numpy().tolist() == [3] * 4
    del seen
    _, last = step(after, one)
    assert last.numpy().tolist() == [4] * 4


def test_a_buffer_that_another_thread_reads_is_not_written(step):
    """Donated by one thread while another runs on it: each gets what stood in it."""
    many = hloom.compile(ADD.replace("f32[3]", "f32[200000]"), threads=1)
    grow = hloom.compile(
        ADD.replace("f32[3]", "f32[200000]").replace(
            "adds", "grows, input_output_alias={ {}: (0, {}, may-alias) }"
        ),
        threads=1,
    )
    ones = np.ones(200000, np.float32)
    for _ in range(20):
        shared = many(ones, ones)
        started = threading.Barrier(2)
        found = []

        def read(shared=shared, started=started, found=found):
            started.wait()
            try:
                found.append(many(shared, shared).numpy())
            except UsageError:  # it was donated first
                found.append(4 * ones)

        reader = threading.Thread(target=read)
        reader.start()
        started.wait()
        grown = grow(shared, ones)
        reader.join()
        assert (found[0] == 4).all() and (grown.numpy() == 3).all()


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
        "kernels": "kernel @k_adds_sum",
        "llvm": "define void @k_adds_sum(ptr",
        "assembly": "k_adds_sum:",
        "thunks": "Kernel   sum @k_adds_sum",
        "graph": 'digraph "adds"',
    }
    assert tuple(marks) == target_kind("cpu").stages
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
    assert memory.largest(3)[0].slice.size_bytes >= memory.largest(3)[2].slice.size_bytes > 0


def test_times_of_stages_and_passes():
    told = []
    run = compile_module(hloom.parse(ADD), progress=told.append)
    assert told[-1] == "load" and set(told) == set(run.seconds)
    assert all(seconds >= 0 for seconds in run.seconds.values())
    assert {"algsimp", "fusion", "dce"} <= {r.name for r in run.pass_records}


# -- options


def test_an_option_without_effect_is_warned_of():
    with pytest.warns(UserWarning, match="gpu_cudnn_gemm_max_plans does nothing"):
        hloom.compile(ADD, options={"xla_gpu_cudnn_gemm_max_plans": 1})


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
