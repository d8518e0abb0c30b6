"""What an instruction's backend config asks of the kernel made for it."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.values.backend_schema import CpuBackendConfig, LlvmKernelOptions


def kernel_options(i: Instruction) -> LlvmKernelOptions | None:
    """The `llvm_kernel_options` of its backend config; None where there are none.

    Raises `UsageError` naming the field that is unknown or of a wrong kind.
    """
    config = i.backend_config
    if config is None or config.json is None or "llvm_kernel_options" not in config.json:
        return None
    return config.typed(CpuBackendConfig).llvm_kernel_options
