"""Files of StableHLO, by the API and the command line."""

import gzip
import json

import numpy as np
import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager
from typer.testing import CliRunner

import hloom
from hloom.frontends.stablehlo.bindings import new_context
from hloom.frontends.stablehlo.recognise import is_text_of_mlir
from hloom.tools.main import app

TEXT = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
OPEN = TEXT.replace("tensor<4xf32>", "tensor<?xf32>")
X = np.linspace(-1, 1, 4, dtype=np.float32)


def value(module):
    return hloom.evaluate(module, X).array


@pytest.mark.parametrize("name", ["a.mlir", "a.stablehlo", "a.mlirbc", "a.mlir.gz", "a.mlirbc.gz"])
def test_what_is_saved_is_loaded(tmp_path, name):
    path = tmp_path / name
    hloom.save(hloom.parse(TEXT), path)
    loaded = hloom.load_file(path)
    assert loaded.format == ("stablehlo-bytecode" if "bc" in name else "stablehlo")
    assert np.array_equal(value(loaded.module), value(hloom.parse(TEXT)))
    data = path.read_bytes()
    data = gzip.decompress(data) if name.endswith(".gz") else data
    assert np.array_equal(value(hloom.load_bytes(data).module), value(loaded.module))


def test_files_of_hlo_and_stablehlo_become_each_other(tmp_path):
    module = hloom.parse(TEXT)
    hloom.save(module, tmp_path / "a.hlo")
    hloom.save(hloom.load(tmp_path / "a.hlo"), tmp_path / "b.mlir")
    assert "stablehlo.tanh" in (tmp_path / "b.mlir").read_text()
    assert np.array_equal(value(hloom.load(tmp_path / "b.mlir")), value(module))


def test_everything_that_is_a_program_compiles(tmp_path):
    (tmp_path / "a.mlir").write_text(TEXT)
    wanted = np.tanh(X)
    for program in (TEXT, tmp_path / "a.mlir", str(tmp_path / "a.mlir"), hloom.parse(TEXT)):
        assert np.allclose(np.asarray(hloom.compile(program)(X)), wanted, 1e-6)


def test_modules_of_the_bindings_and_lowered_functions_compile():
    jax = pytest.importorskip("jax", reason="the function is lowered by JAX")
    lowered = jax.jit(lambda x: jax.numpy.tanh(x) * 2).lower(X)
    for program in (lowered, lowered.compiler_ir("stablehlo")):
        assert np.allclose(np.asarray(hloom.compile(program)(X)), np.tanh(X) * 2, 1e-6)


def test_other_things_are_no_programs():
    with pytest.raises(hloom.HloError, match="is no program"):
        hloom.compile(3)


@pytest.mark.parametrize("version", ["0.9.0", "0.19.0", "1.0.0", "1.9.0", "current"])
def test_artifacts_of_every_version_are_read(version):
    if version == "current":
        version = stablehlo.get_current_version()
    given = ir.Module.parse(TEXT, new_context())
    data = stablehlo.serialize_portable_artifact(given, version)
    assert f"StableHLO_v{version}".encode() in data
    assert np.array_equal(value(hloom.load_bytes(data).module), value(hloom.parse(TEXT)))


def test_text_of_vhlo_is_read():
    given = ir.Module.parse(TEXT, new_context())
    passes = "builtin.module(stablehlo-legalize-to-vhlo,vhlo-to-version{target=1.0.0})"
    PassManager.parse(passes, given.context).run(given.operation)
    text = str(given)
    assert "vhlo.tanh_v1" in text
    assert np.array_equal(value(hloom.parse(text)), value(hloom.parse(TEXT)))


@pytest.mark.parametrize(
    ("text", "is_mlir"),
    [
        (TEXT, True),
        ("// a comment\n\nmodule {\n}", True),
        ('#loc = loc("x")\nmodule {}', True),
        ('"builtin.module"() ({}) : () -> ()', True),
        ("sdy.mesh @m = <[]>", True),
        ("HloModule module", False),
        ("ENTRY e { ROOT c = f32[] constant(1) }", False),
        ("// module\nHloModule m", False),
    ],
)
def test_text_is_told_apart(text, is_mlir):
    assert is_text_of_mlir(text) is is_mlir


def run(*words, stdin=None):
    done = CliRunner().invoke(app, [str(w) for w in words], input=stdin)
    return done.exit_code, done.output


def test_the_command_line_runs_and_converts(tmp_path):
    path = tmp_path / "a.mlir"
    path.write_text(TEXT)
    code, output = run("run", path, "--check")
    assert code == 0, output
    assert "the same as the interpreter" in output
    assert run("convert", path, tmp_path / "a.hlo")[0] == 0
    assert "tanh" in (tmp_path / "a.hlo").read_text()
    code, output = run("convert", tmp_path / "a.hlo", tmp_path / "b.mlirbc", "--json")
    assert code == 0, output
    assert json.loads(output)["ok"]
    assert np.array_equal(value(hloom.load(tmp_path / "b.mlirbc")), value(hloom.parse(TEXT)))


def test_the_command_line_writes_each_format(tmp_path):
    path = tmp_path / "a.hlo"
    hloom.save(hloom.parse(TEXT), path)
    for form in ("stablehlo-bytecode", "stablehlo-artifact"):
        out = tmp_path / f"{form}.mlirbc"
        assert run("convert", path, out, "--to", form)[0] == 0
        assert hloom.load(out).instruction_count == 2
    code, output = run("convert", path, "-", "--to", "stablehlo")
    assert code == 0
    assert "stablehlo.tanh" in output
    assert run("convert", path, tmp_path / "c.mlir", "--to", "proto")[0] == 2


def test_shapes_on_the_command_line(tmp_path):
    path = tmp_path / "a.mlir"
    path.write_text(OPEN)
    code, output = run("convert", path, tmp_path / "a.hlo")
    assert code == 1
    assert "--shapes" in output
    for command in ("run", "eval"):
        code, output = run(command, path, "--shapes", "f32[6]")
        assert code == 0, output
    assert run("convert", path, tmp_path / "a.hlo", "--shapes", "f32[6]")[0] == 0
    assert hloom.load(tmp_path / "a.hlo").program_shape.result.dims == (6,)
    hlo = tmp_path / "a.hlo"
    assert run("eval", hlo, "--shapes", "f32[6]")[0] == 2


def test_standard_input():
    code, output = run("convert", "-", "-", stdin=TEXT)
    assert code == 0
    assert output.startswith("HloModule")
