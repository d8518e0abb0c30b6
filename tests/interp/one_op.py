"""Runs the meaning of one operation on arrays, without a module file or a parser."""

from typing import Any

import numpy as np

import hloom.interp.registry as registry
from hloom.base.registry import load_room
from hloom.interp.frame import Device, EvalOptions, Frame
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.types.dtype import from_numpy
from hloom.types.shape import Shape, shape, tuple_shape

load_room("hloom.ir.ops")
load_room("hloom.interp")


def frame(seed: int = 0) -> Frame:
    """A frame that can do all but call computations."""
    machine: Any = None
    return Frame(machine, EvalOptions(seed=seed), Device())


def run(
    opcode: str,
    *operands: Any,
    result: str | Shape | None = None,
    dims: tuple[int, ...] | None = None,
    in_frame: Frame | None = None,
    **attributes: Any,
) -> Any:
    """The value of `opcode` on arrays. `result` is its type (default: the first operand's), of
    dimensions `dims` (default: the first operand's), or its whole shape."""
    arrays = [np.asarray(x) for x in operands]
    body = Module().add_computation("main", entry=True)
    parameters = [
        body.append(
            "parameter",
            OPS["parameter"].attrs(number=k),
            (),
            shape(from_numpy(x.dtype).name, x.shape),
        )
        for k, x in enumerate(arrays)
    ]
    if not isinstance(result, Shape):
        name = result or from_numpy(arrays[0].dtype).name
        result = shape(name, arrays[0].shape if dims is None else dims)
    made = body.append(opcode, OPS[opcode].attrs(**attributes), tuple(parameters), result)
    with np.errstate(all="ignore"):
        return registry.MEANING[opcode](made, in_frame or frame(), *arrays)


__all__ = ["frame", "run", "shape", "tuple_shape"]
