"""Functions that kernels of a program share: the reduction of huge angles."""

import shutil

import numpy as np
import pytest

import hloom
from hloom.base.guarding import GUARDING
from tests.aot.calling import called, exported

HUGE = (1e5, -1e5, 99999.0, 3e9, -7.5e22, 1e38, np.inf, -np.inf, np.nan, 0.0, -0.0, 0.5, 5e7)


def program(kind: str, sizes: list[int]) -> str:
    """A sine, a cosine and a tangent of each argument."""
    lines, roots, types = [f"HloModule angles_{kind}", "ENTRY e {"], [], []
    for k, n in enumerate(sizes):
        shape = f"{kind}[{n}]" if n else f"{kind}[]"
        lines.append(f"  p{k} = {shape} parameter({k})")
        for opcode in ("sine", "cosine", "tan"):
            lines.append(f"  {opcode}_{k} = {shape} {opcode}(p{k})")
            roots.append(f"{opcode}_{k}")
            types.append(shape)
    return "\n".join([*lines, f"  ROOT r = ({', '.join(types)}) tuple({', '.join(roots)})", "}"])


def arguments(dtype: type, sizes: list[int]) -> list[np.ndarray]:
    """Angles of which some are huge, so that one vector has both kinds."""
    rng = np.random.default_rng(0)
    arrays = []
    for n in sizes:
        x = rng.standard_normal(max(n, 1)) * 10.0 ** rng.uniform(0, 30, max(n, 1))
        x[: min(len(HUGE), max(n, 1))] = HUGE[: max(n, 1)]
        arrays.append(x.astype(dtype).reshape((n,) if n else ()))
    return arrays


def check(results: list[np.ndarray], given: list[np.ndarray]) -> None:
    expected = []
    for x in given:
        with np.errstate(invalid="ignore"):
            wide = x.astype(np.float64)
            expected += [np.sin(wide), np.cos(wide), np.tan(wide)]
    for found, wanted in zip(results, expected, strict=True):
        near = 4 * np.finfo(found.dtype).eps
        np.testing.assert_allclose(found, wanted, rtol=near, atol=0)


@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_huge_angles_are_reduced_by_one_function_of_the_program(kind: str, dtype: type):
    sizes = [0, 1, 13, 16, 1000]
    exe = hloom.compile(program(kind, sizes))
    text = exe.as_text("llvm")
    assert text.count(f"define void @angles_by_digits_{kind}(") == 1
    assert text.count(f"call void @angles_by_digits_{kind}(") >= len(sizes)
    given = arguments(dtype, sizes)
    check([np.asarray(r) for r in exe(*given)], given)


def test_programs_without_angles_have_no_such_function():
    text = hloom.compile(
        "HloModule m\nENTRY e { p = f32[9] parameter(0)\n ROOT r = f32[9] exponential(p) }"
    )
    assert "angles_by_digits" not in text.as_text("llvm")


def test_kept_code_finds_the_function(tmp_path, monkeypatch: pytest.MonkeyPatch):
    # The function's object is kept for itself: a program with another kernel takes it from there.
    monkeypatch.setenv("HLOOM_CACHE", "1")
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(tmp_path))
    for sizes in ([16], [1000, 3]):
        given = arguments(np.float32, sizes)
        exe = hloom.compile(program("f32", sizes))
        check([np.asarray(r) for r in exe(*given)], given)
        saved = tmp_path / "angles.hloom"
        exe.save(saved)
        check([np.asarray(r) for r in hloom.load_compiled(saved)(*given)], given)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory")
@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_a_c_library_has_the_function(kind: str, dtype: type, tmp_path):
    given = arguments(dtype, [13, 1])
    library = exported(tmp_path, program(kind, [13, 1]))
    results = [np.frombuffer(r, dtype) for r in called(tmp_path, library, given)]
    check(results, given)
