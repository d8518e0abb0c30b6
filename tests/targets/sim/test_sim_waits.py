"""Programs of many waits on simulated devices: every single one that is left out is found."""

from __future__ import annotations

from pathlib import Path

import pytest

import hloom
from hloom.targets.sim.races import RaceError

EXAMPLES = Path(__file__).parents[3] / "examples"
PRODUCT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
OF = "f32[64,64]"


def braid(strands: int, rounds: int) -> str:
    """Strands that cross in every round, some of them in another memory space."""
    lines = [f"  x{k}_0 = {OF} parameter({k})" for k in range(strands)]
    for r in range(1, rounds + 1):
        for k in range(strands):
            space = ":S(1)" if (k + r) % 3 == 0 and r < rounds else ""
            operands = f"x{k}_{r - 1}, x{(k + 1) % strands}_{r - 1}"
            lines.append(f"  x{k}_{r} = {OF}{{1,0{space}}} dot({operands}), {PRODUCT}")
    ends = ", ".join([f"x{k}_{rounds}" for k in range(strands)])
    lines.append(f"  ROOT t = ({', '.join([OF] * strands)}) tuple({ends})")
    return "HloModule braid\nENTRY e {\n" + "\n".join(lines) + "\n}"


def exchange(rounds: int) -> str:
    """Two devices that compute while what they send is on its way."""
    lines = [f"  x0 = {OF} parameter(0)"]
    pairs = "source_target_pairs={{0,1},{1,0}}"
    for k in range(rounds):
        groups = f"replica_groups={{{{0,1}}}}, channel_id={50 + k}, use_global_device_ids=true"
        lines += [
            f"  b{k} = ({OF}, {OF}) collective-permute-start(x{k}), {pairs}, channel_id={k + 1}",
            f"  y{k} = {OF} dot(x{k}, x{k}), {PRODUCT}",
            f"  d{k} = {OF} collective-permute-done(b{k})",
            f"  z{k} = {OF} dot(y{k}, d{k}), {PRODUCT}",
            f"  w{k} = {OF} all-reduce(y{k}), {groups}, to_apply=add",
            f"  {'ROOT ' if k == rounds - 1 else ''}x{k + 1} = {OF} dot(z{k}, w{k}), {PRODUCT}",
        ]
    add = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }"
    body = "\n".join(lines)
    return f"HloModule exchange, num_partitions=2\n{add}\nENTRY e {{\n{body}\n}}"


def calls(rounds: int) -> str:
    """Computations that are called, at once and in two halves, beside copies in two halves."""
    near = "f32[64,64]{1,0:S(1)}"
    kept = 'frontend_attributes={inlineable="false"}'
    lines = [f"  x0 = {OF} parameter(0)"]
    for k in range(rounds):
        lines += [
            f"  in{k} = ({near}, {OF}, u32[]) copy-start(x{k})",
            f"  b{k} = (({OF}), {OF}, u32[]) async-start(x{k}), calls=begun{k}",
            f"  c{k} = {OF} call(x{k}), to_apply=called, {kept}",
            f"  d{k} = {OF} async-done(b{k}), calls=begun{k}",
            f"  n{k} = {near} copy-done(in{k})",
            f"  y{k} = {OF} dot(c{k}, n{k}), {PRODUCT}",
            f"  {'ROOT ' if k == rounds - 1 else ''}x{k + 1} = {OF} dot(y{k}, d{k}), {PRODUCT}",
        ]
    inside = f"""{{
  p = {OF} parameter(0)
  q = {OF} dot(p, p), {PRODUCT}
  t = {OF} transpose(p), dimensions={{1,0}}
  u = {OF} dot(t, p), {PRODUCT}
  ROOT r = {OF} dot(q, u), {PRODUCT}
}}"""
    more = ""
    for k in range(rounds):
        more += f"whole{k} {inside}\nbegun{k} {{\n  p = {OF} parameter(0)\n"
        more += f"  ROOT r = {OF} call(p), to_apply=whole{k}\n}}\n"
    body = "\n".join(lines)
    return f"HloModule calls\ncalled {inside}\n{more}ENTRY e {{\n{body}\n}}"


PROGRAMS = {
    "calls": (calls(5), "sim"),
    "braid": (braid(3, 12), "sim"),
    "exchange": (exchange(6), "sim:two-gpus"),
    "resnet50": ((EXAMPLES / "resnet50.hlo").read_text(), "sim"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_wait_that_is_left_out_is_found(name):
    text, target = PROGRAMS[name]
    module = hloom.parse(text)
    exe = hloom.compile(module, target=target)
    given = [hloom.random_arguments(module, seed=0) for _ in exe.devices]
    _, timeline = exe.simulate(given)
    assert timeline.waits >= 20
    for k in range(timeline.waits):
        with pytest.raises(RaceError, match="neither waits for the other"):
            exe.simulate(given, leave_out_wait=k)
