"""Writes `builder.pyi` from the op declarations, so that editors know every signature.

`python -m hloom.ir.stub` rewrites the file; a test holds that it is up to date.
"""

import keyword
from pathlib import Path

from hloom.ir.op import OPS, REQUIRED, Field, OpDef

TARGET = Path(__file__).with_name("builder.pyi")

HEAD = '''\
"""Generated from the op declarations by `make stub`; do not edit."""

from typing import Any

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.aliasing import OutputOperandAliasing
from hloom.ir.values.conv_dims import ConvolutionDimensions
from hloom.ir.values.domain import Domain
from hloom.ir.values.groups import ReplicaGroups
from hloom.ir.values.padding import Padding
from hloom.ir.values.precision import ResultAccuracy
from hloom.ir.values.slices import Slices
from hloom.ir.values.window import Window
from hloom.types.literal import Literal
from hloom.types.shape import Shape

ShapeLike = Shape | str

def as_shape(shape: ShapeLike) -> Shape: ...

class Builder:
    def __init__(self, name: str = ...) -> None: ...
    def computation(self, name: str) -> Builder: ...
    def finish(self, root: Instruction) -> Computation: ...
    def scalar(self, opcode: str, dtype: str) -> Computation: ...
    def copy_of(self, computation: Computation) -> Computation: ...
    def build(self, root: Instruction) -> Module: ...
    @staticmethod
    def stand_alone(computation: Computation, name: str | None = ...) -> Module: ...
    def parameter(
        self, shape: ShapeLike, *, name: str | None = ..., number: int | None = ...
    ) -> Instruction: ...
    def constant(
        self, value: Any, shape: ShapeLike | None = ..., *, name: str | None = ...
    ) -> Instruction: ...
    def emit(
        self,
        opcode: str,
        *operands: Instruction,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
        **attributes: Any,
    ) -> Instruction: ...
'''


def method_name(opcode: str) -> str:
    """The Python name of an operation: `_` for `-`, and one behind a keyword."""
    name = opcode.replace("-", "_")
    return name + "_" if keyword.iskeyword(name) else name


def attribute_text(field: Field) -> str:
    python = field.kind.python
    if field.default is REQUIRED:
        return f"{field.name}: {python}"
    optional = f"{python} | None" if field.default is None else python
    return f"{field.name}: {optional} = ..."


def method_text(op: OpDef) -> str:
    """The signature of one operation, with its equation as docstring."""
    inputs: list[str] = ["self"]
    for name in op.operands:
        inputs.append(f"*{name}: Instruction" if name == op.variadic else f"{name}: Instruction")
    if op.variadic is not None and op.variadic != op.operands[-1]:
        inputs = ["self", "*operands: Instruction"]
    keywords = [attribute_text(f) for f in op.fields]
    for name in op.called:
        many = "tuple[Computation, ...]" if op.called_variadic else "Computation"
        keywords.append(f"{name}: {many}")
    keywords.append("shape: ShapeLike" + (" | None = ..." if op.infers else ""))
    keywords.append("name: str | None = ...")
    star = [] if any(i.startswith("*") for i in inputs) else ["*"]
    lines = "".join(f"        {part},\n" for part in [*inputs, *star, *keywords])
    doc = op.doc.replace("\\", "\\\\").split("\n")[0]
    return (
        f"    def {method_name(op.name)}(\n{lines}    ) -> Instruction:\n"
        f'        """{doc}"""\n        ...\n'
    )


def stub_text() -> str:
    """The whole stub file."""
    own = {"parameter", "constant"}
    methods = [method_text(op) for name, op in sorted(OPS.items()) if name not in own]
    return HEAD + "".join(methods)


def main() -> None:
    TARGET.write_text(stub_text())


if __name__ == "__main__":
    main()
