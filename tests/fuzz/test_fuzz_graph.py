"""However a graph is broken, the library answers or raises one HloError: new mutants, and finds."""

import numpy as np
import pytest

from hloom.base.diagnostics import EvalError, VerifyError
from hloom.interp import (
    draw_instance,
    evaluate,
    evaluate_lockstep,
    evaluate_partially,
    random_arguments,
)
from hloom.ir.op import OPS
from hloom.ir.proto import module_from_bytes, module_to_bytes
from hloom.ir.text import parse_module, show_module
from hloom.ir.verify import verify
from hloom.passes import pass_named
from tests.fuzz.check_graph import graph_verdict
from tests.fuzz.programs_graph import CHOICE, FUSED, LOOP
from tests.fuzz.run_graph import mutant


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_mutants(first):
    verdicts = [graph_verdict(mutant(number)[0]) for number in range(first, first + 100)]
    assert "refused" in verdicts
    assert "valid" in verdicts


@pytest.mark.parametrize("text", [LOOP, FUSED, CHOICE], ids=["loop", "fused", "choice"])
def test_unbroken_programs_are_valid(text):
    assert graph_verdict(parse_module(text)) == "valid"


def test_reader_of_a_removed_value():
    module = parse_module(FUSED)
    x = module.entry["h"]
    del module.entry.instructions[x]
    with pytest.raises(VerifyError):
        verify(module)


def test_word_that_an_attribute_does_not_have():
    module = parse_module(LOOP)
    less = module["cond"]["less"]
    less.attrs = OPS["compare"].attrs(direction="BELOW")
    with pytest.raises(VerifyError, match="BELOW") as caught:
        verify(module)
    assert caught.value.rule == "attribute"


def test_attributes_of_another_operation():
    module = parse_module(LOOP)
    module["cond"]["less"].attrs = OPS["add"].empty
    with pytest.raises(VerifyError) as caught:
        verify(module)
    assert caught.value.rule == "attribute"


@pytest.mark.parametrize("size", [-1, 2**61, 2**63])
def test_sizes_past_64_bits(size):
    module = parse_module("HloModule m\n\nENTRY e { ROOT x = f32[4] parameter(0) }")
    x = module.entry.root
    x.shape = x.shape.with_dims((size,))
    module.entry_layout = None
    with pytest.raises(VerifyError, match=r"negative|64 bits"):
        verify(module)
    with pytest.raises(EvalError):
        random_arguments(module)


@pytest.mark.parametrize("count", [0, -1])
def test_no_devices(count):
    module = parse_module(FUSED)
    module.num_partitions = count
    with pytest.raises(VerifyError, match="num_partitions"):
        verify(module)
    with pytest.raises(EvalError):
        evaluate_lockstep(module, [])


def test_entry_that_is_called_stands_before_its_callers():
    module = parse_module(FUSED)
    module.entry = module["inner"]
    module.schedule = module.input_output_alias = module.entry_layout = None
    verify(module)
    assert parse_module(show_module(module)).entry.name == "inner"


def test_dynamic_sizes_in_the_entry_layout():
    text = "HloModule m\n\nENTRY e { ROOT x = f32[<=4] parameter(0) }"
    module = parse_module(text.replace("<=4]", "4]"))
    module.entry.root.shape = parse_module(text).entry.root.shape
    verify(module)
    verify(module_from_bytes(module_to_bytes(module)))


OUTPUTS = """
HloModule outputs, is_scheduled=true

body {
  x = f32[4]{0} parameter(0)
  a = f32[4]{0} negate(x)
  b = f32[4]{0} cosine(x)EDGE
  c = f32[4]{0} sine(x)
  ROOT t = (f32[4]{0}, f32[4]{0}, f32[4]{0}) tuple(a, b, c)
}

ENTRY main {
  p = f32[4]{0} parameter(0)
  f = (f32[4]{0}, f32[4]{0}, f32[4]{0}) fusion(p), kind=kLoop, calls=body
  x = f32[4]{0} get-tuple-element(f), index=0
  z = f32[4]{0} get-tuple-element(f), index=2
  ROOT sum = f32[4]{0} add(x, z)
}
"""


