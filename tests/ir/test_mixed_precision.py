"""What instructions on floats of different precision mean, in numbers."""

import ml_dtypes
import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError, VerifyError
from hloom.interp import evaluate, evaluate_lockstep
from hloom.ir.copy import copy_module
from hloom.ir.mixed_precision import holding, is_mixed, unify
from hloom.ir.text import parse_module, show_module
from hloom.ir.verify import verify
from hloom.types.dtype import BF16, BY_NAME, F16, F32, F64

bf16 = ml_dtypes.bfloat16
SUM = "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n"


def both(text: str, *arrays: np.ndarray) -> np.ndarray:
    """The value of a program in the interpreter, which machine code gives too."""
    module = parse_module(text)
    verify(module)
    assert is_mixed(module)
    before = show_module(module)
    want = evaluate(module, *arrays).array
    got = np.asarray(hloom.compile(module)(*arrays))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
    assert show_module(module) == before
    return want


def test_a_type_that_holds_all():
    assert holding([BF16, F32]) is F32
    assert holding([F16, BF16]) is F32
    assert holding([F16, F64, BF16]) is F64
    assert holding([BY_NAME["f8e4m3fn"], F16]) is F16
    assert holding([BF16]) is BF16


def test_arithmetic_is_done_in_the_widest_type_and_rounded_once():
    x = np.array([1.0, 256.0, 1e-3], np.float32)
    y = np.array([2.0**-7, 1.0, 3.0], bf16)
    text = "ENTRY e { x = f32[3] parameter(0)\n y = bf16[3] parameter(1)\n ROOT r = {} }"
    wide = both(text.replace("{}", "f32[3] add(x, y)"), x, y)
    np.testing.assert_array_equal(wide, x + y.astype(np.float32))
    narrow = both(text.replace("{}", "bf16[3] add(x, y)"), x, y)
    np.testing.assert_array_equal(narrow, (x + y.astype(np.float32)).astype(bf16))


@pytest.mark.parametrize("opcode", ["reshape", "copy", "negate"])
@pytest.mark.parametrize("size", [1, 7, 64, 5000])
def test_a_narrow_result_does_not_hold_the_bytes_of_a_wide_operand(opcode: str, size: int):
    x = np.arange(size, dtype=np.float32) / 3
    text = f"ENTRY e {{ x = f32[{size}] parameter(0)\n ROOT r = bf16[{size}] {opcode}(x) }}"
    want = -x if opcode == "negate" else x
    np.testing.assert_array_equal(both(text, x), want.astype(bf16))


def test_a_wide_result_does_not_reach_behind_a_narrow_operand():
    x = np.arange(6, dtype=np.float32).astype(bf16).reshape(2, 3)
    text = """ENTRY e { x = bf16[2,3] parameter(0)
      ROOT r = f64[2,3,4] broadcast(x), dimensions={0,1} }"""
    want = np.broadcast_to(x.astype(np.float64)[..., None], (2, 3, 4))
    np.testing.assert_array_equal(both(text, x), want)


def test_parts_have_the_type_of_the_whole():
    x, y = np.array([1 / 3, 2], np.float32), np.array([1.5], bf16)
    text = """ENTRY e { x = f32[2] parameter(0)
      y = bf16[1] parameter(1)
      ROOT r = f16[3] concatenate(x, y), dimensions={0} }"""
    np.testing.assert_array_equal(both(text, x, y), np.array([1 / 3, 2, 1.5], np.float16))


def test_a_fold_is_done_in_the_type_of_its_reducer():
    x = np.full(3000, 1 + 2.0**-7, bf16)
    text = (
        SUM
        + """ENTRY e { x = bf16[3000] parameter(0)
      zero = bf16[] constant(0)
      ROOT r = f32[] reduce(x, zero), dimensions={0}, to_apply=sum }"""
    )
    assert both(text, x) == np.float32(3000 * (1 + 2.0**-7))
    windowed = text.replace("ROOT r = f32[] reduce(x, zero), dimensions={0}", """
      ROOT r = bf16[1] reduce-window(x, zero), window={size=3000}""")  # fmt: skip
    assert both(windowed, x)[0] == bf16(3000 * (1 + 2.0**-7))


def test_an_update_is_rounded_to_what_it_goes_into():
    x, u = np.zeros(4, bf16), np.array([1 / 3, 1e-3], np.float32)
    text = """ENTRY e { x = bf16[4] parameter(0)
      u = f32[2] parameter(1)
      one = s32[] constant(1)
      ROOT r = bf16[4] dynamic-update-slice(x, u, one) }"""
    want = np.array([0, 1 / 3, 1e-3, 0], bf16)
    np.testing.assert_array_equal(both(text, x, u), want)


