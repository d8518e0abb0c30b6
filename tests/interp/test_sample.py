"""Random inputs respect what programs do with them; every opcode can be drawn, and runs."""

import numpy as np
import pytest

import hloom.ir  # noqa: F401
from hloom.base.diagnostics import UsageError
from hloom.interp import EvalOptions, draw_instance, evaluate, evaluate_lockstep, random_arguments
from hloom.interp.draw import DRAW, load_drawers
from hloom.interp.registry import MEANING
from hloom.interp.sample import random_array
from hloom.ir.op import OPS
from hloom.ir.text import parse_module

load_drawers()


def draws(body: str, count: int = 20, header: str = "HloModule m"):
    module = parse_module(f"{header}\nENTRY e {{ {body} }}")
    return [random_arguments(module, seed) for seed in range(count)]


def test_same_seed_same_inputs():
    body = "a = f32[3] parameter(0)\nROOT b = f32[3] negate(a)"
    assert draws(body) == draws(body)
    first, second = draws(body, 2)
    assert first != second


def test_gather_indices_stay_inside():
    body = """x = f32[7,5] parameter(0)
    i = s32[4] parameter(1)
    j = s32[4,1] reshape(i)
    ROOT g = f32[4,1,5] gather(x, j), offset_dims={1,2}, collapsed_slice_dims={},
      start_index_map={0}, index_vector_dim=1, slice_sizes={1,5}, indices_are_sorted=true"""
    seen = set()
    for _, i in draws(body):
        assert i.array.min() >= 0 and i.array.max() <= 6
        assert (np.diff(i.array) >= 0).all()
        seen.update(i.array.tolist())
    assert len(seen) == 7


def test_unique_scatter_indices_are_distinct():
    body = """x = f32[6] parameter(0)
    i = s32[4,1] parameter(1)
    u = f32[4] parameter(2)
    ROOT s = f32[6] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=add"""
    header = """HloModule m
    add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT s = f32[] add(a, b) }"""
    for _, i, _ in draws(body, header=header):
        assert len(set(i.array.reshape(-1).tolist())) == 4
        assert i.array.max() <= 5


def test_loops_end_soon_and_branches_exist():
    header = """HloModule m
    b0 { x = f32[] parameter(0)
      ROOT r = f32[] negate(x) }
    body { p = (s32[], s32[]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      n = s32[] get-tuple-element(p), index=1
      one = s32[] constant(1)
      j = s32[] add(i, one)
      ROOT t = (s32[], s32[]) tuple(j, n) }
    condition { p = (s32[], s32[]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      n = s32[] get-tuple-element(p), index=1
      ROOT c = pred[] compare(i, n), direction=LT }"""
    body = """n = s32[] parameter(0)
    k = s32[] parameter(1)
    x = f32[] parameter(2)
    z = s32[] constant(0)
    t = (s32[], s32[]) tuple(z, n)
    w = (s32[], s32[]) while(t), condition=condition, body=body
    c = f32[] conditional(k, x, x, x), branch_computations={b0, b0, b0}
    ROOT r = ((s32[], s32[]), f32[]) tuple(w, c)"""
    for n, k, _ in draws(body, header=header):
        assert 0 <= n.first() <= 4 and 0 <= k.first() <= 2


def test_divisors_logarithms_and_matrices():
    body = """a = s32[5] parameter(0)
    b = s32[5] parameter(1)
    d = s32[5] divide(a, b)
    x = f32[5] parameter(2)
    l = f32[5] log(x)
    m = f32[3,3] parameter(3)
    c = f32[3,3] cholesky(m), lower=true
    k = u64[2] parameter(4)
    r = (u64[2], u32[4]) rng-bit-generator(k), algorithm=rng_three_fry
    ROOT t = (s32[5], f32[5], f32[3,3]) tuple(d, l, c)"""
    for _, b, x, m, _ in draws(body):
        assert b.array.min() >= 1 and x.array.min() > 0
        assert (np.linalg.eigvalsh(m.array) > 0).all() and np.allclose(m.array, m.array.T)
    assert max(int(k.array.max()) for *_, k in draws(body)) > 2**32


