"""A graph that torch.export captured, as a function of JAX's: torchax knows the operations.

Which values of the model each parameter of the graph is, the graph's own signature says: tensors
that the model's code makes (`torch.tensor([-1])`) may stand before its buffers or behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hloom.torch.operations import OWN
from hloom.torch.tensors import dtype_of

Function = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
"""From the values of the model and the arguments to what buffers are to be, and the results."""

WRITTEN = ("BUFFER_MUTATION", "PARAMETER_MUTATION")
"""What torch.export calls results that are values of the model from then on; not each version of
PyTorch has both."""
GROUPED_PRODUCTS = ("transformers::grouped_mm_fallback",)
"""Rows of an array, sorted by groups that end at given rows, each by the matrix of its group."""


def as_function(torch: Any, exported: Any) -> tuple[list[str], list[Any], list[int], Function]:
    """The names of the model's values, these, the numbers of those that it writes to, and the
    function; of a graph in core operations."""
    from torchax import decompositions  # pyright: ignore[reportMissingImports]

    exported = exported.run_decompositions(decompositions.DECOMPOSITIONS)
    for node in exported.graph.nodes:
        if node.target is torch.ops.aten.convolution.default:
            _give_each_dimension_its_own(node)
        elif node.target is torch.ops.aten.native_group_norm.default:
            node.target = _group_norm
        if (own := OWN.get(_name(node.target))) is not None:
            node.target = own
        elif _name(node.target) in GROUPED_PRODUCTS:
            _teach_grouped_product(node.target)
    signature = exported.graph_signature
    known = {**exported.state_dict, **exported.constants}
    names = [*signature.parameters, *signature.buffers]
    lifted = list(getattr(signature, "lifted_tensor_constants", ()))
    places = {name: k for k, name in enumerate([*names, *lifted])}
    token = torch.export.graph_signature.InputKind.TOKEN  # an order of effects: no value
    inputs = [spec for spec in signature.input_specs if spec.kind is not token]
    first = len(signature.input_specs) - len(inputs)  # in front, and of the results, too
    order = [_place(torch, spec, places) for spec in inputs]
    kinds = [getattr(torch.export.graph_signature.OutputKind, name, None) for name in WRITTEN]
    written = [places[s.target] for s in signature.output_specs if s.kind in kinds]

    def function(state: Sequence[Any], arguments: Sequence[Any]) -> Sequence[Any]:
        own = iter(arguments)
        values = [next(own) if k is None else state[k] for k in order]
        interpreter = _interpreter(torch, exported.graph_module)
        values = [*[None] * first, *values]
        return interpreter.run(*values, enable_io_processing=False)[first:]

    return names, [known[name] for name in [*names, *lifted]], written, function


def _interpreter(torch: Any, graph: Any) -> Any:
    """Runs a graph in JAX, each of its values in the type that PyTorch gives it: JAX's rules are
    others, by which `2.0 ** x` and what follows from it would be f64 where x is f32."""
    from torchax.export import JaxInterpreter  # pyright: ignore[reportMissingImports]

    class Interpreter(JaxInterpreter):
        def run_node(self, n: Any) -> Any:
            value, meant = super().run_node(n), n.meta.get("val")
            if n.op != "call_function":
                return value
            if not isinstance(value, (tuple, list)):
                return _typed(torch, value, meant)
            whole = meant if isinstance(meant, (tuple, list)) else [None] * len(value)
            return [_typed(torch, x, m) for x, m in zip(value, whole, strict=True)]

    return Interpreter(graph)


def _typed(torch: Any, value: Any, meant: Any) -> Any:
    """An array in the type of the tensor that PyTorch has there; as it is where it has none."""
    if not isinstance(meant, torch.Tensor) or not hasattr(value, "astype"):
        return value
    of = dtype_of(meant.dtype)
    return value if value.dtype == of else value.astype(of)


def _place(torch: Any, spec: Any, places: dict[str, int]) -> int | None:
    """Which of the model's values a parameter of the graph is; None for an argument."""
    if spec.kind is torch.export.graph_signature.InputKind.USER_INPUT:
        return None
    return places[spec.target]


def _name(target: Any) -> str:
    """The name of an operation with its form; empty for what is none."""
    name = getattr(target, "name", None)
    return str(name()) if callable(name) else ""


def _give_each_dimension_its_own(node: Any) -> None:
    """A convolution's strides, padding and dilation, of which PyTorch takes one for all dimensions
    and torchax one for each."""
    spatial = node.args[1].meta["val"].dim() - 2
    for k in (3, 4, 5, 7):
        if len(node.args[k]) == 1 < spatial:
            node.update_arg(k, list(node.args[k]) * spatial)


def _group_norm(
    x: Any,
    weight: Any,
    bias: Any,
    images: int,
    channels: int,
    places: int,
    groups: int,
    epsilon: float,
) -> tuple[Any, ...]:
    """Group norm, with the means and inverse deviations. Torchax has all images and groups as rows
    of a loop of one step: however images lie best, they would have to lie as written for it."""
    import jax
    from jax import numpy as jnp

    of = jnp.promote_types(x.dtype, jnp.float32)
    y = x.astype(of).reshape(images, groups, channels // groups, *x.shape[2:])
    over = tuple(range(2, y.ndim))
    mean = y.mean(over, keepdims=True)
    factor = jax.lax.rsqrt(jnp.square(y - mean).mean(over, keepdims=True) + epsilon)
    result = ((y - mean) * factor).reshape(x.shape)
    each = (channels, *[1] * (x.ndim - 2))
    if weight is not None:
        result = result * weight.astype(of).reshape(each)
    if bias is not None:
        result = result + bias.astype(of).reshape(each)
    return tuple(v.astype(x.dtype) for v in (result, mean.squeeze(over), factor.squeeze(over)))


def _teach_grouped_product(operation: Any) -> None:
    """Make a grouped product known to torchax, which has none."""
    import jax
    from torchax.ops import ops_registry  # pyright: ignore[reportMissingImports]

    def grouped(rows: Any, matrices: Any, ends: Any) -> Any:
        sizes = jax.numpy.diff(ends, prepend=jax.numpy.zeros(1, ends.dtype))
        return jax.lax.ragged_dot(rows, matrices, sizes.astype("int32"))

    if operation not in ops_registry.all_aten_ops:
        ops_registry.register_torch_dispatch_op(operation, grouped)