@pytest.mark.parametrize("edge", ["", ", control-predecessors={a}"])
def test_dead_fusion_outputs_in_a_schedule(edge):
    module = parse_module(OUTPUTS.replace("EDGE", edge))
    module.schedule[module["body"]] = module["body"].in_order()
    verify(module)
    pass_named("dce").run(module)
    verify(module)


@pytest.mark.parametrize("opcode", ["async-update", "copy-done"])
def test_unfinished_chain_that_is_returned(opcode):
    module = draw_instance(opcode, 1)
    done = next(i for i in module.entry.instructions if i.opcode.endswith("-done"))
    module.entry.root = done.operands[0]
    verify(module)
    for name in ("dce", "algsimp"):
        pass_named(name).run(module)
        verify(module)


def test_loop_whose_body_is_the_entry():
    module = parse_module(LOOP)
    module.entry, module.entry_layout = module["body"], None
    verify(module)
    shape = module.entry.root.shape
    pass_named("module-dce").run(module)
    pass_named("constant-folding").run(module)
    assert module["body"].root.shape is shape


def test_transpose_that_changes_the_precision():
    module = parse_module(
        "HloModule m\n\nENTRY e { x = f32[2,3] parameter(0)\n"
        " ROOT y = f32[2,3] transpose(x), dimensions={0,1} }"
    )
    module.entry.root.shape = module.entry.root.shape.with_dtype("bf16")
    module.entry_layout = None
    verify(module)
    pass_named("algsimp").run(module)
    assert module.entry.root.opcode == "transpose"


def test_padding_that_does_not_give_the_shape():
    module = parse_module(
        "HloModule m\n\nENTRY e { x = f32[2] parameter(0)\n c = f32[] constant(0)\n"
        " ROOT y = f32[4] pad(x, c), padding=1_1 }"
    )
    huge = parse_module(
        "HloModule m\n\nENTRY e { x = f32[2] parameter(0)\n c = f32[] constant(0)\n"
        " ROOT y = f32[3000000002] pad(x, c), padding=0_3000000000 }"
    )
    module.entry.root.attrs = huge.entry.root.attrs
    with pytest.raises(EvalError, match="padding gives sizes"):
        evaluate(module, np.zeros(2, np.float32))


def test_element_of_itself():
    module = parse_module(LOOP)
    k = module["body"]["k"]
    k.set_operands((k,))
    x = module["body"]["next"]
    x.set_operands((k, k))
    with pytest.raises(VerifyError):
        verify(module)
    with pytest.raises(EvalError):
        evaluate(module, *random_arguments(module))


def test_element_of_itself_partially():
    module = parse_module(LOOP)
    x = module["body"]["x"]
    x.set_operands((x,))
    with pytest.raises(EvalError, match="itself"):
        evaluate_partially(x)


def test_wrong_dot_is_still_shown():
    module = parse_module(FUSED)
    dot = module.entry["m"]
    dot.attrs = OPS["dot"].attrs(lhs_contracting_dims=(7,), rhs_contracting_dims=(9,))
    assert "dot" in module._repr_html_()


def test_rewrite_of_a_scheduled_module_drops_bodies_nobody_calls():
    module = parse_module(FUSED)
    body = module["fused"]
    dead = body.add("fusion", body["d"], shape=body["d"].shape, called=(module["inner"],),
                    kind="kLoop")  # fmt: skip
    assert dead.called
    for i in list(module["main"].instructions):
        if i.opcode == "call":
            i.parent.replace(i, i.operands[0])
    pass_named("dce").run(module)
    verify(module)


def test_open_chain_of_packed_elements():
    # The chain's last step is the result and has its one reader: nothing more may read it.
    module, _ = mutant(6183)
    assert graph_verdict(module) == "valid"
