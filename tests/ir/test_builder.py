"""The builder: typed from the declarations, sub-computations shared or copied."""

import numpy as np
import pytest

from hloom.base.diagnostics import UsageError
from hloom.interp import evaluate
from hloom.ir.builder import Builder
from hloom.ir.op import OPS
from hloom.ir.stub import TARGET, method_name, stub_text
from hloom.ir.text import parse_module, show_module


def test_stub_is_up_to_date():
    assert TARGET.read_text() == stub_text(), "run `make stub`"


def test_every_operation_is_a_method():
    b = Builder()
    for opcode in OPS:
        assert callable(getattr(b, method_name(opcode)))
    with pytest.raises(AttributeError):
        b.no_such_operation  # noqa: B018


def test_a_program_is_built_printed_and_evaluated():
    b = Builder("norm")
    x = b.parameter("f32[2,3]", name="x")
    total = b.reduce(x, b.constant(0.0, "f32[]"), dimensions=(1,), to_apply=b.scalar("add", "f32"))
    wide = b.broadcast(total, dimensions=(0,), shape="f32[2,3]")
    module = b.build(b.divide(x, wide))
    value = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    result = evaluate(module, value)
    np.testing.assert_allclose(result.array, value / value.sum(1, keepdims=True), rtol=1e-6)
    assert show_module(parse_module(show_module(module))) == show_module(module)


def three_calls(share: bool):
    b = Builder("calls")
    inner = b.computation("double")
    y = inner.parameter("f32[2]")
    double = inner.finish(inner.add(y, y))
    x = b.parameter("f32[2]")
    for _ in range(3):
        x = b.call(x, to_apply=double if share else b.copy_of(double), shape="f32[2]")
    return b.build(x), double


def test_one_sub_computation_for_three_callers():
    module, double = three_calls(share=True)
    assert len(double.callers) == 3
    assert len(module.computations) == 2


def test_copies_make_three():
    module, double = three_calls(share=False)
    callees = {c for i in module.entry for c in i.called}
    assert len(callees) == 3 and not double.callers
    np.testing.assert_array_equal(
        evaluate(module, np.ones(2, np.float32)).array, np.full(2, 8, np.float32)
    )


def test_an_embedded_computation_becomes_stand_alone():
    _, double = three_calls(share=True)
    module = Builder.stand_alone(double)
    np.testing.assert_array_equal(evaluate(module, np.float32([1, 2])).array, np.float32([2, 4]))


def test_loops_and_conditionals():
    b = Builder("loop")
    cond = b.computation("cond")
    s = cond.parameter("(s32[], f32[])")
    below = cond.compare(
        cond.get_tuple_element(s, index=0), cond.constant(4, "s32[]"), direction="LT"
    )
    body = b.computation("body")
    t = body.parameter("(s32[], f32[])")
    count = body.add(body.get_tuple_element(t, index=0), body.constant(1, "s32[]"))
    value = body.get_tuple_element(t, index=1)
    step = body.finish(body.tuple(count, body.multiply(value, value)))
    x = b.parameter("f32[]")
    state = b.tuple(b.constant(0, "s32[]"), x)
    out = b.while_(state, condition=cond.finish(below), body=step)
    module = b.build(b.get_tuple_element(out, index=1))
    assert evaluate(module, np.float32(2)).array == 2**16


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda b, x: b.add(x), "2 operands"),
        (lambda b, x: b.add(x, b.parameter("f32[3]")), "f32"),
        (lambda b, x: b.add(x, x, speed=1), "no attribute 'speed'"),
        (lambda b, x: b.transpose(x, dimensions=(0, 0)), "transpose"),
        (lambda b, x: b.iota(shape="s32[4]"), "needs the attribute iota_dimension"),
        (lambda b, x: b.add(x, 3), "operand 1 is int"),
        (lambda b, x: b.add(x, Builder().parameter("f32[2]")), "another computation"),
        (lambda b, x: b.emit("frobnicate", x), "no operation named 'frobnicate'"),
        (lambda b, x: b.reshape(x, shape="f32[3]"), "reshape"),
        (lambda b, x: b.reshape(x), "give it"),
        (lambda b, x: b.call(x, to_apply=Builder().scalar("add", "f32")), "another module"),
    ],
)
def test_wrong_uses_are_named(wrong, message):
    b = Builder()
    x = b.parameter("f32[2]")
    with pytest.raises(UsageError, match=message):
        wrong(b, x)
