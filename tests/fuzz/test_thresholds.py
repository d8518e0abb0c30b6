"""The list of sizes at which the compiler changes its mind is whole, and both sides are right.

`python -m tests.fuzz.run_sizes` draws programs at all of them; here stands a sample.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from hloom.ir.verify import verify
from tests.fuzz.check_native import Trial
from tests.fuzz.run_sizes import difference
from tests.fuzz.sketch_sizes import drawn_near
from tests.fuzz.thresholds import NO_SIZES, Threshold, thresholds

ROOT = Path(__file__).parents[2] / "hloom"
ROOMS = (
    *("analysis/*.py", "codegen/*.py", "targets/cpu/lower/*.py"),
    *("passes/expand/*.py", "passes/fuse/*.py", "passes/layout/*.py", "passes/normalize/*.py"),
)
LEAST = 5
"""Smaller numbers are reached by any program."""
ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
TYPE_SIZES = frozenset((8, 16, 32, 64, 2**31))
MOST_SAMPLED = 1 << 18
ALL = thresholds()
SAMPLE = [t for t in ALL if t.elements(4) <= MOST_SAMPLED][::6]


def sources() -> Iterator[tuple[str, ast.Module]]:
    for room in ROOMS:
        for path in sorted(ROOT.glob(room)):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield name, ast.parse(path.read_text())


def named_numbers(tree: ast.Module) -> Iterator[str]:
    """The module's constants that are numbers from `LEAST` on."""
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(
            node.targets[0], ast.Name | ast.Tuple
        ):
            continue
        [target], value = node.targets, node.value
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        is_pair = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        values = value.elts if is_pair else [value]
        for name, x in zip(names, values):
            parts = list(ast.walk(x))
            if any(isinstance(p, ast.Name | ast.Call | ast.List | ast.Dict) for p in parts):
                continue
            try:
                number = eval(compile(ast.Expression(x), "constant", "eval"), {})
            except TypeError:
                continue
            if isinstance(name, ast.Name) and isinstance(number, int | float) and number >= LEAST:
                yield name.id


def test_every_size_is_on_the_list() -> None:
    known = {t.name for t in ALL}
    known |= {f"{room}.{n}" for room, names in NO_SIZES.items() for n in names.split()}
    missing = [
        f"{room}.{n}" for room, tree in sources() for n in named_numbers(tree)
        if f"{room}.{n}" not in known
    ]  # fmt: skip
    assert missing == [], "put them into tests/fuzz/thresholds.py, as a size or under NO_SIZES"


def test_sizes_are_compared_by_name() -> None:
    bare = []
    for room, tree in sources():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ORDERS):
                continue
            sides = [node.left, *node.comparators]
            if any("bits" in ast.unparse(x) for x in sides):
                continue
            numbers = [x.value for x in sides if isinstance(x, ast.Constant)]
            if any(isinstance(n, int) and n >= LEAST for n in numbers):
                bare.append(f"{room}:{node.lineno}: {ast.unparse(node)}")
    assert bare == [], "a number in the middle of a function: name it"


@pytest.mark.parametrize("t", SAMPLE, ids=lambda t: t.name)
def test_both_sides(t: Threshold) -> None:
    for delta in (-1, 0, 1):
        module = drawn_near(t, delta, delta + 1)
        verify(module)
        assert difference(module, Trial("integral")) == ""


def test_there_are_many() -> None:
    assert len(ALL) > 50
    assert len({t.name for t in ALL}) == len(ALL)
