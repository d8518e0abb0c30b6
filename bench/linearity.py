"""`python -m bench.linearity [shapes]`: whether the time of compiling grows as fast as the program.

Programs of one shape are made with about 1,000, 4,000 and 16,000 instructions, and every stage but
the machine code (whose time is LLVM's, and grows with the text) is timed, in seconds of this
process. The last column is the growth from the second to the third, over that of the program: 1 is
linear, 4 quadratic. Shapes:

    chain   one after another: a dot, tanh, a row's sum, subtracted
    wide    everything reads the parameters, all of it is returned
    loops   a while loop after another, each with a body and a condition of its own
    calls   fusions, each of a few instructions, one after another
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

SIZES = (1_000, 4_000, 16_000)
HEAD = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""
PARAMETERS = ["x0 = f32[16,64] parameter(0)", "w = f32[64,64] parameter(1)"]


def chain(count: int) -> str:
    """Five instructions a step."""
    contracted = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lines = [*PARAMETERS, "z = f32[] constant(0)"]
    for k in range(count // 5):
        lines += [
            f"t{k} = f32[16,64] tanh(x{k})",
            f"d{k} = f32[16,64] dot(t{k}, w), {contracted}",
            f"r{k} = f32[16] reduce(d{k}, z), dimensions={{1}}, to_apply=add",
            f"b{k} = f32[16,64] broadcast(r{k}), dimensions={{0}}",
            f"x{k + 1} = f32[16,64] subtract(d{k}, b{k})",
        ]
    return entry(lines, f"ROOT r = f32[16,64] negate(x{count // 5})")


def wide(count: int) -> str:
    """Five instructions and a result a step."""
    lines = [*PARAMETERS, "z = f32[] constant(0)"]
    for k in range(count // 5):
        lines += [
            f"n{k} = f32[] constant({k + 1})",
            f"b{k} = f32[16,64] broadcast(n{k}), dimensions={{}}",
            f"m{k} = f32[16,64] multiply(x0, b{k})",
            f"e{k} = f32[16,64] cosine(m{k})",
            f"r{k} = f32[16] reduce(e{k}, z), dimensions={{1}}, to_apply=add",
        ]
    types = ", ".join(["f32[16]"] * (count // 5))
    values = ", ".join([f"r{k}" for k in range(count // 5)])
    return entry(lines, f"ROOT r = ({types}) tuple({values})")


def loops(count: int) -> str:
    """Twenty instructions a loop, most of them in its computations."""
    state = "(s32[], f32[16,64])"
    made, lines = [], [*PARAMETERS, "zero = s32[] constant(0)"]
    for k in range(count // 20):
        made.append(
            f"""body{k} {{
  p = {state} parameter(0)
  n = s32[] get-tuple-element(p), index=0
  x = f32[16,64] get-tuple-element(p), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one)
  t = f32[16,64] tanh(x)
  f = f32[] convert(n)
  b = f32[16,64] broadcast(f), dimensions={{}}
  y = f32[16,64] add(t, b)
  v = f32[16,64] cosine(y)
  ROOT r = {state} tuple(m, v)
}}

condition{k} {{
  p = {state} parameter(0)
  n = s32[] get-tuple-element(p), index=0
  limit = s32[] constant({k % 5 + 2})
  ROOT more = pred[] compare(n, limit), direction=LT
}}
"""
        )
        lines += [
            f"i{k} = {state} tuple(zero, x{k})",
            f"l{k} = {state} while(i{k}), condition=condition{k}, body=body{k}",
            f"g{k} = f32[16,64] get-tuple-element(l{k}), index=1",
            f"x{k + 1} = f32[16,64] negate(g{k})",
        ]
    return entry(lines, f"ROOT r = f32[16,64] negate(x{count // 20})", "\n".join(made))


def calls(count: int) -> str:
    """Five instructions a fusion."""
    made, lines = [], list(PARAMETERS)
    for k in range(count // 5):
        made.append(
            f"""inside{k} {{
  p = f32[16,64] parameter(0)
  c = f32[] constant({k + 1})
  b = f32[16,64] broadcast(c), dimensions={{}}
  ROOT s = f32[16,64] subtract(p, b)
}}
"""
        )
        lines.append(f"x{k + 1} = f32[16,64] fusion(x{k}), kind=kLoop, calls=inside{k}")
    return entry(lines, f"ROOT r = f32[16,64] negate(x{count // 5})", "\n".join(made))


def entry(lines: list[str], root: str, others: str = "") -> str:
    """The text of a module."""
    body = "\n".join([f"  {line}" for line in [*lines, root]])
    return f"{HEAD}\n{others}\nENTRY e {{\n{body}\n}}\n"


SHAPES = {"chain": chain, "wide": wide, "loops": loops, "calls": calls}


def stage_times(text: str) -> tuple[int, dict[str, float]]:
    """How many instructions, and processor seconds by stage."""
    import hloom
    from hloom.base.clock import StageClock
    from hloom.base.collection import paused_collection
    from hloom.codegen.llvm.machine import Machine
    from hloom.targets.cpu.target import CpuTarget

    start = time.process_time()
    module = hloom.parse(text)
    found = {"parse": time.process_time() - start}
    start = time.process_time()
    hloom.verify(module)
    found["verify"] = time.process_time() - start
    count = module.instruction_count
    clock = StageClock(now=time.process_time)
    with paused_collection():
        CpuTarget(Machine.host()).written(module, clock)
    return count, found | clock.seconds


def rows(names: list[str]) -> Iterator[tuple[str, list[int], list[dict[str, float]]]]:
    """Name, instructions and times of each shape."""
    for name in names or SHAPES:
        found = [stage_times(SHAPES[name](size)) for size in SIZES]
        yield name, [count for count, _ in found], [times for _, times in found]


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(prog="python -m bench.linearity", description=__doc__)
    parser.add_argument("shapes", nargs="*", help=f"of {', '.join(SHAPES)}; all if none is named")
    console = Console(width=100)
    for name, counts, times in rows(parser.parse_args().shapes):
        table = Table(title=f"{name}: {', '.join(f'{c:,}' for c in counts)} instructions; seconds")
        for column in ("stage", *map(str, counts), "growth"):
            table.add_column(column, justify="left" if column == "stage" else "right")
        for stage in [*times[0], "all"]:
            cells = [sum(t.values()) if stage == "all" else t[stage] for t in times]
            growth = cells[2] / max(cells[1], 1e-3) / (counts[2] / counts[1])
            table.add_row(stage, *[f"{s:.3f}" for s in cells], f"{growth:.2f}")
        console.print(table)


if __name__ == "__main__":
    main()
