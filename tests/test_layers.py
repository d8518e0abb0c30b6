"""Who may import whom. This table is the architecture; the tests hold the code to it.

Every import counts: at the top, inside a function, under TYPE_CHECKING, relative, or by name
through `import_module` and `load_room`. A room that the table lacks is an error.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

NOUNS = "types ir program kernel plan device"
DOORS = "plugin aot tools web jax torch tensorflow"

# Each room may name only rooms above it, so the table cannot hold a cycle.
MAY_IMPORT = {
    "base": "",
    "types": "base",
    "ir": "base types",
    "program": "base types",
    # Its elementwise words are those of HLO.
    "kernel": "base types ir",
    "device": "base types",
    "plan": "base device ir program",
    "interp": "base types ir kernel",
    "analysis": "base types device ir plan",
    "rewrite": "base types ir",
    "frontends": "base types ir",
    "passes": "base types device ir analysis interp rewrite",
    "schedule": "base types device ir plan analysis",
    "memory": "base types device ir plan program analysis",
    "codegen": "base types device ir plan kernel program analysis",
    "runtime": "base types device program",
    "targets": "base types device ir program kernel plan interp analysis rewrite passes schedule"
    " memory codegen runtime",
    "running": "base types device program runtime targets",
    "executable": "base types device ir program plan analysis passes runtime targets running",
    "compiler": "base types device ir program kernel plan interp analysis rewrite frontends passes"
    " schedule memory codegen runtime targets running executable",
    "api": "base types device ir program kernel plan interp analysis rewrite frontends passes"
    " schedule memory codegen runtime targets running executable compiler",
    # The doors may also name the text of every noun: see `allowed`.
    **dict.fromkeys(DOORS.split(), "api"),
    # What writes C libraries is asked for at other doors, too.
    **dict.fromkeys("tools jax torch tensorflow".split(), "api aot"),
    # hloom/__init__.py itself.
    "__init__": "api aot",
    # `python -m hloom`.
    "__main__": "tools",
}
FAMILIES = (
    "elementwise data dot conv reduce gather sort control random linalg fft collective async_"
    " host call"
).split()
FOREIGN = {"jax", "jaxlib", "scipy", "torch", "torchax", "tensorflow"}
# The plugin lives inside JAX.
MAY_IMPORT_FOREIGN = {
    "plugin": {"jax", "jaxlib"},
    "jax": {"jax"},
    "torch": {"torch", "torchax", "jax"},
    "tensorflow": {"tensorflow"},
}
FOREIGN_HERE = {
    "frontends/stablehlo/bindings.py": {"jaxlib"},
    "tools/bench_peer.py": {"jax", "jaxlib"},
}
"""The one file of a room that takes what only an extra of the package installs, for all others."""
VAGUE = {"utils", "helpers", "misc", "common", "manager"}
IMPORTERS = {"import_module", "__import__", "load_room"}
COUNT_BYTES = {
    "types/sizes.py",
    "runtime/buffer.py",  # of an array of run-time size, as it came out
    "runtime/call_frame.py",  # of a handler's buffer, which has no shape but numbers
    "runtime/debug.py",  # of a memory area whose size is known: whole elements
    "targets/cpu/debug.py",  # of a parameter of a kernel, which has no shape
}
"""Where elements and their width are multiplied."""
READ_ROOMS = "analysis base codegen device memory program schedule types".split()
"""Rooms each of whose files something outside them imports by name. Rooms that are loaded whole, to
fill registries, are not among them, nor nouns whose `verify.py` only tests ask (`plan`)."""

TESTS = Path(__file__).parent
ROOT = TESTS.parent / "hloom"


@cache
def imports(path: Path, root: Path) -> list[tuple[int, str]]:
    """Line and full dotted name of everything a file imports; each is read once for all tests."""
    return list(_imports(path, root))


def _imports(path: Path, root: Path) -> Iterator[tuple[int, str]]:
    package = (root.name, *path.relative_to(root).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            here = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*here, *([node.module] if node.module else [])))
            # `from hloom import ir` and `from . import ir` name a room in what they import.
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", None))
            name = node.args[0]
            if called in IMPORTERS and isinstance(name, ast.Constant):
                yield node.lineno, str(name.value)


def room_of(path: Path, root: Path) -> str:
    """The room a file belongs to: its first folder, or its own name at the top."""
    return path.relative_to(root).with_suffix("").parts[0]


def allowed(room: str, name: tuple[str, ...]) -> bool:
    """Whether a file of `room` may import the dotted `name`, which starts with hloom."""
    other = name[1] if len(name) > 1 else "__init__"
    if other == room or other in MAY_IMPORT[room].split():
        return True
    is_text = other in NOUNS.split() and name[2:3] == ("text",)
    return room in DOORS.split() and (is_text or other == "__version__")


def wrong_imports(root: Path) -> list[str]:
    """Every import that the table does not allow, every foreign one, every unknown room."""
    wrong = []
    for path in sorted(root.rglob("*.py")):
        room, where = room_of(path, root), path.relative_to(root)
        if room not in MAY_IMPORT:
            wrong.append(f"{where}: room {room} is not in the table")
            continue
        foreign = FOREIGN - MAY_IMPORT_FOREIGN.get(room, set())
        foreign -= FOREIGN_HERE.get(where.as_posix(), set())
        for line, dotted in imports(path, root):
            name = tuple(dotted.split("."))
            if name[0] in foreign:
                wrong.append(f"{where}:{line}: nothing in {room} may import {name[0]}")
            elif name[0] == "hloom" and not allowed(room, name):
                wrong.append(f"{where}:{line}: {room} may not import {'.'.join(name[:3])}")
    return wrong


def unread_files(root: Path, room: str) -> list[str]:
    """Files of a room that nothing outside it imports, not by way of other files of it either."""
    files = {
        f"hloom.{room}.{p.stem}": p for p in (root / room).glob("*.py") if p.stem != "__init__"
    }
    outside = [p for p in root.rglob("*.py") if room_of(p, root) != room]
    read: set[str] = set()
    while outside:
        names = {name for _, name in imports(outside.pop(), root)}
        found = {
            f
            for f in files.keys() - read
            if f in names or any(n.startswith(f + ".") for n in names)
        }
        read |= found
        outside += [files[f] for f in found]
    return sorted(files.keys() - read)


def counted_bytes(root: Path) -> list[str]:
    """Products of a shape's elements and the width of its type, but where shapes are counted."""
    elements, width = r"(prod\(|\.size\b)", r"(dtype\.(numpy\.)?(size_bytes|itemsize|bits)\b)"
    product = re.compile(rf"{elements}.*\*.*{width}|{width}.*\*.*{elements}")
    return [
        f"{path.relative_to(root)}:{number}: ask hloom/types/sizes.py for bytes"
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root).as_posix() not in COUNT_BYTES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if product.search(line)
    ]


