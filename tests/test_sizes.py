"""Files stay under 400 lines and functions under 60; the list of exceptions only shrinks.

An exception states its size and a reason. It may not grow, and once it is under the limit its
line here must go. Python files of hloom/, tests/ and bench/ are measured.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FILE_LINES = 400
FUNCTION_LINES = 60
REPOSITORY = Path(__file__).parent.parent
MEASURED = ("hloom", "tests", "bench")

# "path" or "path::qualified.name" -> (lines it may have, why it is better whole).
LIST = "a list of programs that share their arguments"
EXCEPTIONS: dict[str, tuple[int, str]] = {
    "tests/peer/programs/arrays.py::numpy_functions": (113, LIST),
    "tests/peer/programs/control.py::loops": (94, LIST),
    "tests/peer/programs/control.py::calls": (81, LIST),
    "tests/peer/programs/devices.py::cut": (62, LIST),
    "tests/peer/programs/folds.py::reductions": (62, LIST),
    "tests/peer/programs/folds.py::windows": (94, LIST),
    "tests/peer/programs/folds.py::sorts": (80, LIST),
    "tests/peer/programs/gradients.py::of_windows": (79, LIST),
    "tests/peer/programs/indexing.py::writes": (63, LIST),
    "tests/peer/programs/linear.py::dots": (103, LIST),
    "tests/peer/programs/linear.py::convolutions": (117, LIST),
    "tests/peer/programs/networks.py::transformers": (70, LIST),
    "tests/peer/programs/networks.py::optimisers": (62, LIST),
}


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Qualified name and number of lines of every function, inner ones too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{node.name}"
            if not isinstance(node, ast.ClassDef):
                yield name, (node.end_lineno or node.lineno) - node.lineno + 1
            yield from functions(node, f"{name}.")
        else:
            yield from functions(node, prefix)


def sizes(repository: Path) -> Iterator[tuple[str, int, int]]:
    """What, how many lines, how many it may have: for every file and every function."""
    for room in MEASURED:
        for path in sorted((repository / room).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            where = path.relative_to(repository).as_posix()
            yield where, len(text.splitlines()), FILE_LINES
            for name, lines in functions(ast.parse(text, where)):
                yield f"{where}::{name}", lines, FUNCTION_LINES


def complaints(repository: Path, exceptions: dict[str, tuple[int, str]]) -> list[str]:
    """Everything too long, and every exception that is no longer one."""
    wrong, seen = [], set()
    for what, lines, limit in sizes(repository):
        most, reason = exceptions.get(what, (limit, "-"))
        seen.add(what)
        if what in exceptions and lines <= limit:
            wrong.append(f"{what}: {lines} lines now, within {limit}: remove its exception")
        elif lines > most:
            wrong.append(f"{what}: {lines} lines, at most {most}")
        if not reason.strip():
            wrong.append(f"{what}: its exception gives no reason")
    return wrong + [f"{what}: excepted, but not there" for what in exceptions if what not in seen]


def test_nothing_is_too_long():
    assert not (wrong := complaints(REPOSITORY, EXCEPTIONS)), "\n".join(wrong)


# The test above, tested.


@pytest.fixture
def repository(tmp_path):
    """A file of 401 lines with one function of 61, and a short one."""
    (tmp_path / "hloom").mkdir()
    long_function = "class A:\n    def f(self):\n" + "        x = 1\n" * 60
    (tmp_path / "hloom" / "long.py").write_text(long_function + "y = 2\n" * 339)
    (tmp_path / "hloom" / "short.py").write_text("def g():\n    return 1\n")
    return tmp_path


def test_long_things_are_reported(repository):
    assert complaints(repository, {}) == [
        "hloom/long.py: 401 lines, at most 400",
        "hloom/long.py::A.f: 61 lines, at most 60",
    ]


def test_an_exception_holds_and_may_not_grow(repository):
    function = {"hloom/long.py::A.f": (61, "one table")}
    assert complaints(repository, {"hloom/long.py": (401, "one table"), **function}) == []
    (wrong,) = complaints(repository, {"hloom/long.py": (400, "one table"), **function})
    assert wrong == "hloom/long.py: 401 lines, at most 400"


def test_an_exception_that_is_none_is_reported(repository):
    exceptions = {
        "hloom/long.py": (500, "one table"),
        "hloom/long.py::A.f": (70, ""),
        "hloom/short.py::g": (70, "was long"),
        "hloom/gone.py": (500, "was there"),
    }
    assert complaints(repository, exceptions) == [
        "hloom/long.py::A.f: its exception gives no reason",
        "hloom/short.py::g: 2 lines now, within 60: remove its exception",
        "hloom/gone.py: excepted, but not there",
    ]
