"""How HLO is printed: about 30 switches and five presets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

SubcomputationMode = Literal["off", "names", "full"]


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """Switches of the printer; the defaults are the Default preset."""

    large_constants: bool = False
    """Print constants of more than 10 elements in full, not as `{...}`."""
    only_essential_constants: bool = False
    """Print only integer constants and those that are all zero or all one."""
    metadata: bool = True
    metadata_only_op_name: bool = False
    original_value: bool = True
    inline_stack_frames: bool = False
    """Write the frames of `stack_frame_id` as source_file and source_line into the metadata."""
    backend_config: bool = True
    sort_backend_config: bool = False
    infeed_outfeed_config: bool = True
    frontend_attributes: bool = True
    extra_attributes: bool = True
    result_shape: bool = True
    operand_shape: bool = False
    operand_names: bool = True
    layout_in_shapes: bool = True
    program_shape: bool = True
    parameter_number: bool = True
    percent: bool = True
    ids: bool = True
    """Keep names of module and computations, and the numbers behind names."""
    channel_id: bool = True
    control_dependencies: bool = True
    operand_index_comments: bool = True
    """`/*index=5*/` before every fifth operand and tuple element."""
    compact_operands: bool = False
    """Only the first four operands, and how many more there are."""
    compact_gte: bool = False
    """`%t#1` for an element of a tuple instead of a get-tuple-element."""
    async_sugar: bool = True
    """`negate-start` for an async-start around one operation."""
    replica_groups_full: bool = False
    """Write replica groups as lists, whatever form they have."""
    replica_groups_subaxes: bool = True
    """Write parts of mesh axes (`'a':(1)2`) as such; if not, groups that have them are lists."""
    subcomputation_mode: SubcomputationMode = "names"
    computations: bool = True
    """Print the called computations beside the entry."""
    canonical_names: bool = False
    """Rename instructions `tmp_N` in program order."""
    canonical_order: bool = False
    """Sort the computations by their text."""
    indent: int = 0
    nested: bool = False
    """The text stands inside another one: computations have no name."""
    name_after_closing_brace: bool = False

    @staticmethod
    def default() -> PrintOptions:
        return PrintOptions()

    @staticmethod
    def short_parsable() -> PrintOptions:
        """The least text that means the same: full constants, no operand or program shapes."""
        return PrintOptions(
            large_constants=True,
            metadata=False,
            operand_shape=False,
            program_shape=False,
            percent=False,
            control_dependencies=False,
            operand_index_comments=False,
        )

    @staticmethod
    def canonical() -> PrintOptions:
        """Bodies inlined, instructions renamed, no names of operands, backend config, metadata."""
        return PrintOptions(
            subcomputation_mode="full",
            metadata=False,
            backend_config=False,
            operand_shape=True,
            operand_names=False,
            program_shape=False,
            percent=False,
            control_dependencies=False,
            canonical_names=True,
            operand_index_comments=False,
        )

    @staticmethod
    def fingerprint() -> PrintOptions:
        """Canonical, without what may differ between two modules that mean the same."""
        return replace(
            PrintOptions.canonical(),
            only_essential_constants=True,
            original_value=False,
            ids=False,
            canonical_order=True,
            replica_groups_full=True,
            infeed_outfeed_config=False,
        )

    @staticmethod
    def module_fingerprint() -> PrintOptions:
        """Fingerprint without operand shapes."""
        return replace(PrintOptions.fingerprint(), operand_shape=False)


PRESETS = {
    "default": PrintOptions.default,
    "short-parsable": PrintOptions.short_parsable,
    "canonical": PrintOptions.canonical,
    "fingerprint": PrintOptions.fingerprint,
    "module-fingerprint": PrintOptions.module_fingerprint,
}
