"""Metadata, stack frames, free attributes, configs, aliases: text and back, and what they mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.base.diagnostics import ParseError, UsageError
from hloom.ir.text.cursor import Cursor, blank_comments
from hloom.ir.values.aliasing import (
    AliasEntry,
    BufferDonors,
    InputOutputAlias,
    OutputOperandAlias,
    OutputOperandAliasing,
    parse_buffer_donors,
    parse_input_output_alias,
    parse_output_operand_aliasing,
)
from hloom.ir.values.backend_config import BackendConfig, parse_backend_config
from hloom.ir.values.backend_schema import (
    CollectiveBackendConfig,
    CpuBackendConfig,
    CpuFusionBackendConfig,
    GpuBackendConfig,
    GpuFusionBackendConfig,
    WhileLoopBackendConfig,
)
from hloom.ir.values.domain import Domain, parse_domain
from hloom.ir.values.frontend import (
    FrontendAttributes,
    InstructionStatistics,
    parse_frontend_attributes,
    parse_statistics,
)
from hloom.ir.values.layouts import parse_entry_layout, parse_shapes, show_entry_layout, show_shapes
from hloom.ir.values.metadata import NO_METADATA, OpMetadata, parse_metadata
from hloom.ir.values.original_value import (
    OriginalArray,
    OriginalTuple,
    OriginalValue,
    parse_original_value,
)
from hloom.ir.values.sharding import REPLICATED, Sharding
from hloom.ir.values.stack_frames import StackFrameIndex, parse_stack_frames
from hloom.types.text import shape_from_text

NAME = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.\-]{0,6}", fullmatch=True)
LINE = st.integers(1, 2**31 - 1)
INDEX = st.lists(st.integers(0, 9), max_size=3).map(tuple)
COUNT = st.integers(0, 9)


def read(reader, text):
    """Read all of a text."""
    cursor = Cursor(text)
    value = reader(cursor)
    assert cursor.skip() == len(text)
    return value


metadata = st.builds(
    OpMetadata,
    op_type=st.text(),
    op_name=st.text(),
    source_file=st.text(),
    source_line=LINE,
    source_end_column=LINE,
    profile_type=st.lists(st.integers(0, 3), max_size=3).map(tuple),
    deduplicated_name=st.text(),
    stack_frame_id=LINE,
    scheduling_name=st.text(),
    metadata_payload=st.text(),
)


@given(metadata)
def test_metadata_round_trip(value):
    assert read(parse_metadata, value.text) == value


def test_metadata_order_and_empty():
    text = '{source_line=3 stack_frame_id=5, op_name="f/add" op_type="add" source_file="x.py"}'
    shown = '{op_type="add" op_name="f/add" source_file="x.py" source_line=3 stack_frame_id=5}'
    assert read(parse_metadata, text).text == shown
    assert read(parse_metadata, shown) == read(parse_metadata, text)
    assert read(parse_metadata, "{}").is_empty
    assert NO_METADATA.text == "{}"


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ('{op_name="a" op_name="b"}', "twice", 14),
        ('{bad="x"}', "unknown metadata 'bad'", 2),
        ("{op_name=a}", "op_name is a quoted string", 10),
        ('{source_line="3"}', "source_line is an integer", 14),
        ("{source_line=99999999999}", "32 bits", 14),
        ('{op_name="a"', "part of metadata", 13),
        ("{profile_type={9}}", "0 to 3", 15),
    ],
)
def test_metadata_errors(text, message, column):
    with pytest.raises(ParseError, match=message) as caught:
        parse_metadata(Cursor(text))
    assert caught.value.location.column == column


def test_names_when_a_call_is_inlined():
    caller, own = OpMetadata(op_name="x"), OpMetadata(op_name="y", source_line=3)
    assert own.called_from(caller) == OpMetadata(op_name="x/y", source_line=3)
    assert own.called_from(caller).called_from(caller).op_name == "x/y"
    assert own.called_from(NO_METADATA) is own
    long = OpMetadata(op_name="c" * 1020)
    ten = OpMetadata(op_name="d" * 10)
    assert ten.called_from(long) is ten
    assert len(own.called_from(OpMetadata(op_name="c" * 1022)).op_name) == 1024


FRAMES = """FileNames
1 "x.py"
2 "a \\"b\\".py"

