# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Attributes of MLIR as plain Python values."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.frontends.stablehlo.bindings import ir, stablehlo, viewed
from hloom.ir.values.precision import ResultAccuracy


def has(op: Any, name: str) -> bool:
    return name in op.attributes


def ints(op: Any, name: str) -> tuple[int, ...]:
    """An array of integers; `()` where it is not given."""
    if name not in op.attributes:
        return ()
    return plain_ints(op.attributes[name])


def plain_ints(attribute_: Any) -> tuple[int, ...]:
    """The integers of an array, of a dense constant or of a list of attributes."""
    attribute: Any = attribute_
    if isinstance(attribute, ir.DenseElementsAttr):
        return tuple(np.array(attribute).reshape(-1).tolist())
    if isinstance(attribute, ir.ArrayAttr):
        return tuple([x.value for x in attribute])  # type: ignore[attr-defined]
    return tuple(attribute)


def table(op: Any, name: str) -> tuple[tuple[int, ...], ...]:
    """A dense constant of two dimensions, row by row; `()` where it is not given."""
    if name not in op.attributes:
        return ()
    return tuple(map(tuple, np.array(op.attributes[name]).tolist()))


def flags(op: Any, name: str) -> tuple[bool, ...]:
    if name not in op.attributes:
        return ()
    attribute = op.attributes[name]
    if isinstance(attribute, ir.DenseElementsAttr):
        return tuple(np.array(attribute).reshape(-1).tolist())
    return tuple([bool(x) for x in attribute])


def integer(op: Any, name: str, default: int = 0) -> int:
    return int(op.attributes[name].value) if name in op.attributes else default


def boolean(op: Any, name: str, default: bool = False) -> bool:
    """A boolean, or whether a unit attribute is there."""
    if name not in op.attributes:
        return default
    attribute = op.attributes[name]
    return True if isinstance(attribute, ir.UnitAttr) else bool(attribute.value)


def word(attribute: Any) -> str:
    """The text of a string attribute or of a symbol."""
    return attribute.value


def text(op: Any, name: str, default: str = "") -> str:
    return op.attributes[name].value if name in op.attributes else default


def enumerated(op: Any, name: str, kind: str, default: str = "") -> str:
    """The word of an enumeration of StableHLO, CHLO or MHLO."""
    if name not in op.attributes:
        return default
    return viewed(op.attributes[name], kind).value


def precisions(op: Any) -> tuple[str, ...]:
    """`("highest", "default")`; `()` when all are default, which HLO does not write."""
    if "precision_config" not in op.attributes:
        return ()
    attributes = [viewed(x, "PrecisionAttr") for x in op.attributes["precision_config"]]
    words = tuple([x.value.lower() for x in attributes])
    return () if all(w == "default" for w in words) else words


def accuracy(op: Any) -> ResultAccuracy | None:
    """What `result_accuracy` asks for; None for the usual."""
    if "result_accuracy" not in op.attributes:
        return None
    accuracy_ = stablehlo.ResultAccuracyAttr(op.attributes["result_accuracy"])
    mode = accuracy_.mode.lower()
    if mode == "default":
        return None
    if mode == "tolerance":
        return ResultAccuracy(None, accuracy_.atol, accuracy_.rtol, accuracy_.ulps)
    return ResultAccuracy(mode)
