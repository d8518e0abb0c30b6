"""Arguments in, results out: checks of arguments, order, freeing, depth, errors."""

import numpy as np
import pytest

from hloom.base.diagnostics import EvalError, VerifyError
from hloom.interp import EvalOptions, evaluate
from hloom.interp.context import DevicePosition, EvalContext
from hloom.interp.machine import SharedEvaluation
from hloom.interp.step_list import step_list
from hloom.interp.values import TOKEN
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.text import parse_module
from hloom.types.literal import Literal
from hloom.types.shape import shape, tuple_shape

F4 = np.arange(4, dtype=np.float32)
ADD2 = """HloModule m
ENTRY e {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  ROOT s = f32[4] add(a, b)
}"""


def entry(body: str) -> Module:
    return parse_module(f"HloModule m\nENTRY e {{\n{body}\n}}")


def test_arguments_may_be_arrays_literals_lists_and_numbers():
    module = parse_module(ADD2)
    expected = Literal.of(2 * F4, "f32[4]")
    for given in (F4, Literal.of(F4), [0.0, 1.0, 2.0, 3.0]):
        assert evaluate(module, given, F4) == expected
    assert evaluate(entry("a = s32[] parameter(0)\nROOT r = s32[] negate(a)"), 3).first() == -3


def test_a_computation_evaluates_alone():
    assert evaluate(parse_module(ADD2).entry, F4, F4) == Literal.of(2 * F4)


def test_wrong_number_of_arguments_says_both_numbers_and_the_name():
    with pytest.raises(EvalError) as caught:
        evaluate(parse_module(ADD2), F4)
    assert str(caught.value) == "module m takes 2 arguments, but 1 was given"


@pytest.mark.parametrize(
    ("given", "described"),
    [
        (F4[:3], "f32[3]"),
        (F4.astype(np.float64), "f64[4]"),
        (F4.astype(np.int32), "s32[4]"),
        ((F4,), "a tuple of 1"),
        (np.array(["a"]), "an array of numpy type <U1"),
        (None, "a NoneType"),
    ],
)
def test_a_wrong_argument_is_described(given, described):
    with pytest.raises(EvalError) as caught:
        evaluate(parse_module(ADD2), F4, given)
    assert str(caught.value) == (f"argument 1 (%b) has shape f32[4], but {described} was given")


@pytest.mark.parametrize("given", [2.5, float("nan"), 1j, [1.0, 2.5]])
def test_a_fraction_is_not_cut_to_an_integer(given):
    sizes = "[2]" if isinstance(given, list) else "[]"
    module = entry(f"x = s32{sizes} parameter(0)\nROOT r = s32{sizes} negate(x)")
    with pytest.raises(EvalError, match="which s32 does not hold"):
        evaluate(module, given)


def test_an_array_of_another_machine_says_so():
    with pytest.raises(EvalError, match=r"argument 1 .%b. has the byte order of another machine"):
        evaluate(parse_module(ADD2), F4, F4.astype(">f4"))


def test_tuples_nest_in_arguments_and_results():
    module = entry(
        """p = (f32[2], (s32[], f32[2])) parameter(0)
        q = (s32[], f32[2]) get-tuple-element(p), index=1
        x = f32[2] get-tuple-element(p), index=0
        ROOT r = ((s32[], f32[2]), f32[2]) tuple(q, x)"""
    )
    x, n, y = np.float32([1, 2]), np.int32(7), np.float32([3, 4])
    result = evaluate(module, (x, (n, y)))
    assert result.elements[0].elements[0].first() == 7
    assert np.array_equal(result.elements[1].array, x)
    with pytest.raises(EvalError, match="element 1 is a tuple of 2, but one of 1"):
        evaluate(module, (x, (n,)))


def test_results_are_copies_of_arguments():
    module = entry("ROOT a = f32[4] parameter(0)")
    mine = F4.copy()
    result = evaluate(module, mine)
    mine[0] = 100
    assert result.array[0] == 0
    assert mine.flags.writeable


def test_tokens_go_in_and_out():
    module = entry("t = token[] parameter(0)\nROOT u = token[] after-all(t, t)")
    assert evaluate(module, TOKEN).is_token
    assert evaluate(module, Literal.token()).is_token


def test_dynamic_dimensions_take_any_size_up_to_the_bound():
    module = entry("x = f32[<=5] parameter(0)\nROOT y = f32[<=5] negate(x)")
    result = evaluate(module, np.float32([1, 2, 3]))
    assert result.sizes == (3,)
    assert np.array_equal(result.array, np.float32([-1, -2, -3]))
    assert result.shape.dims == (5,)
    with pytest.raises(EvalError, match=r"f32\[<=5\], but f32\[6\]"):
        evaluate(module, np.zeros(6, np.float32))


