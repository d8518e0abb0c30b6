"""hloom for PyTorch models: `hloom.torch.lower(model, *args)`, `compile`, `export_c`.

`torch.export` captures the model for arguments like these; torchax, which must be installed,
writes its operations in JAX, and JAX writes StableHLO. Parameters and buffers of the model are the
first parameters of the graph, its inputs come behind them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom import api
from hloom.api import Module, UsageError
from hloom.torch.compiled import Captured, Compiled, WeightsChangedWarning
from hloom.torch.graph import as_function
from hloom.torch.tensors import INSTALL, array_of, dtype_of, kind_of, torch_and_trees
from hloom.torch.weights import Freezing, freezing_of

if TYPE_CHECKING:
    from hloom.aot.export import CLibrary

__all__ = ["Compiled", "Freezing", "WeightsChangedWarning", "compile", "export_c", "lower"]


def lower(model: Any, *arguments: Any, keywords: Mapping[str, Any] | None = None) -> Module:
    """The graph of a `torch.nn.Module`, of an `ExportedProgram`, for tensors like these.

    What buffers that the model writes to are to be are results behind its own.
    """
    return _captured(model, arguments, keywords or {}).module


def compile(
    model: Any,
    *arguments: Any,
    keywords: Mapping[str, Any] | None = None,
    threads: int | None = None,
    options: Mapping[str, Any] | Iterable[str] | None = None,
    freeze: bool | None = None,
) -> Compiled:
    """The model with its present weights, compiled by hloom for tensors like these.

    Arguments that are no tensors (numbers, None) are part of the program, as torch.export has it.
    `freeze`: True makes the weights constants for good, False arguments, which are read at each
    call; None makes them constants in evaluation mode until they are written to. Buffers that the
    model itself writes to (a cache of keys and values, means of a batch norm in training) are read
    and written at each call.
    """
    captured = _captured(model, arguments, keywords or {})
    freezing = freezing_of(model, captured.tensors, captured.state, freeze)
    executable_of = partial(api.compile, threads=threads, options=options)
    return Compiled(captured, freezing, executable_of, is_watched=freeze is None)


def export_c(
    model: Any,
    *arguments: Any,
    path: str | Path,
    header_path: str | Path | None = None,
    keywords: Mapping[str, Any] | None = None,
    name: str | None = None,
    argument_names: Sequence[str] | None = None,
    result_names: Sequence[str] | None = None,
    options: Mapping[str, Any] | Iterable[str] | None = None,
    weights: str | Path | None = None,
    pool: bool = False,
    threads: int = 1,
    versions: Sequence[str] = (),
    buckets: Mapping[str, Sequence[int]] | None = None,
    dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
) -> CLibrary:
    """Write the model for tensors like these as a C library (`hloom.export_c`).

    Its inputs are called as `forward` calls them. Its present weights stand in the library, or in
    `weights`, a safetensors file, by the names that `state_dict` has: any such file can be loaded.
    `buckets={"batch": (1, 8)}` with `dynamic_shapes={"x": {0: "batch"}}`, in the form (and with the
    `Dim`s, if liked) that torch.export takes.
    """
    from hloom.aot.export import export_c
    from hloom.aot.tensors import NamedWeights

    by_name, named = weights is not None, NamedWeights({}, {})

    def program(**sizes: int) -> Module:
        positional, by_keyword = arguments, dict(keywords or {})
        if sizes:
            positional, by_keyword = _of_sizes(model, arguments, by_keyword, dynamic_shapes, sizes)
        captured = _captured(model, positional, by_keyword)
        _refuse_written(captured)
        if by_name:
            named.add("", enumerate(captured.names), captured.state)
            return captured.module
        return captured.with_constants()

    return export_c(
        program() if buckets is None else program,
        path,
        header_path,
        name=name,
        argument_names=argument_names or _argument_names(model, arguments, keywords or {}),
        result_names=result_names,
        options=options,
        weights=weights,
        pool=pool,
        threads=threads,
        versions=versions,
        buckets=buckets,
        named_weights=named if by_name else None,
    )


def _refuse_written(captured: Captured) -> None:
    """Buffers and parameters of a library are constants."""
    if captured.written:
        names = ", ".join(sorted(captured.names[k] for k in captured.written))
        raise UsageError(
            f"the model writes to its own tensors ({names}), and those of a library are constants",
            rule="torch",
            hint="call model.eval() first; or take them as arguments and return what they become",
        )


def _of_sizes(
    model: Any,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    names: Mapping[str, Any] | Sequence[Any] | None,
    sizes: Mapping[str, int],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments for one bucket: zeros, where sizes are named."""
    from hloom.aot.open_sizes import names_by_position, resized

    forward = getattr(model, "forward", None)
    parameters = [] if forward is None else list(inspect.signature(forward).parameters)
    positions, others = names_by_position(names, sizes, parameters, len(arguments))

    def sized(argument: Any, dims: Any) -> Any:
        return resized(argument, dims, sizes, lambda tensor, dims: tensor.new_zeros(dims))

    by_keyword = {k: sized(v, others.get(k)) for k, v in keywords.items()}
    return tuple(map(sized, arguments, positions)), by_keyword


