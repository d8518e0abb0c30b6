"""Kernels run in numpy: what ops mean, and every wrong access is found."""

from typing import Any

import numpy as np
import pytest

from hloom.base.diagnostics import EvalError
from hloom.interp.kernel import run_kernel
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import Value
from hloom.kernel.text import parse_kernel
from hloom.kernel.verify import verify_kernel
from hloom.types.dtype import ARRAY_TYPES, BF16, F32, PRED, S8, S32, S64, DType

Array = np.ndarray[Any, Any]


def computed(build, inputs: list[Array], dtype: DType, shape: tuple[int, ...]) -> Array:
    """What a kernel of one step without a grid makes of whole tiles: build(b, *tiles)."""
    from hloom.types.dtype import from_numpy

    b = KernelBuilder("test")
    params = [b.param(f"p{k}", from_numpy(x.dtype), x.size, "in") for k, x in enumerate(inputs)]
    out = b.param("out", dtype, int(np.prod(shape)), "out")
    tiles = [load(b, p, x.shape) for p, x in zip(params, inputs)]
    b.store(out, b.index(0), build(b, *tiles), row_major(shape))
    kernel = b.finish()
    verify_kernel(kernel)
    result = np.zeros(int(np.prod(shape)), dtype.numpy)
    run_kernel(kernel, [x.reshape(-1) for x in inputs] + [result], races=True)
    return result.reshape(shape)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[k + 1 :])) for k in range(len(shape)))


def load(b: KernelBuilder, buffer: Value, shape: tuple[int, ...]) -> Value:
    return b.load(buffer, b.index(0), shape, row_major(shape))


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) * 0.75 - 5


def test_shapes():
    x = X
    cases = [
        (lambda b, t: b.transpose(t, (2, 0, 1)), x.transpose(2, 0, 1)),
        (lambda b, t: b.reshape(t, (4, 6)), x.reshape(4, 6)),
        (lambda b, t: b.slice(t, 1, 1, 2), x[:, 1:3]),
        (lambda b, t: b.concatenate([t, b.slice(t, 2, 0, 3)], 2),
         np.concatenate([x, x[..., :3]], 2)),
        (lambda b, t: b.broadcast(b.slice(t, 1, 2, 1), (5, 2, 3, 4)),
         np.broadcast_to(x[:, 2:], (5, 2, 3, 4))),
        (lambda b, t: b.reduce(t, 1, "add"), x.sum(1)),
        (lambda b, t: b.reduce(t, 2, "minimum"), x.min(2)),
        (lambda b, t: b.scan(t, 1, "add"), np.cumsum(x, 1)),
        (lambda b, t: b.scan(t, 2, "maximum", True),
         np.maximum.accumulate(x[..., ::-1], 2)[..., ::-1]),
    ]  # fmt: skip
    for build, wanted in cases:
        made = computed(build, [x], F32, wanted.shape)
        np.testing.assert_array_equal(made, wanted)


def test_dot_and_fma():
    a = np.arange(12, dtype=np.int8).reshape(3, 4) * 11
    c = np.arange(20, dtype=np.int8).reshape(4, 5) - 9
    acc = np.arange(15, dtype=np.int32).reshape(3, 5)
    made = computed(lambda b, *t: b.dot(*t), [acc, a, c], S32, (3, 5))
    np.testing.assert_array_equal(made, acc + a.astype(np.int32) @ c.astype(np.int32))
    x = X.reshape(-1)
    made = computed(lambda b, t: b.fma(t, t, t), [x], F32, (24,))
    np.testing.assert_array_equal(made, x * x + x)


@pytest.mark.parametrize("dtype", [t for t in ARRAY_TYPES if t.name != "s1"], ids=str)
def test_constants_and_converts_of_every_type(dtype: DType):
    x = np.array([0, 1, 1, 0, 1], np.float32)

    def build(b: KernelBuilder, t: Value) -> Value:
        one = b.constant(dtype, 1, (5,))
        return b.convert(b.select(b.compare("EQ", b.convert(t, dtype), one), one, one), F32)

    np.testing.assert_array_equal(computed(build, [x], F32, (5,)), np.ones(5))
    if dtype.is_floating and dtype.has_negative_zero:
        made = computed(lambda b, t: b.constant(dtype, -0.0, (3,)), [x], dtype, (3,))
        assert np.signbit(made.astype(np.float32)).all()


