"""The rewrite engine: what it tries, in which order, what it refuses, and that it ends."""

from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import hloom
from hloom.ir.text import parse_module
from hloom.passes.pass_ import PASSES, RewritePass
from hloom.rewrite import Declined, FuelError, Trace, any_of, apply_rules, m, rule, var
from hloom.rewrite.driver import RuleTable
from hloom.types.shape import shape

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
x, y = var("x"), var("y")


@rule(m.negate(m.negate(x)))
def twice(b, x):
    """-(-x)  =>  x"""
    return x


@rule(m.sine(x))
def to_cosine(b, x):
    """sin x  =>  cos x    (not true, for tests)"""
    return b.cosine(x)


@rule(m.cosine(x))
def to_sine(b, x):
    """cos x  =>  sin x    (not true, for tests)"""
    return b.sine(x)


@rule(m.add(m.sine(x), y))
def sum_of_sine(b, x, y):
    """sin x + y  =>  x - y    (not true, for tests)"""
    return b.subtract(x, y)


def entry(body: str):
    return parse_module(
        "HloModule m\nENTRY e {\n x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n"
        + body
        + "\n}"
    ).entry


def opcodes(c):
    return [i.opcode for i in c.in_order() if i.opcode != "parameter"]


def test_rules_run_until_none_applies():
    c = entry(" a = f32[4] negate(x)\n b = f32[4] negate(a)\n d = f32[4] negate(b)\n"
              " ROOT e = f32[4] negate(d)")  # fmt: skip
    assert apply_rules(c, [twice]) == {"twice": 2}
    assert c.root.opcode == "parameter" and len(c.instructions) == 2
    assert not apply_rules(c, [twice])


def test_a_long_chain_is_linear_in_firings():
    lines = [" v0 = f32[4] negate(x)"]
    lines += [f" v{k} = f32[4] negate(v{k - 1})" for k in range(1, 2000)]
    c = entry("\n".join(lines).replace(" v1999", " ROOT v1999"))
    assert apply_rules(c, [twice]) == {"twice": 1000}
    assert opcodes(c) == []


def test_rules_that_undo_one_another_run_out_of_fuel_and_are_named():
    c = entry(" ROOT a = f32[4] sine(x)")
    with pytest.raises(FuelError, match=r"still rewriting %e after 11 steps") as caught:
        apply_rules(c, [to_cosine, to_sine], fuel=10)
    assert "to_cosine (6 times), to_sine (5 times)" in str(caught.value)
    assert "these rules undo one another" in str(caught.value)


def test_fuel_is_for_firings_not_for_instructions():
    lines = [f" v{k} = f32[4] sine({'x' if k == 0 else f'v{k - 1}'})" for k in range(40)]
    c = entry("\n".join(lines).replace(" v39 =", " ROOT v39 ="))
    assert apply_rules(c, [to_cosine], fuel=40) == {"to_cosine": 40}
    with pytest.raises(FuelError):
        apply_rules(c, [to_sine], fuel=39)


@pytest.mark.parametrize("line", ["add(s, y)", "add(y, s)"])
def test_commutative_patterns_match_both_ways(line):
    c = entry(f" s = f32[4] sine(x)\n ROOT a = f32[4] {line}")
    assert apply_rules(c, [sum_of_sine]) == {"sum_of_sine": 1}
    assert [o.name for o in c.root.operands] == ["x", "y"]


def test_others_match_in_order_alone():
    @rule(m.subtract(m.sine(x), y))
    def difference(b, x, y):
        """sin x - y  =>  x    (not true, for tests)"""
        return x

    c = entry(" s = f32[4] sine(x)\n ROOT a = f32[4] subtract(y, s)")
    assert not apply_rules(c, [difference])


def test_a_name_twice_is_one_value():
    @rule(m.subtract(x, x))
    def itself(b, x):
        """x - x  =>  -x    (not true, for tests)"""
        return b.negate(x)

    assert not apply_rules(entry(" ROOT a = f32[4] subtract(x, y)"), [itself])
    assert apply_rules(entry(" ROOT a = f32[4] subtract(y, y)"), [itself])


