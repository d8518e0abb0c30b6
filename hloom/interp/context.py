"""What a meaning may ask of the machine it runs on: calls, options, device, random state.

An `EvalContext` is one device's run of one module. `step_list.py` keeps what was prepared per
computation; `machine.py` walks it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.values import EvalValue, default_memory_limit
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction

if TYPE_CHECKING:
    from hloom.interp.machine import SharedEvaluation

NESTED_CALL_LIMIT = 60
"""How deep `EvalContext.call` may nest: each level is a few contexts of Python's own stack."""


@dataclass(frozen=True)
class EvalOptions:
    """How to evaluate. All limits end in an `EvalError` that names the instruction."""

    while_iteration_limit: int = 1_000_000
    """Iterations one run of one while may take; an empty endless loop ends in half a minute."""
    call_depth_limit: int = 20_000
    """How deep calls, loops and conditionals may nest."""
    memory_limit_bytes: int = field(default_factory=default_memory_limit)
    """What all values alive at once, on all devices, may take; known before anything runs."""
    custom_calls: Mapping[str, Callable[..., EvalValue]] = field(default_factory=dict)
    """From a custom-call target to `hook(instruction, *operand_values) -> value`.

    Values are those of `values.py`. The key `"*"` takes every target that has no other meaning.
    """
    infeed: Iterable[EvalValue] = ()
    """What infeeds read, in order; one entry per infeed. Tuples for tuple shapes."""
    outfeed: Callable[[EvalValue], None] | None = None
    """Receives what outfeeds write, in order."""
    host_receive: Mapping[int, Iterable[EvalValue]] = field(default_factory=dict)
    """From a channel to what the host sends on it, in order (host-transfer recv)."""
    host_send: Callable[[int, EvalValue], None] | None = None
    """Receives channel and value of every host-transfer send nobody in the program receives."""
    on_instruction: Callable[[Instruction], None] | None = None
    """Told of every instruction before it runs, those in loops and calls too; not of those that
    run as parts of a reduction or sort."""
    seed: int = 0
    """Of the operation `rng`, whose values HLO leaves open."""
    rng_state: int = 0x7012395
    """The 128-bit state `rng-get-and-update-state` starts from; the default is XLA's."""


@dataclass(frozen=True, slots=True)
class DevicePosition:
    """Which of the devices that run one program together this is."""

    replica: int = 0
    partition: int = 0
    replica_count: int = 1
    partition_count: int = 1

    @property
    def global_id(self) -> int:
        """replica * partitions + partition."""
        return self.replica * self.partition_count + self.partition

    @property
    def device_count(self) -> int:
        return self.replica_count * self.partition_count

    def __str__(self) -> str:
        return f"device {self.global_id} (replica {self.replica}, partition {self.partition})"


@dataclass(slots=True)
class RngState:
    """The random state of one device; the only state a program has besides its values."""

    state: int
    """128 bits, for `rng-get-and-update-state`."""
    generator: np.random.Generator
    """For `rng`."""


@dataclass(frozen=True, slots=True)
class Enter:
    """Yielded by a meaning: evaluate a computation and send back its value."""

    computation: Computation
    values: tuple[EvalValue, ...]


@dataclass(frozen=True, slots=True)
class Meet:
    """Yielded by a meaning: give `value` to the devices `members`, get theirs.

    Sent back is a dict from member (a global id) to the value it gave. Devices meet when they
    name the same `key` and members; a meeting of one is answered at once.
    """

    instruction: Instruction
    key: Any
    members: tuple[int, ...]
    value: EvalValue


@dataclass(frozen=True, slots=True)
class Receive:
    """Yielded by a meaning: wait for what another device posts to this one under `key`."""

    instruction: Instruction
    key: Any


class EvalContext:
    """One device's run of a module; see the module docstring."""

    __slots__ = (
        "depth",
        "device",
        "host_receive",
        "infeed",
        "machine",
        "options",
        "rng",
    )

    def __init__(
        self, machine: SharedEvaluation, options: EvalOptions, device: DevicePosition
    ) -> None:
        self.machine = machine
        self.options = options
        self.device = device
        self.rng = RngState(
            options.rng_state, np.random.default_rng([options.seed, device.global_id])
        )
        self.infeed: deque[EvalValue] = deque(options.infeed)
        self.host_receive: dict[int, deque[EvalValue]] = {
            channel: deque(values) for channel, values in options.host_receive.items()
        }
        self.depth = 0

    def call(self, computation: Computation, *values: EvalValue) -> EvalValue:
        """The value of a called computation on these values.

        For combiners and comparators. Control flow yields `Enter` instead, which costs no Python
        stack. Collectives cannot run in here.
        """
        if self.depth >= NESTED_CALL_LIMIT:
            raise EvalError(
                f"computation %{computation.name} is called more than {NESTED_CALL_LIMIT} deep "
                "inside reductions, sorts and maps"
            )
        self.depth += 1
        try:
            return self.machine.run_alone(computation, values, self)
        finally:
            self.depth -= 1

    def post(self, target: int, key: Any, value: EvalValue) -> None:
        """Put a value into another device's mailbox, or one's own (global id `target`)."""
        self.machine.mail.setdefault((target, key), deque()).append(value)

    def vectorised(self, computation: Computation, *arrays: np.ndarray) -> EvalValue:
        """A called computation of scalar parameters, applied to whole arrays at once.

        All arrays have one shape, the batch; the result is an array (or tuple of arrays) of that
        shape: out[k] = computation(arrays[0][k], ...). Bodies of elementwise operations run once
        on the arrays; any other body runs once per element.
        """
        return self.machine.vectorised(computation, arrays, self)

    def known_combiner(self, computation: Computation) -> str | None:
        """The opcode, when the body is that one of add, multiply, maximum, minimum, and, or, xor
        on its two parameters (in any order); else None."""
        return self.machine.known_combiner(computation)
