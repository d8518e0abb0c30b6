"""Custom calls of halves of collectives do what the collectives do."""

import json

import numpy as np
import pytest

import hloom
from hloom.interp import evaluate_lockstep
from tests.pass_case import leaves
from tests.random_arguments import arguments_on_devices

NAME = "async-collective-custom-call-rewriter"
SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
PRODUCT = SUM.replace("sum", "product").replace("add", "multiply")
GROUPS = {"replica_groups": [[0, 1], [3, 2]]}
IDS = "channel_id=1, use_global_device_ids=true, replica_groups={{0,1},{3,2}}"
CASES = {
    "all-gather": (
        "f32[4,12]", {"all_gather_dim": 1, **GROUPS}, f"all-gather(x), {IDS}, dimensions={{1}}",
    ),
    "all-reduce": ("f32[4,6]", GROUPS, f"all-reduce(x), {IDS}, to_apply=sum"),
    "reduce-scatter": (
        "f32[2,6]", {"scatter_dimension": 0, **GROUPS},
        f"reduce-scatter(x), {IDS}, dimensions={{0}}, to_apply=sum",
    ),
    "all-to-all": (
        "f32[4,6]", {"split_dimension": 1, "concat_dimension": 1, "split_count": 2, **GROUPS},
        "all-to-all(x), channel_id=1, replica_groups={{0,1},{3,2}}, dimensions={1}",
    ),
    "collective-permute": (
        "f32[4,6]", {"source_target_pairs": [[0, 3], [2, 1]]},
        "collective-permute(x), channel_id=1, source_target_pairs={{0,3},{2,1}}",
    ),
}  # fmt: skip


def called(kind: str, of: str, config: dict, more: str = "") -> str:
    text = json.dumps(config).replace('"', '\\"')
    attribute = f'frontend_attributes={{async_collective_config="{text}"}}'
    return f"""HloModule m, num_partitions=4
{PRODUCT}
ENTRY e {{
  x = f32[4,6] parameter(0)
  start = {of} custom-call(x), custom_call_target="{kind}-start", {more}{attribute}
  ROOT done = {of} custom-call(start), custom_call_target="{kind}-done"
}}"""


def results(module: hloom.Module) -> list[np.ndarray]:
    arguments = arguments_on_devices(module, np.random.default_rng(0))
    evaluated = [leaves(r)[0] for r in evaluate_lockstep(module, arguments)]
    for x, y in zip(evaluated, hloom.compile(module).run_devices(arguments), strict=True):
        np.testing.assert_allclose(x, np.asarray(leaves(y)[0]), rtol=1e-6)
    return evaluated


def assert_means(text: str, direct: str) -> None:
    wanted = results(hloom.parse(direct))
    module = hloom.parse(text)
    compiled = hloom.compile(module)  # its pipeline has the pass
    assert hloom.pass_named(NAME).run(module).changed
    hloom.verify(module)
    arguments = arguments_on_devices(module, np.random.default_rng(0))
    again = [np.asarray(leaves(r)[0]) for r in compiled.run_devices(arguments)]
    for x, y, z in zip(wanted, results(module), again, strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_allclose(x, z, rtol=1e-6)


@pytest.mark.parametrize("kind", CASES)
def test_they_are_the_collectives(kind: str) -> None:
    of, config, direct = CASES[kind]
    body = f"ENTRY e {{ x = f32[4,6] parameter(0) ROOT y = {of} {direct} }}"
    assert_means(called(kind, of, config), f"HloModule m, num_partitions=4\n{SUM}\n{body}")


def test_pairs_by_the_name_that_jax_has_for_them() -> None:
    """JAX 0.11 writes `permutation`; nothing was sent."""
    of, config, direct = CASES["collective-permute"]
    body = f"ENTRY e {{ x = f32[4,6] parameter(0) ROOT y = {of} {direct} }}"
    config = {"permutation": config["source_target_pairs"]}
    head = f"HloModule m, num_partitions=4\n{SUM}\n"
    assert_means(called("collective-permute", of, config), head + body)


def test_another_reduction_and_an_exchange_of_two_dimensions() -> None:
    direct = f"f32[4,6] all-reduce(x), {IDS}, to_apply=product"
    body = f"{PRODUCT}\nENTRY e {{ x = f32[4,6] parameter(0) ROOT y = {direct} }}"
    head = "HloModule m, num_partitions=4\n"
    assert_means(called("all-reduce", "f32[4,6]", GROUPS, "to_apply=product, "), head + body)
    config = {"split_dimension": 0, "concat_dimension": 1, **GROUPS}
    body = """ENTRY e { x = f32[4,6] parameter(0) r = f32[2,2,6] reshape(x)
  a = f32[2,2,6] all-to-all(r), channel_id=1, replica_groups={{0,1},{3,2}}, dimensions={0}
  t = f32[2,2,6] transpose(a), dimensions={1,0,2} ROOT y = f32[2,12] reshape(t) }"""
    assert_means(called("all-to-all", "f32[2,12]", config), head + body)


def test_a_channel_with_groups_beyond_the_replicas_is_that_of_all_devices() -> None:
    """Of one replica, no other groups could have these ids."""
    config, direct = {**GROUPS, "channel_id": 5}, f"f32[4,6] all-reduce(x), {IDS}, to_apply=sum"
    body = f"{SUM}\nENTRY e {{ x = f32[4,6] parameter(0) ROOT y = {direct} }}"
    assert_means(called("all-reduce", "f32[4,6]", config), "HloModule m, num_partitions=4\n" + body)


@pytest.mark.parametrize("shape", ["f32[5,6]", "f32[8,6,2]", "s32[4,6]", "f32[]"])
@pytest.mark.parametrize("kind", CASES)
def test_shapes_that_are_not_those_of_the_collective_are_refused(kind: str, shape: str) -> None:
    """They became collectives of that shape, which wrote past their operands."""
    text = called(kind, shape, CASES[kind][1])
    for use in (hloom.pass_named(NAME).run, hloom.compile):
        with pytest.raises(hloom.HloError, match="the collective that custom calls ask for"):
            use(hloom.parse(text))


REDUCED = called("all-reduce", "f32[4,6]", GROUPS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (called("all-gather", "f32[8,6]", GROUPS), "does not say all_gather_dimension"),
        (called("all-reduce", "f32[4,6]", {"replica_groups": [["a"]]}), "no lists of ids"),
        (called("all-gather", "f32[8,6]", {"all_gather_dim": 2}), "dimension 2 of async_coll"),
        (called("all-gather", "f32[8,6]", {"all_gather_dim": "x"}), "dimension x of async_coll"),
        (called("collective-permute", "f32[4,6]", {}), "does not say source_target_pairs"),
        (called("all-reduce", "f32[4,6]", {**GROUPS, "sparse": True}), "says sparse, of which"),
        (REDUCED.replace("all-reduce-start", "other"), "waits for nothing"),
        (REDUCED.replace('{\\"replica', '{{\\"replica'), "no JSON object"),
    ],
)
def test_what_they_do_not_say_is_named(text: str, message: str) -> None:
    with pytest.raises(hloom.HloError, match=message):
        hloom.pass_named(NAME).run(hloom.parse(text))
