"""Permuting the operands of a fusion and the parameters of a computation."""

import numpy as np
import pytest

import hloom
from hloom.ir.fusion import permute_fusion_operands, permute_parameters

TEXT = """HloModule m
f {
  param0 = f32[4]{0} parameter(0)
  param1 = f32[4]{0} parameter(1)
  param2 = f32[8,4]{1,0} parameter(2)
  b0 = f32[8,4]{1,0} broadcast(param0), dimensions={1}
  b1 = f32[8,4]{1,0} broadcast(param1), dimensions={1}
  s = f32[8,4]{1,0} subtract(b0, b1)
  ROOT r = f32[8,4]{1,0} add(s, param2)
}
ENTRY e {
  p0 = f32[4]{0} parameter(0)
  p1 = f32[4]{0} parameter(1)
  p2 = f32[8,4]{1,0} parameter(2)
  ROOT fu = f32[8,4]{1,0} fusion(p0, p1, p2), kind=kLoop, calls=f,
    output_to_operand_aliasing={{}: (2, {})}
}
"""


def test_operands_and_parameters_move_and_the_result_stays():
    module = hloom.parse(TEXT)
    fusion = module.entry.root
    arguments = hloom.random_arguments(module)
    before = hloom.evaluate(module, *arguments)
    permute_fusion_operands(fusion, (1, 2, 0))
    assert [x.name for x in fusion.operands] == ["p2", "p0", "p1"]
    body = fusion.called[0]
    assert [p.name for p in body.parameters] == ["param2", "param0", "param1"]
    assert [p.attrs.number for p in body.parameters] == [0, 1, 2]
    assert [x.name for x in body.root.operands] == ["s", "param2"]
    assert fusion.attrs.output_to_operand_aliasing.entries[0].operand_index == 0
    hloom.verify(module)
    again = hloom.parse(hloom.show(module))
    for same in (module, again):
        after = hloom.evaluate(same, *arguments)
        assert before.array.tobytes() == after.array.tobytes()


@pytest.mark.parametrize(
    "bad", [(0, 0, 1), (0, 1), (0, 1, 2, 3), (0, 1, 3), (-1, 0, 1), (), (0, 1, "2"), (0, True, 2)]
)
def test_what_is_no_permutation_leaves_the_module_untouched(bad):
    module = hloom.parse(TEXT)
    before = hloom.show(module)
    with pytest.raises(hloom.HloError, match="not a permutation"):
        permute_fusion_operands(module.entry.root, bad)
    with pytest.raises(hloom.HloError, match="not a permutation"):
        permute_parameters(module.entry, bad)
    assert hloom.show(module) == before


def test_one_operand_is_a_no_op():
    module = hloom.parse(
        "f {\n a = f32[2] parameter(0)\n ROOT n = f32[2] negate(a)\n}\n"
        "ENTRY e {\n p = f32[2] parameter(0)\n ROOT u = f32[2] fusion(p), kind=kLoop, calls=f\n}"
    )
    before = hloom.show(module)
    permute_fusion_operands(module.entry.root, [0])
    assert hloom.show(module) == before


def test_only_fusions_with_a_body_of_their_own():
    module = hloom.parse(TEXT)
    with pytest.raises(hloom.HloError, match="no fusion"):
        permute_fusion_operands(module.entry.parameters[0], ())


def test_the_companion_renumbers_a_plain_computation():
    module = hloom.parse(
        "f {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] subtract(a, b)\n}\n"
        "ENTRY e {\n p = f32[] parameter(0)\n q = f32[] parameter(1)\n"
        " ROOT c = f32[] call(p, q), to_apply=f\n}"
    )
    permute_parameters(module["f"], np.array([1, 0]))
    assert hloom.evaluate(module, 5.0, 3.0).array == -2.0
    assert [p.name for p in module["f"].parameters] == ["b", "a"]
