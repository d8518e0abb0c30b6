"""Instances of contractions, convolutions, transforms, linear algebra and random numbers."""

from __future__ import annotations

from hloom.interp.draw import COMPLEX, DRAW, FLOATS, INTEGERS, Sketch
from hloom.ir.instruction import Instruction
from hloom.ir.values.conv_dims import ConvolutionDimensions
from hloom.ir.values.window import Window, WindowDimension
from hloom.types.dtype import BF16, F32, U64
from hloom.types.shape import shape, tuple_shape


@DRAW.of("dot")
def dot(s: Sketch) -> Instruction:
    """Batch, contracting and free dimensions in any order on both sides."""
    dtype = s.dtype(f"{FLOATS} {COMPLEX} {INTEGERS} f8e4m3fn f8e5m2")
    batch, contracted = s.dims(0, 1), s.dims(0, 2)
    sides, numbers = [], []
    for _ in range(2):
        free = s.dims(0, 1)
        kinds = [("b", k) for k in range(len(batch))] + [("c", k) for k in range(len(contracted))]
        order = s.shuffled(kinds + [("f", k) for k in range(len(free))])
        sizes = {"b": batch, "c": contracted, "f": free}
        sides.append(s.parameter(shape(dtype, [sizes[kind][k] for kind, k in order])))
        numbers.append(
            [tuple(order.index((kind, k)) for k in range(len(sizes[kind]))) for kind in ("b", "c")]
        )
    (lhs_batch, lhs_contracting), (rhs_batch, rhs_contracting) = numbers
    wide = F32 if dtype.is_floating and dtype.bits < 32 and s.chance() else dtype
    dims = [sides[0].shape.dims[d] for d in lhs_batch]
    for x, (one, two) in zip(sides, numbers):
        dims += [n for d, n in enumerate(x.shape.dims) if d not in one + two]
    return s.add(
        "dot",
        *sides,
        shape=shape(wide, dims),
        lhs_batch_dims=lhs_batch,
        lhs_contracting_dims=lhs_contracting,
        rhs_batch_dims=rhs_batch,
        rhs_contracting_dims=rhs_contracting,
        operand_precision=("highest", "highest") if s.chance(0.2) else (),
    )


@DRAW.of("ragged-dot")
def ragged_dot(s: Sketch) -> Instruction:
    """Rows, or the contracted dimension, cut into groups."""
    dtype = s.dtype("f32 bf16 f64 s32")
    groups, m, k, n = s.integers(4, 1, 4)
    sizes_of = shape(s.dtype("s32 s64"), (groups,))
    lhs = s.parameter(shape(dtype, (m * groups, k)))
    if s.chance():
        rhs, rows = s.parameter(shape(dtype, (groups, k, n))), {"rhs_contracting_dims": (1,)}
        ragged, contracting = {"lhs_ragged_dims": (0,), "rhs_group_dims": (0,)}, (1,)
    else:
        rhs, rows = s.parameter(shape(dtype, (m * groups, n))), {"rhs_contracting_dims": (0,)}
        ragged, contracting = {"lhs_ragged_dims": (0,)}, (0,)
    sizes = s.parameter(sizes_of)
    return s.add("ragged-dot", lhs, rhs, sizes, lhs_contracting_dims=contracting, **rows, **ragged)


@DRAW.of("scaled-dot")
def scaled_dot(s: Sketch) -> Instruction:
    """A scale for each block of elements along the contracted dimension."""
    m, n, blocks, size = s.integer(1, 4), s.integer(1, 4), s.integer(1, 3), s.pick((2, 4, 32))
    one, two = s.dtype("f8e4m3fn f8e5m2 bf16"), s.dtype("f8e4m3fn f8e5m2 bf16")
    lhs = s.parameter(shape(one, (m, blocks * size)))
    rhs = s.parameter(shape(two, (n, blocks * size)))
    scales = [s.parameter(shape("f8e8m0fnu", (rows, blocks))) for rows in (m, n)]
    return s.add(
        "scaled-dot",
        lhs,
        rhs,
        *scales,
        shape=shape(s.pick((F32, BF16)), (m, n)),
        lhs_contracting_dims=(1,),
        rhs_contracting_dims=(1,),
    )


def _placed(s: Sketch, rank: int) -> tuple[int, int, tuple[int, ...]]:
    """Random places for two named and the spatial dimensions."""
    order = s.shuffled(range(rank + 2))
    return order[0], order[1], order[2:]


