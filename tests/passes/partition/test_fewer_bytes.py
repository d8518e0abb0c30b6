"""What is handed on instead of gathered, batches that indices count, uneven parts, batch norms."""

import numpy as np
import pytest

import hloom
from hloom.interp import evaluate_lockstep
from hloom.passes.partition.reshard_plan import ArrayOnMesh, plan
from hloom.passes.partition.tiling import Tiling
from hloom.passes.partition.whole_program import partition_in_place, split_arguments
from tests.passes.partition.test_partitioner import (
    COLLECTIVES,
    cut_and_compared,
    parsed,
    traffic,
)

ARRAY = ArrayOnMesh((16, 24), (2, 2, 2), 4)
WHOLE_BYTES = 16 * 24 * 4


@pytest.mark.parametrize(
    ("source", "target", "kinds", "received"),
    [
        # Cut once more for nothing, then handed on: not gathered whole.
        (((), (1,)), ((), (0, 1, 2)), ["slice", "collective-permute"], WHOLE_BYTES / 8),
        # Cut along axes that the target has elsewhere, into as many tiles as it has.
        (((), (2,)), ((2,), (0, 1)), ["slice", "slice", "collective-permute"], WHOLE_BYTES / 8),
        (((0,), ()), ((1, 2), (0,)), ["slice", "slice", "collective-permute"], WHOLE_BYTES / 8),
        # Exchanged, to where a permute would bring it.
        (((0, 1), (2,)), ((0,), (1, 2)), ["rounds"], WHOLE_BYTES / 8),
    ],
)
def test_tiles_are_handed_on(source, target, kinds, received) -> None:
    _, steps = plan(ARRAY, Tiling(source), Tiling(target))
    assert [s.kind for s in steps] == kinds
    assert sum(s.received for s in steps) == received


def test_a_part_of_an_axis_is_handed_on_to_one_of_its_size() -> None:
    cut = cut_and_compared("""ENTRY main {
      x = f32[16,24] parameter(0), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
      ROOT y = f32[16,24] negate(x), sharding={devices=[1,2,4]<=[8] last_tile_dim_replicate}
    }""", 8)  # fmt: skip
    assert traffic(cut) == {"collective-permute": 16 * 6, "all-gather": 16 * 12}


@pytest.mark.parametrize(("size", "kind", "elements"), [
    (1, "collective-broadcast", 5),
    (3, "collective-broadcast", 3 * 5),
    (4, "collective-broadcast", 4 * 5),
    (5, "all-gather", 8 * 5),
    (8, "all-gather", 8 * 5),
])  # fmt: skip
def test_what_few_devices_have_is_broadcast(size: int, kind: str, elements: int) -> None:
    cut = cut_and_compared(f"""ENTRY main {{
      x = f32[{size},5] parameter(0), sharding={{devices=[8,1]<=[8]}}
      ROOT y = f32[{size},5] negate(x), sharding={{replicated}}
    }}""", 8)  # fmt: skip
    assert traffic(cut) == {kind: elements}


COUNTED = """ENTRY main {
  x = f32[16,64,8] parameter(0), sharding={devices=[4,1,1]<=[4]}
  at = s32[16,4,1] parameter(1), sharding={devices=[4,1,1]<=[4]}
  COUNT
  both = s32[16,4,2] concatenate(row, at), dimensions={2}
  ROOT y = f32[16,4,8] gather(x, both), offset_dims={2}, collapsed_slice_dims={0,1},
    start_index_map={0,1}, index_vector_dim=2, slice_sizes={1,1,8}, sharding={devices=[4,1,1]<=[4]}
}"""
COUNTS = {
    "iota": "row = s32[16,4,1] iota(), iota_dimension=0",
    "broadcast": """n = s32[16] iota(), iota_dimension=0
  row = s32[16,4,1] broadcast(n), dimensions={0}""",
    "reshape": """n = s32[16,4] iota(), iota_dimension=0
  row = s32[16,4,1] reshape(n)""",
    "convert": """n = s64[16,4,1] iota(), iota_dimension=0
  row = s32[16,4,1] convert(n)""",
}


@pytest.mark.parametrize("form", COUNTS)
def test_batches_that_indices_count_are_read_where_they_are(form: str) -> None:
    assert traffic(cut_and_compared(COUNTED.replace("COUNT", COUNTS[form]))) == {}


