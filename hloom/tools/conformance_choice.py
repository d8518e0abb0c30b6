"""Which of JAX's tests are run: a sample that is the same each time, without the excluded ones."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

EXCLUSIONS = Path(__file__).with_name("conformance_exclusions.txt")


class Choice:
    """A part of all tests: `sample` is its share, `exclusions` pairs of a pattern and a reason."""

    def __init__(self, sample: float, seed: int, exclusions: Sequence[Sequence[str]]) -> None:
        self.sample, self.seed = sample, seed
        # Brackets stand for themselves: node ids hold them.
        self._patterns = [(p.replace("[", "[[]"), reason) for p, reason in exclusions]

    def takes(self, node: str) -> bool:
        """Whether a test is in the sample: by its name, whatever other tests there are."""
        digest = sha256(f"{self.seed} {node}".encode()).digest()
        return int.from_bytes(digest[:8], "big") < self.sample * 2**64

    def why_excluded(self, node: str) -> str | None:
        """The reason why a test, or a whole file, is not run; None if it is."""
        return next((why for pattern, why in self._patterns if fnmatchcase(node, pattern)), None)


def read_exclusions(path: Path = EXCLUSIONS) -> list[tuple[str, str]]:
    """Lines of a pattern of node ids and, behind two blanks and a #, the reason."""
    exclusions = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        pattern, mark, reason = line.partition("  # ")
        if not mark or not reason.strip():
            raise ValueError(f"{path}: no reason behind {pattern!r}")
        exclusions.append((pattern.strip(), reason.strip()))
    return exclusions
