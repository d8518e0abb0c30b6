"""What must hold for any graph, however it was broken: an answer or one `HloError`, soon.

What the verifier accepts must also work: text and bytes read back, a copy is equal, passes keep it
valid and change no value. What it refuses may be anything, but evaluating it still raises
`HloError` and nothing else. Nothing may take memory in proportion to a shape that was only stated.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError, HloError, UnsupportedError
from hloom.interp import EvalOptions, evaluate, evaluate_lockstep, random_arguments
from hloom.interp.values import zero
from hloom.ir.module import Module
from hloom.types.literal import Literal
from tests.fuzz.check import time_limit

LIMIT_S = 15
MEMORY_BYTES = 1 << 26
MOST_DEVICES = 8
TOLERANCE = {"f64": 1e-6, "c128": 1e-6, "f32": 2e-3, "c64": 2e-3}
OPTIONS = EvalOptions(
    while_iteration_limit=300,
    memory_limit_bytes=MEMORY_BYTES,
    custom_calls={"*": lambda i, *operands: zero(i.shape)},
)


class Broken(AssertionError):
    """Something that must hold of a graph does not."""


def graph_verdict(module: Module) -> str:
    """`refused` or `valid` and whether it could be evaluated; any other outcome is a bug."""
    from hloom.ir.verify import verify

    with time_limit(LIMIT_S):
        try:
            verify(module)
        except HloError as error:
            _shown(error)
            refused = True
        else:
            refused = False
    with time_limit(LIMIT_S):
        arguments = inputs(module)
        before = outcome(module, arguments)
    if refused:
        return "refused"
    with time_limit(LIMIT_S):
        _written_and_read(module)
    with time_limit(LIMIT_S):
        _analysed(module)
    if not _only_bytes_fit(module):
        with time_limit(6 * LIMIT_S):
            _passed(module, arguments, before)
    return "valid" if before is not None else "valid, not evaluated"


def _shown(error: HloError) -> None:
    message = str(error)
    if not message:
        raise Broken("an error without a message")
    if len(message) > 100_000:
        raise Broken(f"a message of {len(message)} characters")


def inputs(module: Module) -> list[Literal] | None:
    """Random arguments; None where there are none."""
    try:
        return random_arguments(module, 1, MEMORY_BYTES)
    except HloError as error:
        _shown(error)
        return None


def outcome(module: Module, arguments: list[Literal] | None) -> list[Literal] | None:
    """What the module computes on these arguments, per device; None where it says why not."""
    if arguments is None:
        return None
    try:
        devices = module.replica_count * module.num_partitions
        if devices > MOST_DEVICES:
            return None
        if devices > 1:
            return evaluate_lockstep(module, [arguments] * devices, options=OPTIONS)
        return [evaluate(module, *arguments, options=OPTIONS)]
    except EvalError as error:
        _shown(error)
        cause = error.__cause__
        if isinstance(cause, MemoryError | RecursionError) and not isinstance(cause, HloError):
            raise Broken(f"evaluation ended in {type(cause).__name__}: {error}") from error
        return None
    except HloError as error:
        _shown(error)
        return None


def arrays(literal: Literal) -> list[np.ndarray]:
    """The arrays of a literal, in order."""
    if literal.shape.is_tuple:
        return [x for part in literal.elements for x in arrays(part)]
    return [] if literal.shape.is_token else [literal.array]


def _only_bytes_fit(module: Module) -> bool:
    """Whether an array has so many elements that wider ones have more bytes than 64 bits count:
    no memory holds it, and passes that compute in a wider type cannot say so."""
    leaves = (s for i in module.instructions() for s in i.shape.leaves())
    return any(s.is_array and prod(s.dims) >= 1 << 59 for s in leaves)


def _written_and_read(module: Module) -> None:
    from hloom.ir.copy import copy_module, difference
    from hloom.ir.proto import module_from_bytes, module_to_bytes
    from hloom.ir.text import PrintOptions, parse_module, show_module
    from hloom.ir.text.options import PRESETS
    from hloom.ir.verify import verify

    whole = PrintOptions(large_constants=True)
    for write, read in (
        (lambda m: show_module(m, whole), parse_module),
        (module_to_bytes, module_from_bytes),
    ):
        try:
            written = write(module)
        except HloError as error:  # some values have no place in the form, and it says so
            _shown(error)
            continue
        back = read(written)
        verify(back)
        again = write(back)
        # Readers write some shardings in normal form: then the second reading is compared.
        if again != written and write(read(again)) != again:
            raise Broken(f"{read.__name__} does not read back what {write.__name__} wrote")
    copied = copy_module(module)
    verify(copied)
    if found := difference(module, copied):
        raise Broken(f"a copy differs: {found}")
    for preset in PRESETS.values():
        show_module(module, preset())


def _analysed(module: Module) -> None:
    from hloom.analysis.cost import module_cost
    from hloom.analysis.statistics import module_statistics

    module_statistics(module)
    module_cost(module)
    module._repr_html_()


# Passes after which values differ by design: the interpreter draws from numpy's generator, and
# custom calls give zeros here, whatever they are.
LEFT_OUT = frozenset(("domain-verifier", "spmd-partitioner", "stateful-rng-spmd-partitioner"))
"""The one refuses what a program says that is not so; after the other it takes parts of arguments
(`partition_programs.py` compares those)."""
OTHER_NUMBERS = frozenset(
    ("rng-expander", "custom-call-expander", "async-collective-custom-call-rewriter")
)


def _passed(module: Module, arguments: list[Literal] | None, before: list[Literal] | None) -> None:
    from hloom.ir.copy import copy_module
    from hloom.ir.verify import verify
    from hloom.passes import PASSES, pass_named

    every = copy_module(module)
    for name in sorted(set(PASSES) - LEFT_OUT):
        alone = copy_module(module)
        try:
            if not pass_named(name).run(alone).changed:
                continue
            pass_named(name).run(every)
        except UnsupportedError:
            # It said clearly what it makes no code for; what it left half done does not count.
            every = copy_module(module)
            continue
        if name in OTHER_NUMBERS:
            before = None
        _still(name, alone, arguments, before)
        try:
            verify(every)
        except HloError as error:
            raise Broken(f"after all up to {name}: {error}") from error
    _still("all passes", every, arguments, before)


def _still(
    name: str,
    after: Module,
    arguments: list[Literal] | None,
    before: list[Literal] | None,
) -> None:
    """Valid after a pass, and of the same value."""
    from hloom.ir.verify import verify

    try:
        verify(after)
    except HloError as error:
        raise Broken(f"after {name}: {error}") from error
    if before is None:
        return
    now = outcome(after, arguments)
    if now is None:
        raise Broken(f"after {name} it can no longer be evaluated")
    for a, b in zip(before, now, strict=True):
        if not same(a, b):
            raise Broken(f"{name} changed the value {a} to {b}")


def same(a: Literal, b: Literal) -> bool:
    """Equal shapes; equal values up to the tolerance of their type; NaN equals NaN."""
    for x, y in zip(arrays(a), arrays(b), strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        if x.dtype.kind in "biu":
            if not np.array_equal(x, y):
                return False
            continue
        if x.dtype.name.startswith(("int", "uint")):
            if not np.array_equal(x.astype(np.int8), y.astype(np.int8)):
                return False
            continue
        wide: Any = np.complex128 if x.dtype.kind == "c" else np.float64
        tolerance = TOLERANCE.get(a.shape.dtype.name, 0.3)
        with np.errstate(all="ignore"):
            p, q = x.astype(wide), y.astype(wide)
            if not np.allclose(p, q, tolerance, tolerance, equal_nan=True):
                return False
    return True
