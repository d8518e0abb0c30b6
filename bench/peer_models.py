"""Models written once for JAX and PyTorch, over the operations that both have under other names.

Images are channels last for JAX and channels first for PyTorch, as people write them there; the
models do not say. Batch normalisation is a scale and a shift of each channel, as after training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Weights = dict[str, np.ndarray]
"""By name. Names of filters of convolutions end in `.filter`: output, input channels, window."""


class JaxOperations:
    """Those of jax.numpy."""

    @staticmethod
    def entered(x: np.ndarray) -> np.ndarray:
        """An argument, images channels last."""
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if x.ndim == 4 else x

    @staticmethod
    def placed(name: str, w: np.ndarray) -> np.ndarray:
        """A weight; filters as window, input, output channels."""
        return np.ascontiguousarray(w.transpose(2, 3, 1, 0)) if name.endswith(".filter") else w

    def conv(self, x: Any, w: Any, stride: int, groups: int) -> Any:
        import jax

        pad = (w.shape[0] - 1) // 2
        return jax.lax.conv_general_dilated(
            x,
            w,
            (stride, stride),
            [(pad, pad)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )

    def scaled(self, x: Any, gain: Any, bias: Any) -> Any:
        return x * gain + bias

    def clipped(self, x: Any, most: float | None = None) -> Any:
        import jax.numpy as jnp

        return jnp.clip(x, 0, most)

    def max_pool(self, x: Any) -> Any:
        import jax

        window, strides = (1, 3, 3, 1), (1, 2, 2, 1)
        padding = ((0, 0), (1, 1), (1, 1), (0, 0))
        return jax.lax.reduce_window(x, -np.inf, jax.lax.max, window, strides, padding)

    def spatial_mean(self, x: Any) -> Any:
        return x.mean((1, 2))

    def gelu(self, x: Any) -> Any:
        import jax

        return jax.nn.gelu(x, approximate=True)

    def softmax(self, x: Any) -> Any:
        import jax

        return jax.nn.softmax(x, -1)

    def norm(self, x: Any, gain: Any, bias: Any) -> Any:
        import jax

        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gain + bias

    def masked(self, x: Any) -> Any:
        import jax.numpy as jnp

        n = x.shape[-1]
        return jnp.where(jnp.tril(jnp.ones((n, n), bool)), x, -1e9)

    def swapped(self, x: Any, a: int, b: int) -> Any:
        return x.swapaxes(a, b)


class TorchOperations:
    """Those of PyTorch."""

    def conv(self, x: Any, w: Any, stride: int, groups: int) -> Any:
        import torch  # pyright: ignore[reportMissingImports]

        pad = (w.shape[2] - 1) // 2
        return torch.nn.functional.conv2d(x, w, None, stride, pad, 1, groups)

    def scaled(self, x: Any, gain: Any, bias: Any) -> Any:
        return x * gain[:, None, None] + bias[:, None, None]

    def clipped(self, x: Any, most: float | None = None) -> Any:
        return x.clamp(min=0.0, max=most) if most is not None else x.relu()

    def max_pool(self, x: Any) -> Any:
        import torch  # pyright: ignore[reportMissingImports]

        return torch.nn.functional.max_pool2d(x, 3, 2, 1)

    def spatial_mean(self, x: Any) -> Any:
        return x.mean((2, 3))

    def gelu(self, x: Any) -> Any:
        import torch  # pyright: ignore[reportMissingImports]

        return torch.nn.functional.gelu(x, approximate="tanh")

    def softmax(self, x: Any) -> Any:
        return x.softmax(-1)

    def norm(self, x: Any, gain: Any, bias: Any) -> Any:
        import torch  # pyright: ignore[reportMissingImports]

        return torch.nn.functional.layer_norm(x, (x.shape[-1],), gain, bias, 1e-5)

    def masked(self, x: Any) -> Any:
        import torch  # pyright: ignore[reportMissingImports]

        n = x.shape[-1]
        return torch.where(torch.ones(n, n, dtype=torch.bool).tril(), x, -1e9)

    def swapped(self, x: Any, a: int, b: int) -> Any:
        return x.transpose(a, b)


Shapes = dict[str, tuple[int, ...]]
"""Of weights by name."""


@dataclass(frozen=True)
class Model:
    """A model: its weights' shapes, what it is given, and what it computes."""

    name: str
    shapes: Shapes
    given: tuple[int, ...]
    forward: Callable[[Any, dict[str, Any], Any], Any]

    def weights(self, rng: np.random.Generator) -> Weights:
        """Random ones under which numbers keep their size from layer to layer."""
        found = {}
        for name, shape in self.shapes.items():
            if name.endswith(".gain"):
                found[name] = np.ones(shape, np.float32) * 0.9
            elif name.endswith(".bias"):
                found[name] = (rng.standard_normal(shape) * 0.02).astype(np.float32)
            else:
                inputs = np.prod(shape[1:]) if name.endswith(".filter") else shape[0]
                scale = np.sqrt(2.0 / inputs)
                found[name] = (rng.standard_normal(shape) * scale).astype(np.float32)
        return found

    def argument(self, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal(self.given).astype(np.float32)


# -- images


class _Images:
    """Shapes of a network of convolutions while it is described, and what it computes."""

    def __init__(self) -> None:
        self.shapes: Shapes = {}
        self.steps: list[Callable[[Any, dict[str, Any], Any], Any]] = []

    def conv(
        self, name: str, inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
    ) -> Callable[[Any, dict[str, Any], Any], Any]:
        """A convolution with its scale and shift."""
        self.shapes[f"{name}.filter"] = (outputs, inputs // groups, size, size)
        self.shapes[f"{name}.gain"] = self.shapes[f"{name}.bias"] = (outputs,)

        def run(o: Any, w: dict[str, Any], x: Any) -> Any:
            y = o.conv(x, w[f"{name}.filter"], stride, groups)
            return o.scaled(y, w[f"{name}.gain"], w[f"{name}.bias"])

        return run

    def model(self, name: str, features: int) -> Model:
        self.shapes["classes"], self.shapes["classes.bias"] = (features, 1000), (1000,)

        def forward(o: Any, w: dict[str, Any], x: Any) -> Any:
            for step in self.steps:
                x = step(o, w, x)
            return o.spatial_mean(x) @ w["classes"] + w["classes.bias"]

        return Model(name, self.shapes, (1, 3, 224, 224), forward)


def resnet_50() -> Model:
    net = _Images()
    first = net.conv("first", 3, 64, 7, 2)
    net.steps.append(lambda o, w, x: o.max_pool(o.clipped(first(o, w, x))))
    inputs = 64
    for stage, (count, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for k in range(count):
            stride = 2 if stage and not k else 1
            net.steps.append(_bottleneck(net, f"s{stage}.{k}", inputs, width, stride))
            inputs = 4 * width
    return net.model("ResNet-50, one image", inputs)


def _bottleneck(net: _Images, name: str, inputs: int, width: int, stride: int) -> Any:
    a = net.conv(f"{name}.a", inputs, width, 1)
    b = net.conv(f"{name}.b", width, width, 3, stride)
    c = net.conv(f"{name}.c", width, 4 * width, 1)
    short = net.conv(f"{name}.d", inputs, 4 * width, 1, stride) if inputs != 4 * width else None

    def run(o: Any, w: dict[str, Any], x: Any) -> Any:
        y = o.clipped(b(o, w, o.clipped(a(o, w, x))))
        return o.clipped(c(o, w, y) + (x if short is None else short(o, w, x)))

    return run


def mobilenet_v2() -> Model:
    net = _Images()
    first = net.conv("first", 3, 32, 3, 2)
    net.steps.append(lambda o, w, x: o.clipped(first(o, w, x), 6.0))
    inputs = 32
    table = (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1)
    for stage, (wider, width, count, stride) in enumerate((*table, (6, 160, 3, 2), (6, 320, 1, 1))):
        for k in range(count):
            name = f"s{stage}.{k}"
            net.steps.append(_inverted(net, name, inputs, width, wider, stride if not k else 1))
            inputs = width
    last = net.conv("last", inputs, 1280, 1)
    net.steps.append(lambda o, w, x: o.clipped(last(o, w, x), 6.0))
    return net.model("MobileNetV2, one image", 1280)


def _inverted(net: _Images, name: str, inputs: int, width: int, wider: int, stride: int) -> Any:
    hidden = wider * inputs
    up = net.conv(f"{name}.a", inputs, hidden, 1) if wider > 1 else None
    deep = net.conv(f"{name}.b", hidden, hidden, 3, stride, hidden)
    down = net.conv(f"{name}.c", hidden, width, 1)

    def run(o: Any, w: dict[str, Any], x: Any) -> Any:
        y = x if up is None else o.clipped(up(o, w, x), 6.0)
        y = down(o, w, o.clipped(deep(o, w, y), 6.0))
        return x + y if stride == 1 and inputs == width else y

    return run


# -- words


def transformer(name: str, layers: int, given: tuple[int, ...], causal: bool) -> Model:
    """Layers of 768 numbers and 12 heads, normed before (causal, as GPT-2) or after (as BERT)."""
    width, hidden, heads = 768, 3072, 12
    shapes: Shapes = {}
    for k in range(layers):
        one = {"qkv": (width, 3 * width), "qkv.bias": (3 * width,), "out": (width, width)}
        one |= {"out.bias": (width,), "up": (width, hidden), "up.bias": (hidden,)}
        one |= {"down": (hidden, width), "down.bias": (width,)}
        one |= {f"n{j}.{what}": (width,) for j in (1, 2) for what in ("gain", "bias")}
        shapes |= {f"{k}.{part}": shape for part, shape in one.items()}

    def attended(o: Any, w: dict[str, Any], at: str, x: Any) -> Any:
        batch, n = x.shape[:2]
        y = (x @ w[at + "qkv"] + w[at + "qkv.bias"]).reshape(batch, n, 3, heads, width // heads)
        q, key, value = [o.swapped(y[:, :, j], 1, 2) for j in range(3)]
        scores = q @ o.swapped(key, -1, -2) * 0.125
        if causal:
            scores = o.masked(scores)
        joined = o.swapped(o.softmax(scores) @ value, 1, 2).reshape(batch, n, width)
        return joined @ w[at + "out"] + w[at + "out.bias"]

    def widened(o: Any, w: dict[str, Any], at: str, x: Any) -> Any:
        y = o.gelu(x @ w[at + "up"] + w[at + "up.bias"])
        return y @ w[at + "down"] + w[at + "down.bias"]

    def forward(o: Any, w: dict[str, Any], x: Any) -> Any:
        for k in range(layers):
            for j, part in ((1, attended), (2, widened)):
                at = f"{k}."
                gain, bias = w[f"{at}n{j}.gain"], w[f"{at}n{j}.bias"]
                if causal:
                    x = x + part(o, w, at, o.norm(x, gain, bias))
                else:
                    x = o.norm(x + part(o, w, at, x), gain, bias)
        return x

    return Model(name, shapes, given, forward)


def perceptron() -> Model:
    sizes = 784, 2048, 2048, 2048, 10
    shapes: Shapes = {}
    for k, (a, b) in enumerate(pairwise(sizes)):
        shapes |= {f"{k}": (a, b), f"{k}.bias": (b,)}

    def forward(o: Any, w: dict[str, Any], x: Any) -> Any:
        for k in range(len(sizes) - 1):
            x = x @ w[f"{k}"] + w[f"{k}.bias"]
            x = o.clipped(x) if k < len(sizes) - 2 else x
        return x

    return Model("perceptron of 4 layers, 64 rows", shapes, (64, 784), forward)


MODELS = (
    resnet_50(),
    mobilenet_v2(),
    transformer("GPT-2, 12 layers, 256 tokens", 12, (1, 256, 768), causal=True),
    transformer("BERT-base, 12 layers, 128 tokens", 12, (1, 128, 768), causal=False),
    perceptron(),
)


def torch_module(model: Model, weights: Weights) -> Any:
    """The model as a `torch.nn.Module` for inference, with its weights as parameters."""
    import torch  # pyright: ignore[reportMissingImports]

    operations = TorchOperations()

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.names = {name: f"w{k}" for k, name in enumerate(weights)}
            for name, k in self.names.items():
                self.register_parameter(k, torch.nn.Parameter(torch.from_numpy(weights[name])))

        def forward(self, x: Any) -> Any:
            values = {name: getattr(self, k) for name, k in self.names.items()}
            return model.forward(operations, values, x)

    return Module().eval()
