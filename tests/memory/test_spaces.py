"""Memory spaces: what layouts ask for is where values are, and nothing else is there."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloom.base.diagnostics import HloError
from hloom.device.device import Compute, Device, MemorySpace
from hloom.interp import evaluate, random_arguments
from hloom.ir.copy import copy_module
from hloom.ir.text import parse_module, show_module
from hloom.memory.assign import AssignOptions
from hloom.memory.copies import CopyOptions
from hloom.memory.spaces import take_spaces, tell_spaces
from hloom.plan.text import parse_buffer_assignment, show_buffer_assignment
from hloom.plan.verify import violations
from tests.memory.drawn_modules import Drawn
from tests.memory.marked import mark
from tests.memory.memory_machine import MemoryMachine, assert_same_result
from tests.memory.placed import placed


def memory(id: int, size: int = 0, alignment: int = 64) -> MemorySpace:
    return MemorySpace(
        id=id,
        name=f"memory{id}",
        size_bytes=size,
        bandwidth_bytes_per_s=1e10,
        alignment_bytes=alignment,
    )


DEVICE = Device(
    name="three",
    kind="cpu",
    compute=Compute(units=2, clock_hz=1e9, vector_bytes=32, vector_registers=16),
    memory_spaces=(memory(0), memory(1, alignment=256), memory(5)),
)


def planned(module, device=DEVICE):
    """Order and places of a module that says where its values are, and how many copies were put
    in."""
    spaces = take_spaces(module, device)
    copies = CopyOptions(spaces=spaces)
    return placed(module, copies, AssignOptions(spaces=spaces, memories=device.memory_spaces))


def run(text, device=DEVICE):
    """The module with its places, run in them; what it gives is what the interpreter says."""
    module = parse_module(text) if isinstance(text, str) else text
    made = copy_module(module)
    order, assignment, _ = planned(made, device)
    arguments = random_arguments(module, 0)
    assert_same_result(
        evaluate(module, *arguments), MemoryMachine(made, order, assignment).run(arguments)
    )
    return made, assignment


def space_of(module, assignment, name):
    """The memory space of an instruction of any computation."""
    for i in assignment.trees:
        if i.name == name:
            return assignment.slice(i).allocation.space
    raise AssertionError(name)


@pytest.mark.parametrize("seed", range(60))
def test_drawn_programs_run_in_their_spaces(seed):
    module = Drawn(seed).module()
    assert mark(module, seed, (1, 5))
    made, assignment = run(module)
    assert any(a.space for a in assignment.allocations)
    text = show_buffer_assignment(assignment)
    assert show_buffer_assignment(parse_buffer_assignment(text, made)) == text


COPIES = """HloModule m
ENTRY e {
  p = f32[64]{0} parameter(0)
  near = f32[64]{0:S(1)} copy(p)
  a = f32[64]{0:S(1)} negate(near)
  back = f32[64]{0} copy(a)
  again = f32[64]{0:S(1)} copy(back)
  ROOT r = f32[64]{0} add(again, p)
}"""


def test_values_are_where_their_layouts_say_and_copies_between_spaces_stay():
    made, assignment = run(COPIES)
    spaces = {name: space_of(made, assignment, name) for name in ("p", "a", "r")}
    assert spaces == {"p": 0, "a": 1, "r": 0}
    moves = [i for i in assignment.trees if i.opcode == "custom-call"]
    slices = [(assignment.slice(i.operands[0]), assignment.slice(i)) for i in moves]
    crossing = [(a.allocation.space, b.allocation.space) for a, b in slices if a != b]
    assert crossing == [(0, 1), (1, 0), (0, 1)]
    tell_spaces(made, assignment)
    text = show_module(made)
    assert "custom-call" not in text and "f32[64]{0:S(1)} negate" in text


LOOP = """HloModule m
body { s = (s32[], f32[64]{0:S(1)}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64]{0:S(1)} get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  z = f32[64]{0:S(1)} cosine(x)
  ROOT t = (s32[], f32[64]{0:S(1)}) tuple(j, z) }
