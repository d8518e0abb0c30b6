"""Options by name as JAX hands them over: checked as XLA checks its own.

Programs that JAX compiles are given options of XLA, most of which speak of its inner life. One that
XLA does not know, or whose value is not of its type, is an error, in the words that XLA has for it,
since programs look for them. Of one that only XLA acts on the log says that it does nothing.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
from functools import cache
from pathlib import Path

from hloom.api import COMPILE_OPTIONS, OPTIONS, HloError, UsageError
from hloom.plugin.dumping import OPTIONS_READ

PREFIX = "xla_"
ACTED_ON = COMPILE_OPTIONS | set(OPTIONS_READ)
ELSEWHERE = ("xla_force_host_platform_device_count",)
"""Flags that have been read before anything is compiled."""
FIELDS = {
    "xla_cpu_collective_call_warn_stuck_seconds": "cpu_collective_call_warn_stuck_timeout_seconds"
}
"""Fields of XLA's options whose flags have other names."""
LOG = logging.getLogger("hloom")
_TOLD: set[str] = set()
"""Options without effect are told of once."""

_BITS = {"int32": 31, "int64": 63}
_INTEGER, _FLOAT = re.compile(r"[+-]?\d+"), re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@cache
def types() -> dict[str, str]:
    """The type of every option of XLA, by name."""
    kinds: dict[str, str] = {}
    kind = ""
    for line in (Path(__file__).parent / "xla_options.txt").read_text().splitlines():
        if line.startswith("["):
            kind = line[1:-1]
        elif not line.startswith("#"):
            kinds |= dict.fromkeys(line.split(), kind)
    return kinds


def option_words(overrides: list[tuple[str, object]]) -> list[str]:
    """Those of the options that hloom acts on, as words of a command line."""
    words = []
    for name, value in overrides:
        kind = types().get(name)
        own = FIELDS.get(name, name.removeprefix(PREFIX))
        is_ours = name.startswith(PREFIX) and own in OPTIONS
        if kind is None and not is_ours:
            raise UsageError(f"No such compile option: {name!r}", rule="option")
        if kind is not None and not _fits(value, kind):
            raise _wrong(name, value, kind)
        if is_ours:
            text = _with_names(_text(value), kind or "")
            try:
                OPTIONS[own].value(text.strip())
            except HloError:
                raise _wrong(name, value, kind or "hloom") from None
            words.append(f"--{PREFIX}{own}={text}")
        if not (is_ours and own in ACTED_ON):
            _tell(name)
    return words


def flag_words() -> list[str]:
    """Those of XLA_FLAGS that hloom acts on; jaxlib itself refuses what is wrong among them. Of the
    others a warning says once that they do nothing."""
    words: list[str] = []
    without_effect: list[str] = []
    try:
        flags = shlex.split(os.environ.get("XLA_FLAGS", ""))
    except ValueError:
        return []
    for flag in flags:
        if not flag.startswith("--"):
            continue  # the name of a file of flags, which only jaxlib reads
        name, equals, text = flag.removeprefix("--").partition("=")
        option = OPTIONS.get(name.removeprefix(PREFIX))
        if option is None or option.name not in ACTED_ON:
            if name not in ELSEWHERE and name not in _TOLD:
                _TOLD.add(name)
                without_effect.append(f"--{name}")
            continue
        try:
            option.value(text if equals else None)
            words.append(flag)
        except HloError as error:
            LOG.warning("XLA_FLAGS: %s", error.message)
    if without_effect:
        LOG.warning("XLA_FLAGS: hloom has no use for %s", ", ".join(without_effect))
    return words


def _tell(name: str) -> None:
    if name not in _TOLD:
        _TOLD.add(name)
        LOG.info("the compile option %s is XLA's own and does nothing here", name)


def _wrong(name: str, value: object, kind: str) -> UsageError:
    shown = int(value) if isinstance(value, bool) else value
    if isinstance(shown, float):
        shown = f"{shown:g}"
    kind = kind.removeprefix("repeated ").split(" ")[0]
    words = f"While setting option {name}, '{shown}' is not a valid {kind} value."
    return UsageError(words, rule="option")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_names(text: str, kind: str) -> str:
    """Of a list of names, which XLA also takes as their numbers, one that has names alone."""
    head, _, listed = kind.rpartition(" ")
    if head != "repeated enum":
        return text
    names = listed.split("|")
    parts = [part.strip() for part in text.split(",")]
    named = [_name_at(int(p), names) if _INTEGER.fullmatch(p) else p for p in parts]
    return ",".join([name for name in named if name])


def _name_at(number: int, names: list[str]) -> str:
    """The name of a number; none for numbers that XLA takes and that mean nothing to it."""
    return names[number] if 0 <= number < len(names) else ""


def _fits(value: object, kind: str) -> bool:
    """Whether XLA takes a value for an option of this type."""
    first, *rest = kind.split(" ", 2)
    if first == "repeated":
        return _fits_each(value, *rest)
    match first:
        case "bool":
            return isinstance(value, bool) or value in ("True", "False")
        case "int32" | "int64":
            if isinstance(value, bool) or not isinstance(value, int | str):
                return False
            text = str(value).strip()
            bound = 1 << _BITS[first]
            return _INTEGER.fullmatch(text) is not None and -bound <= int(text) < bound
        case "float":
            if isinstance(value, str):
                return _FLOAT.fullmatch(value.strip()) is not None
            return isinstance(value, float) and value != 0
        case "string":
            return isinstance(value, str)
        case "enum":
            return _fits(value, "int32") or value in (rest[0].split("|") if rest else ())
    return value == ""


def _fits_each(value: object, kind: str, names: str = "") -> bool:
    """The same for lists, written with commas."""
    if kind == "enum" and not names:
        return isinstance(value, str) or _fits(value, "int32")
    if not isinstance(value, str):
        return kind != "string" and _fits(value, f"{kind} {names}".strip())
    return kind == "string" or all(
        _fits(each, f"{kind} {names}".strip()) for each in value.split(",") if each
    )
