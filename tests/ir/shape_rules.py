"""Tests of shape rules written as one line each.

    add(f32[<=4], f32[4]) -> f32[<=4]
    reduce(f32[4,3], f32[]), dimensions={1}, to_apply=add_f32 -> f32[4]
    add(f32[4], f32[3]) -> ! different shapes

Operands are parameters of the shapes given; the result is what the operation infers. After `!`
stands a part of the message of the error.
"""

from hloom.base.diagnostics import HloError
from hloom.ir.op import ShapeError
from hloom.ir.text import parse_module
from tests.ir.verify_cases import expanded


def lines(table: str) -> list[str]:
    """The rules of a table, without blank lines."""
    return [line.strip() for line in table.strip().splitlines() if line.strip()]


def arguments(text: str) -> tuple[list[str], str]:
    """The operand shapes of `(a, b), rest`, and the rest."""
    depth, start, found = 0, 1, []
    for at, c in enumerate(text):
        depth += c in "([{"
        depth -= c in ")]}"
        if (depth == 0 and c == ")") or (depth == 1 and c == ","):
            if text[start:at].strip():
                found.append(text[start:at].strip())
            start = at + 1
        if depth == 0:
            return found, text[at + 1 :]
    raise ValueError(text)


def inferred(rule: str) -> str:
    """The shape that the left side of a rule gives, or `! message`."""
    opcode, _, rest = rule.rpartition(" -> ")[0].partition("(")
    shapes, attributes = arguments("(" + rest)
    body = [f"p{k} = {shape} parameter({k})" for k, shape in enumerate(shapes)]
    operands = ", ".join(f"p{k}" for k in range(len(shapes)))
    body.append(f"ROOT r = f32[] {opcode}({operands}){attributes}")
    text = expanded("ENTRY e {\n  " + "\n  ".join(body) + "\n}")
    try:
        root = parse_module(text).entry.root
        if not root.op.infers:
            return "! must be given"
        signatures = tuple(c.program_shape for c in root.called)
        return str(root.op.infer(root.attrs, tuple(x.shape for x in root.operands), signatures))
    except (HloError, ShapeError) as error:
        return f"! {error}"


def check(rule: str) -> None:
    """Compare what a rule says with what is inferred."""
    expected, found = rule.rpartition(" -> ")[2], inferred(rule)
    if expected.startswith("!"):
        assert found.startswith("!"), found
        assert expected[1:].strip() in found
    else:
        assert found == expected
