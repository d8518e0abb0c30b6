"""Costs and statistics against counts worked out by hand."""

import pytest

import hloom
from hloom.analysis.cost import module_cost
from hloom.analysis.statistics import module_statistics

ADD = """%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
"""


def cost_of(line: str, *parameters: str, before: str = ADD):
    text = "".join(f"  %p{k} = {shape} parameter({k})\n" for k, shape in enumerate(parameters))
    return module_cost(
        hloom.parse(f"HloModule m\n{before}\nENTRY %e {{\n{text}  ROOT %r = {line}\n}}\n")
    ).total


@pytest.mark.parametrize(
    ("line", "parameters", "flops", "transcendentals", "size"),
    [
        ("f32[4,8] add(%p0, %p0)", ["f32[4,8]"], 32, 0, 3 * 128),
        ("f32[4,8] tanh(%p0)", ["f32[4,8]"], 0, 32, 2 * 128),
        ("bf16[8] convert(%p0)", ["f32[8]"], 0, 0, 48),
        (
            "f32[4,16] dot(%p0, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            ["f32[4,8]", "f32[8,16]"],
            2 * 4 * 16 * 8,
            0,
            4 * (32 + 128 + 64),
        ),
        (
            "f32[2,4,16] dot(%p0, %p1), lhs_batch_dims={0}, rhs_batch_dims={0}, "
            "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
            ["f32[2,4,8]", "f32[2,8,16]"],
            2 * 2 * 4 * 16 * 8,
            0,
            4 * (64 + 256 + 128),
        ),
        (
            "f32[1,6,6,5] convolution(%p0, %p1), window={size=3x3}, dim_labels=b01f_01io->b01f",
            ["f32[1,8,8,2]", "f32[3,3,2,5]"],
            2 * 6 * 6 * 5 * 9 * 2,
            0,
            4 * (128 + 90 + 180),
        ),
        (
            # Along each dimension windows meet 2, 3, 3, 2 elements, and with holes 1, 2, 1, 2, 1.
            "f32[1,4,5,1] convolution(%p0, %p1), window={size=3x3 pad=1_1x1_1 lhs_dilate=1x2}, "
            "dim_labels=b01f_01io->b01f",
            ["f32[1,4,3,1]", "f32[3,3,1,1]"],
            2 * (2 + 3 + 3 + 2) * (1 + 2 + 1 + 2 + 1),
            0,
            4 * (12 + 9 + 20),
        ),
        (
            "f32[4] reduce(%p0, %p1), dimensions={1}, to_apply=%add",
            ["f32[4,8]", "f32[]"],
            4 * 7,
            0,
            4 * (32 + 1 + 4),
        ),
        ("f32[2,8] slice(%p0), slice={[0:2], [0:8]}", ["f32[1000,8]"], 0, 0, 2 * 64),
        (
            "f32[1000,8] dynamic-update-slice(%p0, %p1, %p2, %p2)",
            ["f32[1000,8]", "f32[1,8]", "s32[]"],
            0,
            0,
            2 * 32,
        ),
        ("s4[9] negate(%p0)", ["s4[9]"], 9, 0, 10),
        ("f32[<=8] negate(%p0)", ["f32[<=8]"], 8, 0, 64),
    ],
)
def test_one_operation(line, parameters, flops, transcendentals, size):
    cost = cost_of(line, *parameters)
    assert (cost.flops, cost.transcendentals, cost.bytes) == (flops, transcendentals, size)


def test_a_fusion_moves_only_its_operands_and_result():
    body = """%body (p: f32[8]) -> f32[8] {
  %p = f32[8] parameter(0)
  %q = f32[8] multiply(%p, %p)
  ROOT %r = f32[8] exponential(%q)
}
"""
    cost = cost_of("f32[8] fusion(%p0), kind=kLoop, calls=%body", "f32[8]", before=body)
    assert (cost.flops, cost.transcendentals, cost.bytes) == (8, 8, 64)


