"""The harness of pass cases notices what it says it notices: each kind of bad pass is caught.

The language here is a toy: a program is a list of numbers, its meaning their sum.
"""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from hloom.types.literal import Literal
from tests.filecheck import CheckFailed
from tests.pass_case import (
    CaseFailed,
    Language,
    cases,
    difference,
    leaves,
    options_from_text,
    run_case,
)

HEADER = "// pass: fold{limit=3}\n"
PROGRAM = "ENTRY main\n1\n2\n"


class Toy(SimpleNamespace):
    """A program: `numbers` to be added."""

    entry = SimpleNamespace(parameters=[])


def parse(text):
    lines = [s for s in text.splitlines() if s and not s.startswith("//")]
    return Toy(numbers=[int(s) for s in lines[1:]])


def show(module):
    return "\n".join(["ENTRY main", *map(str, module.numbers)])


def verify(module):
    assert len(module.numbers) < 5, "too many numbers"


def evaluate(module, *devices):
    return np.float32(sum(module.numbers))


TOY = Language(parse, show, verify, evaluate)


class ToyPass:
    """Does `edit` to the numbers of a program, and says what it is told to say."""

    def __init__(self, edit, says=None):
        self.edit, self.says = edit, says

    def run(self, module):
        old = list(module.numbers)
        self.edit(module.numbers)
        changed = module.numbers != old if self.says is None else self.says
        fired = Counter(fold=1) if changed else Counter()
        return SimpleNamespace(changed=changed, fired=fired, module=None)


def fold(numbers):
    numbers[:] = [sum(numbers)]


def grow(numbers):
    numbers.insert(0, 0)


def run(tmp_path, comments, step, program=PROGRAM):
    path = tmp_path / "fold.hlo"
    path.write_text(HEADER + program + comments)
    (case,) = cases(path)
    run_case(case, step, TOY)


def test_a_good_pass_passes(tmp_path):
    run(tmp_path, "// CHECK: ENTRY\n// CHECK-NEXT: 3\n// FIRED: fold 1\n", ToyPass(fold))
    run(tmp_path, "// UNCHANGED\n", ToyPass(lambda numbers: None))
    run(tmp_path, "// CHECK: 0\n// NOT-FIXED-POINT: it only grows\n", ToyPass(grow))
    run(tmp_path, "// CHECK: 9\n// NOT-EVALUATED: talks\n", ToyPass(lambda n: n.__setitem__(0, 9)))


@pytest.mark.parametrize(
    ("comments", "step", "why"),
    [
        ("// CHECK: 4", ToyPass(fold), "CHECK: 4"),
        ("// CHECK: main", ToyPass(fold, says=False), "says changed=False, but the text says True"),
        ("// CHECK: main", ToyPass(lambda n: None, says=True), "says changed=True"),
        ("// CHECK: main", ToyPass(lambda n: n.append(7)), "meaning changed: result 0"),
        ("// CHECK: main", ToyPass(grow), "a second run changed the program"),
        ("// CHECK: main", ToyPass(lambda n: n.extend([0, 0, 0])), "too many numbers"),
        ("// UNCHANGED", ToyPass(fold), "must leave alone"),
        ("// FIRED: fold 2", ToyPass(fold), "the case says: {'fold': 2}"),
        ("// FIRED:", ToyPass(fold), "the case says: {}"),
    ],
)
def test_a_bad_pass_is_caught(tmp_path, comments, step, why):
    with pytest.raises((CaseFailed, CheckFailed)) as failure:
        run(tmp_path, comments, step)
    assert why in str(failure.value)
    assert "before:" in str(failure.value) and "after:" in str(failure.value)


def test_text_that_does_not_read_back_is_caught(tmp_path):
    path = tmp_path / "fold.hlo"
    path.write_text(HEADER + PROGRAM + "// CHECK: main")
    (case,) = cases(path)
    loses_one = Language(parse, lambda module: show(module)[:-2], verify, evaluate)
    with pytest.raises(CaseFailed, match="does not read back"):
        run_case(case, ToyPass(fold), loses_one)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (PROGRAM + "// CHECK: 1", "names no pass"),
        (HEADER + PROGRAM, "checks nothing"),
        (HEADER + PROGRAM + "// CHECK-NXT: 1", "no directive CHECK-NXT"),
        (HEADER + PROGRAM + "// UNCHANGED\n// NOT-EVALUATED:", "gives no reason"),
        (HEADER + "main\n1\n// CHECK: 1", "without an ENTRY"),
    ],
)
def test_a_bad_file_is_caught(tmp_path, text, why):
    path = tmp_path / "fold.hlo"
    path.write_text(text)
    with pytest.raises(ValueError, match=why):
        list(cases(path))


def test_a_file_holds_many_cases(tmp_path):
    path = tmp_path / "fold.hlo"
    second = "// pass: other\n" + PROGRAM + "// CHECK: 2\n"
    path.write_text(
        f"{HEADER}{PROGRAM}// CHECK: 1\n// ---\n{second}// --- again\n{PROGRAM}// UNCHANGED"
    )
    found = [(c.name, c.line, c.pass_text) for c in cases(path)]
    assert found == [
        ("main", 1, "fold{limit=3}"),
        ("main-2", 6, "other"),
        ("main-3", 12, "fold{limit=3}"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        (np.int32([1, 2]), np.int32([1, 2]), False),
        (np.int32([1, 2]), np.int32([1, 3]), True),
        (np.float32([1, np.nan, np.inf]), np.float32([1 + 1e-7, np.nan, np.inf]), False),
        (np.float32([1, 2]), np.float32([1, 2.001]), True),
        (np.float32([np.nan]), np.float32([1]), True),
        (np.float32([np.inf]), np.float32([-np.inf]), True),
        (np.complex64([1j]), np.complex64([1j + 1e-7]), False),
        (np.complex64([1j]), np.complex64([-1j]), True),
        (np.float32([1]), np.float64([1]), True),
        (np.float32([[1]]), np.float32([1]), True),
        (np.zeros(0, np.float32), np.zeros(0, np.float32), False),
        (np.float32(1), np.float32(2), True),
    ],
)
def test_difference(old, new, differs):
    assert (difference(np.asarray(old), np.asarray(new), 0.0) is not None) == differs


def test_tolerance_is_relative_to_the_largest():
    old, new = np.float32([1000, 1]), np.float32([1000, 1.5])
    assert difference(old, new, 0.0) is not None
    assert difference(old, new, 1e-3) is None


def test_leaves_of_nested_tuples():
    assert [int(x) for x in leaves((1, (2, [3])))] == [1, 2, 3]


def test_leaves_of_literals():
    one, two = Literal.of(np.float32([1, 2])), Literal.of(np.int32(7))
    both = Literal.tuple([one, Literal.tuple([two, Literal.token()])])
    assert [x.tolist() for x in leaves(both)] == [[1.0, 2.0], 7]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        ("a=1", {"a": 1}),
        ("a=1, b=word, c=(2, 3)", {"a": 1, "b": "word", "c": (2, 3)}),
        ("a=true,b=false, c=0", {"a": True, "b": False, "c": 0}),
    ],
)
def test_options_from_text(text, options):
    assert options_from_text(text) == options


@pytest.mark.parametrize("text", ["a", "a=1, b", "1=a"])
def test_wrong_options_are_errors(text):
    with pytest.raises(ValueError, match="not an option"):
        options_from_text(text)
