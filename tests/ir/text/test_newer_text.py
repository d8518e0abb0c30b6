"""Text as XLA of 2026 writes it: splats, late operands, elements with their own shape."""

import numpy as np
import pytest

import hloom
from hloom.ir.proto import module_from_proto, module_to_proto

LATE = """HloModule m
f { a = f32[4] parameter(0) b = f32[4] parameter(1) ROOT c = f32[4] subtract(a, b) }
ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1)
"""
CHAINS = {
    "second operand at the update": """s = ((f32[4]), (), u32[]) async-start(x), calls=f
        u = ((f32[4], f32[4]), f32[4], u32[]) async-update(s, y)
        ROOT d = f32[4] async-done(u) }""",
    "none at the start, result at the done": """s = ((), (), u32[]) async-start(), calls=f
        u = ((f32[4]), (), u32[]) async-update(s, x)
        v = ((f32[4], f32[4]), (), u32[]) async-update(u, y)
        ROOT d = f32[4] async-done(v) }""",
    "all at the start, result at the update": """
        s = ((f32[4], f32[4]), ()) async-start(x, y), calls=f
        u = ((f32[4], f32[4]), f32[4]) async-update(s)
        ROOT d = f32[4] async-done(u) }""",
    "an update that binds nothing": """s = ((f32[4], f32[4]), f32[4]) async-start(x, y), calls=f
        u = ((f32[4], f32[4]), f32[4]) async-update(s)
        ROOT d = f32[4] async-done(u) }""",
}


def both_ways(text: str, tmp_path=None):
    """The module of a text, which prints and goes through a message unchanged."""
    module = hloom.parse(text)
    hloom.verify(module)
    for shown in (
        hloom.show(module, large_constants=True),
        hloom.show(module, large_constants=True, operand_shape=True),
        hloom.show(module, large_constants=True, operand_shape=True, compact_gte=True),
    ):
        again = hloom.parse(shown)
        assert hloom.difference(module, again) is None, shown
    if tmp_path is not None:
        hloom.save(module, tmp_path / "module.pb")
        again = hloom.load(tmp_path / "module.pb")
        assert hloom.show(again, large_constants=True) == hloom.show(module, large_constants=True)
    return module


@pytest.mark.parametrize(
    ("shape", "text", "value"),
    [
        ("f32[8,2048]", "0", 0),
        ("f32[8,2048]", "-1.5e3", -1500),
        ("f32[1]", "1", 1),
        ("pred[3]", "true", True),
        ("c64[2]", "(1, -2)", 1 - 2j),
        ("s32[0,3]", "7", 7),
        ("u64[65]", "-1", 2**64 - 1),
        ("bf16[2,3,1]", "inf", np.inf),
    ],
)
def test_one_number_stands_for_all(shape, text, value, tmp_path):
    module = both_ways(f"ENTRY e {{ ROOT c = {shape} constant({text}) }}", tmp_path)
    found = hloom.evaluate(module).array
    assert found.shape == module.entry.root.shape.dims
    assert (found == value).all()


def test_a_tuple_of_splats():
    module = both_ways("ENTRY e { ROOT c = (f32[3], s32[2,2], pred[]) constant((1, 2, true)) }")
    found = hloom.evaluate(module).elements
    assert [x.array.tolist() for x in found] == [[1, 1, 1], [[2, 2], [2, 2]], True]


@pytest.mark.parametrize("text", ["-1", "{-1}"])
def test_u64_wraps_as_64_bits_do(text):
    shape = "u64[1]" if text[0] == "{" else "u64[]"
    module = both_ways(f"ENTRY e {{ ROOT c = {shape} constant({text}) }}")
    assert hloom.evaluate(module).array.flatten()[0] == 2**64 - 1


@pytest.mark.parametrize(
    "operands",
    [
        "f32[10] %p#0, f32[10]{0} p#1#1",
        "(f32[10], (s32[2], f32[10])) %p#0, f32[10] p#1#1",
        "p#0, (f32[10], (s32[2], f32[10])) p#1#1",
    ],
)
def test_the_shape_before_an_element_is_its_own_or_that_of_its_tuple(operands):
    text = "p = (f32[10], (s32[2], f32[10])) parameter(0)"
    module = both_ways(f"ENTRY e {{ {text} ROOT a = f32[10] add({operands}) }}")
    assert [x.opcode for x in module.entry.root.operands] == ["get-tuple-element"] * 2


def test_a_wrong_shape_before_an_element_is_refused():
    with pytest.raises(hloom.HloError, match=r"%p#1 is written f32\[10\].* but its shape is s32"):
        hloom.parse(
            "ENTRY e { p = (f32[10], s32[2]) parameter(0) ROOT a = f32[10] negate(f32[10] %p#1) }"
        )


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_operands_bound_late(chain, tmp_path):
    module = both_ways(LATE + chain, tmp_path)
    x, y = (np.arange(4, dtype=np.float32) * k for k in (3, 1))
    assert hloom.evaluate(module, x, y).array.tolist() == [0, 2, 4, 6]
    assert np.asarray(hloom.compile(module)(x, y)).tolist() == [0, 2, 4, 6]


