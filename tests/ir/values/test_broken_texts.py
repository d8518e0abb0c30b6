"""Texts with a piece cut out, doubled or replaced: a value or a `ParseError`, never else.

What is still read must also print as text that reads back as the same value.
"""

import random

import pytest

from hloom.base.diagnostics import ParseError
from hloom.ir.text.cursor import Cursor, blank_comments
from hloom.ir.values.aliasing import (
    parse_buffer_donors,
    parse_input_output_alias,
    parse_output_operand_aliasing,
)
from hloom.ir.values.backend_config import parse_backend_config
from hloom.ir.values.conv_dims import parse_conv_dims
from hloom.ir.values.domain import parse_domain
from hloom.ir.values.frontend import parse_frontend_attributes, parse_statistics
from hloom.ir.values.groups import parse_replica_groups
from hloom.ir.values.layouts import parse_entry_layout, parse_shapes, show_entry_layout, show_shapes
from hloom.ir.values.metadata import parse_metadata
from hloom.ir.values.original_value import parse_original_value
from hloom.ir.values.padding import parse_padding
from hloom.ir.values.precision import parse_result_accuracy
from hloom.ir.values.sharding import parse_sharding
from hloom.ir.values.slices import parse_slices
from hloom.ir.values.stack_frames import parse_stack_frames
from hloom.ir.values.window import parse_window

TEXTS = {
    parse_window: ["{size=3x3 stride=2x2 pad=1_1x-1_1 lhs_dilate=2x2 rhs_reversal=1x0}"],
    parse_conv_dims: ["b01f_01io->b01f", "b?0f_0io?->0bf"],
    parse_padding: ["0_0_0x1_-2_3"],
    parse_slices: ["{[0:4], [1:9:2]}"],
    parse_replica_groups: [
        "{{0,1},{2,3}}",
        "[4,2]<=[2,4]T(1,0)",
        "mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'x','y':(1)2}",
        "mesh['x'=2,'y'=2], device_ids=(3,1,2,0) {'x'}",
    ],
    parse_sharding: [
        '{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated} metadata={op_name="a"}}',
        "{{maximal device=3}, {devices=[2,2]0,1,3,2 shard_as 1}, {replicated}}",
        "{mesh['x'=2,'y'=4], [{'y':(1)2, ?}, {?}], replicated={'x'}, unreduced={'y':(2)2}}",
        "{mesh['x'=2], manual, metadata={{op_name=\"s\"}, {}}}",
        "{maximal_mesh[device_id=3]}",
    ],
    parse_domain: ['{kind="sharding", entry={replicated}, exit={maximal device=1}}'],
    parse_metadata: [
        '{op_type="add" op_name="f/\\"add\\n" source_file="x" source_line=3 stack_frame_id=2}',
        '{profile_type={1,2}, deduplicated_name="d" scheduling_name="s" source_column=4}',
    ],
    parse_stack_frames: [
        'FileNames\n1 "x"\n\nFunctionNames\n1 "f"\n\nFileLocations\n1 {file_name_id=1 line=6}\n\n'
        "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n"
    ],
    parse_backend_config: ['{"a":{"b":[1,2]}}', '"a\\"b\\001"'],
    parse_frontend_attributes: ['{a="b\\n",k={raw "}" {}}}'],
    parse_statistics: ["{visualizing_index=0,a=1e-3,b=-2.5}"],
    parse_original_value: ['{({"a"}, ({"b" {1,2}}, {}))}', "{[synthetic_call]}"],
    parse_result_accuracy: ["{mode=highest}", "{tolerance={atol=0,rtol=0.1,ulps=2}}"],
    parse_output_operand_aliasing: ["{{0}: (1, {}), {1,0}: (0, {2})}"],
    parse_input_output_alias: ["{ {0}: (0, {}, may-alias), {1}: (1, {2}, must-alias) }"],
    parse_buffer_donors: ["{ (0, {}), (1, {2}) }"],
    parse_shapes: ["{f32[2,3]{1,0}, (s32[], u8[<=4]{0:T(8)})}"],
    parse_entry_layout: ["{(f32[2]{0}, s32[])->(f32[2]{0})}"],
}
SHOW = {parse_shapes: show_shapes, parse_entry_layout: show_entry_layout}
SHOW[parse_backend_config] = lambda value: value.text()
PIECES = [*"{}[]()<>=,:'\"\\?0-x_ \n", "9" * 30, "9" * 5000, "-1", "mesh", "{{", "}}", "é", "\0"]


def broken(chance, text):
    """The text with one to three changes."""
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + chance.choice([0, 1, 1, 2, 8]))
        piece = chance.choice([*PIECES, "", text[at:end] * 2])
        text = text[:at] + piece + text[end:]
    return text


@pytest.mark.parametrize("reader", TEXTS, ids=lambda reader: reader.__name__)
def test_broken_texts(reader):
    chance = random.Random(reader.__name__)
    show = SHOW.get(reader, lambda value: value.text)
    for text in TEXTS[reader] * 150:
        changed = broken(chance, text)
        try:
            value = reader(Cursor(changed))
        except ParseError as error:
            assert getattr(error, "location", None) is not None, changed
            assert str(error)
            continue
        shown = show(value)
        assert reader(Cursor(blank_comments(shown), original=shown)) == value, changed
