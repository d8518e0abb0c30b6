"""Memory spaces in layouts."""

import pytest

import hloom
from hloom.types.memory_space import Colour, parse_colour_map, show_colour_map
from hloom.types.text import shape_from_text as shape


def test_the_space_is_part_of_equality_unless_ignored():
    host, device = shape("f32[8]{0:S(5)}"), shape("f32[8]{0}")
    assert host != device and host is not device
    assert host.same(device, ignore_memory_space=True)
    assert host.compatible(device)
    assert not host.same(shape("f32[9]{0}"), ignore_memory_space=True)
    inside = shape("(f32[8]{0:S(5)}, s32[])"), shape("(f32[8]{0}, s32[])")
    assert inside[0] != inside[1] and inside[0].same(inside[1], ignore_memory_space=True)
    assert not shape("f32[8,2]{1,0:S(5)}").same(shape("f32[8,2]{0,1}"), ignore_memory_space=True)


def test_the_entry_layout_pins_parameters_and_results_to_the_host():
    module = hloom.parse(
        "HloModule m, entry_computation_layout={(f32[8]{0:S(5)})->f32[8]{0:S(5)}}\n"
        "ENTRY e {\n  p = f32[8]{0:S(5)} parameter(0)\n  ROOT c = f32[8]{0:S(5)} copy(p)\n}"
    )
    hloom.verify(module)
    again = hloom.parse(hloom.show(module))
    assert again.program_shape.parameters[0].layout.memory_space == 5
    assert again.program_shape.result.layout.memory_space == 5


def test_colour_maps():
    assert parse_colour_map("{0:1,2:2}") == {0: Colour.COLLECTIVE, 2: Colour.TEMPORARY}
    assert parse_colour_map(" { 3 : 0 } ") == {3: Colour.DEFAULT}
    assert parse_colour_map("{}") == {}
    assert show_colour_map({2: 2, 0: 1}) == "{0:1,2:2}"


@pytest.mark.parametrize(
    "text",
    ["{0:9}", "{0:3}", "{0:-1}", "{0:1", "0:1}", "", "{0:1,}", "{,}", "{0:1,0:2}", "{a:1}",
     "{0:1}x", "{0=1}", "{" + "9" * 40 + ":1}"],
)  # fmt: skip
def test_what_is_no_colour_map(text):
    with pytest.raises(hloom.HloError) as caught:
        parse_colour_map(text)
    assert caught.value.location is not None


def test_a_colour_that_is_none_is_not_shown():
    with pytest.raises(hloom.HloError, match="no colour 9"):
        show_colour_map({0: 9})