def test_dead_code_is_not_run_but_side_effects_are():
    seen = []
    module = entry(
        """x = f32[2] parameter(0)
        dead = f32[2] custom-call(x), custom_call_target="nobody_knows"
        t = token[] after-all()
        o = token[] outfeed(x, t), outfeed_shape=f32[2]{0}
        ROOT y = f32[2] negate(x)"""
    )
    evaluate(module, np.float32([1, 2]), options=EvalOptions(outfeed=seen.append))
    assert len(seen) == 1 and np.array_equal(seen[0], [1, 2])


def test_values_are_freed_after_their_last_use():
    chain = "\n".join(f"x{k} = f32[4] negate(x{k - 1})" for k in range(1, 30))
    module = entry(f"x0 = f32[4] parameter(0)\n{chain}\nROOT r = f32[4] add(x29, x1)")
    plan = step_list(module.entry, 1 << 30)
    dead = {step.instruction.name: step.dead for step in plan.steps}
    slots = {step.instruction.name: step.slot for step in plan.steps}
    assert dead["x5"] == (slots["x4"],)
    assert dead["x2"] == ()  # x1 is read again by the root
    assert set(dead["r"]) == {slots["x29"], slots["x1"]}


def test_what_depends_on_constants_alone_is_computed_once():
    module = parse_module("""HloModule m
    body { n = s32[] parameter(0)
      one = s32[] constant(1)
      two = s32[] add(one, one)
      three = s32[] add(two, one)
      low = u32[] constant(1)
      r = u32[] rng(low, low), distribution=rng_uniform
      ROOT s = s32[] add(n, three) }
    condition { n = s32[] parameter(0)
      k = s32[] constant(10)
      ROOT c = pred[] compare(n, k), direction=LT }
    ENTRY e { n = s32[] parameter(0)
      ROOT w = s32[] while(n), condition=condition, body=body }""")
    f = context()
    body = module["body"]
    first, second = f.machine.step_list(body, f), f.machine.step_list(body, f)
    assert [s.instruction.name for s in first.steps] == ["two", "three", "r", "s"]
    assert [s.instruction.name for s in second.steps] == ["r", "s"]
    assert evaluate(module, 0).first() == 12


def test_deep_calls_need_no_python_stack():
    module = Module("deep")
    inner = module.add_computation("c0")
    x = inner.add("parameter", shape=shape("f32", (2,)), number=0)
    inner.root = inner.add("negate", x)
    for k in range(1, 5000):
        outer = module.add_computation(f"c{k}", entry=k == 4999)
        x = outer.add("parameter", shape=shape("f32", (2,)), number=0)
        outer.root = outer.add("call", x, called=(inner,))
        inner = outer
    assert np.array_equal(evaluate(module, np.float32([1, 2])).array, [-1, -2])
    with pytest.raises(EvalError, match="calls nest more than 100 deep"):
        evaluate(module, np.float32([1, 2]), options=EvalOptions(call_depth_limit=100))


def test_what_numpy_refuses_is_an_error_with_the_instruction():
    module = Module("wrong")
    c = module.add_computation("e", entry=True)
    x = c.add("parameter", shape=shape("f32", (2,)), number=0)
    y = c.add("parameter", shape=shape("f32", (3,)), number=1)
    c.root = c.append("add", OPS["add"].empty, (x, y), shape("f32", (2,)))
    with pytest.raises(EvalError) as caught:
        evaluate(module, np.zeros(2, np.float32), np.zeros(3, np.float32))
    assert caught.value.instruction == "%add"
    assert isinstance(caught.value.__cause__, ValueError)


def test_values_no_machine_can_hold_are_refused_before_they_are_made():
    module = entry("c = f32[] constant(1)\nROOT b = f32[1099511627776] broadcast(c), dimensions={}")
    with pytest.raises(EvalError, match=r"%b: f32.1099511627776. takes 4398046511104 bytes"):
        evaluate(module)


def test_a_module_without_entry_is_an_error():
    with pytest.raises(EvalError, match="module empty has no entry"):
        evaluate(Module("empty"))


def context() -> EvalContext:
    options = EvalOptions()
    return EvalContext(SharedEvaluation(options), options, DevicePosition())


def computation(body: str):
    return parse_module(f"HloModule m\nENTRY e {{\n{body}\n}}").entry


