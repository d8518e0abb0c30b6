"""Steps of random sharded programs: what is neither elementwise nor a loop, and what hands on."""

import numpy as np

from tests.fuzz.partition_sketch import kind


def text(dims, dtype="f32"):
    return f"{dtype}[{','.join(map(str, dims))}]"


@kind
def fft(s):
    x = s.pick(least=1)
    z = s.annotate(s.b.complex(x, s.b.negate(x)))
    n = s.random.randint(1, min(x.shape.rank, 2))
    f = s.annotate(
        s.b.fft(z, fft_type=s.random.choice(("FFT", "IFFT")), fft_length=x.shape.dims[-n:])
    )
    return s.b.emit(s.random.choice(("real", "imag")), f)


@kind
def triangular_solve(s):
    batch, n, m = s.dims(1), s.random.choice((1, 2, 4)), s.random.choice((1, 3, 8))
    a = s.fitting((*batch, n, n))
    eye = s.b.select(
        s.b.compare(
            s.b.iota(iota_dimension=1, shape=text(a.shape.dims, "s32")),
            s.b.iota(iota_dimension=2, shape=text(a.shape.dims, "s32")),
            direction="EQ",
        ),
        s.full(4.0, a.shape.dims),
        s.b.tanh(a),
    )
    return s.b.triangular_solve(
        s.annotate(eye),
        s.fitting((*batch, n, m)),
        left_side=True,
        lower=s.random.random() < 0.5,
        unit_diagonal=False,
        transpose_a="NO_TRANSPOSE",
    )


@kind
def cholesky(s):
    batch, n = s.dims(1), s.random.choice((1, 2, 4))
    x = s.b.tanh(s.fitting((*batch, n, n)))
    product = s.b.dot(
        x,
        x,
        lhs_batch_dims=(0,),
        rhs_batch_dims=(0,),
        lhs_contracting_dims=(2,),
        rhs_contracting_dims=(2,),
    )
    eye = s.b.compare(
        s.b.iota(iota_dimension=1, shape=text(x.shape.dims, "s32")),
        s.b.iota(iota_dimension=2, shape=text(x.shape.dims, "s32")),
        direction="EQ",
    )
    own = s.b.select(eye, s.full(4.0, x.shape.dims), s.full(0.0, x.shape.dims))
    return s.b.cholesky(s.annotate(s.b.add(product, own)), lower=True)


@kind
def topk(s):
    x = s.pick(least=1)
    k = s.random.randint(1, x.shape.dims[-1])
    return s.b.get_tuple_element(s.b.topk(x, k=k, largest=s.random.random() < 0.5), index=0)


@kind
def barrier(s):
    x, y = s.pick(), s.pick()
    both = s.b.opt_barrier(s.b.tuple(x, y))
    return s.b.get_tuple_element(both, index=s.random.choice((0, 1)))


@kind
def handed_on(s):
    x = s.pick()
    if s.random.random() < 0.5:
        return s.b.copy(x)
    target = s.random.choice(
        ("Sharding", "xla.sdy.PropagationBarrier", "AssumeGatherIndicesInBound")
    )
    return s.b.custom_call(x, custom_call_target=target, shape=x.shape.text_without_layout)


@kind
def bits(s):
    x = s.pick(least=1)
    halves = s.annotate(s.b.bitcast_convert(x, shape=text((*x.shape.dims, 2), "u16")))
    return s.b.bitcast_convert(s.b.reverse(halves, dimensions=()), shape=text(x.shape.dims))


@kind
def clamped(s):
    x = s.pick()
    ends = [s.b.constant(np.float32(v)) for v in (-0.5, 0.5)]
    return s.b.reduce_precision(s.b.clamp(ends[0], x, ends[1]), exponent_bits=8, mantissa_bits=23)


@kind
def mapped(s):
    x = s.pick(least=1)
    inner = s.b.computation("map")
    a = inner.parameter("f32[]")
    f = inner.finish(inner.multiply(a, inner.tanh(a)))
    return s.b.map(x, dimensions=tuple(range(x.shape.rank)), to_apply=f)


@kind
def random_bits(s):
    dims = s.dims(2)
    state = s.b.constant(np.array([s.random.randint(0, 99), 7], np.uint64))
    drawn = s.b.rng_bit_generator(
        state, algorithm="rng_three_fry", shape=f"(u64[2], {text(dims, 'u32')})"
    )
    small = s.b.shift_right_logical(
        s.b.get_tuple_element(drawn, index=1),
        s.b.broadcast(s.b.constant(np.uint32(9)), dimensions=(), shape=text(dims, "u32")),
    )
    return s.b.convert(small, shape=text(dims))
