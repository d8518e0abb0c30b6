"""Programs whose devices are in several processes, which MPI joins: values, failures, refusals."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hloom.base.diagnostics import UsageError
from hloom.runtime.communicator.processes import Processes, launcher, mpi_libraries

MPIRUN = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or shutil.which("mpirun")

needs_mpi = pytest.mark.skipif(MPIRUN is None, reason="no mpirun: pip install 'hloom[mpi]'")

ADD = """add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
"""

PAIRS = (
    'channel_id=7, frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,2},{2,3}}"}'
)

# Large enough that each process folds a part, with an odd rest; and sends from one to the other.
LARGE = f"""HloModule large, replica_count=4
{ADD}ENTRY e {{
  x = f32[331,301]{{1,0}} parameter(0)
  id = u32[] replica-id()
  f = f32[] convert(id)
  fb = f32[331,301]{{1,0}} broadcast(f), dimensions={{}}
  y = f32[331,301]{{1,0}} multiply(x, fb)
  ar = f32[331,301]{{1,0}} all-reduce(y), replica_groups={{}}, to_apply=add
  a2 = f32[331,301]{{1,0}} all-reduce(ar), replica_groups={{{{0,3}},{{2,1}}}}, to_apply=add
  tok = token[] after-all()
  s = (f32[331,301]{{1,0}}, u32[], token[]) send(y, tok), {PAIRS}
  sd = token[] send-done(s), channel_id=7
  r = (f32[331,301]{{1,0}}, u32[], token[]) recv(tok), {PAIRS}
  rd = (f32[331,301]{{1,0}}, token[]) recv-done(r), channel_id=7
  rv = f32[331,301]{{1,0}} get-tuple-element(rd), index=0
  ROOT t = (f32[331,301]{{1,0}}, f32[331,301]{{1,0}}) tuple(a2, rv)
}}
"""

FAILING = r"""
import pathlib, sys, time
import numpy as np, hloom
from hloom import api
exe = hloom.compile(hloom.load(sys.argv[1]))
exe.processes = p = api.Processes.mpi()
exe.patience = api.Patience(0.4, 0.8, 60.0)
args = [[np.ones((331, 301), np.float32)] for _ in exe.own_part]
ready = [pathlib.Path(__file__).with_name(f"ready{k}") for k in range(2)]
ready[p.rank].touch()  # however long each has compiled
while not all(path.exists() for path in ready): time.sleep(0.01)
exe.run_devices(args)
if p.rank == 1:
    if sys.argv[2] == "sleeps": time.sleep(5)
    if sys.argv[2] == "ends": sys.exit(0)
    if sys.argv[2] == "computes":
        begin = time.process_time()
        while time.process_time() - begin < 2: pass
    if sys.argv[2] == "other":
        text = open(sys.argv[1]).read()
        other = hloom.parse(text.replace("replica_groups={},", "replica_groups={{0,1},{2,3}},"))
        exe = hloom.compile(other); exe.processes = p; exe.patience = api.Patience(0.4, 0.8, 60.0)
elif sys.argv[2] == "other":
    exe = hloom.compile(hloom.load(sys.argv[1])); exe.processes = p
    exe.patience = api.Patience(0.4, 0.8, 60.0)
try:
    exe.run_devices(args)
    sys.stdout.write(f"{p.rank} ok\n")
except Exception as error:
    sys.stdout.write(f"{p.rank} {error.message}\n")
