"""What the analysis says to be the same on several devices is the same, and it says enough."""

import numpy as np
import pytest

from hloom.analysis.replication import ReplicationAnalysis
from hloom.interp import evaluate_lockstep
from hloom.ir.text import parse_module
from tests.pass_case import leaves
from tests.random_arguments import arguments_on_devices

SUM = "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n"


def analysed(text: str, header: str = "num_partitions=4"):
    text = text.replace("GLOBAL", "use_global_device_ids=true")
    module = parse_module(f"HloModule m, {header}\n{SUM}{text}")
    return module, ReplicationAnalysis(module)


def test_ids_and_collectives():
    module, found = analysed("""ENTRY e {
      id = u32[] partition-id()
      one = u32[] constant(1)
      next = u32[] add(id, one)
      f = f32[] convert(next)
      all = f32[] all-reduce(f), channel_id=1, replica_groups={{0,1,2,3}}, GLOBAL, to_apply=sum
      pairs = f32[] all-reduce(f), channel_id=1, replica_groups={{0,1},{2,3}}, GLOBAL, to_apply=sum
      r = u32[] replica-id()
      ROOT t = (f32[], f32[], u32[]) tuple(all, pairs, r) }""")
    e = module.entry
    assert found.is_replicated(e["one"]) and not found.is_replicated_across_partitions(e["next"])
    assert found.device_sets(e["next"]) == [[0], [1], [2], [3]]
    assert found.is_replicated_across_replicas(e["next"])
    assert found.is_replicated_across_partitions(e["all"])
    assert found.device_sets(e["pairs"]) == [[0, 1], [2, 3]]
    assert found.is_replicated(e["r"]) and found.is_replicated(e["t"], (0,))
    assert found.device_sets(e["t"], (1,)) == [[0, 1], [2, 3]]


def test_a_computation_called_once_is_followed_and_one_called_twice_is_unique():
    twice = """f { x = f32[] parameter(0)
      c = f32[] constant(1)
      ROOT n = f32[] add(x, c) }
    ENTRY e {
      x = f32[] parameter(0), sharding={replicated}
      y = f32[] parameter(1)
      a = f32[] call(x), to_apply=f
      ROOT r = (f32[], f32[]) tuple(a, %s) }"""
    module, found = analysed(twice % "y")
    assert found.is_replicated(module.entry["a"]) and found.is_replicated(module["f"]["n"])
    module, found = analysed(
        twice.replace("ROOT r", "b = f32[] call(y), to_apply=f\n ROOT r") % "b"
    )
    assert not found.is_replicated(module.entry["a"])
    assert not found.is_replicated(module.entry["b"])
    assert not found.is_replicated(module["f"]["c"])


LOOP = """body {{
  s = (s32[], f32[], f32[], u32[]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
  y = f32[] get-tuple-element(s), index=2
  n = u32[] get-tuple-element(s), index=3
  one = s32[] constant(1)
  next = s32[] add(k, one)
  ROOT t = (s32[], f32[], f32[], u32[]) tuple(next, {first}, x, n)
}}
condition {{
  s = (s32[], f32[], f32[], u32[]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = u32[] get-tuple-element(s), index=3
  limit = s32[] convert(n)
  ROOT l = pred[] compare(k, limit), direction=LT
}}
ENTRY e {{
  x = f32[] parameter(0), sharding={{replicated}}
  z = s32[] constant(0)
  id = u32[] partition-id()
  five = u32[] constant(5)
  s = (s32[], f32[], f32[], u32[]) tuple(z, x, x, {count})
  ROOT w = (s32[], f32[], f32[], u32[]) while(s), condition=condition, body=body
}}"""


def test_loops_run_to_a_fixed_point():
    module, found = analysed(LOOP.format(first="y", count="five"))
    assert found.is_replicated(module.entry["w"])
    # What enters an element reaches the next one a round later.
    text = LOOP.format(first="p", count="five").replace(
        "one = s32[]", "d = u32[] partition-id()\n p = f32[] convert(d)\n one = s32[]"
    )
    module, found = analysed(text)
    w = module.entry["w"]
    assert [found.is_replicated(w, (k,)) for k in range(4)] == [True, False, False, True]


