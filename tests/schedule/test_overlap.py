"""Collectives begin early and are awaited late, in a valid order, as far as bytes allow."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hloom
from hloom.interp import evaluate_lockstep
from hloom.ir.text import parse_module
from hloom.program.thunks.collective import CollectiveDone, CollectiveStart
from hloom.program.thunks.kernel import Kernel
from hloom.schedule.least_memory import least_memory_order
from tests.schedule.test_least_memory import assert_respects_edges

EVERYBODY = "replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true"
RING = ",".join([f"{{{d},{(d + 1) % 8}}}" for d in range(8)])
OF = "f32[64,64]"
PRODUCT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def layers(count: int) -> str:
    """Each awaits four collectives in two halves, which need nothing of two products."""
    lines, wrapped = [f"  x0 = {OF} parameter(0)"], ""
    for k in range(count):
        channel = 10 * k + 1
        wrapped += f"""scattered{k} {{
  p = {OF} parameter(0)
  ROOT r = f32[8,64] reduce-scatter(p), {EVERYBODY}, channel_id={channel}, dimensions={{0}},
    to_apply=add
}}
"""
        lines += [
            f"  ar{k} = {OF} all-reduce-start(x{k}), {EVERYBODY}, channel_id={channel + 1}, "
            "to_apply=add",
            f"  ag{k} = ({OF}, f32[512,64]) all-gather-start(x{k}), {EVERYBODY}, "
            f"channel_id={channel + 2}, dimensions={{0}}",
            f"  cp{k} = ({OF}, {OF}) collective-permute-start(x{k}), channel_id={channel + 3}, "
            f"source_target_pairs={{{RING}}}",
            f"  sc{k} = (({OF}), f32[8,64]) async-start(x{k}), calls=scattered{k}",
            f"  y{k} = {OF} dot(x{k}, x{k}), {PRODUCT}",
            f"  z{k} = {OF} dot(y{k}, x{k}), {PRODUCT}",
            f"  sd{k} = f32[8,64] async-done(sc{k}), calls=scattered{k}",
            f"  cd{k} = {OF} collective-permute-done(cp{k})",
            f"  gd{k} = f32[512,64] all-gather-done(ag{k})",
            f"  rd{k} = {OF} all-reduce-done(ar{k})",
            f"  part{k} = {OF} slice(gd{k}), slice={{[192:256], [0:64]}}",
            f"  eight{k} = f32[8,8,64] broadcast(sd{k}), dimensions={{0,2}}",
            f"  wide{k} = {OF} reshape(eight{k})",
            f"  a{k} = {OF} add(z{k}, cd{k})",
            f"  b{k} = {OF} multiply(a{k}, part{k})",
            f"  both{k} = {OF} add(rd{k}, wide{k})",
            f"  d{k} = {OF} subtract(b{k}, both{k})",
            f"  {'ROOT ' if k == count - 1 else ''}x{k + 1} = {OF} tanh(d{k})",
        ]
    add = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}"
    body = "\n".join(lines)
    return f"HloModule layers, num_partitions=8\n{add}\n{wrapped}ENTRY e {{\n{body}\n}}"


def test_eight_partitions_compute_while_collectives_are_under_way():
    text = layers(2)
    module = parse_module(text)
    hloom.verify(module)
    exe = hloom.compile(text, threads=2)
    under_way, overlaps = 0, 0
    for t in exe.thunks:
        under_way += isinstance(t, CollectiveStart) - isinstance(t, CollectiveDone)
        overlaps += isinstance(t, Kernel) and under_way
    assert overlaps >= 8  # four of each layer, beside one product at least
    rng = np.random.default_rng(0)
    arguments = [[rng.normal(size=(64, 64)).astype(np.float32) / 8] for _ in range(8)]
    results = exe.run_devices(arguments)
    for x, y in zip(results, evaluate_lockstep(module, arguments), strict=True):
        np.testing.assert_allclose(np.asarray(x), y.array, rtol=1e-5, atol=1e-5)


def distances(module, kept_bytes):
    """How many products stand between each start and its done."""
    steps = least_memory_order(module, kept_bytes).of(module.entry)
    assert_respects_edges(module.entry, steps)
    assert sorted(i.name for i in steps) == sorted(i.name for i in module.entry.instructions)
    place = {i: k for k, i in enumerate(steps)}
    dones = [i for i in steps if i.opcode.endswith("-done")]
    between = [steps[place[i.operands[0]] : place[i]] for i in dones]
    return [sum([i.opcode == "dot" for i in part]) for part in between]


@pytest.mark.parametrize("bytes_", [0, 1, 20_000, 100_000, 200_000, 1e9])
def test_every_order_is_valid_and_more_bytes_part_more_halves(bytes_):
    module = parse_module(layers(4))
    assert sum(distances(module, bytes_)) >= sum(distances(module, 0))
    if bytes_ >= 200_000:
        assert sum(distances(module, bytes_)) >= 20


def test_control_edges_hold():
    module = parse_module(layers(1))
    by_name = {i.name: i for i in module.entry.instructions}
    by_name["ar0"].add_control_predecessor(by_name["y0"])
    by_name["z0"].add_control_predecessor(by_name["cd0"])
    steps = least_memory_order(module, 1e9).of(module.entry)
    assert_respects_edges(module.entry, steps)
    names = [i.name for i in steps]
    assert names.index("y0") < names.index("ar0") and names.index("cd0") < names.index("z0")


def test_time_grows_with_the_number_of_instructions():
    module = parse_module(layers(300))
    assert len(least_memory_order(module, 1e9).of(module.entry)) == len(module.entry.instructions)


@pytest.mark.parametrize(
    ("limit", "words"), [(0.0, "0"), (64e6, "64000000"), (math.inf, "18446744073709551615")]
)
def test_the_log_has_the_limit_as_a_number_of_bytes(caplog, limit, words):
    with caplog.at_level("DEBUG", "hloom"):
        least_memory_order(parse_module(layers(1)), limit)
    assert f"layers: memory limit of what goes on beside kernels: {words} bytes" in caplog.text
