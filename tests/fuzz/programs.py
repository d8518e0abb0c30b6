"""The programs that fuzzing starts from: small, and together with a bit of everything."""

from functools import cache
from pathlib import Path

from bench.synthetic import module_text

REPOSITORY = Path(__file__).parent.parent.parent
LARGEST = 20_000


@cache
def programs() -> list[str]:
    """Texts of valid programs: examples, case files of passes, and a synthetic one."""
    folders = (REPOSITORY / "examples", REPOSITORY / "tests")
    paths = sorted(p for folder in folders for p in folder.rglob("*.hlo"))
    texts = [p.read_text(encoding="utf-8") for p in paths if "found" not in p.parts]
    return [module_text(40), *(t for text in texts for t in _pieces(text) if len(t) < LARGEST)]


def _pieces(text: str) -> list[str]:
    """The cases of a case file, each a whole module."""
    return [piece for piece in text.split("\n// ---") if "ENTRY" in piece]
