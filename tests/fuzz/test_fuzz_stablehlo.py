"""A sample of the drawn StableHLO programs; `run_stablehlo` draws more and asks XLA:CPU too."""

import numpy as np
import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")

from tests.fuzz.check_native import Trial
from tests.fuzz.check_stablehlo import check
from tests.fuzz.stablehlo.families import FAMILIES, ROOMS, drawn

INEXPRESSIBLE = {"select_and_scatter_captured", "collective_captured"}
"""What HLO cannot say and is refused."""
NOT_DRAWN = set(
    "cross-replica-sum infeed outfeed recv send uniform_dequantize unary_einsum return".split()
) | {"async_done", "async_start", "after_all", "create_token", "get_tuple_element"}
"""Operations that have no family: those that leave the machine, and parts of other families."""


@pytest.mark.parametrize("room", sorted(set(ROOMS.values())))
def test_one_program_of_each_family(room):
    names = [name for name, where in ROOMS.items() if where == room]
    for name in names[:: 4 if room == "elementwise" else 1]:  # there are 62, and they are alike
        answer = check(drawn(name, 0), Trial(seed=1), None)
        wanted = "refused" if name in INEXPRESSIBLE else "same"
        assert answer.what == wanted, f"{name}: {answer.what}: {answer.why}"


class Peer:
    """XLA as it would answer if it always gave zeros."""

    def ask(self, text, arrays):
        return "values", [np.zeros_like(x) for x in arrays[:1]]


def test_a_wrong_answer_is_a_fault():
    """Of the peer, or of the compiler: the check sees it."""
    program = drawn("negate", 2)
    answer = check(program, Trial(seed=1), Peer())
    assert answer.what == "fault: values"
    assert answer.is_fault


def test_every_operation_has_a_family():
    from jaxlib.mlir.dialects import _chlo_ops_gen, _stablehlo_ops_gen

    known = set(FAMILIES) | NOT_DRAWN
    for dialect, prefix in ((_stablehlo_ops_gen, ""), (_chlo_ops_gen, "chlo.")):
        for view in vars(dialect).values():
            full = getattr(view, "OPERATION_NAME", "")
            name = prefix + full.partition(".")[2]
            if full and isinstance(view, type) and name.removeprefix("chlo.")[0] != "_":
                assert name in known or name == "chlo.constant", f"{name} has no family"
