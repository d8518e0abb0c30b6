"""A sample of `python -m tests.fuzz.run_devices`."""

from dataclasses import replace

import pytest

from hloom.ir.values.groups import ReplicaGroups
from hloom.passes.collectives.all_reduce_folder import AllReduceFolder
from tests.fuzz.run_devices import check, check_text

FOLDED = """HloModule m, replica_count=4
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[257] parameter(0)
  y = f32[257] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add
  ROOT z = f32[257] all-reduce(y), replica_groups={{0,2},{1,3}}, to_apply=add }
"""


def test_sums_in_another_order_are_no_finding_and_other_sums_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert check_text(FOLDED) == "same"
    real = AllReduceFolder.run

    def wrong(self, module, **options):
        result = real(self, module, **options)
        for i in module.instructions():
            if i.opcode == "all-reduce":  # without the last member
                i.attrs = replace(i.attrs, replica_groups=ReplicaGroups(((0, 1, 2), (3,))))
        return result

    monkeypatch.setattr(AllReduceFolder, "run", wrong)
    assert "differs" in check_text(FOLDED)


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_devices_agree_with_the_lockstep_interpreter(first):
    found = [check(seed) for seed in range(first, first + 20)]
    assert set(found) <= {"same", "refused"} and found.count("same") >= 15, found
