"""The families of kernels: who can write a body, the best first.

    for family in FAMILIES: form = family.form(body, device); kernels = family.write(...)

A family says of a body whether it is for it (`form`, None: no), and writes kernels for it. The
last, loops over elements, is for every body, so a family that fails at one, or whose kernel is
refused, is left out there and the next is asked (`Lowering.body`). Attention stands alone: over a
body like that, loops would compute every score again for every result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hloom.codegen.attention import attention_kernel, body_attention
from hloom.codegen.column_form import column_form
from hloom.codegen.columns import column_kernel
from hloom.codegen.crosswise import cross_form, cross_kernel
from hloom.codegen.cumulative import cumulative_kernel, is_cumulative
from hloom.codegen.depthwise import depthwise_kernel
from hloom.codegen.depthwise_shape import Geometry, geometry
from hloom.codegen.epilogue import index_steps
from hloom.codegen.gemm import product_kernel
from hloom.codegen.grouped import grouped_kernel
from hloom.codegen.grouped_shape import GroupedShape, grouped_shape
from hloom.codegen.loops import loop_kernel
from hloom.codegen.narrow_convolution import NarrowShape, narrow_kernel, narrow_shape
from hloom.codegen.pieces import concatenate_kernels, concatenate_parts
from hloom.codegen.product import Product, dot_product, is_canonical_dot
from hloom.codegen.product_convolution import convolution_product
from hloom.codegen.short_rows import short_row_kernel, short_rows
from hloom.codegen.tile import Body, Emitted
from hloom.device.device import Device
from hloom.ir.instruction import Instruction

# Many products of so small a matrix and a vector are loops where the matrix would have to be turned
# for each: lanes go over the batch, too (4x4, 10,000 of them: a fifth of the time).
TINY_DEPTH = 4
TINY_SIZE = 64


@dataclass(frozen=True, slots=True)
class Family:
    """One way to write the kernels of a body.

    `form` takes a body and the device; what it returns is handed to `write`, None means
    that the family is not for this body. `is_alone`: no other family is for its bodies.
    """

    name: str
    what: str
    form: Callable[[Body, Device], Any]
    write: Callable[[Body, Any, Device], list[Emitted]]
    is_alone: bool = False


# -- products


def anchor_of(body: Body) -> Instruction | None:
    """The dot or convolution of a body that has exactly one, and one result."""
    anchors = [x for x in body.instructions if x.opcode in ("dot", "convolution")]
    if len(anchors) != 1 or len(body.roots) != 1:
        return None
    return anchors[0]


def product_of(
    anchor: Instruction, leaves: set[Instruction], device: Device | None = None
) -> Product | None:
    """The anchor as a product of matrices; None where it is none."""
    if anchor.opcode == "convolution":
        return convolution_product(anchor, leaves, device)
    return dot_product(anchor, leaves, device=device) if is_canonical_dot(anchor) else None


def _depthwise_form(body: Body, device: Device) -> tuple[Instruction, Geometry] | None:
    anchor = anchor_of(body)
    if anchor is None or anchor.opcode != "convolution" or index_steps(body, anchor) is None:
        return None
    shape = geometry(anchor, device)
    return None if shape is None else (anchor, shape)


def _grouped_form(body: Body, device: Device) -> tuple[Instruction, GroupedShape] | None:
    anchor = anchor_of(body)
    if anchor is None or anchor.opcode != "convolution" or index_steps(body, anchor) is None:
        return None
    shape = grouped_shape(anchor, device)
    return None if shape is None else (anchor, shape)


def _narrow_form(body: Body, device: Device) -> tuple[Instruction, NarrowShape] | None:
    anchor = anchor_of(body)
    if anchor is None or anchor.opcode != "convolution" or index_steps(body, anchor) is None:
        return None
    shape = narrow_shape(anchor, {x for x, _ in body.leaves}, device)
    return None if shape is None else (anchor, shape)


def _product_form(body: Body, device: Device) -> Product | None:
    anchor = anchor_of(body)
    if anchor is None or index_steps(body, anchor) is None:
        return None
    p = product_of(anchor, {x for x, _ in body.leaves}, device)
    if p is None or p.flops < device.costs.loop_product_flops or p.depth == 0 or _is_tiny(p):
        return None
    return p


def _is_tiny(p: Product) -> bool:
    """Whether each product of a batch is one of a tiny matrix and a vector."""
    rows = p.row_groups * p.rows
    lanes = p.a_lanes if p.columns == 1 else p.b_lanes if rows == 1 else ""
    size = p.depth * rows * p.columns
    return p.batch > 1 and lanes == "k" and p.depth <= TINY_DEPTH and size <= TINY_SIZE


# -- everything else; what has a product in it is loops where it is no product of matrices


def _without_product(find: Callable[[Body, Device], Any]) -> Callable[[Body, Device], Any]:
    return lambda body, device: find(body, device) if anchor_of(body) is None else None


FAMILIES = (
    Family(
        "attention",
        "dot, softmax, dot: scores of a block of keys at a time",
        lambda body, _: body_attention(body),
        lambda body, form, bytes_: [attention_kernel(body, form, bytes_)],
        is_alone=True,
    ),
    Family(
        "depthwise",
        "a convolution that mixes no features",
        _depthwise_form,
        lambda body, form, bytes_: [depthwise_kernel(body, form[0], form[1], bytes_)],
    ),
    Family(
        "grouped",
        "a convolution of small groups: a vector of results of several groups",
        _grouped_form,
        lambda body, form, bytes_: [grouped_kernel(body, form[0], form[1], bytes_)],
    ),
    Family(
        "narrow",
        "a convolution of few outputs: lanes along the features that are read",
        _narrow_form,
        lambda body, form, bytes_: [narrow_kernel(body, form[0], form[1], bytes_)],
    ),
    Family(
        "product",
        "a product of matrices: packed panels, or few rows",
        _product_form,
        lambda body, form, bytes_: [product_kernel(body, form, bytes_)],
    ),
    Family(
        "cumulative",
        "a window over everything before: each element is folded once",
        lambda body, _: is_cumulative(body) or None,
        lambda body, _, bytes_: [cumulative_kernel(body, bytes_)],
    ),
    Family(
        "short rows",
        "reductions of short rows: lanes go over rows",
        _without_product(short_rows),
        lambda body, form, bytes_: [short_row_kernel(body, form, bytes_)],
    ),
    Family(
        "columns",
        "reductions that keep the fastest dimension: rows are read whole",
        _without_product(column_form),
        lambda body, form, bytes_: [column_kernel(body, form, bytes_)],
    ),
    Family(
        "crosswise",
        "transposes: tiles turned in registers",
        _without_product(cross_form),
        lambda body, form, bytes_: [cross_kernel(body, form, bytes_)],
    ),
    Family(
        "pieces",
        "a concatenation: each operand writes its own part",
        _without_product(lambda body, _: concatenate_parts(body)),
        lambda body, form, device: concatenate_kernels(body, form, device),
    ),
    Family(
        "loops",
        "loops over the elements of the results",
        lambda body, _: True,
        lambda body, _, bytes_: [loop_kernel(body, bytes_)],
    ),
)
"""In the order in which they are asked."""


def family_of(body: Body, device: Device) -> tuple[Family, Any]:
    """The first family that is for a body, and what it goes by."""
    for family in FAMILIES:
        form = family.form(body, device)
        if form is not None:
            return family, form
    raise AssertionError("loops are for every body")
