"""`hloom run`, `hloom explain` and `hloom cache`: what they say is so, and each option acts."""

import json
import re
from importlib.util import find_spec

import numpy as np
import pytest

import hloom
from hloom.tools.compare import differences, tolerance
from hloom.tools.memory_plot import page

CHAIN = """HloModule chain
ENTRY main {
  x = f32[100] parameter(0)
  s = f32[100] sort(x), dimensions={0}, to_apply=by_square
  i = s32[3] parameter(1)
  g = f32[3] gather(s, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1,
    slice_sizes={1}
  ROOT r = (f32[3], f32[100]) tuple(g, s)
}
"""
SQUARE = """by_square {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  p = f32[] multiply(a, a)
  q = f32[] multiply(b, b)
  ROOT less = pred[] compare(p, q), direction=LT
}
"""
CHAIN = CHAIN.replace("ENTRY", SQUARE + "ENTRY")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(tmp_path / "programs"))
    monkeypatch.delenv("HLOOM_CACHE", raising=False)


@pytest.fixture
def npz(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "in.npz", **arrays)
        return tmp_path / "in.npz"

    return write


@pytest.fixture
def chain(tmp_path):
    path = tmp_path / "chain.hlo"
    path.write_text(CHAIN)
    return path


def data_of(done):
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


# -- run


def test_results(run, add, npz):
    done = run("run", add, "--inputs", npz(x=np.float32([1, 2, 3]), y=np.float32([1, 1, 9])))
    assert done.exit_code == 0, done.output
    assert "[2, 3, 12]" in done.stdout and "memory: arguments 24 B" in done.stdout


def test_random_arguments_depend_on_the_seed(run, add):
    def values(seed):
        return data_of(run("run", add, "--json", "--random", seed))["results"][0]["values"]

    assert values(1) == values(1) != values(2)
    evaluated = data_of(run("eval", add, "--json", "--random", 1))["results"][0]["values"]
    assert values(1) == evaluated


def test_a_single_array_as_npy(run, loop, tmp_path):
    np.save(tmp_path / "x.npy", np.float32([1, 0, -1, 1]))
    done = run("run", loop, "--inputs", tmp_path / "x.npy", "--check")
    assert done.exit_code == 0 and "[1, 0, 1, 1]" in done.stdout


