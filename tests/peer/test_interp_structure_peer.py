"""Data movement, reductions, gather, scatter and sort, compared with XLA on the CPU.

JAX functions are lowered to HLO; our interpreter evaluates that text, XLA compiles it. Programs
JAX does not write (windows with odd initial values, scans) are compared as text.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

jax = pytest.importorskip("jax")
pytest.importorskip("jaxlib")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from hloom.interp import evaluate  # noqa: E402
from hloom.ir.text import parse_module  # noqa: E402

try:
    from jaxlib import _hlo
    from jaxlib import _jax as _jaxlib
except ImportError:
    _hlo = None


def leaves(value):
    return [x for e in value.elements for x in leaves(e)] if value.is_tuple else [value.array]


def compared(found, expected, tolerance):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        b = np.asarray(b)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if b.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b)
        else:
            wide = np.complex128 if b.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(
                a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance
            )


def check(function, *arguments, tolerance=1e-5):
    """Our evaluation of the HLO of a JAX function equals what JAX returns."""
    with jax.enable_x64(True):
        arguments = [np.asarray(x) for x in arguments]
        lowered = jax.jit(function, keep_unused=True).lower(*arguments)
        text = lowered.compiler_ir("hlo").as_hlo_text()
        expected = jax.tree.leaves(jax.jit(function)(*arguments))
    compared(leaves(evaluate(parse_module(text), *arguments)), expected, tolerance)


def on_xla(text, *arguments):
    """What XLA's CPU backend computes for HLO text."""
    if _hlo is None:
        pytest.skip("this jaxlib does not read HLO text")
    from jaxlib import xla_client

    client = jax.devices("cpu")[0].client
    parsed = _hlo.hlo_module_from_text(text)
    computation = _hlo.XlaComputation(parsed.as_serialized_hlo_module_proto())
    portable = _jaxlib.mlir.xla_computation_to_mlir_module(computation)
    devices = xla_client.DeviceList(tuple(client.devices()[:1]))
    program = client.compile_and_load(portable, devices, xla_client.CompileOptions())
    with jax.enable_x64(True):
        held = [jax.device_put(x) for x in arguments]
        results = program.execute_sharded(held).disassemble_into_single_device_arrays()
        return [np.asarray(r[0]) for r in results]


def check_text(text, *arguments, tolerance=1e-5):
    text = "HloModule m\n" + text
    found = leaves(evaluate(parse_module(text), *arguments))
    compared(found, on_xla(text, *arguments), tolerance)


def normal(*dims, seed=0, t=np.float32):
    return np.random.default_rng(seed).normal(size=dims).astype(t)


def whole(*dims, low=-9, high=9, seed=0, t=np.int32):
    return np.random.default_rng(seed).integers(low, high, dims).astype(t)


# -- what JAX programs do -----------------------------------------------------------------------

X, Y = normal(6, 7), normal(6, 7, seed=1)
N = whole(6, 7)
ROWS = whole(5, low=-8, high=8)