def test_debug_attributes_are_kept(tmp_path):
    text = """HloModule m, entry_computation_layout={()->s32[1]{0}}, debug_attributes={
      {"A"}:({log_mode=default,callback_id=1,op_id=0,partitioned=false})}
    ENTRY e { ROOT c = s32[1]{0} constant({1}), origin={{"A"}} }"""
    module = both_ways(text, tmp_path)
    assert "callback_id=1" in hloom.show(module)


def test_a_tuple_literal_of_a_custom_call(tmp_path):
    literal = "(s32[] 1, f32[2]{0} {1, 2}, (), (pred[] true))"
    text = f'ENTRY e {{ ROOT b = f32[2] custom-call(), custom_call_target="f", literal={literal} }}'
    module = both_ways(text, tmp_path)
    assert f"literal={literal}" in hloom.show(module)
    old = text.replace(literal, "(s32[], f32[2], (), (pred[])) (1, {1, 2}, (), (true))")
    assert hloom.show(hloom.parse(old)) == hloom.show(module)


def test_a_root_chosen_at_run_time(tmp_path):
    text = """HloModule m, replica_count=4
    ENTRY e { p = s32[2] parameter(0) q = s32[] parameter(1) r = s32[2] parameter(2)
      ROOT b = (s32[2], s32[]) collective-broadcast(p, q, r), replica_groups={{1,0},{2,3}},
        has_dynamic_root=true }"""
    module = both_ways(text, tmp_path)
    inputs = [[np.full(2, k, np.int32), np.int32(10 * k), np.array([1, 0])] for k in range(4)]
    inputs = [[p, q, r.astype(np.int32)] for p, q, r in inputs]
    results = hloom.evaluate_lockstep(module, inputs)
    found = [[x.array.flatten()[0] for x in r.elements] for r in results]
    assert found == [[0, 10], [0, 10], [3, 20], [3, 20]]
    with pytest.raises(hloom.HloError, match=r"roots must be s32\[2\]"):
        hloom.verify(hloom.parse(text.replace("r = s32[2]", "r = s32[3]")))


LAYOUTS = """HloModule m
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = compare(a, b), direction=LT }
id { a = f32[4,6]{0,1} parameter(0) ROOT b = f32[4,6]{0,1} negate(a) }
yes { a = f32[4,6]{0,1} parameter(0) ROOT b = pred[] constant(true) }
ENTRY e { p = f32[4,6]{0,1} parameter(0) q = f32[4,6]{1,0} parameter(1) z = f32[] constant(0)
  t = token[] after-all() b = pred[] constant(true) d = f32[6] parameter(2)
  w = pred[4,6]{0,1} parameter(3) k = c64[4,6]{0,1} parameter(4)
  v = f32[2,4,6]{0,2,1} parameter(5) u = (f32[4,6]{0,1}, s32[]) parameter(6)
  ROOT r = CASE }"""


@pytest.mark.parametrize(
    ("right", "shape"),
    [
        ("negate(p)", "f32[4,6]{0,1}"),
        ("f32[4,6] negate(p)", "f32[4,6]{1,0}"),
        ("add(p, q)", "f32[4,6]{0,1}"),
        ("add(q, p)", "f32[4,6]{1,0}"),
        ("compare(p, q), direction=LT", "pred[4,6]{0,1}"),
        ("select(w, q, q)", "f32[4,6]{0,1}"),
        ("select(b, p, q)", "f32[4,6]{0,1}"),
        ("clamp(z, p, z)", "f32[4,6]{0,1}"),
        ("complex(p, q)", "c64[4,6]{0,1}"),
        ("imag(k)", "f32[4,6]{0,1}"),
        ("transpose(q), dimensions={1,0}", "f32[6,4]{0,1}"),
        ("transpose(v), dimensions={2,0,1}", "f32[6,2,4]{1,0,2}"),
        ("reverse(v), dimensions={0}", "f32[2,4,6]{0,2,1}"),
        ("sort(p), dimensions={0}, to_apply=less", "f32[4,6]{0,1}"),
        ("tuple(p, q)", "(f32[4,6]{0,1}, f32[4,6]{1,0})"),
        ("get-tuple-element(u), index=0", "f32[4,6]{0,1}"),
        ("while(p), condition=yes, body=id", "f32[4,6]{0,1}"),
        ("call(p), to_apply=id", "f32[4,6]{0,1}"),
        (
            "conditional(b, p, p), true_computation=id, false_computation=id",
            "f32[4,6]{0,1}",
        ),
        ("fft(k), fft_type=FFT, fft_length={6}", "c64[4,6]{0,1}"),
        (
            "batch-norm-training(p, d, d), epsilon=0.1, feature_index=1",
            "(f32[4,6]{0,1}, f32[6]{0}, f32[6]{0})",
        ),
        ("f32[4,6] add-dependency(p, t)", "f32[4,6]{0,1}"),
        ("concatenate(p, p), dimensions={0}", "f32[8,6]{1,0}"),
        ("pad(p, z), padding=0_0x0_0", "f32[4,6]{1,0}"),
        ("dot(p, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}", "f32[6,6]{1,0}"),
    ],
)
def test_a_shape_that_is_left_out_has_the_layout_that_follows(right, shape):
    """What jaxlib's parser says of each of these."""
    module = hloom.parse(LAYOUTS.replace("CASE", right))
    assert module.entry.root.shape.text == shape


