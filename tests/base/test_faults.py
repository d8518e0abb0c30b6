"""Who is blamed for an exception, and which are the compiler's own."""

import pytest

from hloom.base.diagnostics import GraphError, HloError, UnsupportedError, UsageError
from hloom.base.faults import Culprit, Fault, blame, blamed, culprit_of, is_fault
from hloom.types.dtype import BY_NAME
from hloom.types.shape import shape, tuple_shape


def caught(call):
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_who_was_nearest_is_blamed():
    def fails():
        with blamed("step", "passes"), blamed("pass", "cse"):
            raise StopIteration

    error = caught(fails)
    assert type(error) is StopIteration
    assert culprit_of(error) == Culprit("pass", "cse")
    assert error.__notes__ == ["while hloom compiles: pass cse"]
    blame(error, Culprit("pass", "dce"))
    assert culprit_of(error) == Culprit("pass", "cse")


def test_the_cause_of_an_error_is_blamed_for_it():
    def generator():
        with blamed("kernel", "loops"):
            raise StopIteration
        yield

    error = caught(lambda: list(generator()))
    assert type(error) is RuntimeError  # what Python makes of it
    assert culprit_of(error) == Culprit("kernel", "loops")
    assert culprit_of(ValueError()) is None


def test_what_the_program_is_to_blame_for_is_no_fault():
    assert not is_fault(UnsupportedError("fft of f8"))
    assert not is_fault(UsageError("no such thing"))
    assert is_fault(GraphError("a cycle"))
    assert is_fault(HloError("no schedule"))
    assert all(is_fault(e()) for e in (StopIteration, MemoryError, RecursionError, AssertionError))


def test_a_fault_says_what_was_done():
    error = caught(lambda: {}["x"])
    fault = Fault.of(error, Culprit("kernel", "columns", "sum.3"), "loops wrote it")
    assert str(fault) == "kernel columns at sum.3: KeyError: 'x'; loops wrote it"
    assert "Traceback" in fault.traceback


def test_questions_that_values_cannot_answer_are_faults() -> None:
    with pytest.raises(UsageError, match="no element count") as error:
        _ = tuple_shape([shape(BY_NAME["f32"], (3,))]).size
    assert is_fault(error.value)
