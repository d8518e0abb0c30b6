"""The verifier on texts: what it accepts, what it refuses, with which rule and message."""

import pytest

from hloom.base.diagnostics import VerifyError
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.text import parse_module
from hloom.ir.verify import RULES, VerifyOptions, verify, violations
from hloom.types.text import shape_from_text
from tests.ir.verify_cases import Case, cases, expanded
from tests.processor_time import at_most

VALID, INVALID = cases("valid"), cases("invalid")


def name_of(case: Case) -> str:
    return case.name.replace(" ", "_")


@pytest.mark.parametrize("case", VALID, ids=name_of)
def test_valid_modules_pass(case):
    verify(parse_module(case.text))


@pytest.mark.parametrize("case", INVALID, ids=name_of)
def test_invalid_modules_are_refused(case):
    module = parse_module(case.text)
    with pytest.raises(VerifyError) as caught:
        verify(module)
    assert caught.value.rule == case.rule
    assert case.message in str(caught.value)


def test_every_opcode_is_accepted_somewhere():
    accepted = {i.opcode for c in VALID for i in parse_module(c.text).instructions()}
    assert sorted(set(OPS) - accepted) == []


def one_of_each_opcode():
    """For each opcode a valid case and the position of an instruction of it."""
    found = {}
    for case in VALID:
        for position, i in enumerate(parse_module(case.text).instructions()):
            found.setdefault(i.opcode, (case, position))
    return found.items()


# Any shape will do for these, as far as the operation itself goes.
ANY_SHAPE = ("parameter", "bitcast", "custom-call")


@pytest.mark.parametrize(("opcode", "place"), one_of_each_opcode(), ids=lambda x: str(x)[:20])
def test_every_opcode_refuses_a_wrong_shape(opcode, place):
    case, position = place
    module = parse_module(case.text)
    i = list(module.instructions())[position]
    i.shape = shape_from_text("(opaque[], pred[7])")
    wrong = [e for e in violations(module) if (e.instruction or "").endswith(f"/%{i.name}")]
    assert wrong or opcode in ANY_SHAPE
    if wrong:
        assert wrong[0].rule in ("shape", "async-shape")


def test_every_opcode_is_refused_with_reason_somewhere():
    refused = set()
    for case in INVALID:
        module = parse_module(case.text)
        by_place = {f"{i.parent.name}/%{i.name}": i.opcode for i in module.instructions()}
        refused |= {by_place.get(e.instruction or "") for e in violations(module)}
    # A parameter, bitcast or tuple takes anything; the parser refuses wrong constants and
    # reshapes, and makes the shapes of these tokens and pairs itself.
    never = "parameter bitcast constant reshape after-all send-done recv-done".split()
    assert sorted(set(OPS) - refused - set(never)) == []


def test_every_rule_of_an_error_is_in_the_table():
    for case in INVALID:
        for error in violations(parse_module(case.text)):
            assert error.rule in RULES


def test_all_violations_are_listed():
    text = "ENTRY e { x = f32[2] parameter(0)\n a = f32[3] negate(x)\n ROOT b = s32[3] not(a) }"
    found = list(violations(parse_module(expanded(text))))
    assert [e.instruction for e in found] == ["e/%a", "e/%b"]


def check(text: str, rule: str | None, **options: bool) -> None:
    found = list(violations(parse_module(text), VerifyOptions(**options)))
    assert [e.rule for e in found][:1] == ([rule] if rule else [])


def test_mixed_precision():
    text = "ENTRY e { x = f32[2] parameter(0)\n y = bf16[2] parameter(1)\n"
    check(expanded(text + "ROOT a = f32[2] add(x, y) }"), None)
    check(expanded(text + "ROOT a = bf16[2] add(x, y) }"), None)
    check(expanded(text + "ROOT a = f32[2] add(x, y) }"), "precision", allow_mixed_precision=False)
    check(expanded(text + "ROOT a = bf16[2] exponential(x) }"), None)
    check(
        expanded(text + "ROOT a = bf16[2] exponential(x) }"), "shape", allow_mixed_precision=False
    )
    check(expanded(text + "ROOT a = bf16[1,2] broadcast(x), dimensions={1} }"), None)
    check(
        expanded(text + "ROOT a = bf16[1,2] broadcast(x), dimensions={1} }"),
        "precision",
        allow_mixed_precision=False,
    )
    reduced = (
        "z = f32[] constant(0)\nROOT a = f32[] reduce(y, z), dimensions={0}, to_apply=add_f32}"
    )
    check(expanded(text + reduced), None)
    check(expanded(text + reduced), "precision", allow_mixed_precision=False)


