"""Buffer assignment: programs run in simulated memory as their places say."""

from itertools import pairwise

import numpy as np
import pytest

from bench import corpus
from hloom.base.diagnostics import HloError
from hloom.ir.text import parse_module
from hloom.memory.assign import AssignOptions, assign_buffers, literal_bytes
from hloom.plan.order import Order
from hloom.types.aligned import aligned_copy, aligned_empty
from hloom.types.layout import layout
from hloom.types.literal import Literal
from hloom.types.shape import shape
from hloom.types.sizes import ALIGNMENT
from tests.memory.drawn_modules import Drawn
from tests.memory.placed import placed, run_both

CORPUS = corpus.CORPUS / "cpu"
SMALL = "dlrm_keras_jax_f32_test_step dynamic_slice_loop_1x2048x768_bf16 argsort_axis_1024x512_bf16"
LARGE = "dlrm_keras_jax_f32_train_step mobilenet_v2 resnet50_keras_jax_f32"


@pytest.mark.parametrize("seed", range(60))
def test_drawn_programs_run_in_their_places(seed):
    run_both(Drawn(1_000_000 + seed, 6).module())


@pytest.mark.parametrize("seed", range(4))
def test_large_drawn_programs_run_in_their_places(seed):
    run_both(Drawn(2_000_000 + seed, 20).module())


@pytest.mark.parametrize("heap", ["best-fit", "first-fit"])
def test_every_heap_and_no_sharing_give_the_same(heap):
    module = Drawn(5, 8).module()
    _, shared, _ = run_both(module, assign=AssignOptions(heap=heap))
    _, apart, _ = run_both(module, assign=AssignOptions(heap=heap, share_operands=False))
    assert shared.temp_bytes <= apart.temp_bytes


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus here")
@pytest.mark.parametrize("name", SMALL.split())
def test_the_corpus_runs_in_its_places(name):
    run_both((CORPUS / f"{name}.hlo").read_text())


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus here")
@pytest.mark.parametrize("name", LARGE.split())
def test_the_corpus_is_placed(name):
    module = parse_module((CORPUS / f"{name}.hlo").read_text())
    _, assignment, _ = placed(module)
    assert assignment.live_bytes <= assignment.temp_bytes <= 1.1 * assignment.live_bytes


def test_results_overwrite_what_dies():
    made, assignment, _ = run_both("""HloModule m
ENTRY e { a = f32[9] parameter(0)
  b = f32[9] negate(a)
  c = f32[9] sine(b)
  ROOT d = f32[9] add(c, c) }""")
    out = assignment.slice(made.entry.root)
    assert {assignment.slice(made.entry[n]) for n in "bcd"} == {out}
    assert out.allocation.kind == "output" and assignment.temp_bytes == 0


def test_wider_or_turned_results_do_not():
    made, assignment, _ = run_both("""HloModule m
ENTRY e { a = f32[3,4] parameter(0)
  b = f32[3,4] negate(a)
  c = f64[3,4] convert(b)
  d = f64[4,3] transpose(c), dimensions={1,0}
  ROOT e = f64[4,3] sine(d) }""")
    slices = [assignment.slice(made.entry[n]) for n in "bcd"]
    assert not any(x.overlaps(y) for x, y in pairwise(slices))


def test_a_dynamic_array_has_room_for_its_sizes():
    made, assignment, _ = run_both("""HloModule m
ENTRY e { a = bf16[<=5,3] parameter(0)
  b = bf16[<=5,3] negate(a)
  ROOT c = bf16[<=5,3] add(b, a) }""")
    assert assignment.slice(made.entry["b"]).size_bytes == 32 + 8


