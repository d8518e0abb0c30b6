"""Numbers of 16 bits that are compared are the same in every kernel that computes them."""

import ml_dtypes
import numpy as np
import pytest

import hloom

TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
CHAINS = {
    "product": "y = T[D] multiply(p, w)",
    "function": "q = T[D] tanh(p) y = T[D] multiply(q, w)",
    "chosen": "q = T[D] multiply(p, w) y = T[D] select(g, q, p)",
}
FUNCTIONS = """
max { a = T[] parameter(0) b = T[] parameter(1) ROOT c = T[] maximum(a, b) }
sum { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }"""
HEAD = """ENTRY e {
  x = T[D] parameter(0) w = T[D] parameter(1)
  p = T[D] multiply(x, x) g = pred[D] compare(x, w), direction=GT
  low = T[] constant(-inf) zero = s32[] constant(0) """


def program(rows: int, columns: int, axis: int, chain: str, kind: str, more: str) -> hloom.Module:
    """For each row (or column) how many of its elements are its maximum."""
    left = (rows, columns)[1 - axis]
    text = f"""HloModule m {FUNCTIONS} {HEAD} {CHAINS[chain]}
  m = T[{left}] reduce(y, low), dimensions={{{axis}}}, to_apply=max
  mb = T[D] broadcast(m), dimensions={{{1 - axis}}} same = pred[D] compare(y, mb), direction=EQ
  n = s32[D] convert(same) many = s32[{left}] reduce(n, zero), dimensions={{{axis}}}, to_apply=sum
  ROOT r = {more} }}"""
    result = f"(s32[{left}], T[D])" if "," in more else f"(s32[{left}])"
    text = text.replace(f"ROOT r = {more}", f"ROOT r = {result} tuple({more})")
    return hloom.parse(text.replace("T[", f"{kind}[").replace("[D]", f"[{rows},{columns}]"))


@pytest.mark.parametrize("more", ["many", "many, y", "many, p"])
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("kind", TYPES)
def test_a_maximum_is_among_what_it_is_of(kind: str, chain: str, more: str) -> None:
    """One side came from memory, the other one had more digits: there was none, and gradients of
    maxima were 0 / 0."""
    rng = np.random.default_rng(0)
    for rows, columns in ((1, 5), (8, 4), (8, 5), (37, 300), (3, 4097), (300, 1)):
        for axis in (0, 1):
            module = program(rows, columns, axis, chain, kind, more)
            args = [rng.standard_normal((rows, columns)).astype(TYPES[kind]) for _ in range(2)]
            many = np.asarray(hloom.compile(module, threads=1)(*args)[0])
            assert (many >= 1).all(), (rows, columns, axis)


@pytest.mark.parametrize("count", [1, 16, 37, 5000])
def test_what_is_infinite_in_16_bits_is(count: int) -> None:
    """Checks of scaled gradients in f16: 300 squared has digits to be computed with, and no f16."""
    module = hloom.parse(f"""HloModule m
ENTRY e {{
  x = f16[{count}] parameter(0)
  y = f16[{count}] multiply(x, x)
  f = pred[{count}] is-finite(y)
  g = pred[{count}] is-finite(x)
  ROOT t = (pred[{count}], pred[{count}]) tuple(f, g)
}}""")
    x = np.resize(np.array([300, 2, 0.70703125, 0.7075], np.float16), count)
    with np.errstate(over="ignore"):
        y = x * x
    found, of_arguments = map(np.asarray, hloom.compile(module)(x))
    np.testing.assert_array_equal(found, np.isfinite(y))
    assert of_arguments.all()


STEPS = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round-nearest-even": np.rint,
    "round-nearest-afz": lambda y: np.copysign(np.floor(np.abs(y) + 0.5), y),
    "convert": np.trunc,
}


@pytest.mark.parametrize("opcode", STEPS)
@pytest.mark.parametrize("kind", TYPES)
def test_functions_that_jump_see_what_memory_would_hold(kind: str, opcode: str) -> None:
    """Of a hundred products in bf16 one was just below a whole number that memory holds."""
    rng, n = np.random.default_rng(0), 20_011
    x, w = ((rng.standard_normal(n) * 3).astype(TYPES[kind]) for _ in range(2))
    result = "s32" if opcode == "convert" else kind
    module = hloom.parse(f"""HloModule m
ENTRY e {{
  x = {kind}[{n}] parameter(0)
  w = {kind}[{n}] parameter(1)
  y = {kind}[{n}] multiply(x, w)
  ROOT r = {result}[{n}] {opcode}(y)
}}""")
    found = np.asarray(hloom.compile(module)(x, w)).astype(np.float32)
    np.testing.assert_array_equal(found, STEPS[opcode]((x * w).astype(np.float32)))


