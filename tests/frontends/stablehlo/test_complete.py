"""Every operation of StableHLO, CHLO, Shardy and MHLO that jaxlib has is read, or refused."""

import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")

from jaxlib.mlir.dialects import (
    _chlo_ops_gen,
    _mhlo_ops_gen,
    _sdy_ops_gen,
    _stablehlo_ops_gen,
)

from hloom.base.registry import load_room
from hloom.frontends.stablehlo.registry import IMPORT, REFUSED

if not len(IMPORT):
    load_room("hloom.frontends.stablehlo")

BESIDE_FUNCTIONS = {"sdy.mesh"}
"""Read by the module, not as an operation of a function."""


def operations(dialect):
    return {
        v.OPERATION_NAME
        for v in vars(dialect).values()
        if isinstance(v, type)
        and hasattr(v, "OPERATION_NAME")
        and not v.__name__.endswith("Adaptor")
    }


@pytest.mark.parametrize(
    "dialect", [_stablehlo_ops_gen, _chlo_ops_gen, _sdy_ops_gen, _mhlo_ops_gen]
)
def test_every_operation_is_read_or_refused_with_a_reason(dialect):
    known = {*IMPORT, *REFUSED, *BESIDE_FUNCTIONS}
    known |= {name.replace("stablehlo.", "mhlo.") for name in known}
    assert not (missing := sorted(operations(dialect) - known)), missing


def test_what_is_refused_is_not_read_too():
    assert not set(IMPORT) & set(REFUSED)


def test_reasons_say_something():
    assert all(len(reason.split()) >= 6 for reason in REFUSED.values())