def test_constants_keep_their_bytes_in_the_order_of_the_layout():
    made, assignment, _ = run_both("""HloModule m
ENTRY e { k = s4[2,3]{0,1} constant({{1,2,3},{4,5,6}})
  ROOT c = s4[2,3]{0,1} negate(k) }""")
    place = assignment.slice(made.entry["k"])
    assert place.allocation.data == bytes([1, 4, 2, 5, 3, 6])


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_bytes_of_a_constant_are_those_of_its_literal_where_nobody_else_may_write_them(order):
    own = aligned_copy(np.arange(6, dtype=np.float32).reshape(2, 3))
    foreign = bytearray(own.tobytes())  # as the memory of a tensor of PyTorch
    view = np.frombuffer(foreign, np.float32).reshape(2, 3)
    of = shape("f32", (2, 3)).with_layout(layout(order))
    shared = literal_bytes(Literal.owning(own, of), of)
    copied = literal_bytes(Literal.owning(view, of), of)
    foreign[:] = bytes(24)
    in_order = own.transpose(order[::-1])
    assert bytes(copied) == bytes(shared) == in_order.tobytes()
    assert np.shares_memory(np.frombuffer(shared, np.uint8), own) == (order == (1, 0))


@pytest.mark.parametrize("offset", [0, 16])
def test_constants_stand_where_vectors_find_whole_lines_and_nowhere_else(offset):
    whole = aligned_empty((4096,), np.dtype(np.uint8))
    own = whole[offset : offset + 1024].view(np.float32)
    own[:] = np.arange(256)
    literal = Literal.owning(own)
    data = np.frombuffer(literal_bytes(literal, shape("f32", (256,))), np.uint8)
    assert data.ctypes.data % ALIGNMENT == 0
    assert np.shares_memory(data, own) == (offset == 0)
    assert np.shares_memory(data, literal.array)  # no second copy stays
    np.testing.assert_array_equal(literal.array, np.arange(256))


@pytest.mark.parametrize("is_foreign", [False, True])
def test_a_constant_that_lies_in_the_order_of_its_layout_is_shared_if_nobody_may_write_it(
    is_foreign,
):
    columns = np.empty((3, 2), np.float32)
    if is_foreign:
        columns = np.frombuffer(bytearray(24), np.float32).reshape(3, 2)
    columns[:] = [[1, 4], [2, 5], [3, 6]]
    of = shape("f32", (2, 3)).with_layout(layout((0, 1)))
    data = literal_bytes(Literal.owning(columns.T, of), of)
    assert np.shares_memory(np.frombuffer(data, np.uint8), columns) != is_foreign
    assert bytes(data) == np.array([1, 4, 2, 5, 3, 6], np.float32).tobytes()


def test_every_width_zero_sizes_and_tokens():
    made, assignment, _ = run_both("""HloModule m
ENTRY e { a = pred[3] parameter(0)
  b = c64[2] parameter(1)
  z = f32[0,7] parameter(2)
  t = token[] after-all()
  n = f32[0,7] negate(z)
  m = c64[2] negate(b)
  o = pred[3] not(a)
  ROOT r = (pred[3], c64[2], f32[0,7], token[]) tuple(o, m, n, t) }""")
    sizes = [s.size_bytes for _, s in assignment.leaves(made.entry.root)]
    assert sizes == [3, 16, 0]


def test_a_target_may_share_more():
    text = """HloModule m
ENTRY e { a = f32[9] parameter(0)
  b = f32[9] negate(a)
  c = f32[9] reverse(b), dimensions={0}
  ROOT d = f32[9] sine(c) }"""
    module = parse_module(text)
    _, own, _ = run_both(module)
    _, assignment, _ = placed(module, assign=AssignOptions(can_share=lambda i, k, index: True))
    assert own.temp_bytes == 64 and assignment.temp_bytes == 0


def test_branches_share_the_memory_of_their_temporaries():
    branch = """{name} {{ p = f32[64] parameter(0)
  s = f32[64] sine(p)
  v = f32[64] reverse(s), dimensions={{0}}
  ROOT r = f32[64] add(v, s) }}
"""
    made, assignment, _ = run_both(
        "HloModule m\n"
        + "".join(branch.format(name=n) for n in "fgh")
        + """ENTRY e { i = s32[] parameter(0)
  x = f32[64] parameter(1)
  ROOT c = f32[64] conditional(i, x, x, x), branch_computations={f, g, h} }"""
    )
    assert assignment.temp_bytes == 256
    assert np.unique([assignment.slice(made[n].root).allocation.index for n in "fgh"]).size == 1


def test_assignment_says_what_is_missing():
    module = parse_module("HloModule m\nENTRY e { ROOT a = f32[2] parameter(0) }")
    with pytest.raises(HloError, match="has no order"):
        assign_buffers(module, Order({}))
