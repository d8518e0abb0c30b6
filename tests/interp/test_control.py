"""Control flow, order, async halves, host queues."""

import numpy as np
import pytest

from hloom.base.diagnostics import EvalError
from hloom.interp import EvalOptions, evaluate
from hloom.ir.text import parse_module
from hloom.types.literal import Literal
from tests.processor_time import at_most

COUNT = """HloModule m
body {{ n = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT r = s32[] add(n, one) }}
condition {{ n = s32[] parameter(0)
  ROOT r = pred[] {condition} }}
ENTRY e {{ a = s32[] parameter(0)
  ROOT w = s32[] while(a), condition=condition, body=body }}"""


def test_while_runs_until_its_condition_fails():
    condition = "compare(n, k), direction=LT"
    module = parse_module(
        COUNT.format(condition=condition).replace(
            "ROOT r = pred", "k = s32[] constant(5)\nROOT r = pred"
        )
    )
    assert evaluate(module, 0).first() == 5
    assert evaluate(module, 9).first() == 9
    assert evaluate(module, 0, options=EvalOptions(while_iteration_limit=5)).first() == 5
    with pytest.raises(EvalError, match="did not end within 4 iterations"):
        evaluate(module, 0, options=EvalOptions(while_iteration_limit=4))


def test_a_while_that_never_ends_stops_at_the_guard():
    module = parse_module(COUNT.format(condition="constant(true)"))
    with pytest.raises(EvalError) as caught:
        evaluate(module, 0, options=EvalOptions(while_iteration_limit=1000))
    assert caught.value.instruction == "%w"
    assert "1000 iterations" in caught.value.message


def test_loops_are_fast():
    module = parse_module(
        """HloModule m
    body { p = (s32[], f32[4]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      x0 = f32[4] get-tuple-element(p), index=1\n"""
        + "\n".join(f"x{k} = f32[4] negate(x{k - 1})" for k in range(1, 27))
        + """
      one = s32[] constant(1)
      j = s32[] add(i, one)
      ROOT t = (s32[], f32[4]) tuple(j, x26) }
    condition { p = (s32[], f32[4]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      n = s32[] constant(2000)
      ROOT c = pred[] compare(i, n), direction=LT }
    ENTRY e { x = f32[4] parameter(0)
      z = s32[] constant(0)
      t = (s32[], f32[4]) tuple(z, x)
      ROOT w = (s32[], f32[4]) while(t), condition=condition, body=body }"""
    )
    with at_most(2):
        result = evaluate(module, np.ones(4, np.float32))
    assert result.elements[0].first() == 2000 and result.elements[1].array[0] == 1


BRANCHES = """HloModule m
b0 {{ x = f32[] parameter(0)
  ROOT r = f32[] negate(x) }}
b1 {{ x = f32[] parameter(0)
  ROOT r = f32[] add(x, x) }}
b2 {{ x = f32[] parameter(0)
  ROOT r = f32[] multiply(x, x) }}
ENTRY e {{ p = {type} parameter(0)
  x = f32[] parameter(1)
  ROOT c = f32[] conditional(p, {inputs}), {branches} }}"""


def test_conditional_by_predicate():
    module = parse_module(
        BRANCHES.format(
            type="pred[]", inputs="x, x", branches="true_computation=b0, false_computation=b1"
        )
    )
    assert evaluate(module, True, 3.0).first() == -3
    assert evaluate(module, False, 3.0).first() == 6


@pytest.mark.parametrize(("index", "expected"), [(0, -3), (1, 6), (2, 9), (3, 9), (-1, 9)])
def test_conditional_by_index_takes_the_last_branch_when_out_of_range(index, expected):
    module = parse_module(
        BRANCHES.format(type="s32[]", inputs="x, x, x", branches="branch_computations={b0, b1, b2}")
    )
    assert evaluate(module, index, 3.0).first() == expected


def test_only_the_chosen_branch_runs():
    module = parse_module("""HloModule m
    bad { x = f32[] parameter(0)
      ROOT r = f32[] custom-call(x), custom_call_target="nobody_knows" }
    good { x = f32[] parameter(0)
      ROOT r = f32[] negate(x) }
    ENTRY e { p = pred[] parameter(0)
      x = f32[] parameter(1)
      ROOT c = f32[] conditional(p, x, x), true_computation=bad, false_computation=good }""")
    assert evaluate(module, False, 1.0).first() == -1
    with pytest.raises(EvalError, match="nobody_knows"):
        evaluate(module, True, 1.0)


