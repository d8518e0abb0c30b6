"""A plugin of pytest: writes down how each test ended, as it ends, for `hloom conformance`.

The settings come as JSON in HLOOM_CONFORMANCE. Tests that have ended in an earlier process are
left out, so that a process that crashed is followed by one that goes on behind the crash.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import monotonic
from typing import Any

from hloom.tools.conformance_choice import Choice

WHY_LENGTH = 300


class Recorder:
    """The hooks; `settings` are `results` (a file), `done`, and what a `Choice` is made of."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._file = Path(settings["results"]).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 (to the end)
        self._done = frozenset(settings["done"])
        self._choice = Choice(settings["sample"], settings["seed"], settings["exclusions"])
        self._worst: tuple[str, str] = ("passed", "")
        self._began = 0.0

    def _write(self, **fields: Any) -> None:
        self._file.write(json.dumps(fields) + "\n")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._write(id=report.nodeid, outcome="failed", why=why_of(report), seconds=0)
        elif report.skipped and report.nodeid not in self._done:
            self._write(id=report.nodeid, outcome="skipped", why=why_of(report), seconds=0)

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        chosen = []
        for item in items:
            if item.nodeid in self._done or not self._choice.takes(item.nodeid):
                continue
            if (reason := self._choice.why_excluded(item.nodeid)) is not None:
                self._write(id=item.nodeid, outcome="excluded", why=reason, seconds=0)
                continue
            chosen.append(item)
        items[:] = chosen
        self._write(collected=len(chosen))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._worst, self._began = ("passed", ""), monotonic()
        self._write(start=nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._worst = ("failed", why_of(report))
        elif report.skipped and self._worst[0] == "passed":
            self._worst = ("skipped", why_of(report))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        outcome, why = self._worst
        seconds = round(monotonic() - self._began, 3)
        self._write(id=nodeid, outcome=outcome, why=why, seconds=seconds)

    def pytest_sessionfinish(self) -> None:
        self._write(end=True)


def why_of(report: Any) -> str:
    """One line about a test that failed or was skipped."""
    failure = report.longrepr
    crash = getattr(failure, "reprcrash", None)
    if crash is not None:
        text = crash.message
    elif isinstance(failure, tuple):
        text = failure[2]
    else:
        lines = [line for line in str(failure).splitlines() if line.startswith("E ")]
        text = lines[-1][1:] if lines else str(failure)
    return (text.strip().splitlines() or [""])[0][:WHY_LENGTH]


def pytest_configure(config: Any) -> None:
    recorder = Recorder(json.loads(os.environ["HLOOM_CONFORMANCE"]))
    config.pluginmanager.register(recorder, "hloom-conformance-recorder")
