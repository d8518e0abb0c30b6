"""Wrong use of executables: one clear error each, and everything works afterwards."""

import gc

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError, UsageError
from hloom.compiler import compile_module
from hloom.runtime.buffer import OutOfMemoryError
from tests.docs.pages import ROOT
from tests.small_programs import ADD, NESTED, STEP, X, Y


@pytest.fixture(scope="module")
def adds():
    return hloom.compile(ADD)


@pytest.fixture(scope="module")
def step():
    return hloom.compile(STEP)


class Unreadable:
    """An array that fails without a word."""

    def __array__(self, *_: object, **__: object):
        raise ValueError


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
    "donation of text": (lambda f: f(X, Y, donate="x"), "donation", "donate='x'"),
    "donation of half": (lambda f: f(X, Y, donate=1.5), "donation", "donate=1.5"),
    "donation of none": (lambda f: f(X, Y, donate=[0, None]), "donation", "donate=None"),
    "byte order": (lambda f: f(X, Y.astype(">f4")), "argument-type", "float32 in the byte order"),
    "empty message": (lambda f: f(X, Unreadable()), "argument-type", "ValueError"),
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


@pytest.mark.parametrize(
    ("dtype", "number", "fits"),
    [
        ("s32", 2, True),
        ("s32", True, True),
        ("s32", 2.0, False),
        ("s32", np.float64(2.7), False),
        ("s32", float("nan"), False),
        ("s32", 1j, False),
        ("s32", 2**31, False),
        ("s4", 8, False),
        ("u64", 2**64 - 1, True),
        ("u64", -1, False),
        ("s64", 10**30, False),
        ("pred", True, True),
        ("pred", 2, False),
        ("f32", 3, True),
        ("f32", False, True),
        ("f32", 0.1, True),
        ("bf16", np.float64(0.5), True),
        ("f64", 10**400, False),
        ("f32", 1j, False),
        ("c64", 1 + 2j, True),
    ],
)
def test_numbers_of_python(dtype, number, fits):
    """A number is taken if the parameter's type can hold it; none is cut to fit."""
    same = compile_module(
        hloom.parse(
            f"HloModule same\nENTRY e {{\n  x = {dtype}[] parameter(0)\n"
            f"  ROOT y = {dtype}[] copy(x)\n}}\n"
        )
    )
    if fits:
        found = same(number).numpy()
        assert found == found.dtype.type(number)
        return
    with pytest.raises(UsageError, match="argument 0 is the") as caught:
        same(number)
    assert caught.value.rule == "argument-type"


@pytest.mark.parametrize("threads", [0, -1, 1025, 10**30, 2.0, "2", True])
def test_wrong_numbers_of_threads(threads):
    with pytest.raises(UsageError, match="no number of threads") as caught:
        hloom.compile(ADD, threads=threads)
    assert caught.value.rule == "threads" and "1 to 1024" in (caught.value.hint or "")


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


def test_a_program_for_several_devices_called_as_for_one():
    step = hloom.compile(
        "HloModule m, num_partitions=4\nENTRY e {\n  ROOT p = u32[] partition-id()\n}\n"
    )
    with pytest.raises(UsageError, match=r"4 devices .*1 replicas of 4 partitions") as caught:
        step()
    assert caught.value.rule == "device-count" and "run_devices" in (caught.value.hint or "")
    assert [int(np.asarray(x)) for x in step.run_devices([[]] * 4)] == [0, 1, 2, 3]


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
    with pytest.raises(UsageError, match="argument 1 has the address 0"):
        adds.run_at([base, 0], [base + 128])


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


@pytest.mark.parametrize("use", [hloom.verify, hloom.random_arguments, hloom.evaluate])
@pytest.mark.parametrize("wrong", [ADD, "no such file.hlo", 3, None])
def test_what_takes_a_module_says_so(use, wrong):
    with pytest.raises(UsageError, match=f"{use.__name__} takes a module, not") as error:
        use(wrong)
    assert "hloom.load(path)" in str(error.value)
