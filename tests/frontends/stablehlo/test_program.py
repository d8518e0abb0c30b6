"""What is said of a whole program: functions, aliasing, donation, shardings, places, layouts."""

import numpy as np
import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")

import hloom
from hloom.frontends.stablehlo.read import module_of_text
from hloom.frontends.stablehlo.write import text_of_module
from hloom.passes.normalize.topk_rewriter import TopkRewriter
from tests.frontends.stablehlo.round_trip import lost

TWICE = """
module @program attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 1 : i32} {
  func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %x, %x : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func private @unused(%x: tensor<2xf32>) -> tensor<2xf32> {
    return %x : tensor<2xf32>
  }
  func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = func.call @f(%a) : (tensor<2xf32>) -> tensor<2xf32>
    %1 = func.call @f(%0) : (tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
}"""


def test_a_function_called_twice_is_one_computation():
    module = module_of_text(TWICE)
    assert module.name == "program"
    assert module.replica_count == 2
    calls = [i for i in module.entry if i.opcode == "call"]
    assert len(calls) == 2
    assert calls[0].called == calls[1].called
    assert len(module.computations) == 2


def test_names_of_any_letters_become_names_of_hlo():
    text = TWICE.replace("@program", '@"1 ä b"').replace("@f", '@"f (x)"')
    module = module_of_text(text)
    assert module.name == "_1___b"
    assert {c.name for c in module.computations} == {"f__x_", "main"}
    assert hloom.parse(hloom.show(module)).name == module.name


def test_combiners_that_are_equal_are_one_computation():
    reduce = """%{r} = "stablehlo.reduce"(%x, %z) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.{op} %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }}) {{dimensions = array<i64: 0>}} : (tensor<2xf32>, tensor<f32>) -> tensor<f32>"""
    body = "\n".join(
        reduce.format(r=r, op=op) for r, op in (("0", "add"), ("1", "add"), ("2", "maximum"))
    )
    module = module_of_text(
        f"func.func @main(%x: tensor<2xf32>, %z: tensor<f32>) -> tensor<f32> {{\n{body}\n"
        "return %2 : tensor<f32>\n}"
    )
    assert len(module.computations) == 3


ALIASED = """
func.func @main(%a: tensor<2xf32> {tf.aliasing_output = 1 : i32},
                %b: tensor<2xf32> {jax.buffer_donor = true},
                %c: tensor<3xi32>) -> (tensor<3xi32>, tensor<2xf32>) {
  %0 = stablehlo.add %a, %b : tensor<2xf32>
  return %c, %0 : tensor<3xi32>, tensor<2xf32>
}"""


def test_aliases_and_donations_are_those_of_the_module():
    module = module_of_text(ALIASED)
    assert module.input_output_alias.text == "{ {1}: (0, {}, may-alias) }"
    assert module.buffer_donors.text == "{ (1, {}) }"
    again = module_of_text(text_of_module(module))
    assert again.input_output_alias == module.input_output_alias
    assert again.buffer_donors == module.buffer_donors


def test_an_alias_to_no_result_is_refused():
    with pytest.raises(hloom.HloError, match="no part") as caught:
        module_of_text(ALIASED.replace("aliasing_output = 1", "aliasing_output = 7"))
    assert caught.value.rule == "aliasing"


