"""The programs that fuzzing starts from: small, and together with a bit of everything."""

from functools import cache
from pathlib import Path

from bench.synthetic import module_text
from hloom.interp import draw_instance
from hloom.ir.op import OPS
from hloom.ir.text import PrintOptions, show_module

REPOSITORY = Path(__file__).parent.parent.parent
LARGEST = 20_000


@cache
def programs() -> list[str]:
    """Texts of valid programs: examples, case files of passes, a synthetic one, every opcode."""
    folders = (REPOSITORY / "examples", REPOSITORY / "tests")
    paths = sorted(p for folder in folders for p in folder.rglob("*.hlo"))
    texts = [p.read_text(encoding="utf-8") for p in paths if "found" not in p.parts]
    pieces = [piece for text in texts for piece in _pieces(text) if len(piece) < LARGEST]
    return [module_text(40), *pieces, *_every_opcode()]


def _every_opcode() -> list[str]:
    """A small program around each opcode, drawn at random but always the same."""
    whole = PrintOptions(large_constants=True)
    drawn = [show_module(draw_instance(opcode, 2), whole) for opcode in sorted(OPS)]
    return [text for text in drawn if len(text) < LARGEST]


def _pieces(text: str) -> list[str]:
    """The cases of a case file, each a whole module."""
    return [piece for piece in text.split("\n// ---") if "ENTRY" in piece]
