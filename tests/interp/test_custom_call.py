"""Custom calls: hooks, and the targets with one meaning everywhere."""

import contextlib

import numpy as np
import pytest

from hloom.base.diagnostics import EvalError
from hloom.interp import EvalOptions, evaluate
from hloom.ir.text import parse_module
from hloom.types.dtype import BY_NAME


def call(shape: str, target: str, parameters: str, more: str = ""):
    names = [f"p{k}" for k in range(len(parameters.split(";")))] if parameters else []
    lines = [
        f"{name} = {of} parameter({k})"
        for k, (name, of) in enumerate(zip(names, parameters.split(";")))
    ]
    body = "\n".join(lines)
    return parse_module(
        f"HloModule m\nENTRY e {{\n{body}\nROOT r = {shape} custom-call({', '.join(names)}), "
        f'custom_call_target="{target}"{more}\n}}'
    )


X = np.float32([3, 1, 2])


def test_an_unknown_target_names_itself_and_the_hook():
    with pytest.raises(EvalError) as caught:
        evaluate(call("f32[3]", "mystery", "f32[3]"), X)
    assert "'mystery'" in caught.value.message
    assert "custom_calls={'mystery': hook}" in caught.value.hint
    assert caught.value.instruction == "%r"


def test_a_hook_gets_the_instruction_and_the_values():
    def hook(i, x):
        assert i.attrs.custom_call_target == "double"
        return 2 * x

    module = call("f32[3]", "double", "f32[3]")
    for key in ("double", "*"):
        result = evaluate(module, X, options=EvalOptions(custom_calls={key: hook}))
        assert np.array_equal(result.array, 2 * X)


def test_what_a_hook_returns_is_checked():
    module = call("f32[3]", "bad", "f32[3]")
    with pytest.raises(
        EvalError, match=r"what the hook of 'bad' returned has shape f32.3., but f64"
    ):
        evaluate(
            module, X, options=EvalOptions(custom_calls={"bad": lambda i, x: x * np.float64(1)})
        )


def test_a_hook_that_fails_is_an_error_with_its_cause():
    def hook(i, x):
        raise KeyError("oops")

    with pytest.raises(EvalError, match="KeyError: 'oops'") as caught:
        evaluate(
            call("f32[3]", "bad", "f32[3]"), X, options=EvalOptions(custom_calls={"bad": hook})
        )
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_hook_replaces_a_built_in_meaning():
    module = call("f32[3]", "Sharding", "f32[3]")
    assert np.array_equal(evaluate(module, X).array, X)
    options = EvalOptions(custom_calls={"Sharding": lambda i, x: -x})
    assert np.array_equal(evaluate(module, X, options=options).array, -X)


@pytest.mark.parametrize(
    "target", ["Sharding", "annotate_device_placement", "MoveToHost", "MoveToDevice"]
)
def test_placements_are_identities(target):
    assert np.array_equal(evaluate(call("f32[3]", target, "f32[3]"), X).array, X)


def test_buffers_are_pinned_created_and_unpinned():
    alias = "output_to_operand_aliasing={{}: (0, {})}"
    module = parse_module(f"""HloModule m
    ENTRY e {{ x = f32[3] parameter(0)
      b = b(f32[3]) custom-call(x), custom_call_target="Pin", {alias}
      u = f32[3] custom-call(b), custom_call_target="Unpin", {alias}
      c = b(f32[3]) custom-call(), custom_call_target="CreateBuffer"
      v = f32[3] custom-call(c), custom_call_target="Unpin", {alias}
      ROOT s = f32[3] add(u, v) }}""")
    assert np.array_equal(evaluate(module, X).array, X)


def test_full_to_shard_is_known_only_where_nothing_is_cut():
    target = "SPMDFullToShardShape"
    assert np.array_equal(evaluate(call("f32[3]", target, "f32[3]"), X).array, X)
    with pytest.raises(EvalError, match=r"f32.4. into f32.2."):
        evaluate(call("f32[2]", target, "f32[4]"), np.zeros(4, np.float32))


