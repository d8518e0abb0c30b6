"""What inlining does to names, frames, origins, order, schedules."""

import pytest

import hloom
from hloom.passes.control.call_inliner import CallInliner, clone_and_inline, inline_call

NESTED = """HloModule m
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b), metadata={{op_name="own"}}
}}
inner {{
  p = f32[4]{{0}} parameter(0)
  n = f32[4]{{0}} negate(p), metadata={{op_name="z"}}
  plain = f32[] constant(0)
  ROOT r = f32[] reduce(n, plain), dimensions={{0}}, to_apply=sum
}}
outer {{
  p = f32[4]{{0}} parameter(0)
  ROOT b = f32[] call(p), to_apply=inner, metadata={{op_name="{inner}"}}
}}
ENTRY e {{
  x = f32[4]{{0}} parameter(0)
  ROOT a = f32[] call(x), to_apply=outer, metadata={{op_name="{outer}"}}
}}
"""


def inlined(text: str, **options):
    module = hloom.parse(text)
    hloom.verify(module)
    arguments = hloom.random_arguments(module)
    before = hloom.evaluate(module, *arguments)
    result = CallInliner(**options).run(module)
    hloom.verify(module)
    assert hloom.evaluate(module, *arguments) == before
    return module, result


def only(module, opcode):
    (found,) = (i for i in module.entry if i.opcode == opcode)
    return found


def test_names_of_nested_calls_add_up():
    module, _ = inlined(NESTED.format(inner="y", outer="x"))
    assert only(module, "negate").metadata.op_name == "x/y/z"
    assert only(module, "constant").metadata.op_name == "x/y"
    assert module["sum"].root.metadata.op_name == "own"


def test_a_prefix_is_not_added_twice():
    module, _ = inlined(NESTED.format(inner="x/y", outer="x"))
    assert only(module, "negate").metadata.op_name == "x/y/z"


@pytest.mark.parametrize(("length", "fits"), [(1022, True), (1023, False)])
def test_names_stay_below_1024(length, fits):
    long = "c" * length
    module, _ = inlined(NESTED.format(inner=long, outer=""))
    assert only(module, "negate").metadata.op_name == (f"{long}/z" if fits else "z")


def test_after_propagate_call_metadata_no_name_is_added():
    module = hloom.parse(NESTED.format(inner="y", outer="x"))
    hloom.pass_named("propagate-call-metadata").run(module)
    CallInliner().run(module)
    assert only(module, "negate").metadata.op_name == "x/y/z"


FRAMES = """HloModule m

FileNames
1 "a.py"

FunctionNames
1 "main"
2 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=10 end_line=10 column=1 end_column=2}
2 {file_name_id=1 function_name_id=2 line=20 end_line=20 column=1 end_column=2}
3 {file_name_id=1 function_name_id=2 line=30 end_line=30 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}
3 {file_location_id=3 parent_frame_id=2}


f {
  p = f32[] parameter(0)
  k = f32[] constant(2)
  m = f32[] multiply(p, k), metadata={op_name="m" stack_frame_id=3}
  ROOT n = f32[] negate(m), metadata={op_name="n" stack_frame_id=2}
}

ENTRY e {
  x = f32[] parameter(0)
  a = f32[] call(x), to_apply=f, metadata={op_name="a" stack_frame_id=1}
  ROOT b = f32[] call(a), to_apply=f, metadata={op_name="b" stack_frame_id=1}
}
"""


def test_stack_frames_are_joined_and_shared():
    text = FRAMES.replace("stack_frame_id=2}", "stack_frame_id=2}")
    module, _ = inlined(text)
    lines = {
        i.name: [s.line for s in module.stack_frames.frames(i.metadata.stack_frame_id)]
        for i in module.entry
        if i.opcode != "parameter"
    }
    # In the text a parent is one higher: frame 3 was called from frame 1.
    assert lines["m"] == [30, 10] and lines["n"] == [20, 10] and lines["k"] == [10]
    assert lines["m.1"] == [30, 10]
    assert len(module.stack_frames.stack_frames) == 4
    again = hloom.parse(hloom.show(module))
    assert hloom.difference(module, again) is None


def test_original_values_name_the_call_or_go():
    text = """f {
  p = f32[] parameter(0), origin={{"p"}}
  ROOT n = f32[] negate(p), origin={{"n"}}
}
ENTRY e {
  x = f32[] parameter(0)
  a = f32[] call(x), to_apply=f, origin={{"call"}}
  b = f32[] call(a), to_apply=f
  ROOT c = f32[] call(b), to_apply=f, origin={[synthetic_call]}
}"""
    module, _ = inlined(text)
    texts = [(i.extra or {}).get("original_value") for i in module.entry if i.opcode == "negate"]
    assert [t and t.text for t in texts] == ['{{"call/n"}}', None, '{{"n"}}']


TWICE = """HloModule m
g {
  p = f32[] parameter(0)
  ROOT n = f32[] negate(p)
}
f {
  p = f32[] parameter(0)
  c = f32[] call(p), to_apply=g
  ROOT s = f32[] sine(c)
}
ENTRY e {
  p = f32[] parameter(0)
  a = f32[] call(p), to_apply=f
  ROOT b = f32[] call(a), to_apply=f
}
"""


def test_no_call_remains():
    module, result = inlined(TWICE)
    assert result.changed and all(i.opcode != "call" for i in module.instructions())
    assert not CallInliner().run(module).changed


def test_in_a_schedule_the_bodies_stand_where_the_calls_stood():
    module, _ = inlined(TWICE.replace("HloModule m", "HloModule m, is_scheduled=true"))
    opcodes = [i.opcode for i in module.schedule[module.entry]]
    assert opcodes == ["parameter", "negate", "sine", "negate", "sine"]
    assert hloom.parse(hloom.show(module)).is_scheduled