def test_rows_that_indices_count_backwards_are_served() -> None:
    text = COUNTED.replace("COUNT", """n = s32[16,4,1] iota(), iota_dimension=0
  last = s32[] constant(15)
  l = s32[16,4,1] broadcast(last), dimensions={}
  row = s32[16,4,1] subtract(l, n)""")  # fmt: skip
    assert traffic(cut_and_compared(text)) != {}


@pytest.mark.parametrize("rows", [16, 15])
def test_batches_that_indices_count_are_written_where_they_are(rows: int) -> None:
    text = """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    ENTRY main {
      x = f32[16,64,8] parameter(0), sharding={devices=[4,1,1]<=[4]}
      at = s32[16,4,1] parameter(1), sharding={devices=[4,1,1]<=[4]}
      u = f32[16,4,8] parameter(2), sharding={devices=[4,1,1]<=[4]}
      row = s32[16,4,1] iota(), iota_dimension=0
      both = s32[16,4,2] concatenate(row, at), dimensions={2}
      ROOT y = f32[16,64,8] scatter(x, both, u), update_window_dims={2}, to_apply=add,
        inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=2,
        sharding={devices=[4,1,1]<=[4]}
    }"""
    assert traffic(cut_and_compared(text.replace("16", str(rows)))) == {}


@pytest.mark.parametrize(
    ("of", "to", "tiles"),
    [("6,8,4", "12,16", "8,1"), ("4,6,16", "24,2,8", "1,8,1")],
)
def test_uneven_parts_of_a_reshape_are_no_parts_of_its_operand(of, to, tiles) -> None:
    text = f"""ENTRY main {{
      x = f32[{of}] parameter(0)
      y = f32[{of}] copy(x)
      ROOT z = f32[{to}] reshape(y), sharding={{devices=[{tiles}]<=[8]}}
    }}"""
    assert traffic(cut_and_compared(text, 8)) == {}


@pytest.mark.parametrize("feature", [0, 2])
def test_a_batch_norm_is_cut_along_its_features(feature: int) -> None:
    dims = [8, 4, 8]
    tiles = ",".join("4" if d == feature else "1" for d in range(3))
    dims_text = ",".join(map(str, dims))
    mark, small = f"sharding={{devices=[{tiles}]<=[4]}}", "sharding={devices=[4]<=[4]}"
    text = f"""ENTRY main {{
      x = f32[{dims_text}] parameter(0), {mark}
      scale = f32[8] parameter(1), {small}
      offset = f32[8] parameter(2), {small}
      n = (f32[{dims_text}], f32[8], f32[8]) batch-norm-training(x, scale, offset),
        epsilon=0.001, feature_index={feature}
      ROOT y = f32[{dims_text}] get-tuple-element(n), index=0, {mark}
    }}"""
    assert traffic(cut_and_compared(text)) == {}


def test_a_batch_norm_of_cut_rows_sums_its_statistics() -> None:
    text = """ENTRY main {
      x = f32[8,4,8] parameter(0), sharding={devices=[4,1,1]<=[4]}
      scale = f32[8] parameter(1)
      offset = f32[8] parameter(2)
      n = (f32[8,4,8], f32[8], f32[8]) batch-norm-training(x, scale, offset), epsilon=0.001,
        feature_index=2
      ROOT y = f32[8,4,8] get-tuple-element(n), index=0, sharding={devices=[4,1,1]<=[4]}
    }"""
    assert traffic(cut_and_compared(text)).keys() == {"all-reduce"}


MARKED = """HloModule m
ENTRY main {
  x = f32[16,8] parameter(0), sharding={devices=[4,2]<=[8]}
  ROOT y = f32[16,8] negate(x), sharding={MARK}
}"""


@pytest.mark.parametrize("mark", ["devices=[8,1]<=[8]", "maximal device=3", "replicated"])
def test_as_many_partitions_as_shardings_have_devices(mark: str) -> None:
    module = hloom.parse(MARKED.replace("MARK", mark))
    assert hloom.pass_named("spmd-partitioner").run(module).changed
    assert module.num_partitions == 8
    assert module.entry.parameters[0].shape.dims == (4, 4)


def test_shardings_of_one_device_are_nothing_to_partition() -> None:
    module = hloom.parse(
        MARKED.replace("MARK", "replicated").replace("devices=[4,2]<=[8]", "replicated")
    )
    assert not hloom.pass_named("spmd-partitioner").run(module).changed
    assert module.num_partitions == 1


