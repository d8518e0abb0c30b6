"""Nothing is quadratic in callers, depth of calls, or width of tuples."""

import pytest

import hloom
from tests.processor_time import at_most

DEPTH = 10_000


def chain(depth: int) -> str:
    lines = ["HloModule m", "g0 {\n p = f32[] parameter(0)\n ROOT r = f32[] negate(p)\n}"]
    for k in range(1, depth):
        lines.append(
            f"g{k} {{\n p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=g{k - 1}\n}}"
        )
    lines.append(
        f"ENTRY e {{\n p = f32[] parameter(0)\n k = f32[] constant(1)\n"
        f" a = f32[] call(p), to_apply=g{depth - 1}\n b = f32[] call(k), to_apply=g{depth - 1}\n"
        " v = f32[4] broadcast(p), dimensions={}\n"
        f" m = f32[4] map(v), dimensions={{0}}, to_apply=g{depth - 1}\n"
        f" n = f32[4] map(v), dimensions={{0}}, to_apply=g{depth - 1}\n"
        " ROOT t = (f32[], f32[], f32[4], f32[4]) tuple(a, b, m, n)\n}"
    )
    return "\n".join(lines)


@pytest.fixture(scope="module")
def deep() -> hloom.Module:
    return hloom.parse(chain(DEPTH))


@pytest.fixture(scope="module")
def unchanged(deep) -> list[hloom.Module]:
    """A copy of it, which passes that find nothing to do hand on to each other."""
    return []


@pytest.mark.parametrize("name", sorted(hloom.PASSES))
def test_passes_over_a_deep_chain_of_calls(deep, unchanged, name):
    module = unchanged.pop() if unchanged else hloom.copy_module(deep)
    with at_most(20):
        result = hloom.pass_named(name).run(module)
    if result.changed:
        hloom.verify(module)
    else:
        unchanged.append(module)


def test_passes_that_found_nothing_to_do_left_a_deep_chain_as_it_was(deep, unchanged):
    for module in unchanged:
        assert hloom.difference(deep, module) is None


def test_everything_else_over_a_deep_chain_of_calls(deep):
    from hloom.api import file_bytes, load_bytes

    with at_most(40):
        hloom.verify(deep)
        assert hloom.difference(deep, hloom.parse(hloom.show(deep))) is None
        assert hloom.difference(deep, load_bytes(file_bytes(deep, "pb")).module) is None
        hloom.fingerprint(deep)


def test_replacing_a_computation_with_many_callers():
    lines = [
        "a {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] add(x, y)\n}",
        "b {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] maximum(x, y)\n}",
        "c {\n s = f32[] parameter(0)\n ROOT r = pred[] constant(false)\n}",
        "d {\n s = f32[] parameter(0)\n ROOT r = f32[] call(s, s), to_apply=a\n}",
        "ENTRY e {\n p = f32[4] parameter(0)\n z = f32[] constant(0)",
    ]
    lines += [f" r{k} = f32[] reduce(p, z), dimensions={{0}}, to_apply=a" for k in range(100_000)]
    lines += [" w = f32[] while(z), condition=c, body=d", " ROOT s = f32[] add(w, r99999)\n}"]
    module = hloom.parse("\n".join(lines))
    a, b = module["a"], module["b"]
    with at_most(1):
        module.replace_computations({a: b})
    assert not a.callers and len(b.callers) == 100_001
    assert {i.opcode for i in b.callers} == {"reduce", "call"}
    with at_most(3):
        assert hloom.pass_named("dce").run(module).changed
    assert "a" not in {c.name for c in module.computations} and len(b.callers) == 2
    hloom.verify(module)


def test_dead_computations_go_in_one_sweep():
    lines = ["k0 {\n p = f32[] parameter(0)\n ROOT r = f32[] negate(p)\n}"]
    for k in range(1, 20_000):
        lines.append(
            f"k{k} {{\n p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=k{k - 1}\n}}"
        )
    lines.append("ENTRY e {\n p = f32[] parameter(0)\n ROOT r = f32[] negate(p)\n}")
    module = hloom.parse("\n".join(lines))
    with at_most(5):
        result = hloom.pass_named("dce").run(module)
    assert result.fired["computations"] == 20_000 and len(module.computations) == 1


def test_merging_what_a_wide_tuple_reads():
    count = 20_000
    lines = ["ENTRY e {\n p = f32[] parameter(0)"]
    lines += [f" n{k} = f32[] negate(p)" for k in range(count)]
    shape, operands = ", ".join(["f32[]"] * count), ", ".join(f"n{k}" for k in range(count))
    lines.append(f" ROOT t = ({shape}) tuple({operands})\n}}")
    module = hloom.parse("\n".join(lines))
    with at_most(5):
        assert hloom.pass_named("cse").run(module).fired["merged"] == count - 1
    hloom.verify(module)


def test_inlining_many_calls_of_a_scheduled_module():
    count = 10_000
    lines = ["HloModule m, is_scheduled=true\nf {\n x = f32[] parameter(0)"]
    lines += [
        " n = f32[] negate(x)\n ROOT r = f32[] add(n, x)\n}\nENTRY e {\n p0 = f32[] parameter(0)"
    ]
    lines += [f" p{k + 1} = f32[] call(p{k}), to_apply=f" for k in range(count)]
    module = hloom.parse("\n".join([*lines, f" ROOT n = f32[] negate(p{count})\n}}"]))
    with at_most(10):
        assert hloom.pass_named("call-inliner").run(module).fired["inlined"] == count
    hloom.verify(module)


def test_broken_graphs_are_one_kind_of_error():
    module = hloom.parse(
        "ENTRY e {\n p = f32[] parameter(0)\n a = f32[] sine(p)\n ROOT b = f32[] negate(a)\n}"
    )
    module.entry["a"].set_operands((module.entry["b"],))
    questions = (hloom.verify, hloom.show, hloom.copy_module, hloom.fingerprint, str)
    for ask in questions:
        with pytest.raises(hloom.HloError, match="depends on itself"):
            ask(module)
    with pytest.raises(hloom.HloError, match="depends on itself"):
        hloom.evaluate(module, 1.0)
    empty = hloom.Module("empty")
    for ask in (hloom.verify, hloom.copy_module):
        try:
            ask(empty)
        except hloom.HloError:
            pass