def test_fusion_call_and_async_evaluate_what_they_call():
    module = parse_module("""HloModule m
    f { x = f32[2] parameter(0)
      y = f32[2] parameter(1)
      ROOT r = f32[2] subtract(x, y) }
    g { x = f32[2] parameter(0)
      y = f32[2] parameter(1)
      ROOT r = f32[2] subtract(y, x) }
    h { x = f32[2] parameter(0)
      y = f32[2] parameter(1)
      ROOT r = f32[2] multiply(x, y) }
    ENTRY e { x = f32[2] parameter(0)
      y = f32[2] parameter(1)
      a = f32[2] fusion(x, y), kind=kLoop, calls=f
      b = f32[2] call(x, y), to_apply=g
      s = ((f32[2], f32[2]), f32[2], s32[]) async-start(a, b), calls=h
      u = ((f32[2], f32[2]), f32[2], s32[]) async-update(s)
      ROOT c = f32[2] async-done(u) }""")
    x, y = np.float32([1, 5]), np.float32([4, 3])
    assert np.array_equal(evaluate(module, x, y).array, (x - y) * (y - x))


def test_copy_halves():
    module = parse_module("""HloModule m
    ENTRY e { x = f32[2] parameter(0)
      s = (f32[2], f32[2], u32[]) copy-start(x)
      ROOT c = f32[2] copy-done(s) }""")
    assert np.array_equal(evaluate(module, np.float32([1, 2])).array, [1, 2])


def test_opt_barrier_returns_the_same_nested_tuple():
    module = parse_module("""HloModule m
    ENTRY e { p = (f32[2], (s32[], pred[])) parameter(0)
      ROOT b = (f32[2], (s32[], pred[])) opt-barrier(p) }""")
    given = Literal.of(
        (np.float32([1, 2]), (np.int32(3), np.bool_(True))), "(f32[2], (s32[], pred[]))"
    )
    assert evaluate(module, given) == given


def test_order_operations_pass_their_value_on():
    module = parse_module("""HloModule m
    ENTRY e { x = f32[2] parameter(0)
      t = token[] after-all()
      y = f32[2] add-dependency(x, t)
      ROOT z = f32[2] domain(y), domain={kind="sharding", entry={maximal device=0},
        exit={maximal device=1}} }""")
    assert np.array_equal(evaluate(module, np.float32([1, 2])).array, [1, 2])


INFEED = """HloModule m
ENTRY e { t = token[] after-all()
  a = ((f32[2], s32[]), token[]) infeed(t)
  u = token[] get-tuple-element(a), index=1
  d = (f32[2], s32[]) get-tuple-element(a), index=0
  o = token[] outfeed(d, u), outfeed_shape=(f32[2]{0}, s32[])
  b = ((f32[2], s32[]), token[]) infeed(o)
  ROOT r = (f32[2], s32[]) get-tuple-element(b), index=0 }"""


def test_infeed_and_outfeed_go_through_the_hosts_queues():
    x, y = np.float32([1, 2]), np.float32([3, 4])
    written = []
    options = EvalOptions(infeed=[(x, 5), (y, 6)], outfeed=written.append)
    result = evaluate(parse_module(INFEED), options=options)
    assert result.elements[1].first() == 6
    assert np.array_equal(written[0][0], x) and written[0][1] == 5
    with pytest.raises(EvalError, match="infeed queue is empty"):
        evaluate(parse_module(INFEED), options=EvalOptions(infeed=[(x, 5)]))


TRANSFER = """HloModule m
ENTRY e {{ x = f32[2] parameter(0)
  t = token[] after-all()
  s = (f32[2], u32[], token[]) send(x, t), channel_id=3{host}
  sd = token[] send-done(s), channel_id=3{host}
  r = (f32[2], u32[], token[]) recv(t), channel_id={channel}{host}
  rd = (f32[2], token[]) recv-done(r), channel_id={channel}{host}, control-predecessors={{sd}}
  ROOT y = f32[2] get-tuple-element(rd), index=0 }}"""
HOST = ", is_host_transfer=true"


def test_a_send_reaches_the_recv_of_its_channel():
    x = np.float32([1, 2])
    module = parse_module(TRANSFER.format(host="", channel=3))
    assert np.array_equal(evaluate(module, x).array, x)
    with pytest.raises(EvalError, match="%rd: nobody sends what this waits for"):
        evaluate(parse_module(TRANSFER.format(host="", channel=4)), x)


def test_host_transfers_use_the_hosts_queues():
    x, sent = np.float32([1, 2]), []
    options = EvalOptions(
        host_receive={4: [np.float32([7, 8])]},
        host_send=lambda channel, v: sent.append((channel, v)),
    )
    result = evaluate(parse_module(TRANSFER.format(host=HOST, channel=4)), x, options=options)
    assert np.array_equal(result.array, [7, 8])
    assert sent[0][0] == 3 and np.array_equal(sent[0][1], x)
    loop = parse_module(TRANSFER.format(host=HOST, channel=3))
    assert np.array_equal(evaluate(loop, x).array, x)


def test_a_recursive_call_is_an_error():
    module = parse_module("""HloModule m
    f { x = f32[] parameter(0)
      ROOT r = f32[] negate(x) }
    ENTRY e { x = f32[] parameter(0)
      ROOT r = f32[] call(x), to_apply=f }""")
    f = module["f"]
    f.root = f.add("call", f.parameters[0], called=(f,), shape=f.parameters[0].shape)
    with pytest.raises(EvalError, match="nest more than 20000 deep"):
        evaluate(module, 1.0)
