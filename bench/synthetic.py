"""Synthetic HLO modules of any size, as text, with the mix that real programs have.

One block is what a layer of a traced network leaves in a dump: parameters of a tuple taken apart,
elementwise chains, broadcasts of constants, a dot, a reduction that calls a computation, a
convert, a select on a compare; every instruction with metadata. Every few blocks a while loop
with its own body and condition. Text is written here by hand, not by our printer, so that the
parser is not measured on its own output's habits alone.
"""

from collections.abc import Iterator

ROWS, COLUMNS = 128, 256
MATRIX = f"f32[{ROWS},{COLUMNS}]{{1,0}}"
SQUARE = f"f32[{COLUMNS},{COLUMNS}]{{1,0}}"
HALF = f"bf16[{ROWS},{COLUMNS}]{{1,0}}"
MASK = f"pred[{ROWS},{COLUMNS}]{{1,0}}"
VECTOR = f"f32[{ROWS}]{{0}}"
LOOP = f"(s32[], {MATRIX})"
BLOCKS_PER_LOOP = 25

PREAMBLE = f"""\
%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(f32[] %a, f32[] %b)
}}

%body (state: {LOOP}) -> {LOOP} {{
  %state = {LOOP} parameter(0)
  %n = s32[] get-tuple-element({LOOP} %state), index=0
  %one = s32[] constant(1)
  %m = s32[] add(s32[] %n, s32[] %one)
  %v = {MATRIX} get-tuple-element({LOOP} %state), index=1
  %w = {MATRIX} cosine({MATRIX} %v)
  ROOT %next = {LOOP} tuple(s32[] %m, {MATRIX} %w)
}}

%condition (state: {LOOP}) -> pred[] {{
  %state = {LOOP} parameter(0)
  %n = s32[] get-tuple-element({LOOP} %state), index=0
  %limit = s32[] constant(3)
  ROOT %more = pred[] compare(s32[] %n, s32[] %limit), direction=LT
}}
"""


def metadata(name: str, line: int) -> str:
    """What tracing leaves on every instruction."""
    return (
        f'metadata={{op_type="{name}" op_name="jit(step)/jit(main)/layer_{line % 48}/{name}" '
        f'source_file="model/layers.py" source_line={line % 900 + 1}}}'
    )


def block(number: int, x: str, weights: str) -> tuple[list[str], str]:
    """The lines of one layer that reads `x`, and the name of its result."""
    k = number
    lines = [
        (f"%zero.{k} = f32[] constant(0)", "constant"),
        (f"%scale.{k} = f32[] constant({0.5 + k % 7 / 8})", "constant"),
        (f"%wide.{k} = {MATRIX} broadcast(f32[] %scale.{k}), dimensions={{}}", "broadcast"),
        (
            f"%dot.{k} = {MATRIX} dot({MATRIX} %{x}, {SQUARE} %{weights}), "
            "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "dot_general",
        ),
        (f"%mul.{k} = {MATRIX} multiply({MATRIX} %dot.{k}, {MATRIX} %wide.{k})", "mul"),
        (f"%tanh.{k} = {MATRIX} tanh({MATRIX} %mul.{k})", "tanh"),
        (
            f"%total.{k} = {VECTOR} reduce({MATRIX} %tanh.{k}, f32[] %zero.{k}), "
            "dimensions={1}, to_apply=%sum",
            "reduce_sum",
        ),
        (f"%row.{k} = {MATRIX} broadcast({VECTOR} %total.{k}), dimensions={{0}}", "broadcast"),
        (f"%sub.{k} = {MATRIX} subtract({MATRIX} %tanh.{k}, {MATRIX} %row.{k})", "sub"),
        (f"%half.{k} = {HALF} convert({MATRIX} %sub.{k})", "convert_element_type"),
        (f"%full.{k} = {MATRIX} convert({HALF} %half.{k})", "convert_element_type"),
        (
            f"%mask.{k} = {MASK} compare({MATRIX} %full.{k}, {MATRIX} %wide.{k}), direction=GT",
            "gt",
        ),
        (
            f"%pick.{k} = {MATRIX} select({MASK} %mask.{k}, {MATRIX} %full.{k}, "
            f"{MATRIX} %tanh.{k})",
            "select_n",
        ),
        (f"%out.{k} = {MATRIX} add({MATRIX} %pick.{k}, {MATRIX} %{x})", "add"),
    ]
    return [f"  {text}, {metadata(name, 17 * k)}" for text, name in lines], f"out.{k}"


def loop(number: int, x: str) -> tuple[list[str], str]:
    """The lines of one while loop over `x`, and the name of its result."""
    k = number
    lines = [
        f"  %start.{k} = s32[] constant(0)",
        f"  %init.{k} = {LOOP} tuple(s32[] %start.{k}, {MATRIX} %{x})",
        f"  %while.{k} = {LOOP} while({LOOP} %init.{k}), condition=%condition, body=%body, "
        f"{metadata('while', k)}",
        f"  %after.{k} = {MATRIX} get-tuple-element({LOOP} %while.{k}), index=1",
    ]
    return lines, f"after.{k}"


def _entry(instructions: int) -> Iterator[str]:
    yield f"ENTRY %main (x: {MATRIX}, w: {SQUARE}) -> {MATRIX} {{"
    yield f"  %x = {MATRIX} parameter(0), {metadata('args[0]', 0)}"
    yield f"  %w = {SQUARE} parameter(1), {metadata('args[1]', 0)}"
    made, number, value = 2 + 14, 0, "x"
    while made < instructions - 1:
        number += 1
        make = loop if number % BLOCKS_PER_LOOP == 0 else block
        lines, value = make(number, value) if make is loop else block(number, value, "w")
        made += len(lines)
        yield from lines
    yield f"  ROOT %result = {MATRIX} copy({MATRIX} %{value})"
    yield "}"


def module_text(instructions: int, name: str = "synthetic") -> str:
    """A module of at least this many instructions, and at most one block more."""
    return "\n".join([f"HloModule {name}\n", PREAMBLE, *_entry(instructions)]) + "\n"


def chain_text(length: int, name: str = "chain") -> str:
    """`length` pairs of operations that undo each other, each pair for one rule: x - 0, x * 1."""
    lines = ["%p = f32[8]{0} parameter(0)", "%zero = f32[] constant(0)", "%one = f32[] constant(1)"]
    lines += ["%zeros = f32[8]{0} broadcast(%zero), dimensions={}"]
    lines += ["%ones = f32[8]{0} broadcast(%one), dimensions={}"]
    value = "p"
    for k in range(length):
        lines.append(f"%a.{k} = f32[8]{{0}} subtract(%{value}, %zeros)")
        lines.append(f"%b.{k} = f32[8]{{0}} multiply(%a.{k}, %ones)")
        value = f"b.{k}"
    lines.append(f"ROOT %n = f32[8]{{0}} negate(%{value})")
    body = "\n".join(f"  {line}" for line in lines)
    return f"HloModule {name}\n\nENTRY %main {{\n{body}\n}}\n"