FUNCTIONS = {
    "index rows": lambda: (lambda x, i: x[i], X, ROWS),
    "index clipped": lambda: (lambda x, i: jnp.take(x, i, axis=1, mode="clip"), X, ROWS),
    "index filled": lambda: (lambda x, i: jnp.take(x, i, axis=0, mode="fill"), X, ROWS),
    "take along": lambda: (
        lambda x, i: jnp.take_along_axis(x, i, 1),
        X,
        whole(6, 3, low=0, high=7),
    ),
    "index two": lambda: (lambda x, i, j: x[i, j], X, ROWS, ROWS),
    "strided": lambda: (lambda x: x[::-2, 1::3], X),
    "masked": lambda: (lambda x: jnp.where(x > 0, x, 0).at[1:3].set(7), X),
    "add at": lambda: (lambda x, i: x.at[i].add(2.5), X, ROWS),
    "multiply at": lambda: (lambda x, i, u: x.at[i].multiply(u), X, ROWS, normal(5, 7)),
    "max at": lambda: (lambda x, i, u: x.at[:, i].max(u), X, ROWS, normal(6, 5)),
    "set at": lambda: (lambda x, i: x.at[i, i].set(3), X, whole(4, low=0, high=6)),
    "vmapped set": lambda: (
        jax.vmap(lambda x, i, u: x.at[i].set(u, mode="drop")),
        X,
        whole(6, high=9),
        normal(6),
    ),
    "vmapped index": lambda: (jax.vmap(lambda x, i: x[i]), X, whole(6, 3)),
    "vmapped slice": lambda: (jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (3,))), X, whole(6)),
    "vmapped update": lambda: (
        jax.vmap(lambda x, i, u: lax.dynamic_update_slice(x, u, (i,))),
        X,
        whole(6),
        normal(6, 2),
    ),
    "segment sum": lambda: (lambda x, i: jax.ops.segment_sum(x, i, 4), X, whole(6, low=0, high=5)),
    "bincount": lambda: (lambda n: jnp.bincount(n.reshape(-1), length=9), abs(N)),
    "gather gradient": lambda: (jax.grad(lambda x, i: jnp.sin(x[i]).sum()), X, ROWS),
    "sum": lambda: (lambda x: (x.sum(), x.sum(0), x.sum(1), x.mean()), X),
    "prod": lambda: (lambda x: (x.prod(0), x.prod()), X),
    "max": lambda: (lambda x: (x.max(), x.min(0), x.argmax(1), x.argmin(0)), X),
    "argmax nan": lambda: (
        lambda x: (x.argmax(), x.argmin(1)),
        np.where(X > 1, np.float32(np.nan), X),
    ),
    "any": lambda: (lambda x: ((x > 1).any(0), (x > -1).all(1)), X),
    "bits": lambda: (
        lambda n: (lax.reduce_and(n, (0,)), lax.reduce_or(n, (1,)), lax.reduce_xor(n, (0, 1))),
        N,
    ),
    "variance": lambda: (lambda x: (x.var(0), x.std()), X),
    "logsumexp": lambda: (jax.nn.logsumexp, X),
    "softmax": lambda: (lambda x: jax.nn.softmax(x, axis=0), X),
    "cumsum": lambda: (lambda x: (jnp.cumsum(x, 0), jnp.cumsum(x)), X),
    "cumulative": lambda: (
        lambda x: (
            lax.cummax(x, 0),
            lax.cummin(x, 1, reverse=True),
            lax.cumprod(x, 0),
            lax.cumlogsumexp(x, 1),
        ),
        X,
    ),
    "associative scan": lambda: (
        lambda x, y: lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, y)),
        X,
        Y,
    ),
    "sort": lambda: (lambda x: (jnp.sort(x, 0), jnp.sort(x, descending=True)), X),
    "argsort": lambda: (lambda x: (jnp.argsort(x), jnp.argsort(x, 0, descending=True)), N),
    "sort nan": lambda: (jnp.sort, np.where(X > 1, np.float32(np.nan), X)),
    "sort keys": lambda: (lambda n, x: lax.sort((n % 3, x, x * 2), num_keys=2), N, X),
    "sort half": lambda: (lambda x: jnp.sort(x.astype(jnp.bfloat16)), X),
    "sort complex": lambda: (lambda x, y: jnp.sort(jnp.round(x) + 1j * y), X, Y),
    "lexsort": lambda: (lambda n, x: jnp.lexsort((x, n)), N, X),
    "unique": lambda: (lambda n: jnp.unique(n, size=30, return_inverse=True), N),
    "searchsorted": lambda: (lambda x, y: jnp.searchsorted(jnp.sort(x[0]), y), X, Y),
    "median": lambda: (lambda x: (jnp.median(x, 0), jnp.quantile(x, 0.3)), X),
    "top k": lambda: (lambda x: lax.top_k(x, 3), np.where(X > 1, np.float32(np.nan), X)),
    "top k integers": lambda: (lambda n: lax.top_k(n, 5), N),
    "pad": lambda: (lambda x: lax.pad(x, jnp.float32(9), ((1, -2, 2), (-1, 3, 0))), X),
    "pad modes": lambda: (lambda x: (jnp.pad(x, 2, mode="reflect"), jnp.pad(x, 3, mode="edge")), X),
    "concatenate": lambda: (lambda x, y: jnp.concatenate([x, y, x], 1), X, Y),
    "roll": lambda: (lambda x: jnp.roll(x, (2, -3), (0, 1)), X),
    "transposes": lambda: (lambda x: (x.T, x.reshape(2, 3, 7).transpose(2, 0, 1)), X),
    "tile": lambda: (lambda x: jnp.tile(x, (2, 3)), X),
    "iota": lambda: (lambda x: (jnp.arange(5.0), lax.broadcasted_iota(jnp.int8, (3, 4), 1)), X),
    "triangular": lambda: (lambda x: (jnp.tril(x), jnp.triu(x, 2)), X),
    "diagonal": lambda: (lambda x: (jnp.diag(x[0]), jnp.diagonal(x, 1), jnp.trace(x)), X),
    "histogram": lambda: (lambda x: jnp.histogram(x, 5)[0], X),
    "interpolate": lambda: (lambda x: jnp.interp(x[0], jnp.arange(4.0), jnp.arange(4.0) ** 2), X),
    "nonzero": lambda: (lambda n: jnp.nonzero(n > 0, size=20, fill_value=-1), N),
    "scan": lambda: (
        lambda x: lax.scan(lambda c, row: (c * 0.5 + row, c.sum()), jnp.zeros(7), x),
        X,
    ),
    "bitcast": lambda: (lambda x: lax.bitcast_convert_type(x, jnp.uint32), X),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jax_function(name):
    check(*FUNCTIONS[name]())


