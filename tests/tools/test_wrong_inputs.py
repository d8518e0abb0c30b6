"""Whatever the input, one message and an exit code: never a traceback."""

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest

HLOOM = [sys.executable, "-m", "hloom.tools.main"]
COMMANDS = ("print", "verify", "stats", "eval", "opt")
READS_STABLEHLO = importlib.util.find_spec("jaxlib") is not None
"""Without jaxlib that is no program that is wrong, but one that cannot be read here."""


@pytest.fixture
def broken(tmp_path):
    """A file for each thing that can be wrong with one, with the exit code it ends in."""

    def text(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return {
        "absent": (tmp_path / "absent.hlo", 2),
        "directory": (tmp_path, 2),
        "directory with extension": ((tmp_path / "d.hlo"), 2),
        "extension": (text("a.foo", "x"), 2),
        "mlir": (text("a.mlir", "module {}"), 1 if READS_STABLEHLO else 2),
        "empty": (text("empty.hlo", ""), 1),
        "cut off": (text("cut.hlo", "HloModule m\n\nENTRY e {\n  x = f32["), 1),
        "nonsense": (text("n.hlo", "what is this"), 1),
        "unknown opcode": (text("u.hlo", "ENTRY e {\n  ROOT x = f32[] frobnicate()\n}"), 1),
        "wrong shape": (
            text("w.hlo", "ENTRY e {\n  p = f32[2] parameter(0)\n  ROOT x = f32[3] negate(p)\n}"),
            1,
        ),
        "proto": (text("b.pb", b"\x0a\xff\xff\xff"), 1),
        "text proto": (text("t.pbtxt", "computations { what: 1 }"), 1),
        "gzip": (text("z.hlo.gz", b"not gzip"), 2),
        "no utf-8": (text("l.hlo", b"HloModule m\n\xff\xfe"), 2),
    }


CASES = "absent directory extension mlir empty nonsense proto gzip".split() + [
    "directory with extension",
    "cut off",
    "unknown opcode",
    "text proto",
    "no utf-8",
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("case", CASES)
def test_one_message(run, broken, command, case):
    path, code = broken[case]
    if case == "directory with extension":
        path.mkdir()
    done = run(command, path)
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output and "bug:" not in done.output
    assert len(done.output.splitlines()) <= 5 and done.output.strip()


@pytest.mark.parametrize("command", ["verify", "stats", "eval", "opt"])
def test_what_does_not_verify_is_said_so(run, broken, command):
    path, code = broken["wrong shape"]
    done = run(command, path)
    assert done.exit_code == code and "[shape]" in done.output


@pytest.mark.parametrize("command", COMMANDS)
def test_errors_as_json(run, broken, command):
    done = run(command, broken["unknown opcode"][0], "--json")
    data = json.loads(done.stdout)
    error = data["files"][0]["errors"][0] if command == "verify" else data
    assert data["ok"] is False and error["line"] == 2 and error["column"] > 1


@pytest.mark.parametrize(
    "words",
    [
        ["frobnicate"],
        ["print"],
        ["opt"],
        ["print", "FILE", "--preset", "loud"],
        ["print", "FILE", "--computation", "nobody"],
        ["print", "FILE", "--instruction", "nobody"],
        ["print", "FILE", "--radius", "-1"],
        ["print", "FILE", "--subcomputations", "some"],
        ["convert", "FILE"],
        ["convert", "FILE", "out.foo"],
        ["convert", "FILE", "out.pb", "--to", "text"],
        ["convert", "FILE", "out.pb", "--to", "nonsense"],
        ["convert", "FILE", "out.pb", "--inputs", "FILE"],
        ["convert", "FILE", "/no/such/folder/out.pb"],
        ["convert", "FILE", "-", "--json"],
        ["eval", "FILE", "--inputs", "FILE"],
        ["eval", "FILE", "--inputs", "absent.npz"],
        ["eval", "FILE", "--replicas", "0"],
        ["eval", "FILE", "--random", "many"],
        ["opt", "FILE", "--passes=dce", "--disable_hlo_passes=a", "--enable_hlo_passes_only=b"],
        ["opt", "FILE", "--passes=dce", "--dump_to=/proc/no", "--dump_hlo_pass_re=("],
        ["opt", "FILE", "--disable_all_hlo_passes=perhaps"],
    ],
)
def test_wrong_usage_is_exit_code_2(run, add, words):
    done = run(*[add if w == "FILE" else w for w in words])
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output and "bug:" not in done.output


def test_no_arguments_lists_the_commands(run):
    out = run().output
    assert all(name in out for name in (*COMMANDS, "convert"))


@pytest.mark.parametrize("command", [*COMMANDS, "convert"])
def test_help_has_examples(run, command):
    assert "Examples" in run(command, "--help").output


def test_unreadable_file(run, add):
    add.chmod(0)
    if os.access(add, os.R_OK):
        pytest.skip("this user reads everything")
    assert run("print", add).exit_code == 2


def test_array_file_that_is_no_npz(run, add, tmp_path):
    np.save(tmp_path / "one.npy", np.zeros(3))
    assert run("eval", add, "--inputs", tmp_path / "one.npy").exit_code == 2


def test_reader_that_stops_reading(add):
    script = f"{sys.executable} -m hloom.tools.main print {add} --preset default | head -0"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


def test_full_disk(add):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*HLOOM, "print", str(add)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode != 0 and "Traceback" not in done.stderr


def test_as_a_process_text_is_plain(add):
    done = subprocess.run([*HLOOM, "print", str(add)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "\033" not in done.stdout