def test_sizes_without_bound_need_an_option():
    text = "ENTRY e { x = f32[?,3] parameter(0)\n ROOT y = f32[?,3] negate(x) }"
    check(expanded(text), "unbounded")
    check(expanded(text), None, allow_unbounded=True)


LAYOUTS = {
    "tuple": "x = f32[2,3]{1,0} parameter(0)\n ROOT y = (f32[2,3]{0,1}) tuple(x)",
    "opt-barrier": "x = f32[2,3]{1,0} parameter(0)\n ROOT y = f32[2,3]{0,1} opt-barrier(x)",
    "element": "x = (f32[2,3]{1,0}) parameter(0)\n"
    " ROOT y = f32[2,3]{0,1} get-tuple-element(x), index=0",
    "fusion": "x = f32[2]{0:S(1)} parameter(0)\n"
    " ROOT y = f32[2]{0} fusion(x), kind=kLoop, calls=neg_f32_2",
}


@pytest.mark.parametrize("body", LAYOUTS.values(), ids=LAYOUTS)
def test_layouts_count_only_on_request(body):
    text = expanded("ENTRY e { " + body + " }")
    check(text, None)
    check(text, "layout-same", layout_sensitive=True)


def test_bitcast_keeps_the_bytes():
    text = expanded("ENTRY e { x = f32[4]{0} parameter(0)\n ROOT y = f32[5]{0} bitcast(x) }")
    check(text, None)
    check(text, "bitcast-size", layout_sensitive=True)


def test_copies_between_memories():
    host = "ENTRY e { x = f32[2,3]{1,0:S(5)} parameter(0)\n ROOT y = f32[2,3]{%s} copy(x) }"
    check(expanded(host % "1,0"), None, layout_sensitive=True)
    check(expanded(host % "0,1"), "host-copy", layout_sensitive=True)


def test_layout_changes_can_be_forbidden():
    text = expanded("ENTRY e { x = f32[2,3]{1,0} parameter(0)\n ROOT y = f32[2,3]{0,1} negate(x) }")
    check(text, None, layout_sensitive=True)
    check(text, "layout-change", layout_sensitive=True, check_layout_changes=True)


ADDITION = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"


@pytest.mark.parametrize("last", [2**20 - 1, 2**20, 4_000_000_000])
@pytest.mark.parametrize(
    "form",
    [
        "all-reduce(x), replica_groups=[1,COUNT]<=[COUNT], to_apply=add",
        "all-reduce(x), replica_groups=[COUNT,1]<=[COUNT], to_apply=add",
        "all-reduce(x), replica_groups=mesh['a'=COUNT,'b'=1] {'a'}, to_apply=add",
        "collective-permute(x), source_target_pairs={{0,LAST},{LAST,0}}",
        "collective-broadcast(x), replica_groups={{0,LAST}}",
        "negate(x), sharding={devices=[COUNT]<=[COUNT]}",
        "negate(x), sharding={maximal device=LAST}",
        "negate(x), sharding={mesh['a'=COUNT], [{'a'}]}",
    ],
)
def test_a_few_characters_do_not_name_more_devices_than_memory_holds(form, last):
    form = form.replace("COUNT", str(last + 1)).replace("LAST", str(last))
    text = f"HloModule m\n\n{ADDITION}ENTRY e {{ x = f32[1048576] parameter(0)\n"
    module = parse_module(text + f" ROOT r = f32[1048576] {form} }}")
    if last < 2**20:
        verify(module)
        return
    with pytest.raises(
        VerifyError, match=f"{last + 1:,} devices are more than 1,048,576"
    ) as caught:
        verify(module)
    assert caught.value.rule == "devices"


