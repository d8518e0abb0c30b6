"""A sample of `python -m tests.fuzz.run_devices`."""

import pytest

from tests.fuzz.run_devices import check


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_devices_agree_with_the_lockstep_interpreter(first):
    found = [check(seed) for seed in range(first, first + 20)]
    assert set(found) <= {"same", "refused"} and found.count("same") >= 15, found
