"""What verifies and means nothing is refused by the compiler, and has no value."""

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.ir.meaning import check_meaning
from hloom.ir.text import parse_module
from hloom.ir.verify import verify
from hloom.passes import pass_named

MEANINGLESS = {
    "remainder of complex numbers": """x = c64[2] parameter(0)
      ROOT r = c64[2] remainder(x, x)""",
    "shift of floats": """x = f32[2] parameter(0)
      ROOT r = f32[2] shift-right-logical(x, x)""",
    "high product of truth values": """x = pred[2] parameter(0)
      ROOT r = pred[2] mulhi(x, x)""",
    "more bits than there are": """x = f32[3] parameter(0)
      ROOT r = f32[4] bitcast(x)""",
    "wider elements": """x = f32[3] parameter(0)
      ROOT r = c64[3] bitcast(x)""",
    "elements in two bits": "x = s4[4]{0:E(2)} parameter(0)\n ROOT r = s8[1] bitcast(x)",
    "memory of a tuple": """x = (f32[2], s32[3]) parameter(0)
      ROOT r = (f32[2], s32[3]) bitcast(x)""",
    "an array as a tuple": "x = f32[2] parameter(0)\n ROOT r = (f32[2]) bitcast(x)",
    "elements in fewer bits than they have": """x = f16[3,2]{1,0:E(4)} parameter(0)
      ROOT r = f16[3] bitcast(x)""",
    "random truth values": """x = u64[2] parameter(0)
      ROOT r = (u64[2], pred[4]) rng-bit-generator(x), algorithm=rng_default""",
    "rounding to truth values": """x = f32[2] parameter(0)
      y = u32[2] parameter(1)
      ROOT r = pred[2] stochastic-convert(x, y)""",
    "complex group sizes": """x = f32[3,5] parameter(0)
      y = f32[2,5,4] parameter(1)
      z = c64[2] parameter(2)
      ROOT r = f32[3,4] ragged-dot(x, y, z), lhs_contracting_dims={1}, rhs_contracting_dims={1},
        lhs_ragged_dims={0}, rhs_group_dims={0}""",
    "rows of another type": """x = s1[8] parameter(0)
      y = s32[8] parameter(1)
      i = s32[4] parameter(2)
      ROOT r = s32[8] ragged-all-to-all(x, y, i, i, i, i), replica_groups={{0}}""",
    "rows of another size": """x = f32[8,1] parameter(0)
      y = f32[8,3] parameter(1)
      i = s32[4] parameter(2)
      ROOT r = f32[8,3] ragged-all-to-all(x, y, i, i, i, i), replica_groups={{0}}""",
    "rows of a scalar": """x = f32[] parameter(0)
      i = s32[4] parameter(1)
      ROOT r = f32[] ragged-all-to-all(x, x, i, i, i, i), replica_groups={{0}}""",
}
DEFINED = {
    "equality of complex numbers": """x = c64[2] parameter(0)
      ROOT r = pred[2] compare(x, x), direction=NE""",
    "as many bits": "x = f32[4] parameter(0)\n ROOT r = c64[2] bitcast(x)",
    "fewer bits": "x = f32[4] parameter(0)\n ROOT r = f32[1] bitcast(x)",
    "packed": "x = s4[4]{0:E(4)} parameter(0)\n ROOT r = u4[4]{0:E(4)} bitcast(x)",
    "the same, however it lies": """x = f16[2]{0:E(4)} parameter(0)
      ROOT r = f16[2]{0:E(4)} bitcast(x)""",
    "nothing": "x = f32[0] parameter(0)\n ROOT r = s8[0,3] bitcast(x)",
}


@pytest.mark.parametrize("name", MEANINGLESS)
def test_it_verifies_and_is_refused(name: str):
    module = parse_module(f"ENTRY e {{ {MEANINGLESS[name]} }}")
    verify(module)
    with pytest.raises(HloError) as refused:
        hloom.compile(module)
    assert refused.value.rule == "no-meaning"
    assert refused.value.instruction == "e/%r"


@pytest.mark.parametrize("name", DEFINED)
def test_its_neighbours_are_not(name: str):
    module = parse_module(f"ENTRY e {{ {DEFINED[name]} }}")
    verify(module)
    check_meaning(module)
    (x,) = (np.zeros(p.shape.dims, p.shape.dtype.numpy) for p in module.entry.parameters)
    want, got = hloom.evaluate(module, x).array, np.asarray(hloom.compile(module)(x))
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("name", [name for name in MEANINGLESS if name.startswith("rows")])
def test_no_pass_nor_value_is_made_of_other_rows(name: str):
    module = parse_module(f"ENTRY e {{ {MEANINGLESS[name]} }}")
    for decomposer in ("", "-multi-host"):
        pass_named(f"ragged-all-to-all{decomposer}-decomposer").run(module)
        assert module.entry.root.opcode == "ragged-all-to-all"
    with pytest.raises(HloError, match="cannot be rows of the output"):
        hloom.evaluate(module, *hloom.random_arguments(module))
