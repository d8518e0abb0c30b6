"""Which candidate is chosen, what is kept, and what is said when nothing can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from hloom.base.diagnostics import HloError, UsageError
from hloom.ir.text.parse import parse_module
from hloom.targets.cpu.lower.hosted import alone
from hloom.targets.cpu.tuning.choice import Choice
from hloom.targets.cpu.tuning.profiler import Measured
from hloom.targets.cpu.tuning.results import ResultCache, TuningResult, parsed_results, results_text
from hloom.targets.cpu.tuning.tuner import DEFAULT, Tuner, select

DEVICE = "a machine"
TWO = """HloModule two
ENTRY e {
  p = f32[4,8] parameter(0)
  q = f32[8,8] parameter(1)
  FIRST = f32[4,8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  second = f32[4,8] dot(FIRST, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT third = f32[4,8] add(FIRST, second)
}
"""


def instructions(text: str = TWO, first: str = "first"):
    return [*parse_module(text.replace("FIRST", first)).entry.instructions]


class Fake:
    """Three candidates, whose times are told."""

    def __init__(self, found: list[Measured]) -> None:
        self.found, self.calls = found, 0

    def candidates(self, i, is_thorough):
        return [Choice(m.text) for m in self.found] if i.opcode == "dot" else []

    def alone(self, i):
        return alone(i)

    def profiled(self, module, choices, is_thorough):
        assert [c.text for c in choices] == [m.text for m in self.found]
        self.calls += 1
        return self.found


def tuner(fake: Fake, mode: str = "quick", **rest) -> Tuner:
    return Tuner(mode, DEVICE, lambda: fake, **rest)


SLOW_FIRST = [Measured("a", 3e-3), Measured("b", 1e-3), Measured("c", 2e-3)]


def test_the_fastest_is_applied_and_equal_instructions_share_one_tuning():
    fake = Fake(SLOW_FIRST)
    found = tuner(fake).choices(instructions())
    assert [(i.name, c.text) for i, c in found.items()] == [("first", "b"), ("second", "b")]
    assert fake.calls == 1


def test_the_default_stays_where_nothing_is_clearly_faster():
    fake = Fake([Measured("a", 1.00e-3), Measured("b", 0.98e-3)])
    t = tuner(fake)
    assert t.choices(instructions()) == {} and fake.calls == 1
    assert [r.choice for r in t.used.values()] == [DEFAULT]


@pytest.mark.parametrize(
    ("rows", "window_us", "wanted"),
    [
        ([(10, 1 << 20), (11, 0)], 2, 1),
        ([(10, 1 << 20), (11, 0)], 0, 0),
        ([(10, 4), (12, 0), (11, 0)], 2, 2),
        ([(3, 0), (1, 0), (2, 0)], 0, 1),
        ([(10, 4), (12, 0)], 2, 1),  # though 12e-6 - 10e-6 is more than 2e-6
    ],
)
def test_within_the_window_the_least_scratch_wins_and_ties_go_to_the_faster(
    rows, window_us, wanted
):
    found = [Measured(f"{k}", us * 1e-6, "", size) for k, (us, size) in enumerate(rows)]
    assert select(found, window_us * 1e-6).text == f"{wanted}"


def test_candidates_that_fail_are_not_chosen_however_fast():
    found = [Measured("a", 5.0), Measured("b", 0.0, "wrong"), Measured("c", 6.0)]
    assert select(found).text == "a"


def test_where_none_works_every_failure_is_listed():
    bad = [Measured("a", failure="OOM a"), Measured("b", failure="redzone b")]
    wanted = r"(?s)%x: All configs failed during profiling\.\nFailures \(2\):\nOOM a\nredzone b\n?"
    with pytest.raises(HloError, match=wanted) as error:
        select(bad, what="%x")
    assert error.value.rule == "autotune-not-found"
    with pytest.raises(HloError, match="%x: no configs are supported") as error:
        select([], what="%x")
    assert "Failures" not in str(error.value) and error.value.rule == "autotune-not-found"
    bad = [Measured("a", failure="no code", is_compiled=False)]
    with pytest.raises(
        HloError, match=r"All configs failed to compile\.\nFailures \(1\):"
    ) as error:
        select(bad)
    assert error.value.rule == "autotune-compile"


def test_results_on_disk_are_found_whatever_the_names_and_nothing_is_measured(tmp_path):
    fake = Fake(SLOW_FIRST)
    tuner(fake, cache=ResultCache(tmp_path, DEVICE)).choices(instructions())
    assert fake.calls == 1
    again = tuner(fake, "load", cache=ResultCache(tmp_path, DEVICE), is_complete=True)
    found = again.choices(instructions(first="renamed"))
    assert {c.text for c in found.values()} == {"b"} and fake.calls == 1
    other = tuner(fake, "quick", cache=ResultCache(tmp_path, "another machine"))
    other.choices(instructions())
    assert fake.calls == 2


def test_a_folder_of_others_is_not_read(tmp_path):
    cache = ResultCache(tmp_path, DEVICE)
    result = TuningResult("k" * 64, "dot", "b")
    cache.put(result)
    assert cache.get(result.key) == result
    cache.folder.parent.chmod(0o777)
    try:
        assert cache.get(result.key) is None
    finally:
        cache.folder.parent.chmod(0o700)
    (cache.folder / f"{result.key}.toml").write_text("results = 5")
    assert cache.get(result.key) is None


def test_what_is_missing_is_an_error_where_all_has_to_be_there():
    fake = Fake(SLOW_FIRST)
    assert tuner(fake, "load").choices(instructions()) == {} and fake.calls == 0
    with pytest.raises(HloError, match="no tuning result for %first"):
        tuner(fake, "load", is_complete=True).choices(instructions())


def test_exported_results_read_back_and_choose_the_same(tmp_path):
    file, fake = tmp_path / "results.toml", Fake(SLOW_FIRST)
    first = tuner(fake, export=file).choices(instructions())
    again = tuner(fake, "load", load_path=file, export=tmp_path / "again.toml")
    assert [c.text for c in again.choices(instructions()).values()] == [
        c.text for c in first.values()
    ]
    assert fake.calls == 1
    assert (tmp_path / "again.toml").read_text() == file.read_text()


def test_results_of_another_device_version_or_compiler_are_named(tmp_path):
    text = results_text(DEVICE, [TuningResult("k", "dot", "b", (("a", 1.5),), (("c", "no"),))])
    assert parsed_results(text, "x", DEVICE)["k"].times_us == (("a", 1.5),)
    for changed, message in (
        (text.replace(DEVICE, "a toaster"), "is for another device: a toaster"),
        (text.replace("hloom = ", 'hloom = "0.0"\nwas = '), r"is of hloom 0.0"),
        (text.replace("choice", "chosen"), "is no file of tuning results"),
        ("results = 3", "is no file of tuning results"),
        ("[[", "is no file of tuning results"),
    ):
        with pytest.raises(UsageError, match=message):
            parsed_results(changed, "x", DEVICE)
    with pytest.raises(UsageError, match="cannot read tuning results"):
        tuner(Fake([]), "load", load_path=Path("/nowhere/at/all"))
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot read tuning results"):
        tuner(Fake([]), "load", load_path=tmp_path / "bad.toml")
    with pytest.raises(UsageError, match="cannot write tuning results"):
        tuner(Fake(SLOW_FIRST), export=tmp_path / "no" / "folder.toml").choices(instructions())


def test_a_choice_that_cannot_be_made_is_refused(tmp_path):
    file, fake = tmp_path / "results.toml", Fake(SLOW_FIRST)
    tuner(fake, export=file).choices(instructions())
    file.write_text(file.read_text().replace('choice = "b"', 'choice = "product height=99"'))
    with pytest.raises(HloError, match="none of its 3 candidates"):
        tuner(fake, "load", load_path=file).choices(instructions())
