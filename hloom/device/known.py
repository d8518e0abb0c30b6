"""Machines that are described in `known/`, by name, and descriptions in files of the user."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.device.device import Device
from hloom.device.text import parse_device

FOLDER = Path(__file__).parent / "known"


def known_names() -> list[str]:
    """The names of all machines that come with hloom, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@cache
def known_device(name: str) -> Device:
    """The machine of a name; `UsageError` if there is none."""
    if name not in known_names():
        hint = did_you_mean(name, known_names()) or f"known: {', '.join(known_names())}"
        raise UsageError(f"no device {name!r} is known", rule="device", hint=hint)
    return parse_device((FOLDER / f"{name}.toml").read_text(encoding="utf-8"), name)


def device_named(word: str) -> Device:
    """The machine of a name, or of a file that ends with .toml."""
    return device_in(Path(word)) if word.endswith(".toml") else known_device(word)


def device_in(file: Path) -> Device:
    """The machine that a file describes; `UsageError` if it cannot be read."""
    return parse_device(text_in(file), str(file))


def text_in(file: Path) -> str:
    """The text of a file; `UsageError` if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}") from None
