"""Places: text both ways, and a check that finds what is wrong."""

from dataclasses import replace

import pytest

from hloom.base.diagnostics import UsageError
from hloom.ir.text import parse_module
from hloom.memory.assign import assign_buffers
from hloom.memory.copies import insert_copies
from hloom.plan.text import parse_buffer_assignment, show_buffer_assignment
from hloom.plan.verify import violations
from hloom.program.slice import BufferSlice
from hloom.schedule.least_memory import least_memory_order
from hloom.types.sizes import dynamic_size_offset, size_bytes
from hloom.types.text import shape_from_text
from tests.memory.drawn_modules import Drawn
from tests.memory.placed import placed


@pytest.mark.parametrize("seed", range(5))
def test_text_reads_back_as_itself(seed):
    module = Drawn(seed, 6).module()
    _, assignment, _ = placed(module)
    assert parse_buffer_assignment(show_buffer_assignment(assignment), module) == assignment


def test_wrong_text_names_the_line():
    module = parse_module("HloModule m\nENTRY e { ROOT a = f32[2] parameter(0) }")
    with pytest.raises(UsageError, match="line 2: neither"):
        parse_buffer_assignment("live 4\nnonsense\n", module)


def three():
    module = parse_module("""HloModule m
ENTRY e { a = f32[9] parameter(0)
  b = f32[9] negate(a)
  c = f32[9] reverse(b), dimensions={0}
  ROOT d = f32[9] add(c, b) }""")
    order = least_memory_order(module)
    insert_copies(module, order)
    return module, assign_buffers(module, order)


def test_the_check_finds_overlap_bounds_and_writes_to_parameters():
    module, assignment = three()
    assert not list(violations(module, assignment))
    k = next(k for k, v in enumerate(assignment.values) if v.instruction.name == "b")
    b = assignment.values[k]
    c = next(v for v in assignment.values if v.instruction.name == "c")
    given = assignment.allocations[0]
    for place, rule in (
        (replace(c.slice, offset=c.slice.offset + 4, size_bytes=8), "overlap"),
        (replace(b.slice, size_bytes=10_000), "bounds"),
        (BufferSlice(given, 0, 36), "read-only"),
    ):
        assignment.values[k] = replace(b, slice=place)
        assert rule in {e.rule for e in violations(module, assignment)}


def test_asking_for_what_has_no_place():
    module, assignment = three()
    with pytest.raises(UsageError, match="no buffer at index"):
        assignment.slice(module.entry["a"], (0,))


@pytest.mark.parametrize(
    ("text", "size"),
    [("s4[3,5]", 15), ("pred[7]", 7), ("c64[2]", 16), ("f32[]", 4), ("f32[0,3]", 0),
     ("bf16[<=3,5]", 40), ("s8[<=4]", 8), ("token[]", 0)],
)  # fmt: skip
def test_sizes(text, size):
    assert size_bytes(shape_from_text(text)) == size


def test_where_the_sizes_of_dynamic_dimensions_stand():
    shape = shape_from_text("bf16[<=3,5]")
    assert [dynamic_size_offset(shape, k) for k in (0, 1)] == [32, 36]
