"""`hloom run --target sim` and `hloom device sim:`."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hloom.tools.main import app
from hloom.tools.timeline import chart

EXAMPLES = Path(__file__).parents[2] / "examples"
STEP = str(EXAMPLES / "resnet_step.hlo")


def hloom(*words: str):
    return CliRunner().invoke(app, list(words))


def test_values_and_a_timeline_are_shown(tmp_path):
    trace = tmp_path / "trace.json"
    found = hloom("run", STEP, "--target", "sim", "--timeline", str(trace), "--check")
    assert found.exit_code == 0, found.output
    assert "the same as the interpreter" in found.output
    waits = re.search(r"simulated, (\d+) waits", found.output)
    assert waits and int(waits[1]) >= 10 and "compute1" in found.output
    assert f"wrote {trace}" in found.output.replace("\n", "")
    events = json.loads(trace.read_text())["traceEvents"]
    done = [e for e in events if e["ph"] == "X"]
    assert len(done) > 50 and all(e["dur"] >= 0 and e["ts"] >= 0 for e in done)
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {"compute0", "compute1"}


def test_json_has_the_timeline():
    found = hloom("run", STEP, "--target", "sim", "--delays", "3", "--json")
    data = json.loads(found.stdout)
    assert data["timeline"]["waits"] >= 10 and len(data["timeline"]["spans"]) > 50
    assert data["timeline"]["total_ns"] == max(s["end_ns"] for s in data["timeline"]["spans"])


def test_a_wait_that_is_left_out_ends_the_run():
    found = hloom("run", STEP, "--target", "sim", "--leave-out-wait", "0")
    assert found.exit_code == 1
    assert "neither waits for the other" in found.output


@pytest.mark.parametrize("words", [["--delays", "1"], ["--leave-out-wait", "0"]])
def test_only_simulated_devices_take_these_options(words):
    found = hloom("run", str(EXAMPLES / "softmax.hlo"), *words)
    assert found.exit_code == 2 and "for simulated devices" in found.output


def test_a_topology_is_shown():
    found = hloom("device", "sim:two-gpus.toml")
    assert found.exit_code == 0 and "count = 2" in found.output and "nvswitch" in found.output
    data = json.loads(hloom("device", "sim:two-gpus", "--json").stdout)
    assert data["devices"] == 2 and data["kinds"][0]["name"] == "h100"


def test_a_target_that_is_none():
    found = hloom("run", STEP, "--target", "sim:two-gpu")
    assert found.exit_code == 2 and "two-gpus" in found.output


def test_a_chart_shows_when_a_stream_is_busy():
    class Span:
        start_ns, end_ns = 25.0, 50.0

    assert chart([Span()], 100.0) == "." * 16 + "#" * 16 + "." * 32
