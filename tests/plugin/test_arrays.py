"""Arrays on hloom: how they lie in memory, and who gives them up; cases in a child process."""

import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

from tests.plugin.child import run_cases

if importlib.util.find_spec("jax") is None:
    pytest.skip("JAX is not installed (make setup)", allow_module_level=True)

FILES = (
    "jax_cases_packed.py",
    "jax_cases_layouts.py",
    "jax_cases_donation.py",
    "jax_cases_buffers.py",
)
NAMES = [
    name
    for file in FILES
    for name in re.findall(r"^def (case_\w+)", Path(__file__).with_name(file).read_text(), re.M)
]


@cache
def ended() -> dict[str, str]:
    return run_cases(NAMES, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "exit"])
def test_case(name):
    assert not (told := ended()[name]), told
