"""libhloom_rt.a: saved programs run by C programs, in processes without Python."""

import random
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom import api
from hloom.aot.link import RUNTIME, compiler
from hloom.aot.runtime_library import FLAGS, archived, run, sources
from hloom.base.guarding import GUARDING
from hloom.runtime import ffi
from hloom.runtime.native import library
from tests.aot.programs import PROGRAMS
from tests.aot.test_export import arguments_of, flat_bytes
from tests.fuzz.check_saved import calling_programs
from tests.fuzz.run_runtime_library import REFUSED, TAKEN, answers, driver, one_byte, wrong_things
from tests.runtime.test_execute_options import CALLS as OPTIONS
from tests.runtime.test_execute_options import WHO

BUILT = RUNTIME / "build"
pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.skipif(GUARDING, reason="the runtime of this process is guarded"),
    pytest.mark.skipif(not any(BUILT.glob("*.o")), reason="the runtime was not compiled here"),
]
CALLS = """HloModule m
ENTRY e {
  x = f32[5] parameter(0)
  y = f32[5] custom-call(x), custom_call_target="twice"
  ROOT z = f32[5] negate(y)
}"""
LINALG = "HloModule m\nENTRY e { x = f32[4,4] parameter(0)\n ROOT c = f32[4,4] cholesky(x) }"
FOURIER = """HloModule m
ENTRY e {
  x = c64[12] parameter(0)
  ROOT y = c64[12] fft(x), fft_type=FFT, fft_length={12}
}"""
LINK = ["-Wl,--gc-sections", "-lstdc++", "-lm", "-pthread", "-s"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The library, of what the runtime in this checkout was linked of, and the program that tests
    it, with all kinds (`all`) and without any (`core`)."""
    library()
    folder = tmp_path_factory.mktemp("runtime")
    words, objects = compiler("tests"), []

    def compiled(source: Path) -> Path:
        if source.parent == RUNTIME:
            built = [p for p in BUILT.glob("*.o") if p.stem.rsplit("-", 1)[0] == source.stem]
            return max(built, key=lambda p: p.stat().st_mtime)
        flags = [f for f in FLAGS if f != "-O3"]
        out = folder / f"{source.stem}.o"
        command = [*words, *flags, "-Wall", "-Werror", f"-I{RUNTIME}"]
        run([*command, "-c", str(source), "-o", str(out)], "a source cannot be compiled")
        return out

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compiled, sources()))
    archived(objects, folder)
    main = Path(__file__).parent / "runtime.c"
    other = Path(__file__).parent / "runtime_devices.c"
    for name, source, flags in (
        ("all", main, []),
        ("core", main, ["-DCORE"]),
        ("devices", other, []),
    ):
        command = [*words, *flags, "-Wall", "-Werror", f"-I{folder}", str(source)]
        run(
            [*command, str(folder / "libhloom_rt.a"), *LINK, "-o", str(folder / name)],
            "it cannot be linked",
        )
    return folder


def saved(folder, text, name="m"):
    hloom.compile(text, threads=1).save(folder / f"{name}.hloom")
    return folder / f"{name}.hloom"


def called(folder, program, path, kind, way, arrays=()):
    data = b"".join([np.ascontiguousarray(a).tobytes() for a in arrays])
    words = [str(folder / program), kind, way, str(path)]
    return subprocess.run(words, input=data, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    "name, way",
    [
        *(("loop", "plain"), ("dot", "two"), ("conditional", "async"), ("sort", "eight")),
        *(("topk", "plain"), ("state_in_place", "place"), ("state_in_place", "plain")),
        *(("convolution", "eight"), ("comparator", "async"), ("loop", "cancel")),
        *((name, "odd") for name in PROGRAMS),
    ],
)
def test_the_same_bits(folder, name, way):
    literals, arrays = arguments_of(PROGRAMS[name], 2)
    path = saved(folder, PROGRAMS[name], f"{name}_{way}")
    done = called(folder, "all", path, "all", way, arrays)
    assert done.returncode == 0, done.stderr.decode()
    expected = flat_bytes(hloom.compile(PROGRAMS[name], threads=1)(*literals))
    assert done.stdout == b"".join(expected)


@pytest.mark.parametrize("text", [LINALG, FOURIER])
def test_routines_of_other_kinds(folder, text):
    x = np.eye(4, dtype=np.float32) * 4 if text is LINALG else np.arange(12, dtype=np.complex64)
    for way in ("plain", "odd"):
        done = called(folder, "all", saved(folder, text), "all", way, [x])
        assert done.stdout == np.asarray(hloom.compile(text)(x)).tobytes()


def test_kinds_that_are_missing_are_named(folder):
    for text, words in (
        (PROGRAMS["sort"], "needs hl_sort_keys, which is not linked in: call hloom_rt_use_sort()"),
        (FOURIER, "call hloom_rt_use_fft()"),
        (LINALG, "call hloom_rt_use_linalg()"),
    ):
        done = called(folder, "core", saved(folder, text), "none", "plain")
        assert done.returncode == 1 and words in done.stderr.decode()


def test_custom_calls_by_name(folder):
    if not api.is_handled("twice"):
        ffi.register("twice", lambda call: None)
    path, x = saved(folder, CALLS, "calls"), np.arange(5, dtype=np.float32)
    done = called(folder, "core", path, "calls", "plain", [x])
    assert done.stdout == (-2 * x).tobytes()
    done = called(folder, "core", path, "fails", "async", [x])
    assert done.returncode == 1 and b"the handler is not content" in done.stderr
    done = called(folder, "core", path, "none", "plain", [x])
    assert done.returncode == 1 and b"no handler is registered" in done.stderr


def with_options(folder, way, *paths):
    words = [str(folder / "devices"), way, *map(str, paths)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("way, ids", [("natural", (0, 1, 2, 3)), ("other", (12, 7, 10, 4))])
def test_devices_that_meet(folder, way, ids):
    """Three launches at once, each device in a thread: who it is, and the sum of its group."""
    done = with_options(folder, way, saved(folder, WHO, "who"))
    expected = "".join(
        f"{launch} {d}: {k // 2} {k % 2} {200 * launch + ids[k // 2 * 2] + ids[k // 2 * 2 + 1]}\n"
        for launch in range(3)
        for k, d in enumerate(ids)
    )
    assert done.stdout == expected, done.stderr


def test_devices_that_do_not_come(folder):
    path = saved(folder, WHO, "who")
    done = with_options(folder, "alone", path)
    assert done.returncode == 0, done.stderr
    without, missing, unknown, twice = done.stdout.splitlines()
    assert "is for 4 devices, which run it together: hloom_rt_run_with" in without
    assert "device 2 waits at s for device 3, which did not come in 0." in missing
    assert unknown == "device 9 is not in the assignment"
    assert twice == "the device assignment names a device twice"
    done = with_options(folder, "without", path)
    assert done.returncode == 1 and "call hloom_rt_use_devices()" in done.stderr


def test_devices_of_another_program(folder):
    two = "HloModule m, replica_count=2\nENTRY e { ROOT x = f32[2] parameter(0) }"
    paths = saved(folder, WHO, "who"), saved(folder, two, "two")
    done = with_options(folder, "strangers", *paths)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["the devices are not 4, as many as the program is for"] * 2


def test_threads_and_data_of_one_run(folder):
    if not api.is_handled("looks_in_c"):
        ffi.register("looks_in_c", lambda call: None)
    text = OPTIONS.replace("looks_at_options", "looks_in_c")
    done = with_options(folder, "handlers", saved(folder, text, "options"))
    assert done.stdout == "6308 6308 101\n", done.stderr


def test_memory_that_does_not_fit(folder):
    _, arrays = arguments_of(PROGRAMS["sort"])
    path = saved(folder, PROGRAMS["sort"], "wrong")
    done = called(folder, "all", path, "all", "wrong", arrays)
    assert done.returncode == 0, done.stderr.decode()


def test_files_that_are_none(folder):
    good = saved(folder, PROGRAMS["loop"], "good").read_bytes()
    changed = bytearray(good)
    changed[len(good) // 2] ^= 16
    for data, words in (
        (b"", "it is empty"),
        (b"parrot", "no saved program"),
        (good[:-8], "a saved program of"),
        (bytes(changed), "checksum"),
    ):
        path = folder / "none.hloom"
        path.write_bytes(data)
        done = called(folder, "core", path, "none", "plain")
        assert done.returncode == 1 and words in done.stderr.decode()
    for path, words in ((folder, "it is no file"), (folder / "nowhere", "No such file")):
        done = called(folder, "core", path, "none", "plain")
        assert done.returncode == 1 and words in done.stderr.decode()


def test_a_program_for_several_devices_is_not_run_alone(folder):
    several = "HloModule m, replica_count=2\nENTRY e { ROOT x = f32[2] parameter(0) }"
    path = saved(folder, several, "several")
    done = called(folder, "core", path, "none", "plain", [np.zeros(2, np.float32)])
    assert done.returncode != 0
    assert "is for 2 devices, which run it together" in done.stderr.decode()


def test_links_only_what_it_needs(folder):
    """The sizes that docs/saved-programs.md states, stripped."""
    core, whole = (folder / "core").stat().st_size, (folder / "all").stat().st_size
    assert core < 300 << 10 and core < whole / 3
    needed = subprocess.run(["readelf", "-d", folder / "core"], capture_output=True, text=True)
    assert set(re.findall(r"\[(lib.*?)\.so", needed.stdout)) <= {
        *("libc", "libm", "libstdc++", "libgcc_s")
    }


def test_the_example(folder):
    source = Path(__file__).parents[2] / "examples" / "runtime_c" / "main.c"
    words = [*compiler("tests"), "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{folder}"]
    out = folder / "example"
    run(
        [*words, str(source), str(folder / "libhloom_rt.a"), *LINK, "-o", str(out)],
        "it cannot be linked",
    )
    path = saved(folder, PROGRAMS["loop"], "example")
    done = subprocess.run([str(out), str(path)], capture_output=True, text=True)
    assert done.returncode == 0 and "input 0: f32[16]{0}" in done.stdout


def test_arrays_have_names(folder, tmp_path):
    exe = hloom.compile(
        """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  p = (f32[3], (s32[], f32[4])) parameter(1)
  q = (s32[], f32[4]) get-tuple-element(p), index=1
  y = f32[2] negate(x)
  ROOT r = (f32[2], (s32[], f32[4]), f32[2]) tuple(y, q, y)
}""",
        threads=1,
    )
    path = tmp_path / "m.hloom"
    for names, text in (({}, "y q.0 q.1 y.2"), ({"result_names": ["a", "b", "c"]}, "a b.0 b.1 c")):
        exe.save(path, **names)
        done = called(folder, "all", path, "all", "names", [np.zeros(2 + 3 + 1 + 4, np.float32)])
        assert done.stdout.decode() == f"x p.0 p.1.0 p.1.1 -> {text}", done.stderr


def test_damaged_programs_are_refused(folder):
    program = driver(folder / "libhloom_rt.a", folder / "damaged", ["-s"])
    assert answers(program, calling_programs()) == TAKEN * len(calling_programs())
    rng = random.Random(3)
    assert answers(program, islice(one_byte(rng), 300)) == REFUSED * 300
    assert len(answers(program, islice(wrong_things(rng), 100))) == 100
