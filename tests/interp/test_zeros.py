"""Folds by maximum and minimum take 0 as larger than -0, whoever folds: numpy, rounds, windows."""

import ml_dtypes
import numpy as np
import pytest

import hloom
from hloom.interp import evaluate
from hloom.ir.text import parse_module

TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8e5m2": ml_dtypes.float8_e5m2,
}
BODY = """f {{ a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT r = {t}[] {op}(a, b) }}
g {{ a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  c = {t}[] {op}(a, b)
  ROOT r = ({t}[], {t}[]) tuple(c, c) }}
ge {{ a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE }}
ENTRY e {{ x = {t}[{n}] parameter(0)
  i = {t}[] constant({i})
  {root} }}
"""
FOLDS = {
    "reduce": "ROOT r = {t}[] reduce(x, i), dimensions={{0}}, to_apply=f",
    "rows": """y = {t}[{n},3] broadcast(x), dimensions={{0}}
  ROOT r = {t}[3] reduce(y, i), dimensions={{0}}, to_apply=f""",
    "reduce-window": "ROOT r = {t}[1] reduce-window(x, i), window={{size={n}}}, to_apply=f",
    "scan": """s = ({t}[{n}], {t}[]) scan(x, i), dimensions={{0}}, num_carries=1, to_apply=g
  ROOT r = {t}[] get-tuple-element(s), index=1""",
    "scatter": """o = {t}[1] broadcast(i), dimensions={{}}
  z = s32[] constant(0)
  at = s32[{n},1] broadcast(z), dimensions={{}}
  ROOT r = {t}[1] scatter(o, at, x), update_window_dims={{}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=f""",
}


def folded(opcode: str, values: list[float]) -> float:
    """The largest or smallest of some zeros and others, from left to right."""
    found = values[0]
    for x in values[1:]:
        if x == found == 0:
            found = x if np.signbit(x) == (opcode == "minimum") else found
        else:
            found = max(x, found) if opcode == "maximum" else min(x, found)
    return found


def program(fold: str, opcode: str, t: str, n: int, start: float) -> hloom.Module:
    inits = {"t": t, "op": opcode, "n": n, "i": str(start)}
    return parse_module(BODY.format(root=FOLDS[fold].format(**inits), **inits))


@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("fold", FOLDS)
def test_zeros_have_an_order(fold: str, t: str, opcode: str):
    far = -np.inf if opcode == "maximum" else np.inf
    side = -1.0 if opcode == "maximum" else 1.0
    cases = [[0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0], [side, -0.0, 0.0, side], [side, 0.0, -0.0],
             [0.0] * 2, [side] * 2, [-0.0] * 40 + [0.0] * 40, [0.0] * 40 + [-0.0] * 40]  # fmt: skip
    for values in cases:
        for start in (far, 0.0, -0.0):
            want = folded(opcode, [start, *values])
            module = program(fold, opcode, t, len(values), start)
            got = evaluate(module, np.array(values, TYPES[t])).array.astype(np.float64)
            assert np.all(got == want), (values, start, got)
            assert np.all(np.signbit(got) == np.signbit(want)), (values, start, got)


@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
@pytest.mark.parametrize("fold", FOLDS)
def test_machine_code_orders_them_too(fold: str, opcode: str):
    far = -np.inf if opcode == "maximum" else np.inf
    for values in ([0.0, -0.0], [-0.0] * 70 + [0.0] * 3):
        module = program(fold, opcode, "f32", len(values), far)
        x = np.array(values, np.float32)
        got, want = np.asarray(hloom.compile(module)(x)), evaluate(module, x).array
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
