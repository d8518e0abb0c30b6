"""What the documentation shows is what happens, its links lead somewhere, its pages are fresh."""

import importlib.util
import platform
import re
from pathlib import Path

import pytest

from hloom.base.guarding import GUARDING
from tests.docs.pages import ROOT, Page, as_pattern, wrong_outputs

MACHINE_CODE = ROOT / "docs" / "from-hlo-to-machine-code.md"
WRITTEN = [ROOT / "README.md", ROOT / "docs" / "hlo.md", MACHINE_CODE, ROOT / "docs" / "jax.md"]
ALL = sorted({ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "hloom").rglob("*.md")})


def make_pages():
    """`docs/make_pages.py` as a module."""
    spec = importlib.util.spec_from_file_location("make_pages", ROOT / "docs" / "make_pages.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", WRITTEN, ids=lambda p: p.name)
def test_outputs_are_those_shown(path: Path):
    if path == MACHINE_CODE and platform.machine() != "x86_64":
        pytest.skip("it shows code for x86-64")
    if path.name == "jax.md":
        pytest.importorskip("jax", reason="it shows what is done with JAX")
    if GUARDING and path.name == "README.md":
        pytest.skip("it shows how much memory a program takes, and guards take some, too")
    wrong = wrong_outputs(path)
    assert not wrong, "\n\n".join(map(str, wrong))


@pytest.mark.parametrize("name", ["ops.md", "passes.md", "errors.md"])
def test_generated_pages_are_fresh(name: str):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert text == make_pages().PAGES[name](), "run: make docs"


def test_every_operation_has_a_shape_sentence():
    from hloom.ir.op import OPS

    silent = [name for name, op in OPS.items() if not make_pages().shape_rule(op)]
    assert not silent


def test_every_rule_has_a_sentence():
    silent = [name for name, text in make_pages().other_rules().items() if not text]
    assert not silent, "say in OTHER_RULES of docs/make_pages.py what holds"


@pytest.mark.parametrize("path", ALL, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        name, _, heading = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), f"{path.name}: {link}"
        if heading:
            titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.M)
            known = {re.sub(r"[^\w\- ]", "", t).strip().lower().replace(" ", "-") for t in titles}
            assert heading in known, f"{path.name}: {link}"


def test_every_room_has_a_page():
    rooms = [p for p in (ROOT / "hloom").iterdir() if p.is_dir() and any(p.glob("*.py"))]
    assert [p.name for p in rooms if not (p / "README.md").exists()] == []


def test_the_runner_sees_what_is_wrong():
    page = Page("```python\nprint(1 + 1)\n```\n```text\n3\n```\n")
    (wrong,) = page.wrong()
    assert (wrong.shown, wrong.real) == ("3\n", "2\n")


def test_elisions():
    assert re.fullmatch(as_pattern("a ... c\n...\nz\n"), "a b c\nx\ny\nz\n")
    assert not re.fullmatch(as_pattern("a ... c\nz\n"), "a b c\ny\nz\n")
