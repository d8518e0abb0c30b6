"""`hloom compile` and `hloom run` of what it wrote."""

import json

import numpy as np
import pytest

TEXT = """HloModule steps
ENTRY main {
  x = f32[4] parameter(0)
  i = s32[] parameter(1)
  y = f32[4] add(x, x)
  ROOT r = (f32[4], s32[]) tuple(y, i)
}
"""


def written(run, tmp_path, *words):
    (tmp_path / "a.hlo").write_text(TEXT)
    return run("compile", str(tmp_path / "a.hlo"), "-o", str(tmp_path / "a.hloom"), *words)


def test_both_ways(run, tmp_path):
    done = written(run, tmp_path)
    assert done.exit_code == 0 and "wrote" in done.stdout and "steps" in done.stdout
    x = np.array([1, 2, 3, 4], np.float32)
    np.savez(tmp_path / "in.npz", arg_0=x, arg_1=np.int32(7))
    out = str(tmp_path / "out.npz")
    done = run("run", str(tmp_path / "a.hloom"), "--inputs", str(tmp_path / "in.npz"), "-o", out)
    assert done.exit_code == 0 and "loaded in" in done.stdout
    with np.load(out) as results:
        arrays = [results[name] for name in sorted(results)]
    assert (arrays[0] == 2 * x).all() and arrays[1] == 7


def test_arguments_by_name(run, tmp_path):
    written(run, tmp_path)
    x = np.array([1, 2, 3, 4], np.float32)
    np.savez(tmp_path / "in.npz", x=x, i=np.int32(7))
    words = ("run", str(tmp_path / "a.hloom"), "--inputs", str(tmp_path / "in.npz"))
    assert run(*words, "-o", str(tmp_path / "out.npz")).exit_code == 0
    np.savez(tmp_path / "in.npz", x=x, j=np.int32(7))
    done = run(*words)
    assert done.exit_code == 2 and "no array for parameter i (s32[])" in done.stderr
    assert written(run, tmp_path, "--argument-names", "x,j").exit_code == 0
    assert run(*words).exit_code == 0
    done = written(run, tmp_path, "--argument-names", "x,x")
    assert done.exit_code == 2 and "Argument names must be unique: x, x" in done.stderr


@pytest.mark.parametrize("content", [b"", b"HloModule m", b"hloomexe", None])
def test_a_file_that_is_none(run, tmp_path, content):
    """What is called as a saved program is looked at as one."""
    path = tmp_path / "none.hloom"
    if content is not None:
        path.write_bytes(content)
    done = run("run", str(path))
    assert done.exit_code != 0 and "extension" not in done.stderr
    words = "these bytes are no saved program" if content is not None else "No such file"
    assert words in done.stderr


def test_json(run, tmp_path):
    done = written(run, tmp_path, "--json")
    data = json.loads(done.stdout)
    assert data["program"]["arguments"] == ["f32[4]", "s32[]"]
    assert data["bytes"] == (tmp_path / "a.hloom").stat().st_size
    done = run("run", str(tmp_path / "a.hloom"), "--json", "--profile", "--repeats", "2")
    assert done.exit_code == 0, done.output


def test_options_reach_the_compiler(run, tmp_path):
    done = written(run, tmp_path, "--json", "--cpu_max_isa=SSE4_2")
    assert "avx2" not in json.loads(done.stdout)["program"]["features"]


def test_what_needs_the_graph_is_refused_by_name(run, tmp_path):
    written(run, tmp_path)
    done = run("run", str(tmp_path / "a.hloom"), "--check", "--partitions", "2")
    assert done.exit_code != 0
    assert "--check and --partitions" in done.output + done.stderr


def test_a_program_of_two_devices(run, tmp_path):
    (tmp_path / "b.hlo").write_text("""HloModule together, replica_count=2
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=add
}
""")
    run("compile", str(tmp_path / "b.hlo"), "-o", str(tmp_path / "b.hloom"))
    done = run("run", str(tmp_path / "b.hloom"), "--json")
    assert done.exit_code == 0, done.output