FunctionNames
1 "f"
2 "<module>"

FileLocations
1 {file_name_id=1 function_name_id=1 line=6 end_line=6 column=11 end_column=20}
2 {file_name_id=2 function_name_id=2 line=7 end_line=8 column=0 end_column=0}

StackFrames
1 {file_location_id=2 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}

"""


def test_stack_frames():
    frames = read(parse_stack_frames, FRAMES)
    assert frames.text == FRAMES
    # In text the parent is one higher than in the proto: frame 2 was called by frame 1.
    assert [f.parent_frame_id for f in frames.stack_frames] == [0, 1]
    inner, outer = frames.frames(2)
    assert (inner.file, inner.function, inner.line, inner.end_column) == ("x.py", "f", 6, 20)
    assert (outer.file, outer.function, outer.end_line) == ('a "b".py', "<module>", 8)
    assert frames.frames(1) == [outer]
    assert frames.frames(0) == frames.frames(9) == frames.frames(-1) == []
    placed = OpMetadata(op_name="n", stack_frame_id=2).with_inlined_frames(frames)
    assert placed.text == (
        '{op_name="n" source_file="x.py" source_line=6 source_end_line=6 source_column=11'
        " source_end_column=20}"
    )
    assert not StackFrameIndex()
    assert StackFrameIndex().text == ""


def test_stack_frame_cycles_end():
    text = FRAMES.replace("location_id=2 parent_frame_id=1", "location_id=2 parent_frame_id=3")
    assert len(read(parse_stack_frames, text).frames(1)) == 2


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ('2 "a', '3 "a', "expected row 2, found 3", 3),
        ("line=7", "line=7 line=8", "twice", 11),
        ("column=0", "colum=0", "colum is unknown", 11),
        ("parent_frame_id=2}", "parent_frame_id=2", "to end a row", 17),
        ("FunctionNames", "FileNames", "FileNames is given twice", 5),
        ("line=7", "line=4294967296", "2147483647", 11),
    ],
)
def test_stack_frame_errors(old, new, message, line):
    with pytest.raises(ParseError, match=message) as caught:
        parse_stack_frames(Cursor(FRAMES.replace(old, new)))
    assert caught.value.location.line == line


@given(st.dictionaries(NAME, st.text() | st.sampled_from(["{}", '{"a":"}"}', "{", "{a}b", "}{"])))
def test_frontend_attributes_round_trip(values):
    attributes = FrontendAttributes.of(values)
    assert read(parse_frontend_attributes, attributes.text) == attributes
    assert dict(attributes) == values
    assert attributes == values


def test_frontend_attributes_are_a_map():
    a = read(parse_frontend_attributes, '{k="v",a={b={c}},k="w"}')
    assert a.text == '{a={b={c}},k="w"}'
    assert a.get("k") == "w"
    assert a.get("z") is None
    assert "a" in a
    assert a.with_(z="1").without("a", "k").text == '{z="1"}'
    assert a.updated({"k": "u"})["k"] == "u"
    assert hash(a) == hash(FrontendAttributes.of({"k": "w", "a": "{b={c}}"}))


def test_raw_values_keep_what_looks_like_a_comment():
    text = "{k={a /*b*/ = 1}} /* out */"
    cursor = Cursor(blank_comments(text), original=text)
    assert parse_frontend_attributes(cursor)["k"] == "{a /*b*/ = 1}"
    assert cursor.skip() == len(text)


@given(st.integers(0, 3), st.lists(st.tuples(NAME, st.floats(allow_nan=False)), min_size=1))
def test_statistics_round_trip(index, pairs):
    value = InstructionStatistics(index, tuple(pairs))
    assert read(parse_statistics, value.text) == value


arrays = st.none() | st.builds(OriginalArray, st.text(), INDEX)
trees = st.recursive(
    arrays, lambda t: st.lists(t, max_size=3).map(lambda e: OriginalTuple(tuple(e))), max_leaves=8
)


@given(trees)
def test_original_value_round_trip(tree):
    value = OriginalValue(tree)
    # The text of an unknown array alone is that of the empty tree of XLA.
    assert read(parse_original_value, value.text) == value


def test_original_value_leaves():
    value = read(parse_original_value, '{({"a"}, ({"b" {1,2}}, {}))}')
    assert [index for index, _ in value.leaves()] == [(0,), (1, 0), (1, 1)]
    assert value.prefixed("f").text == '{({"f/a"}, ({"f/b" {1,2}}, {}))}'
    assert read(parse_original_value, "{[synthetic_call]}").is_synthetic_call
    with pytest.raises(ParseError, match="deeper"):
        parse_original_value(Cursor("{" + "(" * 100000))


def test_backend_config_compares_by_meaning():
    a = read(parse_backend_config, '{"a":1,"b":2}')
    b = read(parse_backend_config, '{"b":2, "a":1}')
    assert a == b
    assert hash(a) == hash(b)
    assert a.text() == '{"a":1,"b":2}'
    assert b.text() == '{"b":2, "a":1}'
    assert b.text(sort=True) == a.text(sort=True) == '{"a":1,"b":2}'
    assert read(parse_backend_config, '"{\\"a\\":1,\\"b\\":2}"') == a
    assert a != read(parse_backend_config, '{"a":1,"b":3}')
    raw = read(parse_backend_config, '"abc"')
    assert raw.json is None
    assert raw.text() == raw.text(sort=True) == '"abc"'
    assert raw != read(parse_backend_config, '"ab c"')
    assert read(parse_backend_config, "{a = 1 : i32}").json is None
    assert BackendConfig('{"a":' * 100000).json is None
    assert BackendConfig('{"a":1}') != BackendConfig('{"a":true}')


@given(st.text())
def test_backend_config_round_trip(raw):
    config = BackendConfig(raw)
    assert read(parse_backend_config, config.text()).raw == raw


def test_backend_config_typed():
    text = (
        '{"operation_queue_id":"0","force_earliest_schedule":false,"reification_cost":[],'
        '"fusion_backend_config":{"kind":"__triton_gemm","triton_gemm_config":{"block_m":"64",'
        '"block_n":"32","block_k":"128"}}}'
    )
    gpu = BackendConfig(text).typed(GpuBackendConfig)
    assert gpu.operation_queue_id == 0
    assert isinstance(gpu.fusion_backend_config, GpuFusionBackendConfig)
    assert gpu.fusion_backend_config.triton_gemm_config.block_k == 128
    assert BackendConfig.of(gpu).typed(GpuBackendConfig) == gpu
    collective = GpuBackendConfig(
        operation_queue_id=2,
        collective_backend_config=CollectiveBackendConfig(is_sync=True, backend="NVSHMEM"),
    )
    assert BackendConfig.of(collective).raw == (
        '{"operation_queue_id":2,"collective_backend_config":{"is_sync":true,"backend":"NVSHMEM"}}'
    )
    cpu = CpuBackendConfig((2, 4), fusion_config=CpuFusionBackendConfig("k"))
    assert BackendConfig.of(cpu).json["outer_dimension_partitions"] == [2, 4]
    assert BackendConfig.of(cpu).typed(CpuBackendConfig) == cpu
    loop = BackendConfig('{"knownTripCount":{"n":"7"},"dynamic_variables":[{"tuple_index":"1"}]}')
    assert loop.typed(WhileLoopBackendConfig).known_trip_count.n == 7
    assert BackendConfig("").typed(CpuBackendConfig) == CpuBackendConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"no_such":1}', "unknown field 'no_such' in GpuBackendConfig"),
        ('{"fusion_backend_config":{"kin":1}}', "unknown field 'kin' in .*fusion_backend_config"),
        ('{"operation_queue_id":"x"}', "operation_queue_id is a number"),
        ('{"operation_queue_id":1.5}', "an integer"),
        ('{"operation_queue_id":1e999}', "an integer"),
        ('{"force_earliest_schedule":1}', "true or false"),
        ('{"reification_cost":{}}', "a list"),
        ('{"device_type":"X"}', "one of DEVICE_TYPE_INVALID"),
        ('{"fusion_backend_config":1}', "an object"),
        ('{"fusion_backend_config":{},"gemm_backend_config":{}}', "at most one"),
        ("not json", "not JSON"),
        ("[1]", "an object"),
    ],
)
def test_backend_config_errors_name_the_field(text, message):
    with pytest.raises(UsageError, match=message):
        BackendConfig(text).typed(GpuBackendConfig)


@given(st.lists(st.builds(OutputOperandAlias, INDEX, COUNT, INDEX)))
def test_output_operand_aliasing_round_trip(entries):
    value = OutputOperandAliasing(tuple(entries))
    assert read(parse_output_operand_aliasing, value.text) == value


@given(st.dictionaries(INDEX, st.tuples(COUNT, INDEX, st.sampled_from(["may", "must"]))))
def test_input_output_alias_round_trip(entries):
    value = InputOutputAlias(
        tuple(AliasEntry(k, n, i, f"{kind}-alias") for k, (n, i, kind) in sorted(entries.items()))
    )
    assert read(parse_input_output_alias, value.text) == value


@given(st.sets(st.tuples(COUNT, INDEX)))
def test_buffer_donors_round_trip(entries):
    value = BufferDonors(tuple(sorted(entries)))
    assert read(parse_buffer_donors, value.text) == value


def test_alias_checks():
    f, t = shape_from_text("f32[2]{0}"), shape_from_text("(f32[2], s32[])")
    check = read(parse_output_operand_aliasing, "{{0}: (1, {}), {1}: (0, {1})}").check
    assert check(t, (t, f)) is None
    assert "no operand 1" in check(t, (t,))
    assert "no part {1}" in check(f, (t, f)) or "no part {0}" in check(f, (t, f))
    assert "is s32[]" in read(parse_output_operand_aliasing, "{{1}: (0, {})}").check(t, (f,))
    twice = read(parse_output_operand_aliasing, "{{0}: (0, {}), {0}: (0, {})}")
    assert "twice" in twice.check(t, (f,))
    alias = read(parse_input_output_alias, "{{0}: (0, {0}), {1}: (0, {0})}")
    assert "two outputs" in alias.check((t,), t)
    assert alias.for_output((1,)).parameter_shape_index == (0,)
    assert alias.for_parameter(0) is None
    assert "no parameter 0" in alias.check((), t)
    donors = read(parse_buffer_donors, "{(0, {0})}")
    assert donors.check((t,)) is None
    assert "both" in donors.check((t,), alias)
    assert "no part {0}" in donors.check((f,))


def test_domain_and_layouts():
    domain = Domain(REPLICATED, Sharding.maximal(1))
    assert read(parse_domain, domain.text) == domain
    with pytest.raises(ParseError, match="no exit="):
        parse_domain(Cursor('{kind="sharding", entry={replicated}}'))
    shapes = read(parse_shapes, "{f32[2,3], (s32[], f32[4]{0})}")
    assert show_shapes(shapes) == "{f32[2,3]{1,0}, (s32[], f32[4]{0})}"
    layout = read(parse_entry_layout, "{(f32[2,3]{0,1}, s32[]) -> (f32[4])}")
    assert show_entry_layout(layout) == "{(f32[2,3]{0,1}, s32[])->(f32[4]{0})}"
    with pytest.raises(ParseError) as caught:
        parse_shapes(Cursor("\n{f32[2], q99[3]}"))
    assert (caught.value.location.line, caught.value.location.column) == (2, 10)