def header(words: str, body: str) -> str:
    return f"HloModule m, {words}\n\nENTRY e {{ {body} }}\n"


TWO = "x = f32[2]{0} parameter(0)\n y = f32[3]{0} parameter(1)\n ROOT r = (f32[2]{0}, f32[3]{0}) "
TWO += "tuple(x, y)"


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("replica_count=1024, num_partitions=1024", None),
        ("replica_count=1024, num_partitions=1025", "devices"),
        ("input_output_alias={ {0}: (0, {}, may-alias) }", None),
        ("input_output_alias={ {0}: (0, {}, must-alias), {1}: (1, {}, must-alias) }", None),
        ("input_output_alias={ {0}: (1, {}, must-alias) }", "input-output-alias"),
        ("input_output_alias={ {0}: (0, {}), {1}: (0, {}) }", "input-output-alias"),
        ("input_output_alias={ {2}: (0, {}) }", "input-output-alias"),
        ("input_output_alias={ {0}: (2, {}) }", "input-output-alias"),
        ("input_output_alias={ {}: (0, {}) }", "input-output-alias"),
        ("buffer_donor={ (0, {}) }", None),
        ("buffer_donor={ (2, {}) }", "buffer-donor"),
        ("buffer_donor={ (0, {1}) }", "buffer-donor"),
        ("input_output_alias={ {0}: (0, {}) }, buffer_donor={ (0, {}) }", "buffer-donor"),
        ("entry_computation_layout={(f32[2]{0}, f32[3]{0})->(f32[2]{0}, f32[3]{0})}", None),
        (
            "entry_computation_layout={(f32[2]{0}, f32[4]{0})->(f32[2]{0}, f32[3]{0})}",
            "entry-layout",
        ),
        ("entry_computation_layout={(f32[2]{0})->(f32[2]{0}, f32[3]{0})}", "entry-layout"),
        ("entry_computation_layout={(f32[2]{0}, f32[3]{0})->f32[2]{0}}", "entry-layout"),
    ],
)
def test_what_the_header_says_fits_the_entry(words, rule):
    check(header(words, TWO), rule)


GATHER = "x = f32[2] parameter(0)\n ROOT a = f32[8] all-gather(x), dimensions={0}, "


@pytest.mark.parametrize(
    ("words", "attributes", "rule"),
    [
        ("replica_count=4", "replica_groups={}", None),
        ("replica_count=2", "replica_groups={}", "shards"),
        ("replica_count=4", "replica_groups={{0,1,2,3}}", None),
        ("replica_count=8", "replica_groups={{0,1,2,3}}", "groups"),
        ("replica_count=8", "replica_groups={{0,1,2,3},{4,5,6,7}}", None),
        ("num_partitions=4", "replica_groups={}, channel_id=1", None),
        ("num_partitions=2", "replica_groups={}, channel_id=1", "shards"),
        ("replica_count=2, num_partitions=2", "replica_groups={{0,1}}, channel_id=1", None),
        (
            "replica_count=2, num_partitions=2",
            "replica_groups={{0,1,2,3}}, channel_id=1, use_global_device_ids=true",
            None,
        ),
        (
            "num_partitions=4",
            "replica_groups={}, channel_id=1, use_global_device_ids=true",
            "group-mode",
        ),
    ],
)
def test_groups_cover_the_devices_of_the_module(words, attributes, rule):
    check(header(words, GATHER + attributes), rule)


def test_permutations_name_existing_devices():
    body = "x = f32[2] parameter(0)\n ROOT a = f32[2] collective-permute(x), channel_id=1, "
    check(header("num_partitions=4", body + "source_target_pairs={{0,3},{3,0}}"), None)
    check(header("num_partitions=2", body + "source_target_pairs={{0,3},{3,0}}"), "pairs")


