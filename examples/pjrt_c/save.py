"""Writes layer.mlirbc (StableHLO) and layer.hloom (compiled, for this processor) for run.c.

JAX_PLATFORMS=hloom python save.py [FOLDER]
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
from jax import export

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
shapes = [jax.ShapeDtypeStruct(dims, jnp.float32) for dims in ((4, 8), (8, 3))]
layer = jax.jit(lambda x, w: jnp.tanh(x @ w))

(folder / "layer.mlirbc").write_bytes(export.export(layer)(*shapes).mlir_module_serialized)
compiled = layer.lower(*shapes).compile().runtime_executable()
(folder / "layer.hloom").write_bytes(compiled.serialize())
