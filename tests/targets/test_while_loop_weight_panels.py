"""Weights of loops in panels: any size, type and order computes what the interpreter computes, and
no step packs."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hloom
from hloom.analysis.panels import panel_width
from hloom.codegen.llvm.machine import Machine
from hloom.executable import Executable
from hloom.passes.layout.while_loop_weight_panels import WhileLoopWeightPanels
from hloom.targets.cpu.target import CpuTarget
from tests.codegen.products import TOLERANCE, distinct

SIZES = [(1, 64), (3, 31), (8, 144), (9, 333), (17, 256), (40, 96), (130, 47)]
STEPS = 17


def loop(m: int, n: int, of: str, contracted: int, steps: int | str = STEPS) -> str:
    """`h = h @ w` in so many steps, each scaled so that numbers stay small."""
    state = f"(s32[], {of}[{m},{n}], {of}[{n},{n}], s32[])"
    scale = {"s8": "3", "s32": "3"}.get(of, "0.0625")
    return f"""HloModule m
body {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  h = {of}[{m},{n}] get-tuple-element(s), index=1
  w = {of}[{n},{n}] get-tuple-element(s), index=2
  bound = s32[] get-tuple-element(s), index=3
  c = {of}[] constant({scale})
  cs = {of}[{m},{n}] broadcast(c), dimensions={{}}
  d = {of}[{m},{n}] dot(h, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{contracted}}}
  e = {of}[{m},{n}] multiply(d, cs)
  ROOT r = {state} tuple(next, e, w, bound)
}}
condition {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  bound = s32[] {"get-tuple-element(s), index=3" if steps == "?" else f"constant({steps})"}
  ROOT c = pred[] compare(i, bound), direction=LT
}}
ENTRY e {{
  zero = s32[] constant(0)
  h = {of}[{m},{n}] parameter(0)
  w = {of}[{n},{n}] parameter(1)
  bound = s32[] parameter(2)
  s = {state} tuple(zero, h, w, bound)
  l = {state} while(s), condition=condition, body=body
  ROOT y = {of}[{m},{n}] get-tuple-element(l), index=1
}}"""


def arguments(m: int, n: int, of: str) -> list[np.ndarray]:
    module = hloom.parse(loop(m, n, of, 0))
    h, w, _ = module.entry.parameters
    small = distinct(w.shape.dtype.numpy, (n, n), 1) / np.asarray(1, w.shape.dtype.numpy)
    if of in TOLERANCE:
        small = (small / (np.abs(small).max() * n**0.5)).astype(w.shape.dtype.numpy) * 8
    values = distinct(h.shape.dtype.numpy, (m, n), 0), small.astype(w.shape.dtype.numpy)
    return [*values, np.asarray(STEPS, np.int32)]


@pytest.mark.parametrize("isa", ["", "AVX2"])
@pytest.mark.parametrize("contracted", [0, 1])
@pytest.mark.parametrize("of", ["f32", "bf16", "f64", "s32", "s8"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_weights_are_laid_out_once(size: tuple[int, int], of: str, contracted: int, isa: str):
    m, n = size
    module, values = hloom.parse(loop(m, n, of, contracted)), arguments(m, n, of)
    run = Executable(CpuTarget(Machine.host(isa)).compile(module), threads=2)
    width = panel_width(n, 1)
    if of == "f32" and m * n > 128 and width:  # smaller products are no products of panels
        panels = f"f32[{-(-n // width)},{n},{width}]"
        assert panels in run.as_text("hlo")
    result = np.asarray(run(*values))
    expected = hloom.evaluate(hloom.parse(loop(m, n, of, contracted)), *values).array
    if of not in TOLERANCE:
        np.testing.assert_array_equal(result, expected)
        return
    largest = np.abs(expected.astype(np.float64)).max()
    error = np.abs(result.astype(np.float64) - expected.astype(np.float64)).max()
    assert largest > 0 and error <= STEPS * TOLERANCE[of] * largest


def test_no_step_packs():
    text = hloom.compile(hloom.parse(loop(17, 256, "f32", 0))).as_text("kernels")
    scratch = re.findall(r"alloc size\((\d+)\)", text)
    assert sum(map(int, scratch)) <= 12 * 64  # a tile of results, no panel


@pytest.mark.parametrize("steps", [0, 1, 20])
def test_a_loop_of_a_number_of_steps_that_arguments_say(steps: int):
    run = hloom.compile(hloom.parse(loop(9, 64, "f32", 1, "?")))
    assert "f32[1,64,64]" in run.as_text("hlo")
    h, w, _ = arguments(9, 64, "f32")
    values = [h, w, np.asarray(steps, np.int32)]
    expected = hloom.evaluate(hloom.parse(loop(9, 64, "f32", 1, "?")), *values).array
    allowed = 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(np.asarray(run(*values)), expected, atol=allowed)


def test_one_row_is_multiplied_by_what_stays_as_it_is():
    of_rows = {m: hloom.compile(hloom.parse(loop(m, 256, "f32", 0))).as_text("hlo") for m in (2, 3)}
    assert "f32[4,256,64]" not in of_rows[2]
    assert "f32[4,256,64]" in of_rows[3]


def two_layers(n: int) -> str:
    """A step that multiplies by one matrix, then by another."""
    state = f"(s32[], f32[9,{n}], f32[{n},{n}], f32[{n},{n}])"
    return f"""HloModule m
body {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  h = f32[9,{n}] get-tuple-element(s), index=1
  v = f32[{n},{n}] get-tuple-element(s), index=2
  w = f32[{n},{n}] get-tuple-element(s), index=3
  d = f32[9,{n}] dot(h, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  t = f32[9,{n}] tanh(d)
  g = f32[9,{n}] dot(t, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = {state} tuple(next, g, v, w)
}}
condition {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  bound = s32[] constant(20)
  ROOT c = pred[] compare(i, bound), direction=LT
}}
ENTRY e {{
  zero = s32[] constant(0)
  h = f32[9,{n}] parameter(0)
  v = f32[{n},{n}] parameter(1)
  w = f32[{n},{n}] parameter(2)
  s = {state} tuple(zero, h, v, w)
  l = {state} while(s), condition=condition, body=body
  ROOT y = f32[9,{n}] get-tuple-element(l), index=1
}}"""


@pytest.mark.parametrize(("matrices", "laid_out"), [(0.99, 0), (1, 1), (1.99, 1), (2, 2)])
def test_as_much_is_laid_out_as_caches_hold(matrices: float, laid_out: int):
    module = hloom.parse(two_layers(64))
    p = WhileLoopWeightPanels(most_bytes=int(matrices * 64 * 64 * 4))
    result = p.run(module)
    assert (result.fired.get("laid out", 0) if result.fired else 0) == laid_out
    hloom.verify(module)


def test_large_weights_stay_as_they_are():
    module = hloom.parse(loop(9, 64, "f32", 0))
    at_most, below = 64 * 64 * 4, 64 * 64 * 4 - 1
    assert not WhileLoopWeightPanels(most_bytes=below).run(module).changed
    assert WhileLoopWeightPanels(most_bytes=at_most).run(module).changed
    hloom.verify(module)
