"""Dots and convolutions seen as products of matrices, whatever their operands look like.

A `Product` is `C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n]`, K given as digits (window and
features of a convolution). It knows how to read elements of A and B at any place, which is how
prologues (converts, dequantisation, padding, im2col) cost nothing but a little in packing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from hloom.codegen.affine import ZERO, Affine
from hloom.codegen.elements import Elements, Index, strides_of
from hloom.codegen.elements_data import choose
from hloom.codegen.elements_fold import window_position
from hloom.codegen.elements_product import accumulator_type
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value
from hloom.types.dtype import DType

# Reads an element: (elements, batch, m or n, digits of k).
Read = Callable[[Elements, Affine, Affine, Sequence[Affine]], Value]


@dataclass
class Product:
    """A product of matrices; `depths` are the sizes of the digits of K, slowest first.

    `a_lanes` and `b_lanes` say along what the memory of an operand runs: 'k', 'm' or 'n'.
    `direct_a` is the operand if A is plain memory of the accumulator's type, for reading it without
    packing: its strides along m and k.
    """

    hero: Instruction
    of: DType
    batch: int
    rows: int
    columns: int
    depths: tuple[int, ...]
    a: Read
    b: Read
    index: Callable[[Elements, Affine, Affine, Affine], Index]
    a_lanes: str
    b_lanes: str
    direct_a: bool = False

    @property
    def depth(self) -> int:
        return prod(self.depths)

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.columns * self.depth


def dot_product(i: Instruction, leaves: set[Instruction]) -> Product:
    """A canonical dot as a product of matrices."""
    a = i.attrs
    lhs, rhs = i.operands
    count = len(a.lhs_batch_dims)
    batches = [lhs.shape.dims[d] for d in a.lhs_batch_dims]
    [left] = _free(lhs, a.lhs_batch_dims, a.lhs_contracting_dims)
    [right] = _free(rhs, a.rhs_batch_dims, a.rhs_contracting_dims)
    [lk], [rk] = a.lhs_contracting_dims, a.rhs_contracting_dims
    of = accumulator_type(i.shape.dtype)

    def reader(x: Instruction, batch_dims: tuple[int, ...], free: int, contracted: int) -> Read:
        def read(e: Elements, b: Affine, f: Affine, k: Sequence[Affine]) -> Value:
            at = [ZERO] * x.shape.rank
            for d, digit in zip(batch_dims, e.indices.digits(b, batches)):
                at[d] = digit
            at[free], at[contracted] = f, k[0]
            return e.builder.convert(e.value(x, tuple(at)), of)

        return read

    def index(e: Elements, b: Affine, m: Affine, n: Affine) -> Index:
        return (*e.indices.digits(b, batches), m, n)

    assert i.shape.rank == count + 2
    return Product(
        i,
        of,
        prod(batches),
        lhs.shape.dims[left],
        rhs.shape.dims[right],
        (lhs.shape.dims[lk],),
        reader(lhs, a.lhs_batch_dims, left, lk),
        reader(rhs, a.rhs_batch_dims, right, rk),
        index,
        "k" if _stride(lhs, lk) == 1 or lhs.shape.dims[lk] == 1 else "m",
        "n" if _stride(rhs, right) == 1 or rhs.shape.dims[right] == 1 else "k",
        lhs in leaves and lhs.shape.dtype is of,
    )


def is_canonical_dot(i: Instruction) -> bool:
    """Whether a dot has the form `dot_product` takes: one free and one contracted dimension."""
    a = i.attrs
    lhs, rhs = i.operands
    return (
        len(a.lhs_contracting_dims) == 1
        and len(_free(lhs, a.lhs_batch_dims, a.lhs_contracting_dims)) == 1
        and len(_free(rhs, a.rhs_batch_dims, a.rhs_contracting_dims)) == 1
    )


def _free(x: Instruction, batch: tuple[int, ...], contracted: tuple[int, ...]) -> list[int]:
    return [d for d in range(x.shape.rank) if d not in (*batch, *contracted)]


def _stride(x: Instruction, d: int) -> int:
    return strides_of(x.shape)[d]


def convolution_product(i: Instruction) -> Product | None:
    """A forward convolution or a weight gradient as a product; None for depthwise ones."""
    labels = i.attrs.dim_labels
    if i.attrs.convolution_kind == "wgrad" or i.attrs.batch_group_count != 1:
        return _weight_gradient(i) if i.attrs.feature_group_count == 1 else None
    lhs, rhs = i.operands
    dims = i.attrs.window.dimensions
    groups = i.attrs.feature_group_count
    features = rhs.shape.dims[labels.kernel_input_feature_dimension]
    outputs = rhs.shape.dims[labels.kernel_output_feature_dimension] // groups
    if groups > 1 and (features < 4 or outputs < 8):
        return None
    out = [i.shape.dims[d] for d in labels.output_spatial_dimensions]
    images = i.shape.dims[labels.output_batch_dimension]
    sizes = [lhs.shape.dims[d] for d in labels.input_spatial_dimensions]
    of = accumulator_type(i.shape.dtype)

    def read_a(e: Elements, g: Affine, m: Affine, k: Sequence[Affine]) -> Value:
        image, *place = e.indices.digits(m, [images, *out])
        where, inside = window_position(e, tuple(place), k[:-1], dims, sizes)
        at = [ZERO] * lhs.shape.rank
        at[labels.input_batch_dimension] = image
        at[labels.input_feature_dimension] = g.times(features).plus(k[-1])
        for d, x in zip(labels.input_spatial_dimensions, where):
            at[d] = x
        value = e.builder.convert(e.value(lhs, tuple(at), inside), of)
        if inside is not None:
            value = choose(e, inside, value, e.builder.constant(of, 0))
        return value

    def read_b(e: Elements, g: Affine, n: Affine, k: Sequence[Affine]) -> Value:
        at = [ZERO] * rhs.shape.rank
        at[labels.kernel_input_feature_dimension] = k[-1]
        at[labels.kernel_output_feature_dimension] = g.times(outputs).plus(n)
        for d, x, w in zip(labels.kernel_spatial_dimensions, k, dims):
            at[d] = x.times(-1).plus(w.size - 1) if w.window_reversal else x
        return e.builder.convert(e.value(rhs, tuple(at)), of)

    def index(e: Elements, g: Affine, m: Affine, n: Affine) -> Index:
        image, *place = e.indices.digits(m, [images, *out])
        at = [ZERO] * i.shape.rank
        at[labels.output_batch_dimension] = image
        at[labels.output_feature_dimension] = g.times(outputs).plus(n)
        for d, x in zip(labels.output_spatial_dimensions, place):
            at[d] = x
        return tuple(at)

    depths = (*[w.size for w in dims], features)
    rows = images * prod(out)
    b_lanes = "n" if _stride(rhs, labels.kernel_output_feature_dimension) == 1 else "k"
    return Product(i, of, groups, rows, outputs, depths, read_a, read_b, index, "k", b_lanes)


def _weight_gradient(i: Instruction) -> Product | None:
    """`f01b_i01o->01bf`: one product `[ci, n*k] x [n*k, co]` for each place of the result."""
    labels = i.attrs.dim_labels
    lhs, rhs = i.operands
    dims = i.attrs.window.dimensions
    groups = i.attrs.batch_group_count
    if groups != 1 or i.attrs.feature_group_count != 1:
        return None
    places = [i.shape.dims[d] for d in labels.output_spatial_dimensions]
    sizes = [lhs.shape.dims[d] for d in labels.input_spatial_dimensions]
    # In this form the contracted "feature" of the labels is the batch of images.
    images = lhs.shape.dims[labels.input_feature_dimension]
    of = accumulator_type(i.shape.dtype)

    def read_a(e: Elements, p: Affine, m: Affine, k: Sequence[Affine]) -> Value:
        place = e.indices.digits(p, places)
        where, inside = window_position(e, tuple(place), k[1:], dims, sizes)
        at = [ZERO] * lhs.shape.rank
        at[labels.input_feature_dimension] = k[0]
        at[labels.input_batch_dimension] = m
        for d, x in zip(labels.input_spatial_dimensions, where):
            at[d] = x
        value = e.builder.convert(e.value(lhs, tuple(at), inside), of)
        if inside is not None:
            value = choose(e, inside, value, e.builder.constant(of, 0))
        return value

    def read_b(e: Elements, p: Affine, n: Affine, k: Sequence[Affine]) -> Value:
        at = [ZERO] * rhs.shape.rank
        at[labels.kernel_input_feature_dimension] = k[0]
        at[labels.kernel_output_feature_dimension] = n
        for d, x, w in zip(labels.kernel_spatial_dimensions, k[1:], dims):
            at[d] = x.times(-1).plus(w.size - 1) if w.window_reversal else x
        return e.builder.convert(e.value(rhs, tuple(at)), of)

    def index(e: Elements, p: Affine, m: Affine, n: Affine) -> Index:
        at = [ZERO] * i.shape.rank
        at[labels.output_batch_dimension] = m
        at[labels.output_feature_dimension] = n
        for d, x in zip(labels.output_spatial_dimensions, e.indices.digits(p, places)):
            at[d] = x
        return tuple(at)

    depths = (images, *[w.size for w in dims])
    rows = i.shape.dims[labels.output_batch_dimension]
    columns = i.shape.dims[labels.output_feature_dimension]
    a_lanes = "m" if _stride(lhs, labels.input_batch_dimension) == 1 else "k"
    b_lanes = "n" if _stride(rhs, labels.kernel_output_feature_dimension) == 1 else "k"
    return Product(
        i, of, prod(places), rows, columns, depths, read_a, read_b, index, a_lanes, b_lanes
    )