def test_a_program_without_shardings_is_handed_whole_arguments() -> None:
    cut = cut_and_compared("""ENTRY main {
      x = f32[16,8] parameter(0)
      ROOT y = f32[16,8] negate(x)
    }""", 2)  # fmt: skip
    assert cut.entry.root.shape.dims == (16, 8)


AGAIN = {
    "moved": """tail = f32[24,6] slice(x), slice={[0:24], [2:8]}
  head = f32[24,2] slice(x), slice={[0:24], [0:2]}
  y = f32[24,8] concatenate(tail, head), dimensions={1}, sharding={devices=[4,1]<=[4]}""",
    "elementwise": """s = f32[24,8] sine(x), sharding={devices=[1,4]<=[4]}
  y = f32[24,8] multiply(s, s), sharding={devices=[4,1]<=[4]}""",
    "reduced": """z = f32[] constant(0)
  r = f32[24] reduce(x, z), dimensions={1}, to_apply=add, sharding={devices=[4]<=[4]}
  b = f32[24,8] broadcast(r), dimensions={0}
  y = f32[24,8] add(b, x), sharding={devices=[4,1]<=[4]}""",
    "counted": """n = f32[24,8] iota(), iota_dimension=0
  y = f32[24,8] cosine(n), sharding={devices=[4,1]<=[4]}""",
}


@pytest.mark.parametrize("name", AGAIN)
@pytest.mark.parametrize("read", ["replicated", "devices=[1,4]<=[4]", "devices=[2,2]<=[4]"])
def test_what_every_device_has_whole_is_computed_again(name: str, read: str) -> None:
    cut = cut_and_compared(f"""add {{ a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT s = f32[] add(a, b) }}
    ENTRY main {{
      x = f32[24,8] parameter(0), sharding={{replicated}}
      {AGAIN[name]}
      other = f32[24,8] negate(y), sharding={{{read}}}
      ROOT both = (f32[24,8], f32[24,8]) tuple(y, other),
        sharding={{{{devices=[4,1]<=[4]}}, {{{read}}}}}
    }}""", 4)  # fmt: skip
    assert traffic(cut) == {}


@pytest.mark.parametrize(("size", "kinds"), [(8, set()), (256, {"all-gather"})])
def test_much_work_is_not_done_again(size: int, kinds: set[str]) -> None:
    """A product of matrices of 256 is worth more than the bytes of its result."""
    cut = cut_and_compared(f"""ENTRY main {{
      x = f32[{size},{size}] parameter(0), sharding={{replicated}}
      y = f32[{size},{size}] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}},
        sharding={{devices=[4,1]<=[4]}}
      n = f32[{size},{size}] negate(y), sharding={{replicated}}
      ROOT both = (f32[{size},{size}], f32[{size},{size}]) tuple(y, n),
        sharding={{{{devices=[4,1]<=[4]}}, {{replicated}}}}
    }}""", 4)  # fmt: skip
    assert set(traffic(cut)) == kinds


@pytest.mark.parametrize(("shape", "body", "result"), [
    ("0,8", "ROOT y = f32[0,8] negate(x)", "[1,8]"),
    ("0,8", "ROOT y = f32[8,0] transpose(x), dimensions={1,0}", "[8,1]"),
    ("8,0", "ROOT y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
     "[1,8]"),
    ("0,8", "ROOT y = f32[8,8] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
     "[1,8]"),
    ("0,8", "ROOT y = f32[0,8] concatenate(x, x), dimensions={0}", "[1,8]"),
])  # fmt: skip
def test_arrays_without_elements_are_gathered_too(shape: str, body: str, result: str) -> None:
    for target in ("replicated", f"devices={result}<=[8]"):
        cut_and_compared(f"""ENTRY main {{
          x = f32[{shape}] parameter(0), sharding={{devices=[8,1]<=[8]}}
          {body}, sharding={{{target}}}
        }}""", 8)  # fmt: skip


