"""XLA:CPU, as jaxlib brings it, on the program that hloom runs: the one peer of `hloom bench`.

Only a child of the bench imports this file, and only where jaxlib is installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jaxlib import _hlo, _jax, xla_client  # type: ignore[attr-defined]


class XlaCpu:
    """A program compiled by XLA:CPU. Seconds, bytes."""

    def __init__(self, module_proto: bytes) -> None:
        jax.config.update("jax_enable_x64", True)
        portable = _jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(module_proto))
        self._device = jax.devices("cpu")[0]
        devices = _jax.DeviceList((self._device,))
        start = time.perf_counter()
        client = self._device.client
        self._program = client.compile_and_load(portable, devices, xla_client.CompileOptions())
        self.compile_s = time.perf_counter() - start
        stats = self._program.get_compiled_memory_stats()
        whole = stats.temp_size_in_bytes + stats.output_size_in_bytes
        self.memory_bytes = whole - stats.alias_size_in_bytes
        """What a run takes beside its arguments."""

    def runs(self, arrays: Sequence[Any], is_donated: Sequence[bool]) -> Callable[[], float]:
        """A function that runs it once and returns the seconds; arguments that it may take are
        made anew before, outside of the clock."""
        kept = [self._put(x, gone) for x, gone in zip(arrays, is_donated)]

        def once() -> float:
            held = [self._put(x, True) if gone else k
                    for x, k, gone in zip(arrays, kept, is_donated)]  # fmt: skip
            start = time.perf_counter()
            results = self._program.execute_sharded(held).disassemble_into_single_device_arrays()
            for parts in results:
                parts[0].block_until_ready()
            return time.perf_counter() - start

        return once

    def _put(self, array: Any, is_copied: bool) -> Any:
        held = jax.device_put(array.copy() if is_copied else array, self._device)
        return held.block_until_ready()
