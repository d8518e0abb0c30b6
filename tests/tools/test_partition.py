"""`hloom partition`, `explain partition` and communication in `stats`, as they are typed."""

import json

import pytest

SHARDED = """HloModule m, num_partitions=8
ENTRY main {
  x = f32[64,32] parameter(0), sharding={mesh['data'=4,'model'=2], [{'data'}, {'model'}]}
  w = f32[32,16] parameter(1), sharding={mesh['data'=4,'model'=2], [{'model'}, {}]}
  ROOT y = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    metadata={source_file="a/net.py" source_line=3}
}"""


@pytest.fixture
def sharded(tmp_path):
    path = tmp_path / "sharded.hlo"
    path.write_text(SHARDED)
    return path


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "plain.hlo"
    lines = [line.split(", sharding")[0] for line in SHARDED.splitlines()]
    path.write_text("\n".join(lines).replace(", num_partitions=8", ""))
    return path


def test_explain_partition(run, sharded) -> None:
    out = run("explain", sharded, "partition").stdout
    assert "all-reduce along model" in out and "net.py:3" in out
    (row,) = json.loads(run("explain", sharded, "partition", "--json").stdout)["rows"]
    assert row["value"] == "y" and row["size_bytes"] == 16 * 16 * 4


def test_a_mesh_names_the_axes_of_tiles(run, tmp_path) -> None:
    path = tmp_path / "tiles.hlo"
    path.write_text("""HloModule m, num_partitions=8
ENTRY e {
  x = f32[16,8] parameter(0), sharding={devices=[4,2]<=[8]}
  w = f32[8,16] parameter(1), sharding={devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}
  ROOT y = f32[16,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}
}""")
    assert "all-reduce along model" not in run("explain", path, "partition").stdout
    out = run("explain", path, "partition", "--mesh", "data=4,model=2").stdout
    assert "all-reduce along model" in out
    assert run("explain", path, "partition", "--mesh", "data=3").exit_code == 2
    assert run("explain", path, "memory", "--mesh", "data=8").exit_code == 2


def test_explain_sharding_of_a_value(run, sharded) -> None:
    out = run("explain", sharded, "sharding", "%y").stdout
    assert "[{'data'}, {}]" in out and "%y (dot)" in out
    assert run("explain", sharded, "sharding", "%nothing").exit_code == 2


def test_stats_sum_communication(run, sharded) -> None:
    out = run("stats", sharded, "--spmd", "--device", "h100").stdout
    for word in ("communication by kind", "communication by axis", "model", "net.py:3", "exposed"):
        assert word in out
    data = json.loads(run("stats", sharded, "--spmd", "--device", "h100", "--json").stdout)
    of = data["communication"]
    assert of["received_bytes"] == 1024 and of["argument_bytes"] == (16 * 16 + 16 * 16) * 4
    assert of["by_axis"][0]["name"] == "model" and of["exposed_ns"] <= of["communication_ns"]


def test_stats_of_what_is_partitioned_already_take_a_mesh(run, sharded, tmp_path) -> None:
    cut = tmp_path / "cut.hlo"
    cut.write_text(run("opt", sharded, "--passes=sharding-propagation,spmd-partitioner").stdout)
    data = json.loads(run("stats", cut, "--device", "h100", "--mesh", "a=4,b=2", "--json").stdout)
    assert [row["name"] for row in data["communication"]["by_axis"]] == ["b"]


def test_meshes_are_compared(run, sharded) -> None:
    out = run("stats", sharded, "--spmd", "--meshes", "all").stdout
    assert [f"data={n},model={8 // n}" in out for n in (1, 2, 4, 8)] == [True] * 4
    data = json.loads(run("stats", sharded, "--spmd", "--meshes", "all", "--json").stdout)
    assert len(data["meshes"]) == 4 and min(m["received_bytes"] for m in data["meshes"]) == 0


def test_partition_proposes_and_writes(run, plain, tmp_path) -> None:
    out, each = tmp_path / "out.hlo", tmp_path / "each.hlo"
    words = ("--mesh", "data=4,model=2", "--device", "h100", "-o", out, "--each", each)
    shown = run("partition", plain, *words)
    assert shown.exit_code == 0 and "partitioned programs priced" in shown.stdout
    assert "num_partitions=8" in out.read_text() and "mesh['data'=4,'model'=2]" in out.read_text()
    assert "num_partitions=8" in each.read_text()
    assert run("eval", out, "--spmd").exit_code == 0
    data = json.loads(run("partition", plain, *words, "--json").stdout)
    assert data["finished"] and {r["value"] for r in data["arguments"]} == {"x", "w"}


@pytest.mark.parametrize("axes", ["data=3", "data=1009", "data=2,model=7"])
def test_axes_that_cut_nothing_are_named(run, plain, axes) -> None:
    shown = run("partition", plain, "--mesh", axes, "--device", "h100")
    name, size = axes.split(",")[-1].split("=")
    assert shown.exit_code == 0
    words = f"axis {name}={size} cuts no argument: no dimension of an argument is a multiple of"
    assert words in " ".join(shown.stderr.split()) and "64, 32, 16" in shown.stderr
    data = json.loads(run("partition", plain, "--mesh", axes, "--device", "h100", "--json").stdout)
    assert name in data["idle_axes"]


def test_stats_refuse_a_mesh_of_other_devices(run, sharded) -> None:
    """It was taken, and its axes named what they do not have."""
    done = run("stats", sharded, "--spmd", "--mesh", "data=3")
    assert done.exit_code == 2 and "the mesh has 3 devices, the program" in done.stderr


def test_an_axis_of_a_mesh_is_named_once(run, plain) -> None:
    done = run("partition", plain, "--mesh", "data=4,data=2")
    assert done.exit_code == 2 and "names axis 'data' twice" in done.stderr


@pytest.mark.parametrize("mesh", ["", "data", "data=0", "data=2,data=4", "data=x"])
def test_wrong_meshes(run, plain, mesh) -> None:
    done = run("partition", plain, "--mesh", mesh)
    assert done.exit_code == 2 and "data=4,model=2" in done.output
