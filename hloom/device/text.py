"""Devices and topologies as TOML, both ways: what is printed reads back as an equal value."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

import tomli_w

from hloom.base.diagnostics import ParseError, SourceLocation, UsageError, did_you_mean
from hloom.device.costs import Costs
from hloom.device.device import Cache, Compute, Device, Engine, MemorySpace

T = TypeVar("T")

_PARTS: dict[str, type] = {
    "compute": Compute,
    "caches": Cache,
    "memory_spaces": MemorySpace,
    "engines": Engine,
    "costs": Costs,
}
_LISTS = ("caches", "memory_spaces", "engines")


def parse_device(text: str, file: str | None = None) -> Device:
    """The device that a text describes; `ParseError` with a place, `UsageError` with a name."""
    return device_of(parsed_table(text, file), file or "the device")


def parsed_table(text: str, file: str | None) -> dict[str, Any]:
    """The tables of a TOML text; `ParseError` with a line and column."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line, column = getattr(error, "lineno", None), getattr(error, "colno", None)
        if line is None:
            line, column = _told_place(str(error), text)
        row = text.split("\n")[line - 1] if line <= text.count("\n") + 1 else ""
        message = str(error).split(" (at ")[0]
        raise ParseError(
            message, location=SourceLocation(file, line, column or 1, row), rule="toml"
        ) from None


def _told_place(message: str, text: str) -> tuple[int, int]:
    """Line and column in a message of tomllib: `(at line 3, column 7)`, `(at end of document)`."""
    words = message.replace(",", " ").replace(")", " ").split()
    if "line" in words and "column" in words:
        return int(words[words.index("line") + 1]), int(words[words.index("column") + 1])
    lines = text.split("\n")
    return len(lines), len(lines[-1]) + 1


def device_of(table: Mapping[str, Any], where: str) -> Device:
    """The device of a table; `UsageError` names the key that is wrong."""
    fields = dict(table)
    for name, kind in _PARTS.items():
        if name not in fields:
            continue
        part = fields[name]
        if name in _LISTS:
            if not isinstance(part, list):
                raise _wrong(f"{name} in {where} is no list", f"write [[{name}]]")
            fields[name] = tuple(
                [record(kind, row, f"{name}[{k}] in {where}") for k, row in enumerate(part)]
            )
        else:
            fields[name] = record(kind, part, f"{name} in {where}")
    return record(Device, fields, where)


def record(kind: type[T], table: object, where: str) -> T:
    """A dataclass from a table: every key is a field, of the type that the field has."""
    if not isinstance(table, Mapping):
        raise _wrong(f"{where} is no table", "write it as [name] with keys below")
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    for name in table:
        if name not in known:
            raise _wrong(f"{where} has no {name!r}", did_you_mean(str(name), known))
    for name, f in known.items():
        if name not in table and f.default is MISSING and f.default_factory is MISSING:
            raise _wrong(f"{where} lacks {name!r}", f"a {kind.__name__} has {', '.join(known)}")
    values = {n: _value(v, str(known[n].type), f"{n} of {where}") for n, v in table.items()}
    return kind(**values)


def _value(value: Any, type_text: str, where: str) -> Any:
    """A value as the field has it: integers are floats where floats are wanted, lists tuples."""
    if type_text == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type_text in ("int", "float", "str"):
        python_type = {"int": int, "float": float, "str": str}[type_text]
        if isinstance(value, float) and type_text == "int" and value.is_integer():
            return int(value)
        if not isinstance(value, python_type) or isinstance(value, bool):
            raise _wrong(f"{where} is {value!r}", f"a value of type {type_text} is wanted")
        if type_text != "str" and value < 0:
            raise _wrong(f"{where} is {value!r}", "no number of a device is below 0")
        return value
    if type_text == "Rates":
        if not isinstance(value, Mapping):
            raise _wrong(f"{where} is {value!r}", "a table of numbers by element type is wanted")
        return tuple(sorted((str(k), _value(v, "float", where)) for k, v in value.items()))
    if isinstance(value, list):
        return tuple([tuple(x) if isinstance(x, list) else x for x in value])
    return value


def _wrong(message: str, hint: str | None) -> UsageError:
    return UsageError(message, rule="device", hint=hint)


def show_device(device: Device) -> str:
    """The text of a device. What has its default value is left out."""
    return tomli_w.dumps(table_of(device))


def table_of(value: Any) -> dict[str, Any]:
    """A dataclass as a table: plain values first, so that a file begins with the name."""
    plain: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    for f in fields(value):
        x = getattr(value, f.name)
        default = f.default if f.default_factory is MISSING else f.default_factory()
        if x == default:
            continue
        if f.type == "Rates":
            parts[f.name] = dict(x)
        elif hasattr(x, "__dataclass_fields__"):
            parts[f.name] = table_of(x)
        elif isinstance(x, tuple) and x and hasattr(x[0], "__dataclass_fields__"):
            parts[f.name] = [table_of(row) for row in x]
        elif isinstance(x, tuple):
            plain[f.name] = [list(row) if isinstance(row, tuple) else row for row in x]
        else:
            plain[f.name] = x
    return {**plain, **parts}