def _argument_names(
    model: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> list[str]:
    """A name for each tensor among the arguments: the parameter of `forward`, and where in it."""
    torch, pytree = torch_and_trees()
    forward = getattr(model, "forward", None)
    known: list[str] = []
    if forward is not None and not isinstance(model, torch.export.ExportedProgram):
        parameters = inspect.signature(forward).parameters.values()
        known = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
    names: list[str] = []
    places = [(known[k] if k < len(known) else f"x{k}", a) for k, a in enumerate(arguments)]
    for place, value in (*places, *keywords.items()):
        leaves = pytree.tree_flatten(value)[0]
        for k, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                name = place if len(leaves) == 1 else f"{place}_{k}"
                names.append(name if name not in names else f"{name}_{len(names)}")
    return names


def _captured(model: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Captured:
    """The graph of a model for arguments like these."""
    torch, pytree = torch_and_trees()
    jax = _jax()
    leaves, in_tree = pytree.tree_flatten((arguments, dict(keywords)))
    captured, exported = _exported(torch, model, arguments, keywords)
    results = _results(torch, captured)
    # Only with x64 are PyTorch's types of 64 bits JAX's too.
    with _own_errors("torchax cannot write the model in JAX"), jax.enable_x64(True):
        names, tensors, written, function = as_function(torch, exported)
        state = [array_of(t) for t in tensors]
        inputs = [array_of(x) for x in leaves if isinstance(x, torch.Tensor)]
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (*state, *inputs)]

        def flat(*values: Any) -> Any:
            own = iter(values[len(state) :])
            arguments = [next(own) if isinstance(x, torch.Tensor) else x for x in leaves]
            outputs = function(values[: len(state)], arguments)
            own_results = zip(outputs[len(written) :], results, strict=True)
            news = zip(outputs, [state[k] for k in written])
            return [
                *[_as_told(r, t) for r, t in own_results if t.is_tensor],
                *[jax.numpy.asarray(x, old.dtype).reshape(old.shape) for x, old in news],
            ]

        lowered = jax.jit(flat, keep_unused=True).trace(*shapes).lower(lowering_platforms=("cpu",))
    module = api.module_of(lowered)
    assert module is not None
    outputs = tuple(None if t.is_tensor else t for t in results)
    kinds = tuple(map(kind_of, leaves))
    if isinstance(model, torch.nn.Module):  # that stands in a holder here
        names = [n.removeprefix("model.") for n in names]
    out_tree = captured.call_spec.out_spec
    state, names = tuple(state), tuple(names)
    return Captured(
        module, tensors, state, names, tuple(written), kinds, in_tree, outputs, out_tree
    )


def _exported(
    torch: Any, model: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[Any, Any]:
    """The model as torch.export captures it, and taken apart into core operations."""
    if isinstance(model, torch.export.ExportedProgram):
        with _own_errors("torch.export cannot take the model apart"):
            captured, exported = model, model.run_decompositions()
    elif isinstance(model, torch.nn.Module):
        # Attention in matrix products: PyTorch's kernel for it and what stands for that in a graph
        # differ in strides, on which the views that follow depend.
        attention = torch.nn.attention
        with (
            _own_errors("torch.export cannot capture the model"),
            attention.sdpa_kernel(attention.SDPBackend.MATH),
        ):
            captured = torch.export.export(_module_around(torch, model), arguments, dict(keywords))
            exported = captured.run_decompositions()
    else:
        raise UsageError(f"a {type(model).__name__} is no torch.nn.Module", rule="torch")
    changed = exported.graph_signature.user_inputs_to_mutate  # only now is it known
    if changed:
        raise UsageError(
            f"the model changes its arguments: {', '.join(sorted(changed.values()))}",
            rule="torch",
            hint="let it return what it computes",
        )
    return captured, exported


def _module_around(torch: Any, model: Any) -> Any:
    """A module around the model: alone, torch.export refuses LSTMs, which list their weights."""

    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *arguments: Any, **keywords: Any) -> Any:
            return self.model(*arguments, **keywords)

    return Holder()


@dataclass(frozen=True)
class _Result:
    """What the captured model says of one result: a tensor's sizes and type, or its value."""

    value: Any = None
    dims: tuple[int, ...] | None = None
    """None: they depend on those of the arguments."""
    dtype: np.dtype[Any] | None = None

    @property
    def is_tensor(self) -> bool:
        return self.dtype is not None


def _results(torch: Any, captured: Any) -> list[_Result]:
    (output,) = captured.graph.find_nodes(op="output")
    results = []
    for spec, node in zip(captured.graph_signature.output_specs, output.args[0], strict=True):
        if spec.kind is not torch.export.graph_signature.OutputKind.USER_OUTPUT:
            continue
        value = node.meta["val"] if isinstance(node, torch.fx.Node) else node
        if isinstance(value, torch.Tensor):
            is_fixed = all(isinstance(d, int) for d in value.shape)
            dims = tuple(value.shape) if is_fixed else None
            results.append(_Result(None, dims, dtype_of(value.dtype)))
        else:
            results.append(_Result(value))
    return results


def _as_told(array: Any, result: _Result) -> Any:
    """A result with the model's type: torchax counts some indices in 32 bits."""
    if result.dims is not None and array.shape != result.dims:
        raise UsageError(
            f"PyTorch says a result is {list(result.dims)}, torchax makes it {list(array.shape)}",
            rule="torch",
        )
    return array.astype(result.dtype)


class _own_errors:
    """Errors of others, in whatever they raise, become one of ours with theirs as the cause."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, api.HloError):
            first = (str(error).strip().splitlines() or [""])[0]
            raise UsageError(
                f"{self.what}: {type(error).__name__}: {first}", rule="torch"
            ) from error


def _jax() -> Any:
    """JAX; `UsageError` where it and torchax do not work together."""
    try:
        import jax
        import torchax  # pyright: ignore[reportMissingImports]

        torchax.default_env()  # which knows the operations
    except Exception as error:  # it names operations that other versions of PyTorch have not
        raise UsageError(
            f"PyTorch's programs become StableHLO by torchax, which cannot be imported: "
            f"{type(error).__name__}: {error}",
            rule="torch",
            hint=INSTALL,
        ) from error
    return jax