def test_a_loop_whose_condition_differs_makes_its_body_unique():
    module, found = analysed(LOOP.format(first="y", count="id"))
    assert not any(found.is_replicated(module.entry["w"], (k,)) for k in range(4))
    assert not found.is_replicated(module["body"]["one"])


def test_side_effects_are_unique_and_groups_of_other_sizes_tell_devices_apart():
    module, found = analysed("""ENTRY e {
      one = f32[] constant(1)
      a = f32[] all-reduce(one), channel_id=1, replica_groups={{0,1},{2},{3}}, GLOBAL, to_apply=sum
      k = token[] after-all()
      in = (f32[], token[]) infeed(k)
      v = f32[] get-tuple-element(in), index=0
      c = f32[] custom-call(one), custom_call_target="f"
      ROOT t = (f32[], f32[], f32[]) tuple(a, v, c) }""")
    assert found.device_sets(module.entry["a"]) == [[0, 1], [2, 3]]
    assert not found.is_replicated(module.entry["v"])
    assert not found.is_replicated(module.entry["c"])


OPERATIONS = [
    "f32[2] add({0}, {1})",
    "f32[2] multiply({0}, {1})",
    "f32[2] negate({0})",
    "f32[2] all-reduce({0}), channel_id=1, replica_groups={groups}, GLOBAL, to_apply=sum",
    "f32[2] all-reduce({0}), replica_groups={{{{0,1}}}}, to_apply=sum",
    "f32[2] all-to-all({0}), channel_id=1, replica_groups={{{{0,1}}}}, dimensions={{0}}",
    "f32[2] collective-permute({0}), source_target_pairs={{{{0,1}}}}",
    "f32[2] collective-permute({0}), channel_id=1, source_target_pairs={{{{0,1}},{{1,0}}}}",
    "f32[2] broadcast({scalar}), dimensions={{}}",
    "f32[2] collective-broadcast({0}), replica_groups={{{{1,0}}}}",
]
GROUPS = ["{{0,1},{2,3}}", "{{0,3},{2,1}}", "{{0,1,2,3}}", "{{2},{0},{1},{3}}"]


@pytest.mark.parametrize("seed", range(30))
def test_devices_that_are_said_to_be_alike_are_alike(seed):
    rng = np.random.default_rng(seed)
    names, lines = ["x", "y", "z"], []
    for k in range(10):
        operands = [str(n) for n in rng.choice(names, 2)]
        line = str(rng.choice(OPERATIONS)).format(
            *operands, scalar=str(rng.choice(["p", "r"])), groups=str(rng.choice(GROUPS))
        )
        names.append(f"v{k}")
        lines.append(f"v{k} = {line}")
    body = "\n  ".join(lines)
    results = ", ".join(names)
    shapes = ", ".join(["f32[2]"] * len(names))
    module, found = analysed(
        f"""ENTRY e {{
  x = f32[2] parameter(0), parameter_replication={{true}}, sharding={{replicated}}
  y = f32[2] parameter(1), parameter_replication={{true}}
  z = f32[2] parameter(2)
  pid = u32[] partition-id()
  rid = u32[] replica-id()
  p = f32[] convert(pid)
  r = f32[] convert(rid)
  {body}
  ROOT t = ({shapes}) tuple({results}) }}""",
        "replica_count=2, num_partitions=2",
    )
    arguments = arguments_on_devices(module, rng)
    y = arguments[0][1]
    for d in range(4):  # the same on all replicas, not on all partitions
        arguments[d][1] = y + np.float32(d % 2)
    results = [leaves(r) for r in evaluate_lockstep(module, arguments)]
    for k, name in enumerate(names):
        for alike in found.device_sets(module.entry[name]):
            for d in alike:
                np.testing.assert_array_equal(results[d][k], results[alike[0]][k])
