"""Collectives on devices of one process compute what the lockstep interpreter does."""

import numpy as np
import pytest

from hloom.base.diagnostics import HloError
from hloom.compiler import compile_module
from hloom.interp import evaluate_lockstep
from hloom.interp.sample import random_arguments
from hloom.ir.text import parse_module
from hloom.types.dtype import BY_NAME as DTYPES
from tests.targets import collective_cases as cases
from tests.targets.collective_cases import ALL, program


def arrays(value) -> list[np.ndarray]:
    if isinstance(value, tuple):
        return [x for part in value for x in arrays(part)]
    return [] if value is None else [np.asarray(value)]


def check(text: str, seed: int = 0):
    """The executable of a program, whose results are those of the interpreter, bit by bit."""
    module = parse_module(text)
    count = module.replica_count * module.num_partitions
    given = [random_arguments(module, seed + d) for d in range(count)]
    wanted = evaluate_lockstep(module, given)
    exe = compile_module(module)
    for device, found in enumerate(exe.run_devices(given)):
        expected = [x.array for x in wanted[device].leaves() if x.shape.is_array]
        for x, y in zip(arrays(found), expected, strict=True):
            assert x.shape == y.shape and x.tobytes() == y.tobytes(), (device, x, y)
    return exe


def named(pairs):
    return [pytest.param(text, id=name) for name, text in pairs]


@pytest.mark.parametrize("text", named(cases.reductions()))
def test_reductions(text):
    check(text)


@pytest.mark.parametrize("text", named(cases.group_modes()))
def test_group_modes(text):
    check(text)


@pytest.mark.parametrize("text", named(cases.forms()))
def test_forms(text):
    check(text)


@pytest.mark.parametrize("text", named(cases.odd()))
def test_odd_sizes_and_types(text):
    check(text)


@pytest.mark.parametrize("text", named(cases.halves()))
def test_halves(text):
    exe = check(text)
    kinds = [t.kind for t in exe.thunks]
    assert "Collective" not in kinds and kinds.index("CollectiveStart") + 1 < len(kinds)


@pytest.mark.parametrize("devices", [2, 3, 8])
@pytest.mark.parametrize("size", [1, 2, 63, 4097, 300_001])
def test_sizes(devices, size):
    everybody = ",".join(map(str, range(devices)))
    groups = f"replica_groups={{{{{everybody}}}}}, channel_id=1, use_global_device_ids=true"
    check(
        program(
            f"num_partitions={devices}",
            f" x = f32[{size}] parameter(0)\n a = f32[{size}] all-reduce(x), {groups},"
            " to_apply=fold\n"
            f" b = f32[{size * devices}] all-gather(a), {groups}, dimensions={{0}}\n"
            f" c = f32[{size}] reduce-scatter(b), {groups}, dimensions={{0}}, to_apply=fold\n"
            f" ROOT t = (f32[{size}], f32[{size}]) tuple(a, c)",
        )
    )


def test_a_program_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(tmp_path))
    text = dict(cases.forms())["uneven groups"]
    first, second = check(text), check(text)
    assert [t.kind for t in first.thunks] == [t.kind for t in second.thunks]
    assert second.devices == first.devices and len(first.devices) == 4


def test_several_runs_at_once():
    from concurrent.futures import ThreadPoolExecutor

    exe = check(dict(cases.forms())["in a loop"])
    given = [[[np.full(33, d + k, np.float32)] for d in range(4)] for k in range(8)]
    alone = [[np.asarray(x) for x in exe.run_devices(each)] for each in given]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(exe.run_devices, given))
    for x, y in zip(alone, together, strict=True):
        np.testing.assert_array_equal(x, [np.asarray(z) for z in y])


def test_groups_are_found_once_and_all_meet_once():
    exe = check(dict(cases.forms())["in a loop"])
    before = exe.together.health()
    for _ in range(4):
        exe.run_devices([[np.ones(33, np.float32)]] * 4)
    after = exe.together.health()
    assert (before.runs, after.runs) == (1, 5)
    assert (before.first_meetings, after.first_meetings) == (1, 1)
    assert before.cliques == after.cliques > 0 and after.under_way == 0


def test_what_is_sent_beyond_an_array():
    text = program("num_partitions=2", cases.RAGGED).replace("constant({1,5})", "constant({1,9})")
    exe = compile_module(parse_module(text))
    with pytest.raises(HloError, match=r"r: device . writes rows 9 to 12 of 10"):
        exe.run_devices([[np.ones((8, 3), np.float32), np.ones((10, 3), np.float32)]] * 2)


def test_what_folds_with_a_loop_is_refused():
    text = program(
        "num_partitions=4",
        f" x = f32[2] parameter(0)\n ROOT r = f32[2] all-reduce(x), {ALL}, to_apply=fold",
    ).replace("ROOT s = f32[] add(a, b)", "ROOT s = f32[] while(a), condition=less, body=twice")
    text = text.replace(
        "fold {",
        "less { p = f32[] parameter(0)\n n = f32[] constant(3)\n"
        " ROOT l = pred[] compare(p, n), direction=LT }\n"
        "twice { p = f32[] parameter(0)\n ROOT d = f32[] add(p, p) }\nfold {",
    )
    with pytest.raises(HloError, match="more than operations on elements"):
        compile_module(parse_module(text))


@pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter", "collective-reduce"])
@pytest.mark.parametrize("form", ["plain", "converted"])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f8e4m3fn"])
def test_narrow_sums_round_once(dtype, form, kind):
    adds = {
        "plain": f"ROOT s = {dtype}[] add(a, b)",
        "converted": f"w = f32[] convert(a)\n v = f32[] convert(b)\n t = f32[] add(w, v)\n"
        f" ROOT s = {dtype}[] convert(t)",
    }
    size, more = (9, ", dimensions={0}") if kind == "reduce-scatter" else (72, "")
    text = f"""HloModule m, num_partitions=8
fold {{ a = {dtype}[] parameter(0)
 b = {dtype}[] parameter(1)
 {adds[form]} }}
ENTRY e {{ x = {dtype}[72] parameter(0)
 ROOT r = {dtype}[{size}] {kind}(x), replica_groups={{{{0,1,2,3,4,5,6,7}}}}, channel_id=1,
  use_global_device_ids=true, to_apply=fold{more} }}"""
    exe = check(text)
    numpy = DTYPES[dtype].numpy
    random = np.random.default_rng(5)
    given = [[random.random(72).astype(numpy)] for _ in range(8)]
    exact = np.sum([x.astype(np.float64) for [x] in given], axis=0)
    got = exe.run_devices(given)[0]
    assert np.asarray(got).tobytes() == exact[:size].astype(numpy).tobytes()
