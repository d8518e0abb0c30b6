"""Products whose columns or rows are split and exchanged: what writes tiles has to be proved, that
the tiles at the ends of rows are moved back included. Compiling is strict in tests."""

from __future__ import annotations

import numpy as np
import pytest

import hloom

PRODUCT = """HloModule product
ENTRY e {{
  x = f32[{m},{k}] parameter(0)
  y = f32[{n},{k}] parameter(1)
  d = f32[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  c = s8[{m},{n}] convert(d)
  r = s8[{shape}] reshape(c)
  ROOT t = s8[{to}] transpose(r), dimensions={{{order}}}
}}"""


def check(text: str) -> None:
    module = hloom.parse(text)
    arguments = hloom.random_arguments(module, seed=1)
    x, y = [np.rint(2 * a.array).astype(np.float32) for a in arguments]
    made = hloom.compile(module)(x, y)
    np.testing.assert_array_equal(np.asarray(made), hloom.evaluate(module, x, y).array)


@pytest.mark.parametrize("m, a, b, k", [(14, 8, 112, 2), (12, 16, 24, 3), (10, 40, 40, 2)])
def test_products_with_split_columns_are_proved(m: int, a: int, b: int, k: int) -> None:
    shapes = {"shape": f"{m},{a},{b}", "to": f"{a},{m},{b}", "order": "1,0,2"}
    check(PRODUCT.format(m=m, n=a * b, k=k, **shapes))


def test_products_with_split_rows_are_proved() -> None:
    shapes = {"shape": "5,2,220", "to": "2,220,5", "order": "1,2,0"}
    check(PRODUCT.format(m=10, n=220, k=1, **shapes))
