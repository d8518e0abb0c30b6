"""What is asked of the kernel made for an instruction: by its backend config, by what it folds."""

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


def folding_options(i: Instruction, vector_bytes: int) -> LlvmKernelOptions | None:
    """Of a fold, or a fusion that ends in one: loops stay loops where that costs nothing.

    That is in reductions of the innermost dimensions only, and in windows whose next one along the
    innermost is no less than a vector of the machine further on (10 such kernels took 1.00 to 1.02
    of the time). None: as for others.
    """
    if i.opcode == "fusion":
        i = i.called[0].root
    if i.opcode not in ("reduce", "reduce-window"):
        return None
    shape = i.operands[0].shape
    inner = shape.layout.minor_to_major if shape.layout is not None else ()
    if i.opcode == "reduce":
        is_rolled = set(inner[: len(i.attrs.dimensions)]) == set(i.attrs.dimensions)
    else:
        stride = i.attrs.window.dimensions[inner[0]].stride if inner else 1
        is_rolled = vector_bytes <= stride * shape.dtype.size_bytes
    return LlvmKernelOptions(disable_loop_unrolling=True) if is_rolled else None
