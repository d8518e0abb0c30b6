"""Drawn ragged all-to-alls in one form, and as dense ones, send the same."""

import numpy as np
import pytest

import hloom
from hloom.interp import draw_instance, evaluate_lockstep
from tests.pass_case import leaves
from tests.random_arguments import arguments_on_devices


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("form", ["canonicalizer", "decomposer"])
def test_drawn_ones(seed: int, form: str) -> None:
    module = draw_instance("ragged-all-to-all", seed)
    arguments = arguments_on_devices(module, np.random.default_rng(seed))
    wanted = [leaves(r) for r in evaluate_lockstep(module, arguments)]
    result = hloom.pass_named(f"ragged-all-to-all-{form}").run(module)
    is_alone = module.replica_count * module.num_partitions == 1
    assert result.changed or (is_alone and form == "decomposer")
    hloom.verify(module)
    results = [leaves(r) for r in evaluate_lockstep(module, arguments)]
    for old, new in zip(wanted, results, strict=True):
        for x, y in zip(old, new, strict=True):
            np.testing.assert_array_equal(x, y)


def test_it_runs(seed: int = 3) -> None:
    module = draw_instance("ragged-all-to-all", seed)
    arguments = arguments_on_devices(module, np.random.default_rng(seed))
    whole = hloom.compile(module).run_devices(arguments)
    hloom.pass_named("ragged-all-to-all-decomposer").run(module)
    for x, y in zip(whole, hloom.compile(module).run_devices(arguments), strict=True):
        np.testing.assert_array_equal(
            np.asarray(x[0] if isinstance(x, list) else x),
            np.asarray(y[0] if isinstance(y, list) else y),
        )


@pytest.mark.parametrize("per_host", [2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_over_hosts(seed: int, per_host: int) -> None:
    module = several_slices(seed, hosts=3, per_host=per_host)
    hloom.verify(module)
    arguments = arguments_on_devices(module, np.random.default_rng(seed))
    wanted = [leaves(r) for r in evaluate_lockstep(module, arguments)]
    name = "ragged-all-to-all-multi-host-decomposer"
    result = hloom.pass_named(name, num_devices_per_host=per_host).run(module)
    assert result.fired == {"ragged-all-to-all": 1}
    hloom.verify(module)
    results = [leaves(r) for r in evaluate_lockstep(module, arguments)]
    compiled = hloom.compile(module).run_devices(arguments)
    for old, new, native in zip(wanted, results, compiled, strict=True):
        np.testing.assert_array_equal(old[0], new[0])
        np.testing.assert_array_equal(old[0], np.asarray(leaves(native)[0]))


def several_slices(seed: int, hosts: int, per_host: int) -> hloom.Module:
    """Every device sends two slices, of drawn places and sizes, to each device of its group, which
    lists them in a drawn order, alike in all groups."""
    rng = np.random.default_rng(seed)
    groups = 2 if seed % 2 and per_host % 4 == 0 else 1
    local = per_host // groups
    in_group = hosts * local
    order = rng.permutation(in_group)
    devices = [[h * per_host + g * local + k for h in range(hosts) for k in range(local)]
               for g in range(groups)]  # fmt: skip
    listed = [[d[k] for k in order] for d in devices]
    n, slices, rows, capacity = hosts * per_host, 2 * in_group, 7, 2 * in_group * 3
    starts = rng.integers(0, 4, (n, slices))
    sizes = rng.integers(0, 4, (n, slices))
    targets, received = np.zeros_like(starts), np.zeros_like(starts)
    for group in listed:
        for to, d in enumerate(group):
            at = 0
            for who, e in enumerate(group):
                for j in range(2):
                    targets[e, 2 * to + j] = at
                    received[d, 2 * who + j] = sizes[e, 2 * to + j]
                    at += sizes[e, 2 * to + j]
    tables = [starts, sizes, targets, received]
    lines = [f"  t{k} = s32[{n},{slices}] constant({text(t)})" for k, t in enumerate(tables)]
    for k in range(4):
        lines.append(f"  d{k} = s32[1,{slices}] dynamic-slice(t{k}, id, zero), "
                     f"dynamic_slice_sizes={{1,{slices}}}")  # fmt: skip
        lines.append(f"  r{k} = s32[{slices}] reshape(d{k})")
    written = ",".join("{" + ",".join(map(str, g)) + "}" for g in listed)
    return hloom.parse(f"""HloModule m, num_partitions={n}
ENTRY e {{
  x = f32[{rows},3] parameter(0)
  out = f32[{capacity},3] parameter(1)
  id = u32[] partition-id()
  zero = u32[] constant(0)
{chr(10).join(lines)}
  ROOT y = f32[{capacity},3] ragged-all-to-all(x, out, r0, r1, r2, r3), channel_id=1, replica_groups={{{written}}}
}}""")  # noqa: E501


def text(table: np.ndarray) -> str:
    return "{" + ",".join("{" + ",".join(map(str, row)) + "}" for row in table.tolist()) + "}"
