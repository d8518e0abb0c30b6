"""dot, scaled-dot and ragged-dot on every type, against sums written out in f64 or Python ints."""

import numpy as np
import pytest

from hloom.base.diagnostics import EvalError
from hloom.types.dtype import BY_NAME, FLOAT_TYPES, INTEGER_TYPES
from tests.interp.one_op import drawn, run, shape, wrapped

FLOATS = [t.name for t in FLOAT_TYPES]
INTEGERS = [t.name for t in INTEGER_TYPES]
MATRICES = {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,)}


@pytest.mark.parametrize("type_name", FLOATS)
def test_float_dot(type_name: str) -> None:
    x, y = drawn((5, 7), type_name), drawn((7, 4), type_name, 1)
    got = run("dot", x, y, dims=(5, 4), **MATRICES)
    exact = x.astype(np.float64) @ y.astype(np.float64)
    wanted = exact.astype(np.float32).astype(x.dtype)
    assert got.dtype == x.dtype
    if BY_NAME[type_name].bits >= 16:
        tolerance = {"f64": 1e-15, "f32": 1e-6, "f16": 1e-3, "bf16": 1e-2}[type_name]
        scale = np.abs(x.astype(float)) @ np.abs(y.astype(float))
        assert (np.abs(got.astype(float) - exact) <= tolerance * scale).all()
    else:
        same = (got == wanted) | (np.isnan(got.astype(float)) & np.isnan(wanted.astype(float)))
        assert same.all()


@pytest.mark.parametrize("type_name", INTEGERS)
def test_integer_dot_wraps(type_name: str) -> None:
    x, y = drawn((5, 7), type_name), drawn((7, 4), type_name, 1)
    got = run("dot", x, y, dims=(5, 4), **MATRICES)
    wanted = np.array([[int(v) for v in row] for row in x], object) @ np.array(
        [[int(v) for v in row] for row in y], object
    )
    assert got.dtype == x.dtype
    assert [int(v) for v in got.ravel()] == wrapped(wanted, type_name)


@pytest.mark.parametrize(
    ("operand", "result"),
    [("s8", "s32"), ("u8", "s32"), ("s4", "s8"), ("s32", "s64"), ("u32", "u64"), ("s16", "s16")],
)
def test_wider_integer_result(operand: str, result: str) -> None:
    x, y = drawn((3, 300), operand), drawn((300, 2), operand, 1)
    got = run("dot", x, y, result=result, dims=(3, 2), **MATRICES)
    wanted = x.astype(np.int64).astype(object) @ y.astype(np.int64).astype(object)
    assert got.dtype == BY_NAME[result].numpy
    assert [int(v) for v in got.ravel()] == wrapped(wanted, result)


def test_wider_float_result_is_not_rounded_to_the_operands_type() -> None:
    x, y = drawn((3, 64), "bf16"), drawn((64, 2), "bf16", 1)
    got = run("dot", x, y, result="f32", dims=(3, 2), **MATRICES)
    assert np.allclose(got, x.astype(float) @ y.astype(float), rtol=1e-5, atol=1e-6)
    half = run("dot", x, y, dims=(3, 2), **MATRICES)
    assert (half == got.astype(half.dtype)).all()


@pytest.mark.parametrize("types", [("f8e4m3fn", "f8e5m2"), ("bf16", "f32"), ("s8", "bf16")])
def test_operands_of_two_types(types: tuple[str, str]) -> None:
    x, y = drawn((3, 16), types[0]), drawn((16, 2), types[1], 1)
    got = run("dot", x, y, result="f32", dims=(3, 2), **MATRICES)
    assert np.allclose(got, x.astype(float) @ y.astype(float), rtol=1e-5, atol=1e-4)


def test_pred_dot_asks_whether_any_pair_holds() -> None:
    x, y = drawn((4, 6), "pred"), drawn((6, 5), "pred", 1)
    got = run("dot", x, y, dims=(4, 5), **MATRICES)
    assert got.dtype == np.bool_
    assert (got == (x[:, :, None] & y[None]).any(axis=1)).all()
    assert 0 < got.sum() < got.size


@pytest.mark.parametrize("type_name", ["c64", "c128"])
def test_complex_dot_does_not_conjugate(type_name: str) -> None:
    x, y = drawn((3, 5), type_name), drawn((5, 2), type_name, 1)
    got = run("dot", x, y, dims=(3, 2), **MATRICES)
    assert got.dtype == x.dtype
    assert np.allclose(got, np.einsum("mk,kn->mn", x, y), rtol=1e-5)


def test_general_dimensions() -> None:
    """Two batch dimensions, two contracting ones, in another order on each side."""
    x, y = drawn((2, 3, 4, 5, 6), "f64"), drawn((5, 7, 3, 2, 4), "f64", 1)
    got = run(
        "dot",
        x,
        y,
        dims=(3, 2, 6, 7),
        lhs_batch_dims=(1, 0),
        rhs_batch_dims=(2, 3),
        lhs_contracting_dims=(2, 3),
        rhs_contracting_dims=(4, 0),
    )
    assert got.shape == (3, 2, 6, 7)
    assert np.allclose(got, np.einsum("abcde,dfbac->baef", x, y))


