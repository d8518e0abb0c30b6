"""Elements that change their place: tiles, transposes, pads, shifts, images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.kernels.families.draw import Draw


def _repeat(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp

    for times in (2, 3, draw.one([4, 5, 7])):
        n = max(draw.elements() // times, 1)
        kind = draw.one(["f32", "f32", "bf16", "u8"])
        yield f"tile {times}", lambda x, t=times: jnp.tile(x, t), f"{kind}[{n}]"
        yield f"repeat {times}", lambda x, t=times: jnp.repeat(x, t), f"{kind}[{n}]"
        rows, columns = draw.matrix().split(",")
        shape = f"f32[{max(int(rows) // times, 1)},{columns}]"
        yield f"tile rows {times}", lambda x, t=times: jnp.tile(x, (1, t)), shape
        yield f"repeat rows {times}", lambda x, t=times: jnp.repeat(x, t, 0), shape
        yield f"repeat columns {times}", lambda x, t=times: jnp.repeat(x, t, 1), shape
    up = lambda x: jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)  # noqa: E731
    yield "upsample", up, f"f32[{draw.image(True, 32)}]"


def _join(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp

    for axis in (0, 1):
        rows, columns = draw.matrix().split(",")
        both = f"f32[{rows},{columns}]"
        kind = draw.one(["f32", "bf16", "s8"])
        joined = lambda x, y, d=axis: jnp.concatenate([x, y], d)  # noqa: E731
        yield (
            f"concatenate over {axis}",
            joined,
            f"{kind}[{rows},{columns}]",
            (f"{kind}[{rows},{columns}]"),
        )
        stacked = lambda x, y, d=axis: jnp.stack([x, y], d)  # noqa: E731
        yield f"stack over {axis}", stacked, both, both
        split = lambda x, d=axis: jnp.array_split(x, 3, d)  # noqa: E731
        yield f"split over {axis}", split, f"f32[{draw.matrix()}]"
    for count in (2, 3, 4):
        n = draw.elements() // count
        kind = draw.one(["f32", "f32", "bf16", "u8"])
        woven = lambda *x: jnp.stack(x, -1)  # noqa: E731
        yield f"interleave {count}", woven, *[f"{kind}[{n}]"] * count
        apart = lambda x, c=count: tuple([x[:, k] for k in range(c)])  # noqa: E731
        yield f"deinterleave {count}", apart, f"{kind}[{n},{count}]"
    rotary = lambda x: jnp.concatenate([-x[..., 32:], x[..., :32]], -1)  # noqa: E731
    yield "rotate half", rotary, f"f32[{draw.cube(64)}]"
    pairs = lambda x: jnp.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)  # noqa: E731
    yield "rotate pairs", pairs, f"f32[{draw.cube(64)}]"


def _transpose(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp

    turned = lambda order: lambda x: jnp.transpose(x, order)  # noqa: E731
    for kind in ("f32", draw.one(["bf16", "u8", "f64", "c64"])):
        yield "2-D", jnp.transpose, f"{kind}[{draw.matrix()}]"
        yield "heads", turned((0, 2, 1, 3)), f"{kind}[4,{draw.one([128, 255])},12,64]"
    for channels in (3, draw.one([4, 16, 64, 100])):
        yield "to channels first", turned((0, 3, 1, 2)), f"f32[{draw.image(True, channels)}]"
        yield "to channels last", turned((0, 2, 3, 1)), f"f32[{draw.image(False, channels)}]"
    yield "of 3", turned((2, 0, 1)), f"f32[{draw.cube()}]"
    yield "of short rows", jnp.transpose, f"f32[{draw.matrix(draw.one([2, 3, 5, 9]))}]"
    yield "of few rows", lambda x: x.T.copy(), f"f32[{draw.one([2, 3, 7])},{draw.elements() // 4}]"
    blocks = lambda x: x.reshape(x.shape[0], 16, 4, 16, 4, 3).transpose(0, 1, 3, 2, 4, 5)  # noqa: E731
    yield "patches", blocks, f"f32[{draw.one([64, 99])},64,64,3]"


def _image(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp

    def normalised(x: Any, mean: Any, deviation: Any) -> Any:
        return (x.astype(jnp.float32) / 255 - mean) / deviation

    side = draw.one([223, 224, 299])
    shape, channels = f"u8[8,{side},{side},3]", ("f32[3]", "f32[3]<1")
    yield "normalise", normalised, shape, *channels
    first = lambda x, m, s: normalised(x, m, s).transpose(0, 3, 1, 2)  # noqa: E731
    yield "normalise to channels first", first, shape, *channels
    yield "reverse channels", lambda x: x[..., ::-1], f"f32[8,{side},{side},3]"
    yield "reverse channels of u8", lambda x: x[..., ::-1], shape
    yield "grey", lambda x: x @ jnp.array([0.3, 0.6, 0.1]), f"f32[8,{side},{side},3]"
    yield "flip", lambda x: x[:, :, ::-1], f"f32[8,{side},{side},3]"
    yield "crop", lambda x: x[:, 7:-9, 5:-11], f"f32[8,{side},{side},3]"
    for method in ("bilinear", "nearest"):
        scaled = lambda x, m=method: jax.image.resize(x, (4, 96, 96, 16), m)  # noqa: E731
        yield f"{method} resize", scaled, "f32[4,64,64,16]"


def _shift(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp

    for mode in ("constant", "edge", "reflect", "wrap"):
        padded = lambda x, m=mode: jnp.pad(x, ((0, 0), (2, 3)), mode=m)  # noqa: E731
        yield f"pad {mode}", padded, f"f32[{draw.matrix()}]"
    for axis in (0, 1):
        shape = f"{draw.one(['f32', 'f32', 'bf16', 's8'])}[{draw.matrix()}]"
        yield f"roll over {axis}", lambda x, d=axis: jnp.roll(x, 3, d), shape
        yield f"flip over {axis}", lambda x, d=axis: jnp.flip(x, d), shape
        yield f"diff over {axis}", lambda x, d=axis: jnp.diff(x, axis=d), f"f32[{draw.matrix()}]"
        central = lambda x, d=axis: jnp.gradient(x, axis=d)  # noqa: E731
        yield f"gradient over {axis}", central, f"f32[{draw.matrix()}]"
    yield "shifted", lambda x: x[1:-2] * 2, f"f32[{draw.elements()}]"
    five = lambda x: x[1:-1, 1:-1] * -4 + x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]  # noqa: E731
    yield "laplacian", five, f"f32[{draw.matrix()}]"
    yield "every other row", lambda x: x[::2], f"f32[{draw.matrix()}]"
    yield "every other column", lambda x: x[:, 1::2], f"f32[{draw.matrix()}]"


FAMILIES = (_repeat, _join, _transpose, _image, _shift)
