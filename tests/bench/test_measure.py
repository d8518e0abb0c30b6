"""The bench measures what it says: contestants in turn, warm-up uncounted, goals both ways."""

import json

import pytest

from bench import run
from bench.measure import CONTESTS, Contest, Goal, interleaved, outcomes, rate, seconds
from bench.synthetic import chain_text, module_text


def recorder(log, name, values):
    """A measure that notes its turn and gives the values one after another."""
    left = iter(values)

    def once():
        log.append(name)
        return next(left)

    return once


def test_rounds_are_interleaved_and_the_first_is_not_counted():
    log = []
    contestants = {"a": recorder(log, "a", [99, 1, 2]), "b": recorder(log, "b", [99, 3, 4])}
    assert interleaved(contestants, rounds=2, budget_s=10) == {"a": [1, 2], "b": [3, 4]}
    assert log == ["a", "b", "a", "b", "a", "b"]


def test_a_spent_budget_ends_the_rounds():
    contestants = {"a": recorder([], "a", [99, 1, 2, 3])}
    assert interleaved(contestants, rounds=3, budget_s=0) == {"a": [1]}


def test_outcomes_take_the_median_and_judge_only_hloom():
    def prepare():
        return {
            "hloom": recorder([], "", [0, 5, 1, 3]),
            "peer": recorder([], "", [0, 9, 9, 9]),
        }

    ours, peer = outcomes(Contest("c", "s", prepare, False, Goal(2, at_least=False)), 3, 10)
    assert (ours.median, ours.low, ours.high, ours.met) == (3, 1, 5, False)
    assert (peer.median, peer.met, peer.goal) == (9, None, "")
    assert run.ratio_to_peer(ours, [ours, peer]) == "3.00x"
    assert run.ratio_to_earlier(ours, {("c", "hloom"): 6.0}) == "2.00x"


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        (Goal(10, at_least=True), 10, True),
        (Goal(10, at_least=True), 9, False),
        (Goal(10, at_least=False), 10, True),
        (Goal(10, at_least=False), 11, False),
    ],
)
def test_goals(goal, value, met):
    assert goal.met_by(value) == met


def test_clock_and_rate():
    assert 0 < seconds(lambda: sum(range(1000)))() < 1
    assert rate(100, lambda: sum(range(1000)))() > 100


def test_results_are_written_and_read(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    contest = Contest("c", "x/s", lambda: {"hloom": lambda: 4.0}, True)
    path = run.write(list(outcomes(contest, 1, 1)))
    assert {"commit", "python", "cores"} <= json.loads(path.read_text())["machine"].keys()
    assert run.read_earlier(path) == {("c", "hloom"): 4.0}


def test_every_contest_says_what_it_measures():
    assert len(CONTESTS) > 8
    assert all(contest.doc for contest in CONTESTS.values())


@pytest.mark.parametrize("size", [100, 1000])
def test_synthetic_modules_have_the_size_asked_for(size):
    lines = [line for line in module_text(size).splitlines() if " = " in line]
    assert size <= len(lines) <= size + 14
    assert {"while", "dot", "reduce", "metadata"} <= set(
        module_text(1000).replace("(", " ").replace("=", " ").split()
    )
    assert chain_text(5).count("subtract") == 5
