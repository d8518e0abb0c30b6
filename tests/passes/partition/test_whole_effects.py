"""Where the partitioner has a fault, effects of a program are had once, and in their order."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import hloom
from hloom.base.faults import CompilerFaultWarning, Fault
from hloom.ir.module import Module
from hloom.passes.partition.whole_program import partitioned
from hloom.runtime import ffi
from tests.fuzz.planted import Plant, Planted, plants

SAID: list[tuple[str, float]] = []
"""What programs told: the name of the call, and the first number that it was given."""


def tell(c: ffi.Call) -> None:
    (x,) = c.arguments
    SAID.append((str(c.attributes["opaque"]), float(x.flat[0])))
    c.results[0][...] = x + 1


ffi.register("test.told", tell)


def call(name: str, operand: str, more: str = "", of: str = "f32[8,4]") -> str:
    return (
        f'{name} = {of} custom-call({operand}), custom_call_target="test.told", '
        f'custom_call_has_side_effect=true, backend_config="{name}"{more}'
    )


ROWS = "sharding={devices=[4,1]<=[4]}"
X = f"x = f32[8,4] parameter(0), {ROWS}"
SCALAR = "f32[]"
PROGRAMS = {
    "in a row": f"""ENTRY e {{ {X}
  {call("one", "x")}
  {call("two", "one")}
  d = f32[8,8] dot(two, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  {call("three", "d", ", sharding={maximal device=2}", "f32[8,8]")}
  s = f32[8,4] slice(three), slice={{[0:8], [0:4]}}
  ROOT y = f32[8,4] add(s, x), {ROWS} }}""",
    "in a loop": f"""
below {{ s = (s32[], f32[8,4]) parameter(0)
  n = s32[] get-tuple-element(s), index=0  m = s32[] constant(5)
  ROOT p = pred[] compare(n, m), direction=LT }}
body {{ s = (s32[], f32[8,4]) parameter(0)
  n = s32[] get-tuple-element(s), index=0  o = s32[] constant(1) k = s32[] add(n, o)
  v = f32[8,4] get-tuple-element(s), index=1
  {call("step", "v")}
  ROOT t = (s32[], f32[8,4]) tuple(k, step) }}
ENTRY e {{ {X}
  z = s32[] constant(0) s = (s32[], f32[8,4]) tuple(z, x)
  w = (s32[], f32[8,4]) while(s), condition=below, body=body
  v = f32[8,4] get-tuple-element(w), index=1
  {call("last", "v")}
  ROOT y = f32[8,4] negate(last), {ROWS} }}""",
    "in a branch, unread": f"""
taken {{ a = f32[8,4] parameter(0)
  {call("yes", "a")}
  ROOT n = f32[8,4] negate(a) }}
other {{ a = f32[8,4] parameter(0)
  {call("no", "a")}
  ROOT c = f32[8,4] copy(a) }}
ENTRY e {{ {X}
  p = pred[] constant(true)
  ROOT y = f32[8,4] conditional(p, x, x), true_computation=taken, false_computation=other,
    {ROWS} }}""",
    "in halves, and fused": f"""
wrapped {{ a = f32[8,4] parameter(0)
  ROOT {call("far", "a")} }}
fused {{ a = f32[8,4] parameter(0) l = f32[] constant(2) h = f32[] constant(2.0000001)
  r = f32[8,4] rng(l, h), distribution=rng_uniform
  ROOT m = f32[8,4] multiply(a, r) }}
ENTRY e {{ {X}
  s = ((f32[8,4]), f32[8,4], u32[]) async-start(x), calls=wrapped
  d = f32[8,4] async-done(s)
  f = f32[8,4] fusion(d), kind=kLoop, calls=fused
  ROOT y = f32[8,4] add(x, f), {ROWS} }}""",
    "fed in parts": f"""ENTRY e {{ {X}
  t = token[] after-all()
  i = ((f32[8,4], s32[4]), token[]) infeed(t),
    sharding={{{{devices=[4,1]<=[4]}}, {{devices=[4]<=[4]}}, {{replicated}}}}
  p = (f32[8,4], s32[4]) get-tuple-element(i), index=0
  k = token[] get-tuple-element(i), index=1
  d = f32[8,4] get-tuple-element(p), index=0 j = s32[4] get-tuple-element(p), index=1
  c = f32[4] convert(j) b = f32[8,4] broadcast(c), dimensions={{1}}
  a = f32[8,4] add(d, b)
  o = token[] outfeed(a, k), outfeed_shape=f32[8,4], sharding={{devices=[2,2]<=[4]}}
  q = token[] outfeed(x, o), outfeed_shape=f32[8,4], sharding={{replicated}}
  ROOT y = f32[8,4] add(a, x), {ROWS} }}""",
    "fed to one": f"""ENTRY e {{ {X}
  t = token[] after-all()
  i = (f32[8,4], token[]) infeed(t), sharding={{{{maximal device=1}}, {{maximal device=1}}}}
  d = f32[8,4] get-tuple-element(i), index=0 k = token[] get-tuple-element(i), index=1
  o = token[] outfeed(d, k), outfeed_shape=f32[8,4], sharding={{maximal device=3}}
  ROOT y = f32[8,4] add(d, x), {ROWS} }}""",
    "fed in parts of a region": f"""ENTRY e {{ x = f32[8,4] parameter(0), {ROWS}
  s = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={{devices=[2,2]<=[4]}}
  m = f32[4,4] custom-call(s), custom_call_target="SPMDFullToShardShape",
    sharding={{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={{manual}}}}
  t = token[] after-all()
  i = (f32[4,4], token[]) infeed(t), sharding={{{{devices=[2,1,2]<=[2,2]T(1,0)
    last_tile_dims={{manual}}}}, {{replicated}}}}
  d = f32[4,4] get-tuple-element(i), index=0 k = token[] get-tuple-element(i), index=1
  a = f32[4,4] add(m, d)
  o = token[] outfeed(a, k), outfeed_shape=f32[4,4],
    sharding={{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={{manual}}}}
  u = f32[4,4] custom-call(a), custom_call_target="Sharding",
    sharding={{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={{manual}}}}
  w = f32[8,4] custom-call(u), custom_call_target="SPMDShardToFullShape",
    sharding={{devices=[2,2]<=[4]}}
  ROOT y = f32[8,4] add(w, x), {ROWS} }}""",
    "random": f"""ENTRY e {{ {X}
  l = f32[] constant(0) h = f32[] constant(1)
  r = f32[8,4] rng(l, h), distribution=rng_uniform
  s = u64[2] rng-get-and-update-state(), delta=1
  c = f32[2] convert(s) u = f32[1] slice(c), slice={{[0:1]}} v = f32[] reshape(u)
  b = f32[8,4] broadcast(v), dimensions={{}}
  a = f32[8,4] add(r, b)
  ROOT y = f32[8,4] add(a, x), {ROWS} }}""",
    "in a region of one axis": f"""ENTRY e {{ x = f32[8,4] parameter(0), {ROWS}
  s = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={{devices=[2,2]<=[4]}}
  m = f32[4,4] custom-call(s), custom_call_target="SPMDFullToShardShape",
    sharding={{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={{manual}}}}
  {call("inner", "m", of="f32[4,4]")}
  t = f32[4,4] custom-call(inner), custom_call_target="Sharding",
    sharding={{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={{manual}}}}
  w = f32[8,4] custom-call(t), custom_call_target="SPMDShardToFullShape",
    sharding={{devices=[2,2]<=[4]}}
  {call("outer", "w")}
  ROOT y = f32[8,4] add(outer, x), {ROWS} }}""",
    "in a region of all axes": f"""ENTRY e {{ {X}
  m = f32[2,4] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={{manual}}
  {call("inner", "m", ", sharding={manual}", "f32[2,4]")}
  w = f32[8,4] custom-call(inner), custom_call_target="SPMDShardToFullShape", {ROWS}
  {call("outer", "w")}
  ROOT y = f32[8,4] add(outer, x), {ROWS} }}""",
}
FED = {"fed in parts": range(4), "fed to one": (1,), "fed in parts of a region": range(4)}


def whole(name: str) -> Module:
    module = hloom.parse(f"HloModule m, num_partitions=4\n{PROGRAMS[name]}")
    module.use_spmd_partitioning = True
    return module


def outcome(name: str) -> tuple[list[np.ndarray], list[Any], list[Any]]:
    """Results, what was told in any order of devices, and what each device wrote."""
    exe = hloom.compile(whole(name))
    SAID.clear()
    for d in FED.get(name, ()):
        n = np.arange(32, dtype=np.float32).reshape(8, 4) * (d + 1)
        part = (n[:2], np.array([d], np.int32)) if name == "fed in parts" else n
        part = n[:2] if name == "fed in parts of a region" else part
        exe.infeed(part, device=d)
    x = 100 * np.arange(1, 33, dtype=np.float32).reshape(8, 4)
    results = exe.run_devices([[x[2 * d : 2 * d + 2]] for d in range(4)])
    writers = {"fed in parts": (0, 1, 2, 3) * 2, "fed to one": (3,)}.get(name, FED.get(name, ()))
    written = [np.asarray(exe.outfeed(device=d)) for d in sorted(writers)]
    said = list(SAID) if "region" not in name else sorted(SAID)
    return [np.asarray(r) for r in results], said, written


NAMES = {"spmd-partitioner", "sharding-propagation", "call-inliner", "shardy-importer", "dce"}
PLANTS = [p for p in plants() if p.name.split()[-1] in NAMES]


def is_met(needs: str, text: str) -> bool:
    """Whether a program has the operation whose rule fails."""
    return not needs.startswith("rule ") or f" {needs.removeprefix('rule ')}(" in text


def faulty(name: str, plant: Plant) -> tuple[str, list[Fault]]:
    """What each partition runs in spite of a fault, and what is told of it."""
    faults: list[Fault] = []
    with plant.put(Planted(0)):
        return hloom.show(partitioned(whole(name), faults)), faults


@pytest.mark.parametrize("name", PROGRAMS)
def test_effects_are_had_once_in_their_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOOM_STRICT", "0")
    results, said, written = outcome(name)
    assert said or written or name == "random"
    tried = set[str]()
    for plant in [p for p in PLANTS if is_met(p.needs, PROGRAMS[name])]:
        text, faults = faulty(name, plant)
        assert len(faults) <= 1 and all(plant.name == str(f.culprit) for f in faults)
        if not faults or text in tried:
            continue
        tried.add(text)
        with plant.put(Planted(0)), warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            got = outcome(name)
        told = [str(w.message) for w in seen if w.category is CompilerFaultWarning]
        assert len(told) == 1 and plant.name in told[0], (str(plant), told)
        for a, b in zip([*got[0], *got[2]], [*results, *written], strict=True):
            np.testing.assert_array_equal(a, b, err_msg=str(plant))
        assert got[1] == said, str(plant)
    assert any("_of_parts" in text for text in tried)
