"""What collectives move, how their groups are called, what of them is exposed."""

import pytest

import hloom
from hloom.analysis.communication import communications, received_bytes, summed
from hloom.analysis.mesh_names import MeshNames, named_mesh
from hloom.analysis.step_time import step_time
from hloom.device.topology import topology_named
from hloom.types.mesh import IotaDevices, MeshAxes

MESH = MeshAxes((("data", 4), ("model", 2)))
ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"


def parsed(body: str) -> hloom.Module:
    return hloom.parse(f"HloModule m, num_partitions=8\n\n{ADD}{body}")


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        ("all-gather", 700),
        ("all-reduce", 175),
        ("reduce-scatter", 87.5),
        ("all-to-all", 87.5),
        ("collective-permute", 100),
    ],
)
def test_bytes_of_each_kind(kind: str, want: float) -> None:
    assert received_bytes(kind, 100, 8) == want
    assert received_bytes(kind, 100, 1) == 0


def test_groups_have_the_names_of_axes() -> None:
    names = MeshNames(MESH, 8)
    assert names.of_groups([[0, 2, 4, 6], [1, 3, 5, 7]]) == "data"
    assert names.of_groups([[1, 0], [2, 3], [4, 5], [7, 6]]) == "model"
    assert names.of_groups([[5, 1, 2, 3, 4, 0, 6, 7]]) == "data+model"
    assert names.of_groups([[0, 1, 2, 3], [4, 5, 6, 7]]) == "4 apart by 1"
    assert names.of_groups([[0], [1]]) == "no one"
    assert names.of_groups([[0, 1], [2, 3, 4]]) == "groups of 2 to 3"
    assert names.of_pairs([(0, 2), (2, 0), (1, 1)]) == "data"
    assert names.of_pairs([(0, 3), (3, 0)]) == "data+model"
    turned = MeshNames(MeshAxes((("a", 4), ("b", 2)), IotaDevices((2, 4), (1, 0))), 8)
    assert turned.of_groups([[0, 4], [1, 5], [2, 6], [3, 7]]) == "b"
    nameless = MeshNames(None, 8)
    assert nameless.of_groups([[0, 2], [1, 3]]) == "2 apart by 2"
    assert nameless.of_groups([list(range(8))]) == "all 8"
    assert nameless.of_pairs([(0, 2), (1, 0)]) == "pairs apart by 1, 2"
    assert names.of_pairs([(0, 9)]) == "pairs apart by 9"


LOOP = """body { s = (s32[], f32[16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  n = s32[] add(i, one)
  v = f32[16] get-tuple-element(s), index=1
  r = f32[16] all-reduce(v), channel_id=1, replica_groups={{0,1},{2,3},{4,5},{6,7}},
    use_global_device_ids=true, to_apply=add, metadata={source_file="a/net.py" source_line=7}
  ROOT t = (s32[], f32[16]) tuple(n, r) }

cond { s = (s32[], f32[16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT l = pred[] compare(i, n), direction=LT }

ENTRY e { x = f32[16] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[16]) tuple(z, x)
  w = (s32[], f32[16]) while(t), condition=cond, body=body
  y = f32[16] get-tuple-element(w), index=1
  ROOT g = f32[128] all-gather(y), channel_id=2, replica_groups=[1,8]<=[8], dimensions={0},
    use_global_device_ids=true }"""


def test_loops_count_as_often_as_they_run() -> None:
    rows = communications(parsed(LOOP), MESH)
    got = {(r.kind, r.axis, r.runs, r.total_bytes, r.place) for r in rows}
    assert got == {
        ("all-reduce", "model", 10, 10 * 64, "net.py:7"),
        ("all-gather", "data+model", 1, 7 * 64, ""),
    }
    by_kind = summed(rows, lambda r: r.kind)
    assert [(t.name, t.bytes) for t in by_kind] == [("all-reduce", 640), ("all-gather", 448)]


def test_asynchronous_halves_count_once() -> None:
    module = parsed(
        """ENTRY e { x = f32[16] parameter(0)
  s = (f32[16], f32[128]) all-gather-start(x), channel_id=2, replica_groups=[1,8]<=[8],
    dimensions={0}, use_global_device_ids=true
  ROOT d = f32[128] all-gather-done(s) }"""
    )
    assert [(r.kind, r.bytes) for r in communications(module)] == [("all-gather", 448)]


def product(is_needed: bool) -> hloom.Module:
    """A product beside an all-reduce of its operand, or behind it."""
    return parsed(
        f"""ENTRY e {{ x = f32[4096,4096] parameter(0)
  r = f32[4096,4096] all-reduce(x), channel_id=1, replica_groups=[1,8]<=[8],
    use_global_device_ids=true, to_apply=add
  p = f32[4096,4096] dot({"r" if is_needed else "x"}, x), lhs_contracting_dims={{1}},
    rhs_contracting_dims={{0}}
  ROOT t = (f32[4096,4096], f32[4096,4096]) tuple(r, p) }}"""
    )


def test_what_nothing_hides_is_exposed() -> None:
    topology = topology_named("h100")
    times = []
    for is_needed in (True, False):
        module = product(is_needed)
        times.append(step_time(module, topology, communications(module)))
    behind, beside = times
    assert behind.exposed_ns == pytest.approx(behind.communication_ns)
    assert behind.total_ns == pytest.approx(behind.compute_ns + behind.communication_ns)
    assert beside.exposed_ns < beside.communication_ns / 2
    assert beside.total_ns == pytest.approx(
        max(beside.compute_ns, beside.communication_ns), rel=0.01
    )


def test_the_mesh_of_shardings() -> None:
    module = hloom.parse(
        """HloModule m, num_partitions=8
ENTRY e { ROOT x = f32[8] parameter(0), sharding={mesh['data'=4,'model'=2], [{'data'}]} }"""
    )
    assert named_mesh(module) == MESH
    assert named_mesh(parsed(LOOP)) is None
