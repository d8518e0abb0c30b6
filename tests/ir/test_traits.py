"""What is known of an opcode stands on its declaration, and nowhere else."""

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.analysis.alias_fusion import is_elementwise
from hloom.analysis.cost import module_cost
from hloom.analysis.fusible import POINT, role
from hloom.interp.registry import MEANING
from hloom.ir import op as declarations
from hloom.ir import traits
from hloom.ir.infer import elementwise as infer
from hloom.ir.kinds import Int
from hloom.ir.op import OPS, Operand, op, opcode_table, opcodes, opcodes_where
from hloom.ir.traits import ASSOCIATIVE, COMMUTATIVE, ELEMENTWISE, SIDE_EFFECT, Trait
from hloom.types.shape import Shape

HLOOM = Path(hloom.__file__).parent
OWN_LANGUAGE = ("ir/ops/", "kernel/", "codegen/llvm/", "frontends/stablehlo/")
"""The declarations; and rooms whose operations only have names like those of HLO: the language of
kernels, and StableHLO."""
XLA = "what XLA's verifier or parser asks of single opcodes, each for a reason of its own"
COSTS = "numbers, not facts: what an element costs on a device, whose room sees no declarations"
DRAWN = "which numbers a drawn instance gets, an opcode at a time"
NUMPY = "how numpy computes it"
ALLOWED = {
    "passes/partition/notes.py": "a sentence for each collective",
    "analysis/attention.py": "what stands between the two dots of an attention, as JAX writes it",
    "codegen/elements.py": "operations of the language of kernels that HLO has too",
    "codegen/kernel_cost.py": "operations of the language of kernels",
    "device/costs.py": COSTS,
    "interp/draw_kernel_ops.py": "operations of the language of kernels",
    "interp/elementwise.py": NUMPY,
    "interp/gather_scatter.py": NUMPY,
    "interp/ranges.py": DRAWN,
    "ir/custom_call_rules.py": "the names of custom calls, not of opcodes",
    "ir/proto/attributes.py": "which message holds the attributes of an opcode",
    "ir/text/demands.py": XLA,
    "ir/text/expression.py": "the sign that people read for an opcode",
    "ir/text/readable.py": "what people need not see in a line of its own",
    "ir/verify/calls.py": XLA,
    "ir/verify/collectives.py": XLA,
    "ir/verify/layouts.py": XLA,
    "ir/verify/pairs.py": XLA,
    "ir/verify/shapes.py": XLA,
    "passes/layout/layout_normalization.py": "whose layouts the caller or a host has to find",
    "passes/layout/reshape_to_bitcast.py": "what the pass looks at: its own subject",
    "passes/simplify/constant_folding.py": "what makes much out of little",
    "program/thunks/collective.py": "numbers that native code has for exchanges",
    "targets/cpu/lower/collective_fold.py": "kinds of thunks, not opcodes",
    "targets/cpu/lower/loop_steps.py": "what this target writes in line",
    "tools/calibrate.py": "what is measured, one at a time",
    "targets/cpu/share.py": "the routines of the runtime that work in place",
}
"""Files that may hold sets of three opcodes or more, and why that is no fact about opcodes."""


def names_in(node: ast.AST) -> list[str]:
    """The strings of a literal collection, or of one written as a text to split."""
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        parts = node.elts
    elif isinstance(node, ast.Dict) and all(
        isinstance(v, ast.Constant | ast.Tuple) for v in node.values
    ):
        parts = [k for k in node.keys if k is not None]
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "split"
        and isinstance(node.func.value, ast.Constant)
    ):
        return str(node.func.value.value).split()
    else:
        return []
    return [x.value for x in parts if isinstance(x, ast.Constant) and isinstance(x.value, str)]


def kept_values(tree: ast.Module) -> Iterator[ast.AST]:
    """All that is assigned to a name of a module or class, but for what registers or exempts:
    arguments of calls other than frozenset, set and tuple, and the opcodes that a pass expands."""
    bodies = [tree.body, *(x.body for x in tree.body if isinstance(x, ast.ClassDef))]
    work: list[ast.AST] = [
        x.value
        for body in bodies
        for x in body
        if isinstance(x, ast.Assign | ast.AnnAssign) and x.value is not None
        if not (isinstance(x, ast.Assign) and "opcodes" in map(ast.unparse, x.targets))
    ]
    while work:
        x = work.pop()
        yield x
        if isinstance(x, ast.Call) and not keeps_its_arguments(x):
            continue
        work += ast.iter_child_nodes(x)


def keeps_its_arguments(call: ast.Call) -> bool:
    """Whether a call makes a collection of its arguments, other than a table of functions."""
    of = ast.unparse(call.func)
    if of == "dict.fromkeys" and len(call.args) == 2:
        return isinstance(call.args[1], ast.Constant) or ast.unparse(call.args[1]).isupper()
    return of in ("frozenset", "set", "tuple")


def sets_of_opcodes(text: str) -> list[list[str]]:
    """The sets of three opcodes and more that a file keeps, which a pass does not replace."""
    found = []
    for x in kept_values(ast.parse(text)):
        names = names_in(x)
        known = [n for n in names if n in OPS]
        if len(known) >= 3 and 2 * len(known) >= len(names):
            found.append(names)
    return found


