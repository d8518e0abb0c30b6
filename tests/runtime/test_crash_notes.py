"""A crash of LLVM names the code, and the same program runs the next time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hloom.runtime.crash_notes import CrashNotes

CHECKOUT = Path(__file__).parents[2]

# Compiles an exponential while what compiles in this process ends it in one of several ways.
PROGRAM = """
import ctypes, os, sys
import numpy as np
import hloom
from hloom.codegen.llvm import compile as c

real = c.object_bytes
# An intrinsic of another target: LLVM says "Cannot select" and aborts.
FOREIGN = (
    "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\\n"
    "define i32 @bad() {\\n"
    "  %r = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\\n"
    "  ret i32 %r\\n}\\n"
)
ENDS = {
    "llvm": lambda text: text + FOREIGN,
    "fault": lambda text: ctypes.string_at(8),
    "exit": lambda text: ctypes.CDLL(None).exit(1),
    "python": lambda text: os.kill(os.getpid(), 9),
}

def object_bytes(text, *how):
    is_kernel = "@hloom_main(" not in text
    return real(ENDS[sys.argv[1]](text) if is_kernel else text, *how)

c.object_bytes = object_bytes
f = hloom.compile(
    "HloModule m\\nENTRY e {\\n  x = f32[8] parameter(0)\\n  ROOT y = f32[8] exponential(x)\\n}"
)
print(bool(np.allclose(np.asarray(f(np.ones(8, np.float32))), np.exp(1))))
"""


def run(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    environment = {
        **os.environ,
        "PYTHONPATH": str(CHECKOUT),
        "HLOOM_REPORT_DIR": str(folder),
        "HLOOM_CACHE": "0",
    }
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.slow
@pytest.mark.parametrize("how, code", [("llvm", -6), ("fault", -11), ("exit", 1)])
def test_what_ends_the_process_is_named_and_then_compiled_elsewhere(tmp_path, how, code):
    folder = tmp_path / "a" / "reports"
    first = run(PROGRAM, folder, how)
    assert first.returncode == code, first.stderr
    assert "hloom: LLVM ended this process while it made machine code of k_m_y" in first.stderr
    assert ("Cannot select" in first.stderr) == (how == "llvm")
    [report] = folder.iterdir()
    assert str(report) in first.stderr
    assert "define void @f0(" in report.read_text()
    assert (report.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    second = run(PROGRAM, folder, how)
    assert (second.returncode, second.stdout) == (0, "True\n"), second.stderr


@pytest.mark.slow
def test_an_end_by_other_means_leaves_nothing(tmp_path):
    done = run(PROGRAM, tmp_path, "python")
    assert (done.returncode, done.stderr) == (-9, "")
    assert not list(tmp_path.iterdir())


NOTED = """
import ctypes, os, sys, threading
from pathlib import Path
from hloom.runtime.crash_notes import CrashNotes

notes = CrashNotes(Path(sys.argv[1]))
with notes.noted("f", "one text"):
    pass
entered, done = threading.Event(), threading.Event()
def other():
    with notes.noted("g", "another text"):
        entered.set()
        done.wait()
threading.Thread(target=other, daemon=True).start()
entered.wait()
os.abort()
"""


def test_what_other_threads_compile_is_not_to_blame(tmp_path):
    done = run(NOTED, tmp_path, str(tmp_path))
    assert (done.returncode, done.stderr) == (-6, "")
    assert not list(tmp_path.iterdir())


def test_notes_know_texts_and_nothing_else(tmp_path):
    notes = CrashNotes(tmp_path)
    with notes.noted("f", "text"):
        assert not notes.is_known("text")
    notes._path(b"text").write_text("text")
    notes = CrashNotes(tmp_path)  # of the next compilation
    assert notes.is_known("text") and not notes.is_known("text ")


# As an interrupt leaves it that comes before the note is taken back.
LEFT = """
import os, sys
from hloom.runtime.library import library
def leave():
    name = os.path.join(sys.argv[1], "left.ll").encode()
    library().hl_crash_note(b"words", name, b"text", 4)
leave()
_ = [bytes(100) for _ in range(1000)]
print("ended")
"""


def test_a_note_that_was_left_is_not_for_an_end_of_ones_own(tmp_path):
    done = run(LEFT, tmp_path, str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
    assert list(tmp_path.iterdir()) == []
    crash = LEFT.replace('print("ended")', "os.abort()")
    done = run(crash, tmp_path, str(tmp_path))
    assert done.stderr.startswith("words")
    assert (tmp_path / "left.ll").read_bytes() == b"text", "copies are kept, whatever became of it"
