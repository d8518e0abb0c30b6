"""The short form of asynchronous operations, both ways."""

import pytest

from hloom.base.diagnostics import ParseError
from hloom.ir.copy import difference
from hloom.ir.text import PrintOptions, parse_module, show_module

HEAD = """HloModule m

%neg (a: f32[64]) -> f32[64] {
  %a = f32[64]{0} parameter(0)
  ROOT %n = f32[64]{0} negate(%a)
}

%side (a: f32[64]) -> f32[64] {
  %a = f32[64]{0} parameter(0)
  ROOT %n = f32[64]{0} negate(%a), METADATA
}, execution_thread="host"

ENTRY %e (x: f32[64]) -> f32[64] {
  %x = f32[64]{0} parameter(0)
"""
PAIR = "((f32[64]{0}), f32[64]{0}, s32[])"


def module_of(*lines: str, annotation: str = "sharding={replicated}"):
    head = HEAD.replace("METADATA", annotation)
    return parse_module(head + "".join(f"  {line}\n" for line in lines) + "}\n")


def test_short_form_stands_for_a_computation_of_one_operation():
    module = module_of(
        f'%s = {PAIR} custom-call-start(%x), custom_call_target="foo", backend_config="c"',
        "ROOT %d = f32[64]{0} custom-call-done(%s)",
    )
    start = module.entry["s"]
    (body,) = start.called
    assert (start.opcode, module.entry.root.opcode) == ("async-start", "async-done")
    assert body.root.opcode == "custom-call"
    assert body.root.attrs.custom_call_target == "foo"
    assert body.root.backend_config == start.backend_config
    assert body.execution_thread == "main"
    text = show_module(module)
    assert 'custom-call-start(%x), custom_call_target="foo"' in text
    assert "async_wrapped" not in text
    assert difference(module, parse_module(text)) is None
    unfolded = show_module(module, PrintOptions(async_sugar=False))
    assert "async-start(%x), calls=%async_wrapped" in unfolded
    assert difference(module, parse_module(unfolded)) is None


def test_thread_and_called_computations_go_through():
    module = module_of(
        f'%s = {PAIR} call-start(%x), async_execution_thread="host", to_apply=%neg',
        f"%u = {PAIR} call-update(%s)",
        "ROOT %d = f32[64]{0} call-done(%u)",
    )
    body = module.entry["s"].called[0]
    assert body.execution_thread == "host"
    assert body.root.called == (module["neg"],)
    text = show_module(module)
    assert 'call-start(%x), async_execution_thread="host", to_apply=%neg' in text
    assert difference(module, parse_module(text)) is None


def test_a_wrapper_that_says_more_is_not_folded():
    module = module_of(
        f'%s = {PAIR} async-start(%x), async_execution_thread="host", calls=%side',
        "ROOT %d = f32[64]{0} async-done(%s)",
    )
    text = show_module(module)
    assert "calls=%side" in text and "negate(%a), sharding={replicated}" in text
    assert difference(module, parse_module(text)) is None


def test_a_wrapper_called_twice_is_not_folded():
    module = module_of(
        f"%s = {PAIR} async-start(%x), calls=%neg",
        "%d = f32[64]{0} async-done(%s)",
        f"%t = {PAIR} async-start(%d), calls=%neg",
        "ROOT %u = f32[64]{0} async-done(%t)",
    )
    assert show_module(module).count("calls=%neg") == 2


def test_named_wrappers_are_equal_to_what_is_read_back():
    module = module_of(
        f"%s = {PAIR} async-start(%x), calls=%neg", "ROOT %d = f32[64]{0} async-done(%s)"
    )
    text = show_module(module)
    assert "negate-start(%x)" in text and "%neg " not in text
    assert difference(module, parse_module(text)) is None
    other = parse_module(text.replace("negate-", "cosine-"))
    assert "wrapped operations" in str(difference(module, other))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%s = f32[64] negate-start(%x)", "negate-start needs a shape"),
        ("%s = f32[64] negate-done(%x)", "takes one async operation"),
        ("%s = f32[64] async-done(%x)", "takes one async operation"),
        (f"%s = {PAIR} nothing-start(%x)", "unknown opcode 'nothing-start'"),
        (f"%s = {PAIR} negate-start(%x), foo=1", "unexpected attribute 'foo' of negate"),
        (f"%s = {PAIR} slice-start(%x)", "slice needs the attribute slice"),
        (f"%s = {PAIR} negate-start(%x)\n  %d = f32[64] cosine-done(%s)", "starts negate"),
        (f"%s = {PAIR} async-start(%x), calls=%neg\n  %d = f32[64] async-done(%s), calls=%side",
         "calls %neg, not %side"),
    ],
)  # fmt: skip
def test_errors(line: str, message: str):
    with pytest.raises(ParseError, match=message):
        module_of(line)
