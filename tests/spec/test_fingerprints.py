"""Fingerprints and presets."""

import pytest

import hloom
from tests.processor_time import at_most

TEXT = """HloModule m
f {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b)
}
g {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] maximum(a, b)
}
ENTRY e {
  x = s32[4]{0} parameter(0)
  w = f32[4]{0} constant({1.5, 2, 3, 4})
  n = s32[] constant(5)
  s = s32[] reduce(x, n), dimensions={0}, to_apply=f, backend_config={"a":1}
  t = s32[] reduce(x, s), dimensions={0}, to_apply=g
  y = f32[4]{0} multiply(w, w)
  z = f32[4]{0} add(y, w)
  ROOT o = (s32[], f32[4]{0}) tuple(t, z)
}
"""
SAME = [
    ("HloModule m", "HloModule other"),
    ("(y, w)", "(y, w), metadata={op_name=\"k\"}"),
    ("y", "product.17"),
    ("f ", "region.4 "),
    ("1.5, 2", "9.25, -7"),
    ('{"a":1}', '{"b":2}'),
]  # fmt: skip
OTHER = [
    ("constant(5)", "constant(6)"),
    ("multiply(w, w)", "subtract(w, w)"),
    ("add(y, w)", "add(w, y)"),
    ("{1.5, 2, 3, 4}", "{0, 0, 0, 0}"),
    ("maximum", "minimum"),
    ("f32[4]{0} multiply", "f32[4]{0:S(5)} multiply"),
]


def renamed(old: str, new: str) -> str:
    """`old` for `new` in the text; short names as whole words."""
    if old in ("y", "f "):
        word, made = old.strip(), new.strip()
        lines = TEXT.replace(f" {word} =", f" {made} =").replace(f"({word},", f"({made},")
        return lines.replace(f"\n{word} {{", f"\n{made} {{").replace(
            f"to_apply={word},", f"to_apply={made},"
        )
    return TEXT.replace(old, new)


@pytest.mark.parametrize(("old", "new"), SAME)
def test_what_a_fingerprint_does_not_see(old, new):
    text = renamed(old, new)
    assert text != TEXT
    a, b = hloom.parse(TEXT), hloom.parse(text)
    assert hloom.fingerprint(a) == hloom.fingerprint(b)
    for preset in ("fingerprint", "module-fingerprint"):
        assert hloom.show(a, preset) == hloom.show(b, preset)


@pytest.mark.parametrize(("old", "new"), OTHER)
def test_what_it_sees(old, new):
    a, b = hloom.parse(TEXT), hloom.parse(renamed(old, new))
    assert hloom.fingerprint(a) != hloom.fingerprint(b)
    assert hloom.show(a, "module-fingerprint") != hloom.show(b, "module-fingerprint")


def test_the_order_of_the_program_text_does_not_count():
    lines = TEXT.split("\n")
    first, second = (next(k for k, x in enumerate(lines) if f"  {n} =" in x) for n in "wn")
    lines[first], lines[second] = lines[second], lines[first]
    f, g = TEXT.index("\nf {"), TEXT.index("\ng {")
    e = TEXT.index("\nENTRY")
    swapped = TEXT[:f] + TEXT[g:e] + TEXT[f:g] + TEXT[e:]
    for text in ("\n".join(lines), swapped):
        assert hloom.fingerprint(hloom.parse(text)) == hloom.fingerprint(hloom.parse(TEXT))


def test_which_presets_show_the_backend_config():
    module = hloom.parse(TEXT)
    shown = {p for p in hloom.PRESETS if "backend_config" in hloom.show(module, p)}
    assert shown == {"default", "short-parsable"}
    assert hloom.difference(module, hloom.parse(hloom.show(module, "short-parsable"))) is None


def test_a_fingerprint_takes_linear_time():
    """Doubling calls 40 times writes no text of 2^40 bodies; 20,000 readers copy no tables."""
    lines = ["HloModule m", "c0 {\n p = f32[] parameter(0)\n ROOT r = f32[] negate(p)\n}"]
    for k in range(1, 41):
        lines.append(
            f"k{k} {{\n p = f32[] parameter(0)\n a = f32[] call(p), to_apply={_callee(k)}\n"
            f" ROOT r = f32[] call(a), to_apply={_callee(k)}\n}}"
        )
    lines.append("ENTRY e {\n p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=k40\n}")
    doubling = hloom.parse("\n".join(lines))
    lines = ["c0 {\n p = f32[] parameter(0)\n ROOT r = f32[] negate(p)\n}\nENTRY e {"]
    lines += [" p0 = f32[] parameter(0)"]
    lines += [f" p{k + 1} = f32[] call(p{k}), to_apply=c0" for k in range(20_000)]
    long = hloom.parse("\n".join([*lines, " ROOT n = f32[] negate(p20000)\n}"]))
    with at_most(10):
        assert hloom.fingerprint(doubling) != hloom.fingerprint(long)
    with pytest.raises(hloom.HloError, match="too deeply"):
        hloom.show(doubling, "canonical")


def _callee(k: int) -> str:
    return "c0" if k == 1 else f"k{k - 1}"
