"""Dots and convolutions: products of matrices where that pays, loops for the rest."""

from __future__ import annotations

from hloom.codegen.depthwise import depthwise_kernel
from hloom.codegen.depthwise_shape import geometry
from hloom.codegen.epilogue import way
from hloom.codegen.gemm import product_kernel
from hloom.codegen.loops import loop_kernel
from hloom.codegen.product import Product, dot_product, is_canonical_dot
from hloom.codegen.product_convolution import convolution_product
from hloom.codegen.tile import Body, Emitted
from hloom.ir.instruction import Instruction
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering

# Smaller products are loops of fused multiply-adds.
SMALL_FLOPS = 2048
# So are many products of so small a matrix and a vector, where the matrix would have to be turned
# for each: lanes go over the batch, too (4x4, 10,000 of them: a fifth of the time).
TINY_DEPTH = 4
TINY_SIZE = 64


@CPU_LOWERS.of("dot", "convolution")
def product(cpu: Lowering, i: Instruction) -> list[Thunk]:
    return cpu.kernel(i, lambda: hero_kernel(Body.of(i), i, cpu.vector_bytes))


def hero_of(body: Body) -> Instruction | None:
    """The dot or convolution of a body that has exactly one, and one result."""
    found = [x for x in body.instructions if x.opcode in ("dot", "convolution")]
    if len(found) != 1 or len(body.roots) != 1:
        return None
    return found[0]


def hero_kernel(body: Body, hero: Instruction, vector_bytes: int) -> Emitted:
    """The kernel of a body with a product in it."""
    if way(body, hero) is None:
        return loop_kernel(body, vector_bytes)
    if hero.opcode == "convolution":
        shape = geometry(hero)
        if shape is not None:
            return depthwise_kernel(body, hero, shape, vector_bytes)
    p = product_of(hero, {x for x, _ in body.leaves})
    if p is None or p.flops < SMALL_FLOPS or p.depth == 0 or _is_tiny(p):
        return loop_kernel(body, vector_bytes)
    return product_kernel(body, p, vector_bytes)


def _is_tiny(p: Product) -> bool:
    """Whether each product of a batch is one of a tiny matrix and a vector."""
    rows = p.row_groups * p.rows
    lanes = p.a_lanes if p.columns == 1 else p.b_lanes if rows == 1 else ""
    size = p.depth * rows * p.columns
    return p.batch > 1 and lanes == "k" and p.depth <= TINY_DEPTH and size <= TINY_SIZE


def product_of(hero: Instruction, leaves: set[Instruction]) -> Product | None:
    """The hero as a product of matrices; None where it is none."""
    if hero.opcode == "convolution":
        return convolution_product(hero, leaves)
    return dot_product(hero, leaves) if is_canonical_dot(hero) else None