POOLS = {
    "max": lambda x, w, s, p: lax.reduce_window(x, -jnp.inf, lax.max, w, s, p),
    "sum": lambda x, w, s, p: lax.reduce_window(x, 0.0, lax.add, w, s, p),
    "product": lambda x, w, s, p: lax.reduce_window(x, np.float32(1), lambda a, b: a * b, w, s, p),
}


@pytest.mark.parametrize("kind", POOLS)
@settings(max_examples=6)
@given(st.data())
def test_pooling_and_its_gradient(kind, data):
    rank = data.draw(st.integers(1, 3))
    dims = [data.draw(st.integers(4, 7)) for _ in range(rank)]
    window = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    strides = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    padding = [(data.draw(st.integers(0, w - 1)), data.draw(st.integers(0, w - 1))) for w in window]

    def pool(x):
        return POOLS[kind](x, window, strides, padding)

    x = normal(*dims)
    check(pool, x)
    if kind != "product":
        check(jax.grad(lambda x: (pool(x) ** 2).sum()), x)


# -- programs as text ---------------------------------------------------------------------------


def combiner(expression, t="f32", name="f"):
    return f"""{name} {{
      a = {t}[] parameter(0)
      b = {t}[] parameter(1)
      two = {t}[] constant(2)
      m = {t}[] multiply(a, two)
      ROOT r = {t}[] {expression} }}
    """


WINDOWS = [
    ("size=2 pad=1_1", 6),
    ("size=3 stride=2 pad=2_1", 3),
    ("size=2 stride=3 pad=2_1 lhs_dilate=2 rhs_dilate=2", 4),
    ("size=3 pad=-1_2 lhs_dilate=3", 12),
    ("size=3 rhs_dilate=2 pad=0_-1", 0),
]


@pytest.mark.parametrize(
    "expression", ["add(a, b)", "maximum(a, b)", "add(m, b)", "subtract(a, b)"]
)
@pytest.mark.parametrize(("window", "count"), WINDOWS)
def test_windows_with_an_initial_value_of_their_own(window, count, expression):
    text = (
        combiner(expression)
        + f"""ENTRY e {{
      p = f32[5] parameter(0)
      i = f32[] constant(100)
      ROOT r = f32[{count}] reduce-window(p, i), window={{{window}}}, to_apply=f }}"""
    )
    check_text(text, np.arange(1, 6, dtype=np.float32))


@pytest.mark.parametrize("select", ["GE", "GT", "LE"])
@pytest.mark.parametrize("expression", ["add(a, b)", "add(m, b)", "subtract(a, b)"])
def test_select_and_scatter_with_ties(expression, select):
    text = (
        combiner(expression)
        + f"""g {{
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT r = pred[] compare(a, b), direction={select} }}
    ENTRY e {{
      p = f32[6] parameter(0)
      s = f32[6] parameter(1)
      i = f32[] constant(100)
      ROOT r = f32[6] select-and-scatter(p, s, i), window={{size=2 pad=1_0}}, select=g,
        scatter=f }}"""
    )
    check_text(text, np.float32([1, 5, 5, 2, 9, 9]), np.float32([1, 10, 2, 3, 4, 5]))


