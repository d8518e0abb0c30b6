"""Runs one HLO operation on XLA's CPU, written as text."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from typing import Any

import jax
import numpy as np
from jaxlib import _hlo, xla_client
from jaxlib._jax import mlir

from hloom.types.dtype import from_numpy

jax.config.update("jax_enable_x64", True)


def run_module(text: str, *arrays: Any) -> list[Any]:
    """The results of a module; a tuple root gives several."""
    module = _hlo.hlo_module_from_text(text)
    program = mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    device = jax.devices("cpu")[0]
    compiled = device.client.compile_and_load(
        program, xla_client.DeviceList((device,)), xla_client.CompileOptions()
    )
    return [np.asarray(x) for x in compiled.execute([jax.device_put(a, device) for a in arrays])]


def type_text(array: Any) -> str:
    return f"{from_numpy(array.dtype).name}[{','.join(map(str, array.shape))}]"


def run_op(opcode: str, *arrays: Any, result: str | None = None, attributes: str = "") -> Any:
    """The value of one operation on these arrays; `result` is its shape's text."""
    arrays = tuple(np.asarray(a) for a in arrays)
    lines = [f"p{k} = {type_text(a)} parameter({k})" for k, a in enumerate(arrays)]
    names = ", ".join(f"p{k}" for k in range(len(arrays)))
    separator = ", " if attributes else ""
    result = result or type_text(arrays[0])
    lines.append(f"ROOT r = {result} {opcode}({names}){separator}{attributes}")
    body = "\n  ".join(lines)
    made = run_module(f"HloModule one\n\nENTRY main {{\n  {body}\n}}\n", *arrays)
    return made if result.startswith("(") else made[0]
