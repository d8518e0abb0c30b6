# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Quantised types: `!quant.uniform<i8:f32:1, {0.5:3, 0.25}>`, an integer that stands for a float.

The bindings show such a type only as text, whose scales have seven digits. The exact ones are in
the constants that StableHLO's own pass makes for a `uniform_dequantize` of the type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hloom.frontends.stablehlo.bindings import PassManager, ir
from hloom.types.dtype import BF16, BY_NAME, F16, F32, DType
from hloom.types.limits import integer_range

_TYPE = re.compile(
    r"!quant\.uniform<([su]?i|u)(\d+)(?:<(-?\d+):(-?\d+)>)?:(\w+)(?::(\d+))?, \{?([^{}<>]*)\}?>"
)
_TO_MATH = "builtin.module(func.func(stablehlo-legalize-quant-to-math))"
EXPRESSED = {"f32": F32, "bf16": BF16, "f16": F16}


class QuantisedType(Exception):
    """A type of a program that was not known to be quantised."""


@dataclass(frozen=True)
class Quantised:
    """What an integer stands for: (integer - zero point) * scale; along `axis` each its own."""

    storage: DType
    expressed: DType
    low: int
    high: int
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    @property
    def parameters(self) -> tuple[Any, ...]:
        """All but the place of the axis."""
        return self.storage, self.expressed, self.low, self.high, self.scales, self.zero_points

    @property
    def largest(self) -> int:
        """The largest difference between a stored integer and a zero point."""
        return max(max(abs(self.low - z), abs(self.high - z)) for z in self.zero_points)


def is_quantised(name: str) -> bool:
    return "!quant." in name


def quantised_of(element: Any) -> Quantised | str:
    """The meaning of an element type, or why it has none here."""
    name = str(element)
    match = _TYPE.fullmatch(name)
    if match is None:
        return f"{name} is a quantised type with blocks or without parameters, which are not read"
    sign, bits, low, high, expressed, axis, parameters = match.groups()
    storage = BY_NAME.get(("u" if sign[0] == "u" else "s") + bits)
    if storage is None or expressed not in EXPRESSED:
        return f"{name} is a quantised type of {sign}{bits} for {expressed}, which is not read"
    pairs = [part.strip().partition(":") for part in parameters.split(",")]
    zero_points = tuple(int(zero or 0) for _, _, zero in pairs)
    scales = tuple(float(scale) for scale, _, _ in pairs)
    if expressed == "f32":
        scales = _exact_scales(element, None if axis is None else int(axis), len(scales))
    least, most = integer_range(storage)
    return Quantised(
        storage,
        EXPRESSED[expressed],
        least if low is None else int(low),
        most if high is None else int(high),
        scales,
        zero_points,
        None if axis is None else int(axis),
    )


def _exact_scales(element: Any, axis: int | None, count: int) -> tuple[float, ...]:
    """The scales to the last bit, as a pass of StableHLO writes them out."""
    import numpy as np

    dims = [] if axis is None else [1] * axis + [count]
    context = element.context
    with context, ir.Location.unknown():
        argument_type = ir.RankedTensorType.get(dims, element)
        real_type = ir.RankedTensorType.get(dims, ir.F32Type.get())
        module = ir.Module.parse(
            f"func.func @main(%x: {argument_type}) -> {real_type} {{\n"
            f"%y = stablehlo.uniform_dequantize %x : ({argument_type}) -> {real_type}\n"
            f"return %y : {real_type}\n}}"
        )
        function = module.body.operations[0]
        # The text has lost digits; the type itself has not.
        block = function.regions[0].blocks[0]
        block.arguments[0].set_type(argument_type)
        function.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get([argument_type], [real_type])
        )
        PassManager.parse(_TO_MATH, context).run(module.operation)
        for op in module.body.operations[0].regions[0].blocks[0].operations:
            if op.operation.name == "stablehlo.constant":
                value = op.attributes["value"]
                if ir.RankedTensorType(value.type).element_type == ir.F32Type.get():
                    return tuple(np.array(value).reshape(-1).astype(float).tolist())
    raise AssertionError("dequantising multiplies by a scale")