@pytest.mark.parametrize("reverse", ["true", "false"])
def test_scan(reverse):
    text = f"""body {{
      x = f32[3] parameter(0)
      y = s32[3] parameter(1)
      c = f32[3] parameter(2)
      d = s32[] parameter(3)
      o = f32[3] subtract(x, c)
      w = s32[3] broadcast(d), dimensions={{}}
      v = s32[3] add(y, w)
      one = s32[] constant(1)
      n = s32[] add(d, one)
      ROOT r = (f32[3], s32[3], f32[3], s32[]) tuple(o, v, x, n) }}
    ENTRY e {{
      p = f32[3,4] parameter(0)
      q = s32[3,4] parameter(1)
      i = f32[3] parameter(2)
      j = s32[] parameter(3)
      ROOT r = (f32[3,4], s32[3,4], f32[3], s32[]) scan(p, q, i, j), dimensions={{1}},
        num_carries=2, is_reverse={reverse}, to_apply=body }}"""
    check_text(text, normal(3, 4), whole(3, 4), normal(3), np.int32(100))


@pytest.mark.parametrize("largest", ["true", "false"])
def test_topk(largest):
    x = np.float32([3, np.copysign(np.nan, -1), -0.0, 0.0, np.nan, np.inf, 3, 0.0])
    text = f"""ENTRY e {{
      p = f32[8] parameter(0)
      ROOT r = (f32[8], s32[8]) topk(p), k=8, largest={largest} }}"""
    check_text(text, x)


@pytest.mark.parametrize("count", [3, 8, 15, 40, 300])
def test_sort_of_nan_by_a_plain_comparison(count):
    """No order at all, so this depends on the algorithm."""
    x = whole(20, count, low=0, t=np.float32)
    x[np.random.default_rng(1).random(x.shape) < 0.2] = np.nan
    shape = f"[20,{count}]"
    text = f"""less {{
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      c = s32[] parameter(2)
      d = s32[] parameter(3)
      ROOT r = pred[] compare(a, b), direction=LT }}
    ENTRY e {{
      x = f32{shape} parameter(0)
      n = s32{shape} iota(), iota_dimension=1
      ROOT r = (f32{shape}, s32{shape}) sort(x, n), dimensions={{1}}, is_stable=true,
        to_apply=less }}"""
    check_text(text, x)


SCATTERS = ["add(a, b)", "subtract(a, b)", "copy(b)", "add(m, b)", "maximum(a, b)"]


@pytest.mark.parametrize("expression", SCATTERS)
def test_scatter_in_order(expression):
    text = (
        combiner(expression)
        + """ENTRY e {
      x = f32[5,4] parameter(0)
      i = s32[6,1] parameter(1)
      u = f32[6,3] parameter(2)
      ROOT r = f32[5,4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f }"""
    )
    check_text(text, normal(5, 4), np.int32([[1], [1], [-1], [5], [0], [1]]), normal(6, 3))


@pytest.mark.parametrize("t", ["s8", "u8", "s32", "u32", "s64", "u64"])
def test_gather_clamps_indices_of_every_type(t):
    from hloom.types.dtype import dtype

    numpy_type = dtype(t).numpy
    limits = np.iinfo(numpy_type)
    indices = np.array([0, 3, limits.max, limits.min, 299 % (limits.max + 1)], numpy_type)
    text = f"""ENTRY e {{
      x = f32[300] parameter(0)
      i = {t}[5] parameter(1)
      ROOT r = f32[5,2] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{}},
        start_index_map={{0}}, index_vector_dim=1, slice_sizes={{2}} }}"""
    check_text(text, normal(300), indices)


@pytest.mark.parametrize("feature", [0, 2])
def test_batch_norm(feature):
    c = (4, 3, 5)[feature]
    k, v, rest = "f32[4,3,5]", f"f32[{c}]", f"epsilon=0.001, feature_index={feature}"
    text = f"""ENTRY e {{
      x = {k} parameter(0)
      g = {k} parameter(1)
      s = {v} parameter(2)
      o = {v} parameter(3)
      a = ({k}, {v}, {v}) batch-norm-training(x, s, o), {rest}
      y = {k} get-tuple-element(a), index=0
      m = {v} get-tuple-element(a), index=1
      w = {v} get-tuple-element(a), index=2
      b = {k} batch-norm-inference(x, s, o, m, w), {rest}
      d = ({k}, {v}, {v}) batch-norm-grad(x, s, m, w, g), {rest}
      d0 = {k} get-tuple-element(d), index=0
      d1 = {v} get-tuple-element(d), index=1
      d2 = {v} get-tuple-element(d), index=2
      ROOT r = ({k}, {v}, {v}, {k}, {k}, {v}, {v}) tuple(y, m, w, b, d0, d1, d2) }}"""
    arguments = normal(4, 3, 5), normal(4, 3, 5, seed=1), normal(c), normal(c, seed=2)
    check_text(text, *arguments, tolerance=1e-4)
