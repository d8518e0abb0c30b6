"""Kernels of the compiler with a planted fault: what does harm is refused."""

from tests.fuzz.run_proof import run


def test_harmful_mutants_are_refused() -> None:
    seen, faults = run(60, seed=11)
    assert not faults, faults[0]
    refused = {what.split(":")[0] for what in seen if what.endswith("refused")}
    assert len(refused) >= 4
