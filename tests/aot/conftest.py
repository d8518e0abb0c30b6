"""What several files of tests share: the runtime's C++ compiled once for libraries of one name."""

import shutil
from pathlib import Path

import pytest

from hloom.aot import link


@pytest.fixture(scope="session")
def objects_of_routines() -> dict[tuple[str, ...], Path]:
    """Objects by the command that made them, all but where they were written to."""
    return {}


@pytest.fixture
def routines_compiled_once(objects_of_routines, tmp_path_factory, monkeypatch):
    """Linear algebra and transforms take a compiler 3 to 7 s; a command that was run before gives
    a copy of what it gave."""
    real = link.run

    def run(words, failure):
        if words[-4:-3] != ["-c"] or not words[-3].endswith(".cc"):
            return real(words, failure)
        command, made = tuple(words[:-1]), Path(words[-1])
        if (known := objects_of_routines.get(command)) is not None:
            shutil.copy(known, made)
            return None
        real(words, failure)
        kept = tmp_path_factory.mktemp("routines") / made.name
        objects_of_routines[command] = Path(shutil.copy(made, kept))
        return None

    monkeypatch.setattr(link, "run", run)
