"""Builders, configs, single modules, program shapes."""

import inspect

import pytest

import hloom
from hloom.api import file_bytes, load_bytes
from hloom.ir.values.backend_config import BackendConfig
from hloom.ir.values.backend_schema import CollectiveBackendConfig, GpuBackendConfig
from hloom.types.shape import checked_shape
from hloom.types.text import shape_from_text


def test_three_calls_of_one_computation_and_of_three_copies():
    for copies in (False, True):
        b = hloom.Builder("m")
        inner = b.computation("f")
        f = inner.finish(inner.negate(inner.parameter("f32[]")))
        x = b.parameter("f32[]")
        for _ in range(3):
            x = b.call(x, to_apply=b.copy_of(f) if copies else f)
        module = b.build(x)
        if copies:
            hloom.pass_named("dce").run(module)
        hloom.verify(module)
        callees = {i.called[0] for i in module.entry if i.opcode == "call"}
        assert len(callees) == (3 if copies else 1)
        assert sum(sum(c.callers.values()) for c in callees) == 3
        assert hloom.evaluate(module, 2.0).array == -2.0
        alone = hloom.Builder.stand_alone(f)
        hloom.verify(alone)
        assert hloom.evaluate(alone, 2.0).array == -2.0


def test_a_finished_computation_serves_the_children_of_the_builder():
    b = hloom.Builder("m")
    add = b.scalar("add", "f32")
    child = b.computation("inner")
    v = child.parameter("f32[4]")
    total = child.reduce(v, child.constant(0.0, "f32[]"), dimensions=(0,), to_apply=add)
    inner = child.finish(total)
    x = b.parameter("f32[4]")
    root = b.add(
        b.call(x, to_apply=inner),
        b.reduce(x, b.constant(0.0, "f32[]"), dimensions=(0,), to_apply=add),
    )
    module = b.build(root)
    assert {i.parent.name for i in add.callers} == {"inner", module.entry.name}
    other = hloom.Builder("other")
    with pytest.raises(hloom.HloError, match="another module"):
        other.call(other.parameter("f32[4]"), to_apply=inner)


CONFIG = GpuBackendConfig(
    operation_queue_id=3,
    force_earliest_schedule=True,
    collective_backend_config=CollectiveBackendConfig(is_sync=True),
)


def test_a_config_survives_everything():
    module = hloom.parse("ENTRY e {\n p = f32[2] parameter(0)\n ROOT n = f32[2] negate(p)\n}")
    module.entry.root.backend_config = BackendConfig.of(CONFIG)
    for other in (
        hloom.copy_module(module),
        hloom.parse(hloom.show(module)),
        hloom.parse(hloom.show(module, "short-parsable")),
        load_bytes(file_bytes(module, "pb")).module,
    ):
        assert other.entry.root.backend_config.typed(GpuBackendConfig) == CONFIG
        assert hloom.difference(module, other) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"operation_queue_id":"1","bogus":3}', "bogus"),
        ('{"collective_backend_config":{"is_sync":true,"zap":3}}', "zap"),
        ('{"force_earliest_schedule":"x"}', "force_earliest_schedule"),
        ("hello", "JSON"),
        ("[1]", "object"),
    ],
)
def test_a_config_that_does_not_fit_names_the_field(text, name):
    with pytest.raises(hloom.HloError, match=name):
        BackendConfig(text).typed(GpuBackendConfig)


def test_configs_compare_by_meaning():
    assert BackendConfig('{"a":1,"b":2}') == BackendConfig('{"b":2, "a":1}')
    assert BackendConfig('{"a":{"x":1,"y":2}}') == BackendConfig('{"a":{"y":2,"x":1}}')
    assert BackendConfig('{"a":true}') != BackendConfig('{"a":1}')
    assert BackendConfig('{"a":[1,2]}') != BackendConfig('{"a":[2,1]}')
    assert BackendConfig("x y") != BackendConfig("xy")


def test_no_entry_point_takes_several_modules():
    import hloom.api as api

    pytest.importorskip("jaxlib", reason="some names of the API stand behind jaxlib")
    for name in api.__all__:
        value = getattr(api, name)
        if inspect.isfunction(value):
            for parameter in inspect.signature(value).parameters:
                assert parameter not in ("modules", "module_group"), name
    assert not [o for o in api.OPTIONS if "module_group" in str(o) or "unique_channel" in str(o)]


def test_a_pass_may_return_another_module():
    other = hloom.parse("ENTRY f {\n p = f32[2] parameter(0)\n ROOT n = f32[2] sine(p)\n}")

    class Swap(hloom.Pass):
        name = "swap"

        def run(self, module, *, trace=None, threads=frozenset()):
            return hloom.PassResult(False, module=other)

    first = hloom.parse("ENTRY e {\n p = f32[2] parameter(0)\n ROOT n = f32[2] negate(p)\n}")
    seen = []
    options = hloom.PipelineOptions(invariants=(seen.append,))
    pipeline = hloom.Pipeline("line", (Swap(), hloom.pass_named("dce")))
    result, _ = pipeline.run_recorded(first, options)
    assert result.module is other and result.changed


def test_program_shapes_are_kept():
    text = """HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{1,0}}
ENTRY e {
  p = f32[2,3]{1,0} parameter(0)
  ROOT n = f32[2,3]{1,0} negate(p)
}"""
    module = hloom.parse(text)
    for other in (
        module,
        load_bytes(file_bytes(module, "pb")).module,
        hloom.copy_module(module),
        hloom.parse(hloom.show(module)),
    ):
        assert str(other.program_shape) == "(f32[2,3]{0,1})->f32[2,3]{1,0}"


@pytest.mark.parametrize(
    ("dims", "dynamic"), [((-1,), ()), ((2**32, 2**32), ()), ((2**63,), ()), ((2,), (True, False))]
)
def test_the_validating_way_refuses(dims, dynamic):
    with pytest.raises(hloom.HloError):
        checked_shape("f32", dims, dynamic=dynamic)


@pytest.mark.parametrize("text", ["f32[0,4]", "f32[<=5]", "f32[?]", "f32[?,<=3,0]", "s4[0]"])
def test_unusual_but_legal_shapes(text):
    shape = shape_from_text(text)
    assert str(shape) == text
    assert checked_shape(shape.dtype, shape.dims, dynamic=shape.dynamic) is shape
