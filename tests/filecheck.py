"""A subset of LLVM's FileCheck, in Python: what a text must and must not contain, in order.

Directives are comment lines of the test case:

    // CHECK: text          somewhere after what matched before
    // CHECK-SAME: text     the same, before that line ends
    // CHECK-NEXT: text     on the line after that one
    // CHECK-NOT: text      nowhere between the matches before and after this line
    // CHECK-DAG: text      adjacent ones match in any order, without overlap
    // CHECK-LABEL: text    found first, once each; nothing else searches across a label

In the text, `{{regex}}` is a regular expression, `[[X:regex]]` one whose match is named X, and
`[[X]]` is what X matched. Runs of spaces and tabs are equal. A typo in a directive is an error.

The trick: every directive becomes one compiled regular expression, searched for line by line (no
match crosses a line end), but in the whole output, so that "where" is always a pair of offsets.
"""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

KINDS = ("", "-SAME", "-NEXT", "-NOT", "-DAG", "-LABEL")
_DIRECTIVE = re.compile(r"^[ \t]*(?://|#)[ \t]*CHECK(-[A-Za-z]+)?:(.*)$")
_PIECE = re.compile(
    r"\{\{(?P<regex>.+?)\}\}|\[\[(?P<name>[A-Za-z_]\w*)(?::(?P<capture>.+?))?\]\](?!\])"
)


class CheckFailed(AssertionError):
    """A directive did not hold; the message shows it, and the line where it failed."""


@dataclass(frozen=True)
class Directive:
    """One CHECK line: what kind, what text, and its line number in the case."""

    kind: str
    text: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}: CHECK{self.kind}: {self.text}"


def directives(case: str) -> list[Directive]:
    """All CHECK lines of a case, in order.

    Raises ValueError for an unknown kind, an empty text, or one that nothing precedes.
    """
    found: list[Directive] = []
    for number, line in enumerate(case.splitlines(), 1):
        match = _DIRECTIVE.match(line)
        if match is None:
            continue
        kind, text = match[1] or "", match[2].strip()
        if kind not in KINDS:
            raise ValueError(f"line {number}: no directive CHECK{kind}")
        if not text:
            raise ValueError(f"line {number}: CHECK{kind} says nothing")
        if kind in ("-SAME", "-NEXT") and not any(d.kind != "-NOT" for d in found):
            raise ValueError(f"line {number}: CHECK{kind} follows no CHECK")
        found.append(Directive(kind, text, number))
    return found


def filecheck(output: str, case: str) -> None:
    """Hold `output` to the CHECK lines of `case`; raises CheckFailed, ValueError for bad lines."""
    _Run(output).check(directives(case))


def _spaced(literal: str) -> str:
    """A regular expression for a literal in which runs of spaces and tabs are equal."""
    return r"[ \t]+".join(map(re.escape, re.split(r"[ \t]+", literal)))


def _as_regex(directive: Directive, values: dict[str, str]) -> re.Pattern[str]:
    """Compile a directive, with the values captured so far put in."""
    parts, at, own = [], 0, set()
    for piece in _PIECE.finditer(directive.text):
        parts.append(_spaced(directive.text[at : piece.start()]))
        at = piece.end()
        name = piece["name"]
        if piece["regex"] is not None:
            parts.append(f"(?:{piece['regex']})")
        elif piece["capture"] is not None:
            own.add(name)
            parts.append(f"(?P<{name}>{piece['capture']})")
        elif name in own:
            parts.append(f"(?P={name})")
        elif name in values:
            parts.append(re.escape(values[name]))
        else:
            raise ValueError(f"{directive}: [[{name}]] has no value yet")
    parts.append(_spaced(directive.text[at:]))
    try:
        return re.compile("".join(parts), re.MULTILINE)
    except re.error as error:
        raise ValueError(f"{directive}: {error}") from None


