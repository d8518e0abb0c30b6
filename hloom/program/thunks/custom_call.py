"""Calls of what is no part of the program: handlers, and the interpreter."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.program.thunks.linalg import Work
from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import Rates, thunk_kind

PYTHON = frozenset(
    """xla_python_cpu_callback xla_ffi_python_cpu_callback
    xla_ffi_partitioned_python_cpu_callback""".split()
)
"""Handlers of JAX that call functions of Python, which were written to be called in order."""
GPU_ROUTINES = ("__cublas", "__cudnn", "__cub$", "__hipblas", "cusolver", "cusparse", "hipsolver")
"""What begins the targets that XLA's passes for GPUs write, and those of JAX's routines there."""
KERNELS = {
    "__gpu$xla.gpu.triton": "a Triton kernel for GPUs",
    "triton_kernel_call": "a Triton kernel for GPUs",
    "mosaic_gpu": "a Mosaic kernel for GPUs",
    "tpu_custom_call": "a Mosaic kernel for TPUs",
}
"""What begins the targets of kernels that are made for other machines, and what those are."""


def made_elsewhere(target: str) -> str | None:
    """What to do about a custom call that was made for a GPU or a TPU; None for another."""
    for start, what in KERNELS.items():
        if target.startswith(start):
            return (
                f"{target} is {what}: lower the function for the CPU "
                "(jax.jit(f).trace(*arguments).lower(lowering_platforms=('cpu',))), with Pallas "
                "by pallas_call(..., interpret=True)"
            )
    if target.startswith(GPU_ROUTINES):
        return (
            f"{target} is a routine for GPUs: take what XLA had before its passes (the file of "
            "--xla_dump_to that has before_optimizations in its name), or lower the function "
            "for the CPU"
        )
    return None


@thunk_kind
@dataclass(frozen=True, eq=False)
class CustomCall(Routine):
    """Call the handler that is registered for the target."""

    kind = "CustomCall"

    has_effect: bool = True
    """Whether it does more than write its results; such calls keep their order."""
    work: Work | None = None
    """What it does, where the target is known."""

    def states(self) -> tuple[str, ...]:
        return ("custom calls",) if self.has_effect else ()

    @property
    def site(self) -> int:
        """The number of its call site in the program."""
        site = self.arguments[0]
        assert isinstance(site, int)
        return site

    def serial_ns(self, rates: Rates) -> float:
        # Nothing is known of what others wrote.
        return rates.foreign_ns if self.work is None else self.work.ns(rates)


@thunk_kind
class Interpreter(Routine):
    """Have an instruction evaluated for which no code could be written."""

    kind = "Interpreter"
    is_interpreted = True


@thunk_kind
class JointInterpreter(Interpreter):
    """Have a program of several devices evaluated, when all of them have come."""

    kind = "JointInterpreter"
    meets_others = True
