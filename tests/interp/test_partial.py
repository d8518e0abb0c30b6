"""Partial evaluation: known values, substitutions, parameters from the one caller."""

import numpy as np
import pytest

from hloom.base.diagnostics import EvalError
from hloom.interp import evaluate_partially
from hloom.ir.text import parse_module

SUM = """HloModule m
ENTRY e {
  p = f32[2] parameter(0)
  q = f32[2] parameter(1)
  z = f32[] constant(0)
  zs = f32[2] broadcast(z), dimensions={}
  m = f32[2] multiply(q, zs)
  ROOT r = f32[2] add(p, m)
}"""
P = np.float32([1, 2])


def test_an_unknown_operand_is_an_error_and_no_guess():
    e = parse_module(SUM).entry
    with pytest.raises(EvalError) as caught:
        evaluate_partially(e["r"], {e["p"]: P})
    assert caught.value.instruction == "%q"
    assert "not known" in caught.value.message


def test_a_substituted_operand_is_enough():
    e = parse_module(SUM).entry
    expected = [1, 2]
    for substitution in ({e["q"]: np.float32([5, 6])}, {e["q"]: e["p"]}, {e["m"]: e["zs"]}):
        result = evaluate_partially(e["r"], {e["p"]: P}, substitution)
        assert np.array_equal(result.array, expected)


def test_a_known_value_of_another_shape_is_an_error():
    e = parse_module(SUM).entry
    with pytest.raises(EvalError, match=r"the value of %p has shape f32.2., but f32.3."):
        evaluate_partially(e["p"], {e["p"]: np.zeros(3, np.float32)})


def test_unknown_elements_of_a_tuple_do_not_hide_the_others():
    module = parse_module("""HloModule m
    f { t = (s32[], s32[]) parameter(0)
      ROOT g = s32[] get-tuple-element(t), index=0 }
    ENTRY e { u = s32[] parameter(0)
      c = s32[] constant(7)
      t = (s32[], s32[]) tuple(c, u)
      b = (s32[], s32[]) opt-barrier(t)
      g = s32[] get-tuple-element(b), index=0
      n = (s32[], (s32[], s32[])) tuple(u, b)
      h = (s32[], s32[]) get-tuple-element(n), index=1
      i = s32[] get-tuple-element(h), index=0
      j = s32[] get-tuple-element(h), index=1
      s = s32[] add(g, i)
      ROOT r = s32[] call(b), to_apply=f }""")
    e = module.entry
    assert evaluate_partially(e["s"]).first() == 14
    assert evaluate_partially(module["f"]["g"]).first() == 7
    with pytest.raises(EvalError, match="%u"):
        evaluate_partially(e["j"])


CALLS = """HloModule m
f {{ x = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT r = s32[] add(x, one) }}
ENTRY e {{ a = s32[] constant(120)
  b = s32[] constant(53)
  c = s32[] call(a), to_apply=f
  d = s32[] call({second}), to_apply=f
  ROOT s = s32[] add(c, d) }}"""


def test_a_parameter_is_taken_from_the_only_caller():
    module = parse_module(
        CALLS.format(second="b")
        .replace("d = s32[] call(b), to_apply=f", "")
        .replace("add(c, d)", "add(c, b)")
    )
    assert evaluate_partially(module["f"]["r"]).first() == 121
    with pytest.raises(EvalError, match="2 callers share computation %f"):
        evaluate_partially(parse_module(CALLS.format(second="b"))["f"]["r"])


def test_parameters_of_branches_are_known_and_of_loops_are_not():
    module = parse_module("""HloModule m
    b0 { x = s32[] parameter(0)
      ROOT r = s32[] negate(x) }
    b1 { x = s32[] parameter(0)
      ROOT r = s32[] add(x, x) }
    body { x = s32[] parameter(0)
      ROOT r = s32[] add(x, x) }
    cond { x = s32[] parameter(0)
      k = s32[] constant(100)
      ROOT r = pred[] compare(x, k), direction=LT }
    ENTRY e { p = pred[] parameter(0)
      a = s32[] constant(4)
      b = s32[] constant(5)
      c = s32[] conditional(p, a, b), true_computation=b0, false_computation=b1
      ROOT w = s32[] while(b), condition=cond, body=body }""")
    assert evaluate_partially(module["b0"]["r"]).first() == -4
    assert evaluate_partially(module["b1"]["r"]).first() == 10
    with pytest.raises(EvalError, match="while %w may call"):
        evaluate_partially(module["body"]["r"])
    assert evaluate_partially(module.entry["w"]).first() == 160


def test_what_comes_from_outside_is_never_known():
    module = parse_module("""HloModule m
    f { a = f32[] parameter(0)
      ROOT r = f32[2] rng(a, a), distribution=rng_uniform }
    ENTRY e { a = f32[] constant(0)
      id = u32[] partition-id()
      ROOT r = f32[2] call(a), to_apply=f }""")
    with pytest.raises(EvalError, match="partition-id is not known"):
        evaluate_partially(module.entry["id"])
    with pytest.raises(EvalError, match="rng inside %r is not known"):
        evaluate_partially(module.entry["r"])


def test_static_sizes_are_known_without_the_operand():
    module = parse_module("""HloModule m
    ENTRY e { a = f32[3,<=4] parameter(0)
      n = s32[] get-dimension-size(a), dimensions={0}
      ROOT d = s32[] get-dimension-size(a), dimensions={1} }""")
    with pytest.raises(EvalError, match="%a"):
        evaluate_partially(module.entry["d"])


def test_long_chains_need_no_python_stack():
    lines = "\n".join(f"x{k} = s32[] negate(x{k - 1})" for k in range(1, 5001))
    module = parse_module(
        f"HloModule m\nENTRY e {{ x0 = s32[] constant(3)\n{lines}\nROOT r = s32[] copy(x5000) }}"
    )
    assert evaluate_partially(module.entry["r"]).first() == 3
