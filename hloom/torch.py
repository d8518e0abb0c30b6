"""hloom for PyTorch models: `hloom.torch.lower(model, *args)`, `hloom.torch.compile(model, *args)`.

`torch.export` captures the model for arguments like these; torchax, which must be installed,
writes its operations in JAX, and JAX writes StableHLO. Parameters and buffers of the model are the
first parameters of the graph, its inputs come behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom import api
from hloom.api import Executable, Module, UsageError


def lower(model: Any, *arguments: Any) -> Module:
    """The graph of a `torch.nn.Module`, of an `ExportedProgram`, for tensors like these."""
    return _captured(model, arguments)[0]


def compile(
    model: Any,
    *arguments: Any,
    threads: int | None = None,
    options: Mapping[str, Any] | Iterable[str] | None = None,
) -> Compiled:
    """The model with its present weights, compiled by hloom for tensors like these."""
    module, state, inputs, out_tree = _captured(model, arguments)
    executable = api.compile(module, threads=threads, options=options)
    return Compiled(executable, tuple(state), inputs, out_tree)


@dataclass(frozen=True)
class Compiled:
    """A model to be called with tensors; gives tensors. It has no gradients."""

    executable: Executable
    state: tuple[np.ndarray, ...]
    """Parameters and buffers, as they were when it was compiled."""
    inputs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    """Sizes and types of the arguments' leaves."""
    out_tree: Any

    def __call__(self, *arguments: Any) -> Any:
        torch, pytree = _torch()
        leaves = [_array(x) for x in pytree.tree_leaves(arguments)]
        given = tuple((x.shape, x.dtype) for x in leaves)
        if given != self.inputs:
            raise UsageError(
                f"a model compiled for {_text(self.inputs)} is given {_text(given)}",
                rule="torch",
                hint="compile it for these tensors too",
            )
        # What is 64 bits wide in PyTorch is 32 in JAX, unless jax_enable_x64 is set.
        wanted = [p.shape.dtype.numpy for p in self.executable.program.parameters]
        taken = [x.astype(t, copy=False) for x, t in zip((*self.state, *leaves), wanted)]
        found = self.executable(*taken)
        results = found if isinstance(found, tuple) else (found,)
        return pytree.tree_unflatten([torch.from_dlpack(r) for r in results], self.out_tree)


def _captured(model: Any, arguments: tuple[Any, ...]) -> tuple[Module, list[np.ndarray], Any, Any]:
    """The graph, the model's state, what its inputs are, how its outputs are nested."""
    torch, pytree = _torch()
    jax, to_jax = _exporter()
    exported = model
    if not isinstance(model, torch.export.ExportedProgram):
        if not isinstance(model, torch.nn.Module):
            raise UsageError(f"a {type(model).__name__} is no torch.nn.Module", rule="torch")
        with _told("torch.export cannot capture the model"):
            exported = torch.export.export(model, arguments)
    exported = exported.run_decompositions()  # only now is it known which buffers change
    if exported.graph_signature.buffers_to_mutate:
        raise UsageError(
            "the model changes its buffers: " + ", ".join(_changed(exported)),
            rule="torch",
            hint="call model.eval() first",
        )
    with _told("torchax cannot write the model in JAX"):
        _, tensors, function = to_jax(exported, export_raw=True)
        state = [_array(t) for t in tensors]
        leaves = [_array(x) for x in pytree.tree_leaves(arguments)]
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (*state, *leaves)]

        def flat(*values: Any) -> Any:
            return function(list(values[: len(state)]), tuple(values[len(state) :]))

        lowered = jax.jit(flat, keep_unused=True).trace(*shapes).lower(lowering_platforms=("cpu",))
    module = api.module_of(lowered)
    assert module is not None
    inputs = tuple((x.shape, x.dtype) for x in leaves)
    return module, state, inputs, exported.call_spec.out_spec


class _told:
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


def _changed(exported: Any) -> list[str]:
    return sorted(exported.graph_signature.buffers_to_mutate.values())


def _text(kinds: Iterable[tuple[tuple[int, ...], np.dtype[Any]]]) -> str:
    return ", ".join(f"{dtype}[{','.join(map(str, dims))}]" for dims, dtype in kinds)


def _array(value: Any) -> np.ndarray:
    """A tensor (or a number) as an array, which shares its memory where numpy has its type."""
    torch, _ = _torch()
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    tensor = value.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def _torch() -> tuple[Any, Any]:
    """PyTorch and its trees; `UsageError` where it is not installed."""
    try:
        import torch
        from torch.utils import _pytree as pytree  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise UsageError(
            f"hloom.torch needs PyTorch, which cannot be imported: {error}",
            rule="torch",
            hint="pip install torch torchax 'hloom[jax]'",
        ) from None
    return torch, pytree


def _exporter() -> tuple[Any, Callable[..., Any]]:
    """JAX, and torchax's function; `UsageError` where they do not work together."""
    try:
        import jax
        import torchax  # pyright: ignore[reportMissingImports]
        from torchax.export import exported_program_to_jax  # pyright: ignore[reportMissingImports]

        torchax.default_env()  # which knows the operations
    except Exception as error:  # it names operations that other versions of PyTorch have not
        raise UsageError(
            f"PyTorch's programs become StableHLO by torchax, which cannot be imported: "
            f"{type(error).__name__}: {error}",
            rule="torch",
            hint="pip install torchax 'hloom[jax]', and a torch that this torchax supports",
        ) from error
    return jax, exported_program_to_jax
