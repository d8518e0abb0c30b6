"""One case of a pass: a program, the pass to run on it, and what must hold afterwards.

A case file (`tests/passes/**/<pass>.hlo`) starts with `// pass: name{option=value}` and holds
cases split by `// ---`. Besides its CHECK lines (tests/filecheck.py), these hold for every case
without its author writing them:

- the text reads back as itself, before and after;
- the program verifies, before and after;
- it computes the same before and after, on three sets of random inputs, on every device that
  the module is for: all together, each with inputs of its own (a parameter that is replicated by
  `parameter_replication` or `sharding={replicated}` has the same on all);
- the pass says `changed` exactly when the text changed;
- running it again changes nothing.

Lines that a case may have:

    // pass: name{option=value}     another pass or other options than the file's
    // UNCHANGED                    the pass must leave the program as it is (no CHECK needed)
    // FIRED: rule 1, other 2       exactly these rules fired, so often
    // TOLERANCE: 1e-3              relative to the largest value, where the pass may round anew
    // NOT-FIXED-POINT: reason      a second run may change something
    // NOT-EVALUATED: reason        the program cannot be evaluated here
"""

import re
from ast import literal_eval
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tests.filecheck import directives, filecheck
from tests.random_arguments import arguments_on_devices

INPUT_SETS = 3
KNOWN = ("pass", "UNCHANGED", "FIRED", "TOLERANCE", "NOT-FIXED-POINT", "NOT-EVALUATED")
_SPLIT = re.compile(r"^// ---.*$", re.MULTILINE)
_LINE = re.compile(r"^[ \t]*// (pass|[A-Z]+(?:-[A-Z]+)*)(?::[ \t]*(.*?))?[ \t]*$", re.MULTILINE)
_ENTRY = re.compile(r"^ENTRY\s+%?([\w.-]+)|^HloModule\s+([\w.-]+)", re.MULTILINE)


class CaseFailed(AssertionError):
    """Something that must hold for every pass, or for this case, does not."""


class Step(Protocol):
    """What the harness needs of a pass."""

    def run(self, module: Any) -> Any:
        """Change the module, or make another: the result has `changed`, `fired`, `module`."""


@dataclass(frozen=True)
class Case:
    """One program of a case file, and what its comment lines say."""

    name: str
    line: int
    text: str
    lines: dict[str, str]

    @property
    def pass_text(self) -> str:
        return self.lines["pass"]


@dataclass(frozen=True)
class Language:
    """How the harness reads, verifies and evaluates: the product, or a fake in its own tests."""

    parse: Callable[[str], Any]
    show: Callable[[Any], str]
    verify: Callable[[Any], object]
    evaluate: Callable[..., Any]


def product() -> Language:
    """The real thing. Imported late: a case file can be collected before hloom is whole."""
    from hloom.interp import evaluate, evaluate_lockstep
    from hloom.ir.text import PrintOptions, parse_module, show_module
    from hloom.ir.verify import verify

    def on_all_devices(module: Any, *arguments: Any) -> Any:
        if module.replica_count * module.num_partitions == 1:
            return evaluate(module, *arguments[0])
        return tuple(evaluate_lockstep(module, arguments))

    whole = PrintOptions(large_constants=True)
    return Language(parse_module, lambda module: show_module(module, whole), verify, on_all_devices)


def pass_from_text(text: str) -> Any:
    """The pass that `name{option=value, other=value}` says; ValueError when it says none.

    Values are Python literals; a bare word is a string, `true` and `false` are booleans.
    """
    from hloom.passes import pass_named

    found = re.fullmatch(r"([\w-]+)(?:\{(.*)\})?", text.strip())
    if found is None:
        raise ValueError(f"not a pass: {text!r}; write name or name{{option=value}}")
    return pass_named(found[1], **options_from_text(found[2] or ""))


def options_from_text(text: str) -> dict[str, Any]:
    """`a=1, b=(2, 3), c=word` as a dictionary; commas inside brackets do not split."""
    options: dict[str, Any] = {}
    for part in re.split(r",(?![^(\[]*[)\]])", text):
        if not part.strip():
            continue
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not name.isidentifier():
            raise ValueError(f"not an option: {part!r}; write option=value")
        try:
            options[name] = literal_eval({"true": "True", "false": "False"}.get(value, value))
        except (ValueError, SyntaxError):
            options[name] = value
    return options


def cases(path: Path) -> Iterator[Case]:
    """The cases of a file; ValueError for one without a pass or without a check."""
    header: dict[str, str] = {}
    line, seen = 1, dict[str, int]()
    for text in _SPLIT.split(path.read_text(encoding="utf-8")):
        lines = {m[1]: m[2] or "" for m in _LINE.finditer(text) if m[1] in KNOWN}
        if line == 1 and "pass" in lines:
            header = {"pass": lines["pass"]}
        lines = header | lines
        at, line = line, line + text.count("\n")
        found = _ENTRY.findall(text)
        if not found:
            if text.strip() and not all(s.startswith("//") for s in text.split("\n") if s.strip()):
                raise ValueError(f"{path}:{at}: a case without an ENTRY")
            continue
        name = next((entry for entry, _ in found if entry), None) or found[0][1]
        seen[name] = seen.get(name, 0) + 1
        name = name if seen[name] == 1 else f"{name}-{seen[name]}"
        if "pass" not in lines:
            raise ValueError(f"{path}:{at}: {name} names no pass: // pass: name")
        if not directives(text) and not {"UNCHANGED", "FIRED"} & lines.keys():
            raise ValueError(f"{path}:{at}: {name} checks nothing: a CHECK line, or // UNCHANGED")
        for key in ("NOT-FIXED-POINT", "NOT-EVALUATED"):
            if lines.get(key) == "":
                raise ValueError(f"{path}:{at}: {name}: {key} gives no reason")
        yield Case(name, at, text, lines)