def test_c_library(run, tmp_path):
    (tmp_path / "step.hlo").write_text(TEXT)
    out, header = tmp_path / "libstep.o", tmp_path / "step.h"
    words = ["compile", tmp_path / "step.hlo", "-o", out, "--header", header, "--threads", "1"]
    result = run(
        *words, "--argument-names", "left,right", "--result-names", "total,count", "--json"
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert told["function"] == "step" and told["inputs"] == ["left", "right"]
    assert told["outputs"] == ["total", "count"] and told["bytes"] == out.stat().st_size
    assert "int step(const void *const *inputs" in header.read_text()
    named = run(*words, "--name", "other")
    assert named.exit_code == 0 and "other(" in named.output and f"wrote {header}" in named.output


def test_c_library_refusals(run, tmp_path):
    (tmp_path / "step.hlo").write_text(TEXT)
    words = ["compile", tmp_path / "step.hlo", "-o"]
    threads = run(*words, tmp_path / "x.o", "--threads", "4", "--pool")
    assert threads.exit_code == 2 and "its own or takes the caller's" in threads.output
    saved = run(*words, tmp_path / "x.hloom", "--weights", tmp_path / "w.bin")
    assert saved.exit_code == 2 and "--weights is for C libraries" in saved.output
    twice = run("compile", *[tmp_path / "step.hlo"] * 2, "-o", tmp_path / "x.o")
    assert twice.exit_code == 2 and "called as the files are" in twice.output
    for name in ("x.dll", "x.DYLIB"):
        other = run(*words, tmp_path / name)
        assert other.exit_code == 2 and "is no library of" in other.output
        assert not (tmp_path / name).exists()
    for option in ("--header", "--name", "--weights"):
        result = run(*words, tmp_path / "x.hloom", option, "a")
        assert result.exit_code == 2 and f"{option} is for C libraries" in result.output
    unknown = run(*words, tmp_path / "x.o", "--target", "cpu:nothing")
    assert unknown.exit_code == 2


@pytest.mark.parametrize("name", ["l.xyz", "libstep.so.1", "step.hlo2"])
def test_an_ending_that_says_nothing(run, tmp_path, name):
    (tmp_path / "step.hlo").write_text(TEXT)
    done = run("compile", tmp_path / "step.hlo", "-o", tmp_path / name)
    assert done.exit_code == 2 and not (tmp_path / name).exists()
    assert "is neither a saved program nor a C library" in done.output
    assert ".hloom" in done.output and ".dylib" in done.output


def test_a_report_of_a_c_library(run, tmp_path):
    (tmp_path / "step.hlo").write_text(TEXT)
    words = ["compile", tmp_path / "step.hlo", "-o", tmp_path / "libstep.a", "--report"]
    text = run(*words)
    assert text.exit_code == 0 and "the workspace of a call" in text.output
    about = json.loads(run(*words, "--json").stdout)["report"]
    (function,) = about["functions"]
    assert about["objects"].keys() == {"step"} and about["bytes"] > about["objects"]["step"] > 0
    assert any(s["kind"] == "Kernel" and "->" in s["what"] for s in function["steps"])
    assert function["estimate_ns"] == pytest.approx(
        sum(s["estimate_ns"] for s in function["steps"] if s["depth"] == 0), abs=1
    )
    saved = run("compile", tmp_path / "step.hlo", "-o", tmp_path / "x.hloom", "--report")
    assert saved.exit_code == 2 and "--report is for C libraries" in saved.output


def result_of(run, tmp_path, *words):
    path = tmp_path / "result.json"
    done = run("compile", *words, "--result_output_file", str(path))
    result = json.loads(path.read_text())
    assert result["ok"] == (done.exit_code == 0) == (result["status"]["code"] == 0)
    return result["status"], result["statistics"]


def test_what_became_of_it_stands_in_a_file(run, tmp_path):
    """Status and statistics, whether it works or not."""
    program, broken = tmp_path / "a.hlo", tmp_path / "broken.hlo"
    program.write_text(TEXT)
    broken.write_text("HloModule m\nENTRY {")
    for name in ("a.hloom", "liba.a"):
        status, statistics = result_of(run, tmp_path, str(program), "-o", str(tmp_path / name))
        assert status["name"] == "OK" and statistics["peak_memory_bytes"] > 0
        seconds = statistics["seconds"]
        assert 0 < seconds["read"] + seconds["compile"] <= seconds["total"]
    status, statistics = result_of(run, tmp_path, str(broken), "-o", str(tmp_path / "b.a"))
    assert status["name"] == "INVALID_ARGUMENT" and status["line"] == 2
    assert status["exit_code"] == 1 and "compile" not in statistics["seconds"]
    program.write_text(TEXT.replace("steps", "steps, num_partitions=2"))
    status, _ = result_of(run, tmp_path, str(program), "-o", str(tmp_path / "b.a"))
    assert (status["code"], status["name"]) == (12, "UNIMPLEMENTED")


def test_a_result_file_that_cannot_be_written(run, tmp_path):
    done = written(run, tmp_path, "--result-output", str(tmp_path / "none" / "r.json"))
    assert done.exit_code == 2 and "r.json: No such file" in done.stderr
    done = run("compile", "none.hlo", "-o", "a.a", "--result-output", str(tmp_path / "no" / "r"))
    assert "cannot read none.hlo" in done.stderr and "cannot write" in done.stderr


CALLS = """HloModule calls
ENTRY main {
  x = f32[4] parameter(0)
  ROOT y = f32[4] custom-call(x), custom_call_target="TARGET", api_version=API_VERSION_TYPED_FFI
}
"""


def test_custom_calls_that_others_will_handle(run, tmp_path):
    """C programs register handlers before they load a file; of Python's functions there is none."""
    program, out = tmp_path / "calls.hlo", tmp_path / "calls.hloom"
    program.write_text(CALLS.replace("TARGET", "tests.nobody_here"))
    done = run("compile", str(program), "-o", str(out))
    assert done.exit_code == 0 and "No FFI handler registered for tests.nobody_here" in done.stderr
    assert "who loads calls.hloom needs a handler" in done.stderr
    done = run("run", str(out))
    assert done.exit_code != 0 and "tests.nobody_here" in done.stderr
    out.unlink()
    program.write_text(CALLS.replace("TARGET", "xla_ffi_python_cpu_callback"))
    done = run("compile", str(program), "-o", str(out))
    assert done.exit_code == 1 and "take pure_callback" in done.stderr and not out.exists()
