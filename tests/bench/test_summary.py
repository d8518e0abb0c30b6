"""Tables of several runs of the bench."""

from bench.summary import joined, losses, means
from hloom.tools.bench_rows import Results, Row


def test_the_last_number_of_a_program_counts_and_losses_come_worst_first():
    first = [Row("ops", "a", "run", "s", 2e-3, {"x": 1e-3}), Row("ops", "b", "run", "s", 4e-3)]
    now = [Row("ops", "a", "run", "s", 1.2e-3, {"x": 1e-3, "y": 3e-3})]
    now += [
        Row("ops", "c", "run", "s", 3e-3, {"x": 1e-3}),
        Row("ops", "d", "run", "s", 1, {"x": 2}),
    ]
    results = joined([Results({}, first), Results({}, now)])
    assert means(results)[2:] == ["| ops | run | 4 | 2 | 1.22 | 3.00 |  |"]
    assert losses(results, ["run"], 1)[2:] == [
        "| ops | c | 3.0 ms | 1.0 ms | 3.00 |",
        "| | 1 more | | | 1.20 and less |",
    ]
    assert losses(results, ["compile"], 1)[2:] == []