"""


BACK = PAIRS.replace("{0,1},{1,2},{2,3}", "{1,0}")

# Device 1 sends 64 MiB to device 0, and takes nothing.
SENDING = f"""HloModule sending, replica_count=2
ENTRY e {{
  x = f32[16777216]{{0}} parameter(0)
  tok = token[] after-all()
  s = (f32[16777216]{{0}}, u32[], token[]) send(x, tok), {BACK}
  sd = token[] send-done(s), channel_id=7
  r = (f32[16777216]{{0}}, u32[], token[]) recv(tok), {BACK}
  rd = (f32[16777216]{{0}}, token[]) recv-done(r), channel_id=7
  ROOT rv = f32[16777216]{{0}} get-tuple-element(rd), index=0
}}
"""

SENDER = r"""
import os, pathlib, sys, time
import numpy as np, hloom
from hloom import api
exe = hloom.compile(hloom.load(sys.argv[1]))
exe.processes = p = api.Processes.mpi()
args = [[np.full(16777216, 3, np.float32)]]
exe.run_devices(args)
here = pathlib.Path(__file__).parent
(here / f"writing{p.rank}").write_text(str(os.getpid()))
(here / f"writing{p.rank}").rename(here / f"ready{p.rank}")
while not (here / "go").exists(): time.sleep(0.01)
result = np.asarray(exe.run_devices(args)[0])
(here / f"ended{p.rank}").touch()
sys.stdout.write(f"{p.rank} got {result.min()} {result.max()}\n")
"""


def run(*words: object, processes: int = 2) -> subprocess.CompletedProcess[str]:
    command = [str(MPIRUN), "-n", str(processes), sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large.hlo"
    path.write_text(LARGE)
    return path


@needs_mpi
@pytest.mark.parametrize("processes", [2, 4])
def test_the_first_process_says_what_all_have_computed(large: Path, processes: int):
    done = run("-m", "hloom", "run", large, "--check", processes=processes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the same as the interpreter within tolerances") == 1
    assert all(f"result.{k}@{d}" in done.stdout for d in range(4) for k in range(2))


@needs_mpi
def test_drawn_programs_are_the_same_bit_for_bit():
    words = ["-m", "tests.fuzz.run_devices", "--seed", 30, "--count", 24, "--minutes", 5]
    done = run(*words)
    assert done.returncode == 0 and done.stdout.count(" 0 wrong") == 2, done.stdout + done.stderr


@needs_mpi
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("sleeps", r"of process 1, which did not come in \d[.\d]* s"),
        ("ends", "of process 1, which ended without it"),
        ("other", "runs another program here"),
        ("computes", "0 ok"),
    ],
)
def test_who_is_waited_for_in_vain_is_named(large: Path, tmp_path: Path, what: str, said: str):
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    done = run(script, large, what)
    assert re.search(said, done.stdout), done.stdout + done.stderr


# Device 2 takes what device 1 does not send, and device 0 waits for device 2: process 0 goes on.
LEFT = f"""HloModule left, replica_count=4
{ADD}taken {{
  x = f32[] parameter(0)
  tok = token[] after-all()
  r = (f32[], u32[], token[]) recv(tok), {PAIRS}
  rd = (f32[], token[]) recv-done(r), channel_id=7
  ROOT rv = f32[] get-tuple-element(rd), index=0
}}
sent {{
  x = f32[] parameter(0)
  tok = token[] after-all()
  s = (f32[], u32[], token[]) send(x, tok), {PAIRS}
  sd = token[] send-done(s), channel_id=7
  ROOT y = f32[] add(x, x)
}}
kept {{ ROOT x = f32[] parameter(0) }}
ENTRY e {{
  x = f32[] parameter(0)
  id = u32[] replica-id()
  k = s32[] convert(id)
  two = s32[] constant(2)
  is = pred[] compare(k, two), direction=EQ
  nine = s32[] constant(9)
  nobody = pred[] compare(k, nine), direction=GT
  a = f32[] conditional(nobody, x, x), true_computation=sent, false_computation=kept
  b = f32[] conditional(is, a, a), true_computation=taken, false_computation=kept
  ROOT ar = f32[] all-reduce(b), replica_groups={{{{0,2}},{{1}},{{3}}}}, to_apply=add
}}
"""

WAITING = r"""
import sys, time
import numpy as np, hloom
from hloom import api
exe = hloom.compile(hloom.load(sys.argv[1]))
exe.processes = p = api.Processes.mpi()
begin = time.monotonic()
try:
    exe.run_devices([[np.float32(1)], [np.float32(1)]])