def test_vectorised_runs_elementwise_bodies_once():
    c = computation(
        """a = f32[] parameter(0)
        b = f32[] parameter(1)
        two = f32[] constant(2)
        t = f32[] multiply(a, two)
        p = pred[] compare(t, b), direction=LT
        s = f32[] select(p, t, b)
        ROOT r = (f32[], pred[], f32[]) tuple(s, p, two)"""
    )
    f = context()
    a, b = np.float32([[1, 2, 3]]), np.float32([[4, 1, 6]])
    low, less, two = f.vectorised(c, a, b)
    assert np.array_equal(low, [[2, 1, 6]])
    assert np.array_equal(less, [[True, False, False]])
    assert np.array_equal(two, [[2, 2, 2]])
    assert f.machine.vector_step_lists[c] is not None


def test_vectorised_falls_back_to_one_call_per_element():
    module = parse_module("""HloModule m
    body { n = s32[] parameter(0)
      one = s32[] constant(1)
      ROOT r = s32[] add(n, one) }
    condition { n = s32[] parameter(0)
      ten = s32[] constant(10)
      ROOT r = pred[] compare(n, ten), direction=LT }
    ENTRY e { a = s32[] parameter(0)
      ROOT w = s32[] while(a), condition=condition, body=body }""")
    f = context()
    result = f.vectorised(module.entry, np.int32([[3, 20], [-5, 10]]))
    assert np.array_equal(result, [[10, 20], [10, 10]]) and result.dtype == np.int32
    assert f.machine.vector_step_lists[module.entry] is None


def test_vectorised_conditionals_choose_by_element():
    module = parse_module("""HloModule m
    up { a = f32[] parameter(0)
      ROOT r = f32[] exponential(a) }
    down { a = f32[] parameter(0)
      ROOT r = f32[] negate(a) }
    ENTRY e { p = s32[] parameter(0)
      a = f32[] parameter(1)
      ROOT r = f32[] conditional(p, a, a, a), branch_computations={down, up, down} }""")
    f = context()
    result = f.vectorised(module.entry, np.int32([0, 1, 2, 5, -1]), np.zeros(5, np.float32) + 0)
    assert np.array_equal(result, [0, 1, 0, 0, 0])
    assert f.machine.vector_step_lists[module.entry] is not None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ROOT r = f32[] add(a, b)", "add"),
        ("ROOT r = f32[] maximum(b, a)", "maximum"),
        ("ROOT r = f32[] subtract(a, b)", None),
        ("ROOT r = f32[] add(a, a)", None),
        ("c = f32[] negate(b)\nROOT r = f32[] add(a, c)", None),
    ],
)
def test_known_combiner(body, expected):
    c = computation(f"a = f32[] parameter(0)\nb = f32[] parameter(1)\n{body}")
    assert context().known_combiner(c) == expected


def test_nested_combiners_have_a_limit():
    module = Module("nested")
    inner = module.add_computation("c0")
    x = inner.add("parameter", shape=shape("f32"), number=0)
    inner.root = inner.add("negate", x)
    for k in range(1, 200):
        outer = module.add_computation(f"c{k}", entry=k == 199)
        x = outer.add("parameter", shape=shape("f32"), number=0)
        t = outer.add("tuple", x)
        g = outer.add("get-tuple-element", t, index=0)
        outer.root = outer.add("map", g, called=(inner,), shape=shape("f32"), dimensions=())
        inner = outer
    try:
        result = evaluate(module, np.float32(2))
    except EvalError as error:
        assert "more than" in str(error)
    else:
        assert result.first() == -2


def test_a_result_of_another_shape_is_an_error():
    module = Module("wrong")
    c = module.add_computation("e", entry=True)
    x = c.add("parameter", shape=shape("f32", (2,)), number=0)
    c.root = c.append("negate", OPS["negate"].empty, (x,), tuple_shape([x.shape]))
    with pytest.raises(EvalError):
        evaluate(module, np.zeros(2, np.float32))


def test_tuples_nested_beyond_reason_are_an_error():
    module = Module("deep")
    c = module.add_computation("e", entry=True)
    x = c.add("parameter", shape=shape("f32"), number=0)
    for _ in range(5000):
        x = c.add("tuple", x)
    c.root = x
    with pytest.raises(EvalError, match="nest too deep"):
        evaluate(module, 1.0)


def test_a_broken_module_of_mixed_floats_is_an_error_of_the_verifier():
    module = parse_module("""HloModule m
    f { a = f32[] parameter(0)
      ROOT n = f32[] negate(a) }
    g { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT n = f32[] add(a, b) }
    ENTRY e { x = bf16[4] parameter(0)
      ROOT r = f32[4] all-reduce(x), replica_groups={}, to_apply=g }""")
    module.entry.root.set_called((next(iter(module.computations)),))
    with pytest.raises(VerifyError, match="takes an element of two devices, not 1"):
        evaluate(module, np.ones(4, np.float32))
