"""Programs at the edge of what is legal, and past it: large, deep, endless, exploding.

Each must end soon in an answer or an `HloError`, and take no memory for what it only states.
"""

import numpy as np
import pytest

from hloom.analysis.cost import module_cost
from hloom.analysis.statistics import module_statistics
from hloom.base.diagnostics import EvalError, HloError, UsageError, VerifyError
from hloom.interp import EvalOptions, evaluate, evaluate_partially, random_arguments
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.proto import module_from_bytes, module_to_bytes
from hloom.ir.text import parse_module, show_module
from hloom.ir.verify import verify
from hloom.passes import PASSES, pass_named
from hloom.types.literal import Literal
from hloom.types.shape import shape, tuple_shape
from tests.fuzz.check import time_limit

F32 = shape("f32")
SMALL = EvalOptions(memory_limit_bytes=1 << 26, while_iteration_limit=50)


@pytest.fixture(autouse=True)
def soon():
    with time_limit(40):
        yield


def everything(module: Module, *arguments) -> Literal:
    """Verify, write both ways, copy, count, run every pass; the value."""
    verify(module)
    before = evaluate(module, *arguments)
    text = show_module(module)
    assert show_module(parse_module(text)) == text
    data = module_to_bytes(module)
    assert module_to_bytes(module_from_bytes(data)) == data
    module_statistics(module)
    module_cost(module)
    after = copy_module(module)
    for name in sorted(PASSES):
        pass_named(name).run(after)
    verify(after)
    now = evaluate(after, *arguments)
    assert now.shape.compatible(before.shape)
    return now


def entry(name: str = "main"):
    module = Module("m")
    return module, module.add_computation(name, entry=True)


def test_chain_of_ten_thousand():
    module, c = entry()
    x = c.add("parameter", shape=F32, number=0)
    for _ in range(10_000):
        x = c.add("negate", x)
    c.root = x
    assert everything(module, np.float32(3)).array == 3


def test_tuple_of_a_hundred_thousand():
    module, c = entry()
    x = c.add("parameter", shape=F32, number=0)
    t = c.add("tuple", *[x] * 100_000)
    c.root = c.add("get-tuple-element", t, index=99_999)
    assert everything(module, np.float32(3)).array == 3


def test_tuple_of_a_hundred_thousand_as_result():
    module, c = entry()
    x = c.add("parameter", shape=F32, number=0)
    c.root = c.add("tuple", *[x] * 100_000)
    assert len(everything(module, np.float32(3)).elements) == 100_000


def test_five_thousand_parameters():
    module, c = entry()
    values = [c.add("parameter", shape=F32, number=k) for k in range(5000)]
    total = values[0]
    for x in values[1:]:
        total = c.add("add", total, x)
    c.root = total
    arguments = random_arguments(module, 1)
    everything(module, *arguments)


@pytest.mark.parametrize("depth", [1000, 10_000])
def test_calls_nested_deep(depth):
    module = Module("m")
    inner = None
    for k in range(depth):
        c = module.add_computation(f"c{k}", entry=k == depth - 1)
        x = c.add("parameter", shape=F32, number=0)
        c.root = c.add("call", x, called=(inner,)) if inner else c.add("negate", x)
        inner = c
    assert everything(module, np.float32(3)).array == -3


def test_fusions_nested_deep():
    module = Module("m")
    inner = None
    for k in range(2000):
        c = module.add_computation(f"c{k}", entry=k == 1999)
        x = c.add("parameter", shape=F32, number=0)
        if inner is None:
            c.root = c.add("negate", x)
        else:
            c.root = c.add("fusion", x, shape=F32, called=(inner,), kind="kLoop")
        inner = c
    assert everything(module, np.float32(3)).array == -3


def test_tuples_nested_deep():
    module, c = entry()
    x = c.add("parameter", shape=F32, number=0)
    for _ in range(3000):
        x = c.add("tuple", x)
    for _ in range(3000):
        x = c.add("get-tuple-element", x, index=0)
    c.root = x
    verify(module)
    assert evaluate(module, np.float32(3)).array == 3
    pass_named("tuple-simplifier").run(module)
    assert evaluate(module, np.float32(3)).array == 3


def test_tuples_that_double():
    """Forty instructions make a shape of 2^40 leaves."""
    module, c = entry()
    x = c.add("parameter", shape=F32, number=0)
    for _ in range(40):
        x = c.add("tuple", x, x)
    c.root = x
    with pytest.raises(VerifyError):
        verify(module)
    with pytest.raises(EvalError):
        evaluate(module, np.float32(3))


def test_computation_calls_itself():
    module, c = entry()
    x = c.add("parameter", shape=F32, number=0)
    c.root = x
    c.root = c.add("call", x, called=(c,))
    with pytest.raises(VerifyError):
        verify(module)
    with pytest.raises(EvalError):
        evaluate(module, np.float32(3))


def test_value_reads_itself():
    module, c = entry()
    x = c.add("parameter", shape=F32, number=0)
    c.root = c.add("negate", x)
    c.root.set_operands((c.root,))
    with pytest.raises(VerifyError):
        verify(module)
    with pytest.raises(EvalError):
        evaluate(module, np.float32(3))
    with pytest.raises(HloError):
        evaluate_partially(c.root)


HUGE = """
ENTRY e {
  x = f32[] parameter(0)
  b = f32[1000000,1000000] broadcast(x), dimensions={}
  n = f32[1000000,1000000] negate(b)
  ROOT s = f32[1,1] slice(n), slice={[0:1], [0:1]}
}
"""


