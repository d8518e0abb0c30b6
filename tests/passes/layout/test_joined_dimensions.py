"""What is done on joined dimensions, on those before: drawn sizes against the interpreter."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import hloom
from hloom.ir.computation import Computation
from hloom.passes.layout.joined_dimensions import split_joined

NORM = """HloModule m
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}
ENTRY e {{
  x = f32[{parts}] parameter(0)
  y = f32[{parts}] parameter(1)
  w = f32[{kept}] parameter(2)
  zero = f32[] constant(0)
  half = f32[] constant(0.5)
  j = f32[{dims}] reshape(x)
  k = f32[{dims}] reshape(y)
  p = f32[{dims}] add(j, k)
  m = f32[{kept}] reduce(p, zero), dimensions={{{over}}}, to_apply=sum
  n = f32[{kept}] multiply(m, w)
  s = f32[{dims}] broadcast(n), dimensions={{{at}}}
  h = f32[{dims}] broadcast(half), dimensions={{}}
  d = f32[{dims}] subtract(p, s)
  q = f32[{dims}] multiply(d, h)
  r = f32[{parts}] reshape(q)
  z = f32[{parts}] exponential(r)
  ROOT t = (f32[{kept}], f32[{parts}]{more}) tuple(m, z{last})
}}
"""


def norm(parts: list[int], groups: list[int], over: list[int], more: str = "") -> str:
    """A norm over dimensions that are joined of so many each; `more` is a value that is returned
    of the joined ones."""
    ends = np.cumsum(groups)
    dims = [int(np.prod(parts[e - n : e])) for n, e in zip(groups, ends)]
    kept = [d for d in range(len(dims)) if d not in over]
    text = {"parts": parts, "dims": dims, "kept": [dims[d] for d in kept], "over": over, "at": kept}
    written = {k: ",".join(map(str, v)) for k, v in text.items()}
    shape = f", f32[{written['dims']}]" if more else ""
    return NORM.format(**written, more=shape, last=f", {more}" if more else "")


CASES = {
    "all of an image": ([3, 5, 4, 6], [1, 3], [1]),
    "one image": ([1, 5, 4, 6], [1, 3], [1]),
    "places": ([2, 5, 4, 6], [1, 1, 2], [2]),
    "images and places": ([2, 3, 4, 6], [2, 2], [1]),
    "other than the joined": ([2, 5, 4, 6], [1, 2, 1], [0]),
    "dimensions of one": ([1, 4, 1, 6, 1], [1, 3, 1], [1]),
    "everything": ([3, 4, 5], [3], [0]),
}


@pytest.mark.parametrize("name", CASES)
def test_norms(name: str) -> None:
    parts, groups, over = CASES[name]
    module = hloom.parse(norm(parts, groups, over))
    joins_kept = any(n > 1 for d, n in enumerate(groups) if d not in over)
    arguments = hloom.random_arguments(module, seed=3)
    expected = hloom.evaluate(module, *arguments)
    fired: Counter[str] = Counter()
    split_joined(module.entry, fired)
    hloom.verify(module)
    # Where what is repeated is joined itself, it would have to be split to be repeated.
    assert fired.total() == (0 if joins_kept else 1)
    if fired:
        exponential = next(i for i in module.entry if i.opcode == "exponential")
        assert exponential.operands[0].opcode == "multiply"
        assert all(i.shape.dims != tuple(parts) for i in module.entry if i.opcode == "reshape")
    for got, want in zip(hloom.evaluate(module, *arguments).elements, expected.elements):
        np.testing.assert_allclose(got.array, want.array, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("value", ["j", "p", "q"])
def test_what_others_read_stays(value: str) -> None:
    module = hloom.parse(norm([3, 5, 4, 6], [1, 3], [1], value))
    fired: Counter[str] = Counter()
    split_joined(module.entry, fired)
    assert not fired


def test_a_computation_is_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each of its norms: of 3,200 that took 50 s."""
    count, lines, x = 20, ["x0 = f32[3,5,4] parameter(0)", "z = f32[] constant(0)"], "x0"
    for k in range(count):
        lines += [
            f"a{k} = f32[3,20] reshape({x})",
            f"b{k} = f32[3] reduce(a{k}, z), dimensions={{1}}, to_apply=sum",
            f"e{k} = f32[3,20] broadcast(b{k}), dimensions={{0}}",
            f"d{k} = f32[3,20] subtract(a{k}, e{k})",
            f"y{k} = f32[3,5,4] reshape(d{k})",
        ]
        x = f"y{k}"
    lines.append(f"ROOT r = f32[3,5,4] negate({x})")
    head = NORM.split("ENTRY")[0].format()
    module = hloom.parse(head + "ENTRY e {\n" + "\n".join(lines) + "\n}")
    sorts = []
    monkeypatch.setattr(Computation, "sort", lambda c, was=Computation.sort: sorts.append(was(c)))
    fired: Counter[str] = Counter()
    split_joined(module.entry, fired)
    hloom.verify(module)
    assert (fired.total(), len(sorts)) == (count, 1)
    assert module.entry.is_sorted
