"""One way down: one name for one thing, one place for each job, nothing that nobody uses."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HLOOM = ROOT / "hloom"

NOUNS = re.compile(r"(types|ir|ir/text|ir/proto|ir/values|kernel|program|plan|device)/[^/]*\.py")
"""The languages; not the operations and thunks that they have, nor what checks or proves."""
OPERATIONS = ("ir/ops/", "program/thunks/")
"""A thunk has the name of the operation that it runs, as XLA's have."""
ONE_MEANING = ("Place", "Plan", "Region", "Frame", "Value", "Block")
SAYS_NOTHING = frozenset("made found given got thing things stuff foo bar obj".split())
SAYS_ENOUGH = {
    "base/options.py:given": "options that were given, and not left as they are",
    "tools/compare.py:found": "beside `expected`",
}


@cache
def trees() -> dict[str, ast.Module]:
    """Every file of hloom, by its name."""
    return {
        file.relative_to(HLOOM).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(HLOOM.rglob("*.py"))
    }


@cache
def tracked() -> tuple[Path, ...]:
    """Every text of the repository."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split("\0")
    files = [ROOT / name for name in names if name]
    if not files:
        pytest.skip("no git checkout")
    return tuple([f for f in files if f.is_file() and f.suffix not in (".png", ".pb", ".mlirbc")])


# -- names


def classes() -> Iterator[tuple[str, str]]:
    for file, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                yield file, node.name


def test_a_class_of_a_language_has_a_name_of_its_own() -> None:
    owners = defaultdict(list)
    for file, name in classes():
        if not name.startswith("_"):
            owners[name].append(file)
    shared = {
        name: files
        for name, files in owners.items()
        if any(map(NOUNS.fullmatch, files))
        and len([f for f in files if not f.startswith(OPERATIONS)]) > 1
    }
    assert shared == {}


@pytest.mark.parametrize("word", ONE_MEANING)
def test_a_word_has_one_meaning(word: str) -> None:
    assert len([file for file, name in classes() if name == word]) <= 1


def test_public_classes_of_a_room_have_names_of_their_own() -> None:
    owners = defaultdict(list)
    for file, name in classes():
        if not name.startswith("_") and not file.startswith(OPERATIONS):
            owners[file.split("/")[0], name].append(file)
    assert {key: files for key, files in owners.items() if len(files) > 1} == {}


def bound_names(tree: ast.Module) -> Iterator[str]:
    """What a file gives names to: variables, arguments, fields, functions, classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def test_names_say_what_they_hold() -> None:
    empty = {
        f"{file}:{name}"
        for file, tree in trees().items()
        for name in bound_names(tree)
        if name in SAYS_NOTHING
    }
    assert empty - SAYS_ENOUGH.keys() == set()
    assert SAYS_ENOUGH.keys() - empty == set(), "gone"


def test_an_empty_name_would_be_noticed() -> None:
    text = "def f(given):\n  made, x.found = 1, 2\n  for thing in stuff: pass"
    assert SAYS_NOTHING.intersection(bound_names(ast.parse(text))) == {
        "given", "made", "found", "thing"
    }  # fmt: skip


# -- one place for each job


def turns_shape_into_bytes(node: ast.AST) -> bool:
    """Whether an expression multiplies all elements of a shape by the bytes of one."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    sides = [ast.unparse(node.left), ast.unparse(node.right)]
    return any(
        re.search(r"dtype\.(size_bytes|bits)\b", one)
        and re.search(r"\.size\b|prod\([\w.]*(dims|shape)\)", other)
        for one, other in (sides, sides[::-1])
    )


def test_shapes_become_bytes_in_one_place() -> None:
    places = {
        file
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if turns_shape_into_bytes(node)
    }
    assert places == {"types/sizes.py"}, "ask hloom.types.sizes"


@pytest.mark.parametrize(
    "text", ["x.size * x.dtype.size_bytes", "s.dtype.bits // 8 * prod(s.dims)"]
)
def test_bytes_of_a_shape_would_be_noticed(text: str) -> None:
    assert any(map(turns_shape_into_bytes, ast.walk(ast.parse(text))))


def calls_of(symbol: str) -> set[str]:
    """The files of hloom that name a symbol of the runtime."""
    word = re.compile(rf"\b{symbol}\b")
    return {
        file.relative_to(HLOOM).as_posix()
        for kind in ("*.py", "*.cc")
        for file in HLOOM.rglob(kind)
        if word.search(file.read_text(encoding="utf-8"))
    }


def test_one_executor_runs_programs() -> None:
    """One native function runs a program, and one class of Python's calls it."""
    own = {"runtime/library.py", "runtime/native/execution.cc"}
    assert calls_of("hl_program_run") == own | {"runtime/executor.py"}
    assert calls_of("hl_program_run_devices") == own | {"runtime/communicator/in_process.py"}


def test_one_form_is_saved() -> None:
    """One file packs the head of what is saved, in Python; one reads it, in C++."""
    packed = {
        file
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) in ("HEAD.format.pack", "HEAD.format.unpack_from")
    }
    assert packed == {"program/container.py"}
    pickles = {
        file
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and {"pickle", "marshal", "shelve"} & {a.name for a in node.names}
    }
    assert pickles == set()


# -- nothing that nobody uses


def imported_by() -> dict[str, set[str]]:
    """Which files import each module, or a name from it."""
    users = defaultdict(set)
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                users[node.module].add(file)
                for a in node.names:
                    users[f"{node.module}.{a.name}"].add(file)
            elif isinstance(node, ast.Import):
                for a in node.names:
                    users[a.name].add(file)
    return users


def test_each_analysis_has_a_user() -> None:
    users = imported_by()
    idle = [
        file
        for file in trees()
        if file.startswith("analysis/")
        and not file.endswith("__init__.py")
        and all(
            user.startswith("analysis/")
            for user in users[f"hloom.{file.removesuffix('.py').replace('/', '.')}"]
        )
    ]
    assert idle == []


# -- nothing that only this machine or its owner has

PRIVATE = {
    "a path of one machine": re.compile(r"(?<![\w.])/(work|home|root|Users)/\w"),
    "a row of somebody's list": re.compile(r"\b(SC|AOT|CPU|PS|PAR|SIM|MEM|API)-\d{2}\b"),
    "a page that is not here": re.compile(r"\bdesign/\w+\.md\b|\bissue ?#?\d+\b", re.IGNORECASE),
}


@pytest.mark.parametrize("what", PRIVATE)
def test_nothing_points_out_of_the_repository(what: str) -> None:
    places = []
    for file in tracked():
        if file == Path(__file__):
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        if match := PRIVATE[what].search(text):
            line = text.count("\n", 0, match.start()) + 1
            places.append(f"{file.relative_to(ROOT)}:{line}: {match.group()}")
    assert places == []
