"""Every edge gets a verdict, with a reason where it is no."""

import pytest

from hloom.ir.text import parse_module, show_module
from hloom.passes import pass_named
from hloom.passes.fuse.explain import explained, fusion_decisions
from hloom.passes.fuse.fusion_plan import planned
from hloom.passes.fuse.group import Limits

TEXT = """HloModule m
ENTRY e {
  p = f32[5] parameter(0)
  a = f32[5] negate(p)
  b = f32[3] slice(a), slice={[1:4]}
  c = f32[3] exponential(b)
  s = f32[5] custom-call(a), custom_call_target="x"
  ROOT t = (f32[3], f32[5]) tuple(c, s)
}"""


def test_a_decision_has_a_reason_and_a_line():
    module = parse_module(TEXT)
    before = show_module(module)
    found = {(d.producer.name, d.consumer.name): d.reason for d in fusion_decisions(module)}
    assert found == {("b", "c"): None, ("a", "c"): "results of another shape"}
    assert "%b (slice) -> %c (exponential): fused" in explained(module)
    text = explained(module, only="a")
    assert "%a (negate) -> %c (exponential): declined: results of another shape" in text
    assert "%b" not in text
    assert explained(module, only="nobody").strip() == ""
    assert show_module(module) == before


def test_without_results_of_several_the_first_reason_stands():
    module = parse_module(TEXT)
    step = pass_named("fusion", multi_output=False)
    found = {(d.producer.name, d.consumer.name): d.reason for d in fusion_decisions(module, step)}
    assert found["a", "c"] == "it is read outside of kernels"


def test_limits_are_options():
    text = "HloModule m\nENTRY e {\n  x0 = f32[5] parameter(0)\n"
    text += "".join(f"  x{k} = f32[5] negate(x{k - 1})\n" for k in range(1, 21))
    module = parse_module(f"{text}  ROOT r = f32[5] cosine(x20)\n}}")
    pass_named("fusion", max_instructions=7).run(module)
    sizes = [len(c.instructions) for c in module.computations if c.is_fusion]
    assert sorted(sizes) == [8, 8, 8]


@pytest.mark.parametrize(("columns", "is_fused"), [(2048, False), (1024, True)])
def test_a_small_operand_of_a_dot_is_turned_once(columns: int, is_fused: bool):
    """It would be read again, element by element, for each tile of the other one's columns."""
    module = parse_module(f"""HloModule m
ENTRY e {{
  x = f32[50,40] parameter(0)
  y = f32[{columns},50] parameter(1)
  t = f32[40,50] transpose(x), dimensions={{1,0}}
  ROOT d = f32[40,{columns}] dot(t, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
}}""")
    (decision,) = [d for d in fusion_decisions(module) if d.producer.name == "t"]
    assert (decision.reason is None) == is_fused


def test_a_scheduled_module_is_left_alone():
    text = TEXT.replace("HloModule m", "HloModule m, is_scheduled=true")
    assert not pass_named("fusion").run(parse_module(text)).changed


def test_equal_kernels_have_equal_bodies():
    module = parse_module("""HloModule m
ENTRY e {
  p = f32[5] parameter(0)
  q = f32[5] parameter(1)
  m = f32[5] multiply(q, p)
  a = f32[5] add(m, q)
  s = f32[5] custom-call(a), custom_call_target="x"
  n = f32[5] multiply(s, q)
  ROOT b = f32[5] add(n, s)
}""")
    pass_named("fusion").run(module)
    bodies = [show_module_body(c) for c in module.computations if c.is_fusion]
    assert len(bodies) == 2
    assert bodies[0] == bodies[1]


def show_module_body(c):
    return str(c).split("{", 1)[1]


def test_what_only_repeats_does_not_fill_a_kernel():
    text = "HloModule m\nENTRY e {\n  x0 = f32[5] parameter(0)\n"
    for k in range(1, 6):
        text += f"  c{k} = f32[] constant({k})\n  b{k} = f32[5] broadcast(c{k}), dimensions={{}}\n"
        text += f"  x{k} = f32[5] add(x{k - 1}, b{k})\n"
    module = parse_module(text.replace("x5 = ", "ROOT x5 = ") + "}")
    pass_named("fusion", max_instructions=8).run(module)
    assert module.entry.root.opcode == "fusion"
    assert module.entry.root.operands == (module.entry.parameters[0],)


