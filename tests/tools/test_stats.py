"""`hloom stats`: what the tables and the JSON hold; the numbers are tested in tests/analysis."""

import json


def test_tables(run, loop):
    out = run("stats", loop).stdout
    assert out.startswith("module loop_module: 16 instructions, 3 computations\n")
    for title in ("opcodes", "loops", "computations", "biggest values"):
        assert f"\n{title}\n" in out
    assert "0 by 1 while LT 24" in out and "unknown" not in out
    assert not any(line != line.rstrip() for line in out.splitlines())


def test_collectives_are_shown(run, ring):
    assert "all-reduce  1 group of 2" in run("stats", ring).stdout


def test_top_limits_the_rows(run, loop):
    out = run("stats", loop, "--top", 2).stdout
    assert "7 more" in out or "6 more" in out


def test_json(run, loop):
    data = json.loads(run("stats", loop, "--json").stdout)
    assert data["loops"][0]["iterations"] == 24
    assert data["flops"] == 24 * 5 + 25
    assert sum(o["count"] for o in data["opcodes"]) == data["instructions"] == 16
    assert {b["name"] for b in data["biggest"]} >= {"x", "w"}
