"""Errors that are found after a text was read say where in it they are."""

from __future__ import annotations

import gc
import weakref

import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.ir.text import places
from tests.processor_time import at_most

TEXT = """HloModule m

// ROOT t = f32[2] negate(x) is no instruction
sum {
  a = f32[] parameter(0)
  t = f32[] parameter(1)
  ROOT r = f32[] add(a, t)
}

ENTRY %e (x: f32[4,3]) -> f32[4,3] {
  %x = f32[4,3] parameter(0)
  %x.t = f32[4,3] negate(x)  /* x.t, not t */
  %t = f32[4,3]{1,0} transpose(%x.t), dimensions={1,0}
  ROOT %r = f32[4,3] negate(%t)
}
"""


def place(text: str, file: str | None = None) -> tuple[str | None, int | None, int | None]:
    with pytest.raises(HloError) as caught:
        hloom.verify(hloom.parse(text) if file is None else hloom.load(file))
    where = caught.value.location
    assert where is not None
    return where.file, where.line, where.column


def test_the_instruction_that_breaks_a_rule_is_shown():
    with pytest.raises(HloError) as caught:
        hloom.compile(TEXT)
    assert str(caught.value).splitlines() == [
        "<text>:13:3: e/%t: the shape is f32[4,3] but must be f32[3,4] [shape]",
        "    %t = f32[4,3]{1,0} transpose(%x.t), dimensions={1,0}",
        "    ^^",
    ]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT y = f32[3] negate(x) }", 2, 40),
        ("f32[3] negate(f32[2] x)", None, None),  # has no name
        ("x = f32[2] parameter(0)\ny = f32[3] negate(x)", 2, 1),
        (TEXT.replace("f32[] add(a, t)", "f32[] and(a, t)"), 7, 8),
        (TEXT.replace("\n", "\r\n"), 13, 3),
        ("HloModule m\nENTRY e {\n\tx = f32[2] parameter(0)\n\tROOT y = f32[3] negate(x)\n}", 4, 7),
    ],
    ids=["one line", "nameless", "bare", "of another computation", "carriage returns", "tab"],
)
def test_lines_and_columns(text: str, line: int | None, column: int | None):
    if line is None:
        with pytest.raises(HloError) as caught:
            hloom.verify(hloom.parse(text))
        assert caught.value.location is None
    else:
        assert place(text)[1:] == (line, column)


def test_files_are_named(tmp_path):
    file = tmp_path / "wrong.hlo"
    file.write_text(TEXT)
    assert place("", str(file)) == (str(file), 13, 3)


def test_what_an_interpreter_and_a_loader_cannot_do():
    text = (
        "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n"
        '  ROOT c = f32[2] custom-call(x), custom_call_target="nobody.s"\n}'
    )
    for run in (lambda: hloom.evaluate(hloom.parse(text), [1.0, 2.0]), lambda: hloom.compile(text)):
        with pytest.raises(HloError, match=r"nobody\.s") as caught:
            run()
        assert str(caught.value).startswith("<text>:4:8: %c: ")


def test_a_changed_module_is_another_than_its_text():
    module = hloom.parse(TEXT.replace("f32[4,3]{1,0} t", "f32[3,4] t").replace("(%t)", "(%x)"))
    other = hloom.parse("ROOT r = f32[7] parameter(0)").entry.root
    shapes = other.shape, module.entry.root.shape
    for is_known in (True, False):
        module.entry.root.shape = shapes[0]
        (error,) = hloom.violations(module)
        assert (error.location is not None) == is_known
        module.entry.root.shape = shapes[1]
        assert hloom.Pipeline("p", (hloom.pass_named("dce"),)).run(module).changed == is_known


def test_texts_go_with_their_modules(monkeypatch: pytest.MonkeyPatch):
    module = hloom.parse(TEXT)
    assert module in places._TEXTS
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None
    monkeypatch.setattr(places, "MOST_KEPT", 100)
    assert hloom.parse(TEXT) not in places._TEXTS


def test_a_text_is_searched_once_for_all_that_is_wrong():
    lines = "".join(f"  y{k} = f32[5] negate(x)\n" for k in range(20_000))
    module = hloom.parse(f"HloModule m\nENTRY e {{\n  x = f32[4] parameter(0)\n{lines}}}\n")
    with at_most(10):
        errors = list(hloom.violations(module))
    assert len(errors) == 20_000
    assert [e.location and e.location.line for e in errors[::9_999]] == [4, 10_003, 20_002]
