"""Which parameters of a program are tensors of a file: `hloom compile --named-weights FILE`.

JAX writes beside a parameter where it stood among the arguments, `p['params']['Dense_0']['bias']`:
`p.params.Dense_0.bias` and `params.Dense_0.bias` are it, too.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hloom.aot.tensors import SAFETENSORS, WITHOUT, ByNumber, NamedWeights
from hloom.api import Module, Shape, UsageError, did_you_mean

MOST_HEAD_BYTES = 100_000_000
_KEY = re.compile(r"\['([^']*)'\]|\[\"([^\"]*)\"\]|\[(\d+)\]")


class _Input(NamedTuple):
    """An array that a program takes."""

    names: tuple[str, ...]
    """That it may be called by in a file, the plainest last."""
    shape: Shape


def named_in_file(path: Path, modules: Mapping[str, Module]) -> NamedWeights:
    """The weights of programs, by their keys: those parameters that a file has by name.

    `UsageError` names a tensor that no program takes, and one of another type or shape.
    """
    tensors = read_tensors(path)
    names: dict[str, ByNumber] = {}
    others: dict[str, None] = {}
    for key, module in modules.items():
        by_number: dict[int, str] = {}
        for number, i in enumerate(_inputs(module)):
            name = next((n for n in i.names if n in tensors), None)
            if name is None:
                others[i.names[-1]] = None
                continue
            dtype, dims = tensors[name]
            if (dtype, dims) != (SAFETENSORS.get(i.shape.dtype.name), tuple(i.shape.dims)):
                raise UsageError(
                    f"the tensor {name} of {path.name} is {dtype}{list(dims)}, and "
                    f"{module.name} takes {i.shape.text_without_layout}",
                    rule="weights-by-name",
                )
            by_number[number] = name
        names[key] = by_number
    taken = {n for by_number in names.values() for n in by_number.values()}
    if extra := [n for n in tensors if n not in taken]:
        more = f", nor are {len(extra) - 1} others" if len(extra) > 1 else ""
        listed = ", ".join(list(others)[:8])
        raise UsageError(
            f"the tensor {extra[0]} of {path.name} is no parameter of {_listed(modules)}{more}",
            rule="weights-by-name",
            hint=did_you_mean(extra[0], others) or f"those without a tensor: {listed or 'none'}",
        )
    return NamedWeights(names)


def _listed(modules: Mapping[str, Module]) -> str:
    return " or ".join([m.name for m in modules.values()])


def _inputs(module: Module) -> list[_Input]:
    """The arrays of the parameters, in order."""
    inputs: list[_Input] = []
    for p in module.entry.parameters:
        leaves = list(p.shape.leaves())
        for k, shape in enumerate(leaves):
            own = p.name if len(leaves) == 1 else f"{p.name}_{k}"
            place = p.metadata.op_name if p.metadata is not None and len(leaves) == 1 else ""
            inputs.append(_Input((own, *_of_place(place)), shape))
    return inputs


def _of_place(place: str) -> list[str]:
    """Names for what stood in a place among arguments."""
    path = _KEY.sub(lambda m: f".{m[1] or m[2] or m[3]}", place)
    path = re.sub(r"\.(raw_)?value$", "", path)
    return [n for n in (place, path, path.partition(".")[2]) if n]


def read_tensors(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and dimensions of each tensor of a file, by name; `UsageError` where it is none."""
    try:
        with path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            if size > MOST_HEAD_BYTES:
                raise ValueError("its head is too large")
            head = json.loads(file.read(size))
            return {
                name: (str(about["dtype"]), tuple([int(d) for d in about["shape"]]))
                for name, about in head.items()
                if name != WITHOUT
            }
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot read {path}: {reason}", rule="weights-file") from None
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise UsageError(
            f"{path} is no safetensors file: {error}",
            rule="weights-file",
            hint="safetensors.torch.save_file(model.state_dict(), path) writes one",
        ) from None
