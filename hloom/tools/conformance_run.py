"""Running JAX's tests: one process for each file and backend, and another one behind each crash.

The child writes a line as each test begins and ends (`conformance_child.py`). The last test that
has begun and not ended when the process dies has crashed it; one that takes too long is killed with
its process. Either way the next process leaves out what has ended. The lines stay on disk, so a run
that was interrupted goes on where it was.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

DEVICES = 8
COLLECT_S = 900
"""How long importing a file and listing its tests may take."""
BACKENDS = ("hloom", "builtin")
_GOOD_CODES = (0, 1, 2, 5)
"""All is well, tests failed, a file could not be imported, there were no tests."""
_XLA_DEVICES = "--xla_force_host_platform_device_count"


@dataclass(frozen=True)
class Settings:
    """What a run is made of."""

    checkout: Path
    folder: Path
    sample: float
    seed: int
    timeout_s: float
    exclusions: tuple[tuple[str, str], ...]

    def results(self, backend: str, file: str) -> Path:
        """Where the lines of one file are."""
        name = file.replace("/", "__").removesuffix(".py")
        return self.folder / backend / f"{name}.jsonl"


@dataclass(frozen=True)
class Ended:
    """How a test ended: passed, failed, skipped, excluded, crashed or timeout."""

    outcome: str
    why: str
    seconds: float


def environment(backend: str) -> dict[str, str]:
    """That of a child: 8 devices of the backend, and the same names of tests each time.

    What the tests start themselves does not import the checkout's jax/ either, which has no jaxlib.
    """
    variables = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    variables.update(PYTHONSAFEPATH="1", PYTHONHASHSEED=variables.get("PYTHONHASHSEED", "0"))
    flags = re.sub(rf"{_XLA_DEVICES}=\d+", "", variables.get("XLA_FLAGS", "")).strip()
    if backend == "hloom":
        variables.update(JAX_PLATFORMS="hloom", HLOOM_NUM_CPU_DEVICES=str(DEVICES))
    else:
        variables.update(JAX_PLATFORMS="cpu")
        flags = f"{flags} {_XLA_DEVICES}={DEVICES}".strip()
    variables["XLA_FLAGS"] = flags
    return variables


def settings_of_tests() -> dict[str, str]:
    """What the environment says to JAX's tests, beside which backend: they are other tests then."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if (name.startswith("JAX_") or name == "XLA_FLAGS") and name != "JAX_PLATFORMS" and value
    }


class State:
    """What the lines of a file say."""

    def __init__(self, path: Path) -> None:
        self.ended: dict[str, Ended] = {}
        self.running: str | None = None
        """The test that the last process has begun and not ended."""
        self.is_whole = False
        """Whether the last process came to its end."""
        self.is_through = False
        """Whether the file needs no further process."""
        for record in _lines(path):
            if "process" in record:
                self.running, self.is_whole = None, False
            elif "start" in record:
                self.running = record["start"]
            elif "id" in record:
                self.ended[record["id"]] = Ended(
                    record["outcome"], record["why"], record["seconds"]
                )
                self.running = None
            self.is_whole = self.is_whole or "end" in record
            self.is_through = self.is_through or "through" in record


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue  # cut off, as its process was killed


def run_file(settings: Settings, backend: str, file: str) -> dict[str, Ended]:
    """How the tests of one file end on one backend; what is known already is not run again."""
    path = settings.results(backend, file)
    path.parent.mkdir(parents=True, exist_ok=True)
    while not (state := State(path)).is_through:
        _add(path, process=True)
        code, was_killed = _run_once(settings, backend, file, path, list(state.ended))
        state = State(path)
        culprit = state.running or (f"{file}::exit" if state.is_whole else file)
        if was_killed:
            why, seconds = f"took more than {settings.timeout_s:g} s", settings.timeout_s
            _add(path, id=culprit, outcome="timeout", why=why, seconds=seconds)
        elif state.running is not None or not state.is_whole or code not in _GOOD_CODES:
            why = f"the process ended with {_code_text(code)}"
            _add(path, id=culprit, outcome="crashed", why=why, seconds=0)
        if state.running is None:
            _add(path, through=True)
    return state.ended


def forget_failures(settings: Settings, backend: str, file: str) -> None:
    """Leave of a file's lines only the tests that need not run again: passed, skipped, excluded."""
    path = settings.results(backend, file)
    remembered = {
        test: ended
        for test, ended in State(path).ended.items()
        if ended.outcome in ("passed", "skipped", "excluded")
    }
    if len(remembered) == len(State(path).ended):
        return
    lines = [json.dumps({"id": test, **asdict(ended)}) for test, ended in remembered.items()]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def _add(path: Path, **fields: Any) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(fields) + "\n")


def _code_text(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"


def _run_once(
    settings: Settings, backend: str, file: str, path: Path, done: list[str]
) -> tuple[int, bool]:
    """The exit code of one process, and whether it was killed as nothing ended any more."""
    told_child = {
        "results": str(path),
        "done": done,
        "sample": settings.sample,
        "seed": settings.seed,
        "exclusions": settings.exclusions,
    }
    command = [sys.executable, "-m", "pytest", file, f"--rootdir={settings.checkout}"]
    command += ["-p", "hloom.tools.conformance_child", "-p", "no:cacheprovider", "-q", "--tb=short"]
    command += ["--import-mode=append", "--continue-on-collection-errors", "-p", "no:xdist"]
    command += ["--override-ini=addopts="]  # such as -n auto; filters of warnings stay
    env: Mapping[str, str] = {**environment(backend), "HLOOM_CONFORMANCE": json.dumps(told_child)}
    with path.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=settings.checkout,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            return _watch(process, path, settings.timeout_s)
        finally:
            _kill(process)


def _watch(process: subprocess.Popen[bytes], path: Path, timeout_s: float) -> tuple[int, bool]:
    """Wait for the process; kill it when no line came for longer than a test may take."""
    size, since, limit = path.stat().st_size, time.monotonic(), max(timeout_s, COLLECT_S)
    while True:
        try:
            return process.wait(0.1), False
        except subprocess.TimeoutExpired:
            pass
        if (now := path.stat().st_size) != size:
            size, since, limit = now, time.monotonic(), timeout_s
        elif time.monotonic() - since > limit:
            return 0, True


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process with all that it started."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
