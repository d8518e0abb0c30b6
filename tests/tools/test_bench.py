"""`hloom bench`: rows of programs, losses first, pages, history, wrong input."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from hloom.api import UsageError
from hloom.tools import bench_rows
from hloom.tools.bench_children import BenchOptions, lines
from hloom.tools.bench_page import page
from hloom.tools.bench_rows import Failure, Results, Row, mean_ratio

QUICK = ("--rounds", "3", "--seconds", "0.05")


def results(*rows: Row, time: str = "2026-11-26T21:00:00Z") -> Results:
    return Results({"time": time}, list(rows))


def row(name: str, ours: float, theirs: float | None = 1.0, **rest) -> Row:
    peers = {} if theirs is None else {"XLA:CPU": theirs, "slow": 9.0}
    return Row("ops", name, "run", "s", ours, peers, **rest)


def test_a_ratio_is_to_the_best_other():
    assert row("a", 2.0).ratio == 2.0 and row("a", 2.0).best == "XLA:CPU"
    assert row("a", 2.0, None).ratio is None
    assert row("a", 2.0, floor=0.5).distance == 4.0


def test_losses_come_worst_first_and_noise_is_none():
    found = results(row("even", 1.04), row("slow", 1.5), row("fast", 0.5), row("slower", 3.0))
    assert [r.name for r in found.losses()] == ["slower", "slow"]
    assert [entry["name"] for entry in found.as_data()["losses"]] == ["slower", "slow"]
    assert mean_ratio([row("a", 2.0), row("b", 0.5), row("alone", 7.0, None)]) == 1.0


def test_results_are_read_as_they_were_written(tmp_path):
    kept = results(row("a", 2.0, floor=0.1, note="n"), row("b", 1.0, None))
    kept.failures.append(Failure("ops", "c", "it died"))
    path = bench_rows.written(kept, tmp_path / "history")
    again = bench_rows.read(path)
    assert (again.rows, again.failures, again.machine) == (kept.rows, kept.failures, kept.machine)
    (tmp_path / "history" / "other.json").write_text("[]")
    assert [r.rows for r in bench_rows.history(tmp_path / "history")] == [kept.rows]


@pytest.mark.parametrize("content", ["no json", "[]", "{}", '{"format": 99}'])
def test_another_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"other\.json holds no results"):
        bench_rows.read(path)


def test_a_page_has_losses_bars_floors_and_what_failed():
    now = results(row("a<b", 3.0, floor=0.1), row("fast", 0.5, floor=0.4))
    now.failures.append(Failure("ops", "c", "it died"))
    then = results(row("a<b", 1.5), time="2026-11-25T21:00:00Z")
    html = page(now, [then, now])
    assert "a&lt;b" in html and "a<b" not in html
    assert html.index("losses") < html.index("over time") < html.index("ops: run</h2>")
    assert html.count("<polyline") == 1 and html.count("<rect") == 4 and "it died" in html
    assert "over time" not in page(now, [now])
    assert "No row is above" in page(results(row("fast", 0.5)), [])


def test_programs_are_measured(run, add, loop, tmp_path):
    folder, html = tmp_path / "history", tmp_path / "b.html"
    result = run("bench", add, loop, *QUICK, "--history", folder, "--page", html, "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.output)
    assert not data["failures"]
    kinds = [(r["name"], r["quantity"]) for r in data["rows"]]
    names = [Path(add).name, Path(loop).name]
    assert kinds == [(n, q) for n in names for q in ("run", "compile", "memory")]
    for entry in data["rows"]:
        assert entry["hloom"] > 0
        assert bool(entry["peers"]) == (find_spec("jaxlib") is not None)
        assert (entry["floor"] is not None) == (entry["quantity"] == "run")
    assert len(list(folder.glob("*.json"))) == 1 and "<svg" in html.read_text()
    again = run("bench", add, *QUICK, "--no-peer", "--against", next(folder.glob("*.json")))
    assert again.exit_code == 0 and "vs then" in again.output and "XLA" not in again.output


def test_what_cannot_be_measured_is_a_line(run, add, ring):
    result = run("bench", ring, add, *QUICK, "--no-peer")
    assert result.exit_code == 0
    assert "no numbers: programs: ring.hlo: it is for several devices" in result.output
    assert run("bench", ring, *QUICK).exit_code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to measure"),
        (("opz",), "did you mean ops?"),
        (("{add}", "--page", "b.png"), "the name ends in .html"),
        (("{add}", "--threads", "4096"), "--threads 4096: there are"),
        (("ops", "--no-peer"), "for program files, not for suites"),
        (("ops", "--xla_cpu_enable_fast_math=true"), "for program files, not for suites"),
    ],
)
def test_wrong_words(run, add, words, said):
    result = run("bench", *[str(w).format(add=add) for w in words])
    assert result.exit_code == 2 and said in result.output


def test_suites_are_in_a_checkout_only(run, monkeypatch, tmp_path):
    monkeypatch.setattr("hloom.tools.bench.SOURCES", tmp_path)
    result = run("bench", "ops")
    assert result.exit_code == 2 and "installed package" in result.output


def test_a_child_that_dies_or_takes_long_is_a_line(monkeypatch):
    chosen = BenchOptions("", 1, 0.01, 0, 0.3, False, [])
    monkeypatch.setattr("hloom.tools.bench_children._command", _shell("sleep 20"))
    (late,) = lines(["a.hlo"], [], chosen)
    assert late["why"] == "longer than 0.3 s"
    monkeypatch.setattr("hloom.tools.bench_children._command", _shell("echo gone >&2; kill -9 $$"))
    (dead,) = lines(["a.hlo"], [], chosen)
    assert dead["why"] == "died of SIGKILL: gone" and dead["name"] == "a.hlo"


def _shell(script: str):
    return lambda words: ["sh", "-c", script]
