"""Runs what a page of documentation shows, and compares the output it shows with the real one.

Blocks of three kinds are read:

    ```console     lines that start with `$ hloom ` are run; what follows is their output
    ```python      run in one namespace for the whole page, top to bottom
    ```text        directly behind a python block: what that prints

In an output `...` stands for anything within a line, and alone on a line for any lines. Everything
runs in a folder that holds `examples/`, so pages can write files. A python block that imports jax
is skipped where jax is not installed.

`python -m tests.docs.pages docs/hlo.md` puts the real output wherever the page is wrong.
"""

import contextlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from typer.testing import CliRunner

from hloom.tools.main import app

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(console|python|text)\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Wrong:
    """Something shown that is not so."""

    line: int
    what: str
    shown: str
    real: str
    span: tuple[int, int]
    """Where in the page the shown output stands."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}\n--- shown\n{self.shown}--- real\n{self.real}"


@dataclass
class Page:
    """One page while it runs."""

    text: str
    namespace: dict[str, object] = field(default_factory=lambda: {"__name__": "page"})

    def wrong(self) -> Iterator[Wrong]:
        """Every output that is not what is shown, in the order of the page."""
        printed: tuple[int, str] | None = None
        for block in _BLOCK.finditer(self.text):
            kind, body, start = block[1], block[2], block.start(2)
            if kind == "console":
                yield from self.console(body, start)
            elif kind == "python":
                printed = block.end(), self.python(body, start)
            elif printed and not self.text[printed[0] : block.start()].strip():
                yield from self.compared("python", body, printed[1], start)

    def python(self, code: str, start: int) -> str:
        """What a block prints; no check where it needs a jax that is absent."""
        if re.search(r"^(import|from) jax\b", code, re.M) and not importlib.util.find_spec("jax"):
            return "..."
        out = io.StringIO()
        # Blank lines in front, so that a traceback names the line of the page.
        before = "\n" * self.text.count("\n", 0, start)
        with contextlib.redirect_stdout(out):
            exec(compile(before + code, "page", "exec"), self.namespace)
        return out.getvalue()

    def console(self, body: str, start: int) -> Iterator[Wrong]:
        commands = list(re.finditer(r"^\$ (.*)\n", body, re.M))
        for k, command in enumerate(commands):
            end = commands[k + 1].start() if k + 1 < len(commands) else len(body)
            shown = body[command.end() : end]
            words = shlex.split(command[1], comments=True)
            if words[0] != "hloom":
                continue
            # As in a pipe: xdist sets COLUMNS, which would break the tables.
            runner = CliRunner(env={"COLUMNS": None})
            result = runner.invoke(app, words[1:], prog_name="hloom")
            yield from self.compared(command[1], shown, result.output, start + command.end())

    def compared(self, what: str, shown: str, real: str, start: int) -> Iterator[Wrong]:
        real = "".join(f"{line.rstrip()}\n" for line in real.strip("\n").splitlines())
        if real != "...\n" and not re.fullmatch(as_pattern(shown), real):
            line = self.text.count("\n", 0, start) + 1
            yield Wrong(line, what, shown, real, (start, start + len(shown)))


def as_pattern(shown: str) -> str:
    """A regular expression for an output with elisions."""
    lines = [line.rstrip() for line in shown.strip("\n").splitlines()]
    return "".join(
        r"(?:.*\n)*?"
        if line.strip() == "..."
        else re.escape(line).replace(re.escape("..."), r".*") + r"\n"
        for line in lines
    )


def wrong_outputs(path: Path) -> list[Wrong]:
    """Run a page in a folder of its own that holds the examples."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", Path(folder, "examples"))
        os.chdir(folder)
        try:
            return list(Page(path.read_text(encoding="utf-8")).wrong())
        finally:
            os.chdir(here)


def with_elisions(wrong: Wrong) -> str:
    """The real output, but for lines that are shown with something left out and are right."""
    shown = [line for line in wrong.shown.splitlines() if "..." in line.strip(".")]
    lines = [
        next((s for s in shown if re.fullmatch(as_pattern(s), f"{line}\n")), line)
        for line in wrong.real.splitlines()
    ]
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name).resolve()
        text = path.read_text(encoding="utf-8")
        for wrong in reversed(wrong_outputs(path)):
            print(f"{name}:{wrong.line}: {wrong.what}")
            text = text[: wrong.span[0]] + with_elisions(wrong) + text[wrong.span[1] :]
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
