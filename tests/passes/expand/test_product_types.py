"""Dots of any two types into any third mean the same in the types of `product_types`."""

import numpy as np
import pytest

from hloom.interp import evaluate, random_arguments
from hloom.ir.builder import Builder
from hloom.ir.copy import copy_module
from hloom.ir.verify import verify
from hloom.passes import pass_named
from hloom.passes.expand.product_types import KEPT, product_types
from hloom.types.dtype import ALL, BY_NAME
from tests.pass_case import difference, leaves

TYPES = [t for t in ALL if t.is_array_element and t.name not in ("s1", "u1")]
RESULTS = [BY_NAME[n] for n in "f32 bf16 f16 f64 s32 s8 u64 s4 u2 pred c64 f8e5m2".split()]


def of_types(x, y, result):
    b = Builder("types")
    lhs, rhs = b.parameter(f"{x}[3,5]"), b.parameter(f"{y}[5,2]")
    return b.build(
        b.dot(
            lhs,
            rhs,
            shape=f"{result}[3,2]",
            lhs_contracting_dims=(1,),
            rhs_contracting_dims=(0,),
        )
    )


@pytest.mark.parametrize("x", TYPES, ids=str)
def test_dots_of_all_types(x):
    rng = np.random.default_rng(x.number)
    for y in TYPES:
        if (x.is_complex or y.is_complex) and rng.random() < 0.5:
            continue
        result = RESULTS[int(rng.integers(len(RESULTS)))]
        if (x.is_complex or y.is_complex) and not result.is_complex:
            result = BY_NAME["c128"]
        module = of_types(x, y, result)
        before = copy_module(module)
        pass_named("dot-decomposer").run(module)
        verify(module)
        (dot,) = (i for i in module.instructions() if i.opcode == "dot")
        types = [o.shape.dtype for o in dot.operands]
        assert types[0] is types[1]
        assert dot.shape.dtype is types[0] or (types[0], dot.shape.dtype) in KEPT
        arguments = random_arguments(before, 1)
        want, have = (leaves(evaluate(m, *arguments)) for m in (before, module))
        assert difference(want[0], have[0], 1e-6) is None, f"{x} {y} {result}\n{module}"


def test_types_of_products_are_stable():
    for x in TYPES:
        for y in TYPES:
            for result in RESULTS:
                operands, made = product_types(x, y, result)
                assert product_types(operands, operands, made) == (operands, made)
