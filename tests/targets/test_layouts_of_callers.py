"""Layouts of a caller and of what it calls may differ; bitcasts on both sides mean their own."""

from __future__ import annotations

import numpy as np
import pytest

import hloom

CALLEES = """HloModule m
bits { a = f32[2,2]{1,0} parameter(0)
 ROOT b = f32[4]{0} bitcast(a) }
twice { a = f32[2,2]{1,0} parameter(0)
 ROOT b = f32[2,2]{1,0} add(a, a) }
of_tuple { s = (f32[2,2]{1,0}) parameter(0)
 g = f32[2,2]{1,0} get-tuple-element(s), index=0
 ROOT r = f32[4]{0} bitcast(g) }
more { s = (s32[], f32[2,2]{1,0}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(TRIPS)
 ROOT c = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[2,2]{1,0}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[2,2]{1,0} get-tuple-element(s), index=1
 o = s32[] constant(1)
 j = s32[] add(i, o)
 y = f32[4]{0} bitcast(x)
 z = f32[4]{0} add(y, y)
 w = f32[2,2]{1,0} bitcast(z)
 ROOT t = (s32[], f32[2,2]{1,0}) tuple(j, w) }
ENTRY main { p = f32[2,2]{0,1} parameter(0)
 i = s32[] parameter(1)
"""
LOOP = """ t = (s32[], f32[2,2]{0,1}) tuple(i, p)
 w = (s32[], f32[2,2]{0,1}) while(t), condition=more, body=body
 g = f32[2,2]{0,1} get-tuple-element(w), index=1
 ROOT r = f32[4]{0} bitcast(g)"""
FORMS = {
    "call": " ROOT c = f32[4]{0} call(p), to_apply=bits",
    "fusion": " ROOT c = f32[4]{0} fusion(p), kind=kLoop, calls=bits",
    "branches": " ROOT c = f32[4]{0} conditional(i, p, p), branch_computations={bits, bits}",
    "result of a call": " c = f32[2,2]{0,1} call(p), to_apply=twice\n"
    " ROOT r = f32[4]{0} bitcast(c)",
    "result of branches": " c = f32[2,2]{0,1} conditional(i, p, p), "
    "branch_computations={twice, twice}\n ROOT r = f32[4]{0} bitcast(c)",
    "tuple": " t = (f32[2,2]{1,0}) tuple(p)\n ROOT c = f32[4]{0} call(t), to_apply=of_tuple",
    "copy": " a = f32[2,2]{1,0} add(p, p)\n c = f32[2,2]{0,1} copy(a)\n"
    " ROOT r = f32[4]{0} bitcast(c)",
    "loop": LOOP.replace("TRIPS", "3"),
    "loop of one turn": LOOP.replace("tuple(i, p)", "tuple(none, p)"),
    "loop written out": LOOP.replace("tuple(i, p)", "tuple(none, p)"),
}
TRIPS = {"loop of one turn": "1", "loop written out": "2"}


@pytest.mark.parametrize("form", FORMS)
def test_bitcasts_mean_the_layouts_that_they_state(form: str) -> None:
    none = " none = s32[] constant(0)\n" if "none" in FORMS[form] else ""
    text = CALLEES.replace("TRIPS", TRIPS.get(form, "3")) + none + FORMS[form] + " }"
    module = hloom.parse(text)
    x, i = np.arange(4, dtype=np.float32).reshape(2, 2), np.int32(0)
    wanted = hloom.evaluate(module, hloom.Literal.of(x), hloom.Literal.of(i))
    np.testing.assert_array_equal(hloom.compile(module)(x, i), wanted.array)


def test_sizes_of_run_time_are_those_of_the_entry() -> None:
    module = hloom.parse("""HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}
negated { x = f32[2]{0} parameter(0)
 ROOT r = f32[2]{0} negate(x) }
ENTRY e { x = f32[<=2]{0} parameter(0)
 ROOT a = f32[2]{0} call(x), to_apply=negated }""")
    exe = hloom.compile(module)
    [shape] = exe.program.argument_shapes
    assert shape.is_dynamic
    np.testing.assert_array_equal(exe(np.ones(2, np.float32)), [-1, -1])


def test_floats_without_a_sign_are_not_negated_twice() -> None:
    module = hloom.parse("""HloModule m
ENTRY e { x = f8e8m0fnu[4] parameter(0)
 y = f8e8m0fnu[4] parameter(1)
 n = f8e8m0fnu[4] negate(y)
 m = f8e8m0fnu[4] negate(n)
 a = f8e8m0fnu[4] add(x, n)
 s = f8e8m0fnu[4] subtract(x, n)
 p = f8e8m0fnu[4] multiply(n, n)
 b = f8e8m0fnu[4] abs(n)
 ROOT t = (f8e8m0fnu[4], f8e8m0fnu[4], f8e8m0fnu[4], f8e8m0fnu[4], f8e8m0fnu[4])
   tuple(m, a, s, p, b) }""")
    x, y = hloom.random_arguments(module, 0)
    wanted = hloom.evaluate(module, x, y)
    for got, want in zip(hloom.compile(module)(x.array, y.array), wanted.leaves(), strict=True):
        assert got.numpy().tobytes() == want.array.tobytes()
        assert np.isnan(want.array.astype(np.float32)).all()