def test_no_sets_of_opcodes_beside_the_declarations():
    found = {}
    for path in sorted(HLOOM.rglob("*.py")):
        where = path.relative_to(HLOOM).as_posix()
        if not where.startswith(OWN_LANGUAGE) and (sets := sets_of_opcodes(path.read_text())):
            found[where] = sets
    new = {k: v for k, v in found.items() if k not in ALLOWED}
    assert not new, f"declare a trait in hloom/ir/traits.py instead: {new}"
    assert set(ALLOWED) == set(found), "the list of exceptions only shrinks"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('A = frozenset(["add", "divide", "copy"])', 1),
        ('A = frozenset("add divide copy".split()) | B', 1),
        ('class P:\n    A = ("add", "divide", "copy")', 1),
        ('A = {"add": 1, "divide": 2, "copy": 3}', 1),
        ('A = {"add": f, "divide": g, "copy": h}', 0),
        ('A = {**dict.fromkeys(["add", "divide", "copy"], 3)}', 1),
        ('A = {**dict.fromkeys(["add", "divide", "copy"], f)}', 0),
        ('class P:\n    opcodes = frozenset(["add", "divide", "copy"])', 0),
        ('A = opcodes(FREE, also=("add", "divide", "copy"))', 0),
        ('A = ("add", "divide")', 0),
        ('A = ("one", "two", "three")', 0),
    ],
)
def test_what_counts_as_a_set_of_opcodes(text, count):
    assert len(sets_of_opcodes(text)) == count


def test_every_trait_is_declared_of_an_opcode_and_asked_for():
    text = "\n".join(
        path.read_text()
        for path in HLOOM.rglob("*.py")
        if not path.relative_to(HLOOM).as_posix().startswith(("ir/ops/", "ir/traits.py"))
    )
    asked = {
        x.id
        for x in ast.walk(ast.parse(text.replace("from __future__ import annotations", "")))
        if isinstance(x, ast.Name)
    }
    for name, trait in vars(traits).items():
        if isinstance(trait, Trait):
            assert opcodes(trait), f"no opcode is {name}"
            assert name in asked, f"nobody asks which opcodes are {name}"


def test_traits_fit_one_another():
    assert set(opcodes(ASSOCIATIVE)) < set(opcodes(COMMUTATIVE)) < set(opcodes(ELEMENTWISE))
    for name in OPS:
        declared = OPS[name]
        if declared.start_of is not None:
            assert OPS[declared.start_of].fields == declared.fields or name == "copy-start"
            assert [d for d in OPS if OPS[d].done_of == name], f"nothing waits for {name}"
        if declared.done_of is not None:
            assert traits.ASYNC in OPS[declared.done_of].traits & declared.traits
    for name in opcodes(COMMUTATIVE):
        assert OPS[name].operand_count == 2


def test_exceptions_beside_traits():
    assert "copy" in opcodes(COMMUTATIVE, also=("copy",))
    assert "add" not in opcodes(COMMUTATIVE, without=("add",))
    assert set(opcodes(COMMUTATIVE, SIDE_EFFECT)) == {*opcodes(COMMUTATIVE), *opcodes(SIDE_EFFECT)}
    assert set(opcodes()) == set()


@pytest.fixture
def new_opcode():
    """An opcode declared here alone, with its meaning; forgotten again afterwards."""
    name = "absolute-difference"

    @op(name, ELEMENTWISE, COMMUTATIVE)
    class AbsoluteDifference:
        """out[i] = |x - y| times scale."""

        x: Operand
        y: Operand
        scale: Int = 1

        def shape(self, x: Shape, y: Shape) -> Shape:
            return infer.unary(x, infer.is_number, "number")

    @MEANING.of(name)
    def absolute_difference(i, frame, x, y):
        return np.asarray(abs(x - y) * i.attrs.scale, x.dtype)

    yield name
    for registry in (OPS, MEANING):
        del registry._items[name]
    for _, table in declarations._TABLES:
        table.pop(name, None)


PROGRAM = """HloModule m

ENTRY e {
  x = f32[3] parameter(0)
  y = f32[3] parameter(1)
  a = f32[3] absolute-difference(x, y), scale=2
  b = f32[3] absolute-difference(y, x), scale=2
  unread = f32[3] absolute-difference(x, x)
  ROOT sum = f32[3] add(a, b)
}
"""


def test_a_new_opcode_needs_its_declaration_and_a_meaning(new_opcode):
    module = hloom.parse(PROGRAM)
    hloom.verify(module)
    assert "%a = f32[3]{0} absolute-difference(%x, %y), scale=2" in hloom.show(module)
    again = hloom.parse(hloom.show(module))
    x, y = np.float32([1, 2, 3]), np.float32([3, 2, -1])
    for m in (module, again):
        assert hloom.evaluate(m, x, y).array.tolist() == [8, 0, 16]
    assert not module.entry.root.operands[0].has_side_effect
    cost = module_cost(module).total
    assert (cost.flops, cost.transcendentals) == (12, 0)


def test_a_new_opcode_is_in_the_tables(new_opcode):
    module = hloom.parse(PROGRAM)
    for name, left in (("dce", 3), ("cse", 2)):
        hloom.pass_named(name).run(module)
        assert module.instruction_count == left + 2
    assert hloom.evaluate(module, np.ones(3, "f"), np.zeros(3, "f")).array.tolist() == [4, 4, 4]
    assert is_elementwise(new_opcode)
    assert role(module.entry.root.operands[0])[0] == POINT


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("absolute-difference(x)", "takes 2 operands, got 1"),
        ("absolute-difference(x, y), scales=2", "scales"),
    ],
)
def test_a_new_opcode_is_checked(new_opcode, line, message):
    with pytest.raises(hloom.HloError, match=message):
        hloom.parse(PROGRAM.replace("absolute-difference(x, x)", line))


def test_a_table_has_what_was_declared_before_and_after(new_opcode):
    assert new_opcode in opcodes_where(lambda op: op.name.startswith("absolute"))
    assert opcode_table(lambda op: op.operand_count)[new_opcode] == 2
