"""Compares programs read from StableHLO with JAX, in a process of its own.

    stablehlo.py folds 40        every fortieth of a family
    stablehlo.py                 all

Each program is lowered by JAX to StableHLO, read, verified and computed: by the interpreter, or
natively where a custom call is in it. Programs for several devices are read and verified. Every
fourth goes through a portable artifact, every fourth through text, every fifth to StableHLO and
back. Prints a line of JSON each.
"""

import json
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

import hloom
from hloom.frontends.stablehlo.read import imported, module_of_bytes, module_of_text
from tests.frontends.stablehlo.round_trip import lost
from tests.peer.programs import load
from tests.peer.programs.check import all_agree, chosen, flat, violated
from tests.peer.programs.devices import put

KNOWN = {
    "-complex64-corners": "acos and acosh on the cut below the real axis, where XLA's is above",
    "-complex128-corners": "the same",
    "float8_e8m0fnu": "XLA computes each step in a type without a sign",
    "asinh-float": "the same, in eight and four bits",
    "tan-float8": "XLA rounds sine and cosine to eight bits before it divides",
}
"""Where the value of a program is not compared, and why."""


def read(lowered, number: int):
    """The module, by one of the ways in which StableHLO comes."""
    given = lowered.compiler_ir("stablehlo")
    if number % 4 == 1:
        version = stablehlo.get_current_version()
        copy = ir.Module.parse(given.operation.get_asm(enable_debug_info=True), given.context)
        return module_of_bytes(stablehlo.serialize_portable_artifact(copy, version, True))
    if number % 4 == 3:
        return module_of_text(given.operation.get_asm(enable_debug_info=True))
    return imported(given)


def value(module, arguments):
    if any(i.opcode == "custom-call" for i in module.instructions()):
        found = hloom.compile(module)(*arguments)
        return [np.asarray(x) for x in jax.tree.leaves(found)]
    return flat(hloom.evaluate(module, *arguments))


def check(name: str, program, number: int) -> dict:
    if name.startswith("devices/"):
        function, specs, arguments = program.function, *program.arguments
        module = read(jax.jit(function).lower(*put(arguments, specs)), number)
        return {"name": name, "wrong": violated(module) or lost(module)}
    lowered = jax.jit(program.function, keep_unused=True).lower(*program.arguments)
    module = read(lowered, number)
    wrong = violated(module) or (lost(module) if number % 5 == 2 else "")
    if wrong:
        return {"name": name, "wrong": wrong}
    if any(word in name for word in KNOWN):
        return {"name": name, "wrong": ""}
    arguments = [np.asarray(x) for x in jax.tree.leaves(program.arguments)]
    expected = [np.asarray(x) for x in jax.tree.leaves(lowered.compile()(*program.arguments))]
    return {"name": name, "wrong": all_agree(value(module, arguments), expected, program.slack)}


def main(words: list[str]) -> None:
    programs = load()
    for number, name in enumerate(chosen(words, programs)):
        try:
            said = check(name, programs[name], number)
        except Exception as error:
            said = {"name": name, "wrong": f"{type(error).__name__}: {str(error)[:400]}"}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
