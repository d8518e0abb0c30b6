"""Sizes by name in the arguments of models: what one bucket's program is captured for.

Dimensions are named as their frameworks do it: symbolic sizes of JAX, `dynamic_shapes` of
torch.export, None in TensorFlow's shapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hloom.api import UsageError

_DIMENSION = re.compile(r"(?:(\d+) ?\* ?)?([A-Za-z_]\w*)")


def size_of(dimension: Any, sizes: Mapping[str, int]) -> int:
    """The number for a dimension: itself, a name, or `2*name`; `UsageError` for another name."""
    if isinstance(dimension, int) or hasattr(dimension, "__index__"):
        return int(dimension)
    text = str(getattr(dimension, "__name__", dimension))
    parts = _DIMENSION.fullmatch(text)
    if parts is None or parts[2] not in sizes:
        raise UsageError(
            f"an argument has the size {text}, and buckets are of {', '.join(sizes) or 'nothing'}",
            rule="library-buckets",
            hint="buckets={'batch': (1, 8, 32)}",
        )
    return int(parts[1] or 1) * sizes[parts[2]]


def resized(
    argument: Any, names: Any, sizes: Mapping[str, int], new: Callable[[Any, list[int]], Any]
) -> Any:
    """An argument with numbers where `names` has names of sizes, as `dynamic_shapes` has them.

    A mapping or a sequence of dimensions for a tensor; for a nest of tensors a nest of those. `new`
    makes a tensor like another one, of other sizes. `UsageError` where the two do not fit.
    """
    if names is None:
        return argument
    if hasattr(argument, "shape"):
        dims = list(argument.shape)
        pairs = names.items() if isinstance(names, Mapping) else enumerate(names)
        for d, name in pairs:
            if not -len(dims) <= d < len(dims):
                raise UsageError(
                    f"a dimension {d} is named, and the argument has {len(dims)}",
                    rule="library-buckets",
                )
            dims[d] = dims[d] if name is None else size_of(name, sizes)
        return new(argument, dims)
    if isinstance(argument, Mapping) and isinstance(names, Mapping):
        return {k: resized(v, names.get(k), sizes, new) for k, v in argument.items()}
    if isinstance(argument, list | tuple) and isinstance(names, list | tuple):
        if len(names) == len(argument):
            parts = [resized(a, n, sizes, new) for a, n in zip(argument, names)]
            return tuple(parts) if isinstance(argument, tuple) else parts
    raise UsageError(
        f"sizes are named for a {type(argument).__name__}, which is no tensor, or has other parts",
        rule="library-buckets",
    )


def names_by_position(
    names: Mapping[str, Any] | Sequence[Any] | None,
    sizes: Mapping[str, int],
    parameters: Sequence[str],
    count: int,
) -> tuple[list[Any], dict[str, Any]]:
    """`dynamic_shapes` for `count` positional arguments, and by keyword for the others."""
    if names is None:
        raise UsageError(
            f"buckets of {', '.join(sizes)} need to know which dimensions have these sizes",
            rule="library-buckets",
            hint="dynamic_shapes={'x': {0: 'batch'}}",
        )
    if not isinstance(names, Mapping):
        return [*names, *[None] * (count - len(names))], {}
    known = list(parameters[:count])
    positional = [names.get(p) for p in known] + [None] * (count - len(known))
    return positional, {k: v for k, v in names.items() if k not in known}