@DRAW.of("convolution")
def convolution(s: Sketch) -> Instruction:
    """All dimension orders, dilations, padding, reversal, feature or batch groups."""
    dtype = s.dtype("f32 f64 bf16 f16 s32 s8")
    rank = s.integer(0, 2)
    feature_groups = s.integer(1, 2)
    batch_groups = 1 if feature_groups > 1 else s.integer(1, 2)
    batch, features = s.integer(1, 2) * batch_groups, s.integer(1, 2)
    outputs = s.integer(1, 2) * feature_groups * batch_groups
    spatial, kernel, rows = [], [], []
    for _ in range(rank):
        n, size = s.integer(2, 5), s.integer(1, 2)
        spatial.append(n)
        kernel.append(size)
        apart, between = (1 if s.chance(0.7) else 2 for _ in range(2))
        low, high = s.integers(2, 0, 1)
        rows.append(
            WindowDimension(size, s.integer(1, 2), low, high, apart, between, s.chance(0.2))
        )
    (b, f, at), (i, o, kat), (ob, of, oat) = (_placed(s, rank) for _ in range(3))
    lhs, rhs = [0] * (rank + 2), [0] * (rank + 2)
    lhs[b], lhs[f], rhs[i], rhs[o] = batch, features * feature_groups, features, outputs
    for d in range(rank):
        lhs[at[d]], rhs[kat[d]] = spatial[d], kernel[d]
    return s.add(
        "convolution",
        s.parameter(shape(dtype, lhs)),
        s.parameter(shape(dtype, rhs)),
        window=Window(tuple(rows)),
        dim_labels=ConvolutionDimensions(b, f, at, i, o, kat, ob, of, oat),
        feature_group_count=feature_groups,
        batch_group_count=batch_groups,
    )


@DRAW.of("fft")
def fft(s: Sketch) -> Instruction:
    kind = s.pick(("FFT", "IFFT", "RFFT", "IRFFT"))
    dims = s.dims(1, 3, largest=6)
    lengths = list(dims[len(dims) - s.integer(1, len(dims)) :])
    if kind == "RFFT":
        x = s.parameter(shape(s.dtype("f32 f64"), dims))
    elif kind == "IRFFT":
        x = s.parameter(shape(s.dtype(COMPLEX), (*dims[:-1], dims[-1] // 2 + 1)))
    else:
        x = s.parameter(shape(s.dtype(COMPLEX), dims))
    return s.add("fft", x, fft_type=kind, fft_length=tuple(lengths))


@DRAW.of("cholesky")
def cholesky(s: Sketch) -> Instruction:
    n = s.integer(1, 4)
    a = s.parameter(shape(s.dtype(f"f32 f64 {COMPLEX}"), (*s.dims(0, 2), n, n)))
    return s.add("cholesky", a, lower=s.chance())


@DRAW.of("triangular-solve")
def triangular_solve(s: Sketch) -> Instruction:
    n, columns, batch, left = s.integer(1, 4), s.integer(1, 3), s.dims(0, 1), s.chance()
    a = s.parameter(shape(s.dtype(f"f32 f64 {COMPLEX}"), (*batch, n, n)))
    b = s.parameter(shape(a.shape.dtype, (*batch, n, columns) if left else (*batch, columns, n)))
    return s.add(
        "triangular-solve",
        a,
        b,
        left_side=left,
        lower=s.chance(),
        unit_diagonal=s.chance(0.3),
        transpose_a=s.pick(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")),
    )


@DRAW.of("rng")
def rng(s: Sketch) -> Instruction:
    """Uniform from 0 to 4, or normal around 0 of deviation 2."""
    if s.chance():
        dtype, ends, kind = s.dtype("f32 f64 s32 u32"), (0, 4), "rng_uniform"
    else:
        dtype, ends, kind = s.dtype("f32 f64"), (0, 2), "rng_normal"
    constants = [s.constant(v, shape(dtype)) for v in ends]
    return s.add("rng", *constants, shape=shape(dtype, s.dims()), distribution=kind)


@DRAW.of("rng-bit-generator")
def rng_bit_generator(s: Sketch) -> Instruction:
    algorithm = s.pick(("rng_three_fry", "rng_philox", "rng_default"))
    words = 2 if algorithm == "rng_three_fry" else s.pick((2, 3))
    state = s.parameter(shape(U64, (2 if algorithm == "rng_default" else words,)))
    bits = shape(s.dtype("u8 u16 u32 u64"), s.dims())
    of = tuple_shape((state.shape, bits))
    return s.add("rng-bit-generator", state, shape=of, algorithm=algorithm)


@DRAW.of("rng-get-and-update-state")
def rng_get_and_update_state(s: Sketch) -> Instruction:
    return s.add("rng-get-and-update-state", shape=shape(U64, (2,)), delta=s.integer(1, 9))