SHARDED = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y", ?}]>},
                %b: tensor<8x16xf32> {mhlo.sharding = "{devices=[8,1]<=[8]}"})
    -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) {
  %0 = stablehlo.add %a, %b {sdy.sharding =
    #sdy.sharding_per_value<[<@mesh, [{"x", "y"}, {}]>]>} : tensor<8x16xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{"y":(1)2}, {"x"}]> : tensor<8x16xf32>
  %2 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{"x"}, {"y"}]>]
      out_shardings=[<@mesh, [{"x"}, {"y"}]>] manual_axes={"x"} (%c: tensor<4x16xf32>) {
    %3 = "stablehlo.all_reduce"(%c) ({
      ^bb0(%d: tensor<f32>, %e: tensor<f32>):
        %s = stablehlo.add %d, %e : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [
          #stablehlo.axis_ref<name = "x">]>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>}
      : (tensor<4x16xf32>) -> tensor<4x16xf32>
    sdy.return %3 : tensor<4x16xf32>
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}"""


def test_shardings_by_names_and_by_tiles():
    module = module_of_text(SHARDED)
    hloom.verify(module)
    a, b = module.entry.parameters
    assert a.sharding.text == "{mesh['x'=2,'y'=4], [{'x'}, {'y', ?}]}"
    assert b.sharding.text == "{devices=[8,1]<=[8]}"
    total = next(i for i in module.entry if i.opcode == "add")
    assert total.sharding.text == "{mesh['x'=2,'y'=4], [{'x', 'y'}, {}]}"
    calls = [i for i in module.entry if i.opcode == "custom-call"]
    targets = [i.attrs.custom_call_target for i in calls]
    assert targets == [
        "Sharding",
        "Sharding",
        "SPMDFullToShardShape",
        "Sharding",
        "SPMDShardToFullShape",
    ]
    assert calls[0].sharding.text == "{mesh['x'=2,'y'=4], [{'y':(1)2}, {'x'}]}"
    assert calls[2].sharding.text == "{mesh['x'=2,'y'=4], [{}, {'y'}], manual={'x'}}"
    assert calls[2].shape.bare.text == "f32[4,16]"
    reduce = next(i for i in module.entry if i.opcode == "all-reduce")
    assert reduce.attrs.replica_groups.groups == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert reduce.attrs.channel_id == 3
    assert module.spmd_output_sharding.text == "{mesh['x'=2,'y'=4], [{}, {'y'}]}"


def test_named_computations_are_cut_as_they_say():
    module = module_of_text("""
    module @m {
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func public @main(%a: tensor<16x32xf32>) -> tensor<16x32xf32> {
        %0 = sdy.named_computation<"f">(%a) in_shardings=[<@mesh, [{"x"}, {?}]>]
            out_shardings=[<@mesh, [{?}, {"y"}]>] (%b: tensor<16x32xf32>) {
          %1 = stablehlo.exponential %b : tensor<16x32xf32>
          sdy.return %1 : tensor<16x32xf32>
        } : (tensor<16x32xf32>) -> tensor<16x32xf32>
        return %0 : tensor<16x32xf32>
      }
    }""")
    marks = [i for i in module.instructions() if i.opcode == "custom-call"]
    assert [i.attrs.custom_call_target for i in marks] == ["Sharding", "Sharding"]
    assert [i.sharding.tiled().tile_dims[:2] for i in marks] == [(2, 1), (1, 4)]
    assert [i.operands[0].opcode for i in marks] == ["parameter", "exponential"]


def test_edges_between_passes_of_shardy_are_their_values():
    module = module_of_text("""
    module @m {
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func public @main(%a: tensor<16x32xf32>) -> tensor<16x32xf32> {
        %0 = sdy.func_data_flow_edge %a : tensor<16x32xf32>
        %1 = stablehlo.exponential %0 : tensor<16x32xf32>
        %2 = sdy.data_flow_edge %1 sharding=<@mesh, [{"x"}, {?}]> : tensor<16x32xf32>
        return %2 : tensor<16x32xf32>
      }
    }""")
    (mark,) = (i for i in module.instructions() if i.opcode == "custom-call")
    assert mark.sharding.text == "{mesh['x'=2,'y'=4], [{'x'}, {?}]}"
    assert mark.operands[0].operands[0].opcode == "parameter"


def test_branches_may_say_how_each_of_their_results_is_cut():
    module = module_of_text("""
    module @m {
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func public @main(%a: tensor<16x32xf32>, %k: tensor<i32>) -> tensor<16x32xf32> {
        %0 = "stablehlo.case"(%k) ({
          %1 = sdy.sharding_constraint %a <@mesh, [{"x"}, {}]> : tensor<16x32xf32>
          stablehlo.return %1 : tensor<16x32xf32>
        }, {
          %1 = sdy.sharding_constraint %a <@mesh, [{}, {"y"}]> : tensor<16x32xf32>
          stablehlo.return %1 : tensor<16x32xf32>
        }) : (tensor<i32>) -> tensor<16x32xf32>
        return %0 : tensor<16x32xf32>
      }
    }""")
    hloom.verify(module)
    (branches,) = (i.called for i in module.entry if i.opcode == "conditional")
    assert [c.root.operands[0].sharding.tiled().tile_dims[:2] for c in branches] == [(2, 1), (1, 4)]


def test_shardings_come_back():
    module = module_of_text(SHARDED)
    again = module_of_text(text_of_module(module))
    mine, theirs = ([i.sharding for i in m.entry if i.sharding] for m in (module, again))
    assert len(mine) == len(theirs) >= 8
    assert all(a.same(b) for a, b in zip(mine, theirs, strict=True))


PLACES = """
#file = loc("model.py":3:4)
#caller = loc("main.py":9:1)
#call = loc(callsite("f"(#file) at "run"(#caller)))
func.func @main(%a: tensor<2xf32> loc("weights")) -> tensor<2xf32> {
  %0 = stablehlo.add %a, %a : tensor<2xf32> loc("jit(f)/add"(#call))
  %1 = stablehlo.negate %0 : tensor<2xf32> loc("neg"("model.py":4:7 to :12))
  %2 = stablehlo.abs %1 : tensor<2xf32>
  return %2 : tensor<2xf32>
}"""


def test_locations_are_metadata():
    module = module_of_text(PLACES, "model.mlir")
    (p,) = module.entry.parameters
    assert (p.name, p.metadata.op_name) == ("weights", "weights")
    add, negate, absolute = (
        next(i for i in module.entry if i.opcode == name) for name in ("add", "negate", "abs")
    )
    assert add.metadata.op_name == "jit(f)/add"
    assert (add.metadata.source_file, add.metadata.source_line) == ("model.py", 3)
    frames = module.stack_frames.frames(add.metadata.stack_frame_id)
    assert [(f.function, f.file, f.line) for f in frames] == [
        ("f", "model.py", 3),
        ("run", "main.py", 9),
    ]
    assert negate.metadata.source_column == 7
    assert negate.metadata.source_end_column == 12
    assert (absolute.metadata.source_file, absolute.metadata.source_line) == ("model.mlir", 8)


def test_locations_come_back():
    module = module_of_text(PLACES)
    again = module_of_text(text_of_module(module))
    for i in module.entry:
        other = again.entry[i.name]
        assert (i.metadata is None) == (other.metadata is None)
        if i.metadata is not None:
            assert i.metadata.op_name == other.metadata.op_name
            assert i.metadata.source_line == other.metadata.source_line
    assert again.stack_frames == module.stack_frames


def test_layouts_of_the_entry():
    module = module_of_text(
        """module attributes {
          mhlo.xla_entry_computation_parameter_layouts = [dense<[0, 1]> : tensor<2xindex>],
          mhlo.xla_entry_computation_result_layout = [dense<[1, 0]> : tensor<2xindex>]} {
        func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> { return %a : tensor<2x3xf32> } }"""
    )
    assert module.entry_layout.parameters[0].text == "f32[2,3]{0,1}"
    assert module.entry_layout.result.text == "f32[2,3]{1,0}"
    again = module_of_text(text_of_module(module))
    assert again.entry_layout.parameters == module.entry_layout.parameters


def test_custom_calls_keep_all_that_is_said_of_them():
    module = module_of_text(
        """func.func @main(%a: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<i32>) {
        %0:2 = stablehlo.custom_call @mine(%a) {api_version = 4 : i32, has_side_effect = true,
          backend_config = {n = 3 : i64}, mhlo.frontend_attributes = {k = "v"},
          operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
          result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>],
          output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0],
            operand_index = 0, operand_tuple_indices = []>]}
          : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<i32>)
        return %0#0, %0#1 : tensor<2x3xf32>, tensor<i32> }"""
    )
    again = module_of_text(text_of_module(module))
    for made in (module, again):
        call = next(i for i in made.entry if i.opcode == "custom-call")
        assert call.attrs.custom_call_target == "mine"
        assert call.attrs.api_version == "API_VERSION_TYPED_FFI"
        assert call.attrs.custom_call_has_side_effect
        assert call.attrs.output_to_operand_aliasing.text == "{{0}: (0, {})}"
        assert call.attrs.operand_layout_constraints[0].text == "f32[2,3]{0,1}"
        assert call.shape.text == "(f32[2,3]{0,1}, s32[])"
        assert call.backend_config.raw == "{n = 3 : i64}"
        assert dict(call.frontend_attributes) == {"k": "v"}


RESOURCES = """func.func @main() -> (tensor<3xf32>, tensor<2x2xbf16>) {
  %a = stablehlo.constant dense_resource<blob1> : tensor<3xf32>
  %b = stablehlo.constant dense_resource<other_2> : tensor<2x2xbf16>
  return %a, %b : tensor<3xf32>, tensor<2x2xbf16>
}
{-#
  dialect_resources: {
    builtin: {
      blob1: "0x040000000000803F0000004000004040",
      other_2: "0x02000000803F00400000BFBF"
    }
  }
#-}
"""


def test_constants_in_resources():
    module = module_of_text(RESOURCES)
    a, b = hloom.evaluate(module).elements
    assert a.array.tolist() == [1, 2, 3]
    assert b.array.tolist() == [[1, 2], [0, -1.4921875]]


def test_constants_in_resources_that_are_not_there():
    with pytest.raises(hloom.HloError, match="not in the file") as caught:
        module_of_text(RESOURCES[: RESOURCES.index("{-#")])
    assert caught.value.rule == "resource"


HOST = """func.func @main(%a: tensor<4xf32>, %t: !stablehlo.token)
    -> (tensor<4xf32>, !stablehlo.token) {
  %0:2 = "stablehlo.infeed"(%t) {infeed_config = "f", layout = [[0]]}
    : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  %1 = stablehlo.add %a, %0#0 : tensor<4xf32>
  %2 = "stablehlo.outfeed"(%1, %0#1) {outfeed_config = "o"}
    : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
  %3 = "stablehlo.send"(%1, %2) {is_host_transfer = true,
    channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>}
    : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
  %4:2 = "stablehlo.recv"(%3) {is_host_transfer = true,
    channel_handle = #stablehlo.channel_handle<handle = 6, type = 3>}
    : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  return %4#0, %4#1 : tensor<4xf32>, !stablehlo.token
}"""


def test_transfers_are_pairs_with_a_token():
    module = module_of_text(HOST)
    hloom.verify(module)
    found = [i.opcode for i in module.entry if i.opcode not in ("get-tuple-element", "parameter")]
    assert found == "infeed add tuple outfeed send send-done recv recv-done".split()
    send, recv = (next(i for i in module.entry if i.opcode == o) for o in ("send", "recv"))
    assert (send.attrs.channel_id, recv.attrs.channel_id) == (5, 6)
    assert send.attrs.is_host_transfer
    assert recv.attrs.is_host_transfer
    assert module.entry.root.opcode == "recv-done"
    assert not lost(module)


COLLECTIVES = """func.func @main(%x: tensor<4x8xf32>) -> tensor<16x2xf32> {
  %0 = "stablehlo.all_to_all"(%x) {split_dimension = 1 : i64, concat_dimension = 0 : i64,
    split_count = 4 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}
    : (tensor<4x8xf32>) -> tensor<16x2xf32>
  return %0 : tensor<16x2xf32>
}"""


def test_all_to_all_along_two_dimensions():
    module = module_of_text("module attributes {mhlo.num_replicas = 4 : i32} {" + COLLECTIVES + "}")
    hloom.verify(module)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((4, 8)).astype(np.float32) for _ in range(4)]
    found = hloom.evaluate_lockstep(module, [[x] for x in given])
    for device, result in enumerate(found):
        parts = [x[:, 2 * device : 2 * device + 2] for x in given]
        assert np.array_equal(result.array, np.concatenate(parts, 0))


FEW = """module {
  func.func @greater(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>)
      -> tensor<i1> {
    %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    return %0 : tensor<i1>
  }
  func.func @main(%x: tensor<2x9xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
    %i = stablehlo.iota dim = 1 : tensor<2x9xi32>
    %c = stablehlo.constant dense<-1> : tensor<i32>
    %d = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %d, %c) {
      called_computations = [@greater],
      mhlo.backend_config = {reduction_dim = 1 : i64, top_k = 3 : i64}}
      : (tensor<2x9xf32>, tensor<2x9xi32>, tensor<f32>, tensor<i32>)
      -> (tensor<2x3xf32>, tensor<2x3xi32>)
    return %1#0, %1#1 : tensor<2x3xf32>, tensor<2x3xi32>
  }
}"""


def test_the_first_few_about_in_order_are_a_topk():
    module = module_of_text(FEW)
    assert TopkRewriter().run(module).changed
    hloom.verify(module)
    x = np.random.default_rng(0).standard_normal((2, 9)).astype(np.float32)
    values, places = (e.array for e in hloom.evaluate(module, x).elements)
    assert np.array_equal(values, -np.sort(-x)[:, :3])
    assert np.array_equal(np.take_along_axis(x, places, 1), values)
