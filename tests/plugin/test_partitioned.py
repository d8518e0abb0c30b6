"""What becomes of a program that is not partitioned: why it is not, and whose fault that is."""

from __future__ import annotations

import pytest

import hloom
from hloom.base.diagnostics import UnsupportedError, UsageError
from hloom.plugin import partitioned
from hloom.plugin.partitioned import NotPartitioned, partition
from hloom.runtime.launch_spec import ShardSpec

TEXT = """HloModule m
ENTRY e { ROOT x = f32[4] parameter(0), sharding={devices=[2]<=[2]} }
"""


def attempt(monkeypatch, error: Exception, is_strict: bool) -> None:
    def fails(module):
        raise error

    monkeypatch.setattr(partitioned, "partition_in_place", fails)
    partition(hloom.parse(TEXT), 2, [ShardSpec()], [ShardSpec()], is_strict=is_strict)


def test_a_fault_of_the_partitioner_costs_the_partition_alone(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(NotPartitioned, match=r"hloom has a fault there.*KeyError: 'lost'"):
        attempt(monkeypatch, KeyError("lost"), is_strict=False)
    with pytest.raises(KeyError):
        attempt(monkeypatch, KeyError("lost"), is_strict=True)


@pytest.mark.parametrize("is_strict", [True, False])
def test_what_is_not_partitioned_is_no_fault(monkeypatch: pytest.MonkeyPatch, is_strict: bool):
    with pytest.raises(NotPartitioned, match="cannot be cut"):
        attempt(monkeypatch, UnsupportedError("it cannot be cut", rule="partition"), is_strict)
    with pytest.raises(UsageError, match="of the user"):
        attempt(monkeypatch, UsageError("of the user"), is_strict)
