"""What a run of JAX's tests says: a score, what failed here alone, a row for each file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hloom.tools.conformance_run import Ended

Results = Mapping[str, Mapping[str, Mapping[str, Ended]]]
"""By backend, file and test."""
OUTCOMES = ("passed", "failed", "crashed", "timeout", "skipped")


@dataclass(frozen=True)
class Score:
    """Of the tests that the built-in backend passes, how many hloom passes."""

    passed: int
    of: int
    crashed: int

    @property
    def share(self) -> float | None:
        """None where nothing can be said."""
        return self.passed / self.of if self.of else None


def score(results: Results) -> Score:
    ours, theirs = results["hloom"], results["builtin"]
    comparable = [
        (file, test)
        for file, tests in theirs.items()
        for test, ended in tests.items()
        if ended.outcome == "passed"
    ]
    passed = sum(_outcome(ours, file, test) == "passed" for file, test in comparable)
    crashed = sum(e.outcome == "crashed" for tests in ours.values() for e in tests.values())
    return Score(passed, len(comparable), crashed)


def failed_here(results: Results) -> list[tuple[str, Ended]]:
    """Tests that the built-in backend passes and hloom does not, and processes that crashed."""
    ours, theirs = results["hloom"], results["builtin"]
    failures = []
    for file, tests in sorted(theirs.items()):
        for test, ended in tests.items():
            if ended.outcome == "passed" and _outcome(ours, file, test) != "passed":
                why = ours.get(file, {}).get(test, Ended("missing", "it was not collected", 0))
                failures.append((test, why))
        for test, ended in ours.get(file, {}).items():
            if test not in tests and ended.outcome in ("crashed", "timeout", "failed"):
                failures.append((test, ended))
    return failures


def _outcome(tests: Mapping[str, Mapping[str, Ended]], file: str, test: str) -> str:
    ended = tests.get(file, {}).get(test)
    return "missing" if ended is None else ended.outcome


def excluded(results: Results) -> Counter[str]:
    """How many tests were left out, by reason."""
    return Counter(
        e.why
        for tests in results["hloom"].values()
        for e in tests.values()
        if e.outcome == "excluded"
    )


def as_data(
    results: Results, about: Mapping[str, Any], left_out: Mapping[str, str]
) -> dict[str, Any]:
    """Everything, for programs; `left_out` are whole files with the reason."""
    total = score(results)
    return {
        **about,
        "score": total.share,
        "passed": total.passed,
        "of": total.of,
        "crashed": total.crashed,
        "failed_here": [
            {"test": test, "outcome": e.outcome, "why": e.why} for test, e in failed_here(results)
        ],
        "excluded_files": dict(left_out),
        "excluded_tests": dict(excluded(results)),
        "files": {
            file: {
                backend: dict(Counter(e.outcome for e in results[backend].get(file, {}).values()))
                for backend in results
            }
            for file in sorted(results["hloom"])
        },
    }


def page(results: Results, about: Mapping[str, Any], left_out: Mapping[str, str]) -> str:
    """The same as a page of Markdown."""
    total = score(results)
    share = "nothing to compare" if total.share is None else f"{100 * total.share:.2f} %"
    lines = ["# JAX's own tests on hloom", ""]
    lines += [f"- {name}: {value}" for name, value in about.items()]
    lines += [
        f"- **{share}** of the {total.of} tests that the built-in backend passes pass on hloom "
        f"({total.passed}); {total.crashed} crashed their process",
        "",
        "## Passed by the built-in backend, and not by hloom",
        "",
    ]
    wrong = failed_here(results)
    lines += [f"- `{test}`: {e.outcome}: {_plain(e.why)}" for test, e in wrong] or ["None."]
    lines += ["", "## By file", "", "hloom, and behind the stroke the built-in backend.", ""]
    lines += ["| file | " + " | ".join(OUTCOMES) + " |", "|---" * (len(OUTCOMES) + 1) + "|"]
    for file in sorted(results["hloom"]):
        counts = [
            Counter(e.outcome for e in results[b].get(file, {}).values())
            for b in ("hloom", "builtin")
        ]
        cells = [f"{counts[0][o]} / {counts[1][o]}" for o in OUTCOMES]
        lines.append(f"| {file} | " + " | ".join(cells) + " |")
    lines += ["", "## Left out", ""]
    lines += [f"- `{file}`: {why}" for file, why in sorted(left_out.items())]
    lines += [f"- {count} tests: {why}" for why, count in sorted(excluded(results).items())]
    if not left_out and not excluded(results):
        lines.append("Nothing.")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
