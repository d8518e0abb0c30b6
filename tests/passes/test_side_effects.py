"""What has a side effect runs as often after any pass, and as machine code, as before.

Every kind of effect stands in every kind of control flow, once with nobody reading its result.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.interp import EvalOptions, evaluate
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.text import parse_module
from hloom.ir.verify import verify
from hloom.passes import PASSES, Pipeline
from hloom.passes.expand.pipeline_order import EXPANSION, LAST

EFFECTS = {
    "outfeed": "e = token[] outfeed(a, k), outfeed_shape=f32[2]",
    "infeed": "e = (f32[2], token[]) infeed(k)",
    "send": """s = (f32[2], u32[], token[]) send(a, k), channel_id=1, is_host_transfer=true
      e = token[] send-done(s), channel_id=1, is_host_transfer=true""",
    "rng-get-and-update-state": "e = u64[2] rng-get-and-update-state(), delta=1",
    "custom-call": 'e = f32[2] custom-call(a), custom_call_target="told", '
    "custom_call_has_side_effect=true",
}
WRAPPERS = {
    "call": "w = f32[2] call(a), to_apply={inner}",
    "while": """n = s32[] constant(0)
      t = (s32[], f32[2]) tuple(n, a)
      w = (s32[], f32[2]) while(t), condition={outer}.below, body={outer}.body""",
    "conditional": """p = pred[] constant(true)
      w = f32[2] conditional(p, a, a), true_computation={inner}, false_computation={outer}.not""",
    "async": """w.start = ((f32[2]), f32[2], s32[]) async-start(a), calls={outer}.wrapped
      w = f32[2] async-done(w.start)""",
}
HELPERS = {
    "while": """{outer}.below {{ s = (s32[], f32[2]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3)
      ROOT l = pred[] compare(i, n), direction=LT }}
    {outer}.body {{ s = (s32[], f32[2]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      x = f32[2] get-tuple-element(s), index=1
      one = s32[] constant(1)
      n = s32[] add(i, one)
      y = f32[2] call(x), to_apply={inner}
      ROOT t = (s32[], f32[2]) tuple(n, x) }}""",
    "conditional": """{outer}.not {{ a = f32[2] parameter(0)
      ROOT b = f32[2] negate(a) }}""",
    "async": """{outer}.wrapped {{ a = f32[2] parameter(0)
      ROOT c = f32[2] call(a), to_apply={inner} }}""",
}
NOWHERE = ("rng-expander",)


@cache
def program(effect: str, wrappers: tuple[str, ...]) -> Module:
    """An entry whose result has nothing to do with what its wrappers do."""
    texts = [
        f"""c0 {{ a = f32[2] parameter(0)
      k = token[] after-all()
      {EFFECTS[effect]}
      ROOT r = f32[2] copy(a) }}"""
    ]
    for depth, wrapper in enumerate(wrappers):
        names = {"inner": f"c{depth}", "outer": f"c{depth + 1}"}
        texts.append(HELPERS.get(wrapper, "").format(**names))
        texts.append(f"""c{depth + 1} {{ a = f32[2] parameter(0)
      {WRAPPERS[wrapper].format(**names)}
      ROOT r = f32[2] copy(a) }}""")
    texts[-1] = "ENTRY " + texts[-1]
    module = parse_module("\n".join(["HloModule m", *texts]))
    verify(module)
    return module


def effects_of(module: Module) -> tuple[Any, ...]:
    """What the outside sees of a run: what is written, sent, called, and drawn."""
    seen: list[Any] = []

    def told(i: Any, x: Any) -> Any:
        seen.append(("call", x.tolist()))
        return x

    options = EvalOptions(
        outfeed=lambda x: seen.append(("outfeed", x.tolist())),
        host_send=lambda channel, x: seen.append(("send", channel, x.tolist())),
        infeed=[np.zeros(2, np.float32)] * 20,
        custom_calls={"told": told},
    )
    evaluate(module, np.array([1, 2], np.float32), options=options)
    runs = {i.opcode for i in module.instructions() if i.opcode in EFFECTS}
    return seen, runs


ONCE = list(product(EFFECTS, [(w,) for w in WRAPPERS]))
TWICE = list(product(EFFECTS, product(WRAPPERS, WRAPPERS)))


def ids(case: tuple[str, tuple[str, ...]]) -> str:
    return f"{case[0]}-in-{'-in-'.join(case[1])}"


@pytest.mark.parametrize("case", ONCE, ids=ids)
def test_no_pass_loses_or_repeats_an_effect(case: tuple[str, tuple[str, ...]]):
    before = program(*case)
    want = effects_of(before)
    for name in PASSES:
        module = copy_module(before)
        try:
            result = hloom.pass_named(name).run(module)
        except HloError as error:
            assert error.rule, error
            continue
        module = result.module or module
        verify(module)
        assert effects_of(module) == want, name


@pytest.mark.parametrize("case", ONCE + TWICE, ids=ids)
def test_all_passes_together_keep_effects(case: tuple[str, tuple[str, ...]]):
    module = copy_module(program(*case))
    want = effects_of(module)
    Pipeline("expansion", (*EXPANSION, *LAST)).run(module)
    assert effects_of(module) == want


@pytest.mark.parametrize("wrappers", [case[1] for case in ONCE + TWICE if case[0] == "outfeed"])
def test_machine_code_has_the_same_effects(wrappers: tuple[str, ...]):
    module = program("outfeed", wrappers)
    run = hloom.compile(module)
    run(np.array([1, 2], np.float32))
    (seen, _) = effects_of(module)
    assert [np.asarray(run.outfeed(1)).tolist() for _ in seen] == [x for _, x in seen]
    with pytest.raises(HloError):
        run.outfeed(0.01)