@pytest.mark.parametrize("kind", TYPES)
def test_what_is_guarded_is_what_was_compared(kind: str) -> None:
    """Roots of what is positive: the number that was compared is the one that is used. What is
    left of a number is below one, and not negative."""
    rng, n = np.random.default_rng(0), 100_003
    x, w = ((rng.standard_normal(n) * 3).astype(TYPES[kind]) for _ in range(2))
    array = f"{kind}[{n}]"
    module = hloom.parse(f"""HloModule m
ENTRY e {{
  x = {array} parameter(0)
  w = {array} parameter(1)
  y = {array} multiply(x, w)
  two = {kind}[] constant(2)
  zero = {kind}[] constant(0)
  tb = {array} broadcast(two), dimensions={{}}
  zb = {array} broadcast(zero), dimensions={{}}
  c = pred[{n}] compare(y, tb), direction=GE
  d = {array} subtract(y, tb)
  s = {array} sqrt(d)
  guarded = {array} select(c, s, zb)
  f = {array} floor(y)
  g = {array} subtract(y, f)
  rest = {array} sqrt(g)
  ROOT r = ({array}, {array}) tuple(guarded, rest)
}}""")
    guarded, rest = (np.asarray(v).astype(np.float32) for v in hloom.compile(module)(x, w))
    y = (x * w).astype(np.float32)
    for found, square in ((guarded, np.where(y >= 2, y - 2, 0)), (rest, y - np.floor(y))):
        np.testing.assert_allclose(found, np.sqrt(square), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("kind", TYPES)
def test_what_a_comparison_of_computed_numbers_guards_is_what_was_compared(kind: str) -> None:
    """Half of the numbers are so near to each other that 16 bits hold some as equal: of 100,000
    roots 6,815 were of negative numbers."""
    rng, n = np.random.default_rng(0), 100_003
    x, w = ((rng.standard_normal(n) * 3).astype(TYPES[kind]) for _ in range(2))
    v = w.copy()
    v[::2] = (w[::2].astype(np.float32) * 1.004).astype(TYPES[kind])
    array = f"{kind}[{n}]"
    for sign in ("a", "s"):
        module = hloom.parse(f"""HloModule m
ENTRY e {{
  x = {array} parameter(0)
  w = {array} parameter(1)
  v = {array} parameter(2)
  p = {array} multiply(x, w)
  q = {array} multiply(x, v)
  t = {array} tanh(q)
  a = {array} add(p, t)
  b = {array} add(q, t)
  s = {array} negate(a)
  u = {array} negate(b)
  zero = {kind}[] constant(0)
  zb = {array} broadcast(zero), dimensions={{}}
  c = pred[{n}] compare({sign}, {"b" if sign == "a" else "u"}), direction=GE
  d = {array} subtract({sign}, {"b" if sign == "a" else "u"})
  r = {array} sqrt(d)
  ROOT guarded = {array} select(c, r, zb)
}}""")
        found = np.asarray(hloom.compile(module)(x, w, v)).astype(np.float32)
        assert not np.isnan(found).any()


@pytest.mark.parametrize("kind", TYPES)
def test_a_threshold_from_memory_guards_what_was_compared(kind: str) -> None:
    """One side stands in memory, the other one is computed, and compared in a wider type, too."""
    rng, n = np.random.default_rng(0), 100_003
    x, w = ((rng.standard_normal(n) * 3).astype(TYPES[kind]) for _ in range(2))
    least, array = (x * w)[::-1].copy(), f"{kind}[{n}]"
    least[::2] = (x * w)[::2]
    for wide in (kind, "f32"):
        module = hloom.parse(f"""HloModule m
ENTRY e {{
  x = {array} parameter(0)
  w = {array} parameter(1)
  m = {array} parameter(2)
  y = {array} multiply(x, w)
  a = {wide}[{n}] convert(y)
  b = {wide}[{n}] convert(m)
  zero = {wide}[] constant(0)
  zb = {wide}[{n}] broadcast(zero), dimensions={{}}
  c = pred[{n}] compare(a, b), direction=GE
  d = {wide}[{n}] subtract(a, b)
  s = {wide}[{n}] sqrt(d)
  ROOT guarded = {wide}[{n}] select(c, s, zb)
}}""")
        found = np.asarray(hloom.compile(module)(x, w, least)).astype(np.float32)
        difference = (x * w).astype(np.float32) - least.astype(np.float32)
        np.testing.assert_allclose(found, np.sqrt(np.maximum(difference, 0)), rtol=1e-2, atol=1e-3)


def test_what_f16_holds_as_zero_is_no_divisor() -> None:
    """1e-5 squared is above zero with further digits; one divided by it is infinite in f16."""
    module = hloom.parse("""HloModule m
ENTRY e {
  x = f16[37] parameter(0)
  y = f16[37] multiply(x, x)
  zero = f16[] constant(0)
  one = f16[] constant(1)
  zb = f16[37] broadcast(zero), dimensions={}
  ob = f16[37] broadcast(one), dimensions={}
  c = pred[37] compare(y, zb), direction=NE
  q = f16[37] divide(ob, y)
  ROOT guarded = f16[37] select(c, q, zb)
}""")
    found = np.asarray(hloom.compile(module)(np.full(37, 1e-5, np.float16)))
    np.testing.assert_array_equal(found, np.zeros(37))