@pytest.mark.parametrize(
    "text",
    [
        HUGE,
        "ENTRY e { ROOT i = s32[2147483647,16] iota(), iota_dimension=0 }",
        "ENTRY e { x = f32[4] parameter(0)\n c = f32[] constant(0)\n"
        " ROOT p = f32[3000000000004] pad(x, c), padding=0_3000000000000 }",
        "ENTRY e { s = u64[2] parameter(0)\n ROOT r = (u64[2], u64[4000000000]) "
        "rng-bit-generator(s), algorithm=rng_philox }",
        "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
        "ENTRY e { x = f32[8] parameter(0)\n c = f32[] constant(0)\n"
        " ROOT p = f32[1000000000001] reduce-window(x, c), "
        "window={size=8 pad=0_1000000000000}, to_apply=add }",
    ],
    ids=["broadcast", "iota", "pad", "random", "window"],
)
def test_legal_but_too_large(text):
    module = parse_module("HloModule m\n\n" + text)
    verify(module)
    module_cost(module)
    for name in sorted(PASSES):
        pass_named(name).run(copy_module(module))
    with pytest.raises(EvalError, match=r"memory_limit_bytes|more than|bytes"):
        evaluate(module, *random_arguments(module, 1))


def test_values_alive_at_once_are_counted():
    lines = [f"  n{k} = f32[1000000] negate(x)" for k in range(30)]
    names = ", ".join(f"n{k}" for k in range(30))
    shapes = ", ".join(["f32[1000000]"] * 30)
    text = "\n".join(
        ["HloModule m", "", "ENTRY e {", "  x = f32[1000000] parameter(0)", *lines]
        + [f"  ROOT t = ({shapes}) tuple({names})", "}"]
    )
    x = np.zeros(1_000_000, np.float32)
    with pytest.raises(EvalError, match="alive at once"):
        evaluate(parse_module(text), x, options=SMALL)
    # In a chain each value dies as soon as the next is made.
    module, c = entry()
    value = c.add("parameter", shape=shape("f32", (1_000_000,)), number=0)
    for _ in range(30):
        value = c.add("negate", value)
    c.root = value
    evaluate(module, x, options=SMALL)


def test_random_arguments_that_are_too_large():
    module, c = entry()
    c.root = c.add("parameter", shape=shape("f32", (10**12,)), number=0)
    with pytest.raises(EvalError):
        random_arguments(module)
    p = c.add("parameter", shape=tuple_shape([shape("f32", (0, 2**62))]), number=1)
    assert p.attrs.number == 1
    with pytest.raises(EvalError):
        random_arguments(module)


ENDLESS = """
HloModule m

body { s = s32[] parameter(0)  ROOT n = s32[] add(s, s) }
cond { s = s32[] parameter(0)  ROOT c = pred[] constant(true) }
ENTRY e { s = s32[] parameter(0)  ROOT w = s32[] while(s), condition=cond, body=body }
"""


def test_endless_loop():
    module = parse_module(ENDLESS)
    verify(module)
    with pytest.raises(EvalError, match="did not end within 50"):
        evaluate(module, np.int32(1), options=SMALL)
    module_cost(module)
    for name in sorted(PASSES):
        pass_named(name).run(copy_module(module))


SORT = """
HloModule m

order { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] constant(VALUE) }
ENTRY e { x = f32[2000] parameter(0)  ROOT s = f32[2000] sort(x), dimensions={0}, to_apply=order }
"""


@pytest.mark.parametrize("answer", ["true", "false"])
def test_comparator_that_is_no_order(answer):
    x = np.arange(2000, dtype=np.float32)
    found = evaluate(parse_module(SORT.replace("VALUE", answer)), x)
    assert sorted(found.array.tolist()) == x.tolist()


SCATTER = """
HloModule m

odd {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] multiply(a, f32[] constant(0.5))
  ROOT d = f32[] add(c, b)
}
ENTRY e {
  x = f32[4] parameter(0)
  at = s32[COUNT,1] parameter(1)
  u = f32[COUNT] parameter(2)
  ROOT s = f32[4] scatter(x, at, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=odd
}
"""


def test_many_updates_of_one_cell():
    count = 100_000
    module = parse_module(SCATTER.replace("COUNT", str(count)))
    at, u = np.full((count, 1), 2, np.int32), np.ones(count, np.float32)
    found = evaluate(module, np.zeros(4, np.float32), at, u)
    assert found.array.tolist() == [0, 0, 2, 0]


def test_large_constant():
    module, c = entry()
    literal = Literal.of(np.zeros((1 << 26,), np.uint8), "u8")
    c.root = c.add("constant", shape=literal.shape.with_default_layouts(), literal=literal)
    verify(module)
    data = module_to_bytes(module)
    assert module_from_bytes(data).entry.root.attrs.literal.array.size == 1 << 26
    assert len(show_module(module)) < 1000
    for name in sorted(PASSES):
        pass_named(name).run(copy_module(module))
    assert evaluate(module).array.size == 1 << 26


def test_elided_constant_that_no_memory_holds():
    module = parse_module("HloModule m\n\nENTRY e { ROOT c = f32[4000000000000] constant({...}) }")
    verify(module)
    with pytest.raises(UsageError, match="no values can be made up for an elided constant"):
        _ = module.entry.root.attrs.literal.array


def test_nothing_of_a_shape_that_numpy_does_not_have():
    import hloom

    text = (
        "HloModule m\n\nENTRY e { ROOT c = f32[4294967296,0,4294967296] iota(), iota_dimension=1 }"
    )
    module = parse_module(text)
    with pytest.raises(EvalError, match="numpy cannot hold"):
        evaluate(module)
    with pytest.raises(UsageError, match="numpy has no array of shape"):
        np.asarray(hloom.compile(module)())
