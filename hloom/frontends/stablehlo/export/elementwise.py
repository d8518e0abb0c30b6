"""Operations on each element."""

from __future__ import annotations

from hloom.frontends.stablehlo.elementwise import ACCURATE, SAME
from hloom.frontends.stablehlo.export.registry import export
from hloom.frontends.stablehlo.export.writer import Writer
from hloom.ir.instruction import Instruction

CHLO = "acos acosh asin asinh atanh cosh erf mulhi sinh".split()


def renamed(name: str):
    def write(w: Writer, i: Instruction) -> None:
        w.simple(i, name)

    return write


for _name in SAME:
    export(_name.replace("_", "-"))(renamed(f"stablehlo.{_name}"))
for _name in CHLO:
    export(_name)(renamed(f"chlo.{_name}"))


def accurate(name: str):
    def write(w: Writer, i: Instruction) -> None:
        stated = i.attrs.result_accuracy
        if stated is None or stated.is_default:
            w.simple(i, name)
            return
        mode = (stated.mode or "tolerance").upper()
        numbers = f"atol = {stated.atol:e}, rtol = {stated.rtol:e}, ulps = {stated.ulps}"
        mode = f"#stablehlo.result_accuracy_mode<{mode}>"
        text = f"#stablehlo.result_accuracy<{numbers}, mode = {mode}>"
        w.simple(i, name, {"result_accuracy": text})

    return write


for _name in ACCURATE:
    export(_name.replace("_", "-"), handles="result_accuracy")(accurate(f"stablehlo.{_name}"))


@export("compare", handles="direction type")
def compare(w: Writer, i: Instruction) -> None:
    fields = {
        "comparison_direction": f"#stablehlo<comparison_direction {i.attrs.direction}>",
    }
    if i.attrs.type is not None:
        fields["compare_type"] = f"#stablehlo<comparison_type {i.attrs.type}>"
    w.simple(i, "stablehlo.compare", fields)


@export("reduce-precision", handles="exponent_bits mantissa_bits")
def reduce_precision(w: Writer, i: Instruction) -> None:
    fields = {
        "exponent_bits": f"{i.attrs.exponent_bits} : i32",
        "mantissa_bits": f"{i.attrs.mantissa_bits} : i32",
    }
    w.simple(i, "stablehlo.reduce_precision", fields)
