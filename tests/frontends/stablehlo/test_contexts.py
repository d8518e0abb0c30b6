"""Contexts of MLIR are used for program after program, but never for two at a time."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from hloom.base.diagnostics import HloError
from hloom.frontends.stablehlo import bindings
from hloom.frontends.stablehlo.read import module_of_text

ADD = """func.func public @main(%x: tensor<{n}xf32>) -> tensor<{n}xf32> {{
  %y = stablehlo.add %x, %x : tensor<{n}xf32>
  return %y : tensor<{n}xf32>
}}"""


@pytest.fixture(autouse=True)
def no_idle_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin with none."""
    monkeypatch.setattr(bindings, "_idle", [])


def test_a_small_program_leaves_its_context_to_the_next() -> None:
    with bindings.context_for(10) as first, bindings.context_for(10) as second:
        assert first is not second
    with bindings.context_for(10) as third:
        assert third is first


def test_a_large_program_shares_none_and_a_context_goes_in_time() -> None:
    for size in (bindings.SMALL_PROGRAM + 1, bindings.MOST_READ + 1):
        with bindings.context_for(size):
            pass
        assert not bindings._idle
    rounds = bindings.MOST_READ // bindings.SMALL_PROGRAM
    used = []
    for _ in range(rounds + 2):
        with bindings.context_for(bindings.SMALL_PROGRAM) as context:
            used.append(context)
    assert all(context is used[0] for context in used[: rounds + 1])
    assert used[rounds + 1] is not used[0]


def test_a_context_of_a_refused_program_is_not_used_again() -> None:
    with pytest.raises(HloError):
        module_of_text("func.func public @main() -> tensor<f32> { nonsense }")
    assert not bindings._idle
    assert module_of_text(ADD.format(n=3)).entry.root.shape.dims == (3,)


def test_threads_read_at_the_same_time() -> None:
    with ThreadPoolExecutor(4) as pool:
        modules = list(pool.map(lambda n: module_of_text(ADD.format(n=n)), range(1, 60)))
    assert [m.entry.root.shape.dims for m in modules] == [(n,) for n in range(1, 60)]
    assert len(bindings._idle) <= 4
