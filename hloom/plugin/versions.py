"""Which versions of JAX hloom works with: what it uses of jaxlib may be otherwise in others."""

from __future__ import annotations

import re

FIRST, PAST = (0, 10), (0, 13)
"""The first minor version, and the first that is too new; pyproject.toml asks for the same.

With 0.9.2 programs of one device work, but its Shardy crashes on some of several.
"""


def unsupported(versions: dict[str, str]) -> str | None:
    """One line about versions by package that hloom does not work with; None if all are well."""
    wrong = [f"{name} {text}" for name, text in versions.items() if not FIRST <= minor(text) < PAST]
    if not wrong:
        return None
    first, last = (".".join(map(str, v)) for v in (FIRST, (PAST[0], PAST[1] - 1)))
    past = ".".join(map(str, PAST))
    return (
        f"the JAX backend hloom works with jax and jaxlib {first} to {last}, not with "
        f"{' and '.join(wrong)} (pip install 'jax>={first},<{past}') [jax-version]"
    )


def minor(version: str) -> tuple[int, int]:
    """The first two numbers of a version; (0, 0) if it has none."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)