@pytest.mark.parametrize("size", [0, 1])
def test_empty_and_single_contraction(size: int) -> None:
    x, y = np.ones((2, size), np.float32), np.ones((size, 3), np.float32)
    got = run("dot", x, y, dims=(2, 3), **MATRICES)
    assert got.tolist() == [[size] * 3] * 2


def test_vector_dot_is_a_scalar() -> None:
    x = np.arange(4, dtype=np.float32)
    got = run("dot", x, x, dims=(), lhs_contracting_dims=(0,), rhs_contracting_dims=(0,))
    assert got.shape == ()
    assert got == 14


# -- algorithms ----------------------------------------------------------------------------

NORMAL = np.random.default_rng(7).standard_normal((2, 256, 256)).astype(np.float32)


def error_of(algorithm: str | None) -> float:
    x, y = NORMAL
    got = run("dot", x, y, algorithm=algorithm, **MATRICES)
    return np.abs(got - x.astype(np.float64) @ y.astype(np.float64)).max()


def test_x9_is_as_good_as_f32_and_far_better_than_bf16() -> None:
    assert error_of("dot_bf16_bf16_f32_x9") <= 4 * error_of("dot_f32_f32_f32")
    assert error_of("dot_bf16_bf16_f32_x9") <= error_of("dot_bf16_bf16_f32") / 100


def test_algorithms_are_as_exact_as_they_say() -> None:
    errors = {
        name: error_of(f"dot_{name}")
        for name in (
            "bf16_bf16_bf16",
            "f16_f16_f16",
            "bf16_bf16_f32",
            "tf32_tf32_f32",
            "f16_f16_f32",
            "bf16_bf16_f32_x3",
            "tf32_tf32_f32_x3",
            "bf16_bf16_f32_x6",
            "f64_f64_f64",
        )
    }
    assert errors["bf16_bf16_bf16"] > errors["bf16_bf16_f32"]
    assert errors["bf16_bf16_bf16"] > errors["f16_f16_f16"] > errors["f16_f16_f32"]
    assert errors["bf16_bf16_f32"] > 4 * errors["tf32_tf32_f32"]
    assert errors["f16_f16_f32"] == pytest.approx(errors["tf32_tf32_f32"], rel=0.5)
    assert errors["tf32_tf32_f32"] > 20 * errors["bf16_bf16_f32_x3"]
    assert errors["bf16_bf16_f32_x3"] > 4 * errors["bf16_bf16_f32_x6"]
    assert errors["f64_f64_f64"] < errors["tf32_tf32_f32_x3"] < errors["bf16_bf16_f32_x3"]


def test_an_algorithm_changes_exactly_the_operands_it_names() -> None:
    x = np.array([[1 + 2.0**-8, 1 + 2.0**-11, 1 + 2.0**-10]], np.float32)
    one = np.ones((1, 1), np.float32)
    for k, (bf16, tf32) in enumerate([(1.0, None), (1.0, 1.0), (1.0, None)]):
        value = x[:, k : k + 1]
        exact = float(value[0, 0])
        assert run("dot", value, one, algorithm="dot_bf16_bf16_f32", **MATRICES) == bf16
        got = run("dot", value, one, algorithm="dot_tf32_tf32_f32", **MATRICES)
        assert got == (exact if tf32 is None else tf32)
        assert run("dot", value, one, algorithm="dot_bf16_bf16_f32_x3", **MATRICES) == exact


def test_split_algorithms_keep_infinities_and_the_largest_number() -> None:
    largest = float(np.finfo(np.float32).max)
    x = np.array([[np.inf], [largest], [-np.inf], [np.nan]], np.float32)
    got = run("dot", x, np.ones((1, 1), np.float32), algorithm="dot_bf16_bf16_f32_x9", **MATRICES)
    assert got.ravel()[:3].tolist() == [np.inf, largest, -np.inf]
    assert np.isnan(got[3, 0])


# -- scaled-dot ----------------------------------------------------------------------------


@pytest.mark.parametrize("scale_type", ["f8e8m0fnu", "bf16", "f32"])
@pytest.mark.parametrize("operand", ["f8e4m3fn", "f4e2m1fn", "bf16", "f6e2m3fn"])
def test_scaled_dot(operand: str, scale_type: str) -> None:
    x, y = drawn((16, 64), operand), drawn((64, 8), operand, 1)
    powers = np.random.default_rng(2)
    scale = BY_NAME[scale_type].numpy
    x_scale = np.exp2(powers.integers(-3, 4, (16, 4))).astype(np.float32).astype(scale)
    y_scale = np.exp2(powers.integers(-3, 4, (2, 8))).astype(np.float32).astype(scale)
    got = run("scaled-dot", x, y, x_scale, y_scale, result="f32", dims=(16, 8), **MATRICES)
    left = x.astype(float) * np.repeat(x_scale.astype(float), 16, axis=1)
    right = y.astype(float) * np.repeat(y_scale.astype(float), 32, axis=0)
    assert np.allclose(got, left @ right, rtol=1e-5, atol=1e-5)


