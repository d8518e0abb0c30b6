"""Drawn ragged all-to-alls in one form, and as dense ones, send the same."""

import numpy as np
import pytest

import hloom
from hloom.interp import draw_instance, evaluate_lockstep
from tests.pass_case import leaves
from tests.random_arguments import arguments_on_devices


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("form", ["canonicalizer", "decomposer"])
def test_drawn_ones(seed: int, form: str) -> None:
    module = draw_instance("ragged-all-to-all", seed)
    arguments = arguments_on_devices(module, np.random.default_rng(seed))
    wanted = [leaves(r) for r in evaluate_lockstep(module, arguments)]
    result = hloom.pass_named(f"ragged-all-to-all-{form}").run(module)
    is_alone = module.replica_count * module.num_partitions == 1
    assert result.changed or (is_alone and form == "decomposer")
    hloom.verify(module)
    results = [leaves(r) for r in evaluate_lockstep(module, arguments)]
    for old, new in zip(wanted, results, strict=True):
        for x, y in zip(old, new, strict=True):
            np.testing.assert_array_equal(x, y)


def test_it_runs(seed: int = 3) -> None:
    module = draw_instance("ragged-all-to-all", seed)
    arguments = arguments_on_devices(module, np.random.default_rng(seed))
    whole = hloom.compile(module).run_devices(arguments)
    hloom.pass_named("ragged-all-to-all-decomposer").run(module)
    for x, y in zip(whole, hloom.compile(module).run_devices(arguments), strict=True):
        np.testing.assert_array_equal(
            np.asarray(x[0] if isinstance(x, list) else x),
            np.asarray(y[0] if isinstance(y, list) else y),
        )
