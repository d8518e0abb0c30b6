"""Each directive of the FileCheck subset has examples that pass and examples that fail."""

import pytest

from tests.filecheck import CheckFailed, directives, filecheck

OUTPUT = """\
ENTRY main {
  %p = f32[2]{0} parameter(0)
  %q = f32[2]{0} parameter(1)
  %add.3 = f32[2]{0} add(%p, %q)
  ROOT %neg = f32[2]{0} negate(%add.3)
}

other {
  %add.3 = f32[4]{0} add(%x, %x)
}
"""

PASSING = {
    "CHECK in order": "// CHECK: parameter(0)\n// CHECK: negate",
    "CHECK twice on one line": "// CHECK: ROOT\n// CHECK: negate",
    "spaces are equal": "// CHECK: ROOT   %neg  =",
    "NEXT": "// CHECK: parameter(0)\n// CHECK-NEXT: parameter(1)",
    "SAME": "// CHECK: %add.3\n// CHECK-SAME: add(%p, %q)",
    "NOT between": "// CHECK: parameter(1)\n// CHECK-NOT: negate\n// CHECK: add(",
    "NOT at the end": "// CHECK: other\n// CHECK-NOT: negate",
    "NOT at the start": "// CHECK-NOT: negate\n// CHECK: parameter(1)",
    "DAG in any order": "// CHECK-DAG: parameter(1)\n// CHECK-DAG: parameter(0)\n// CHECK: negate",
    "DAG without overlap": "// CHECK-DAG: parameter({{.}})\n// CHECK-DAG: parameter({{.}})",
    "two groups of DAG": "// CHECK-DAG: parameter(1)\n// CHECK-DAG: parameter(0)\n"
    "// CHECK-NOT: negate\n// CHECK-DAG: add(",
    "LABEL": "// CHECK-LABEL: ENTRY main\n// CHECK: add(%p\n// CHECK-LABEL: other {\n"
    "// CHECK-NEXT: add(%x",
    "NOT within its label": "// CHECK-LABEL: ENTRY\n// CHECK-NOT: %x\n// CHECK-LABEL: other",
    "regex": "// CHECK: {{%add\\.[0-9]+}} = f32[2]",
    "capture": "// CHECK: [[A:%[a-z0-9.]+]] = f32[2]{0} add\n// CHECK: negate([[A]])",
    "capture on one line": "// CHECK: add([[X:%x]], [[X]])",
    "capture in a list": "// CHECK: f32{{.}}[[D:[0-9]+]]]",
    "brackets are plain": "// CHECK: f32[2]{0} add(%p, %q)",
    "line ends": "// CHECK: {{^}}ENTRY main {{[{]$}}\n// CHECK-NEXT: {{^  %p.*0\\)$}}",
    "hash comments": "# CHECK: negate",
}

# Directives, and what the message must show: the directive, and a line of the output.
FAILING = {
    "CHECK": ("// CHECK: subtract", "CHECK: subtract", "1 | ENTRY main {"),
    "CHECK out of order": (
        "// CHECK: negate\n// CHECK: parameter(0)",
        "line 2: CHECK: parameter(0)",
        "5 |   ROOT %neg",
    ),
    "NEXT": (
        "// CHECK: parameter(0)\n// CHECK-NEXT: negate",
        "not on the next line, but 3 lines down",
        "5 |   ROOT %neg",
    ),
    "NEXT on the same line": (
        "// CHECK: %p\n// CHECK-NEXT: f32[2]{0} parameter(0)",
        "not on the next line, but 0 lines down",
        "2 |   %p",
    ),
    "SAME": (
        "// CHECK: %p\n// CHECK-SAME: parameter(1)",
        "not on the same line, but 1 lines down",
        "3 |   %q",
    ),
    "NOT": (
        "// CHECK: parameter(1)\n// CHECK-NOT: add(\n// CHECK: negate",
        "line 2: CHECK-NOT: add(\nbut it is there",
        "4 |   %add.3",
    ),
    "NOT at the end": ("// CHECK: parameter\n// CHECK-NOT: %x", "CHECK-NOT: %x", "9 |   %add.3"),
    "NOT at the start": ("// CHECK-NOT: %p =\n// CHECK: negate", "CHECK-NOT", "2 |   %p ="),
    "NOT before a DAG": (
        "// CHECK-NOT: %p =\n// CHECK-DAG: negate\n// CHECK-DAG: add(",
        "CHECK-NOT: %p =",
        "2 |   %p =",
    ),
    "DAG": (
        "// CHECK-DAG: parameter(1)\n// CHECK-DAG: parameter(2)",
        "line 2: CHECK-DAG: parameter(2)",
        "1 | ENTRY",
    ),
    "DAG may not share": (
        "// CHECK-DAG: negate\n// CHECK-DAG: negate",
        "line 2: CHECK-DAG: negate",
        "5 |   ROOT %neg",
    ),
    "LABEL": ("// CHECK-LABEL: ENTRY other", "CHECK-LABEL: ENTRY other", "1 | ENTRY"),
    "not across a label": (
        "// CHECK-LABEL: ENTRY\n// CHECK: %x\n// CHECK-LABEL: other",
        "line 2: CHECK: %x",
        "1 | ENTRY",
    ),
    "regex": ("// CHECK: {{%add\\.[4-9]}}", "CHECK: {{%add", "1 | ENTRY"),
    "no regex crosses a line": (
        "// CHECK: ENTRY{{[^}]*}}parameter(0)",
        "CHECK: ENTRY",
        "1 | ENTRY",
    ),
    "capture": (
        "// CHECK: [[A:%[a-z]+]] = f32[2]{0} parameter(0)\n// CHECK: negate([[A]])",
        "captured: A = '%p'",
        "2 |   %p",
    ),
    "the nearest line is shown": (
        "// CHECK: %add.3 = f32[2]{0} add(%p, %p)",
        "nearest line: %add.3 = f32[2]{0} add(%p, %q)",
        "1 | ENTRY",
    ),
}


@pytest.mark.parametrize("case", PASSING.values(), ids=PASSING)
def test_holds(case):
    filecheck(OUTPUT, case)


@pytest.mark.parametrize(("case", "why", "line"), FAILING.values(), ids=FAILING)
def test_fails_and_shows_the_line(case, why, line):
    with pytest.raises(CheckFailed) as failure:
        filecheck(OUTPUT, case)
    assert why in str(failure.value)
    assert line in str(failure.value)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("// CHECK-NXT: a", "no directive CHECK-NXT"),
        ("// CHECK:", "says nothing"),
        ("// CHECK-NEXT: a", "follows no CHECK"),
        ("// CHECK-NOT: a\n// CHECK-SAME: b", "follows no CHECK"),
        ("// CHECK: [[A]]", "[[A]] has no value yet"),
        ("// CHECK: {{(}}", "line 1: CHECK: {{(}}"),
    ],
)
def test_a_wrong_directive_is_an_error(case, why):
    with pytest.raises(ValueError) as failure:
        filecheck(OUTPUT, case)
    assert why in str(failure.value)


def test_directives_know_their_line():
    (only,) = directives("HloModule m\n\n  // CHECK-DAG:  x y \n")
    assert (only.kind, only.text, only.line) == ("-DAG", "x y", 3)