def test_scalar_scale_must_be_one() -> None:
    x, y = drawn((4, 8), "bf16"), drawn((8, 2), "f8e4m3fn", 1)
    y_scale = np.full((4, 2), 2, np.float32).astype(BY_NAME["f8e8m0fnu"].numpy)
    one, two = (np.array(v, BY_NAME["bf16"].numpy) for v in (1, 2))
    got = run("scaled-dot", x, y, one, y_scale, result="f32", dims=(4, 2), **MATRICES)
    assert np.allclose(got, x.astype(float) @ (2 * y.astype(float)), rtol=1e-5, atol=1e-5)
    with pytest.raises(EvalError, match="must be 1, but is 2"):
        run("scaled-dot", x, y, two, y_scale, result="f32", dims=(4, 2), **MATRICES)


def test_dummy_scale_does_nothing() -> None:
    x, y = drawn((4, 8), "bf16"), drawn((8, 2), "bf16", 1)
    dummy = np.ones((1, 1), x.dtype)
    got = run("scaled-dot", x, y, dummy, dummy, dims=(4, 2), **MATRICES)
    assert (got == run("dot", x, y, dims=(4, 2), **MATRICES)).all()


def test_scale_that_does_not_divide() -> None:
    x, y = drawn((16, 64), "bf16"), drawn((64, 8), "bf16")
    with pytest.raises(EvalError, match="does not divide"):
        run("scaled-dot", x, y, np.ones((16, 3), np.float32), np.float32(1), **MATRICES)


# -- ragged-dot ----------------------------------------------------------------------------


def test_ragged_free_dimension() -> None:
    x, y = drawn((9, 4), "f64"), drawn((3, 4, 5), "f64", 1)
    sizes = np.array([2, 0, 4], np.int32)  # rows 6 to 8 belong to no group
    got = run(
        "ragged-dot",
        x,
        y,
        sizes,
        dims=(9, 5),
        lhs_contracting_dims=(1,),
        rhs_contracting_dims=(1,),
        lhs_ragged_dims=(0,),
        rhs_group_dims=(0,),
    )
    wanted = np.zeros((9, 5))
    wanted[:2], wanted[2:6] = x[:2] @ y[0], x[2:6] @ y[2]
    assert np.allclose(got, wanted)


@pytest.mark.parametrize("per_batch", [True, False])
def test_ragged_free_dimension_in_a_batch(per_batch: bool) -> None:
    x, y = drawn((2, 6, 4), "f64"), drawn((4, 3, 2, 5), "f64", 1)
    sizes = np.array([[1, 2, 3], [4, 0, 1]])
    got = run(
        "ragged-dot",
        x,
        y,
        sizes if per_batch else sizes[1],
        dims=(2, 6, 5),
        lhs_batch_dims=(0,),
        rhs_batch_dims=(2,),
        lhs_contracting_dims=(2,),
        rhs_contracting_dims=(0,),
        lhs_ragged_dims=(1,),
        rhs_group_dims=(1,),
    )
    wanted = np.zeros((2, 6, 5))
    for b in range(2):
        start = 0
        for g, size in enumerate(sizes[b if per_batch else 1]):
            run_of = slice(start, start + size)
            wanted[b, run_of] = x[b, run_of] @ y[:, g, b]
            start += size
    assert np.allclose(got, wanted)


@pytest.mark.parametrize("per_batch", [True, False])
def test_ragged_contracting_dimension(per_batch: bool) -> None:
    x, y = drawn((2, 4, 7), "f64"), drawn((2, 7, 3), "f64", 1)
    y[:, 6] = np.inf  # in no group: must not leak into any
    sizes = np.array([[1, 5], [3, 2]])
    got = run(
        "ragged-dot",
        x,
        y,
        sizes if per_batch else sizes[0],
        dims=(2, 2, 4, 3),
        lhs_batch_dims=(0,),
        rhs_batch_dims=(0,),
        lhs_contracting_dims=(2,),
        rhs_contracting_dims=(1,),
        lhs_ragged_dims=(2,),
    )
    for b in range(2):
        start = 0
        for g, size in enumerate(sizes[b if per_batch else 0]):
            run_of = slice(start, start + size)
            assert np.allclose(got[g, b], x[b][:, run_of] @ y[b][run_of])
            start += size


def test_ragged_batch_dimension_is_a_plain_dot() -> None:
    x, y = drawn((4, 3, 2), "s32"), drawn((4, 2, 5), "s32", 1)
    dims = {
        "lhs_batch_dims": (0,),
        "rhs_batch_dims": (0,),
        "lhs_contracting_dims": (2,),
        "rhs_contracting_dims": (1,),
    }
    sizes = np.array([1, 3])
    got = run("ragged-dot", x, y, sizes, dims=(4, 3, 5), lhs_ragged_dims=(0,), **dims)
    assert (got == run("dot", x, y, result=shape("s32", (4, 3, 5)), **dims)).all()
