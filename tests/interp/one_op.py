"""Runs the meaning of one operation on arrays, without a module file or a parser.

Also draws arguments of any type and wraps Python's integers to one.
"""

from typing import Any

import numpy as np

import hloom.interp.registry as registry
from hloom.base.registry import load_room
from hloom.interp.context import DevicePosition, EvalContext, EvalOptions
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.types.dtype import BY_NAME, from_numpy
from hloom.types.shape import Shape, shape, tuple_shape

load_room("hloom.ir.ops")
load_room("hloom.interp")


def context(seed: int = 0) -> EvalContext:
    """A context that can do all but call computations."""
    machine: Any = None
    return EvalContext(machine, EvalOptions(seed=seed), DevicePosition())


def run(
    opcode: str,
    *operands: Any,
    result: str | Shape | None = None,
    dims: tuple[int, ...] | None = None,
    in_context: EvalContext | None = None,
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
        return registry.MEANING[opcode](made, in_context or context(), *arrays)


def drawn(dims: tuple[int, ...], type_name: str, seed: int = 0) -> Any:
    """Values of the type, spread over a good part of its range."""
    t, rng = BY_NAME[type_name], np.random.default_rng(seed)
    if t.is_pred:
        return rng.random(dims) < 0.3
    if t.is_integral:
        low = -(1 << (t.bits - 1)) if t.is_signed_int else 0
        high = (1 << (t.bits - t.is_signed_int)) - 1
        made = rng.integers(low, high, dims, np.int64 if low else np.uint64, endpoint=True)
        return made.astype(np.int8).astype(t.numpy) if t.is_sub_byte else made.astype(t.numpy)
    if t.is_complex:
        return (rng.normal(size=dims) + 1j * rng.normal(size=dims)).astype(t.numpy)
    return rng.normal(size=dims).astype(np.float32).astype(t.numpy)


def wrapped(values: Any, type_name: str) -> list[int]:
    """Python integers of any size, modulo the width of an integer type."""
    t = BY_NAME[type_name]
    low = -(1 << (t.bits - 1)) if t.is_signed_int else 0
    return [(int(v) - low) % (1 << t.bits) + low for v in np.ravel(values)]


__all__ = ["context", "drawn", "run", "shape", "tuple_shape", "wrapped"]