def vague_names(root: Path) -> list[str]:
    """Files and folders whose name says nothing about what they hold."""
    return [
        f"{path.relative_to(root)}: the name says nothing"
        for path in sorted(root.rglob("*"))
        if path.stem.lower().strip("_") in VAGUE and (path.is_dir() or path.suffix == ".py")
    ]


def is_pass_file(path: Path) -> bool:
    """Whether a file registers a pass: passes stand in a folder, and name themselves."""
    return any(
        isinstance(node, ast.ClassDef)
        and any("register" in ast.unparse(mark) for mark in node.decorator_list)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path)))
    )


def passes_without_cases(root: Path, tests: Path) -> list[str]:
    """Pass files that have no `tests/passes/**/<name>.hlo`."""
    cases = {p.stem for p in (tests / "passes").rglob("*.hlo")}
    return [
        f"{path.relative_to(root)}: no tests/passes/**/{path.stem}.hlo"
        for path in sorted((root / "passes").rglob("*.py"))
        if path.stem not in cases and path.stem != "__init__" and is_pass_file(path)
    ]


def strange_families(folder: Path) -> list[str]:
    """Files whose name is not that of a family of operations, or of a part `family_part` of one."""
    known = {*FAMILIES, "__init__"}
    return [
        str(p)
        for p in sorted(folder.glob("*.py"))
        if p.stem not in known and p.stem.split("_")[0] not in known
    ]


def test_table_has_no_cycle():
    above: list[str] = []
    for room, others in MAY_IMPORT.items():
        assert set(others.split()) <= set(above), f"{room} names a room below it"
        above.append(room)


def test_imports_follow_the_table():
    assert not (wrong := wrong_imports(ROOT)), "\n".join(wrong)


@pytest.mark.parametrize("room", READ_ROOMS)
def test_every_file_has_a_reader(room):
    assert not (unread := unread_files(ROOT, room)), f"nothing but tests reads {unread}"


def test_one_place_turns_shapes_into_bytes():
    assert not (wrong := counted_bytes(ROOT)), "\n".join(wrong)


def test_names_say_something():
    assert not (wrong := vague_names(ROOT) + vague_names(TESTS)), "\n".join(wrong)


def test_every_pass_file_has_a_test_file():
    assert not (wrong := passes_without_cases(ROOT, TESTS)), "\n".join(wrong)


def test_operations_stand_in_families():
    wrong = strange_families(ROOT / "ir" / "ops") + strange_families(ROOT / "interp" / "ops")
    assert not wrong, f"{wrong}: not a family name; families are {FAMILIES}"


# The tests above, tested: a tree that is deliberately wrong is reported.