@pytest.mark.parametrize(("rows", "is_fused"), [(1, True), (6, True), (7, False)])
def test_few_rows_have_an_operand_computed_where_it_is_read(rows: int, is_fused: bool):
    module = parse_module(f"""HloModule m
ENTRY e {{
  x = f32[{rows},512] parameter(0)
  w = f32[512,1024] parameter(1)
  c = f32[512,1024] cosine(w)
  ROOT d = f32[{rows},1024] dot(x, c), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}""")
    (decision,) = [d for d in fusion_decisions(module) if d.producer.name == "c"]
    assert (decision.reason is None) == is_fused


@pytest.mark.parametrize(
    ("of", "rows", "is_fused"), [("bf16", 64, False), ("bf16", 4, True), ("f32", 64, True)]
)
def test_rows_of_whole_tiles_are_not_computed_where_they_are_read(
    of: str, rows: int, is_fused: bool
):
    """They are read as they stand; what follows from them is packed again for each block."""
    module = parse_module(f"""HloModule m
ENTRY e {{
  x = {of}[{rows},256] parameter(0)
  s = {of}[256] parameter(1)
  w = {of}[256,128] parameter(2)
  b = {of}[{rows},256] broadcast(s), dimensions={{1}}
  a = {of}[{rows},256] multiply(x, b)
  ROOT d = {of}[{rows},128] dot(a, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}""")
    step = pass_named("fusion", tile_types=(("bf16", "bf16"),))
    (decision,) = [d for d in fusion_decisions(module, step) if d.producer.name == "a"]
    assert (decision.reason is None) == is_fused


@pytest.mark.parametrize(("beside", "is_fused"), [("w", False), ("b", True)])
def test_few_rows_do_not_read_an_operand_in_two_orders(beside: str, is_fused: bool):
    """Vectors go along one of them; the other is turned in tiles by a kernel of its own."""
    module = parse_module(f"""HloModule m
ENTRY e {{
  x = f32[1,2048] parameter(0)
  w = f32[2048,2048] parameter(1)
  s = f32[2048] parameter(2)
  b = f32[2048,2048] broadcast(s), dimensions={{0}}
  t = f32[2048,2048] transpose(w), dimensions={{1,0}}
  c = f32[2048,2048] cosine(t)
  a = f32[2048,2048] add(c, {beside})
  ROOT d = f32[1,2048] dot(x, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}""")
    (decision,) = [d for d in fusion_decisions(module) if d.producer.name == "t"]
    into_dot = decision.reason is None and decision.consumer.name == "d"
    assert into_dot == is_fused


def product_of_chain(links: int) -> str:
    """A product that reads the end of a chain; every link reads both values of the one before."""
    text = (
        "HloModule m\nENTRY e {\n  a0 = f32[64,64] parameter(0)\n  b0 = f32[64,64] parameter(1)\n"
    )
    for k in range(1, links + 1):
        text += f"  a{k} = f32[64,64] add(a{k - 1}, b{k - 1})\n"
        text += f"  b{k} = f32[64,64] multiply(a{k}, b{k - 1})\n"
    text += f"  joined = f32[64,64] subtract(a{links}, b{links})\n  end = f32[64,64] abs(joined)\n"
    text += "  w = f32[64,64] parameter(2)\n  ROOT d = f32[64,64] dot(end, w), "
    return text + "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}"


def test_a_chain_that_is_too_long_for_a_product_ends_where_one_array_is_read():
    short = parse_module(product_of_chain(4))
    pass_named("fusion").run(short)
    assert [x.opcode for x in short.entry.root.operands] == ["parameter"] * 3
    long = parse_module(product_of_chain(40))
    pass_named("fusion").run(long)
    chain, w = sorted(long.entry.root.operands, key=lambda x: x.opcode)
    assert (chain.opcode, w.opcode) == ("fusion", "parameter")
    assert chain.called[0].root.opcode == "subtract"
    assert all(x.opcode == "parameter" for x in chain.operands)


def test_kernels_merge_where_much_is_read_between_them():
    # Between both kernels, in the text's order, runs a long chain which only the second one reads.
    chain = "".join(
        f'  x{k} = f32[5] custom-call(x{k - 1}), custom_call_target="x"\n' for k in range(1, 201)
    )
    module = parse_module(f"""HloModule m
ENTRY e {{
  p = f32[5] parameter(0)
  x0 = f32[5] parameter(1)
  a = f32[5] exponential(p)
  b = f32[5] negate(a)
{chain}  c = f32[5] multiply(a, x200)
  ROOT t = (f32[5], f32[5], f32[5]) tuple(a, b, c)
}}""")
    pass_named("fusion").run(module)
    made = [c for c in module.computations if c.is_fusion]
    assert [sorted(i.opcode for i in c.instructions if i.opcode != "parameter") for c in made] == [
        ["exponential", "multiply", "negate", "tuple"]
    ]