def test_output_file(run, add, npz, tmp_path):
    given = npz(x=np.float32([1, 2, 3]), y=np.float32([1, 1, 1]))
    run("run", add, "--inputs", given, "-o", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as found:
        assert found["result"].tolist() == [2, 3, 4]


def test_arguments_of_a_snapshot(run, add, npz, tmp_path):
    given = npz(x=np.float32([1, 2, 3]), y=np.float32([4, 5, 6]))
    path = tmp_path / "add.snapshot.pb"
    made = run("convert", add, path, "--to", "snapshot", "--inputs", given)
    assert made.exit_code == 0, made.output
    data = data_of(run("run", path, "--json"))
    assert data["arguments"] == "snapshot" and data["results"][0]["values"] == [5, 7, 9]


def test_check_agrees(run, chain):
    done = run("run", chain, "--check")
    assert done.exit_code == 0 and "the same as the interpreter" in done.stdout
    data = data_of(run("run", chain, "--check", "--json"))
    assert data["ok"] and {d["tolerance"] for d in data["check"]} == {2e-4}


def test_check_finds_what_differs(run, add, monkeypatch):
    from hloom import api
    from hloom.tools import run as command

    real = api.evaluate

    def wrong(module, *arguments, **keywords):
        array = real(module, *arguments, **keywords).array.copy()
        array[1] += 1
        return hloom.Literal.of(array)

    monkeypatch.setattr(command.api, "evaluate", wrong)
    done = run("run", add, "--check")
    assert done.exit_code == 1 and "too far" in done.stdout and "[1]" in done.stdout
    done = run("run", add, "--check", "--json")
    data = json.loads(done.stdout)
    assert done.exit_code == 1 and not data["ok"] and data["check"][0]["worst"] == [1]


def test_repeats_are_timed(run, add):
    data = data_of(run("run", add, "--repeats", 7, "--json"))
    assert len(data["seconds"]) == 7 and all(s > 0 for s in data["seconds"])
    assert "7 runs: median" in run("run", add, "--repeats", 7).stdout
    assert "runs: median" not in run("run", add).stdout


def test_profile_names_every_step(run, chain):
    data = data_of(run("run", chain, "--profile", "--repeats", 3, "--json"))
    assert {s["kind"] for s in data["steps"]} == {"Sort", "Kernel"}
    assert all(s["runs"] == 3 and s["seconds"] > 0 for s in data["steps"])
    shown = run("run", chain, "--profile", "--top", 1).stdout
    assert "1 more" in shown and "called one by one" in shown


def test_times_of_passes(run, add):
    for _ in range(2):  # the second would come from the cache
        shown = run("run", add, "--time-passes").stdout
        assert "slowest passes" in shown and "algsimp" in shown and "machine code" in shown
    assert "machine code" not in run("run", add).stdout


def test_threads(run, add):
    assert run("run", add, "--threads", 1, "--check").exit_code == 0
    assert run("run", add, "--threads", 0).exit_code == 2


def test_options_of_the_compiler(run, add, monkeypatch):
    quiet = run("run", add, "--cpu_max_isa=SSE4_2", "--xla_allow_excess_precision=false")
    assert quiet.exit_code == 0 and "warning" not in quiet.stderr
    loud = run("run", add, "--gpu_cudnn_gemm_max_plans=1")
    assert "--gpu_cudnn_gemm_max_plans does nothing when compiling for a CPU" in loud.stderr
    lists = run("run", add, "--disable_hlo_passes=cse,algsmp,expansion")
    assert "--disable_hlo_passes=algsmp does nothing" in lists.stderr
    assert "=cse" not in lists.stderr and "=expansion" not in lists.stderr
    wrong = run("run", add, "--xla_cpu_max_iso=AVX2")
    assert wrong.exit_code == 2 and "cpu_max_isa" in wrong.stderr
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=Z80")
    assert "no instruction set" in run("run", add).stderr


def test_memory_plot_as_html(run, loop, tmp_path):
    where = tmp_path / "memory.html"
    done = run("run", loop, "--memory-plot", where)
    assert done.exit_code == 0 and f"wrote {where}" in done.stdout
    text = where.read_text()
    assert text.startswith("<!doctype html>") and text.count("<svg") == text.count("</svg>") == 2


def test_the_plot_shows_every_temporary():
    from tests.docs.pages import ROOT

    exe = hloom.compile(hloom.load(ROOT / "examples" / "resnet_step.hlo"))
    temps = [v for v in exe.memory.values if v.slice.allocation.kind == "temp"]
    text = page(exe.memory, "a <b>")
    assert text.count("<rect ") == sum(len(v.alive) for v in temps) > 10
    assert "a &lt;b&gt;" in text and temps[0].name in text
    heights = [float(y) for y in re.findall(r'<rect [^>]*height="([\d.]+)"', text)]
    assert all(0 < h <= 260 for h in heights)


def test_memory_plot_as_png(run, loop, tmp_path):
    done = run("run", loop, "--memory-plot", tmp_path / "m.png")
    if find_spec("matplotlib"):
        assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
    else:
        assert done.exit_code == 2 and "matplotlib" in done.stderr and "m.html" in done.stderr


def test_memory_plot_of_another_kind(run, loop, tmp_path):
    done = run("run", loop, "--memory-plot", tmp_path / "m.pdf")
    assert done.exit_code == 2 and ".html or .png" in done.stderr


def test_roofline_shows_each_step_and_the_program_beside_their_floors(run, chain):
    data = data_of(run("run", chain, "--roofline", "--repeats", 2, "--json"))["roofline"]
    assert {"bound", "bytes", "floor_seconds", "predicted_seconds"} <= set(data["steps"][0])
    assert all(s["measured_seconds"] > 0 and s["floor_seconds"] > 0 for s in data["steps"])
    assert data["distance"] == data["measured_seconds"] / data["floor_seconds"]
    assert "hloom calibrate" in data["device"]["sources"]
    shown = run("run", chain, "--roofline", "--top", 1).stdout
    assert "program: floor" in shown and "distance" in shown


def test_roofline_of_several_devices_is_refused(run, ring):
    done = run("run", ring, "--roofline")
    assert done.exit_code == 2 and "--profile" in done.output


def test_profile_of_several_devices(run, ring):
    done = run("run", ring, "--profile")
    assert done.exit_code == 0 and "devices, their steps" in done.stdout, done.output
    rows = json.loads(run("run", ring, "--profile", "--json").stdout)["steps"]
    assert {row["device"] for row in rows} == {0, 1}


def test_wrong_programs(run, tmp_path, npz, add):
    done = run("run", add, "--inputs", npz(x=np.float32([1])))
    assert done.exit_code == 2 and "Traceback" not in done.output
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    assert run("run", add, "--inputs", tmp_path / "bad.npy").exit_code == 2


# -- how results are compared


def literal(values, dtype="float32"):
    return hloom.Literal.of(np.array(values, dtype))


@pytest.mark.parametrize(
    ("found", "expected", "error", "worst"),
    [
        ([1, 2, 3], [1, 2, 3], 0, None),
        ([1, 2.2, 3], [1, 2, 3], 0.1, (1,)),
        ([0.5, 0, 4], [0, 0, 4], 0.375, (0,)),  # of the mean magnitude, 4 / 3
        ([np.nan, 1, 1], [np.nan, 1, 1], 0, None),
        ([np.nan, 1, 1], [0, 1, 1], np.inf, (0,)),
        ([np.inf, 1, 1], [np.inf, 1, 1], 0, None),
        ([np.inf, 1, 1], [-np.inf, 1, 1], np.inf, (0,)),
        ([1, 1, 1e30], [1, 1, np.inf], np.inf, (2,)),
    ],
)
def test_differences(found, expected, error, worst):
    (d,) = differences(literal(found), literal(expected))
    assert d.error == pytest.approx(error, rel=1e-6)
    assert d.is_within == (error == 0) and (worst is None or d.index == worst)


def test_integers_are_exact():
    big = 2**53
    (d,) = differences(literal([big + 1, 3], "int64"), literal([big, 3], "int64"))
    assert not d.is_within and d.index == (0,) and d.tolerance == 0
    assert tolerance(np.dtype(bool)) == 0 < tolerance(np.dtype(np.float64))


# -- explain


@pytest.mark.parametrize("topic", ["fusion", "memory", "layout", "fallback"])
def test_topics(run, chain, topic):
    data = data_of(run("explain", chain, topic, "--json"))
    assert data["topic"] == topic
    assert all(r["value"] and r["verdict"] and r["why"] for r in data["rows"])
    shown = run("explain", chain, topic)
    assert shown.exit_code == 0 and shown.stdout.startswith(f"{topic}: ")


def test_memory_says_why_of_copies(run, loop):
    text = loop.read_text()
    assert "constant(24)" in text
    loop.write_text(text.replace("constant(24)", "constant(2400)"))  # too many turns to unroll
    rows = data_of(run("explain", loop, "memory", "--json"))["rows"]
    copies = [r for r in rows if r["opcode"] == "copy"]
    assert copies and all("loop %loop" in r["why"] and "state" in r["why"] for r in copies)
    assert any(
        "changes its state in place, and argument %x is read only" in r["why"] for r in copies
    )
    assert {"argument 0"} <= {r["verdict"] for r in rows}


def test_fallback_names_what_is_slow(run, chain):
    rows = data_of(run("explain", chain, "fallback", "--json"))["rows"]
    by_opcode = {r["opcode"]: r for r in rows}
    assert by_opcode["sort"]["verdict"] == "sort by comparator"
    assert "by_square" in by_opcode["sort"]["why"]
    assert by_opcode["gather"]["verdict"] == "element by element"


def test_fusion_gives_reasons(run):
    from tests.docs.pages import ROOT

    path = ROOT / "examples" / "transformer_block.hlo"
    data = data_of(run("explain", path, "fusion", "--json"))
    declined = [r for r in data["rows"] if r["verdict"] == "not fused into"]
    assert declined and all(r["other"] for r in data["rows"])
    assert sum(c["count"] for c in data["counts"]) == len(data["rows"])


def test_only_one_value(run, chain):
    rows = data_of(run("explain", chain, "memory", "--only", "%s", "--json"))["rows"]
    assert [r["value"] for r in rows] == ["s"]
    done = run("explain", chain, "memory", "--only", "nobody")
    assert done.exit_code == 2 and "nothing about nobody" in done.stderr


def test_an_unknown_topic(run, chain):
    assert run("explain", chain, "colour").exit_code == 2


# -- cache


def test_cache(run, add, loop, tmp_path):
    assert data_of(run("cache", "info", "--json"))["entries"] == 0
    assert "which is empty" in run("cache", "why", add).stdout
    run("run", add)
    info = data_of(run("cache", "info", "--json"))
    assert info["entries"] == 1 and info["path"] == str(tmp_path / "programs")
    assert "is in the cache" in run("cache", "why", add).stdout
    other = run("cache", "why", loop).stdout
    assert "nearest entry, add_module" in other and "program: it is another one" in other
    capped = data_of(run("cache", "why", add, "--cpu_max_isa=SSE4_2", "--json"))
    assert not capped["is_hit"] and capped["reasons"] == [
        "option cpu_max_isa: (nothing) there, SSE4_2 here"
    ]
    assert "entries  1" in run("cache", "info").stdout
    assert "removed 1 programs" in run("cache", "clear").stdout
    assert data_of(run("cache", "info", "--json"))["entries"] == 0


def test_a_cache_that_is_off(run, add, monkeypatch):
    monkeypatch.setenv("HLOOM_CACHE", "0")
    done = run("cache", "info")
    assert done.exit_code == 2 and "turned off" in done.stderr
    assert run("run", add).exit_code == 0


def test_several_devices(run, ring, tmp_path, npz):
    given = npz(**{"x@0": np.float32([1, 2]), "x@1": np.float32([30, 40])})
    done = run(
        "run", ring, "--inputs", given, "--check", "-o", tmp_path / "out.npz", "--repeats", 2
    )
    assert done.exit_code == 0 and "the same as the interpreter" in done.stdout, done.output
    with np.load(tmp_path / "out.npz") as found:
        assert {name: list(found[name]) for name in found.files} == {
            "result@0": [31, 42],
            "result@1": [31, 42],
        }
    rows = json.loads(run("run", ring, "--inputs", given, "--json").stdout)["results"]
    assert [row["device"] for row in rows] == [0, 1]


WHOLE = """HloModule whole, num_partitions=2

ENTRY main {
  x = f32[4,2] parameter(0), sharding={devices=[2,1]<=[2]}
  ROOT y = f32[4,2] negate(x), sharding={devices=[1,2]<=[2]}
}
"""


@pytest.mark.parametrize("command", ["run", "eval"])
def test_spmd_partitions_a_program_of_whole_arrays(run, tmp_path, command: str) -> None:
    file = tmp_path / "whole.hlo"
    file.write_text(WHOLE)
    whole, parts = run(command, file), run(command, file, "--spmd")
    assert whole.exit_code == parts.exit_code == 0, whole.output + parts.output
    assert "f32[4,2]" in whole.output and "f32[4,1]" in parts.output
    alone = run(command, file, "--spmd", "--partitions", "1")
    assert alone.exit_code == 2 and "nothing to partition" in alone.output


@pytest.mark.parametrize("command", ["run", "eval"])
def test_spmd_computes_on_all_what_nothing_cuts(run, tmp_path, command: str) -> None:
    file = tmp_path / "alike.hlo"
    file.write_text(
        WHOLE.replace(", sharding={devices=[2,1]<=[2]}", "").replace(
            ", sharding={devices=[1,2]<=[2]}", ""
        )
    )
    alike = run(command, file, "--spmd")
    assert alike.exit_code == 0, alike.output
    assert "f32[4,2]" in alike.output
