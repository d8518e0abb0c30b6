"""`hloom opt`: passes, their options, the compiler's options, dumps."""

import json

import pytest

import hloom
from hloom import api


def test_dead_code_goes_and_the_output_parses(run, add):
    done = run("opt", add, "--passes=dce")
    assert done.exit_code == 0 and "%dead" not in done.stdout
    assert hloom.parse(done.stdout).instruction_count == 3


def test_unknown_pass_lists_the_known_ones(run, add):
    done = run("opt", add, "--passes=dce,nonsense")
    assert done.exit_code == 2
    assert "no pass named 'nonsense'" in done.stderr and "tuple-simplifier" in done.stderr


def test_list_of_passes(run):
    out = run("opt", "--list-passes").stdout
    assert all(f"{name}: " in out for name in api.PASSES) and "=>" in out
    data = json.loads(run("opt", "--list-passes", "--json").stdout)
    assert {p["name"] for p in data["passes"]} == set(api.PASSES)


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("cse{is_layout_sensitive=true},dce", 0),
        ("constant-folding{level=2,result_limit_bytes=10}", 0),
        ("cse{is_layout_sensitive=maybe}", 2),
        ("constant-folding{level=much}", 2),
        ("cse{no_such=1}", 2),
        ("cse{", 2),
        ("cse dce", 2),
        ("", 0),
    ],
)
def test_pass_options(run, add, written, code):
    done = run("opt", add, f"--passes={written}")
    assert done.exit_code == code and "Traceback" not in done.output


def test_pass_option_has_effect(run, tmp_path):
    path = tmp_path / "c.hlo"
    path.write_text(
        "ENTRY m {\n  x = f32[] parameter(0)\n  one = f32[] constant(1)\n"
        "  ROOT c = f32[] multiply(x, one)\n}\n"
    )
    assert "multiply(" not in run("opt", path, "--passes=algsimp").stdout
    written = "--passes=algsimp{disabled_rules=multiply_one,multiply_zero}"
    assert "multiply(" in run("opt", path, written).stdout


@pytest.mark.parametrize(
    ("option", "kept"),
    [
        ("--disable_hlo_passes=dce", True),
        ("--xla_disable_hlo_passes=dce", True),
        ("--disable-passes=dce", True),
        ("--disable_all_hlo_passes", True),
        ("--disable_all_hlo_passes=false", False),
        ("--enable_hlo_passes_only=cse", True),
        ("--enable_hlo_passes_only=dce", False),
    ],
)
def test_options_that_choose_passes(run, add, option, kept):
    done = run("opt", add, "--passes=dce", option)
    assert ("%dead" in done.stdout) == kept, done.output


def test_xla_flags_are_honoured_and_the_command_line_wins(run, add, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_disable_hlo_passes=dce")
    assert "%dead" in run("opt", add, "--passes=dce").stdout
    assert "%dead" not in run("opt", add, "--passes=dce", "--disable_hlo_passes=cse").stdout
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such_thing=1")
    done = run("opt", add, "--passes=dce")
    assert done.exit_code == 2 and "XLA_FLAGS: no option --xla_no_such_thing" in done.stderr


def test_an_option_that_nothing_reads_is_said_to_do_nothing(run, add):
    done = run("opt", add, "--passes=dce", "--xla_gpu_autotune_level=0")
    assert done.exit_code == 0 and "--gpu_autotune_level does nothing" in done.stderr


def test_misspelt_option(run, add):
    done = run("opt", add, "--xla_gpu_autotune_lvl=0")
    assert done.exit_code == 2 and "gpu_autotune_level" in done.stderr
    assert run("opt", add, "--pases=dce").exit_code == 2


def test_fix_point_stats_and_json(run, loop):
    done = run("opt", loop, "--passes=tuple-simplifier,dce", "--fix-point", "--stats", "--json")
    data = json.loads(done.stdout)
    assert data["passes"][0]["instructions_before"] == 16
    assert hloom.parse(data["module"]).name == "loop_module"
    assert "passes" in done.stderr and "before" in done.stderr


def test_trace_shows_before_and_after(run, tmp_path):
    path = tmp_path / "t.hlo"
    path.write_text(
        "ENTRY m {\n  x = f32[2] parameter(0)\n  t = (f32[2]) tuple(x)\n"
        "  g = f32[2] get-tuple-element(t), index=0\n  ROOT n = f32[2] negate(g)\n}\n"
    )
    done = run("opt", path, "--passes=tuple-simplifier", "--trace")
    assert "=>" in done.stderr and "  - %g" in done.stderr and "  + %x" in done.stderr


def test_dump_of_everything(run, add, tmp_path):
    folder = tmp_path / "dumps"
    run("opt", add, "--passes=dce,cse", f"--dump_to={folder}", "--dump_hlo_pass_re=dce")
    names = sorted(p.name for p in folder.iterdir())
    assert "module_0001.add_module.before_optimizations.txt" in names
    assert "module_0001.add_module.after_optimizations.txt" in names
    assert any("after_dce" in n for n in names) and not any("after_cse" in n for n in names)
    before = hloom.load(folder / "module_0001.add_module.before_optimizations.txt")
    assert api.difference(hloom.load(add), before) is None


def test_dump_after_each_pass_names_the_next_one(run, add, tmp_path):
    folder = tmp_path / "dumps"
    words = ["--passes=dce,cse,dce", f"--dump_to={folder}", "--dump_hlo_pass_re=dce|cse"]
    run("opt", add, *words)
    after = sorted(p.name for p in folder.iterdir() if ".after_" in p.name and "opt" in p.name)
    ends = [name.partition(".opt.")[2] for name in after if ".opt." in name]
    assert [e for e in ends if e.startswith("after_")] == [
        "after_dce.before_cse.txt",
        "after_cse.before_dce.txt",
        "after_dce.before_pipeline-end.txt",
    ]


def test_dump_options_act(run, add, tmp_path):
    def dumped(*options):
        folder = tmp_path / f"d{len(list(tmp_path.iterdir()))}"
        run("opt", add, "--passes=dce", f"--dump_to={folder}", *options)
        return {p.name: p for p in folder.iterdir()} if folder.exists() else {}

    stem = "module_0001.add_module.before_optimizations"
    assert f"{stem}.hlo.pb" in dumped("--dump_hlo_as_proto")
    assert f"{stem}.hlo.pb.gz" in dumped("--dump_hlo_as_proto", "--dump_compress_protos")
    assert f"{stem}.txt" not in dumped("--dump_hlo_as_proto")
    assert f"{stem}.txt" in dumped("--dump_hlo_as_proto", "--dump_hlo_as_text")
    assert "model.py" not in dumped("--dump_disable_metadata")[f"{stem}.txt"].read_text()
    assert "%" not in dumped("--dump_hlo_as_long_text=false")[f"{stem}.txt"].read_text()
    assert not dumped("--dump_max_hlo_modules=0")
    assert not dumped("--dump_hlo_module_re=other")
    assert "// module_0001" in run("opt", add, "--passes=dce", "--dump_to=-").stdout


def test_result_file(run, add, tmp_path):
    out = tmp_path / "o.pb"
    done = run("opt", add, "--passes=dce", "-o", out)
    assert done.stdout == "" and hloom.load(out).instruction_count == 3


def test_list_of_options_says_which_act(run):
    lines = run("opt", "--list-options").stdout.splitlines()
    acts = {line.split()[0]: line.split()[1] for line in lines[2:] if line}
    assert acts["--dump_max_hlo_modules=-1"] == "yes"
    assert acts["--gpu_cudnn_gemm_max_plans=5"] == "not"
    assert len(acts) == len(api.OPTIONS)