def test_sharding_devices_count_only_under_spmd():
    text = "HloModule m, num_partitions=4\n\nENTRY e { ROOT x = f32[4] parameter(0), "
    text += "sharding={devices=[2]0,1} }"
    module = parse_module(text)
    verify(module)
    module.use_spmd_partitioning = True
    with pytest.raises(VerifyError, match="2 tiles do not cover 4"):
        verify(module)


def test_original_values_have_the_leaves_of_the_shape():
    body = "ENTRY e { x = f32[2] parameter(0)\n ROOT t = (f32[2], f32[2]) tuple(x, x), origin="
    check(expanded(body + '{({"a"}, {"b"})} }'), None)
    check(expanded(body + '{({"a"})} }'), "original-value")


SEND_RECV = """HloModule m, is_scheduled=true

ENTRY e {{
  x = f32[2] parameter(0)
  t = token[] after-all()
  r = (f32[2], u32[], token[]) recv(t), channel_id=1, frontend_attributes={{{}}}
  {}s = (f32[2], u32[], token[]) send(x, t), channel_id=1, frontend_attributes={{{}}}
  rd = (f32[2], token[]) recv-done(r), channel_id=1
  ROOT sd = token[] send-done(s), channel_id=1
}}
"""
PAIRS = '_xla_send_recv_source_target_pairs="%s"'
SUM = "z = f32[2] all-reduce(x), replica_groups={}, to_apply=add_f32\n  "


@pytest.mark.parametrize(
    ("receives", "between", "sends", "rule"),
    [
        ("{{0,1}}", "", "{{0,1}}", None),
        ("{{0,1},{1,2}}", "", "{{0,1},{1,2}}", None),
        ("{{0,1}}", "", "{{1,2}}", "deadlock"),
        ("{{0,1},{1,0}}", "", "{{0,1},{1,0}}", "deadlock"),
        ("{{0,1}}", SUM, "{{0,1}}", "deadlock"),
    ],
)
def test_deadlocks(receives, between, sends, rule):
    text = SEND_RECV.format(PAIRS % receives, between, PAIRS % sends)
    if between:
        text = text.replace("\n\nENTRY", "\n\n" + expanded(SUM).split("\n\n")[1] + "\n\nENTRY")
    check(text, rule, check_deadlocks=True)
    check(text, None)


def chain(count: int) -> Module:
    module = Module("chain")
    c = module.add_computation("e", entry=True)
    x = c.add("parameter", number=0, shape=shape_from_text("f32[8]"))
    y = c.add("parameter", number=1, shape=shape_from_text("f32[8]"))
    for k in range(count):
        x = c.add("add" if k % 2 else "multiply", x, y)
    c.root = x
    return module


def test_large_modules_are_verified_without_a_message(monkeypatch):
    module = chain(100_000)
    monkeypatch.setattr("hloom.ir.verify.rules.VerifyError", None)
    with at_most(15):
        verify(module)


def test_deep_nesting_does_not_recurse():
    module = Module("deep")
    shape = shape_from_text("f32[2]")
    below = None
    for k in range(3000):
        c = module.add_computation(f"c{k}")
        x = c.add("parameter", number=0, shape=shape)
        c.root = c.add("call", x, called=(below,)) if below else c.add("negate", x)
        below = c
    module.entry = below
    verify(module)


@pytest.mark.parametrize(("body", "agrees"), [("{manual}", True), ("{replicated}", False)])
def test_one_sharding_of_a_tuple_is_that_of_its_elements(body, agrees):
    text = f"""HloModule m
    body {{ s = (s32[], f32[4]) parameter(0), sharding={{{{{body[1:-1]}}}, {{manual}}}}
      k = s32[] get-tuple-element(s), index=0  v = f32[4] get-tuple-element(s), index=1
      ROOT t = (s32[], f32[4]) tuple(k, v) }}
    condition {{ s = (s32[], f32[4]) parameter(0)  ROOT l = pred[] constant(false) }}
    ENTRY e {{ p = (s32[], f32[4]) parameter(0)
      ROOT w = (s32[], f32[4]) while(p), condition=condition, body=body, sharding={{manual}} }}"""
    rules = [v.rule for v in violations(parse_module(text))]
    assert rules == ([] if agrees else ["loop-sharding"])
