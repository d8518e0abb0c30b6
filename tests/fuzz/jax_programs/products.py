"""Matrix products, einsums and convolutions."""

from __future__ import annotations

from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.fuzz.jax_programs.sketch import Sketch, step

MOST_FLOPS = 1 << 30


@step("fc", 5)
def matmul(d: Sketch, x: Any) -> Any:
    d.need(x.ndim and x.size <= 1 << 21)
    n = d.size(
        max(1, min(2048, MOST_FLOPS // max(1, x.size), (1 << 21) // max(1, x.size // x.shape[-1])))
    )
    k = d.arg((x.shape[-1], n), x.dtype)
    scale = x.shape[-1] ** -0.5
    if d.chance(0.3):
        bias = d.arg((n,), x.dtype)
        return lambda env, x: jnp.tanh((x @ env[k]) * scale + env[bias])
    if d.chance(0.2):
        return lambda env, x: jnp.matmul(x, env[k], precision="highest") * scale
    return lambda env, x: (x @ env[k]) * scale


@step("f", 2)
def product_left(d: Sketch, x: Any) -> Any:
    d.need(x.ndim >= 2 and x.size <= 1 << 20)
    m, n = d.size(512), x.shape[-2]
    d.need(m * x.size < MOST_FLOPS)
    k = d.arg((m, n), x.dtype)
    return lambda env, x: jnp.matmul(env[k], x) * n**-0.5


@step("f", 2)
def gram(d: Sketch, x: Any) -> Any:
    d.need(x.ndim >= 2 and x.size * min(x.shape[-2:]) < MOST_FLOPS)
    scale = 1 / max(x.shape[-2:])
    if x.shape[-1] < x.shape[-2]:
        return lambda env, x: jnp.einsum("...ki,...kj->...ij", x, x) * scale
    return lambda env, x: jnp.einsum("...ik,...jk->...ij", x, x) * scale


@step("f", 4, fresh=True)
def odd_einsum(d: Sketch, x: Any) -> Any:
    """Two operands of random letters: batch, contracted and free ones in any order, sizes of 1."""
    room = min(d.budget, 1 << 18)
    letters = "abcdefg"[: d.between(2, 6)]
    most = max(2, int(room ** (1.6 / len(letters))))
    sizes = {c: d.size(min(most, 600)) for c in letters}
    left = [c for c in letters if d.chance(0.65)] or ["a"]
    right = [c for c in letters if d.chance(0.65)] or ["b"]
    both = [c for c in letters if c in left or c in right]
    out = [c for c in both if d.chance(0.6)]
    d.need(prod(sizes[c] for c in both) <= 1 << 27)
    for part in (left, right, out):
        d.rng.shuffle(part)
        d.need(prod(sizes[c] for c in part) <= 1 << 22)
    spec = f"{''.join(left)},{''.join(right)}->{''.join(out)}"
    a, b = (d.arg([sizes[c] for c in part]) for part in (left, right))
    return lambda env, _: jnp.einsum(spec, env[a], env[b])


@step("f", 1.5)
def tensordot(d: Sketch, x: Any) -> Any:
    d.need(x.ndim >= 2 and x.size <= 1 << 20)
    axis, n = d.axis(x), d.size(200)
    d.need(x.size * n < MOST_FLOPS)
    k = d.arg((n, x.shape[axis]), x.dtype)
    return lambda env, x: jnp.tensordot(x, env[k], axes=(axis, 1)) * x.shape[axis] ** -0.5


@step("f", 1)
def outer(d: Sketch, x: Any) -> Any:
    d.need(x.size <= 1 << 14)
    n = d.size(max(1, (1 << 20) // max(1, x.size)))
    k = d.arg((n,), x.dtype)
    return lambda env, x: jnp.outer(x, env[k])


@step("f", 1)
def three_operands(d: Sketch, x: Any) -> Any:
    d.need(x.ndim == 2 and x.size <= 1 << 17)
    r = d.size(64)
    u, v = d.arg((x.shape[1], r), x.dtype), d.arg((r, x.shape[1]), x.dtype)
    scale = (x.shape[1] * r) ** -0.5
    return lambda env, x: jnp.einsum("bi,ir,rj->bj", x, env[u], env[v]) * scale


@step("", 2, fresh=True)
def integer_product(d: Sketch, x: Any) -> Any:
    m, k, n = (d.size(300) for _ in range(3))
    of = d.pick(("int8", "int32", "int16", "uint8"))
    a, b = d.arg((m, k), of), d.arg((k, n), of)
    to = d.pick((jnp.int32, None))
    return lambda env, _: lax.dot(env[a], env[b], preferred_element_type=to)


@step("", 1.5, fresh=True)
def wide_product(d: Sketch, x: Any) -> Any:
    """bf16 or f16 times itself, summed in f32; a gradient of a weight is such a one."""
    b, m, k, n = d.size(4), d.size(256), d.size(1500), d.size(256)
    of = d.pick(("bfloat16", "float16"))
    x1, x2 = d.arg((b, m, k), of), d.arg((b, n, k), of)
    d.has_bits = True
    return lambda env, _: lax.dot_general(
        env[x1], env[x2], (((2,), (2,)), ((0,), (0,))), preferred_element_type=jnp.float32
    )


@step("", 1.5, fresh=True)
def ragged_product(d: Sketch, x: Any) -> Any:
    rows, k, n, groups = d.size(500), d.size(64), d.size(64), d.between(1, 8)
    cuts = sorted(d.between(0, rows) for _ in range(groups - 1))
    d.args.append(jnp_int([b - a for a, b in zip([0, *cuts], [*cuts, rows])]))
    sizes = len(d.args) - 1
    a, b = d.arg((rows, k)), d.arg((groups, k, n))
    return lambda env, _: lax.ragged_dot(env[a], env[b], env[sizes])


def jnp_int(values: Any) -> Any:
    import numpy as np

    return np.asarray(values, np.int32)


LAYOUTS = {
    1: (("NHC", "HIO", "NHC"), ("NCH", "OIH", "NCH")),
    2: (("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("NHWC", "OIHW", "NCHW")),
    3: (("NDHWC", "DHWIO", "NDHWC"), ("NCDHW", "OIDHW", "NCDHW")),
}


@step("f", 6, fresh=True)
def convolution(d: Sketch, x: Any) -> Any:
    rank = d.pick((1, 1, 2, 2, 2, 2, 3))
    groups = d.pick((1, 1, 1, 2, 4))
    ins, outs = groups * d.pick((1, 2, 3, 8, 16, 33)), groups * d.pick((1, 3, 8, 16, 40))
    if d.chance(0.15):  # depthwise
        groups = ins = outs = d.pick((3, 16, 64, 130))
    kernel = [d.pick((1, 2, 3, 3, 5, 7)) for _ in range(rank)]
    most = {1: 3000, 2: 112, 3: 20}[rank]
    sizes = [max(k, d.size(most)) for k in kernel]
    batch = d.pick((1, 1, 2, 4, 7))
    flops = batch * prod(sizes) * prod(kernel) * ins * outs // groups
    d.need(flops <= 1 << 28 and batch * prod(sizes) * max(ins, outs) <= 1 << 21)
    names = d.pick(LAYOUTS[rank])
    place = {"N": batch, "C": ins} | dict(zip("DHW"[-rank:] if rank != 1 else "H", sizes))
    of = {"O": outs, "I": ins // groups} | dict(zip("DHW"[-rank:] if rank != 1 else "H", kernel))
    a = d.arg([place[c] for c in names[0]])
    b = d.arg([of[c] for c in names[1]])
    padding = d.pick(("SAME", "VALID", [(d.between(0, 3), d.between(0, 3)) for _ in kernel]))
    strides = [d.pick((1, 1, 2, 3)) for _ in kernel]
    dilation = [d.pick((1, 1, 1, 2)) if d.chance(0.5) else 1 for _ in kernel]
    holes = [2 if d.chance(0.1) else 1 for _ in kernel]
    if isinstance(padding, str) and max(holes) > 1:
        padding = [(1, 1)] * rank
    scale = (prod(kernel) * ins // groups) ** -0.5
    return lambda env, _: (
        lax.conv_general_dilated(
            env[a],
            env[b],
            strides,
            padding,
            lhs_dilation=holes,
            rhs_dilation=dilation,
            dimension_numbers=names,
            feature_group_count=groups,
        )
        * scale
    )


@step("f", 1, fresh=True)
def transposed_convolution(d: Sketch, x: Any) -> Any:
    n, ins, outs = d.size(56), d.pick((1, 3, 16)), d.pick((1, 4, 8))
    k, stride = d.pick((2, 3, 4, 5)), d.pick((1, 2, 3))
    a, b = d.arg((d.between(1, 3), n, n, ins)), d.arg((k, k, ins, outs))
    padding = d.pick(("SAME", "VALID"))
    return lambda env, _: lax.conv_transpose(env[a], env[b], (stride, stride), padding)


@step("f", 1)
def convolve(d: Sketch, x: Any) -> Any:
    d.need(x.ndim == 1 and 8 < x.size <= 1 << 15)
    k, mode = d.arg((d.size(64),), x.dtype), d.pick(("full", "same", "valid"))
    f = d.pick((jnp.convolve, jnp.correlate))
    return lambda env, x: f(x, env[k], mode=mode)


@step("f", 1)
def patches(d: Sketch, x: Any) -> Any:
    d.need(x.ndim == 3 and min(x.shape[1:]) >= 8 and x.size <= 1 << 17)
    k = d.pick((2, 3, 4))

    def f(env: Any, x: Any) -> Any:
        y = x[:, None].astype(jnp.float32)
        return lax.conv_general_dilated_patches(y, (k, k), (k, k), "VALID")

    return f


def dense(d: Sketch, ins: int, outs: int, dtype: Any = None) -> Any:
    """A layer's weights, as a function of the program's arguments and of rows."""
    w, b = d.arg((ins, outs), dtype), d.arg((outs,), dtype)
    scale = ins**-0.5
    return lambda env, x: (x @ env[w]) * jnp.asarray(scale, x.dtype) + env[b]


ACTIVATIONS = (jax.nn.relu, jax.nn.gelu, jnp.tanh, jax.nn.silu, jax.nn.sigmoid, jax.nn.softplus)
