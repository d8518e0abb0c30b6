"""Tiles that other machines' programs state: no values, and bitcasts only where they agree."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.passes.layout.tiled_bitcasts import mean_the_same
from hloom.types.text import shape_from_text

X = np.arange(4096, dtype=np.float32).reshape(16, 256)
TILED = "f32[16,256]{1,0:T(8,128)}"
PLAIN = "f32[16,256]{1,0}"


def of(before: str, after: str) -> hloom.Module:
    return hloom.parse(
        f"HloModule m\nENTRY e {{ x = {PLAIN} parameter(0)\n n = {before} negate(x)\n"
        f" b = {after} bitcast(n)\n ROOT r = {after} negate(b) }}"
    )


@pytest.mark.parametrize(
    "before, after",
    [
        # Tiles that keep the order are forgotten.
        (TILED, "f32[2,8,256]{2,1,0:T(8,128)}"),
        (TILED, "f32[1,16,256]{2,1,0:T(8,128)}"),
        ("f32[16,256]{1,0:T(1,256)}", "f32[4096]{0}"),
        ("f32[16,256]{1,0:T(256)}", "f32[8,512]{1,0}"),
        # Others move elements.
        (TILED, "f32[2,2,8,128]{3,2,1,0}"),
        (PLAIN, TILED),
        (TILED, "f32[16,2,128]{2,1,0:T(2,128)}"),
        (TILED, "f32[4096]{0:T(*,128)}"),
    ],
)
def test_bitcasts_mean_what_they_do_for_the_interpreter(before: str, after: str) -> None:
    module = of(before, after)
    wanted = hloom.evaluate(module, hloom.Literal.of(X)).array
    np.testing.assert_array_equal(hloom.compile(module)(X), wanted)


@pytest.mark.parametrize(
    "before, after",
    [
        ("f32[]{:T(128)}", "f32[1]{0:T(128)}"),  # scalars lie in tiles, too
        ("f32[5,100]{1,0:T(8,128)}", "f32[1024]{0}"),  # zeros fill tiles up
        ("f32[3,40]{1,0:T(4,8)}", "u32[4,5,2,4]{3,1,2,0}"),
        ("bf16[8,6]{1,0:T(4,2)(2,1)}", "s8[96]{0:T(*,4)}"),
        ("s4[8]{0:T(4)E(4)}", "s8[4]{0}"),
        ("s4[64,128]{1,0:T(64,128)(8,1)E(4)}", "s4[8,8,128]{2,1,0:T(8,128)E(4)}"),
    ],
)
def test_elements_move_as_the_interpreter_says(before: str, after: str) -> None:
    plain = before.split("{")[0]
    module = hloom.parse(
        f"HloModule m\nENTRY e {{ x = {plain} parameter(0)\n n = {before} negate(x)\n"
        f" ROOT b = {after} bitcast(n) }}"
    )
    arguments = hloom.random_arguments(module, 3)
    wanted = hloom.evaluate(module, *arguments).array
    assert np.asarray(hloom.compile(module)(*arguments)).tobytes() == wanted.tobytes()


def test_a_bitcast_into_more_tiles_than_there_are_is_refused() -> None:
    with pytest.raises(HloError, match="it reads 128 bits or elements, but there are 90"):
        hloom.compile(
            "HloModule m\nENTRY e { x = f32[90]{0} parameter(0)\n"
            " ROOT b = f32[2,45]{1,0:T(2,64)} bitcast(x) }"
        )


def test_packed_arguments_in_tiles() -> None:
    t = "s4[64,128]{1,0:T(64,128)(8,1)E(4)}"
    module = hloom.parse(
        f"HloModule m\nENTRY e {{ x = {t} parameter(0)\n ROOT y = {t} add(x, x) }}"
    )
    exe = hloom.compile(module)
    assert exe.program.result_shape.text == "s4[64,128]{1,0:E(4)}"
    x = hloom.random_arguments(module, 0)
    np.testing.assert_array_equal(exe(*x), hloom.evaluate(module, *x).array)


def test_arguments_and_results_lie_without_tiles_and_say_so() -> None:
    module = hloom.parse(
        f"HloModule m, entry_computation_layout={{({TILED})->{TILED}}}\n"
        f"ENTRY e {{ x = {TILED} parameter(0)\n ROOT y = {TILED} negate(x) }}"
    )
    exe = hloom.compile(module)
    [shape] = exe.program.argument_shapes
    assert shape.text == exe.program.result_shape.text == PLAIN
    np.testing.assert_array_equal(exe(X), -X)


@pytest.mark.parametrize("rows", [8, 1 << 12])
def test_large_arrays_are_asked_by_a_sample(rows: int) -> None:
    before = shape_from_text(f"f32[{rows},1024]{{1,0:T(8,128)}}")
    same = shape_from_text(f"f32[{rows // 8},8,1024]{{2,1,0:T(8,128)}}")
    other = shape_from_text(f"f32[{rows},8,128]{{2,1,0:T(8,128)}}")
    assert mean_the_same(before, same) and not mean_the_same(before, other)