def test_a_dependency_whose_shape_says_static_is_read_back():
    """A shape that is not read may still say other dimensions static than its operand's."""
    text = """HloModule m
    ENTRY e {
      p = f32[<=1,<=3] parameter(0)
      t = token[] after-all()
      ROOT r = f32[1,3] add-dependency(p, t)
    }"""
    module = hloom.parse(text)
    hloom.verify(module)
    assert module.entry.root.shape.is_static
    assert hloom.show(hloom.parse(hloom.show(module))) == hloom.show(module)


HEAD = "HloModule m, entry_computation_layout={(f32[4,8]{1,0})->f32[4,8]{1,0}}"
BODY = """

ENTRY %e (x: f32[4,8]) -> f32[4,8] {
  %x = f32[4,8]{1,0} parameter(0)
  ROOT %r = f32[4,8]{1,0} negate(%x)"""
MESH = ", sharding={mesh['a'=2,'b'=2], [{'a'}, {}], unreduced="


@pytest.mark.parametrize(
    "text",
    [
        HEAD + ', backend_config={"a":1}' + BODY + "\n}\n",
        HEAD + ', backend_config="words"' + BODY + "\n}\n",
        HEAD + BODY + '\n}, backend_config={"a":1}\n',
        HEAD + BODY + '\n}, execution_thread="t", backend_config="q"\n',
        HEAD + BODY + ', origin={{"a"},["c"]}\n}\n',
        HEAD + BODY + ', origin={{"a" {1}},["c/d"]}\n}\n',
        HEAD + BODY + MESH + "max{'b'}}\n}\n",
        HEAD + BODY + MESH + "min{'b'}}\n}\n",
        HEAD + BODY + MESH + "{'b'}}\n}\n",
    ],
)
def test_what_xla_0_12_prints_is_kept(text, tmp_path):
    assert hloom.show(both_ways(text, tmp_path)) == text


@pytest.mark.parametrize(
    ("dtype", "order", "kind"),
    [
        ("f32", "TOTAL", "TOTALORDER"),
        ("f8e4m3fn", "TOTAL", "TOTALORDER"),
        ("f32", "PARTIAL", None),
        ("s32", "TOTAL", None),
        ("u8", "PARTIAL", None),
        ("pred", "TOTAL", None),
    ],
)
def test_the_order_of_a_comparison(dtype, order, kind, tmp_path):
    """As XLA 0.12 writes it; its messages say it in a field of its own."""
    module = both_ways(
        f"""ENTRY e {{ x = {dtype}[3] parameter(0) y = {dtype}[3] parameter(1)
        ROOT c = pred[3] compare(x, y), direction=LT, order={order} }}""",
        tmp_path,
    )
    assert module.entry.root.attrs.type == kind
    message = module_to_proto(module)
    for i in message.computations[0].instructions:
        if i.opcode == "compare":
            i.comparison_type, i.comparison_order = "", order
    assert module_from_proto(message).entry.root.attrs.type == kind


def test_a_total_order_is_computed():
    module = hloom.parse("""ENTRY e { x = f32[3] parameter(0) y = f32[3] parameter(1)
        ROOT c = pred[3] compare(x, y), direction=LT, order=TOTAL }""")
    x, y = np.float32([-0.0, np.nan, 1]), np.float32([0.0, 1, np.nan])
    assert hloom.evaluate(module, x, y).array.tolist() == [True, False, True]
    assert np.asarray(hloom.compile(module)(x, y)).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ("direction=LT, order=LESS", "unknown order 'LESS'"),
        ("direction=LT, type=FLOAT, order=TOTAL", "a type or an order"),
        ("direction=LT, order=TOTAL, order=TOTAL", "a type or an order"),
    ],
)
def test_wrong_orders_are_refused(attributes, said):
    with pytest.raises(hloom.HloError, match=said):
        hloom.parse(f"""ENTRY e {{ x = f32[3] parameter(0)
            ROOT c = pred[3] compare(x, x), {attributes} }}""")


@pytest.mark.parametrize("name", ["dot_bf16_bf16_fp8x3", "dot_bf16_bf16_fp8x4"])
def test_products_of_bf16_from_those_of_f8(name, tmp_path):
    """Ours are those of bf16, which are exact."""
    module = both_ways(
        f"""ENTRY e {{ x = f32[4,8] parameter(0) y = f32[4,8] parameter(1)
        ROOT d = f32[4,4] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}},
          algorithm={name} }}""",
        tmp_path,
    )
    x, y = np.random.default_rng(0).normal(size=(2, 4, 8)).astype(np.float32)
    wanted = hloom.evaluate(module, x, y).array
    np.testing.assert_allclose(np.asarray(hloom.compile(module)(x, y)), wanted, rtol=1e-5)
    np.testing.assert_allclose(wanted, x @ y.T, atol=0.05)
