"""JAX answers on hloom as on its built-in backend: arrays, places, caches, logs, collectives."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from hloom.base.guarding import GUARDING
from tests.plugin.probing import answers

if importlib.util.find_spec("jax") is None:
    pytest.skip("JAX is not installed (make setup)", allow_module_level=True)

ROOMS = """types numpy arrays sharded linear_algebra places platforms cache logs async equations
wide""".split()


def left_out(answer):
    """An answer without what tells the backends apart, and should."""
    text = str(answer).replace("['cpu', 'hloom']", "['cpu']").replace("cpu,hloom", "cpu")
    return text


@cache
def both():
    with ThreadPoolExecutor(2) as executor:
        return list(executor.map(answers, ("hloom", "cpu")))


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_answers_are_the_same(room):
    here, built_in = ({k: left_out(v) for k, v in a.items()} for a in both())
    assert here.keys() == built_in.keys()
    mine = [k for k in here if k.startswith(room + " ")]
    if GUARDING:  # arrays end at a protected page, wherever they begin
        mine = [k for k in mine if not k.endswith(" aligned")]
    assert len(mine) >= 2
    different = [f"{k}:\n  {built_in[k]}\n  {here[k]}" for k in mine if here[k] != built_in[k]]
    assert not different, "\n".join(different)


@pytest.mark.slow
def test_no_probe_is_forgotten():
    assert {k.split(" ")[0] for k in both()[0]} == set(ROOMS)