def run_case(case: Case, step: Step, language: Language) -> None:
    """Run a case; raises CaseFailed, CheckFailed, or what the product raised."""
    before, after = language.parse(case.text), language.parse(case.text)
    source = language.show(before)
    _reads_back(source, language, "the input")
    language.verify(before)
    result = step.run(after)
    after = after if result.module is None else result.module
    output = language.show(after)
    try:
        language.verify(after)
        _reads_back(output, language, "the result")
        _claims(case, result, source != output)
        filecheck(output, case.text)
        if "NOT-EVALUATED" not in case.lines:
            _same_meaning(case, before, after, language)
        if "NOT-FIXED-POINT" not in case.lines:
            _is_fixed(step, after, output, language)
    except AssertionError as failure:
        raise CaseFailed(f"{failure}\n\nbefore:\n{source}\nafter:\n{output}") from None


def _reads_back(text: str, language: Language, which: str) -> None:
    again = language.show(language.parse(text))
    if again != text:
        raise CaseFailed(f"the text of {which} does not read back as itself:\n{text}\n{again}")


def _claims(case: Case, result: Any, changed: bool) -> None:
    """What the pass says of itself is true, and is what the case says."""
    if result.changed != changed:
        raise CaseFailed(f"the pass says changed={result.changed}, but the text says {changed}")
    if "UNCHANGED" in case.lines and changed:
        raise CaseFailed("the pass changed a program that it must leave alone")
    if "FIRED" in case.lines:
        words = (
            word.strip().rsplit(None, 1) for word in case.lines["FIRED"].split(",") if word.strip()
        )
        want = {name: int(count) for name, count in words}
        fired = {str(name): count for name, count in result.fired.items() if count}
        if want != fired:
            raise CaseFailed(f"these rules fired: {fired}, but the case says: {want}")


def _is_fixed(step: Step, after: Any, output: str, language: Language) -> None:
    again = step.run(after)
    text = language.show(after if again.module is None else again.module)
    if text != output or again.changed:
        raise CaseFailed(f"a second run changed the program (said {again.changed}):\n{text}")


def _same_meaning(case: Case, before: Any, after: Any, language: Language) -> None:
    scale = float(case.lines.get("TOLERANCE", "0"))
    for seed in range(INPUT_SETS):
        arguments = arguments_on_devices(before, np.random.default_rng(seed))
        want = leaves(language.evaluate(before, *arguments))
        have = leaves(language.evaluate(after, *arguments))
        if len(want) != len(have):
            raise CaseFailed(f"the result had {len(want)} arrays and now has {len(have)}")
        for index, (old, new) in enumerate(zip(want, have, strict=True)):
            complaint = difference(old, new, scale)
            if complaint:
                raise CaseFailed(
                    f"meaning changed: result {index}, inputs of seed {seed}: {complaint}"
                )


def leaves(value: Any) -> list[np.ndarray]:
    """The arrays of a result: an array, a literal, or nested tuples of them; tokens have none."""
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in leaves(part)]
    if getattr(value, "is_tuple", False):
        return leaves(value.elements)
    if getattr(value, "is_token", False):
        return []
    return [np.asarray(getattr(value, "array", value))]


def difference(old: np.ndarray, new: np.ndarray, tolerance: float) -> str | None:
    """Why two results differ; None when they are the same.

    Integers and booleans must be equal. Floats may differ by a few roundings of their type, or
    by `tolerance` of the largest value; NaN equals NaN.
    """
    if old.shape != new.shape or old.dtype != new.dtype:
        return f"{old.dtype}{list(old.shape)} became {new.dtype}{list(new.shape)}"
    if old.dtype.kind in "biu" or not old.size:
        wrong = old != new
    elif old.dtype.kind == "V" and not hasattr(old.dtype.type, "__float__"):
        wrong = old.view(np.uint8) != new.view(np.uint8)
    else:
        wrong = _apart(old, new, tolerance)
    if not wrong.any():
        return None
    at = tuple(int(k) for k in np.argwhere(wrong)[0]) if wrong.ndim else ()
    count = int(wrong.sum())
    return f"{count} of {old.size} elements differ, first at {at}: {old[at]} became {new[at]}"


def _apart(old: np.ndarray, new: np.ndarray, tolerance: float) -> np.ndarray:
    from ml_dtypes import finfo

    wide = np.complex128 if old.dtype.kind == "c" else np.float64
    try:
        step = float(finfo(old.dtype).eps)
    except ValueError:  # integers narrower than a byte have no eps
        step = 0.0
    x, y = old.astype(wide), new.astype(wide)
    finite = np.isfinite(x) & np.isfinite(y)
    largest = float(np.abs(x[finite]).max(initial=0.0))
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(x - y) <= max(tolerance, 16 * step) * max(largest, step)
    return np.where(finite, ~near, ~((x == y) | (np.isnan(x) & np.isnan(y))))
