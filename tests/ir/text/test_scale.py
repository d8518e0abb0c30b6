"""Reading and printing cost the same per instruction, however large the program is.

Times are of the processor, and limits are several times what is usual: they catch what grows
with the square of a size, not a slow day.
"""

from collections.abc import Callable

import pytest

from hloom.ir.text import parse_module, show_module
from tests.processor_time import timed

SLOWEST = 4e-4
"""Seconds an instruction; usual are 1e-5 to read one and 3e-6 to print it."""


def calls(n: int) -> str:
    bodies = "".join(
        f"%c.{k} (a: f32[4]) -> f32[4] {{\n  %a = f32[4]{{0}} parameter(0)\n"
        f"  ROOT %n = f32[4]{{0}} negate(%a)\n}}\n\n"
        for k in range(n)
    )
    lines = "".join(f"  %x.{k + 1} = f32[4]{{0}} call(%x.{k}), to_apply=%c.{k}\n" for k in range(n))
    return f"HloModule m\n\n{bodies}ENTRY %e {{\n  %x.0 = f32[4]{{0}} parameter(0)\n{lines}}}\n"


def nested_calls(n: int) -> str:
    body = "to_apply={ a = f32[4] parameter(0)\n ROOT n = f32[4] negate(a) }"
    lines = "".join(f"  %x.{k + 1} = f32[4]{{0}} call(%x.{k}), {body}\n" for k in range(n))
    return f"HloModule m\n\nENTRY %e {{\n  %x.0 = f32[4]{{0}} parameter(0)\n{lines}}}\n"


def asynchronous(n: int) -> str:
    lines = "".join(
        f"  %s.{k} = ((f32[4]{{0}}), f32[4]{{0}}, s32[]) negate-start(%x.{k})\n"
        f"  %x.{k + 1} = f32[4]{{0}} negate-done(%s.{k})\n"
        for k in range(n)
    )
    return f"HloModule m\n\nENTRY %e {{\n  %x.0 = f32[4]{{0}} parameter(0)\n{lines}}}\n"


def parameters(n: int) -> str:
    lines = "".join(f"  %p.{k} = f32[4]{{0}} parameter({k})\n" for k in reversed(range(n)))
    return f"HloModule m\n\nENTRY %e {{\n{lines}  ROOT %r = f32[4]{{0}} negate(%p.0)\n}}\n"


def elements(n: int) -> str:
    shape = "(" + ", ".join(["f32[4]{0}"] * n) + ")"
    lines = "".join(f"  %n.{k} = f32[4]{{0}} negate(%t#{k})\n" for k in range(n))
    return f"HloModule m\n\nENTRY %e {{\n  %t = {shape} parameter(0)\n{lines}}}\n"


def wide(n: int) -> str:
    names = ", ".join(f"%p.{k}" for k in range(n // 50))
    shape = "(" + ", ".join(["f32[4]{0}"] * (n // 50)) + ")"
    lines = "".join(f"  %t.{k} = {shape} tuple({names})\n" for k in range(50))
    given = "".join(f"  %p.{k} = f32[4]{{0}} parameter({k})\n" for k in range(n // 50))
    return f"HloModule m\n\nENTRY %e {{\n{given}{lines}}}\n"


def control(n: int) -> str:
    lines = "".join(
        f"  %n.{k} = f32[4]{{0}} negate(%p), control-predecessors={{%c}}\n" for k in range(n)
    )
    head = "  %p = f32[4]{0} parameter(0)\n  %c = f32[4]{0} cosine(%p)\n"
    return f"HloModule m\n\nENTRY %e {{\n{head}{lines}}}\n"


def header(n: int) -> str:
    shapes = ", ".join(["f32[4,8]{1,0:T(8,128)}"] * n)
    pairs = ",".join(f'k{k}="{k}"' for k in range(n))
    lines = "".join(f"  %p.{k} = f32[4,8]{{1,0:T(8,128)}} parameter({k})\n" for k in range(n))
    return (
        f"HloModule m, entry_computation_layout={{({shapes})->f32[]}}, "
        f"frontend_attributes={{{pairs}}}\n\n"
        f"ENTRY %e {{\n{lines}  ROOT %r = f32[] constant(1)\n}}\n"
    )


@pytest.mark.parametrize(
    "make",
    [calls, nested_calls, asynchronous, parameters, elements, wide, control, header],
    ids=lambda f: f.__name__,
)
def test_cost_of_an_instruction(make: Callable[[int], str]):
    text = make(10_000)
    with timed() as spent:
        module = parse_module(text)
        shown = show_module(module)
    assert spent.seconds < SLOWEST * max(module.instruction_count, len(text) / 100)
    assert show_module(parse_module(shown)) == shown