def test_dynamic_dimensions_get_equal_sizes():
    body = """a = f32[<=8] parameter(0)
    b = f32[<=8] parameter(1)
    ROOT c = f32[<=8] add(a, b)"""
    sizes = {(a.sizes, b.sizes) for a, b in draws(body)}
    assert all(a == b for a, b in sizes) and len(sizes) > 1


def test_nested_tuples_and_tokens():
    body = """a = (f32[2], (token[], pred[])) parameter(0)
    ROOT b = f32[2] get-tuple-element(a), index=0"""
    ((a,),) = draws(body, 1)
    assert a.elements[1].elements[0].is_token


def test_an_unknown_opcode_cannot_be_drawn():
    with pytest.raises(UsageError, match="'frobnicate'"):
        draw_instance("frobnicate", 0)


@pytest.mark.parametrize("opcode", sorted(OPS))
def test_every_opcode_has_a_meaning_and_can_be_drawn(opcode):
    assert opcode in DRAW
    assert opcode in MEANING


def test_no_drawer_or_meaning_is_for_nothing():
    assert set(DRAW) <= set(OPS) and set(MEANING) <= set(OPS)


@pytest.mark.parametrize("opcode", sorted(OPS))
def test_drawn_instances_are_legal_and_run(opcode):
    texts = set()
    for seed in range(6):
        module = draw_instance(opcode, seed)
        assert any(i.opcode == opcode for i in module.entry)
        check_shapes(module)
        run(module, seed)
        devices = (module.replica_count, module.num_partitions)
        texts.add(str((devices, [(i.opcode, i.shape, i.attrs) for i in module.entry])))
    assert len(texts) > 1


def check_shapes(module):
    for i in module.instructions():
        shapes = tuple(x.shape for x in i.operands)
        signatures = tuple(c.program_shape for c in i.called)
        if hasattr(i.op.attrs, "check"):
            i.op.check(i.attrs, i.shape, shapes, signatures)
        else:
            assert i.op.infer(i.attrs, shapes, signatures).compatible(i.shape), i


def run(module, seed):
    options = EvalOptions()
    if module.entry.root.opcode == "infeed":
        data = module.entry.root.shape.elements[0]
        rng = np.random.default_rng(seed)
        options = EvalOptions(infeed=[random_array(data.dtype, data.dims, rng)])
    devices = module.replica_count * module.num_partitions
    if devices == 1:
        evaluate(module, *random_arguments(module, seed), options=options)
    else:
        given = [random_arguments(module, seed + d) for d in range(devices)]
        evaluate_lockstep(module, given, options=options)


def test_what_stands_under_a_root_is_positive_through_sums():
    module = parse_module("""
HloModule norm
ENTRY e {
  x = f32[64] parameter(0)
  variance = f32[64] parameter(1)
  epsilon = f32[] constant(0.001)
  wide = f32[64] broadcast(epsilon), dimensions={}
  safe = f32[64] add(variance, wide)
  scale = f32[64] rsqrt(safe)
  ROOT y = f32[64] multiply(x, scale)
}
""")
    x, variance = random_arguments(module, 0)
    assert (variance.array > 0).all() and (x.array < 0).any()


@pytest.mark.parametrize("weights", ["s4", "u4", "s8", "s32"])
def test_weights_that_are_integers_are_not_all_zero(weights):
    body = f"""
x = f32[1,64] parameter(0)
w = {weights}[64,8] parameter(1)
c = f32[64,8] convert(w)
ROOT y = f32[1,8] dot(x, c), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
    for _, w in draws(body, 3):
        assert len(np.unique(w.array.astype(np.int32))) > 4