def test_what_nobody_reads_behind_a_barrier_is_not_gathered_for_it() -> None:
    cut = cut_and_compared("""ENTRY main {
      a = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
      b = f32[8,4] parameter(1), sharding={devices=[4,1]<=[4]}
      n = f32[8,4] negate(a)
      m = f32[8,4] negate(b)
      t = (f32[8,4], f32[8,4]) tuple(n, m), sharding={{replicated},{devices=[4,1]<=[4]}}
      held = (f32[8,4], f32[8,4]) opt-barrier(t), sharding={{replicated},{devices=[4,1]<=[4]}}
      ROOT r = f32[8,4] get-tuple-element(held), index=1, sharding={devices=[4,1]<=[4]}
    }""", 4)  # fmt: skip
    assert not traffic(cut)
    assert any(i.opcode == "opt-barrier" for i in cut.instructions())


@pytest.mark.parametrize(("to", "narrow_bytes"), [("f32", 2), ("bf16", 2), ("f64", 2), ("s8", 1)])
def test_the_narrower_side_of_a_convert_is_received(to: str, narrow_bytes: int) -> None:
    """Read cut and whole: what is gathered is what was converted where that is less."""
    cut = cut_and_compared(f"""ENTRY main {{
      x = bf16[16,24] parameter(0), sharding={{devices=[4,1]<=[4]}}
      c = {to}[16,24] convert(x), sharding={{devices=[4,1]<=[4]}}
      n = {to}[16,24] negate(c), sharding={{devices=[4,1]<=[4]}}
      a = {to}[16,24] abs(c), sharding={{replicated}}
      ROOT r = ({to}[16,24], {to}[16,24]) tuple(n, a),
        sharding={{{{devices=[4,1]<=[4]}}, {{replicated}}}}
    }}""", 4)  # fmt: skip
    (gather,) = [i for i in cut.instructions() if i.opcode == "all-gather"]
    assert gather.shape.size_bytes == 16 * 24 * narrow_bytes


JOINED = """ENTRY main {
  x = f32[8,12] parameter(0), sharding={devices=[1,4]<=[4]}
  y = f32[8,4] parameter(1), sharding={devices=[4,1]<=[4]}
  rows = f32[8,1,12] reshape(x), sharding={devices=[1,1,4]<=[4]}
  p = f32[8,12] pad(y, zero), padding=0_0x4_4, sharding={devices=[4,1]<=[4]}
  more = f32[8,1,12] reshape(p), sharding={devices=[4,1,1]<=[4]}
  both = f32[8,2,12] concatenate(rows, more), dimensions={1}, sharding={devices=[1,1,4]<=[4]}
  ROOT d = f32[8,2,2] dot(both, both), lhs_batch_dims={0}, lhs_contracting_dims={2},
    rhs_batch_dims={0}, rhs_contracting_dims={2}, sharding={devices=[4,1,1]<=[4]}
}""".replace("  rows =", "  zero = f32[] constant(0)\n  rows =")