except Exception as error:
    sys.stdout.write(f"{p.rank} {time.monotonic() - begin < 15} {error.message}\n")
"""


@needs_mpi
def test_a_device_that_ended_while_its_process_waits_is_named_soon(tmp_path: Path):
    """By the limits of 20 and 40 s the wait would be for device 2, which waits itself."""
    (tmp_path / "left.hlo").write_text(LEFT)
    (tmp_path / "waiting.py").write_text(WAITING)
    done = run(tmp_path / "waiting.py", tmp_path / "left.hlo")
    said = "for device 1 of process 0, which ended without it"
    for rank in range(2):
        assert re.search(rf"{rank} True .*{said}", done.stdout), done.stdout + done.stderr


def await_file(path: Path) -> str:
    until = time.monotonic() + 100
    while not path.exists():
        assert time.monotonic() < until, path.name
        time.sleep(0.01)
    return path.read_text()


@needs_mpi
def test_a_run_has_not_ended_before_the_others_have_what_it_sends_them(tmp_path: Path):
    """Process 0 stands still, so what is for it cannot leave: process 1 may not end before."""
    (tmp_path / "sending.hlo").write_text(SENDING)
    (tmp_path / "sender.py").write_text(SENDER)
    words = [
        str(MPIRUN),
        "-n",
        "2",
        sys.executable,
        tmp_path / "sender.py",
        tmp_path / "sending.hlo",
    ]
    mpi = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        receiver, _ = (int(await_file(tmp_path / f"ready{k}")) for k in range(2))
        os.kill(receiver, signal.SIGSTOP)
        (tmp_path / "go").touch()
        time.sleep(1)
        has_ended = (tmp_path / "ended1").exists()
        os.kill(receiver, signal.SIGCONT)
        said = mpi.communicate(timeout=100)[0]
    finally:
        mpi.kill()
    assert "0 got 3.0 3.0" in said and "1 got 0.0 0.0" in said
    assert not has_ended, said


@needs_mpi
def test_devices_that_cannot_be_spread(large: Path):
    done = run("-m", "hloom", "run", large, processes=3)
    assert done.returncode == 2
    assert "4 devices cannot be spread evenly over 3 processes" in done.stderr
    assert "start 1, 2 or 4 processes" in done.stderr


def test_the_library_of_the_launcher_is_tried_first():
    assert mpi_libraries({"HLOOM_MPI_LIBRARY": "/x/libmpi.so"}) == ["/x/libmpi.so"]
    of_open_mpi = mpi_libraries({"OMPI_COMM_WORLD_SIZE": "2"})
    of_mpich = mpi_libraries({"PMI_SIZE": "2"})
    assert of_open_mpi.index("libmpi.so.40") < of_open_mpi.index("libmpi.so.12")
    assert of_mpich.index("libmpi.so.12") < of_mpich.index("libmpi.so.40")
    assert launcher({"PMI_SIZE": "3"}) == ("MPICH", 3) and launcher({}) == ("", 1)


def test_without_a_library_there_is_a_hint():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert "no MPI library can be loaded" in done.stdout and "hloom[mpi]" in done.stdout


CODE = """
import os
os.environ["HLOOM_MPI_LIBRARY"] = "/nowhere/libmpi.so"
from hloom import api
try:
    api.Processes.mpi()
except api.UsageError as error:
    print(error)
"""


def test_parts_are_even():
    class Three(Processes):
        def __init__(self) -> None:
            self.rank, self.size = 1, 3

    assert Three().own_part(6) == range(2, 4)
    with pytest.raises(UsageError, match="start 1, 2 or 4 processes"):
        Three().own_part(4)
