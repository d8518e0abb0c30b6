"""Errors of long sums against f64, within the bound that blocked summation has."""

import math
from itertools import pairwise

import numpy as np
import pytest

import hloom
from bench import accuracy_cases as make
from bench import accuracy_products as product
from hloom.codegen.blocked_fold import DEEP_RUN, RUN, block_sizes, chain_of

# All equal: roundings of neighbours do not cancel, unlike those of random numbers.
KINDS = ("uniform", "equal")


def allowed(length: int, run: int) -> float:
    """Epsilons that a sum of so many terms may be off by: half of one for each addition that a
    number goes through, at most 1.5 runs a level; the trees within vectors add a dozen."""
    levels = max(1, math.ceil(math.log(max(length, 2), run)))
    return 0.5 * (1.5 * run * levels + 12)


def off_by(case: make.Case, kind: str, threads: int = 2) -> float:
    """The largest error of a case, in epsilons of the sum of magnitudes."""
    given = case.arguments(kind)
    found = np.asarray(hloom.compile(hloom.parse(case.text), threads=threads)(*given))
    exact, scale = case.exact(given)
    error = np.abs(make.wide(found).reshape(np.shape(exact)) - exact) / scale
    return float(np.max(error)) / make.epsilon(case.dtype)


N = 100_003

SUMS = [
    make.reduction("f32", (N,), (0,)),
    make.reduction("f32", (N, 4), (0,)),
    make.reduction("f32", (2, N), (1,)),
    make.reduction("f32", (N, 40), (0,)),
    make.reduction("f32", (2001, 3000), (0,)),
    make.reduction("f32", (2, N, 3), (1,)),
    make.reduction("f32", (500, 4, 300), (0, 2)),
    make.reduction("f32", (8, N), (1,), (0, 1)),
    make.reduction("f64", (N,), (0,)),
    make.reduction("c64", (N, 3), (0,)),
    make.fused((2, N), 1),
    make.variadic((N,), 0),
    make.variadic((N, 5), 0),
    make.variance((N,), 0),
    make.norm((2, N), 1),
    make.cumulative("f32", (N,), 0),
    make.cumulative("f32", (N,), 0, reverse=True),
    make.cumulative("f32", (N, 3), 0),
    make.window_sum((5050, 2), 0, 5000),
    make.looped(2, N),
]
PRODUCTS = [
    product.dot("f32", 1, N, 1),
    product.dot("f32", 4, 50_000, 4),
    product.dot("f32", 1, 20_000, 300),
    product.dot("f32", 5, 20_000, 30, "mk,nk"),
    product.dot("f32", 30, 5000, 30, "km,kn"),
    product.dot("c64", 5, 5000, 6),
    product.dot("f32", 2, 5000, 3, batch=3),
    product.convolution(3000, 2000, 2, 8),
    product.weight_gradient(4, 32, 8, 8),
    product.depthwise_gradient(4, 32, 32),
    product.attention(5, 5000, 32),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", SUMS, ids=lambda c: c.name)
def test_errors_of_sums_grow_with_the_logarithm_of_their_length(case, kind):
    assert off_by(case, kind) < allowed(case.length, RUN)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", PRODUCTS, ids=lambda c: c.name)
def test_errors_of_products_grow_with_the_logarithm_of_their_depth(case, kind):
    # Products round too, and the partial sums of K in memory are added in a row.
    assert off_by(case, kind) < allowed(case.length, DEEP_RUN)


@pytest.mark.parametrize("length", [1, 16, 17, 24, 25, 32, 33, 384, 385, 4096, 4097, 10**8])
@pytest.mark.parametrize("chain", [1, 3, 16, 40])
def test_no_number_goes_through_many_additions(length, chain):
    sizes = block_sizes(length, chain)
    assert sizes == sorted(sizes)
    assert all(size % before == 0 for before, size in pairwise(sizes))
    assert chain_of(length, chain) <= max(1.5 * RUN, chain)
    if sizes:
        assert sizes[0] * chain <= max(RUN, chain)
        assert all(size // before <= RUN for before, size in pairwise(sizes))


@pytest.mark.parametrize("length", [383, 384, 385, 400, 1535, 1536, 1537, 6145])
def test_every_element_is_summed_once_at_every_size_of_blocks(length):
    rows = np.arange(3 * length, dtype=np.float64).reshape(3, length)
    for case, x in (
        (make.reduction("f64", (3, length), (1,)), rows),
        (make.reduction("f64", (length, 3), (0,)), rows.T.copy()),
        (make.cumulative("f64", (length, 3), 0), rows.T.copy()),
        (make.cumulative("f64", (3, length), 1, reverse=True), rows),
        (product.dot("f64", 3, length, 2), (rows, np.ones((length, 2)))),
    ):
        given = x if isinstance(x, tuple) else (x,)
        found = np.asarray(hloom.compile(hloom.parse(case.text))(*given))
        np.testing.assert_array_equal(found, case.value(*given).astype(np.float64))


def test_a_sum_of_negative_zeros_keeps_its_sign_in_blocks():
    case = make.reduction("f32", (5000, 3), (0,))
    text = case.text.replace("constant(0)", "constant(-0)")
    found = hloom.compile(hloom.parse(text))(np.full((5000, 3), -0.0, np.float32))
    assert np.all(np.signbit(np.asarray(found)))


@pytest.mark.parametrize("case", [SUMS[0], SUMS[4], SUMS[15], PRODUCTS[1]], ids=lambda c: c.name)
def test_sums_are_the_same_for_any_number_of_threads(case):
    given = case.arguments("normal")
    module = hloom.parse(case.text)
    found = [np.asarray(hloom.compile(module, threads=n)(*given)) for n in (1, 2, 4)]
    assert all(np.array_equal(x, found[0]) for x in found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [31, 1000, N])
def test_totals_of_cumulative_sums_of_f32_do_not_round(length, reverse, kind):
    """A result is rounded once as it is scanned within a vector, and when the total is added."""
    assert off_by(make.cumulative("f32", (length,), 0, reverse=reverse), kind) < 1.5


def test_cumulative_folds_of_another_operation():
    n = 20_003
    text = f"""HloModule m
lse {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  m = f32[] maximum(a, b)
  d = f32[] subtract(a, b)
  e = f32[] abs(d)
  n = f32[] negate(e)
  x = f32[] exponential(n)
  l = f32[] log-plus-one(x)
  ROOT s = f32[] add(m, l)
}}
ENTRY e {{
  x = f32[{n}] parameter(0)
  low = f32[] constant(-inf)
  ROOT r = f32[{n}] reduce-window(x, low), window={{size={n} pad={n - 1}_0}}, to_apply=lse
}}"""
    x = np.zeros(n, np.float32)
    error = np.asarray(hloom.compile(hloom.parse(text))(x)) - np.log(np.arange(1, n + 1))
    assert np.max(np.abs(error)) < 1e-5  # one by one it is off by 1e-4
