"""What the text may say, and what its errors say."""

import pytest

import hloom
from hloom.api import file_bytes, load_bytes
from hloom.ir.values.precision import ALGORITHMS

TUPLE = """ENTRY e {
  p0 = (f32[10], (f32[20], f32[30])) parameter(0)
  ROOT a = f32[20] add(OPERAND, OPERAND)
}"""


def test_compact_elements_are_made_once_and_print_as_written():
    module = hloom.parse(TUPLE.replace("OPERAND", "%p0#1#0"))
    made = [(i.name, i.attrs.index) for i in module.entry if i.opcode == "get-tuple-element"]
    assert made == [("p0_1", 1), ("p0_1_0", 0)]
    assert "add(%p0#1#0, %p0#1#0)" in hloom.show(module, compact_gte=True)
    again = hloom.parse(hloom.show(module, compact_gte=True))
    assert hloom.difference(module, again) is None


@pytest.mark.parametrize(
    ("operand", "message", "column"),
    [
        ("%p0#2", "GTE index 2 out of bounds", 24),
        ("%p0#-1", "GTE index -1 out of bounds", 24),
        ("%p0#a", "expects integer", 24),
        ("%p0#", "expects integer", 24),
        ("%p0#0#0", "GTE operand must be tuple", 24),
        ("%p0#1#2", "GTE index 2 out of bounds", 24),
        ("%p0#99999999999999999999", "GTE index", 24),
    ],
)
def test_wrong_compact_elements(operand, message, column):
    with pytest.raises(hloom.HloError, match=message) as caught:
        hloom.parse(TUPLE.replace("OPERAND", operand))
    place = caught.value.location
    assert place.line == 3 and place.column >= column and "ROOT a" in place.source


def test_names_of_compact_elements_are_unique_and_elements_are_shared():
    module = hloom.parse(
        "ENTRY e {\n p0 = (f32[2], f32[2]) parameter(0)\n p0_0 = f32[2] constant({1, 2})\n"
        " c = f32[2] add(p0#0, p0_0)\n g = f32[2] get-tuple-element(p0), index=1\n"
        " ROOT d = f32[2] add(c, p0#1)\n}"
    )
    assert [x.name for x in module.entry["c"].operands] == ["p0_0.1", "p0_0"]
    assert module.entry["d"].operands[1].name == "g"


EVERYTHING = """HloModule /*c*/ m, replica_count=8
sum {
  a = f32[] /* b */ parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(f32[] %a, b)
}
ENTRY e {
  %x = f32[256,16]{1,0:T(8,128)S(5)E(4)} parameter(0)
  y = f32[256,16] copy(x)
  st = f32[256,16] all-reduce-start(y), replica_groups=[2,4]<=[8], to_apply=sum
  d = f32[256,16] all-reduce-done(st)
  k = f32[2,2] constant({{1, /*q*/ -2}, {inf, nan}})
  ROOT t = (f32[256,16], f32[2,2]) tuple(d, k)
}
"""


def test_print_and_parse_are_a_fixed_point():
    module = hloom.parse(EVERYTHING)
    for preset in ("default", "short-parsable"):
        text = hloom.show(module, preset)
        assert hloom.show(hloom.parse(text), preset) == text
    assert hloom.difference(module, load_bytes(file_bytes(module, "pb")).module) is None


def test_an_unknown_operand_is_named_with_its_place():
    with pytest.raises(hloom.HloError, match="'q'") as caught:
        hloom.parse("ENTRY e {\n p = f32[2] parameter(0)\n ROOT n = f32[2] negate(q)\n}")
    assert (caught.value.location.line, caught.value.location.column) == (3, 25)
    assert "ROOT n = f32[2] negate(q)" in str(caught.value)


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"unset"}))
def test_dot_algorithms(name):
    text = (
        "ENTRY e {\n a = f32[4,4]{1,0} parameter(0)\n ROOT d = f32[4,4]{1,0} dot(a, a), "
        f"lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, algorithm={name}\n}}"
    )
    module = hloom.parse(text)
    assert f"algorithm={name}" in hloom.show(module)
    again = load_bytes(file_bytes(module, "pb")).module
    assert hloom.difference(module, again) is None
    for none in ("unset", "dot_unset"):
        plain = hloom.parse(text.replace(f"algorithm={name}", f"algorithm={none}"))
        assert "algorithm" not in hloom.show(plain)
        assert hloom.difference(plain, load_bytes(file_bytes(plain, "pb")).module) is None


ASYNC = """ENTRY e {
  x = f32[64] parameter(0)
  s = ((f32[64]), f32[32], s32[]) custom-call-start(%x), custom_call_target="foo"
  ROOT d = f32[32] custom-call-done(s)
}"""


def test_async_short_forms():
    module = hloom.parse(ASYNC)
    hloom.verify(module)
    start = module.entry["s"]
    assert start.opcode == "async-start" and start.called[0].root.opcode == "custom-call"
    assert 'custom-call-start(%x), custom_call_target="foo"' in hloom.show(module)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ROOT d = f32[32]", "ROOT d = f32[64]"),
        ("ROOT d = f32[32] custom-call-done(s)", "ROOT d = f32[64] negate(x)"),
        ("ROOT d", "d2 = f32[32] custom-call-done(s)\n  ROOT d"),
        ('s = ((f32[64]), f32[32], s32[]) custom-call-start(%x), custom_call_target="foo"',
         "s = ((f32[64]), f32[32], s32[]) copy(x)"),
    ],
)  # fmt: skip
def test_broken_chains(old, new):
    with pytest.raises(hloom.HloError):
        hloom.verify(hloom.parse(ASYNC.replace(old, new)))


def test_aliasing_is_for_fusions_and_not_for_calls():
    text = (
        "f {\n a = f32[2] parameter(0)\n ROOT r = f32[2] negate(a)\n}\n"
        "ENTRY e {\n p = f32[2] parameter(0)\n ROOT c = f32[2] CALL,"
        " output_to_operand_aliasing={{}: (0, {})}\n}"
    )
    hloom.verify(hloom.parse(text.replace("CALL", "fusion(p), kind=kLoop, calls=f")))
    with pytest.raises(hloom.HloError, match="aliasing"):
        hloom.verify(hloom.parse(text.replace("CALL", "call(p), to_apply=f")))
