"""Passes on collectives change no result of drawn programs, on any device, and each finds work."""

from collections import Counter
from functools import cache

import numpy as np
import pytest

from hloom.compiler import compile_module
from hloom.interp import evaluate_lockstep
from hloom.ir.copy import copy_module
from hloom.ir.text import parse_module, show_module
from hloom.ir.verify import verify
from hloom.passes import PASSES, pass_named
from tests.pass_case import leaves
from tests.passes.collectives.draw_collectives import Program
from tests.random_arguments import arguments_on_devices

COLLECTIVE_PASSES = sorted(
    name for name, cls in PASSES.items() if cls.__module__.startswith("hloom.passes.collectives.")
)
OF_SCHEDULES = {"convert-async-collectives-to-sync"}
OF_PRODUCTS = {"windowed-einsum", "collective-pipeliner", "collective-pipelining-analyzer"}
"""They have drawn programs of their own."""
OF_OTHERS = {
    "async-collective-custom-call-rewriter",
    "infeed-token-propagation",
    "ragged-all-to-all-canonicalizer",
    "ragged-all-to-all-decomposer",
    "ragged-all-to-all-multi-host-decomposer",
}
"""What they work on is in no drawn program; `test_infeed_token_propagation.py`,
`test_ragged_all_to_all.py`."""
OPTIONS = {"all-reduce-blueconnect": {"num_devices_per_host": 2}}
"""Where the defaults are for more devices than drawn programs have."""
FIRST = {"all-gather-dynamic-slice-permuted-offset-simplifier": 100}
"""Seeds to begin with, where the first ones have nothing for a pass."""
OF_TRANSFERS = {"p2p-schedule-preparation", "collective-send-recv-combiner"}
OF_HALVES = {"async-collective-replacer", "async-collective-annotator"}


def drawn(seed: int):
    """A program, arguments for every device, and its results."""
    module, arguments, wanted = _drawn(seed)
    return copy_module(module), arguments, wanted


@cache
def _drawn(seed: int):
    """What fifty passes are tried on, which is not to be changed."""
    module = parse_module(Program(seed).text)
    verify(module)
    arguments = arguments_on_devices(module, np.random.default_rng(seed))
    return module, arguments, [leaves(r) for r in evaluate_lockstep(module, arguments)]


def assert_same(module, arguments, wanted, what: str) -> None:
    found = [leaves(r) for r in evaluate_lockstep(module, arguments)]
    for d, (old, new) in enumerate(zip(wanted, found, strict=True)):
        for k, (x, y) in enumerate(zip(old, new, strict=True)):
            assert np.array_equal(x, y), f"{what}: result {k} of device {d}"


def prepared(name: str):
    """The pass, and what has to run before it finds anything."""
    if name in OF_HALVES:
        options = {"disabled": ("ALLCOLLECTIVES",)} if "annotator" in name else {}
        return [pass_named("async-collective-creator"), pass_named(name, **options)]
    if name in OF_TRANSFERS:
        return [pass_named("collective-permute-decomposer"), pass_named(name)]
    if name == "collective-fusion":
        return [pass_named("collective-kernel-strategy-annotator"), pass_named(name)]
    return [pass_named(name, **OPTIONS.get(name, {}))]


@pytest.mark.parametrize(
    "name", sorted(set(COLLECTIVE_PASSES) - OF_SCHEDULES - OF_PRODUCTS - OF_OTHERS)
)
def test_a_pass_changes_no_result_and_finds_work(name):
    fired: Counter[str] = Counter()
    for seed in range(FIRST.get(name, 0), FIRST.get(name, 0) + 60):
        module, arguments, wanted = drawn(seed)
        for p in prepared(name):
            before = show_module(module)
            result = p.run(module)
            assert result.changed == (show_module(module) != before), f"seed {seed}"
        fired += result.fired
        verify(module)
        if result.changed:
            assert_same(module, arguments, wanted, f"{name}, seed {seed}")
    assert fired.total() > 0, f"{name} found nothing to do"


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_all_passes_in_any_order_change_no_result(first):
    names = [n for n in COLLECTIVE_PASSES if n not in OF_SCHEDULES | OF_HALVES]
    names.remove("async-collective-creator")
    for seed in range(first, first + 20):
        module, arguments, wanted = drawn(1000 + seed)
        order = np.random.default_rng(seed).permutation(names * 2).tolist()
        for name in order:
            pass_named(name, **OPTIONS.get(name, {})).run(module)
        verify(module)
        assert_same(module, arguments, wanted, f"seed {seed}: {order}")


@pytest.mark.parametrize("seed", range(8))
def test_what_is_compiled_computes_the_same(seed):
    module, arguments, wanted = drawn(2000 + seed)
    exe = compile_module(copy_module(module), cached=False)
    for old, new in zip(wanted, exe.run_devices(arguments), strict=True):
        for x, y in zip(old, leaves(new), strict=True):
            assert np.array_equal(x, y)
