"""Collects the case files of passes: `tests/passes/**/*.hlo`, one test for each case.

What a case file looks like, and what is checked for every case, is in tests/pass_case.py.
"""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before the native library is loaded: tests/plugin/test_leaks.py asks how many there are.
os.environ["HLOOM_COUNT_OBJECTS"] = "1"

from hloom.base.guarding import GUARDING
from hloom.runtime.library import library
from tests.filecheck import CheckFailed
from tests.kept_objects import keep_objects
from tests.pass_case import CaseFailed, cases, pass_from_text, product, run_case

# What a test compiles is compiled now; those of the compile cache turn it on again.
os.environ["HLOOM_CACHE"] = "0"
if folder := os.environ.get("HLOOM_TEST_OBJECTS"):
    keep_objects(folder)
# A fault of the compiler fails the test that meets it; those of recovery say otherwise.
os.environ["HLOOM_STRICT"] = "1"

# Whether a drawn example fails is not a matter of how busy the machine is.
settings.register_profile("any-speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-speed")

CASES = Path(__file__).parent / "passes"


def pytest_configure(config):
    """What a guard says is seen, although pytest keeps what a test writes, and the test dies."""
    if GUARDING:
        library().hl_guard_report_to(os.dup(2))


def pytest_collection_finish(session):
    """The tests, and what their modules hold, stay: no collection is to walk through them. There
    are 700,000 objects, half a second each time, and tests of leaks collect a hundred times."""
    gc.collect()
    gc.freeze()


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".hlo" and CASES in file_path.parents:
        return HloFile.from_parent(parent, path=file_path)
    return None


class HloFile(pytest.File):
    """A case file."""

    def collect(self):
        try:
            found = list(cases(self.path))
        except ValueError as error:
            raise self.CollectError(str(error)) from None
        for case in found:
            yield HloCase.from_parent(self, name=case.name, case=case)


class HloCase(pytest.Item):
    """One case: one program and the pass it goes through."""

    def __init__(self, *, case, **rest):
        super().__init__(**rest)
        self.case = case

    def runtest(self):
        run_case(self.case, pass_from_text(self.case.pass_text), product())

    def repr_failure(self, excinfo):
        if isinstance(excinfo.value, CaseFailed | CheckFailed):
            return f"{self.path}:{self.case.line}: {self.name}\n{excinfo.value}"
        excinfo.traceback = excinfo.traceback.cut(path=__file__)
        return excinfo.getrepr(style="short")

    def reportinfo(self):
        return self.path, self.case.line - 1, f"{self.case.pass_text}: {self.name}"