def test_a_callback_prohibits_one_site():
    module, _ = inlined(TWICE, allow=lambda i: "prohibit" if i.name == "b" else "allow")
    assert [i.name for i in module.entry if i.opcode == "call"] == ["b"]


@pytest.mark.parametrize(
    ("attributes", "options", "gone"),
    [
        ("", {}, True),
        (', frontend_attributes={inlineable="false"}', {}, False),
        (', frontend_attributes={inlineable="xla_late"}', {}, False),
        (
            ', frontend_attributes={inlineable="false"}',
            {"allow": lambda i: "allow ignoring attributes"},
            True,
        ),
        ("", {"single_call_site": True}, False),
        (', frontend_attributes={inlineable="true"}', {"single_call_site": True}, True),
        (', frontend_attributes={inlineable="xla_early"}', {"single_call_site": True}, True),
        (', backend_config={"a":1}', {}, False),
        (
            ', is_composite=true, frontend_attributes={composite.name="k"}',
            {"composites_to_preserve": frozenset(["k"])},
            False,
        ),
        (', is_composite=true, frontend_attributes={composite.name="k"}', {}, True),
    ],
)
def test_which_calls_stay(attributes, options, gone):
    text = TWICE.replace("call(p), to_apply=f", "call(p), to_apply=f" + attributes)
    module, _ = inlined(text, **options)
    assert ("a" not in {i.name for i in module.entry if i.opcode == "call"}) is gone
    if gone:
        assert all("composite.name" not in (i.frontend_attributes or {}) for i in module.entry)


def test_shard_map_bodies_and_async_computations_stay():
    text = TWICE.replace("f {", "shmap_body.1 {", 1).replace("to_apply=f", "to_apply=shmap_body.1")
    module, _ = inlined(text, uses_shardy=True)
    assert sum(i.opcode == "call" for i in module.entry) == 2
    asynchronous = """HloModule m
f {
  p = f32[] parameter(0)
  ROOT n = f32[] negate(p)
}
w {
  p = f32[] parameter(0)
  ROOT c = f32[] call(p), to_apply=f
}
ENTRY e {
  x = f32[] parameter(0)
  s = ((f32[]), f32[], u32[]) async-start(x), calls=w
  ROOT d = f32[] async-done(s)
}"""
    module, result = inlined(asynchronous)
    assert not result.changed


CONTROL = """HloModule m
f {{
  p = f32[] parameter(0)
  {body}
}}
ENTRY e {{
  x = f32[] parameter(0)
  a = f32[] sine(x)
  c = f32[] call(x), to_apply=f, control-predecessors={{a}}
  b = f32[] cosine(x), control-predecessors={{c}}
  ROOT t = (f32[], f32[], f32[]) tuple(a, b, c)
}}
"""


def test_control_edges_go_to_all_that_is_inlined():
    module, _ = inlined(CONTROL.format(body="q = f32[] negate(p)\n  ROOT r = f32[] exponential(q)"))
    e = module.entry
    a, b, root = e["a"], e["b"], only(module, "exponential")
    assert only(module, "negate").control_predecessors == (a,)
    assert root.control_predecessors == (a,) and b.control_predecessors == (root,)


def test_an_empty_body_hands_the_order_on():
    module, _ = inlined(
        CONTROL.format(body="ROOT q = f32[] copy(p)")
        .replace("q = f32[] copy(p)", "z = f32[] parameter(1)")
        .replace("call(x)", "call(x, x)")
    )
    assert module.entry["a"] in module.entry["b"].control_predecessors


def test_one_call_and_clone_and_inline_and_the_map():
    module = hloom.parse(TWICE)
    made = inline_call(module.entry["a"])
    assert made[module["f"].root].opcode == "sine" and made[module["f"].root].parent is module.entry
    hloom.verify(module)
    copied = clone_and_inline(module, module.entry["b"])
    assert [i.called[0].name for i in copied if i.opcode == "call"] == ["g", "g"]
    assert module.entry["b"].opcode == "call"
    with pytest.raises(hloom.HloError):
        inline_call(module.entry.parameters[0])
    module = hloom.parse(TWICE)
    _, where = CallInliner().run_with_map(module)
    assert where[module["f"].root].parent is module.entry


def test_fuse_attributes_go_to_what_can_be_fused():
    text = TWICE.replace(
        "a = f32[] call(p), to_apply=f",
        'a = f32[] call(p), to_apply=f, frontend_attributes={MUST_FUSE="k",other="v"}',
    )
    module, _ = inlined(text)
    marked = [i.opcode for i in module.entry if i.frontend_attributes]
    assert marked == ["negate", "sine"]
    assert module.entry.parameters[0].frontend_attributes is None


def test_channel_ids_stay():
    text = """HloModule m, replica_count=2
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
f {
  p = f32[4]{0} parameter(0)
  k = token[] after-all()
  s = (f32[4]{0}, u32[], token[]) send(p, k), channel_id=7, is_host_transfer=true
  d = token[] send-done(s), channel_id=7, is_host_transfer=true
  ROOT r = f32[4]{0} all-reduce(p), channel_id=1, replica_groups={}, to_apply=sum
}
ENTRY e {
  x = f32[4]{0} parameter(0)
  a = f32[4]{0} call(x), to_apply=f
  ROOT b = f32[4]{0} call(a), to_apply=f
}"""
    module = hloom.parse(text)
    assert CallInliner().run(module).changed
    hloom.verify(module)
    channels = [
        (i.opcode, i.attrs.channel_id) for i in module.entry if hasattr(i.attrs, "channel_id")
    ]
    assert channels.count(("send", 7)) == 2 and channels.count(("all-reduce", 1)) == 2
