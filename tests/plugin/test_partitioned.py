"""What becomes of a program with which the partitioner has a fault, or which it refuses."""

from __future__ import annotations

import logging

import pytest

import hloom
from hloom.base.diagnostics import UnsupportedError, UsageError
from hloom.passes.partition import whole_program
from hloom.plugin.partitioned import partition

TEXT = """HloModule m
ENTRY e {
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  ROOT y = f32[4] negate(x), sharding={devices=[2]<=[2]}
}
"""


def attempt(monkeypatch, error: Exception, is_strict: bool) -> hloom.Module:
    def fails(*_):
        raise error

    monkeypatch.setattr(whole_program, "partition_module", fails)
    module, (argument,), (result,) = partition(hloom.parse(TEXT), 2, is_strict=is_strict)
    assert argument.sharding and argument == result
    return module


def test_a_fault_of_the_partitioner_costs_the_partition_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING, "hloom"):
        module = attempt(monkeypatch, KeyError("lost"), is_strict=False)
    assert "hloom has a fault there" in caplog.text and "KeyError: 'lost'" in caplog.text
    assert [p.shape.dims for p in module.entry.parameters] == [(2,)]
    assert any(i.opcode == "all-gather" for i in module.instructions())
    with pytest.raises(KeyError):
        attempt(monkeypatch, KeyError("lost"), is_strict=True)


@pytest.mark.parametrize("is_strict", [True, False])
def test_what_is_refused_is_no_fault(monkeypatch: pytest.MonkeyPatch, is_strict: bool):
    with pytest.raises(UnsupportedError, match="cannot be cut"):
        attempt(monkeypatch, UnsupportedError("it cannot be cut", rule="partition"), is_strict)
    with pytest.raises(UsageError, match="of the user"):
        attempt(monkeypatch, UsageError("of the user"), is_strict)