def test_each_op_rounds_to_its_type():
    x = np.array([1.0], BF16.numpy)

    def build(b: KernelBuilder, t: Value) -> Value:
        small = b.constant(BF16, 2.0**-9, (1,))
        return b.binary("subtract", b.binary("add", t, small), t)

    assert computed(build, [x], BF16, (1,))[0] == 0


def kernel_of(body: str, params: str = "%x: buffer<f32>[8] in, %y: buffer<f32>[8] inout") -> Any:
    kernel = parse_kernel(f"kernel @k({params}) grid(%i: 4) {{\n{body}\n}}")
    verify_kernel(kernel)
    return kernel


LOOPS = """
%one = constant 1 : s64[]
%zero = constant 0 : s64[]
%start = constant 0.0 : f32[]
%count, %sum = for %k = %zero to %i step 1 (%n = %zero, %s = %start) : s64[], f32[] {
  %x1 = load %x[%k] : f32[]
  %s1 = add %s, %x1 : f32[]
  %n1 = add %n, %one : s64[]
  yield %n1, %s1
}
%twice = while (%w = %count) : s64[] {
  %odd = and %w, %one : s64[]
  %more = compare %odd, %one direction(EQ) : pred[]
  yield %more
} do (%v) {
  %v1 = add %v, %one : s64[]
  yield %v1
}
%large = compare %i, %one direction(GT) : pred[]
%r = if %large : f32[] {
  %t = convert %twice : f32[]
  %t1 = add %t, %sum : f32[]
  yield %t1
} else {
  %c = constant -1.0 : f32[]
  store %y[%i], %c
  yield %sum
}
%four = constant 4 : s64[]
%at = add %i, %four : s64[]
store %y[%at], %r
"""


def test_loops_part_by_step():
    x = np.arange(1, 9, dtype=np.float32)
    y = np.zeros(8, np.float32)
    run_kernel(kernel_of(LOOPS), [x, y], races=True)
    np.testing.assert_array_equal(y, [-1, -1, 0, 0, 0, 1, 2 + 3, 4 + 6])
    only = np.zeros(8, np.float32)
    run_kernel(kernel_of(LOOPS), [x, only], steps=[3, 0])
    np.testing.assert_array_equal(only, [-1, 0, 0, 0, 0, 0, 0, 10])


