"""Fourier transforms, triangular matrices and batch normalisation."""

from collections.abc import Sequence

from hloom.ir.infer.compare import braced, expect_array, retyped, same_kind, sizes_fit
from hloom.ir.op import ShapeError
from hloom.types.dtype import C64, C128, F32, F64
from hloom.types.shape import UNBOUNDED, Shape, shape, tuple_shape


def fft(x: Shape, kind: str, lengths: Sequence[int]) -> Shape:
    expect_array(x, "the operand of fft")
    n = len(lengths)
    if not 1 <= n <= 3:
        raise ShapeError(f"fft_length={braced(lengths)} must have 1 to 3 lengths")
    if kind == "RFFT":
        if x.dtype is not F32 and x.dtype is not F64:
            raise ShapeError(f"RFFT needs f32 or f64 elements, not {x.bare}")
    elif not x.dtype.is_complex:
        raise ShapeError(f"{kind} needs complex elements, not {x.bare}")
    if x.rank < n:
        raise ShapeError(f"fft_length={braced(lengths)} needs {n} dimensions, not {x.bare}")
    if kind in ("FFT", "IFFT"):
        return x.bare
    last, exact = lengths[-1], n if kind == "RFFT" else n - 1
    for length, size in zip(lengths[:exact], x.dims[x.rank - n :]):
        if not sizes_fit(length, size):
            raise ShapeError(
                f"{kind} with fft_length={braced(lengths)} needs these sizes, not {x.bare}"
            )
    if kind == "RFFT":
        result = retyped(x, C64 if x.dtype is F32 else C128)
        return result if last == 0 else _last(result, last // 2 + 1)
    size = x.dims[-1]
    if (size != 0 or last != 0) and size not in (UNBOUNDED, last // 2 + 1):
        raise ShapeError(
            f"IRFFT of length {last} needs a last dimension of {last // 2 + 1}, not {x.bare}"
        )
    return _last(retyped(x, x.dtype.component), last)


def _last(x: Shape, size: int) -> Shape:
    """`x` with another size of the last dimension, which is static if it had no bound."""
    dynamic = x.dynamic
    if dynamic and x.dims[-1] == UNBOUNDED:
        dynamic = (*dynamic[:-1], False)
    return shape(x.dtype, (*x.dims[:-1], size), None, dynamic)


def _check_matrices(a: Shape, what: str) -> None:
    expect_array(a, f"the matrix of {what}")
    if not (a.dtype.is_floating or a.dtype.is_complex):
        raise ShapeError(f"{what} needs floating-point or complex elements, not {a.bare}")
    if a.rank < 2 or not sizes_fit(a.dims[-2], a.dims[-1]):
        raise ShapeError(f"{what} needs square matrices, not {a.bare}")


def cholesky(a: Shape) -> Shape:
    _check_matrices(a, "cholesky")
    return a.bare


def triangular_solve(a: Shape, b: Shape, left_side: bool, transpose_a: str) -> Shape:
    _check_matrices(a, "triangular-solve")
    if b.dtype is not a.dtype or b.rank != a.rank:
        raise ShapeError(f"a and b must have one type and rank, not {a.bare} and {b.bare}")
    if not sizes_fit(a.dims[-1], b.dims[-2 if left_side else -1]):
        raise ShapeError(f"the shared dimension of a and b differs: {a.bare} and {b.bare}")
    if a.dims[:-2] != b.dims[:-2]:
        raise ShapeError(f"the batch dimensions of a and b differ: {a.bare} and {b.bare}")
    if transpose_a == "TRANSPOSE_INVALID":
        raise ShapeError("transpose_a must be NO_TRANSPOSE, TRANSPOSE or ADJOINT")
    return b.bare


def _check_features(x: Shape, feature: int, vectors: Sequence[Shape], names: str) -> None:
    """Each vector has one float for every feature of `x`."""
    expect_array(x, "the operand of batch normalisation")
    if not 0 <= feature < x.rank:
        raise ShapeError(f"feature_index={feature} is not a dimension of {x.bare}")
    if not x.dtype.is_floating:
        raise ShapeError(f"batch normalisation needs floating-point elements, not {x.bare}")
    for v, name in zip(vectors, names.split()):
        expect_array(v, f"{name} of batch normalisation")
        if v.rank != 1 or not same_kind(v.dtype, x.dtype):
            raise ShapeError(f"{name} must be a vector of floats, not {v.bare}")
        if not sizes_fit(v.dims[0], x.dims[feature]):
            raise ShapeError(f"{name} {v.bare} must have one element for each feature of {x.bare}")


def _with_vectors(x: Shape, feature: int) -> Shape:
    dynamic = (x.is_dynamic_dim(feature),)
    vector = shape(x.dtype, (x.dims[feature],), None, dynamic)
    return tuple_shape((x.bare, vector, vector))


def batch_norm_training(x: Shape, scale: Shape, offset: Shape, feature: int) -> Shape:
    _check_features(x, feature, (scale, offset), "scale offset")
    return _with_vectors(x, feature)


def batch_norm_inference(x: Shape, vectors: Sequence[Shape], feature: int) -> Shape:
    _check_features(x, feature, vectors, "scale offset mean variance")
    return x.bare


def batch_norm_grad(x: Shape, vectors: Sequence[Shape], grad: Shape, feature: int) -> Shape:
    _check_features(x, feature, vectors, "scale mean variance")
    expect_array(grad, "the output gradient")
    if not same_kind(grad.dtype, x.dtype) or grad.rank != x.rank:
        raise ShapeError(f"the output gradient must look as {x.bare}, not {grad.bare}")
    if not all(map(sizes_fit, x.dims, grad.dims)):
        raise ShapeError(f"operand and output gradient differ: {x.bare} and {grad.bare}")
    return _with_vectors(x, feature)