LOOP = """HloModule m
%body (s: (s32[], f32[4])) -> (s32[], f32[4]) {
  %s = (s32[], f32[4]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %v = f32[4] get-tuple-element(%s), index=1
  %w = f32[4] multiply(%v, %v)
  ROOT %state = (s32[], f32[4]) tuple(%next, %w)
}
%condition (c: (s32[], f32[4])) -> pred[] {
  %c = (s32[], f32[4]) parameter(0)
  %j = s32[] get-tuple-element(%c), index=0
  %n = s32[] constant(24)
  ROOT %less = pred[] compare(%j, %n), direction=LT
}
ENTRY %main (x: f32[4], m: s32[]) -> f32[4] {
  %x = f32[4] parameter(0)
  %m = s32[] parameter(1)
  %start = (s32[], f32[4]) tuple(%m, %x)
  %loop = (s32[], f32[4]) while(%start), condition=%condition, body=%body
  ROOT %out = f32[4] get-tuple-element(%loop), index=1
}
"""


def test_a_loop_counts_as_often_as_it_runs():
    known = hloom.parse(
        LOOP.replace("%m = s32[] parameter(1)", "%m = s32[] constant(0)").replace(
            "(x: f32[4], m: s32[])", "(x: f32[4])"
        )
    )
    found = module_statistics(known)
    # 24 times one add and four products, and 25 comparisons.
    assert found.cost.total.flops == 24 * 5 + 25
    assert not found.unknown_loops
    runs = {o.opcode: o.runs for o in found.opcodes}
    assert (runs["multiply"], runs["compare"]) == (24, 25)


def test_an_unknown_loop_counts_once_and_is_named():
    found = module_statistics(hloom.parse(LOOP))
    assert found.cost.total.flops == 5 + 2
    assert [x.instruction.name for x in found.unknown_loops] == ["loop"]
    assert "start at a constant" in found.unknown_loops[0].why


def test_collectives_are_grouped():
    module = hloom.parse(
        f"""HloModule m, replica_count=8
{ADD}
ENTRY %e (x: f32[4]) -> f32[4] {{
  %x = f32[4] parameter(0)
  %a = f32[4] all-reduce(%x), replica_groups={{{{0,1,2,3}},{{4,5,6,7}}}}, to_apply=%add
  %b = f32[4] all-reduce(%a), replica_groups={{{{0,1,2,3}},{{4,5,6,7}}}}, to_apply=%add
  ROOT %c = f32[4] collective-permute(%b), source_target_pairs={{{{0,1}},{{1,0}}}}
}}
"""
    )
    found = module_statistics(module)
    assert [(c.opcode, c.groups, c.count, c.bytes) for c in found.collectives] == [
        ("all-reduce", "2 groups of 4", 2, 32),
        ("collective-permute", "2 pairs", 1, 16),
    ]


def test_biggest_values_and_sizes():
    found = module_statistics(hloom.parse(LOOP), biggest=2)
    assert [i.name for i in found.biggest] == ["w", "x"]
    assert (found.parameter_bytes, found.output_bytes) == (20, 16)


ASYNCHRONOUS = """HloModule m
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %e {
  %x = f32[256] parameter(0)
  %s = START
  ROOT %d = f32[256] DONE(%s)
}
"""


@pytest.mark.parametrize(
    ("start", "done", "size"),
    [
        ("f32[256] all-reduce-start(%x), to_apply=%add", "all-reduce-done", 2048),
        ("(f32[256], f32[256]) all-gather-start(%x), dimensions={0}", "all-gather-done", 3072),
        (
            "(f32[256], f32[256]) collective-permute-start(%x), source_target_pairs={{0,0}}",
            "collective-permute-done",
            3072,
        ),
        ("(f32[256], f32[256], u32[]) copy-start(%x)", "copy-done", 3076),
    ],
)
def test_what_waits_has_been_counted_where_it_began(start, done, size):
    module = hloom.parse(ASYNCHRONOUS.replace("START", start).replace("DONE", done))
    assert module_cost(module).total.bytes == size