@pytest.fixture
def tree(tmp_path):
    """Writes files of a small hloom, and gives its root."""

    def write(**files: str) -> Path:
        for name, text in files.items():
            path = tmp_path / "hloom" / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "hloom"

    return write


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("ir__graph", "import hloom.passes", "ir/graph.py:1: ir may not import hloom.passes"),
        ("ir__graph", "from hloom.interp import evaluate", "ir may not import hloom.interp"),
        ("ir__graph", "from hloom import interp", "ir may not import hloom.interp"),
        ("ir__graph", "from .. import interp", "ir may not import hloom.interp"),
        ("ir__ops__dot", "from ...rewrite.rule import rule", "ir may not import hloom.rewrite"),
        ("ir__graph", "def f():\n    from hloom.api import load", "ir/graph.py:2: ir may not"),
        ("ir__graph", "if TYPE_CHECKING:\n    import hloom.api", "ir may not import hloom.api"),
        ("ir__graph", "import_module('hloom.targets')", "ir may not import hloom.targets"),
        ("base__trace", "from hloom.types import shape", "base may not import hloom.types"),
        ("runtime__pool", "from hloom.ir import module", "runtime may not import hloom.ir"),
        ("tools__main", "from hloom.passes import PASSES", "tools may not import hloom.passes"),
        ("tools__main", "from hloom.ir.graph import x", "tools may not import hloom.ir.graph"),
        ("interp__fft", "import scipy.fft", "nothing in interp may import scipy"),
        ("ir__proto", "def f():\n    from jaxlib import _hlo", "may import jaxlib"),
        ("frontends__jax", "import jax", "nothing in frontends may import jax"),
        ("frontends__mlir", "from jaxlib.mlir import ir", "in frontends may import jaxlib"),
        ("tools__bench", "from jaxlib import _jax", "nothing in tools may import jaxlib"),
        ("attic__old", "", "room attic is not in the table"),
        ("lonely", "", "room lonely is not in the table"),
    ],
)
def test_a_wrong_import_is_reported(tree, file, text, complaint):
    (wrong,) = wrong_imports(tree(**{file: text}))
    assert complaint in wrong


def test_a_file_without_reader_is_reported(tree):
    root = tree(
        analysis__read="from hloom.analysis.behind import y",
        analysis__behind="",
        analysis__alone="from hloom.analysis.read import x",
        analysis__named="",
        passes__dce="from hloom.analysis.read import x\nfrom hloom.analysis import named",
    )
    assert unread_files(root, "analysis") == ["hloom.analysis.alone"]


def test_another_count_of_bytes_is_reported(tree):
    root = tree(
        plan__one="n = prod(s.dims) * max(1, s.dtype.bits // 8)",
        plan__two="n = s.dtype.size_bytes * s.size",
        plan__three="n = s.size * wide\nm = s.dtype.size_bytes * lanes",
        types__sizes="n = prod(s.dims) * s.dtype.size_bytes",
    )
    assert [w.split(":")[0] for w in counted_bytes(root)] == ["plan/one.py", "plan/two.py"]


def test_right_imports_are_not_reported(tree):
    root = tree(
        ir__graph="import numpy\nfrom hloom.types import shape\nfrom .ops import dot",
        ir__ops__dot="from ...base import registry\nfrom ..graph import Module",
        tools__main="from hloom import __version__\nfrom hloom.api import load",
        frontends__stablehlo__bindings="from jaxlib.mlir import ir",
        tools__bench_peer="import jax",
        plugin__register="from jax._src import xla_bridge",
        tools__show="from hloom.ir.text import parse_module\nimport hloom.types.text.print",
        api="from hloom.passes import PASSES",
    )
    assert wrong_imports(root) == []


def test_the_spine_names_no_target():
    for name in ("compiler.py", "executable.py"):
        named = [d for _, d in imports(ROOT / name, ROOT) if d.startswith("hloom.targets.cpu")]
        assert named == [], f"{name} asks hloom.targets.target for them"


def test_a_vague_name_is_reported(tree):
    root = tree(ir__utils="", passes__common__cse="", ir__module="")
    assert [line.split(":")[0] for line in vague_names(root)] == ["ir/utils.py", "passes/common"]


def test_a_pass_without_cases_is_reported(tree, tmp_path):
    root = tree(
        passes__simplify__dce="@register\nclass DCE:\n    pass",
        passes__simplify__cse="@register\nclass CSE:\n    pass",
        passes__pipeline="class Pipeline:\n    pass",
    )
    cases = tmp_path / "tests" / "passes" / "simplify"
    cases.mkdir(parents=True)
    (cases / "cse.hlo").write_text("")
    (wrong,) = passes_without_cases(root, tmp_path / "tests")
    assert wrong.startswith("passes/simplify/dce.py")


def test_a_strange_family_is_reported(tree):
    root = tree(ir__ops__dot="", ir__ops__matmul="")
    (wrong,) = strange_families(root / "ir" / "ops")
    assert wrong.endswith("matmul.py")