GATED = """HloModule m
ENTRY e {{
  x = f32[256,512] parameter(0)
  a = f32[512,1024] parameter(1)
  b = f32[1024,512] parameter(2)
  d = f32[256,1024] {first}
  t = f32[256,1024] tanh(d)
  s = f32[256,1024] multiply(d, d)
  u = f32[256,1024] add(t, s)
  g = f32[256,1024] multiply(u, d)
  {more}
  ROOT r = f32[256,512] dot(g, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}"""
DOT = "dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def _bodies(text: str) -> list[set[str]]:
    """The opcodes of each fusion, constants aside."""
    module = parse_module(text)
    pass_named("fusion").run(module)
    found = [{i.opcode for i in c.instructions} for c in module.computations if c.is_fusion]
    return [opcodes - {"parameter"} for opcodes in found]


def test_what_reads_a_product_several_times_is_computed_behind_it():
    found = _bodies(GATED.format(first=DOT, more=""))
    assert found == [{"dot", "tanh", "multiply", "add"}]


def test_a_product_that_others_read_keeps_what_reads_it_out():
    # `w` reads the product too, and does not lead to what the second product reads.
    more = 'w = token[] custom-call(d), custom_call_target="w", custom_call_has_side_effect=true'
    for opcodes in _bodies(GATED.format(first=DOT, more=more)):
        assert not {"dot", "tanh"} <= opcodes


def test_what_is_dear_is_not_computed_for_each_block_of_a_product():
    text = GATED.format(first="parameter(3)", more="")
    assert all("dot" not in opcodes for opcodes in _bodies(text))
    # A few rows of the other operand are one block: it is computed once in any case.
    few = text.replace("f32[1024,512]", "f32[1024,48]").replace(
        "r = f32[256,512]", "r = f32[256,48]"
    )
    assert any({"dot", "tanh"} <= opcodes for opcodes in _bodies(few))


def test_what_a_window_reads_is_transposed_before() -> None:
    """Its elements are read for every place of the window, each from a row of its own."""
    for size, is_fused in ((1, True), (3, False)):
        module = parse_module(f"""HloModule m
ENTRY e {{
  x = f32[2,64,512]{{2,1,0}} parameter(0)
  k = f32[{size},64,32]{{2,1,0}} parameter(1)
  t = f32[2,512,64]{{2,1,0}} transpose(x), dimensions={{0,2,1}}
  ROOT r = f32[2,512,32]{{2,1,0}} convolution(t, k), dim_labels=b0f_0io->b0f,
    window={{size={size} pad={size // 2}_{size // 2}}}
}}""")
        [found] = [d for d in fusion_decisions(module) if d.producer.name == "t"]
        assert (found.reason is None) == is_fused


@pytest.mark.parametrize("steps", [10, 400])
def test_single_numbers_are_computed_in_few_kernels(steps):
    """Each kernel of a long program of them would compute all that went before."""
    lines = ["HloModule m", "ENTRY e {", "  v0 = f32[] parameter(0)", "  w0 = f32[] parameter(1)"]
    for k in range(steps):
        lines.append(f"  v{k + 1} = f32[] multiply(v{k}, w{k})")
        lines.append(f"  w{k + 1} = f32[] subtract(w{k}, v{k})")
    lines.append(f"  ROOT r = f32[] add(v{steps}, w{steps}) }}")
    module = parse_module("\n".join(lines))
    plan = planned(module.entry, Limits())
    members = [len(g.members) for g in plan.groups]
    assert len(members) == 1 if steps == 10 else sum(members) <= 4 * 2 * steps


@pytest.mark.parametrize(("rows", "columns"), [(300, 512), (9000, 8)])
def test_rows_that_are_folded_are_not_read_from_columns(rows, columns):
    """A transpose that is a result, too, is no part of the kernel that folds its rows, unless
    those of either side are short."""
    bodies = _bodies(f"""HloModule m
add {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }}
ENTRY e {{
  x = f32[{columns},{rows}] parameter(0)
  z = f32[] constant(0)
  t = f32[{rows},{columns}] transpose(x), dimensions={{1,0}}
  m = f32[{rows}] reduce(t, z), dimensions={{1}}, to_apply=add
  w = f32[{rows},{columns}] broadcast(m), dimensions={{0}}
  d = f32[{rows},{columns}] subtract(t, w)
  q = f32[{rows},{columns}] multiply(d, d)
  v = f32[{rows}] reduce(q, z), dimensions={{1}}, to_apply=add
  ROOT o = (f32[{rows},{columns}], f32[{rows}], f32[{rows}]) tuple(t, m, v) }}""")
    together = any({"transpose", "reduce"} <= opcodes for opcodes in bodies)
    assert together == (columns < 12)
