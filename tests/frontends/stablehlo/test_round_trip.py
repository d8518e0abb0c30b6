"""HLO goes to StableHLO and comes back as it was: every operation, the examples, the corpus."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jaxlib", reason="StableHLO is written with jaxlib")

import hloom
from bench import corpus
from hloom.base.diagnostics import HloError
from hloom.interp import draw_instance
from hloom.ir.op import OPS
from hloom.types.dtype import dtype as named
from tests.frontends.stablehlo.round_trip import lost, reread

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.hlo"))
CORPUS = sorted((corpus.CORPUS / "cpu").glob("*.hlo"))
MODELS = [p for folder in CORPUS[:1] for p in sorted(folder.parents[1].glob("multi/*.hlo"))]
SEEDS = range(40 if "HLOOM_PEER_ALL" in os.environ else 6)

CANNOT = {
    "dimensions of no known size": "has a dimension without a size",
    "control edges": "waits for another instruction",
}


@pytest.mark.parametrize("opcode", sorted(OPS))
def test_drawn_instances_come_back(opcode):
    kept = 0
    for seed in SEEDS:
        module = draw_instance(opcode, seed)
        try:
            found = lost(module)
        except HloError as error:
            assert any(words in str(error) for words in CANNOT.values()), f"{error}\n{module}"
            continue
        assert not found, f"{found}\n{module}"
        kept += 1
    assert kept, "every instance was refused"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_come_back(path):
    assert not lost(hloom.load(path))


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS, reason="there is no corpus here")
@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.stem)
def test_corpus_comes_back(path):
    module = hloom.load(path)
    for i in module.instructions():
        if i.opcode == "constant" and i.attrs.literal.is_elided:  # what is made up is written out
            i.attrs = replace(i.attrs, literal=hloom.Literal.owning(i.attrs.literal.array))
    assert not lost(module)


@pytest.mark.slow
@pytest.mark.skipif(not MODELS, reason="there is no corpus here")
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_models_for_many_devices_come_back(path):
    """Dumps from before layouts are assigned: a loop and its body may say different ones."""
    assert not lost(hloom.load(path), layouts=False)


def test_buffers_come_back():
    module = hloom.parse(
        """HloModule m
        ENTRY e {
          a = b(u8[8]) custom-call(), custom_call_target="CreateBuffer"
          x = b(u8[8]) custom-call(a), custom_call_target="fill",
            output_to_operand_aliasing={{}: (0, {})}
          ROOT u = u8[8] custom-call(x), custom_call_target="Unpin",
            output_to_operand_aliasing={{}: (0, {})}
        }"""
    )
    assert not lost(module)


def test_constants_come_back_with_every_bit():
    names = "pred s2 s4 s8 u4 s64 u64 f16 bf16 f32 f64 f8e4m3fn f8e8m0fnu f4e2m1fn c64 c128"
    for name in names.split():
        element = named(name)
        rng = np.random.default_rng(1)
        for dims in ((), (3,), (2, 70), (0, 2)):
            raw = rng.integers(0, 200, (*dims, element.numpy.itemsize), np.uint8)
            if element.is_pred or element.bits < 8:
                array = np.asarray(rng.integers(0, 2, dims)).astype(element.numpy)
            else:
                array = np.ascontiguousarray(raw).view(element.numpy).reshape(dims)
            b = hloom.Builder("constants")
            literal = hloom.Literal.owning(np.array(array), None)
            module = b.build(b.constant(literal))
            (made,) = (i for i in reread(module).entry if i.opcode == "constant")
            assert made.attrs.literal == literal, (name, dims)