def test_topk_is_stable_and_puts_nan_first():
    x = np.float32([[1, 3, 3, 2], [5, np.nan, 7, -np.inf]])
    result = evaluate(call("(f32[2,3], s32[2,3])", "TopK", "f32[2,4]"), x)
    values, indices = (part.array for part in result.elements)
    assert np.array_equal(indices, [[1, 2, 3], [1, 2, 0]])
    assert np.array_equal(values, np.take_along_axis(x, indices, 1), equal_nan=True)


def test_slice_to_dynamic_and_pad_to_static_undo_each_other():
    module = parse_module("""HloModule m
    ENTRY e { x = s32[3,4] parameter(0)
      a = s32[] parameter(1)
      b = s32[] parameter(2)
      d = s32[<=3,<=4] custom-call(x, a, b), custom_call_target="SliceToDynamic"
      ROOT p = (s32[3,4], s32[], s32[]) custom-call(d), custom_call_target="PadToStatic" }""")
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    padded, rows, columns = evaluate(module, x, 2, 3).elements
    expected = x.copy()
    expected[2:], expected[:, 3:] = 0, 0
    assert np.array_equal(padded.array, expected)
    assert (rows.first(), columns.first()) == (2, 3)
    with pytest.raises(EvalError, match="do not fit"):
        evaluate(module, x, 4, 3)


def compared(target: str, x: np.ndarray, y: np.ndarray, of: str) -> object:
    operand = f"{of}[{','.join(map(str, x.shape))}]"
    return evaluate(call("()", target, f"{operand};{operand}"), x, y)


ONE = np.float32([1, np.nan, -0.0, np.inf])


@pytest.mark.parametrize("target", ["eq", "almost_eq", "close"])
def test_the_checks_of_stablehlo_take_what_is_equal(target):
    """Its test programs end in such calls; NaN is NaN, and both zeros are one."""
    compared(f"check.expect_{target}", ONE, np.float32([1, np.nan, 0, np.inf]), "f32")
    complex_ = np.complex64([1 + 2j, np.nan + 1j])
    compared(f"check.expect_{target}", complex_, complex_.copy(), "c64")
    compared(f"check.expect_{target}", np.int32([7]), np.int32([7]), "s32")


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2fnuz"])
def test_a_check_allows_three_steps_of_the_type(dtype):
    of = BY_NAME[dtype].numpy
    unsigned = f"u{np.dtype(of).itemsize}"
    x = np.array([1, -2, 4]).astype(of)
    for steps in range(1, 6):
        y = (x.view(unsigned) + np.array(steps, unsigned)).view(of)
        with contextlib.ExitStack() as stack:
            if steps > 3:
                caught = stack.enter_context(pytest.raises(EvalError, match="3 of 3 differ"))
            compared("check.expect_close", x, y, dtype)
    assert caught.value.instruction == "%r"
    with pytest.raises(EvalError, match=r"at \[0\], and 3 of 3 differ"):
        compared("check.expect_eq", x, y, dtype)


def test_checks_that_fail():
    with pytest.raises(EvalError, match=r"inf was computed and 1\.0 expected at \[3\], and 1 of 4"):
        compared("check.expect_close", ONE, np.float32([1, np.nan, 0, 1]), "f32")
    with pytest.raises(EvalError, match="1 of 1 differ"):
        compared("check.expect_close", np.int32([7]), np.int32([8]), "s32")
    compared("check.expect_almost_eq", np.float32([1]), np.float32([1.0009]), "f32")
    with pytest.raises(EvalError, match="1 of 1 differ"):
        compared("check.expect_almost_eq", np.float32([1]), np.float32([1.0011]), "f32")
    x = np.float32([1, 2])
    for y in (x, x + 1):
        found = evaluate(call("pred[]", "check.eq", "f32[2];f32[2]"), x, y)
        assert bool(found.array) == (y is x)
