"""Collectives on arrays of run-time size: the sizes differ from device to device."""

import numpy as np
import pytest

from hloom.base.diagnostics import HloError
from hloom.compiler import compile_module
from hloom.interp import evaluate_lockstep
from hloom.ir.text import parse_module
from hloom.ir.verify import verify

EVERYBODY = "replica_groups={}"
PAIRS = "replica_groups={{0,2},{1}}"
FORMS = {
    "all-reduce": ("f32[<=8]", f"all-reduce(x), {EVERYBODY}, to_apply=add"),
    "in groups": ("f32[<=8]", f"all-reduce(x), {PAIRS}, to_apply=add"),
    "both": ("(s32[2,<=5], s32[<=2])", f"all-reduce(y, z), {EVERYBODY}, to_apply=add"),
    "to a root": ("f32[<=8]", f"collective-reduce(x), {EVERYBODY}, to_apply=add"),
    "gathered": ("f32[<=24]", f"all-gather(x), {EVERYBODY}, dimensions={{0}}"),
    "gathered along": ("s32[2,<=15]", f"all-gather(y), {EVERYBODY}, dimensions={{1}}"),
    "gathered across": ("s32[6,<=5]", f"all-gather(y), {EVERYBODY}, dimensions={{0}}"),
    "gathered both": (
        "(f32[<=24], s32[<=6])",
        f"all-gather(x, z), {EVERYBODY}, dimensions={{0}}",
    ),
    "scattered": ("s32[2,<=5]", f"reduce-scatter(w), {EVERYBODY}, dimensions={{0}}, to_apply=add"),
    "permuted": ("f32[<=8]", "collective-permute(x), source_target_pairs={{0,1},{1,2}}"),
    "permuted both": (
        "(f32[<=8], s32[2,<=5])",
        "collective-permute(x, y), source_target_pairs={{0,2},{2,0}}",
    ),
    "from one": ("f32[<=8]", f"collective-broadcast(x), {EVERYBODY}"),
    "from one to some": ("f32[<=8]", "collective-broadcast(x), replica_groups={{2,0}}"),
    "exchanged": ("(f32[<=8], f32[<=8], f32[<=8])", f"all-to-all(x, x, x), {EVERYBODY}"),
}
SIZES = [(3, 3, 3), (8, 8, 8), (5, 2, 7), (0, 4, 1), (1, 8, 1), (0, 0, 0)]


def program(shape: str, what: str) -> str:
    dtype = shape.lstrip("(")[:3]
    return f"""HloModule m, replica_count=3
add {{ a = {dtype}[] parameter(0)
 b = {dtype}[] parameter(1)
 ROOT s = {dtype}[] add(a, b) }}
ENTRY e {{ x = f32[<=8] parameter(0)
 y = s32[2,<=5] parameter(1)
 z = s32[<=2] parameter(2)
 w = s32[6,<=5] parameter(3)
 ROOT r = {shape} {what} }}"""


def arguments(sizes):
    rng = np.random.default_rng(sum(sizes))
    kinds = [np.float32, np.int32, np.int32, np.int32]
    dims = [[(n,), (2, min(n, 5)), (min(n, 2),), (6, min(n, 5))] for n in sizes]
    return [[rng.integers(0, 99, d).astype(kind) for d, kind in zip(each, kinds)] for each in dims]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_run_time_sizes(name, sizes):
    text = program(*FORMS[name])
    module = parse_module(text)
    verify(module)
    given = arguments(sizes)
    wanted = evaluate_lockstep(module, given)
    for found, expected in zip(compile_module(module).run_devices(given), wanted, strict=True):
        parts = found if isinstance(found, tuple) else (found,)
        for x, y in zip(parts, expected.leaves(), strict=True):
            assert np.asarray(x).shape == y.array.shape
            np.testing.assert_array_equal(np.asarray(x), y.array)


REFUSED = {
    "reduce-scatter along": (
        "f32[<=3]",
        "reduce-scatter(v), replica_groups={}, dimensions={0}, to_apply=add",
        "reduce-scatter along a dimension of run-time size",
    ),
    "of run-time root": (
        "f32[<=9]",
        "collective-broadcast(v, q), replica_groups={}, has_dynamic_root=true",
        "by run-time numbers",
    ),
    "in halves": (
        "f32[<=9]",
        "all-reduce-start(v), replica_groups={}, to_apply=add",
        "all-reduce-start on f32",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    shape, what, message = REFUSED[name]
    text = f"""HloModule m, replica_count=3
add {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }}
ENTRY e {{ v = f32[<=9] parameter(0)
 q = s32[1] parameter(1)
 r = {shape} {what}
 ROOT d = {shape} {"all-reduce-done(r)" if "start" in what else "copy(r)"} }}"""
    with pytest.raises(HloError, match=message) as caught:
        compile_module(parse_module(text))
    assert caught.value.rule == "dynamic-shape" and "%r" in str(caught.value)