@dataclass
class _Run:
    """One output being checked: how far it has matched, and what was captured."""

    output: str
    at: int = 0
    end: int = 0
    values: dict[str, str] = field(default_factory=dict)

    def check(self, lines: list[Directive]) -> None:
        """Split by labels, then check each block within its own part of the output."""
        blocks: list[list[Directive]] = [[]]
        starts = [0]
        self.end = len(self.output)
        for directive in lines:
            if directive.kind == "-LABEL":
                found = self.search(directive, starts[-1])
                starts.append(found.end())
                blocks.append([])
            else:
                blocks[-1].append(directive)
        line_starts = [self.line_start(s) for s in starts[1:]]
        for block, start, end in zip(blocks, starts, [*line_starts, len(self.output)], strict=True):
            self.at, self.end = start, max(start, end)
            self.check_block(block)

    def check_block(self, block: list[Directive]) -> None:
        """Check the directives between two labels."""
        forbidden: list[Directive] = []
        for group in _groups(block):
            if group[0].kind == "-NOT":
                forbidden = group
                continue
            first, last = self.match_group(group)
            self.forbid(forbidden, self.at, first)
            forbidden, self.at = [], last
        self.forbid(forbidden, self.at, self.end)

    def match_group(self, group: list[Directive]) -> tuple[int, int]:
        """Match one positive directive, or several CHECK-DAG in any order; gives their span."""
        taken: list[tuple[int, int]] = []
        for directive in group:
            start = self.at
            while True:
                found = self.search(directive, start)
                clash = [e for s, e in taken if s < found.end() and found.start() < e]
                if not clash:
                    break
                start = max(clash)
            taken.append(found.span())
            self.values |= {k: v for k, v in found.groupdict().items() if v is not None}
            self.check_distance(directive, found)
        return min(s for s, _ in taken), max(e for _, e in taken)

    def check_distance(self, directive: Directive, found: re.Match[str]) -> None:
        """Hold CHECK-SAME and CHECK-NEXT to their number of line ends."""
        wanted = {"-SAME": 0, "-NEXT": 1}.get(directive.kind)
        lines = self.output.count("\n", self.at, found.start())
        if wanted is not None and lines != wanted:
            where = "on the same line" if wanted == 0 else "on the next line"
            raise CheckFailed(
                f"{directive}\nis not {where}, but {lines} lines down:\n{self.show(found.start())}"
                f"\nthe match before it ended here:\n{self.show(self.at)}"
            )

    def search(self, directive: Directive, start: int) -> re.Match[str]:
        """The first match from `start` on, within the block."""
        found = self.first_match(directive, start, self.end)
        if found is None:
            raise CheckFailed(
                f"{directive}\nnot found; searched from here:\n{self.show(start)}"
                f"{self.nearest(directive, start)}{self.captured()}"
            )
        return found

    def forbid(self, lines: list[Directive], start: int, end: int) -> None:
        """Hold CHECK-NOT lines to a part of the output."""
        for directive in lines:
            found = self.first_match(directive, start, max(start, end))
            if found is not None:
                raise CheckFailed(f"{directive}\nbut it is there:\n{self.show(found.start())}")

    def first_match(self, directive: Directive, start: int, end: int) -> re.Match[str] | None:
        """The first match between two offsets, within one line."""
        regex = _as_regex(directive, self.values)
        while start <= end:
            stop = self.output.find("\n", start, end)
            stop = end if stop < 0 else stop
            found = regex.search(self.output, start, stop)
            if found is not None:
                return found
            start = stop + 1
        return None

    def line_start(self, offset: int) -> int:
        return self.output.rfind("\n", 0, offset) + 1

    def show(self, offset: int) -> str:
        """The output line at an offset, with its number and a caret."""
        start = self.line_start(offset)
        line = self.output[start:].split("\n", 1)[0]
        number = self.output.count("\n", 0, start) + 1
        label = f"{number:>5} | "
        return f"{label}{line}\n{' ' * (len(label) + offset - start)}^"

    def nearest(self, directive: Directive, start: int) -> str:
        """The line that looks most like what was wanted, if one does."""
        lines = self.output[self.line_start(start) : self.end].split("\n")[:2000]
        close = difflib.get_close_matches(directive.text, [s.strip() for s in lines], 1, 0.5)
        return f"\nnearest line: {close[0]}" if close else ""

    def captured(self) -> str:
        named = ", ".join(f"{name} = {value!r}" for name, value in self.values.items())
        return f"\ncaptured: {named}" if named else ""


def _groups(block: list[Directive]) -> Iterator[list[Directive]]:
    """Adjacent CHECK-DAG together, adjacent CHECK-NOT together, every other one by itself."""
    group: list[Directive] = []
    for directive in block:
        if group and (directive.kind not in ("-DAG", "-NOT") or directive.kind != group[0].kind):
            yield group
            group = []
        group.append(directive)
    if group:
        yield group