def test_a_comparator_sees_other_types_and_elements_stay():
    x = np.array([3, -1, 2], bf16)
    text = """less { a = f32[] parameter(0)
      b = f16[] parameter(1)
      c = f32[] convert(b)
      ROOT l = pred[] compare(a, c), direction=LT }
    ENTRY e { x = bf16[3] parameter(0)
      ROOT r = bf16[3] sort(x), dimensions={0}, to_apply=less }"""
    np.testing.assert_array_equal(both(text, x), np.sort(x))


def test_inside_an_asynchronous_operation():
    x, y = np.array([1.0, 2.0], np.float32), np.array([0.5, 0.25], bf16)
    text = """wrapped { a = f32[2] parameter(0)
      b = bf16[2] parameter(1)
      ROOT s = f32[2] add(a, b) }
    ENTRY e { x = f32[2] parameter(0)
      y = bf16[2] parameter(1)
      s = ((f32[2], bf16[2]), f32[2], s32[]) async-start(x, y), calls=wrapped
      ROOT d = f32[2] async-done(s) }"""
    np.testing.assert_array_equal(both(text, x, y), [1.5, 2.25])


DEVICES = 2
OVER_DEVICES = {
    "all-reduce": "bf16[2] all-reduce(x), replica_groups={{0,1}}, to_apply=sum",
    "all-gather": "f32[4] all-gather(x), replica_groups={{0,1}}, dimensions={0}",
    "reduce-scatter": """f32[1] reduce-scatter(x), replica_groups={{0,1}}, dimensions={0},
      to_apply=sum""",
    "all-to-all": "f32[2] all-to-all(x), replica_groups={{0,1}}, dimensions={0}",
    "collective-permute": "f64[2] collective-permute(x), source_target_pairs={{0,1},{1,0}}",
    "collective-broadcast": "f32[2] collective-broadcast(x), replica_groups={{0,1}}",
}


@pytest.mark.parametrize("opcode", OVER_DEVICES)
def test_over_devices_it_is_what_converts_would_give(opcode: str):
    head = f"HloModule m, replica_count={DEVICES}\n{SUM}"
    text = f"{head}ENTRY e {{ x = bf16[2] parameter(0)\n ROOT r = {OVER_DEVICES[opcode]} }}"
    module = parse_module(text)
    verify(module)
    assert is_mixed(module)
    x = [np.array([1, 2**-8], bf16), np.array([256, 1], bf16)]
    got = evaluate_lockstep(module, [[a] for a in x])
    wide = text.replace(
        "x = bf16[2] parameter(0)",
        """x = bf16[2] parameter(0)
      c = f32[2] convert(x)""",
    )
    wide = (
        wide.replace("(x),", "(c),").replace("ROOT r = bf16", "ROOT r = f32").replace("f64", "f32")
    )
    want = evaluate_lockstep(parse_module(wide), [[a] for a in x])
    for mine, his in zip(got, want, strict=True):
        assert mine.shape.dtype is module.entry.root.shape.dtype
        np.testing.assert_array_equal(mine.array, his.array.astype(mine.array.dtype))


def test_a_start_that_changes_its_type_has_no_meaning():
    text = f"""HloModule m, replica_count={DEVICES}
    {SUM}
    ENTRY e {{ x = bf16[2] parameter(0)
      s = f32[2] all-reduce-start(x), replica_groups={{{{0,1}}}}, to_apply=sum
      ROOT d = f32[2] all-reduce-done(s) }}"""
    module = parse_module(text)
    message = r"all-reduce-start of bf16\[2\] gives no f32\[2\]"
    with pytest.raises(HloError, match=message):
        unify(copy_module(module))
    with pytest.raises(VerifyError, match=message):  # so that no pass meets it
        verify(module)


def test_a_start_that_gives_another_type_than_its_operands_is_refused():
    text = """HloModule m, num_partitions=4
    ENTRY e {
      x = f32[1,2] parameter(0)
      y = f32[1,2] parameter(1)
      s = ((f32[1,2], f32[1,2]), (bf16[1,2], f32[1,2])) all-gather-start(x, y), channel_id=5,
        replica_groups={{0},{1},{2},{3}}, dimensions={1}, use_global_device_ids=true
      ROOT d = (f32[1,2], f32[1,2]) all-gather-done(s)
    }"""
    with pytest.raises(VerifyError, match="its floats differ in precision"):
        verify(parse_module(text))
    verify(parse_module(text.replace("bf16", "f32")))


def test_without_the_pass_nothing_is_compiled():
    module = parse_module("ENTRY e { x = f32[2] parameter(0)\n ROOT r = bf16[2] negate(x) }")
    options = {"disable_hlo_passes": ["mixed-precision-removal"]}
    with pytest.raises(HloError, match="mixes floats of different precision"):
        hloom.compile(module, options=options)
