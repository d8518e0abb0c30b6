"""Operations of StableHLO by their specification: cases in text, one file for each theme.

`// case NAME` begins a case, a module with a function main of no arguments. Its value is what
StableHLO's own reference interpreter computes; where a line `// gives:` stands, for what that
interpreter lacks, it is that. Every case is interpreted and compiled.
"""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

import hloom
from hloom.frontends.stablehlo.bindings import new_context
from hloom.frontends.stablehlo.constants import literal_of_text
from hloom.frontends.stablehlo.read import module_of_text
from hloom.frontends.stablehlo.types import Types

HERE = Path(__file__).parent / "cases"
_CASE = re.compile(r"^// case (.+)\n", re.M)
TOLERANCE = {"f64": 1e-12, "c128": 1e-12, "f32": 2e-6, "c64": 4e-6, "f16": 2e-3, "bf16": 1e-2}


def cases():
    for path in sorted(HERE.glob("*.mlir")):
        _, *parts = _CASE.split(path.read_text())
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            yield pytest.param(text, id=f"{path.stem}: {name}")


def expected(text: str) -> list[hloom.Literal]:
    """What is written after `gives:`, else what the reference interpreter computes."""
    written = re.search(r"// gives: (.*)", text)
    if written:
        return [constant(part) for part in written[1].split("; ")]
    with new_context() as context, ir.Location.unknown():
        stablehlo.register_interpreter_dialect(context)
        found = stablehlo.eval_module(ir.Module.parse(text), [])
        entry = ir.Module.parse(text).body.operations
        main = next(op for op in entry if op.attributes["sym_name"].value == "main")
        kinds = main.attributes["function_type"].value.results
        shapes = [Types().shape(kind) for kind in kinds]
        return [literal_of_text(str(a), s) for a, s in zip(found, shapes, strict=True)]


def constant(text: str) -> hloom.Literal:
    shape, _, value = text.partition(" ")
    module = hloom.parse(f"ENTRY e {{ ROOT c = {shape} constant({value}) }}")
    return module.entry.root.attrs.literal


def leaves(value) -> list[np.ndarray]:
    if isinstance(value, hloom.Literal) and not value.is_tuple:
        return [value.array]
    if isinstance(value, hloom.Literal):
        return [x for part in value.elements for x in leaves(part)]
    if isinstance(value, tuple):
        return [np.asarray(x) for x in value]
    return [np.asarray(value)]


def agree(found: np.ndarray, wanted: hloom.Literal) -> bool:
    if found.shape != wanted.array.shape or found.dtype != wanted.array.dtype:
        return False
    tolerance = TOLERANCE.get(wanted.dtype.name, 0)
    if not tolerance:
        return bool(np.array_equal(found, wanted.array))
    wide = np.complex128 if wanted.dtype.is_complex else np.float64
    return bool(
        np.allclose(
            found.astype(wide), wanted.array.astype(wide), tolerance, tolerance, equal_nan=True
        )
    )


@pytest.mark.parametrize("text", list(cases()))
def test_case(text):
    wanted = expected(text)
    module = module_of_text(text)
    hloom.verify(module)
    for how, found in (
        ("interpreted", leaves(hloom.evaluate(module))),
        ("compiled", leaves(hloom.compile(module)())),
    ):
        assert len(found) == len(wanted)
        for mine, other in zip(found, wanted, strict=True):
            assert agree(mine, other), f"{how}: {mine}, not {other.array}"
