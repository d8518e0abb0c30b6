"""PyTorch's tensors as arrays and back, and what a program knows of an argument."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from hloom.api import UsageError

INSTALL = "pip install 'torch>=2.9,<2.13' torchax 'hloom[jax]'"
"""torchax 0.0.13, the newest, names operations that PyTorch 2.13 has dropped."""


def kind_of(leaf: Any) -> Any:
    """Sizes and type of a tensor; what is no tensor itself, with its type (1 is not True)."""
    torch, _ = torch_and_trees()
    if isinstance(leaf, torch.Tensor):
        return tuple(leaf.shape), dtype_of(leaf.dtype)
    return type(leaf), leaf


@cache
def dtype_of(of: Any) -> np.dtype[Any]:
    """Numpy's type for one of PyTorch's."""
    torch, _ = torch_and_trees()
    return array_of(torch.empty(0, dtype=of)).dtype


def text_of(kinds: Iterable[tuple[Any, Any]]) -> str:
    return ", ".join(
        f"{of}[{','.join(map(str, what))}]" if isinstance(what, tuple) else repr(of)
        for what, of in kinds
    )


def array_of(tensor: Any) -> np.ndarray:
    """A tensor as an array, which shares its memory where it can."""
    torch, _ = torch_and_trees()
    tensor = tensor.detach().cpu().contiguous()
    if tensor.is_conj() or tensor.is_neg():  # views, whose memory holds other numbers
        tensor = tensor.resolve_conj().resolve_neg()
    name = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_quantized:
        raise UsageError(
            f"tensors of PyTorch's {name} carry scales, and have no type here",
            rule="torch",
            hint="dequantize() them",
        )
    if name == "bfloat16" or name.startswith("float8"):  # which numpy has not
        words = torch.int16 if name == "bfloat16" else torch.uint8
        return tensor.view(words).numpy().view(getattr(ml_dtypes, name))
    return tensor.numpy()


def tensor_of(result: Any) -> Any:
    """A result as a tensor; a copy only of types that DLPack has not."""
    torch, _ = torch_and_trees()
    array = np.asarray(result)
    if array.dtype.isbuiltin == 1 and array.dtype.kind in "iufc":
        return torch.from_numpy(array) if array.flags.writeable else torch.from_dlpack(result)
    words = np.uint16 if array.dtype.itemsize == 2 else np.uint8
    return torch.from_numpy(array.copy().view(words)).view(getattr(torch, array.dtype.name))


@cache
def torch_and_trees() -> tuple[Any, Any]:
    """PyTorch and its trees; `UsageError` where it is not installed."""
    try:
        import torch
        from torch.utils import _pytree as pytree  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise UsageError(
            f"hloom.torch needs PyTorch, which cannot be imported: {error}",
            rule="torch",
            hint=INSTALL,
        ) from None
    return torch, pytree
