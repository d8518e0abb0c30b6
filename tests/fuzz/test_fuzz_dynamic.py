"""A sample of `python -m tests.fuzz.run_dynamic`."""

import pytest

from tests.fuzz.run_dynamic import check


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_compiled_code_agrees_with_the_interpreter(first):
    found = [check(seed) for seed in range(first, first + 20)]
    assert found.count("same") >= 18, found
