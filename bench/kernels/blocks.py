"""Products, convolutions, transforms, attention and blocks of models, against XLA:CPU:
`python -m bench.kernels.blocks [-k WORD]`.

Shapes of which few are powers of two, types mixed, operands in every order; blocks as people write
them in JAX, with weights as arguments. One table with the worst first, as
`bench.kernels.operations` has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from bench.kernels.operations import Function, Operation, contest


def blocks() -> Iterator[Operation]:
    """All of them; a name begins with its family."""
    families = (_products, _narrow_products, _convolutions, _transforms, _attention, _models)
    for family in families:
        for name, function, *operands in family():
            yield Operation(name, function, tuple(operands))


def _products() -> Iterator[tuple[Any, ...]]:
    for spec in ("ij,jk", "ji,jk", "ij,kj", "ji,kj"):
        rule = f"{spec}->ik"
        yield (
            f"dot {rule}",
            lambda a, b, r=rule: jnp.einsum(r, a, b),
            "f32[500,500]",
            "f32[500,500]",
        )
    yield "dot bij,bjk", lambda a, b: a @ b, "f32[24,130,66]", "f32[24,66,130]"
    headed = lambda a, b: jnp.einsum("bqhd,bkhd->bhqk", a, b)  # noqa: E731
    yield "dot bqhd,bkhd", headed, "f32[2,200,8,64]", "f32[2,200,8,64]"
    for rows in (1, 3, 5, 9, 17):
        yield f"dot of {rows} rows", lambda a, b: a @ b, f"f32[{rows},1024]", "f32[1024,3000]"
        yield f"dot of {rows} columns", lambda a, b: a @ b, "f32[3000,1024]", f"f32[1024,{rows}]"
        turned = lambda a, b: a @ b.T  # noqa: E731
        yield f"dot of {rows} rows, turned", turned, f"f32[{rows},1024]", "f32[3000,1024]"
    for depth in (2, 5, 11):
        yield (
            f"dot of depth {depth}",
            lambda a, b: a @ b,
            f"f32[1500,{depth}]",
            f"f32[{depth},1500]",
        )
    yield "dot of depth 500000", lambda a, b: a.T @ b, "f32[500000,8]", "f32[500000,8]"
    yield "dot f64", lambda a, b: a @ b, "f64[400,400]", "f64[400,400]"
    yield "dot c64", lambda a, b: a @ b, "c64[200,200]", "c64[200,200]"


def _narrow_products() -> Iterator[tuple[Any, ...]]:
    wide = lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.float32)  # noqa: E731
    whole = lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.int32)  # noqa: E731
    size = "[768,768]"
    yield "dot f32 768", lambda a, b: a @ b, f"f32{size}", f"f32{size}"
    yield "dot bf16 768", lambda a, b: a @ b, f"bf16{size}", f"bf16{size}"
    yield "dot bf16 to f32", wide, f"bf16{size}", f"bf16{size}"
    yield "dot f16", lambda a, b: a @ b, f"f16{size}", f"f16{size}"
    yield "dot s8 to s32 768", whole, f"s8{size}", f"s8{size}"
    yield "dot f32 by bf16", lambda a, b: a @ b.astype(jnp.float32), "f32[64,768]", f"bf16{size}"
    weight = lambda a, b: a.T @ b  # noqa: E731
    yield "dot bf16 weight gradient", weight, "bf16[512,768]", "bf16[512,1024]"
    yield "dot bf16 input gradient", lambda a, b: a @ b.T, "bf16[512,768]", "bf16[1024,768]"
    yield "dot s8 weights", lambda a, b: a @ b.astype(jnp.float32), "f32[1,2048]", "s8[2048,2048]"
    yield "dot s4 weights", lambda a, b: a @ b.astype(jnp.float32), "f32[1,2048]", "s4[2048,2048]"
    lower = lambda a, b: a @ b.astype(jnp.bfloat16)  # noqa: E731
    yield "dot s4 weights, bf16", lower, "bf16[1,2048]", "s4[2048,2048]"
    yield "dot s8 one row", whole, "s8[1,2048]", "s8[2048,2048]"


def _gradients(of: Function, by: int) -> Function:
    return lambda *x: jax.grad(lambda *y: (of(*y) ** 2).sum(), by)(*x)


def conv(
    strides: tuple[int, ...], padding: Any = "SAME", groups: int = 1, dilation: int = 1
) -> Function:
    """A convolution with the features last."""
    rank = len(strides)
    spatial = "DHW"[-rank:]
    names = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    dilations = (dilation,) * rank
    return lambda x, w: lax.conv_general_dilated(
        x, w, strides, padding, rhs_dilation=dilations, dimension_numbers=names,
        feature_group_count=groups,
    )  # fmt: skip


def _convolutions() -> Iterator[tuple[Any, ...]]:
    cases: dict[str, tuple[Function, str, str]] = {
        "3x3": (conv((1, 1)), "f32[4,28,28,96]", "f32[3,3,96,96]"),
        "3x3 by 2": (conv((2, 2)), "f32[4,57,57,48]", "f32[3,3,48,96]"),
        "7x7 by 2": (conv((2, 2)), "f32[4,112,112,3]", "f32[7,7,3,64]"),
        "1x1": (conv((1, 1)), "f32[4,28,28,96]", "f32[1,1,96,200]"),
        "depthwise 3x3": (conv((1, 1), groups=96), "f32[4,28,28,96]", "f32[3,3,1,96]"),
        "depthwise 5x5 by 2": (conv((2, 2), groups=72), "f32[4,28,28,72]", "f32[5,5,1,72]"),
        "grouped": (conv((1, 1), groups=8), "f32[4,28,28,128]", "f32[3,3,16,128]"),
        "dilated": (conv((1, 1), dilation=3), "f32[4,28,28,48]", "f32[3,3,48,48]"),
        "1-D of 9": (conv((1,)), "f32[8,500,80]", "f32[9,80,100]"),
        "3-D": (conv((1, 1, 1)), "f32[1,16,28,28,16]", "f32[3,3,3,16,32]"),
        "16x16 patches": (conv((16, 16), "VALID"), "f32[4,224,224,3]", "f32[16,16,3,192]"),
    }
    for name, (of, x, w) in cases.items():
        yield f"conv {name}", of, x, w
        yield f"conv {name}, input's gradient", _gradients(of, 0), x, w
        yield f"conv {name}, weights' gradient", _gradients(of, 1), x, w
    up = lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME")  # noqa: E731
    yield "conv transposed", up, "f32[4,28,28,64]", "f32[4,4,64,32]"
    yield "conv bf16", conv((1, 1)), "bf16[4,28,28,96]", "bf16[3,3,96,96]"
    taps = lambda x, k: jnp.convolve(x, k, "same")  # noqa: E731
    yield "conv 31 taps", taps, "f32[2097152]", "f32[31]"
    yield "conv 301 taps", taps, "f32[500000]", "f32[301]"


def _transforms() -> Iterator[tuple[Any, ...]]:
    for n in (7, 12, 17, 60, 127, 129, 480, 509, 1000, 1009, 1024, 4099, 10000, 65537):
        batch = max(1, 400_000 // n)
        yield f"fft of {n}", jnp.fft.fft, f"c64[{batch},{n}]"
        yield f"rfft of {n}", jnp.fft.rfft, f"f32[{batch},{n}]"
    yield "irfft of 1000", jnp.fft.irfft, "c64[400,501]"
    yield "fft of 262144", jnp.fft.fft, "c64[262144]"
    yield "fft2", jnp.fft.fft2, "c64[500,500]"
    yield "fft of axis 0", lambda x: jnp.fft.fft(x, axis=0), "c64[512,600]"
    yield "fft3", jnp.fft.fftn, "c64[64,64,64]"
    for n in (100, 512, 1024):
        yield f"rfft2 {n}", jnp.fft.rfft2, f"f32[4,{n},{n}]"
    yield "irfft2 512", jnp.fft.irfft2, "c64[4,512,257]"
    yield "rfft f64", jnp.fft.rfft, "f64[400,1000]"


def attend(q: Any, k: Any, v: Any, causal: bool = False, window: int = 0) -> Any:
    """Attention of heads in the second dimension."""
    s = q @ k.swapaxes(-1, -2) / 8
    at = jnp.arange(s.shape[-2])[:, None] - jnp.arange(s.shape[-1])[None]
    if causal:
        s = jnp.where(at >= 0, s, -1e9)
    if window:
        s = jnp.where((at >= 0) & (at < window), s, -1e9)
    return jax.nn.softmax(s, -1) @ v


def _attention() -> Iterator[tuple[Any, ...]]:
    one = ("f32[8,300,64]",) * 3
    yield "attention", attend, *one
    yield "attention causal", lambda *x: attend(*x, causal=True), *one
    yield "attention in a window", lambda *x: attend(*x, window=64), *one
    yield (
        "attention gradient",
        lambda *x: jax.grad(lambda *y: attend(*y).sum(), (0, 1, 2))(*x),
        *one,
    )
    yield "attention of one query", attend, "f32[32,1,64]", "f32[32,1000,64]", "f32[32,1000,64]"
    biased = lambda q, k, v, b: jax.nn.softmax(q @ k.swapaxes(-1, -2) + b, -1) @ v  # noqa: E731
    yield "attention with bias", biased, *one, "f32[8,300,300]"
    linear = lambda q, k, v: jax.nn.elu(q) @ (jax.nn.elu(k).swapaxes(-1, -2) @ v)  # noqa: E731
    yield "attention linear", linear, *one

    def delta(q: Any, k: Any, v: Any) -> Any:
        def step(s: Any, x: Any) -> Any:
            q, k, v = x
            s = s * 0.9 + k[:, :, None] * v[:, None, :]
            return s, jnp.einsum("hd,hde->he", q, s)

        qkv = [x.swapaxes(0, 1) for x in (q, k, v)]
        return lax.scan(step, jnp.zeros((8, 64, 64)), tuple(qkv))[1]

    yield "attention as a recurrence", delta, *one


def _norm(x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


def _models() -> Iterator[tuple[Any, ...]]:
    def inverted(x: Any, a: Any, d: Any, b: Any) -> Any:
        for k in range(3):
            y = jnp.clip(conv((1, 1))(x, a[k]), 0, 6)
            y = jnp.clip(conv((1, 1), groups=y.shape[-1])(y, d[k]), 0, 6)
            x = x + conv((1, 1))(y, b[k])
        return x

    weights = ("f32[3,1,1,32,192]", "f32[3,3,3,1,192]", "f32[3,1,1,192,32]")
    yield "model mobilenet blocks", inverted, "f32[1,28,28,32]", *weights

    def squeezed(x: Any, a: Any, d: Any, s: Any, t: Any, b: Any) -> Any:
        y = jax.nn.silu(conv((1, 1))(x, a))
        y = jax.nn.silu(conv((1, 1), groups=y.shape[-1])(y, d))
        y = y * jax.nn.sigmoid(jax.nn.silu(y.mean((1, 2)) @ s) @ t)[:, None, None]
        return x + conv((1, 1))(y, b)

    weights = ("f32[1,1,40,240]", "f32[5,5,1,240]", "f32[240,10]", "f32[10,240]", "f32[1,1,240,40]")
    yield "model efficientnet block", squeezed, "f32[2,28,28,40]", *weights

    def convnext(x: Any, d: Any, a: Any, b: Any) -> Any:
        y = _norm(conv((1, 1), groups=x.shape[-1])(x, d))
        return x + jax.nn.gelu(y @ a) @ b

    weights = ("f32[7,7,1,96]", "f32[96,384]", "f32[384,96]")
    yield "model convnext block", convnext, "f32[2,56,56,96]", *weights
    yield "model convnext gradient", _gradients(convnext, 1), "f32[2,56,56,96]", *weights

    def unet(x: Any, a: Any, b: Any, w: Any, c: Any) -> Any:
        y = jax.nn.silu(conv((1, 1))(x, a))
        z = jax.nn.silu(conv((2, 2))(y, b))
        flat = _norm(z.reshape(z.shape[0], -1, z.shape[-1]))
        q, k, v = jnp.split(flat @ w, 3, -1)
        z = z + attend(q, k, v).reshape(z.shape)
        z = jnp.repeat(jnp.repeat(z, 2, 1), 2, 2)
        return conv((1, 1))(jnp.concatenate([y, z], -1), c)

    weights = ("f32[3,3,4,32]", "f32[3,3,32,64]", "f32[64,192]", "f32[3,3,96,4]")
    yield "model u-net with attention", unet, "f32[2,32,32,4]", *weights

    yield from _larger_models()


def _larger_models() -> Iterator[tuple[Any, ...]]:
    def whisper(x: Any, a: Any, b: Any, w: Any, o: Any, u: Any, d: Any) -> Any:
        y = jax.nn.gelu(conv((1,))(x, a))
        y = jax.nn.gelu(conv((2,))(y, b))
        qkv = jnp.split(_norm(y) @ w, 3, -1)
        q, k, v = [z.reshape(*z.shape[:2], 6, 64).swapaxes(1, 2) for z in qkv]
        y = y + attend(q, k, v).swapaxes(1, 2).reshape(y.shape) @ o
        return y + jax.nn.gelu(_norm(y) @ u) @ d

    weights = ("f32[3,80,384]", "f32[3,384,384]", "f32[384,1152]", "f32[384,384]")
    rest = ("f32[384,1536]", "f32[1536,384]")
    yield "model whisper encoder", whisper, "f32[1,1000,80]", *weights, *rest

    def dlrm(x: Any, i: Any, t: Any, a: Any, b: Any, c: Any) -> Any:
        y = jax.nn.relu(jax.nn.relu(x @ a) @ b)
        e = jnp.concatenate([y[:, None], t[jnp.arange(8)[None], i]], 1)
        pairs = jnp.einsum("bid,bjd->bij", e, e)[:, *jnp.triu_indices(9, 1)]
        return jax.nn.sigmoid(jnp.concatenate([y, pairs], 1) @ c)

    weights = ("f32[8,10000,32]", "f32[13,256]", "f32[256,32]", "f32[68,1]")
    yield "model dlrm", dlrm, "f32[2048,13]", "s32[2048,8]<10000", *weights

    def graph(x: Any, i: Any, j: Any, w: Any, v: Any) -> Any:
        for _ in range(2):
            message = jax.nn.relu(x[i] @ w)
            x = jax.nn.relu(x @ v + jax.ops.segment_sum(message, j, x.shape[0]))
        return x

    edges = ("s32[20000]<4000", "s32[20000]<4000")
    yield "model graph network", graph, "f32[4000,64]", *edges, "f32[64,64]", "f32[64,64]"

    def experts(x: Any, g: Any, a: Any, b: Any) -> Any:
        top, which = lax.top_k(jax.nn.softmax(x @ g), 2)
        gates = (jax.nn.one_hot(which, 8) * top[..., None]).sum(1)
        y = jax.nn.gelu(jnp.einsum("td,edh->eth", x, a))
        return jnp.einsum("eth,ehd,te->td", y, b, gates)

    weights = ("f32[256,8]", "f32[8,256,512]", "f32[8,512,256]")
    yield "model mixture of experts", experts, "f32[256,256]", *weights

    def diffusion(x: Any, t: Any, a: Any, b: Any, m: Any) -> Any:
        angles = t[:, None] * jnp.exp(-jnp.arange(32) / 4.0)
        time = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1) @ m
        y = jax.nn.silu(conv((1, 1))(x, a) + time[:, None, None])
        mean, variance = y.mean((1, 2), keepdims=True), y.var((1, 2), keepdims=True)
        noise = conv((1, 1))((y - mean) * lax.rsqrt(variance + 1e-5), b)
        return (x - 0.1 * noise) / 0.99

    weights = ("f32[3,3,8,64]", "f32[3,3,64,8]", "f32[64,64]")
    yield "model diffusion step", diffusion, "f32[4,32,32,8]", "f32[4]", *weights
    yield "model diffusion gradient", _gradients(diffusion, 2), "f32[4,32,32,8]", "f32[4]", *weights


def main() -> None:
    contest(blocks(), __doc__)


if __name__ == "__main__":
    main()