cond { s = (s32[], f32[64]{0:S(1)}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT d = pred[] compare(i, n), direction=LT }
ENTRY e {
  q = f32[64]{0} parameter(0)
  c = f32[64]{0:S(1)} copy(q)
  zero = s32[] constant(0)
  t = (s32[], f32[64]{0:S(1)}) tuple(zero, c)
  w = (s32[], f32[64]{0:S(1)}) while(t), condition=cond, body=body
  r = f32[64]{0:S(1)} get-tuple-element(w), index=1
  ROOT o = (f32[64]{0:S(1)}, f32[64]{0:S(1)}) tuple(r, c)
}"""


def test_the_state_of_a_loop_stays_in_its_space():
    made, assignment = run(LOOP)
    assert {space_of(made, assignment, name) for name in ("c", "x", "z", "r")} <= {1}
    assert {a.space for a in assignment.of_kind("output")} == {1}


@pytest.mark.parametrize("name", ["parameter", "result"])
def test_the_callers_arrays_are_where_the_entry_layout_says(name):
    sides = ["{0:S(5)}" if name == side else "{0}" for side in ("parameter", "result")]
    layout = f"(f32[8]{sides[0]})->f32[8]{sides[1]}"
    _, assignment = run(
        f"HloModule m, entry_computation_layout={{{layout}}}\n"
        "ENTRY e {\n  p = f32[8]{0} parameter(0)\n  ROOT c = f32[8]{0} negate(p)\n}"
    )
    spaces = {a.kind: a.space for a in assignment.allocations}
    assert spaces == {"parameter": 5 * (name == "parameter"), "output": 5 * (name == "result")}


def test_a_parameter_that_is_returned_elsewhere_is_copied():
    _, assignment = run(
        "HloModule m, entry_computation_layout={(f32[8]{0:S(5)})->f32[8]{0}}\n"
        "ENTRY e {\n  ROOT p = f32[8]{0:S(5)} parameter(0)\n}"
        .replace("{0:S(5)} parameter", "{0} parameter")
    )  # fmt: skip
    assert [a.space for a in assignment.allocations] == [5, 0]


def test_a_space_that_a_device_lacks_is_refused():
    module = parse_module(COPIES.replace("S(1)", "S(3)"))
    with pytest.raises(HloError, match=r"no memory space S\(3\)") as caught:
        take_spaces(module, DEVICE)
    assert caught.value.instruction == "%e/%near"
    assert "S(0) memory0, S(1) memory1, S(5) memory5" in str(caught.value)


PLACED = ', frontend_attributes={{_xla_buffer_placement="{}"}}'


@pytest.mark.parametrize(
    ("target", "more", "space"),
    [
        ("MoveToHost", "", 5),
        ("MoveToDevice", "", 0),
        ("annotate_device_placement", PLACED.format("pinned_host"), 5),
        ("annotate_device_placement", PLACED.format("device"), 0),
    ],
)  # fmt: skip
def test_custom_calls_that_ask_for_a_space(target, more, space):
    _, assignment = run(
        "HloModule m\nENTRY e {\n  p = f32[8]{0} parameter(0)\n  q = f32[8]{0} exponential(p)\n"
        f'  h = f32[8]{{0}} custom-call(q), custom_call_target="{target}"{more}\n'
        "  n = f32[8]{0} negate(h)\n  ROOT r = f32[8]{0} add(n, q)\n}"
    )
    moves = [i for i in assignment.trees if i.opcode == "custom-call"]
    assert [assignment.slice(i).allocation.space for i in moves] == ([space] if space else [])


def test_more_than_a_space_holds_is_refused():
    device = replace(DEVICE, memory_spaces=(memory(0), memory(1, 600)))
    run(COPIES, device)
    small = replace(DEVICE, memory_spaces=(memory(0), memory(1, 200)))
    with pytest.raises(HloError, match=r"S\(1\) memory1 has 200 bytes, and m needs \d+") as caught:
        run(COPIES, small)
    assert "%a 256" in str(caught.value)


def test_an_array_of_run_time_size_stays_in_the_default_space():
    module = parse_module(
        "HloModule m\nENTRY e {\n  p = f32[<=8]{0} parameter(0)\n"
        "  ROOT n = f32[<=8]{0:S(1)} negate(p)\n}"
    )
    with pytest.raises(HloError, match="run-time size"):
        take_spaces(module, DEVICE)


def test_a_donated_array_cannot_change_its_space():
    module = parse_module(
        "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }, "
        "entry_computation_layout={(f32[8]{0:S(5)})->f32[8]{0}}\n"
        "ENTRY e {\n  p = f32[8]{0} parameter(0)\n  ROOT n = f32[8]{0} negate(p)\n}"
    )
    with pytest.raises(HloError, match=r"is in S\(5\), and is to be returned"):
        take_spaces(module, DEVICE)


@given(st.integers(0, 10_000), st.sampled_from(["best-fit", "first-fit"]), st.booleans())
@settings(max_examples=40)
def test_no_two_live_values_share_a_byte_and_spaces_hold_what_they_have(seed, heap, apart):
    module = Drawn(seed, 6).module()
    mark(module, seed, (1, 5), 0.5)
    spaces = take_spaces(module, DEVICE)
    options = AssignOptions(spaces=spaces, memories=DEVICE.memory_spaces, heap=heap, apart=apart)
    _, assignment, _ = placed(module, CopyOptions(spaces=spaces), options)
    assert not list(violations(module, assignment))
    used = {}
    for a in assignment.allocations:
        used[a.space] = used.get(a.space, 0) + a.size_bytes
    for space, size in used.items():
        exact = tuple([replace(m, size_bytes=size * (m.id == space)) for m in DEVICE.memory_spaces])
        again = Drawn(seed, 6).module()
        mark(again, seed, (1, 5), 0.5)
        taken = take_spaces(again, DEVICE)
        placed(again, CopyOptions(spaces=taken), replace(options, memories=exact))
        for v in assignment.values:
            if v.slice.allocation.space == 1 and v.slice.allocation.kind == "temp":
                assert v.slice.offset % 256 == 0


def test_programs_that_say_nothing_of_spaces_are_left_as_they_are():
    module = Drawn(3).module()
    before = show_module(module)
    assert not take_spaces(module, DEVICE)
    assert show_module(module) == before