def test_the_first_rule_that_answers_wins():
    @rule(m.sine(x))
    def never(b, x):
        """sin x  =>  x    never"""
        return

    c = entry(" ROOT a = f32[4] sine(x)")
    assert apply_rules(c, [never, to_cosine]) == {"to_cosine": 1}


def test_what_a_rule_made_before_it_declined_goes():
    @rule(m.sine(x, name="out"))
    def declines(b, x, out):
        """sin x  =>  exp(-x)    declined"""
        b.exponential(b.negate(x))
        return Declined("it is a test")

    c, trace = entry(" ROOT a = f32[4] sine(x)"), Trace()
    assert not apply_rules(c, [declines], trace=trace)
    assert opcodes(c) == ["sine"] and len(c.instructions) == 3
    assert dict(trace.declined) == {("declines", "it is a test"): 1}


def test_unread_values_go_and_effects_stay():
    c = entry(
        " d = f32[4] negate(x)\n e = f32[4] sine(d)\n t = token[] after-all()\n"
        " o = token[] outfeed(y, t), outfeed_shape=f32[4]\n ROOT a = f32[4] abs(x)"
    )
    assert not apply_rules(c, [twice])
    assert sorted(opcodes(c)) == ["abs", "after-all", "outfeed"]


def test_values_with_control_edges_stay():
    c = entry(
        " a = f32[4] sine(x)\n b = f32[4] abs(y), control-predecessors={a}\n"
        " ROOT t = (f32[4], f32[4]) tuple(a, b)"
    )
    trace = Trace()
    assert not apply_rules(c, [to_cosine], trace=trace)
    assert dict(trace.declined) == {("to_cosine", "it has control dependencies"): 1}


def test_another_shape_is_a_fault_of_the_rule():
    @rule(m.abs(x))
    def wrong(b, x):
        """|x|  =>  s32 of x    wrong"""
        return b.convert(x, shape=shape("s32", (4,)))

    with pytest.raises(AssertionError, match=r"a rule made s32\[4\].* where f32\[4\]"):
        apply_rules(entry(" ROOT a = f32[4] abs(x)"), [wrong])


def test_replacements_keep_name_of_source_and_sharding():
    c = entry(' ROOT a = f32[4] sine(x), sharding={replicated}, metadata={op_name="here"}')
    assert apply_rules(c, [to_cosine])
    assert c.root.metadata.op_name == "here" and c.root.sharding.kind == "replicated"


def test_a_rule_without_law_or_name_is_none():
    with pytest.raises(TypeError, match="needs a docstring that starts with its law"):
        rule(m.sine(x))(lambda b, x: x)
    with pytest.raises(TypeError, match=r"asks for \{'z'\}"):

        @rule(m.sine(x))
        def asks(b, z):
            """a  =>  b"""

    with pytest.raises(TypeError, match="must start from an operation"):

        @rule(x)
        def anything(b, x):
            """x  =>  x"""


def test_any_of_tries_each_opcode():
    @rule(any_of(["sine", "cosine"], x))
    def either(b, x):
        """sin x, cos x  =>  |x|    (not true, for tests)"""
        return b.abs(x)

    for opcode in ("sine", "cosine"):
        c = entry(f" ROOT a = f32[4] {opcode}(x)")
        assert apply_rules(c, [either]) == {"either": 1} and opcodes(c) == ["abs"]
    assert hloom.verify(c.module) is None


def test_no_rule_that_matches_is_left_out_for_the_opcodes_of_operands():
    tables = [
        RuleTable(p().active_rules())
        for _, p in PASSES.items()
        if issubclass(p, RewritePass) and all(f.default is not MISSING for f in fields(p))
    ]
    assert sum(len(rules) for table in tables for rules in table.by_opcode.values()) > 100
    tried = left_out = 0
    for file in sorted(EXAMPLES.glob("*.hlo")):
        for c in hloom.load(file).computations:
            for i in c.instructions:
                for table in tables:
                    candidates = table.candidates(i)
                    matching = [x for x in table.by_opcode.get(i.opcode, ()) if x[1](i, {})]
                    assert [x for x in candidates if x in matching] == matching
                    tried += len(candidates)
                    left_out += len(table.by_opcode.get(i.opcode, ())) - len(candidates)
    assert left_out > tried
