"""`hloom print`: the readable form, presets, switches, parts of a program."""

import json

import pytest

import hloom
from hloom import api


def test_readable_form_folds_and_shows_places(run, add):
    out = run("print", add).stdout
    assert "module add_module: 4 instructions" in out
    assert "return sum" in out and "x + y" in out and "model.py:7" in out
    assert "%" not in out


def test_loop_stands_with_its_body_under_it(run, loop):
    lines = run("print", loop).stdout.splitlines()
    at = next(k for k, line in enumerate(lines) if "while s#0 < 24 with s = (0, x):" in line)
    assert lines[at + 1].split() == ["next", "s32[]", "s#0", "+", "1"]
    assert lines[at + 1].startswith("    next")
    assert any("(next, w)" in line for line in lines[at:])
    assert lines[-1].split() == ["return", "out", "f32[4]", "loop#1"]


def test_fusion_and_reducer_are_one_expression(run, tmp_path):
    path = tmp_path / "fused.hlo"
    path.write_text(
        """HloModule fused
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
%body (p: f32[4,8], q: f32[4]) -> f32[4] {
  %p = f32[4,8]{1,0} parameter(0)
  %q = f32[4]{0} parameter(1)
  %qs = f32[4,8]{1,0} broadcast(%q), dimensions={0}
  %d = f32[4,8]{1,0} subtract(%p, %qs)
  %zero = f32[] constant(0)
  ROOT %r = f32[4]{0} reduce(%d, %zero), dimensions={1}, to_apply=%sum
}
ENTRY %main (x: f32[4,8], y: f32[4]) -> f32[4] {
  %x = f32[4,8]{1,0} parameter(0)
  %y = f32[4]{0} parameter(1)
  ROOT %f = f32[4]{0} fusion(%x, %y), kind=kInput, calls=%body
}
"""
    )
    out = run("print", path).stdout
    assert "fused[input] reduce[add, dims=1](x - y[:,_])" in out


@pytest.mark.parametrize("preset", sorted(api.PRESETS))
def test_presets_are_those_of_the_printer(run, add, preset):
    assert run("print", add, "--preset", preset).stdout == api.show(hloom.load(add), preset)


@pytest.mark.parametrize(
    ("switch", "has", "lacks"),
    [
        ("--no-metadata", "%sum = f32[3]{0} add", "model.py"),
        ("--no-percent", "sum = f32[3]{0} add(x, y)", "%"),
        ("--no-layout-in-shapes", "f32[3] add", "add(%x, %y), {0}"),
        ("--operand-shape", "add(f32[3]{0} %x", "add(%x"),
        ("--no-program-shape", "ENTRY %main {", "-> f32[3] {"),
        ("--name-after-closing-brace", "} // main", "nothing"),
    ],
)
def test_switches_change_the_text(run, add, switch, has, lacks):
    out = run("print", add, switch).stdout
    assert has in out and lacks not in out


def test_every_switch_is_an_option(run):
    from dataclasses import fields

    from hloom.tools.print_ import SWITCHES

    shown = run("print", "--help").stdout
    assert {f.name for f in fields(api.PrintOptions)} - set(SWITCHES) == {
        "subcomputation_mode",
        "indent",
        "nested",
    }
    assert "--no-metadata" in shown


def test_one_computation(run, loop):
    out = run("print", loop, "--computation", "body", "--no-metadata").stdout
    assert out.startswith("%body") and "ENTRY" not in out
    assert run("print", loop, "-c", "body").stdout.startswith("body -> ")


def test_around_an_instruction(run, add):
    out = run("print", add, "--instruction", "%sum", "--radius", 0, "--preset", "default").stdout
    assert out.startswith("ROOT %sum") and out.count("\n") == 1
    out = run("print", add, "-i", "sum", "--radius", 1, "--preset", "default").stdout
    assert out.count("\n") == 3 and "%dead" not in out
    out = run("print", add, "-i", "sum", "--radius", 2, "--preset", "default").stdout
    assert "%dead" in out


def test_json(run, add):
    data = json.loads(run("print", add, "--json").stdout)
    assert data["module"] == "add_module" and "x + y" in data["text"]


def test_notebook_shows_the_module_escaped(add):
    module = hloom.load(add)
    module.name = "<script>"
    html = module._repr_html_()
    assert "&lt;script&gt;" in html and "<script>" not in html
    assert "x + y" in html and "<details open>" in html


def test_notebook_leaves_out_what_is_too_long(monkeypatch, add):
    monkeypatch.setattr("hloom.ir.text.html.MOST_LINES", 2)
    assert "3 more lines" in hloom.load(add)._repr_html_()


def test_notebook_html_is_well_formed(loop):
    from html.parser import HTMLParser

    stack, wrong = [], []

    class Balance(HTMLParser):
        def handle_starttag(self, tag, attrs):
            stack.append(tag)

        def handle_endtag(self, tag):
            if not stack or stack.pop() != tag:
                wrong.append(tag)

    Balance().feed(hloom.load(loop)._repr_html_())
    assert not stack and not wrong


def test_long_expressions_are_broken_behind_commas(run, tmp_path):
    names = [f"parameter_number_{k}" for k in range(30)]
    body = "".join(f"  {n} = f32[] parameter({k})\n" for k, n in enumerate(names))
    shape = f"({', '.join(['f32[]'] * 30)})"
    path = tmp_path / "wide.hlo"
    path.write_text(f"ENTRY e {{\n{body}  ROOT t = {shape} tuple({', '.join(names)})\n}}\n")
    out = run("print", path).stdout
    assert max(map(len, out.splitlines())) < 200
    assert " ".join(out.split()).count("parameter_number_") == 60


def test_named_parts_that_do_not_exist_offer_near_ones(run, add):
    done = run("print", add, "--instruction", "summ")
    assert done.exit_code == 2 and "did you mean %sum?" in done.stderr
