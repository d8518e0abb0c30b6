"""Passes as a command line names them: `dce,constant-folding{level=2},cse`."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from hloom import api

_ONE = re.compile(r"\s*([A-Za-z_][\w-]*)\s*(?:\{([^{}]*)\})?\s*(,|$)")


def passes_named(text: str) -> tuple[api.Pass, ...]:
    """The passes of a list; unknown names, options and values are a `UsageError`."""
    passes, at = [], 0
    text = text.strip().rstrip(",")
    while at < len(text):
        match = _ONE.match(text, at)
        if match is None:
            raise api.UsageError(
                f"cannot read --passes from {text[at : at + 40]!r} on",
                rule="pass-name",
                hint="passes are written a,b{option=value},c",
            )
        passes.append(_pass(match[1], match[2]))
        at = match.end()
    return tuple(passes)


def _pass(name: str, written: str | None) -> api.Pass:
    values: dict[str, Any] = {}
    if written and name in api.PASSES:
        fields = {f.name: f for f in dataclasses.fields(api.PASSES[name])}
        # A comma starts another option only where a name and = follow, so lists can have commas.
        for word in re.split(r"[;,]\s*(?=\w+=)", written):
            key, equals, value = word.strip().partition("=")
            if key in fields:
                values[key] = _value(fields[key], value if equals else "true")
            else:
                values[key] = value
    return api.pass_named(name, **values)


def _value(field: dataclasses.Field[Any], text: str) -> Any:
    default = field.default
    if isinstance(default, bool):
        if text.lower() in ("true", "1"):
            return True
        if text.lower() in ("false", "0"):
            return False
        raise api.UsageError(f"{field.name} is true or false, not {text!r}", rule="pass-option")
    if isinstance(default, int | float):
        try:
            return type(default)(text)
        except ValueError:
            raise api.UsageError(
                f"{field.name} is a number, not {text!r}", rule="pass-option"
            ) from None
    if isinstance(default, frozenset | tuple):
        return type(default)(part for part in re.split(r"[,|\s]+", text) if part)
    if default is None:
        raise api.UsageError(
            f"{field.name} takes a Python function; it cannot be written here", rule="pass-option"
        )
    return text


def described(name: str) -> dict[str, Any]:
    """What a pass is, as plain data: summary, options with defaults, rules with laws, facts."""
    cls = api.PASSES[name]
    return {
        "name": name,
        "summary": (cls.__doc__ or "").strip().split("\n")[0],
        "options": {f.name: _plain(f.default) for f in dataclasses.fields(cls)},
        "needs": [str(fact) for fact in cls.needs],
        "gives": [str(fact) for fact in cls.gives],
        "breaks": [str(fact) for fact in cls.breaks],
        "rules": [{"name": r.name, "law": r.law} for r in getattr(cls, "rules", ())],
    }


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset | tuple) else value
