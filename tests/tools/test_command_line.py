"""What all commands share: exit codes, rows of tables, names that are nearly right, Ctrl-C."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import UsageError
from hloom.base.options import Options
from hloom.tools.compare import differences
from hloom.tools.evaluate import summary

HLOOM = [sys.executable, "-m", "hloom"]
ENDLESS = """HloModule endless
body {
  ROOT s = s32[] parameter(0)
}
condition {
  s = s32[] parameter(0)
  ROOT t = pred[] constant(true)
}
ENTRY main {
  x = s32[] parameter(0)
  ROOT w = s32[] while(x), condition=condition, body=body
}
"""
MANY = (
    "HloModule many\nENTRY main {\n"
    + "".join(f"  p{k} = f32[9] parameter({k})\n" for k in range(30))
    + f"  ROOT r = ({', '.join(['f32[9]'] * 30)}) "
    + f"tuple({', '.join(f'p{k}' for k in range(30))})\n}}\n"
)


@pytest.fixture
def many(tmp_path):
    path = tmp_path / "many.hlo"
    path.write_text(MANY)
    return path


@pytest.mark.parametrize("command", ["run", "eval"])
def test_a_table_of_results_has_an_end(run, many, command):
    lines = run(command, many).stdout.splitlines()
    assert sum(line.startswith("result.") for line in lines) == 20
    assert any("10 more" in line for line in lines)
    everything = run(command, many, "--top", "0").stdout
    assert everything.count("result.") == 30 and " more" not in everything
    assert len(json.loads(run(command, many, "--json").stdout)["results"]) == 30


def test_differences_show_the_worst_first(run, many, monkeypatch):
    from hloom.tools import run as command

    real = command.api.evaluate

    def wrong(module, *arguments, **keywords):
        result = real(module, *arguments, **keywords)
        last = hloom.Literal.of(result.elements[29].array + 1)
        return hloom.Literal.tuple([*result.elements[:29], last])

    monkeypatch.setattr(command.api, "evaluate", wrong)
    done = run("run", many, "--check", "--top", "3")
    assert done.exit_code == 1
    table = done.stdout.partition("against the interpreter")[2]
    assert "result.29" in table.splitlines()[2] and "27 more" in table


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["prnt"], "'print'"),
        (["run", "FILE", "--chek"], "--check"),
        (["run", "FILE", "--cpu_max_is=AVX2"], "--cpu_max_isa"),
        (["run", "FILE", "--xla_cpu_max_is=AVX2"], "--cpu_max_isa"),
        (["opt", "FILE", "--passes=dse"], "dce"),
        (["opt", "FILE", "--passes=algsimp{dissable=x}"], "disable"),
        (["print", "FILE", "--preset", "cannonical"], "canonical"),
        (["convert", "FILE", "o.pb", "--to", "snapshott"], "snapshot"),
        (["explain", "FILE", "fussion"], "fusion"),
    ],
)
def test_what_was_meant(run, add, words, wanted):
    done = run(*[add if w == "FILE" else w for w in words])
    assert done.exit_code == 2 and wanted in done.output, done.output


def test_what_was_meant_by_a_stage_and_by_an_operation(add):
    with pytest.raises(UsageError, match="did you mean thunks"):
        hloom.compile(str(add)).as_text("thunk")
    with pytest.raises(UsageError, match="did you mean reduce"):
        hloom.Builder("b").emit("redduce")


def test_options_are_listed_as_json(run):
    rows = json.loads(run("opt", "--list-options", "--json").stdout)["options"]
    assert {"name", "default", "acts", "meaning"} <= rows[0].keys() and len(rows) > 50
    assert any(r["acts"] for r in rows) and not all(r["acts"] for r in rows)


@pytest.mark.parametrize("name", ["dump_hlo_pass_re", "dump_hlo_module_re"])
@pytest.mark.parametrize("pattern", ["[", "*", "(?P<a>", "a{99999999999}"])
def test_a_wrong_pattern_is_said_to_be_one(run, add, name, pattern):
    done = run("opt", add, "--passes=dce", f"--{name}={pattern}")
    assert done.exit_code == 2 and "no regular expression" in done.output


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("disable_all_hlo_passes", 1),
        ("disable_all_hlo_passes", "perhaps"),
        ("gpu_graph_min_graph_size", 1.5),
        ("gpu_graph_min_graph_size", True),
        ("disable_hlo_passes", 3),
        ("disable_hlo_passes", [3]),
        ("dump_to", 7),
        ("dump_hlo_pass_re", "["),
        ("no_such_option", 1),
    ],
)
def test_a_mapping_of_options_is_checked(name, value):
    for made in (lambda: Options({name: value}), lambda: Options().with_(**{name: value})):
        with pytest.raises(UsageError):
            made()


def test_a_mapping_of_options_takes_values_and_texts():
    options = Options({"xla_disable_hlo_passes": ["a", "b"], "disable_all_hlo_passes": "true"})
    assert options["disable_hlo_passes"] == ("a", "b")
    assert options["disable_all_hlo_passes"] is True


def test_summaries_by_pieces_are_those_of_the_whole(monkeypatch):
    from hloom.tools import arrays

    monkeypatch.setattr(arrays, "PIECE", 7)
    x = np.random.default_rng(0).standard_normal((5, 9)).astype(np.float32)
    x[1, 2], x[4, 8] = np.nan, np.inf
    finite = x[np.isfinite(x)].astype(np.float64)
    found = summary(x)
    assert (found["smallest"], found["largest"]) == (finite.min(), finite.max())
    assert np.isclose(found["mean"], finite.mean()) and (found["nan"], found["inf"]) == (1, 1)
    y = x.copy()
    y[4, 3] += 1
    (d,) = differences(hloom.Literal.of(y), hloom.Literal.of(x))
    assert d.index == (4, 3) and not d.is_within
    (d,) = differences(hloom.Literal.of(x), hloom.Literal.of(x))
    assert d.error == 0


def seconds_of(pid):
    """The processor time that a process has taken: it is past its imports at three seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_ctrl_c_ends_with_130_and_no_word(tmp_path):
    path = tmp_path / "endless.hlo"
    path.write_text(ENDLESS)
    # A shell may have told its background jobs to ignore it.
    process = subprocess.Popen(
        [*HLOOM, "eval", str(path), "--while-limit", "1000000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while process.poll() is None and seconds_of(process.pid) < 3:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err and "Error" not in err and not out


def test_a_reader_that_goes_is_exit_code_141(add):
    script = f"{' '.join(HLOOM)} print {add} --preset default | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "141" and "Traceback" not in done.stderr, done


@pytest.mark.parametrize("command", ["print", "verify", "stats", "run"])
def test_closed_output_is_no_traceback(add, command):
    script = f"{' '.join(HLOOM)} {command} {add} >&-"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr and "bug:" not in done.stderr, done.stderr


@pytest.mark.parametrize("command", ["print", "verify", "eval", "run"])
def test_closed_input_is_named(command):
    script = f"{' '.join(HLOOM)} {command} - <&-"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    assert done.returncode == 2 and "cannot read <stdin>: it is closed" in said, done


def test_progress_is_for_a_terminal(loop):
    """A terminal sees how many instructions have run; a pipe sees nothing."""
    command = [*HLOOM, "eval", str(loop)]
    piped = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert piped.returncode == 0 and piped.stderr == ""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs)
    process.wait(60)
    os.close(theirs)
    assert b"of the entry's" in os.read(ours, 1 << 16)
    os.close(ours)


def test_as_a_module():
    done = subprocess.run([*HLOOM, "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"hloom {hloom.__version__}\n"