def test_what_is_joined_is_received_in_its_pieces() -> None:
    """One of them stands as it is read already; and what a product reads twice is received once."""
    assert traffic(cut_and_compared(JOINED, 4)) == {"all-to-all": 8 * 12 // 4}


def test_long_chains_of_joins_are_priced_in_time() -> None:
    """Each joins the one before with itself: prices are not looked up for every way through it."""
    text = "ENTRY main {\n  v0 = f32[8,4,1] parameter(0), sharding={devices=[4,1,1]<=[4]}\n"
    for k in range(1, 13):
        n = 1 << k
        text += f"  w{k} = f32[8,4,{n // 2}] negate(v{k - 1}), sharding={{devices=[4,1,1]<=[4]}}\n"
        text += (
            f"  v{k} = f32[8,4,{n}] concatenate(v{k - 1}, w{k}), dimensions={{2}},"
            " sharding={devices=[4,1,1]<=[4]}\n"
        )
    text += "  ROOT r = f32[8,4,4096] abs(v12), sharding={devices=[1,4,1]<=[4]}\n}"
    assert traffic(cut_and_compared(text, 4)).keys() == {"all-to-all"}


STACKED = """body { s = (s32[], f32[6,16,32], f32[6,16,32]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  xs = f32[6,16,32] get-tuple-element(s), index=1
  ys = f32[6,16,32] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  x = f32[1,16,32] dynamic-slice(xs, k, zero, zero), dynamic_slice_sizes={1,16,32},
    sharding={devices=[1,8,1]<=[8]}
  y = f32[1,16,32] tanh(x), sharding={devices=[1,8,1]<=[8]}
  new = f32[6,16,32] dynamic-update-slice(ys, y, k, zero, zero)
  one = s32[] constant(1)
  next = s32[] add(k, one)
  ROOT t = (s32[], f32[6,16,32], f32[6,16,32]) tuple(next, xs, new) }
condition { s = (s32[], f32[6,16,32], f32[6,16,32]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  last = s32[] constant(6)
  ROOT l = pred[] compare(k, last), direction=LT }
ENTRY main { xs = f32[6,16,32] parameter(0), sharding={devices=[1,8,1]<=[8]}
  ys = f32[6,16,32] parameter(1), sharding={replicated}
  zero = s32[] constant(0)
  t = (s32[], f32[6,16,32], f32[6,16,32]) tuple(zero, xs, ys)
  w = (s32[], f32[6,16,32], f32[6,16,32]) while(t), condition=condition, body=body,
    sharding={{replicated}, {devices=[1,8,1]<=[8]}, {replicated}}
  ROOT r = f32[6,16,32] get-tuple-element(w), index=2, sharding={replicated} }"""


def test_what_a_loop_writes_is_gathered_and_not_what_it_writes_to() -> None:
    """The update's result has no sharding of its own: it stands as the array written to."""
    module = parsed(STACKED, 8)
    x, y = hloom.random_arguments(module, seed=1)
    want = hloom.evaluate(module, x, y)
    partition_in_place(module, frozenset(("sharding-propagation",)))
    (gather,) = [i for i in module.instructions() if i.opcode == "all-gather"]
    assert gather.shape.dims == (1, 16, 32)
    for part in evaluate_lockstep(module, split_arguments(module, [x, y])):
        np.testing.assert_allclose(part.array, want.array, rtol=1e-5)


REPEATED = """less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT }
ENTRY main { x = f32[16,6] parameter(0), sharding={devices=[8,1]<=[8]}
  k = (f32[16,5], s32[16,5]) topk(x), k=5, largest=true, sharding={CUT, CUT}
  v = f32[16,5] get-tuple-element(k), index=0, sharding=CUT
  s = f32[16,6] sort(x), dimensions={0}, to_apply=less, sharding={replicated}
  ROOT t = (f32[16,6], f32[16,5]) tuple(s, v), sharding={{replicated}, {replicated}}
}""".replace("CUT", "{devices=[8,1]<=[8]}")


def test_what_is_computed_of_something_gathered_by_then_is_computed_again() -> None:
    """The sort asks for all of x; the largest elements of its rows are not gathered, too."""
    assert traffic(cut_and_compared(REPEATED, 8)) == {"all-gather": 16 * 6}


@pytest.mark.parametrize(
    ("steps", "received"),
    [
        ("c = f32[16,8] convert(h) ROOT r = f32[16,8] exponential(c), SAID", 16 * 8 * 2),
        ("n = f32[16,8] sine(x) ROOT r = c64[16,8] complex(x, n), SAID", 16 * 8 * 4),
        ("n = f32[16,8] sine(x) p = pred[16,8] compare(x, n), direction=LT, sharding={CUT} "
         "ROOT r = s32[16,8] convert(p), SAID", 16 * 8),
    ],
)  # fmt: skip
def test_the_narrowest_of_a_chain_of_elements_is_received(steps: str, received: int) -> None:
    text = f"""ENTRY main {{
      h = bf16[16,8] parameter(0), sharding={{CUT}}
      x = f32[16,8] parameter(1), sharding={{CUT}}
      {steps.replace("SAID", "sharding={replicated}")} }}"""
    cut = cut_and_compared(text.replace("CUT", "devices=[8,1]<=[8]"), 8)
    [gather] = [i for i in cut.instructions() if i.opcode in COLLECTIVES]
    assert gather.shape.size_bytes == received


def test_a_mirrored_array_that_is_read_whole_is_not_handed_on_first() -> None:
    """Its parts are, where it is read as it is cut."""
    text = """ENTRY main { x = f32[16,6] parameter(0), sharding={devices=[8,1]<=[8]}
      r = f32[16,6] reverse(x), dimensions={0}, sharding={devices=[8,1]<=[8]}
      ROOT n = f32[16,6] negate(r), sharding={SAID} }"""
    assert traffic(cut_and_compared(text.replace("SAID", "replicated"), 8)) == {"all-gather": 96}
    cut = cut_and_compared(text.replace("SAID", "devices=[8,1]<=[8]"), 8)
    assert traffic(cut) == {"collective-permute": 12}