WRONG = [
    ("%o = constant 5 : s64[];%t = load %x[%o] strides(1) : f32[4]",
     "element 8 of %x, which has 8", "bounds"),
    ("%o = constant -1 : s64[];%t = load %x[%o] strides(1) : f32[4]",
     "element -1 of %x", "bounds"),
    ("%t = constant 1.0 : f32[];%o = constant 0 : s64[];store %y[%o], %t",
     "writes element 0 of %y, which step 3 writes", "race"),
    ("%t = load %y[%i] strides(1) : f32[2];%u = slice %t axis(0) start(0) size(1) : f32[1];"
     "store %y[%i], %u strides(1)", "writes element 1 of %y, which another step read", "race"),
    ("%a = alloc size(3) : buffer<f32>;%o = constant 2 : s64[];%t = load %a[%o] : f32[]",
     "element 2 of the scratch buffer is read before", "unwritten"),
    ("%b = constant true : pred[];while {;yield %b;} do {;}",
     "more than 1000000 iterations", "loop-limit"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message", "rule"), WRONG)
def test_wrong_accesses_are_found(body: str, message: str, rule: str, monkeypatch):
    if rule == "loop-limit":
        monkeypatch.setattr("hloom.interp.kernel.MOST_ITERATIONS", 100)
    with pytest.raises(EvalError) as caught:
        buffers = [np.zeros(8, np.float32) for _ in range(2)]
        run_kernel(kernel_of(body.replace(";", "\n")), buffers, races=True)
    assert message in caught.value.message
    assert caught.value.rule == f"kernel-{rule}"
    assert caught.value.location is not None
    assert caught.value.location.line is not None
    assert "in step" in caught.value.message


def test_masks_keep_accesses_inside():
    body = """
    %n = constant 8 : s64[4]
    %three = constant 3 : s64[]
    %o = multiply %i, %three : s64[]
    %wide = broadcast %o : s64[4]
    %k = iota axis(0) : s64[4]
    %places = add %k, %wide : s64[4]
    %in = compare %places, %n direction(LT) : pred[4]
    %other = constant -5.0 : f32[4]
    %t = load %x[%o] mask(%in) other(%other) strides(1) : f32[4]
    %g = gather %x[%places] mask(%in) other(%other) : f32[4]
    %s = add %t, %g : f32[4]
    %last = slice %s axis(0) start(2) size(1) : f32[1]
    store %y[%i], %last strides(1)
    """
    x = np.arange(8, dtype=np.float32)
    y = np.zeros(8, np.float32)
    run_kernel(kernel_of(body), [x, y], races=True)
    np.testing.assert_array_equal(y[:4], [4, 10, -10, -10])


def test_the_last_lane_of_a_scatter_wins():
    body = """
    %p = constant 0 : s32[3]
    %wide = convert %i : s32[]
    %at = broadcast %wide : s32[3]
    %t = iota axis(0) : f32[3]
    scatter %y[%at], %t
    """
    y = np.full(8, -1, np.float32)
    run_kernel(kernel_of(body), [y.copy(), y])
    np.testing.assert_array_equal(y, [2, 2, 2, 2, -1, -1, -1, -1])


def test_buffers_must_fit():
    kernel = kernel_of("%t = load %x[%i] : f32[]\nstore %y[%i], %t")
    good = np.zeros(8, np.float32)
    for bad in (np.zeros(7, np.float32), np.zeros(8), np.zeros((2, 4), np.float32)):
        with pytest.raises(EvalError, match="needs 8 elements of f32"):
            run_kernel(kernel, [good, bad])
    with pytest.raises(EvalError, match="takes 2 buffers, not 1"):
        run_kernel(kernel, [good])
    with pytest.raises(EvalError, match="has 4 steps"):
        run_kernel(kernel, [good, good], steps=[4])


def test_one_array_for_two_parameters_is_one_memory():
    shifted = """
    %one = constant 1 : s64[]
    %o = add %i, %one : s64[]
    %t = load %x[%o] : f32[]
    store %y[%i], %t
    """
    x = np.arange(8, dtype=np.float32)
    run_kernel(kernel_of(shifted), [x, np.zeros(8, np.float32)], races=True)
    with pytest.raises(EvalError, match="kernel-race"):
        run_kernel(kernel_of(shifted), [x, x], races=True)


def test_a_million_elements_take_a_moment():
    b = KernelBuilder("big", (1 << 14,))
    x, y = b.param("x", F32, 1 << 20, "in"), b.param("y", F32, 1 << 20, "out")
    at = b.binary("multiply", b.grid_indices[0], b.index(64))
    t = b.load(x, at, (64,), (1,))
    b.store(y, at, b.binary("add", b.unary("tanh", t), t), (1,))
    data = np.linspace(-3, 3, 1 << 20).astype(np.float32)
    made = np.zeros_like(data)
    run_kernel(b.finish(), [data, made], races=True)
    np.testing.assert_allclose(made, np.tanh(data) + data, rtol=1e-6)


def test_types_of_words():
    x = np.array([True, False, True])
    made = computed(lambda b, t: b.binary("xor", t, b.constant(PRED, True, (3,))), [x], PRED, (3,))
    np.testing.assert_array_equal(made, [False, True, False])
    y = np.array([100, -100], np.int8)
    made = computed(lambda b, t: b.reduce(b.binary("add", t, t), 0, "add"), [y], S8, ())
    assert made == 0
    assert computed(lambda b, t: b.iota(S64, (2, 3), 1), [y], S64, (2, 3))[1, 2] == 2
