"""Choices that cover all pairs."""

from itertools import combinations, product

import pytest

from tests.covering import covering


@pytest.mark.parametrize("sizes", [(2, 3), (6, 7, 3), (5, 3, 4, 3), (1, 4, 2), (3, 3, 3, 3, 3)])
def test_any_two_values_meet(sizes):
    choices = [[f"{k}{v}" for v in range(size)] for k, size in enumerate(sizes)]
    rows = covering(*choices)
    assert all(value in values for row in rows for value, values in zip(row, choices, strict=True))
    for i, j in combinations(range(len(sizes)), 2):
        assert {(row[i], row[j]) for row in rows} == set(product(choices[i], choices[j]))
    largest = sorted(sizes)[-2:]
    assert len(rows) <= 2 * largest[0] * largest[1] and rows == covering(*choices)
