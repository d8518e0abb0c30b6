"""Drawn instances of every opcode XLA's CPU runs, computed by both."""

import numpy as np
import pytest

pytest.importorskip("jaxlib")
pytest.importorskip("jax")

import hloom.ir  # noqa: F401
from hloom.interp import draw_instance, evaluate, random_arguments
from hloom.ir.op import OPS
from hloom.ir.text import show_module
from hloom.types.literal import Literal
from tests.peer.newer_opcodes import MISSING
from tests.peer.xla_op import run_module

SEEDS = range(3)
TOLERANCE = {"f64": 1e-9, "c128": 1e-8, "f32": 2e-5, "c64": 5e-5, "f16": 4e-3, "bf16": 2e-2}
# What the conversion to StableHLO loses or refuses, what XLA's CPU does not have, and what has no
# one value.
LEFT_OUT = {
    "after-all": "tokens are no arrays",
    "all-gather-start all-gather-done": "conversion",
    "all-reduce-start all-reduce-done": "conversion",
    "collective-reduce": "XLA's CPU lacks it",
    "all-to-all ragged-all-to-all collective-broadcast": "XLA's CPU crashes or lacks it",
    "async-start async-update async-done copy-start copy-done": "conversion",
    "bitcast": "the conversion drops layouts",
    "concatenate": "XLA crashes on empty operands",
    "constant": "the conversion spoils narrow types",
    "custom-call": "targets unknown to the CPU",
    "collective-permute": "conversion of several operands",
    "dynamic-reshape get-dimension-size set-dimension-size": "PadToStatic is missing",
    "infeed outfeed send send-done recv recv-done": "host",
    "mulhi scaled-dot": "conversion",
    "partition-id replica-id": "several devices",
    "popcnt": "XLA counts the bits of the byte that holds a narrow integer",
    "ragged-dot": "XLA's CPU lacks it",
    "rng rng-get-and-update-state": "no one value",
}
NOT_COMPARED = {*" ".join(LEFT_OUT).split(), *MISSING}


def flat(literal: Literal) -> list[Literal]:
    if literal.is_tuple:
        return [part for element in literal.elements for part in flat(element)]
    return [literal]


@pytest.mark.parametrize("opcode", sorted(set(OPS) - NOT_COMPARED))
def test_instances_mean_what_xla_computes(opcode):
    compared = 0
    for seed in SEEDS:
        module = draw_instance(opcode, seed)
        if module.replica_count * module.num_partitions > 1:
            continue
        arguments = random_arguments(module, seed)
        inputs = [part.array for a in arguments for part in flat(a)]
        try:
            theirs = run_module(show_module(module), *inputs)
        except Exception as error:  # XLA's own limits, such as complex inverse sines
            assert any(word in str(error) for word in ("UNIMPLEMENTED", "INTERNAL")), error
            continue
        for mine, other in zip(flat(evaluate(module, *arguments)), theirs, strict=True):
            assert same(mine, other), show_module(module)
        compared += 1
    if not compared:
        pytest.skip("XLA's CPU ran none of the instances")


def same(mine: Literal, other: np.ndarray) -> bool:
    a = mine.array
    if a.shape != other.shape or a.dtype != other.dtype:
        return False
    if mine.dtype.is_integral or mine.dtype.is_pred:
        return a.tobytes() == np.ascontiguousarray(other).tobytes()
    tolerance = TOLERANCE.get(mine.dtype.name, 0.3)
    wide = np.complex128 if mine.dtype.is_complex else np.float64
    return bool(
        np.allclose(a.astype(wide), other.astype(wide), tolerance, tolerance, equal_nan=True)
    )
